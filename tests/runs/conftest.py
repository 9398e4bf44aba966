"""The recorded cluster's runs, as the tests of reports have them."""

from tests.report.conftest import recorded

__all__ = ["recorded"]

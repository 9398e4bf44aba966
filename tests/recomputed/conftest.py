"""The raw files, read once."""

import pytest

from tests.conftest import StartKernels
from tests.recomputed.raw_files import Recording
from tests.recomputed.truth import Truth
from tests.recordings import DEMONSTRATION


@pytest.fixture(scope="session", autouse=True)
def _kept_kernels(kept_kernels: StartKernels) -> None:
    """Of all tests in this folder."""


@pytest.fixture(scope="session")
def truth() -> Truth:
    """What is true of the recordings that the reports are shown on."""
    return Truth(Recording(DEMONSTRATION))

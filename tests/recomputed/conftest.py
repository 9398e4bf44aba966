"""The raw files, read once."""

import pytest

from tests.recomputed.raw_files import Recording
from tests.recomputed.truth import Truth
from tests.recordings import DEMONSTRATION


@pytest.fixture(scope="session")
def truth() -> Truth:
    """What is true of the recordings that the reports are shown on."""
    return Truth(Recording(DEMONSTRATION))

"""The recorded runs with injected limits as a dataset."""

from pathlib import Path

import pytest

from citus_analysis.dataset import Dataset, ingest, open_dataset

LIMITS = Path(__file__).parents[1] / "data" / "limits"


@pytest.fixture(scope="session")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    out = tmp_path_factory.mktemp("limits") / "dataset"
    ingest([LIMITS], out)
    return open_dataset(out)

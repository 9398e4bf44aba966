"""The sample data of the repository tell what data/README.md says of them: from the shipped files alone."""

from pathlib import Path

import polars as pl
import pytest

from citus_analysis.dataset import Dataset, ingest, open_dataset
from citus_analysis.scaling import scale_runs
from citus_analysis.stats import compare_runs
from tests.recordings import ROOT

DEMONSTRATION = ROOT / "data" / "recorded"
REPEATS = 5


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("demonstration")
    summary = ingest([DEMONSTRATION], folder / "dataset")
    assert summary.exit_code == 0, summary.messages
    return open_dataset(folder / "dataset")

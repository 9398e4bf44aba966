"""The recorded faults, as `make faults` and docs/reports.md show them."""

from pathlib import Path

import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis.dataset import Dataset, ingest, open_dataset
from citus_analysis.published import audit_runs
from citus_analysis.report.page import count_runs_by_severity, find_shared_doubts
from citus_analysis.report.server import state_servers

FAULTS = Path(__file__).parents[2] / "data" / "recorded-faults"


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("faults") / "dataset"
    ingest([FAULTS], folder, jobs=1)
    return open_dataset(folder)


def test_runs_that_failed_enter_no_number(faults: Dataset) -> None:
    selection = ca.runs.select_runs(faults)
    assert set(selection.left_out["resource"]) == {"w2-fail-clients", "w2-fail-dup-insert", "w2-fail-stop-insert"}
    assert selection.runs.height == 4


def test_the_audit_counts_them(faults: Dataset) -> None:
    result = audit_runs(faults.table("runs"), faults.table("clients"))
    failed = result.details.filter(pl.col("severity") != "green", check="run_status")
    assert failed.height == 3
    # What all runs share, their shortness, is said once and hides no failure.
    counts = count_runs_by_severity(result, without=find_shared_doubts(result))
    assert counts["amber"] + counts["red"] >= 3


def test_the_servers_say_what_happened(faults: Dataset) -> None:
    found = ca.server_profile(faults)
    messages = " ".join(found.errors["message"].drop_nulls().to_list())
    assert "duplicate key value violates unique constraint" in messages
    assert "too many clients already" in messages
    assert state_servers(found)

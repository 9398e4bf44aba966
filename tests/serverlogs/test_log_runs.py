"""Server logs without a benchmark as runs: windows, what falls into them, and the profile of them."""

import shutil
from pathlib import Path

import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis.dataset import Dataset, ingest, open_dataset
from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.report.profile import state_profile
from citus_analysis.report.render import render_report
from citus_analysis.serverlogs import with_log_runs
from citus_analysis.serverlogs.log_runs import LogRuns
from tests.recordings import RECORDED

pytestmark = pytest.mark.usefixtures("kept_kernels")

SOURCE = RECORDED / "w2-t4-insert"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs of three nodes of one iteration with the cluster's own table of nodes, and no file of a load generator."""
    base = tmp_path_factory.mktemp("logs")
    tree = base / "source" / "cluster"
    (tree / "pglogs").mkdir(parents=True)
    for log in SOURCE.glob("pglogs/PGLOG-*-1.log*"):
        shutil.copy(log, tree / "pglogs")
    shutil.copy(SOURCE / "pg_dist_node.csv", tree)
    ingest([tree.parent], base / "dataset")
    return base / "dataset"


@pytest.fixture(scope="module")
def logs(folder: Path) -> Dataset:
    return open_dataset(folder)


def test_the_whole_log_is_a_run(logs: Dataset) -> None:
    windows = with_log_runs(logs)
    (run,) = windows.table("runs").to_dicts()
    assert (run["run_id"], run["status"], run["workers"], run["threads"]) == ("cluster/whole log", "ok", 2, 0)
    received = logs.table("statements").drop_nulls("executed")
    assert run["operations_done"] == received.height
    seconds = (run["end_time"] - run["start_time"]).total_seconds()
    assert run["throughput_ops_s"] == pytest.approx(received.height / seconds)
    assert windows.table("statements")["run_id"].unique().to_list() == ["cluster/whole log"]
    assert windows.table("match_quality")["tasks"].sum() == logs.table("match_quality")["tasks"].sum()


def test_windows_share_no_statement_and_lose_none(logs: Dataset) -> None:
    windows = with_log_runs(logs, window_s=10)
    assert isinstance(windows, LogRuns)
    runs, statements = windows.table("runs"), windows.table("statements").drop_nulls("executed")
    assert runs.height >= 2
    assert runs["operations_done"].sum() == statements.height == logs.table("statements").drop_nulls("executed").height
    counts = dict(statements.group_by("run_id").len().iter_rows())
    assert counts == dict(runs.select("run_id", "operations_done").iter_rows())


def test_an_interval_of_time_holds_what_ended_in_it(logs: Dataset) -> None:
    windows = with_log_runs(logs, "2026-11-20 21:01:30", "2026-11-20 21:01:32")
    ends = windows.table("statements")["end_time"]
    assert ends.len() > 0
    assert str(ends.min()) >= "2026-11-20 21:01:30"
    assert str(ends.max()) < "2026-11-20 21:01:32"
    with pytest.raises(InsufficientDataError, match="no statement of a client"):
        with_log_runs(logs, "2027-01-01")
    with pytest.raises(UsageError, match="windows of 7 s"):
        with_log_runs(logs, window_s=7)


def test_a_dataset_with_runs_stays_as_it_is_unless_windows_are_asked_for(recorded_dataset: Dataset) -> None:
    assert with_log_runs(recorded_dataset) is recorded_dataset
    assert isinstance(with_log_runs(recorded_dataset, window_s=600), LogRuns)


def test_large_tables_are_read_in_part(logs: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    windows, whole = with_log_runs(logs), logs.table("spans")

    def refused(_self: Dataset, name: str) -> None:
        raise AssertionError(f"all of {name}")

    monkeypatch.setattr(Dataset, "table", refused)
    tasks = windows.scan("spans").filter(pl.col("kind") == "task").select("span_id").collect()
    assert sorted(tasks["span_id"]) == sorted(whole.filter(pl.col("kind") == "task")["span_id"])


def test_the_profile_of_logs_is_that_of_the_benchmark(logs: Dataset, recorded_dataset: Dataset) -> None:
    windows = with_log_runs(logs)
    found = ca.spans.study_profile(ca.runs.select_runs(windows), windows)
    statements = recorded_dataset.table("statements").filter(resource="w2-t4-insert", iteration=1)
    by = ["statement_kind", "executed"]
    expected = ca.spans.coarse_profile(statements.drop_nulls("executed"), by=by, skip_first=5)
    shown = found.profile.select(*by, "quantity", "n", "mean_us").drop_nulls("mean_us")
    known = expected.filter(pl.col("statement_kind") == "insert").select(shown.columns).drop_nulls("mean_us")
    assert shown.sort(*by, "quantity").rows() == known.sort(*by, "quantity").rows()
    sentences = [*map(str, state_profile(found))]
    assert "with an unknown number of client threads, a remote INSERT takes 1.188 ms" in sentences[0]


def test_the_page_of_logs_alone_is_made(folder: Path, tmp_path: Path) -> None:
    render_report("profile", folder, tmp_path, {"window_s": 10})
    page = (tmp_path / "profile.html").read_text(encoding="utf-8")
    assert "an unknown number of client threads" in page
    assert "0 client threads" not in page

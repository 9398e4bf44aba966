"""The files of one load generator: its report, its standard error and its transaction logs, as pgbench leaves them."""

from pathlib import Path

import pytest

from citus_analysis.dataset import Dataset, ingest, open_dataset

REPORT = """pgbench (15.18)
transaction type: <builtin: select only>
scaling factor: 1
query mode: simple
number of clients: 2
number of threads: 1
duration: 2 s
number of transactions actually processed: 400
latency average = 10.000 ms
tps = 200.000000 (without initial connection time)
"""
PROGRESS = """starting vacuum...end.
progress: 1795449671.004 s, 190.0 tps, lat 10.500 ms stddev 1.000, 0 failed
progress: 1795449672.004 s, 210.0 tps, lat 9.500 ms stddev 1.000, 0 failed
"""
LOG = "0 1 10000 0 1795449671 100000\n0 2 10000 0 1795449671 200000\n"


def dataset(folder: Path, **files: str) -> Dataset:
    """The files, whose names have `__` for a dot, below `tree/r`."""
    for name, text in files.items():
        path = folder / "tree" / "r" / name.replace("__", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    summary = ingest([folder / "tree"], folder / "out")
    assert summary.exit_code == 0
    return open_dataset(folder / "out")


@pytest.mark.parametrize("ending", ["err", "stderr"])
def test_report_standard_error_and_logs_are_one_run(ending: str, tmp_path: Path) -> None:
    found = dataset(tmp_path, bench__out=REPORT, **{f"bench__{ending}": PROGRESS, "pgbench_log__812": LOG})
    (run,) = found.runs().rows(named=True)
    assert (run["run_id"], run["status"], run["drivers"], run["threads"]) == ("r/bench", "ok", 1, 2)
    assert (run["operations_done"], run["throughput_ops_s"]) == (400, 200.0)
    assert (run["end_time"] - run["start_time"]).total_seconds() == 2
    assert found.table("client_series")["run_id"].to_list() == ["r/bench"] * 2
    assert found.table("client_latencies")["run_id"].to_list() == ["r/bench"] * 2


def test_a_run_that_was_aborted_according_to_its_standard_error_failed(tmp_path: Path) -> None:
    aborted = PROGRESS + "pgbench: error: Run was aborted; the above results are incomplete.\n"
    (run,) = dataset(tmp_path, bench__out=REPORT, bench__err=aborted).runs().rows(named=True)
    assert run["status"] == "failed"


def test_standard_error_alone_is_a_run_without_a_summary(tmp_path: Path) -> None:
    (run,) = dataset(tmp_path, bench__err=PROGRESS).runs().rows(named=True)
    assert (run["run_id"], run["status"]) == ("r/bench", "failed")


def test_logs_beside_several_reports_stay_alone(tmp_path: Path) -> None:
    found = dataset(tmp_path, one__out=REPORT, two__out=REPORT.replace("400", "401"), pgbench_log__812=LOG)
    assert sorted(found.runs()["run_id"]) == ["r/one", "r/two"]
    assert found.table("client_latencies")["run_id"].unique().to_list() == ["r/pgbench_log"]

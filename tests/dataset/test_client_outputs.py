"""The files of one load generator: its report, its standard error and its transaction logs, as pgbench leaves them."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from citus_analysis.bottleneck.samples import align_to_runs
from citus_analysis.dataset import Dataset, ingest, open_dataset
from citus_analysis.dataset.identity import convert_facts
from citus_analysis.errors import UsageError

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
VMSTAT = """procs -----------memory---------- ---swap-- -----io---- -system-- -------cpu------- -----timestamp-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st gu                 UTC
"""
VMSTAT_ROW = " 1  0      0 100000   1000  20000    0    0     0     0  100  200  5  5 90  0  0  0 2026-11-23 16:01:"
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


@pytest.mark.parametrize(
    ("stated", "seconds"),
    [
        ({"start_time": "1795449670"}, 2.0),
        ({"start_time": "2026-11-23T17:01:10+01:00", "end_time": "2026-11-23T16:01:13Z"}, 3.0),
    ],
)
def test_times_of_a_run_that_prints_none_can_be_stated(stated: dict[str, str], seconds: float, tmp_path: Path) -> None:
    (tmp_path / "bench.out").write_text(REPORT)
    # The first row averages since boot, the last is from after the run.
    (tmp_path / "vmstat.out").write_text(VMSTAT + "".join(f"{VMSTAT_ROW}{second}\n" for second in (10, 11, 12, 59)))
    ingest([tmp_path / "bench.out", tmp_path / "vmstat.out"], tmp_path / "out", meta={"resource": "r", **stated})
    found = open_dataset(tmp_path / "out")
    (run,) = found.runs().rows(named=True)
    assert run["start_time"] == datetime(2026, 11, 23, 16, 1, 10, tzinfo=UTC)
    assert (run["end_time"] - run["start_time"]).total_seconds() == seconds
    assert align_to_runs(found.table("vm_samples"), found.runs()).height == 2


@pytest.mark.parametrize("text", ["yesterday", "2026-11-23T16:01:10", "16:01"])
def test_times_without_an_offset_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="start_time must be a time with its offset"):
        convert_facts({"start_time": text}, "--meta")

"""Outputs of load generators after public bug reports, and of other releases: what is read, and how it is judged.

The files are made after reports in the issue trackers of YCSB, pgbench, HammerDB and BenchBase; their numbers are made
up. Values that a case does not name are not asserted.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.runs.client_runs import CASES, find_run, read

PRESCRIBED = "operations were rolled back, as TPC-C prescribes"
#: File -> its format, and values of its row in `clients` and of its run.
RUNS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "40-ycsb-all-failed/input/load.log": (
        "ycsb",
        {"operations_done": 0, "failed_operations": 1, "throughput_ops_s": 0.0, "notes": None},
        {"status": "failed", "status_reason": "nothing was measured: 1 of 1 operations failed"},
    ),
    "41-ycsb-hang/input/load.log": (
        "ycsb",
        {"operations_done": 125, "throughput_ops_s": None},
        {"status": "failed", "status_reason": "no final summary: the client ended early"},
    ),
    "45-ycsb-status-counts/input/run.log": (
        "ycsb",
        {"operations_done": 1_001_907, "throughput_ops_s": 50057.3},
        {
            "status": "ok",
            "notes": "Throughput x RunTime: 1,001,647 printed, but its parts add up to 1001907",
        },
    ),
    "46-ycsb-read-failed/input/run.log": (
        "ycsb",
        {"failed_operations": 7, "notes": None},
        {"status": "degraded", "status_reason": "7 of 100 operations failed"},
    ),
    "55-hammerdb-order/input/old.log": (
        "hammerdb",
        {"new_orders_per_min": 1_465_149.0, "throughput_ops_s": 3_370_315 / 60, "threads": 8, "completed": True},
        {"status": "ok", "status_reason": None},
    ),
    "55-hammerdb-order/input/zero.log": (
        "hammerdb",
        {"new_orders_per_min": 0.0, "throughput_ops_s": 53_000 / 60},
        {"status": "failed", "status_reason": "nothing was measured: no new order succeeded"},
    ),
    "56-hammerdb-vu-failed/input/console.log": (
        "hammerdb",
        {"new_orders_per_min": 60_000.0, "reported_errors": 1, "connected_threads": None},
        {"status": "degraded", "status_reason": "errors of virtual users that were printed: 1"},
    ),
    "57-benchbase-goodput/input/a/tpch.summary.json": (
        "benchbase",
        {"throughput_ops_s": 0.010009098869862678, "operations_done": 22, "failed_operations": None},
        {
            "status": "ok",
            "notes": "Goodput: 0.02002/s printed, but Throughput is 0.01001/s, and there was no time to warm up",
        },
    ),
    "57-benchbase-goodput/input/b/tpcc.summary.json": (
        "benchbase",
        {"throughput_ops_s": 1751.193076636597, "runtime_ms": None, "operations_done": None, "script": "tpcc"},
        {"status": "ok", "status_reason": f"0.45 % of the {PRESCRIBED}"},
    ),
    "57v-benchbase-which-key/input/v1.summary.json": (
        "benchbase",
        {"operations_done": 104_528, "failed_operations": 472, "runtime_ms": None},
        {"status": "ok", "status_reason": f"472 of 105000 {PRESCRIBED}"},
    ),
    "57v-benchbase-which-key/input/v2.summary.json": (
        "benchbase",
        {"operations_done": 104_600, "failed_operations": 472, "runtime_ms": pytest.approx(60_000.0)},
        {"status": "ok", "status_reason": f"472 of 105072 {PRESCRIBED}"},
    ),
    "93-constant-runs/input/a-1.log": ("pgbench", {"completed": True, "notes": None}, {"status": "ok"}),
    "other-releases/input/ycsb-0.1.log": (
        "ycsb",
        {"tool_version": "0.1", "runtime_ms": 10107.0, "operations_done": 1000, "failed_operations": 0, "notes": None},
        {"status": "ok", "throughput_ops_s": 98.94132779261898},
    ),
    "other-releases/input/go-tpc-2019.log": (
        "go_tpc",
        {"new_orders_per_min": 376.0, "failed_operations": 2, "script": "TPC-C", "notes": None},
        {"status": "degraded", "throughput_ops_s": pytest.approx((45.4 + 376.0 + 366.3) / 60)},
    ),
    "other-releases/input/hammerdb-2.log": (
        "hammerdb",
        {"new_orders_per_min": 6461.0, "throughput_ops_s": 14_999 / 60, "threads": 4},
        {"status": "ok"},
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_what_a_client_printed_and_how_its_run_is_judged(name: str) -> None:
    expected_format, of_client, of_run = RUNS[name]
    found, tables = read(CASES / name)
    assert found is not None
    assert found.name == expected_format
    client = tables["clients"].row(0, named=True)
    assert {column: client[column] for column in of_client} == of_client
    run = find_run(tables["clients"])
    assert {column: run[column] for column in of_run} == of_run


@pytest.mark.parametrize(
    "name",
    [
        "59-yugabyte-tpcc/input/output.json",
        "59-yugabyte-tpcc/input/tpcc.log",
        "60-cockroach-workload/input/kv.log",
    ],
)
def test_other_tools_are_not_taken_for_these(name: str) -> None:
    assert read(CASES / name)[0] is None


def test_a_line_between_reports_is_no_value_of_them() -> None:
    _, tables = read(CASES / "48-pgbench-sweep-one-file" / "input" / "RESULTS.txt")
    assert not {"Run", "Instance"} & set(tables["client_metrics"]["metric"])
    assert {"Run: 1", "Instance: large"} <= set("\n".join(tables["rejects"]["excerpt"]).splitlines())


def test_an_error_of_a_virtual_user_is_in_the_errors() -> None:
    _, tables = read(CASES / "56-hammerdb-vu-failed" / "input" / "console.log")
    assert tables["client_errors"]["count"].sum() == 2
    assert any("msperclick" in text for text in tables["client_errors"]["message_class"])


#: A file, a line of it that is replaced, and the line that no format knows.
UNKNOWN = {
    "a result of HammerDB in another form": (
        "55-hammerdb-order/input/old.log",
        "Vuser 1:TEST RESULT : System achieved 3370315 PostgreSQL TPM at 1465149 NOPM",
        "Vuser 1:TEST RESULT : System reached 1465149 new orders a minute (NOPM)",
    ),
    "a name that pgbench does not print": (
        "93-constant-runs/input/a-1.log",
        "number of threads: 2",
        "Run: 2",
    ),
    "words behind a value of pgbench": (
        "93-constant-runs/input/a-1.log",
        "number of threads: 2",
        "number of threads: 2 of which one was slow",
    ),
    "a value of YCSB that is no number": (
        "46-ycsb-read-failed/input/run.log",
        "[READ-FAILED], Operations, 7",
        "[READ-FAILED], Operations, seven",
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_line_that_a_format_does_not_know_is_rejected(name: str, tmp_path: Path) -> None:
    source, known, unknown = UNKNOWN[name]
    text = (CASES / source).read_text(encoding="utf-8")
    assert f"{known}\n" in text
    changed = tmp_path / "changed.log"
    changed.write_text(text.replace(f"{known}\n", f"{unknown}\n"), encoding="utf-8")
    _, tables = read(changed)
    assert unknown in "\n".join(tables["rejects"]["excerpt"])
    assert not tables["client_metrics"]["metric"].str.contains("^Run$|of which").any()


def test_a_result_that_is_not_known_is_none(tmp_path: Path) -> None:
    source, known, unknown = UNKNOWN["a result of HammerDB in another form"]
    changed = tmp_path / "changed.log"
    changed.write_text((CASES / source).read_text(encoding="utf-8").replace(known, unknown), encoding="utf-8")
    _, tables = read(changed)
    run = find_run(tables["clients"])
    assert (run["status"], run["throughput_ops_s"]) == ("failed", None)


def test_a_virtual_user_that_ran_transactions_and_failed_makes_the_run_fail(tmp_path: Path) -> None:
    text = (CASES / "55-hammerdb-order" / "input" / "old.log").read_text(encoding="utf-8")
    changed = tmp_path / "changed.log"
    changed.write_text(text.replace("Vuser 4:FINISHED SUCCESS", "Vuser 4:FINISHED FAILED"), encoding="utf-8")
    _, tables = read(changed)
    run = find_run(tables["clients"])
    told = "1 of 8 client threads never connected, or ended early; errors of virtual users that were printed: 1"
    assert (run["status"], run["status_reason"]) == ("failed", told)

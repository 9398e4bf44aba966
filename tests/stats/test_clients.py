from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest

from citus_analysis.schema import TABLES
from citus_analysis.stats.merged_clients import MERGE_RULES, derive_operation_latencies, derive_runs, merge_clients

IDENTITY = {
    "run_id": "r",
    "resource": "w2",
    "system": "citus",
    "phase": "load",
    "workload": "A",
    "threads": 8,
    "records": 60000,
    "operations": 60000,
    "iteration": 1,
    "workers": 2,
    "drivers": 1,
}
CLIENT = {
    "source_id": "a",
    "run_id": "r",
    "resource": "w2",
    "iteration": 1,
    "role": "main",
    "part": 0,
    "tool": "ycsb",
    "throughput_ops_s": 5000.0,
    "runtime_ms": 12000.0,
    "threads": 16,
    "operations_planned": 60000,
    "operations_done": 60000,
    "failed_operations": 0,
    "completed": True,
}


def run(*changes: Mapping[str, Any], **identity: Any) -> dict[str, Any]:
    """The run that comes of one client per change."""
    rows = [CLIENT | {"source_id": str(n), "part": n} | dict(change) for n, change in enumerate(changes)]
    clients = TABLES["clients"].conform(pl.DataFrame(rows)) if rows else TABLES["clients"].empty()
    table = derive_runs(clients, pl.DataFrame([IDENTITY | identity], schema_overrides={"drivers": pl.Int32}))
    assert table.schema == TABLES["runs"].polars_schema()
    assert table.height == 1
    return table.row(0, named=True)


def test_every_merged_column_is_one_of_a_table() -> None:
    known = {*TABLES["clients"].names(), *TABLES["operation_latencies"].names()}
    assert set(MERGE_RULES) <= known


def test_what_pgbench_ran_is_the_workload_unless_the_files_say_another() -> None:
    changes = {"script": "select only", "query_mode": "simple", "scale_factor": 10, "rate_limited": True}
    found = run(changes, {**changes, "script": "simple update"}, phase=None, workload=None, drivers=2)
    assert (found["phase"], found["workload"]) == ("run", "select only + simple update")
    assert (found["query_mode"], found["scale_factor"], found["rate_limited"]) == ("simple", 10, True)
    stated = run(changes, phase="load", workload="A")
    assert (stated["phase"], stated["workload"]) == ("load", "A")


def test_the_rate_of_a_run_is_the_sum_over_its_drivers() -> None:
    limited = {"rate_limited": True, "target_ops_s": 500.0}
    assert run(limited, limited, drivers=2)["target_ops_s"] == 1000
    partly = run(limited, {}, drivers=2)
    assert (partly["rate_limited"], partly["target_ops_s"]) == (True, None)
    assert (run({})["rate_limited"], run({})["target_ops_s"]) == (False, None)


@pytest.mark.parametrize(
    ("changes", "status", "reason"),
    [
        ({}, "ok", None),
        ({"operations_done": 59984, "failed_operations": 16}, "degraded", "16 of 60000 operations failed"),
        (
            {"operations_done": 35259, "failed_operations": 0},
            "failed",
            "35259 of 60000 planned operations attempted",
        ),
        (
            {"operations_done": 35259, "failed_operations": 16},
            "failed",
            "35275 of 60000 planned operations attempted; 16 of 35275 operations failed",
        ),
        (
            {"completed": False, "throughput_ops_s": None, "operations_done": None},
            "failed",
            "no final summary: the client ended early",
        ),
        ({"time_limit_s": 60.0, "operations_done": 100}, "ok", None),
        ({"operations_planned": None, "operations_done": 60000}, "ok", None),
        ({"operations_planned": None, "operations_done": 100}, "failed", None),
        ({"failed_operations": None}, "ok", None),
    ],
)
def test_status(changes: dict[str, Any], status: str, reason: str | None) -> None:
    found = run(changes)
    assert found["status"] == status
    if reason is not None or status == "ok":
        assert found["status_reason"] == reason


def test_drivers_are_added_and_the_monitor_stays_out() -> None:
    halves = {"operations_planned": 30000, "operations_done": 30000}
    found = run(
        {"throughput_ops_s": 2000.0, "runtime_ms": 9500.0, **halves},
        {"throughput_ops_s": 2200.5, "runtime_ms": 9400.0, **halves},
        {"role": "monitor", "throughput_ops_s": 40.0, "runtime_ms": 99999.0, "operations_done": 5},
        drivers=2,
    )
    assert (found["throughput_ops_s"], found["runtime_ms"], found["operations_done"]) == (4200.5, 9500.0, 60000)
    assert (found["threads"], found["operations"], found["drivers"]) == (32, 60000, 2)
    assert found["monitored"]
    assert found["status"] == "ok"


def test_a_driver_without_a_log_is_named() -> None:
    found = run({"operations_planned": 30000, "operations_done": 30000}, drivers=2)
    assert found["status"] == "failed"
    assert found["status_reason"] == "no log of 1 of 2 main clients; 30000 of 60000 planned operations attempted"
    assert (found["threads"], found["operations"]) == (8, 60000)
    assert not found["monitored"]


def test_a_sum_with_an_unknown_summand_is_unknown() -> None:
    found = run({}, {"throughput_ops_s": None, "completed": False}, drivers=2)
    assert found["throughput_ops_s"] is None
    assert found["status_reason"].startswith("no final summary: 1 of 2 clients ended early")


def test_a_run_without_any_log_failed() -> None:
    found = run()
    assert (found["status"], found["status_reason"]) == ("failed", "no log of 1 of 1 main clients")
    assert found["throughput_ops_s"] is None


def test_what_only_the_name_of_a_file_calls_a_run() -> None:
    """The name of an old tree says a phase but no number of drivers; that of another file says neither."""
    found = run(drivers=None)
    assert (found["status"], found["drivers"]) == ("failed", 1)
    other = pl.DataFrame(
        [IDENTITY | {"drivers": None, "phase": None}], schema_overrides={"drivers": pl.Int32, "phase": pl.String}
    )
    assert derive_runs(TABLES["clients"].empty(), other).is_empty()


def test_percentiles_are_never_merged() -> None:
    frame = pl.DataFrame({"run_id": ["one", "two", "two"], "operations": [5, 6, 7], "p99_us": [1.0, 2.0, 2.0]})
    assert merge_clients(frame, ["run_id"]).rows() == [("one", 5, 1.0), ("two", 13, None)]


def metrics(*clients: Mapping[str, float], section: str = "READ", role: str = "main", unit: str = "us") -> pl.DataFrame:
    rows = [
        {
            **{name: CLIENT[name] for name in ("run_id", "resource", "iteration")},
            "source_id": f"{role}{part}",
            "role": role,
            "part": part,
            "section": section,
            "metric": name,
            "unit": unit if "atency" in name else None,
            "value": float(value),
        }
        for part, values in enumerate(clients)
        for name, value in values.items()
    ]
    return TABLES["client_metrics"].conform(pl.DataFrame(rows))


def buckets(counts: Mapping[int, list[int]], width: float = 10.0) -> pl.DataFrame:
    rows = [
        {
            **{name: CLIENT[name] for name in ("run_id", "resource", "iteration", "role")},
            "source_id": f"main{part}",
            "part": part,
            "section": "READ",
            "bucket_low_us": n * width,
            "bucket_high_us": (n + 1) * width,
            "count": count,
        }
        for part, own in counts.items()
        for n, count in enumerate(own)
    ]
    return TABLES["client_histogram"].conform(pl.DataFrame(rows))


NO_BUCKETS = TABLES["client_histogram"].empty()
ONE = {"Operations": 100, "AverageLatency": 10, "MinLatency": 4, "MaxLatency": 90, "99thPercentileLatency": 80}
TWO = {"Operations": 300, "AverageLatency": 20, "MinLatency": 5, "MaxLatency": 70, "99thPercentileLatency": 60}


def latencies(values: pl.DataFrame, histogram: pl.DataFrame = NO_BUCKETS) -> list[dict[str, Any]]:
    table = derive_operation_latencies(values, histogram)
    assert table.schema == TABLES["operation_latencies"].polars_schema()
    return table.rows(named=True)


def test_one_client_keeps_the_percentiles_it_reports() -> None:
    (row,) = latencies(metrics(ONE))
    assert (row["operation"], row["operations"], row["mean_us"], row["p99_us"]) == ("READ", 100, 10.0, 80.0)
    assert (row["percentile_source"], row["p50_us"], row["iteration"]) == ("reported", None, 1)


def test_several_clients_without_histograms_have_no_percentiles() -> None:
    (row,) = latencies(metrics(ONE, TWO))
    assert (row["operations"], row["mean_us"], row["min_us"], row["max_us"]) == (400, 17.5, 4.0, 90.0)
    assert (row["p99_us"], row["percentile_source"]) == (None, None)


def test_several_clients_with_histograms_have_the_percentiles_of_the_sum() -> None:
    (row,) = latencies(metrics(ONE, TWO), buckets({0: [60, 40], 1: [0, 240, 0, 60]}))
    assert row["percentile_source"] == "histogram"
    assert (row["p50_us"], row["p90_us"], row["p95_us"], row["p999_us"]) == (15.0, 35.0, 35.0, 35.0)


def test_histograms_that_do_not_fit_give_no_percentiles() -> None:
    other_edges = pl.concat([buckets({0: [100]}), buckets({1: [300]}, width=7.0)])
    for histogram in (other_edges, buckets({0: [60, 40]})):
        (row,) = latencies(metrics(ONE, TWO), histogram)
        assert (row["p99_us"], row["percentile_source"]) == (None, None)


def test_sentinels_of_empty_statistics_do_not_count() -> None:
    empty = {"Operations": 0, "AverageLatency": float("nan"), "MinLatency": 2**63 - 1, "MaxLatency": 0}
    (row,) = latencies(metrics(ONE, empty))
    assert (row["operations"], row["mean_us"], row["min_us"], row["max_us"]) == (100, 10.0, 4.0, 90.0)
    (alone,) = latencies(metrics(empty))
    assert (alone["operations"], alone["mean_us"], alone["min_us"], alone["max_us"]) == (0, None, None, None)


def test_units_roles_and_what_is_no_operation() -> None:
    values = pl.concat(
        [
            metrics({"transactions": 7, "latency average": 1.5}, section="<builtin: select only>", unit="ms"),
            metrics(ONE, role="monitor"),
            metrics(ONE, section="CLEANUP"),
            metrics({"Throughput": 5}, section="OVERALL"),
        ]
    )
    rows = latencies(values)
    assert [(row["role"], row["operation"], row["mean_us"]) for row in rows] == [
        ("main", "<builtin: select only>", 1500.0),
        ("monitor", "READ", 10.0),
    ]


def test_rows_without_a_run_are_left_out() -> None:
    nameless = metrics(ONE).with_columns(run_id=pl.lit(None, pl.String))
    assert latencies(nameless) == []


def test_percentiles_of_a_sample_say_so() -> None:
    (row,) = latencies(metrics(ONE | {"percentiles from a reservoir": 1}))
    assert (row["p99_us"], row["percentile_source"]) == (80.0, "reported, of a sample")

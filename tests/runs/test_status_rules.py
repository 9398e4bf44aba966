"""Every rule of status at least once; the table of the documentation is that of the code."""

from pathlib import Path

import polars as pl
import pytest

from citus_analysis.errors import UsageError
from citus_analysis.runs.status import STATUS_RULES, add_run_status, list_included_statuses, write_used_run_notes

FACTS: dict[str, object] = {
    "drivers": 1,
    "main_clients": 1,
    "incomplete": 0,
    "threads": 8,
    "connected_threads": None,
    "operations": None,
    "attempted": None,
    "operations_done": None,
    "failed_operations": None,
    "throughput_ops_s": 100.0,
    "time_limited": True,
    "monitor_operations": None,
    "monitor_failed_operations": None,
    "tool": "ycsb",
    "script": None,
    "new_orders_per_min": None,
    "reported_errors": None,
}
KINDS = {
    **dict.fromkeys(("tool", "script"), pl.String),
    **dict.fromkeys(("throughput_ops_s", "new_orders_per_min"), pl.Float64),
    **dict.fromkeys(("connected_threads", "operations", "attempted", "operations_done", "failed_operations"), pl.Int64),
    **dict.fromkeys(("monitor_operations", "monitor_failed_operations", "reported_errors"), pl.Int64),
}


def judged(**facts: object) -> tuple[str, str | None]:
    """Status and reason of a run of one client."""
    done, failed = facts.get("operations_done"), facts.get("failed_operations")
    known = {"attempted": done + (failed or 0)} if isinstance(done, int) and isinstance(failed, int | None) else {}
    run = add_run_status(pl.DataFrame([FACTS | known | facts], schema_overrides=KINDS))
    return run.select("status", "status_reason").row(0)


@pytest.mark.parametrize(
    ("facts", "status", "reason"),
    [
        ({"operations_done": 0, "failed_operations": 5}, "failed", "nothing was measured: 5 of 5 operations failed"),
        ({"operations_done": 0, "failed_operations": 0}, "failed", "nothing was measured: no operation was done"),
        ({"throughput_ops_s": 0.0}, "failed", "nothing was measured: no operation was done"),
        (
            {"tool": "HammerDB", "script": "TPROC-C", "throughput_ops_s": 883.0, "new_orders_per_min": 0.0},
            "failed",
            "nothing was measured: no new order succeeded",
        ),
        (
            {"tool": "go-tpc", "operations_done": 9, "new_orders_per_min": 0.0},
            "failed",
            "nothing was measured: no new order succeeded",
        ),
        ({"tool": "HammerDB", "reported_errors": 2}, "degraded", "errors of virtual users that were printed: 2"),
        ({"tool": "HammerDB", "new_orders_per_min": 9.0, "reported_errors": 0}, "ok", None),
        ({"incomplete": 1, "throughput_ops_s": None}, "failed", "no final summary: the client ended early"),
        (
            {"tool": "pgbench", "incomplete": 1},
            "failed",
            "incomplete results of the client: aborted, or cut",
        ),
        ({"operations_done": 90, "failed_operations": 1}, "degraded", "1 of 91 operations failed"),
        (
            {"tool": "sysbench", "operations_done": 90, "failed_operations": 20},
            "ok",
            "ignored errors, after which transactions were repeated: 20",
        ),
        (
            {"tool": "sysbench", "operations_done": 0, "failed_operations": 20},
            "failed",
            "nothing was measured: 20 of 20 operations failed",
        ),
        ({"tool": "go-tpc", "script": "TPC-C", "operations_done": 9999, "failed_operations": 1}, "degraded", None),
    ],
)
def test_rules(facts: dict[str, object], status: str, reason: str | None) -> None:
    found = judged(**facts)
    assert found[0] == status
    if reason is not None or status == "ok":
        assert found[1] == reason


@pytest.mark.parametrize(
    ("share", "benchmark", "status"),
    [
        (0.0043, "tpcc", "ok"),
        (0.0045, "tpcc", "ok"),
        (0.0045, "TPC-C", "ok"),
        (0.0045, "tpch", "degraded"),
        (0.0045, "notpccc", "degraded"),
        (0.006, "tpcc", "degraded"),
        (0.4, "tpcc", "degraded"),
    ],
)
def test_rollbacks_that_tpcc_prescribes_are_counted_only(share: float, benchmark: str, status: str) -> None:
    failed = round(100_000 * share)
    facts = {"tool": "BenchBase", "script": benchmark, "failed_operations": failed, "operations_done": 100_000 - failed}
    found = judged(**facts)
    assert found[0] == status
    assert str(failed) in str(found[1])


@pytest.mark.parametrize(("share", "status"), [(0.0045, "ok"), (0.007, "degraded"), (0.0, "ok")])
def test_a_share_decides_where_numbers_are_not_known(share: float, status: str) -> None:
    found = judged(tool="BenchBase", script="tpcc", failed_share=share)
    assert found[0] == status
    assert (found[1] is None) == (share == 0)


def test_few_requests_may_have_more_rollbacks_by_chance() -> None:
    facts = {"tool": "BenchBase", "script": "tpcc"}
    assert judged(**facts, failed_operations=3, operations_done=197)[0] == "ok"
    assert judged(**facts, failed_operations=12, operations_done=188)[0] == "degraded"


def test_the_worst_rule_decides_and_the_reason_names_all() -> None:
    facts = {"tool": "sysbench", "operations_done": 9, "failed_operations": 1, "monitor_operations": 0}
    status, reason = judged(**facts)
    assert status == "degraded"
    assert str(reason).split("; ") == [
        "the monitor client did nothing: no sampled statements",
        "ignored errors, after which transactions were repeated: 1",
    ]
    severities = [("failed", "degraded", "doubtful", "ok").index(rule.status) for rule in STATUS_RULES]
    assert severities == sorted(severities)


def test_the_documentation_shows_the_rules() -> None:
    page = Path(__file__).parents[2] / "docs" / "statistics.md"
    rows = [(f"*{one.status}*", one.tools, one.meaning) for one in STATUS_RULES]
    lines = [f"| {' | '.join(row)} |\n" for row in (("status", "tools", "if"), ("---", "---", "---"), *rows)]
    assert "".join(lines) in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("include_status", "statuses"),
    [
        ("", ("ok",)),
        ((), ("ok",)),
        ("degraded", ("ok", "degraded")),
        ("ok, degraded", ("ok", "degraded")),
        (["degraded"], ("ok", "degraded")),
    ],
)
def test_what_is_allowed(include_status: str | list[str], statuses: tuple[str, ...]) -> None:
    assert list_included_statuses(include_status) == statuses


@pytest.mark.parametrize("include_status", ["failed", "degarded", ["degraded", "failed"]])
def test_failed_runs_and_unknown_words_are_refused(include_status: str | list[str]) -> None:
    with pytest.raises(UsageError, match="cannot be allowed"):
        list_included_statuses(include_status)


def test_used_runs_are_described() -> None:
    assert (
        write_used_run_notes(pl.DataFrame({"status": ["ok", "ok"], "notes": pl.Series([None, None], dtype=pl.String)}))
        == []
    )
    assert write_used_run_notes(pl.DataFrame({"workers": [1]})) == []
    assert write_used_run_notes(pl.DataFrame({"status": ["degraded"] * 8})) == ["8 degraded runs of 8 used, as allowed"]

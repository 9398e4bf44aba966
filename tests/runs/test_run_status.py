"""The one rule of status; that runner and `ingest` apply it alike is in tests/runner/test_status.py."""

from datetime import UTC, datetime

import polars as pl
import pytest

from citus_analysis.runs.status import OUTCOME_OF, add_run_status, add_runner_verdicts, find_worst_status
from citus_analysis.schema import STATUSES, TABLES

FACTS: dict[str, object] = {
    "drivers": 2,
    "main_clients": 2,
    "incomplete": 0,
    "threads": 16,
    "connected_threads": 16,
    "operations": 500,
    "attempted": 500,
    "failed_operations": 0,
    "time_limited": False,
    "monitor_operations": None,
    "monitor_failed_operations": None,
}


@pytest.mark.parametrize(
    ("facts", "status", "reason"),
    [
        ({}, "ok", None),
        ({"main_clients": 1}, "failed", "no log of 1 of 2 main clients"),
        ({"incomplete": 1}, "failed", "no final summary: 1 of 2 clients ended early"),
        ({"drivers": 1, "main_clients": 1, "incomplete": 1}, "failed", "no final summary: the client ended early"),
        ({"connected_threads": 15}, "failed", "1 of 16 client threads never connected, or ended early"),
        ({"attempted": 499}, "failed", "499 of 500 planned operations attempted"),
        ({"attempted": 499, "time_limited": True}, "ok", None),
        ({"failed_operations": 3}, "degraded", "3 of 500 operations failed"),
        (
            {"monitor_operations": 9, "monitor_failed_operations": 1},
            "degraded",
            "1 of 10 operations of the monitor failed",
        ),
        ({"monitor_operations": 0}, "degraded", "the monitor client did nothing: no sampled statements"),
        (
            {"attempted": 400, "failed_operations": 3},
            "failed",
            "400 of 500 planned operations attempted; 3 of 400 operations failed",
        ),
    ],
)
def test_outputs_of_clients_decide(facts: dict[str, object], status: str, reason: str | None) -> None:
    schema = {"monitor_operations": pl.Int64, "monitor_failed_operations": pl.Int64}
    judged = add_run_status(pl.DataFrame([FACTS | facts], schema_overrides=schema))
    assert judged.select("status", "status_reason").row(0) == (status, reason)


def test_the_worst_status_counts_and_each_has_a_word() -> None:
    assert find_worst_status() == "ok"
    assert find_worst_status("degraded", "ok") == "degraded"
    # The runner sees one run: doubts come from comparing it with others.
    assert {*OUTCOME_OF, "doubtful"} == set(STATUSES)


def test_the_runner_can_only_make_a_status_worse() -> None:
    seen = {"status": ["ok", "failed", "degraded"], "status_reason": [None, "no log", "3 failed"]}
    runs = TABLES["runs"].conform(
        pl.DataFrame({"run_id": ["a", "b", "c"], "resource": "w2", "iteration": [1, 2, 3], **seen})
    )
    begun = datetime(2026, 3, 1, tzinfo=UTC)
    outcomes = pl.DataFrame(
        {
            "resource": ["w2", "w2", "w2", "w2"],
            "judged_iteration": [1, 1, 2, 3],
            "outcome": ["verified", "failed", "verified", "failed"],
            "reason": [None, "server stopped", None, "3 failed; server stopped"],
            "measured_from": [None, begun, None, None],
            "measured_until": pl.Series([None] * 4, dtype=pl.Datetime("us", "UTC")),
        }
    )
    judged = add_runner_verdicts(runs, outcomes)
    assert judged["status"].cast(pl.String).to_list() == ["failed", "failed", "failed"]
    # A later row of the same iteration wins; a reason that repeats the clients' is not said twice.
    assert judged["status_reason"].to_list() == ["server stopped", "no log", "3 failed; server stopped"]
    assert judged["measured_from"].to_list() == [begun, None, None]

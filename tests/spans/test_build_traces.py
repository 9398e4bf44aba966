"""Records of two nodes become statements, spans and pairs."""

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from citus_analysis.schema import TABLES
from citus_analysis.spans import build_traces, coarse_profile, log_line_profile
from citus_analysis.spans.traces import Traces

START = datetime(2026, 11, 20, 21, 1, 26, tzinfo=UTC)
NODES = pl.DataFrame(
    {
        "resource": ["r", "r"],
        "node": ["1", "2"],
        "nodeid": [2, 3],
        "host": ["worker1", "worker2"],
        "port": [5432, 5432],
    },
    schema_overrides={"nodeid": pl.Int32, "port": pl.Int32},
)
INSERT = {"statement_kind": "insert", "statement_fingerprint": 7}


def log(node: str, pid: int, *records: dict[str, Any], gpid: int | None = None) -> pl.DataFrame:
    """Records of one backend, one per millisecond."""
    rows = [
        {
            "source_id": f"log-{node}",
            "resource": "r",
            "iteration": 1,
            "node": node,
            "pid": pid,
            "gpid": gpid,
            "byte_offset": pid * 100_000 + 100 * number,
            "session_line": number + 1,
            "log_time": START + timedelta(milliseconds=number),
            "local_xid": 5,
            "severity": "LOG",
            **record,
        }
        for number, record in enumerate(records)
    ]
    return TABLES["log_events"].conform(pl.DataFrame(rows, infer_schema_length=None))


def duration(microseconds: float, **more: Any) -> dict[str, Any]:
    return {"kind": "duration", "duration_us": microseconds, **more}


def task(shard: int, microseconds: int, host: str) -> dict[str, Any]:
    return {
        "kind": "task",
        "severity": "DEBUG",
        "shard_id": shard,
        "task_us": microseconds,
        "worker_host": host,
        "worker_port": 5432,
    }


EXECUTE = {"kind": "execute", **INSERT}


@pytest.fixture
def traces() -> Traces:
    """A remote insert with parse, bind and execute, then a local one with a cached plan that is logged twice."""
    local = {"kind": "statement", "shard_id": 102008, **INSERT}
    parent = log(
        "1",
        10,
        duration(100.0),
        duration(200.0),
        EXECUTE,
        task(102009, 700, "worker2"),
        duration(900.0),
        duration(20.0, local_xid=6),
        EXECUTE | {"local_xid": 6},
        local,
        local,
        duration(300.0, local_xid=6),
    )
    child = log(
        "2",
        77,
        {"kind": "statement", "shard_id": 102009, **INSERT},
        duration(500.0, local_xid=0),
        gpid=20_000_000_010,
    )
    return build_traces(pl.concat([parent, child]), NODES)


def test_statements_carry_the_profile_of_their_execution(traces: Traces) -> None:
    remote, local = traces.statements.to_dicts()
    expected = {
        "executed": "remote",
        "parse_us": 100.0,
        "bind_us": 200.0,
        "execute_us": 900.0,
        "total_us": 1200.0,
        "wait_us": 700.0,
        "parent_us": 500.0,
        "child_us": 500.0,
        "between_us": 200.0,
        "match": "exact",
        "child_protocol": "text",
        "gpid": 20_000_000_010,
        "includes_commit": True,
    }
    assert {name: remote[name] for name in expected} == expected
    assert (local["executed"], local["tasks"], local["parse_us"], local["total_us"]) == ("local", 1, None, 320.0)
    assert local["includes_commit"] is False


def test_spans_form_one_tree_per_statement(traces: Traces) -> None:
    spans = traces.spans
    remote = spans.filter(pl.col("kind") == "remote").row(0, named=True)
    ids = {row["span_id"]: row for row in spans.to_dicts()}
    path = []
    at: dict[str, Any] | None = remote
    while at is not None:
        path.append((at["kind"], at["name"]))
        at = ids.get(at["parent_span_id"])
    assert path == [("remote", "insert"), ("task", "task"), ("phase", "execute"), ("statement", "insert")]
    assert spans["span_id"].n_unique() == spans.height == 10
    assert spans["trace_id"].n_unique() == 2


def test_identifiers_do_not_depend_on_what_else_is_there(traces: Traces) -> None:
    again = build_traces(log("2", 77, EXECUTE, duration(1.0), gpid=20_000_000_010), NODES)
    assert again.spans["span_id"].is_in(traces.spans["span_id"].implode()).all()


def test_both_ways_to_the_coarse_profile_give_the_same_means(traces: Traces) -> None:
    profile = coarse_profile(traces.statements, by=["statement_kind"])
    assert dict(profile.select(pl.col("quantity").cast(pl.String), "mean_us").iter_rows()) == {
        "T": 760.0,
        "P": 410.0,
        "W": 700.0,
        "C": 500.0,
        "L": 200.0,
    }
    assert "commit" in profile["warning"][0]


def test_quality_counts_pairs_per_pair_of_nodes(traces: Traces) -> None:
    row = traces.match_quality.row(0, named=True)
    counts = ("parent_node", "child_node", "tasks", "children", "exact", "match_rate", "warning")
    assert tuple(row[name] for name in counts) == ("1", "2", 1, 1, 1, 1.0, None)


def test_no_records_give_empty_tables() -> None:
    assert build_traces(TABLES["log_events"].empty(), NODES).spans.schema == TABLES["spans"].polars_schema()
    assert log_line_profile(TABLES["log_events"].empty()).height == 0

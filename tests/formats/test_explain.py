"""Plans of EXPLAIN: expected values were read off the files by eye."""

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from citus_analysis.formats import Content, Hints, detect_format, format_named
from tests.formats.plan_files import PLANS, nodes_of, parsed

FILES = sorted(path for path in PLANS.iterdir() if not path.name.startswith(("auto_explain", "insert-select")))
#: Statements that are there in several formats, and the ends of the other files' names.
STATEMENTS = sorted({path.name.partition(".")[0] for path in PLANS.glob("*.yaml")})
#: What differs from one execution to the next.
TIMES = ("planning_us", "execution_us")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_plan_is_recognised_and_none_of_it_rejected(path: Path) -> None:
    found = detect_format(Content(path))
    assert found is not None
    assert found.name == "explain"
    piece = parsed(path)
    assert piece.rejected_bytes == 0
    assert piece.frame("plans").height == 1


@pytest.mark.parametrize("name", STATEMENTS)
def test_text_json_and_yaml_of_one_plan_give_equal_rows(name: str) -> None:
    expected = nodes_of(f"{name}.json").drop(TIMES)
    others = sorted(path.name for path in PLANS.glob(f"{name}.*") if path.suffix != ".json")
    assert len(others) >= 2
    for other in others:
        assert nodes_of(other).drop(TIMES).equals(expected), other


def test_a_plan_in_each_format_of_a_join_of_two_distributed_tables() -> None:
    text, json = (nodes_of(f"repartition-join.{end}") for end in ("txt", "json"))
    changing = ("startup_us", "total_us", *TIMES)
    assert text.drop(changing).equals(json.drop(changing))
    assert text["kind"].to_list() == ["node", "node", "job", "job"]
    assert text["task_count"].to_list() == [None, 12, 16, 16]
    plan = parsed(PLANS / "repartition-join.txt").frame("plans").row(0, named=True)
    assert (plan["task_count"], plan["tasks_shown"]) == (12, 0)
    assert plan["unknown"].startswith("node 1: 12 of 12 tasks are not shown")
    assert plan["execution_us"] == pytest.approx(500_988)


def test_tasks_have_their_shard_worker_and_time() -> None:
    nodes = nodes_of("scan.txt")
    tasks = nodes.filter(kind="task")
    assert tasks["shard_id"].to_list() == [102008, 102009, 102011, 102010]
    assert tasks["worker_host"].to_list() == ["worker1", "worker2", "worker2", "worker1"]
    assert tasks["execution_us"].to_list()[:2] == pytest.approx([294, 278])
    assert tasks["received_bytes"].to_list()[:2] == [9329, 10228]
    below = nodes.filter((pl.col("task") == tasks["plan_node"][1]) & (pl.col("kind") == "node"))
    assert below["node_type"].to_list() == ["Limit", "Index Scan"]
    assert below["shard_id"].to_list() == [102009, 102009]
    scan = below.row(1, named=True)
    assert (scan["relation"], scan["index_name"], scan["alias"]) == (
        "usertable_102009",
        "usertable_pkey_102009",
        "usertable",
    )
    assert (scan["total_cost"], scan["estimated_rows"], scan["actual_rows"], scan["loops"]) == (17260.04, 14675, 10, 1)
    assert (scan["startup_us"], scan["total_us"]) == pytest.approx((32, 241))
    top = nodes.row(0, named=True)
    assert (top["node_type"], top["shard_id"], top["task"]) == ("Limit", None, None)


def test_what_unshown_tasks_leave_unknown_is_said() -> None:
    plan = parsed(PLANS / "cte-subplan.psql.txt").frame("plans").row(0, named=True)
    assert (plan["task_count"], plan["tasks_shown"], plan["analyzed"], plan["timed"]) == (8, 2, True, True)
    assert "node 1: 3 of 4 tasks are not shown" in plan["unknown"]
    assert "citus.explain_all_tasks = on" in plan["unknown"]
    whole = parsed(PLANS / "scan.txt").frame("plans").row(0, named=True)
    assert (whole["task_count"], whole["tasks_shown"], whole["unknown"]) == (4, 4, None)


def test_a_distributed_subplan_has_its_own_plan() -> None:
    nodes = nodes_of("cte-subplan.psql.txt")
    subplan = nodes.filter(kind="subplan").row(0, named=True)
    assert subplan["total_us"] == pytest.approx(31_720)
    assert (subplan["received_bytes"], subplan["execution_us"]) == (1844, pytest.approx(16_684))
    assert nodes.filter(parent=subplan["plan_node"])["node_type"].to_list() == ["Limit"]


def test_nodes_of_postgresql() -> None:
    nodes = nodes_of("subplans.txt")
    assert nodes["subplan_name"].drop_nulls().to_list() == [
        "CTE few",
        "InitPlan 3 (returns $2)",
        "InitPlan 2 (returns $1)",
    ]
    backward = nodes.row(by_predicate=pl.col("node_type") == "Index Only Scan Backward", named=True)
    assert (backward["schema_name"], backward["relation"], backward["index_name"]) == (
        "public",
        "Order Lines",
        "Order Lines_pkey",
    )
    assert backward["conditions"] == 'Index Cond: ("Order Lines".id IS NOT NULL)'
    assert (backward["shared_hit_blocks"], backward["shared_read_blocks"]) == (3, 0)
    spilled = nodes_of("spill.txt").row(by_predicate=pl.col("node_type") == "Sort", named=True)
    assert spilled["sort_method"] == "external merge"
    assert spilled["disk_bytes"] > 0
    assert spilled["memory_bytes"] is None
    never = nodes_of("never.json").filter(loops=0)
    assert never.height == 1
    assert never["total_us"].null_count() == 1
    assert nodes_of("insert.yaml")["wal_records"][0] > 0
    parallel = nodes_of("parallel.timed.txt").filter(pl.col("workers_launched") > 0)
    assert parallel.height == 1


def test_secrets_in_literals_are_redacted() -> None:
    for end in ("txt", "json", "yaml", "psql.txt"):
        assert b"hunter2" in (PLANS / f"bitmap.{end}").read_bytes()
        conditions = "\n".join(nodes_of(f"bitmap.{end}")["conditions"].drop_nulls())
        assert "password=" in conditions
        assert "hunter2" not in conditions


def test_several_plans_with_text_between_them(tmp_path: Path) -> None:
    both = tmp_path / "plans.txt"
    texts = [(PLANS / name).read_bytes() for name in ("join.txt", "never.psql.txt", "bitmap.yaml", "insert.json")]
    both.write_bytes(b"\n".join([texts[0], texts[1], b"UPDATE 1\n", *texts[2:]]))
    piece = parsed(both)
    plans = piece.frame("plans")
    assert plans["form"].to_list() == ["text", "text", "yaml", "json"]
    data = both.read_bytes()
    starts = [data[offset : offset + 8].strip()[:5] for offset in plans["byte_offset"]]
    assert starts == [b"Limit", b"Neste", b"- Pla", b"[\n  {"]
    assert piece.frame("rejects")["excerpt"].to_list() == ["UPDATE 1"]


def test_a_query_that_auto_explain_printed_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "auto.txt"
    file.write_bytes(b"Query Text: SELECT 1 FROM parts\n" + (PLANS / "never.txt").read_bytes())
    assert parsed(file).frame("plans")["query"].to_list() == ["SELECT 1 FROM parts"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'[\n  {\n    "Plan": {\n      "Node Type": "Sort",\n', "not a plan of EXPLAIN"),
        (b'[{"Plan": {"Node Type": "Sort", "Plan Rows": 1e300}}]\n', "too large a number"),
        (b'[{"Plan": {"Node Type": "Sort", "Plan Rows": "many"}}]\n', "not a number"),
        (b'[{"Plan": ' + b'{"Node Type": "Sort", "Plans": [' * 5000 + b"]}" * 5000 + b"}]\n", "nested"),
        (b'- Plan: &a\n    Node Type: "Sort"\n    Plans: [*a]\n', "contains itself"),
        (b"Sort  (cost=0.00..1.00 rows=99999999999999999999999 width=4)\n  Sort Key: a\n", "not numbers"),
        (b"ERROR:  EXPLAIN ANALYZE is not supported\n", "outside a plan"),
    ],
    ids=["cut", "large", "text", "deep", "alias", "digits", "error"],
)
def test_what_is_no_plan_is_rejected(tmp_path: Path, data: bytes, reason: str) -> None:
    file = tmp_path / "plan.txt"
    file.write_bytes(data)
    piece = parsed(file)
    assert piece.frame("plans").height == 0
    assert piece.rejected_bytes == len(data)
    assert any(reason in found for found in piece.frame("rejects")["reason"])


def test_plans_that_auto_explain_logged_have_their_place_in_the_log() -> None:
    log = PLANS / "auto_explain.log"
    pieces = list(format_named("pglog").parse(Content(log), Hints(log.name)))
    plans = pl.concat([piece.frame("plans") for piece in pieces])
    assert plans["form"].to_list() == ["text", "json"]
    assert plans["plan"].to_list() == [0, 1]
    assert plans["query"].to_list() == ["select count(*) from parts", "select * from parts where part = 3"]
    data = log.read_bytes()
    for offset, length in plans.select("byte_offset", "byte_length").iter_rows():
        assert b"  plan:\n" in data[offset : offset + length]
        assert data[offset : offset + 5] == b"2026-"
    nodes = pl.concat([piece.frame("plan_nodes") for piece in pieces])
    assert nodes["node_type"].to_list() == ["Aggregate", "Seq Scan", "Index Scan"]
    assert nodes["plan"].to_list() == [0, 0, 1]
    events = pl.concat([piece.frame("log_events") for piece in pieces])
    assert set(plans["byte_offset"]) <= set(events["byte_offset"])
    assert sum(piece.parsed_bytes + piece.noise_bytes + piece.rejected_bytes for piece in pieces) == len(data)


@pytest.mark.parametrize("version", ["15", "18"])
def test_plans_that_auto_explain_logged_are_the_same_in_each_kind_of_log(version: str) -> None:
    found = {}
    for kind, format_ in {"log": "pglog", "csv": "pgcsvlog", "json": "pgjsonlog"}.items():
        log = PLANS / f"auto_explain-pg{version}.{kind}"
        assert detect_format(Content(log)) is format_named(format_)
        piece = next(iter(format_named(format_).parse(Content(log), Hints(log.name))))
        plans, events = piece.frame("plans"), piece.frame("log_events")
        assert plans["form"].to_list() == ["text", "json", "yaml"]
        assert set(plans.select("byte_offset", "byte_length").rows()) < set(
            events.select("byte_offset", "byte_length").rows()
        )
        found[kind] = (
            plans.drop("byte_offset", "byte_length"),
            piece.frame("plan_nodes").drop("byte_offset", "byte_length", strict=False),
        )
    assert found["log"][0]["query"].unique().to_list() == ["select count(*) from t where a > 10 and b <> 'x, \"y\"'"]
    for kind in ("csv", "json"):
        for one, other in zip(found["log"], found[kind], strict=True):
            assert_frame_equal(one, other)
    assert (
        found["log"][1].group_by("plan", maintain_order=True).agg("node_type")["node_type"].to_list()
        == [["Aggregate", "Seq Scan"]] * 3
    )


def test_an_error_instead_of_a_plan_is_not_claimed() -> None:
    assert detect_format(Content(PLANS / "insert-select-pull.txt")) is None

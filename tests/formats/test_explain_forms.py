"""Plans of other versions, in XML, and below queries of any lines in server logs."""

import csv
import io
import json
import random
from pathlib import Path
from xml.sax.saxutils import escape

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from citus_analysis.formats import Content, detect_format, format_named
from tests.formats.sampling import ROOT, Read, read, read_bytes

CASES = ROOT / "tests" / "data" / "cases"
PLANS = ROOT / "tests" / "data" / "plans"
EXPLAIN = format_named("explain")
#: Case -> node types, and times of planning and execution in us.
TIMES = {
    "80-explain-greenplum-real/plan.txt": (
        ["Gather Motion 2:1", "HashAggregate", "Redistribute Motion 2:2", "Seq Scan"],
        (25123.0, 20210500.0),
    ),
    "80v-explain-small-time/p.txt": (["Seq Scan"], (25123.0, 20210500.0)),
    "80v-explain-small-time/q.txt": (["Seq Scan"], (25123.0, 20210500.0)),
    "80v-explain-small-time/r.txt": (["Seq Scan"], (None, 20500.0)),
    "80w-explain-small-time/p10-plain.txt": (["Seq Scan"], (25123.0, 20210500.0)),
    "80w-explain-small-time/p10-psql.txt": (["Seq Scan"], (25123.0, 20210500.0)),
    "80w-explain-small-time/p12-2nodes-plain.txt": (["Limit", "Seq Scan"], (25123.0, 20210500.0)),
    "80w-explain-small-time/p9.2-psql.txt": (["Seq Scan"], (None, 20500.0)),
}


def whole(path: Path) -> Read:
    found = detect_format(Content(path))
    assert found is not None
    return read(found, path)


@pytest.mark.parametrize(("name", "nodes", "times"), [(name, *expected) for name, expected in TIMES.items()])
def test_times_of_all_versions(name: str, nodes: list[str], times: tuple[float | None, float]) -> None:
    found = whole(CASES / name)
    assert found["plan_nodes"]["node_type"].cast(pl.String).to_list() == nodes
    assert found["plans"].select("planning_us", "execution_us").rows() == [times]
    assert found.rejects.is_empty()


def test_two_plans_behind_blanks_are_two(tmp_path: Path) -> None:
    text = (CASES / "80w-explain-small-time" / "p12-2nodes-plain.txt").read_text()
    found = read_bytes(EXPLAIN, tmp_path, (text + text).encode())
    assert (found["plans"].height, found["plan_nodes"].height) == (2, 4)


def test_a_plan_that_was_cut_is_rejected_with_the_reason() -> None:
    found = whole(CASES / "82-explain-citus-cut" / "plan.txt")
    assert found["plans"].is_empty()
    assert "costs or times that are not numbers" in found.rejects["reason"][0]


@pytest.mark.parametrize("digits", ["shared hit=99999999999999999999", "shared hit=271828182845904523536028"])
def test_counters_beyond_64_bits_reject_the_plan(digits: str, tmp_path: Path) -> None:
    text = f"Seq Scan on t  (cost=0.00..1.00 rows=1 width=4)\n  Buffers: {digits}\n"
    found = read_bytes(EXPLAIN, tmp_path, text.encode())
    assert (found["plans"].height, found.rejects.height) == (0, 1)


def as_xml(value: object, name: str) -> str:
    """A part of a plan as `EXPLAIN (FORMAT XML)` prints it (`explain.c`)."""
    tag = name.replace(" ", "-").replace("/", "-")
    if isinstance(value, dict):
        return f"<{tag}>\n{''.join(as_xml(one, key) for key, one in value.items())}</{tag}>\n"
    if isinstance(value, list):
        kinds = {"Plans": "Plan", "Tasks": "Task", "Workers": "Worker", "Triggers": "Trigger", "Subplans": "Subplan"}
        kinds |= {"Dependent Jobs": "MapMergeJob", "Depended Jobs": "MapMergeJob", "PlannedStmt": "Query"}
        if name == "Remote Plan":
            return f"<{tag}>\n{''.join(document(one if isinstance(one, list) else [one]) for one in value)}</{tag}>\n"
        inner = "".join(as_xml(one, kinds.get(name, "Item" if not isinstance(one, dict) else name)) for one in value)
        return f"<{tag}>\n{inner}</{tag}>\n"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"<{tag}>{escape(text)}</{tag}>\n"


def document(plans: list[object]) -> str:
    inner = "".join(as_xml(plan, "Query") for plan in plans)
    return f'<explain xmlns="http://www.postgresql.org/2009/explain">\n{inner}</explain>\n'


@pytest.mark.parametrize(
    "path", [p for p in sorted(PLANS.glob("*.json")) if not p.name.startswith("auto_explain")], ids=lambda p: p.stem
)
def test_xml_and_json_of_one_plan_give_equal_rows(path: Path, tmp_path: Path) -> None:
    plain = read(EXPLAIN, path)
    text = document(json.loads(path.read_text()))
    assert EXPLAIN.detect("a", text.encode()) > 0.9
    found = read_bytes(EXPLAIN, tmp_path, text.encode())
    assert found.rejects.is_empty()
    assert found["plans"]["form"].cast(pl.String).unique().to_list() == ["xml"]
    places = ("form", "byte_offset", "byte_length")
    assert_frame_equal(found["plans"].drop(places), plain["plans"].drop(places))
    assert_frame_equal(found["plan_nodes"], plain["plan_nodes"])


@pytest.mark.parametrize("broken", ['<!DOCTYPE a [<!ENTITY b "c">]>', "<Query><Plan>", "<Query>&b;</Query></explain>"])
def test_xml_that_postgres_does_not_print_is_rejected(broken: str, tmp_path: Path) -> None:
    found = read_bytes(EXPLAIN, tmp_path, f"<explain>{broken}\n".encode())
    assert found["plans"].is_empty()
    assert found.rejects["byte_length"].sum() == len(f"<explain>{broken}\n".encode())


PLAN = (
    "Aggregate  (cost=40.00..40.01 rows=1 width=8) (actual time=300.000..300.001 rows=1 loops=1)\n"
    "  ->  Seq Scan on item  (cost=0.00..35.50 rows=1800 width=0) (actual time=0.010..250.000 rows=1900 loops=1)\n"
    "        Filter: (id > 5)\n        Rows Removed by Filter: 6"
)
#: Lines that queries may have, some of which look like a part of a plan.
LINES = (
    *("FROM item", "", "-- only new ones", "WHERE id > 5", "Sort", "Limit 5", "Update t", "  Sort Key: a", "Result"),
    *("  ->  Seq Scan on t", "Planning Time: 5 ms", "/* Seq Scan on t  (cost=0.00..1.00 rows=1 width=4)", "*/"),
    *("Insert into t values ('", "');", "Plan:", "[1, 2]", "Seq Scan on t  (cost=0.00..9.00 rows=9 width=9)", '"a"'),
)


def logged(query: str, form: str) -> bytes:
    """A log with two records of auto_explain and one other."""
    messages = [f"duration: 300.120 ms  plan:\nQuery Text: {query}\n{PLAN}", "duration: 1.000 ms  statement: SELECT 1;"]
    lines = io.StringIO()
    for number, message in enumerate([messages[0], *messages], start=1):
        time = f"2026-05-31 10:00:0{number}.500 UTC"
        if form == "stderr":
            lines.write(f"{time} [501] app@shop LOG:  {message}\n".replace("\n", "\n\t")[:-1])
        elif form == "json":
            fields = {"timestamp": time, "user": "app", "dbname": "shop", "pid": 501, "session_id": "665a.1f5"}
            fields |= {
                "line_num": number,
                "error_severity": "LOG",
                "message": message,
                "backend_type": "client backend",
            }
            lines.write(json.dumps(fields) + "\n")
        else:
            row = [time, "app", "shop", 501, "10.0.0.9:5", "665a.1f5", number, "SELECT", "2026-05-31 09:00:00 UTC"]
            row += ["3/12", 0, "LOG", "00000", message, *[""] * 8, "psql"]
            csv.writer(lines, lineterminator="\n").writerow(row)
    return lines.getvalue().encode()


@pytest.mark.parametrize("form", ["stderr", "csv", "json"])
@pytest.mark.parametrize("seed", range(8))
def test_a_query_of_any_lines_is_no_part_of_its_plan(form: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    query = "\n".join(["SELECT count(*)", *rng.choices(LINES, k=rng.randrange(8)), "WHERE id > 5;"])
    path = tmp_path / f"postgresql.{form}"
    path.write_bytes(logged(query, form))
    found = whole(path)
    assert found["plans"]["query"].to_list() == [query, query]
    assert found["plans"]["analyzed"].to_list() == [True, True]
    assert found["plan_nodes"]["node_type"].cast(pl.String).to_list() == ["Aggregate", "Seq Scan"] * 2
    assert found.rejects.is_empty()


def test_xml_of_auto_explain_is_read(tmp_path: Path) -> None:
    plan = {"Query Text": "SELECT 1 < 2", "Plan": {"Node Type": "Result", "Plan Rows": 1, "Actual Loops": 1}}
    inner = "".join(as_xml(value, key) for key, value in plan.items())
    text = f'<explain xmlns="http://www.postgresql.org/2009/explain">\n{inner}</explain>'
    log = f"2026-05-31 10:00:01.500 UTC [501] app@shop LOG:  duration: 3.120 ms  plan:\n{text}\n".replace("\n", "\n\t")[
        :-1
    ]
    path = tmp_path / "postgresql.log"
    path.write_text(log)
    found = whole(path)
    assert found["plans"].select("form", "query", "nodes").rows() == [("xml", "SELECT 1 < 2", 1)]


def test_a_logged_plan_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    path = tmp_path / "postgresql.log"
    path.write_bytes(logged("SELECT 1", "stderr").replace(b"(cost=40.00..40.01", b"(cost=40.00...40.01"))
    found = whole(path)
    assert found["log_events"].height == 3
    assert found.rejects.select("byte_offset", "byte_length").rows()[0] == (0, 0)
    assert all("a plan that cannot be read" in reason for reason in found.rejects["reason"])

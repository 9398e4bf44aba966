"""Logs as they are found: rotated, overlapping, with lines twice, on clocks that were set. No exact pair is wrong."""

import random
from collections.abc import Callable

import polars as pl
import pytest

from citus_analysis.schema import TABLES
from citus_analysis.spans import build_traces
from citus_analysis.spans.traces import Traces
from tests.spans.recordings import Recording, load, pairs_with_keys, parse_log
from tests.spans.writing import Node, begin, end, insert, record, run_child

Pieces = dict[str, bytes]


def in_pieces(resource: str, divide: Callable[[list[bytes]], Pieces]) -> Recording:
    """A recording whose logs stand in several files each."""
    whole = load(resource, (1,))
    frames: list[pl.DataFrame] = []
    logs: dict[str, bytes] = {}
    for source, data in whole.logs.items():
        for name, piece in divide(data.splitlines(keepends=True)).items():
            file = f"{name}-{source}"
            identity = {"source_id": file, "resource": resource, "iteration": 1}
            identity |= {"node": source.split("-")[1]}
            logs[file] = piece
            rows = parse_log(piece)["log_events"].with_columns(pl.lit(v).alias(k) for k, v in identity.items())
            frames.append(TABLES["log_events"].conform(rows))
    return Recording(pl.concat(frames), whole.checkpoints, whole.nodes, logs)


def halves(lines: list[bytes], overlap: int = 0, names: tuple[str, str] = ("a", "b")) -> Pieces:
    middle = len(lines) // 2
    return {
        names[0]: b"".join(lines[: middle + overlap]),
        names[1]: b"".join(lines[max(middle - overlap, 0) :]),
    }


def doubled(lines: list[bytes]) -> Pieces:
    draw = random.Random(1)
    return {"a": b"".join(line * (1 + (draw.random() < 0.02)) for line in lines)}


def wrong(traces: Traces, recording: Recording) -> int:
    """Exact pairs with two keys."""
    pairs = pairs_with_keys(traces, recording).filter(pl.col("match") == "exact")
    return pairs.filter(pl.col("parent_key") != pl.col("child_key")).height


DAMAGES: dict[str, Callable[[list[bytes]], Pieces]] = {
    "rotated": halves,
    "older file sorts later": lambda lines: halves(lines, names=("b", "a")),
    "overlapping copies": lambda lines: halves(lines, overlap=300),
    "older copy sorts later": lambda lines: halves(lines, overlap=300, names=("b", "a")),
    "two copies": lambda lines: {"a": b"".join(lines), "b": b"".join(lines)},
    "lines twice": doubled,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_files_of_one_log_are_stitched(damage: str) -> None:
    recording = in_pieces("w2-t4-insert", DAMAGES[damage])
    traces = build_traces(recording.log_events, recording.nodes)
    counts = traces.match_quality.select(pl.col("tasks", "exact", "children").sum()).row(0)
    assert counts == (988, 988, 988)
    assert wrong(traces, recording) == 0
    said = "repeated records" in (traces.match_quality["warning"][0] or "")
    assert said == (damage not in ("rotated", "older file sorts later"))


@pytest.mark.parametrize(
    ("resource", "node", "step_ms"),
    [("w2-t4-insert", "2", 37), ("w2-t4-insert", "1", -37), ("w2-t4-insert", "1", -2000), ("w4-t4-insert", "3", 37)],
)
def test_a_clock_that_was_set(resource: str, node: str, step_ms: int) -> None:
    recording = load(resource, (1,))
    offsets = recording.log_events.filter(node=node)["byte_offset"]
    later = (pl.col("node") == node) & (pl.col("byte_offset") >= offsets.median())
    moved = pl.col("log_time") + pl.duration(milliseconds=step_ms)
    events = recording.log_events.with_columns(log_time=pl.when(later).then(moved).otherwise("log_time"))
    traces = build_traces(events, recording.nodes)
    assert traces.match_quality.select((pl.col("tasks") == pl.col("exact")).all()).item()
    assert wrong(traces, recording) == 0
    of_node = traces.clock_offsets.filter(pl.col("child_node") == node).sort("parent_node", "reference_time")
    steps = of_node.group_by("parent_node", maintain_order=True).agg(pl.col("offset_us").diff().drop_nulls())
    for (step,) in steps["offset_us"]:
        assert abs(abs(step) - abs(step_ms) * 1000) < 1000


@pytest.mark.parametrize(("period", "lost"), [(100.0, 2), (100.0, 10), (10.0, 30)])
def test_what_both_logs_lost_of_a_periodic_workload(period: float, lost: int) -> None:
    """The child's log lost its beginning, the parent's its end, and no line number shows it."""
    one, two = Node("1", 2), Node("2", 3)
    parent = one.session(500)
    first, second = two.session(900, gpid=parent.gpid), two.session(901, gpid=parent.gpid)
    for number in range(200):
        insert(parent, first if number < lost else second, period * number, 1_000_000 + number)
    two.lines, one.lines = two.lines[2 * lost :], one.lines[: -5 * lost]
    recording = record(one, two)
    traces = build_traces(*recording.tables())
    row = traces.match_quality.row(0, named=True)
    assert (row["exact"], row["by_content"], row["by_order"]) == (200 - 2 * lost, 200 - 2 * lost, 0)
    assert wrong(traces, recording) == 0
    assert f"{200 - lost} pairs by order refuted by the values" in row["warning"]
    row = build_traces(*recording.without_values().tables()).match_quality.row(0, named=True)
    assert (row["exact"], row["inferred"], row["ambiguous"]) == (0, 200 - lost, 200 - lost)
    assert "neither the values of statements nor earlier records" in row["warning"]


def test_the_same_workload_with_sessions_both_ways_is_exact() -> None:
    one, two = Node("1", 2), Node("2", 3)
    parent, other = one.session(500), two.session(600)
    child, back = two.session(900, gpid=parent.gpid), one.session(700, gpid=other.gpid)
    for number in range(100):
        insert(parent, child, 100.0 * number, 1_000_000 + number)
        insert(other, back, 100.0 * number + 30, 2_000_000 + number)
    assert build_traces(*record(one, two).tables()).match_quality["exact"].to_list() == [100, 100]


def joined(mixed: bool) -> Recording:
    """Joins whose anchor is the second shard of the text, and with `mixed` statements on the first one alone."""
    one, two = Node("1", 2), Node("2", 3)
    parent = one.session(500)
    child = two.session(900, gpid=parent.gpid)
    draw, ms = random.Random(2), 0.0
    for number in range(60):
        ms, key, part = ms + draw.uniform(3, 40), 1_000_000 + number, number % 2
        begin(parent, ms, key)
        if mixed and number % 5 == 0:
            run_child(child, ms + 0.2, 102008 + part, key)
            end(parent, ms + 0.7, 102008 + part, "worker2")
            continue
        tables = f"public.a_{102008 + part} a JOIN public.b_{102012 + part} b USING (k)"
        child.write(ms + 0.2, f"statement: SELECT * FROM ({tables}) WHERE k = 'user{key}'::text AND v = 'x'")
        child.write(ms + 0.6, "duration: 0.400 ms", xid=0)
        end(parent, ms + 0.7, 102012 + part, "worker2")
    return record(one, two)


@pytest.mark.parametrize(("mixed", "proof"), [(False, "both"), (True, "content")])
def test_any_shard_of_a_join_may_be_the_anchor(mixed: bool, proof: str) -> None:
    known = joined(mixed)
    for recording, match in ((known, "exact"), (known.without_values(), "inferred")):
        traces = build_traces(*recording.tables())
        pairs = pairs_with_keys(traces, recording)
        assert pairs.height == 60
        assert set(pairs["match"]) == {match}
        assert (pairs["parent_key"] == pairs["child_key"]).all()
        assert set(traces.spans["proof"].drop_nulls()) == ({proof} if match == "exact" else set())


def delegating() -> Recording:
    """A delegated function on node 2 writes to the shard on node 3 that its caller writes to as well."""
    one, two, three = Node("1", 2), Node("2", 3), Node("3", 7)
    parent, other = one.session(500), two.session(600)
    called, back = two.session(900, gpid=parent.gpid), one.session(700, gpid=other.gpid)
    kids = [three.session(930 + number, gpid=parent.gpid) for number in range(2)]
    third = three.session(950, gpid=other.gpid)
    draw, ms = random.Random(3), 0.0
    for number in range(20):
        ms += draw.uniform(20, 60)
        insert(parent, kids[0], ms, 1_000_000 + number)
        insert(other, third, ms + 3, 2_000_000 + number)
        insert(other, back, ms + 6, 3_000_000 + number)
        begin(parent, ms + 9, 5_000_000 + number)
        called.write(ms + 9.2, f"statement: SELECT public.f_102009('user{5_000_000 + number}', 'x')")
        run_child(kids[1], ms + 9.5, 102008, 4_000_000 + number)
        end(called, ms + 10.3, 102008, "worker3")
        end(parent, ms + 10.7, 102009, "worker2", took_ms=1.5)
    return record(one, two, three)


def test_tasks_that_a_child_sends_stand_below_it() -> None:
    recording = delegating()
    traces = build_traces(*recording.tables())
    assert traces.match_quality.select(pl.sum("tasks", "exact", "inferred")).row(0) == (100, 80, 20)
    assert wrong(traces, recording) == 0
    nested = traces.spans.filter(pl.col("kind") == "task", pl.col("pid") == 900)
    remotes = traces.spans.filter(pl.col("kind") == "remote").select(parent_span_id="span_id", above="pid")
    assert set(nested.join(remotes, on="parent_span_id")["above"]) == {900}
    roots = traces.statements.filter(pl.col("pid") == 500)["trace_id"]
    assert nested["trace_id"].is_in(roots.implode()).all()


def test_shared_streams_on_unknown_clocks_are_left_alone() -> None:
    one, two, three = Node("1", 2), Node("2", 3), Node("3", 7)
    parent = one.session(500)
    called = two.session(900, gpid=parent.gpid, first_line=7)
    kids = [three.session(930 + number, gpid=parent.gpid, first_line=7) for number in range(2)]
    for number in range(20):
        insert(parent, kids[0], 20.0 * number, 1_000_000 + number)
        run_child(kids[1], 20.0 * number + 5, 102008, 4_000_000 + number)
        end(called, 20.0 * number + 6, 102008, "worker3")
    quality = build_traces(*record(one, two, three).tables()).match_quality
    assert quality["exact"].sum() == 0
    assert quality["tasks"].sum() == 40

"""Cases that defeat a matcher that is not careful, each in a log written for it."""

import random

import polars as pl
import pytest

from citus_analysis.schema import TABLES
from citus_analysis.spans import build_traces
from tests.spans.recordings import Recording, pairs_with_keys
from tests.spans.writing import Node, Session, begin, end, insert, record, run_child


def pair_up(recording: Recording) -> dict[str, tuple[str, str]]:
    """Key of each paired task -> key of its child and how sure that is."""
    traces = build_traces(recording.log_events, recording.nodes)
    rows = pairs_with_keys(traces, recording).select("parent_key", "child_key", "match").rows()
    return {parent: (child, match) for parent, child, match in rows}


def rightly(keys: range, match: str = "exact") -> dict[str, tuple[str, str]]:
    return {f"user{key}": (f"user{key}", match) for key in keys}


KEYS = range(1_000_000, 1_000_010)


@pytest.fixture
def nodes() -> tuple[Node, Node]:
    return Node("1", 2), Node("2", 3)


def test_two_statements_of_one_session_within_a_millisecond(nodes: tuple[Node, Node]) -> None:
    one, two = nodes
    parent = one.session(500)
    child = two.session(900, gpid=parent.gpid)
    for position, key in enumerate(KEYS):
        begin(parent, position * 0.3, key)
        run_child(child, position * 0.3, 102008, key, took_ms=0.05)
        end(parent, position * 0.3, 102008, "worker2", took_ms=0.2)
    assert pair_up(record(*nodes)) == rightly(KEYS)


def test_duplicate_keys(nodes: tuple[Node, Node]) -> None:
    one, two = nodes
    parent = one.session(500)
    child = two.session(900, gpid=parent.gpid)
    for position in range(4):
        insert(parent, child, position * 10.0, key=1_000_000)
    recording = record(*nodes)
    pairs = pairs_with_keys(build_traces(recording.log_events, recording.nodes), recording)
    assert pairs.height == pairs["child_offset"].n_unique() == 4
    assert pairs.sort("byte_offset")["child_offset"].is_sorted()


def test_several_child_connections_of_one_session(nodes: tuple[Node, Node]) -> None:
    one, two = nodes
    parent = one.session(500)
    children = [two.session(pid, gpid=parent.gpid) for pid in (930, 910, 920)]
    for position, key in enumerate(KEYS):
        insert(parent, children[position * 7 % 3], position * 10.0, key)
    assert pair_up(record(*nodes)) == rightly(KEYS)


def test_clients_with_the_same_pid_on_different_nodes() -> None:
    one, two, three = Node("1", 2), Node("2", 3), Node("3", 7)
    parents = [one.session(500), two.session(500)]
    children = [three.session(900 + number, gpid=parent.gpid) for number, parent in enumerate(parents)]
    for position, key in enumerate(KEYS):
        insert(parents[position % 2], children[position % 2], position * 5.0, key)
    assert pair_up(record(one, two, three)) == rightly(KEYS)


def test_a_worker_that_restarted_and_reused_the_pid_of_its_child(nodes: tuple[Node, Node]) -> None:
    one, two = nodes
    parent = one.session(500)
    for life, keys in enumerate((KEYS[:5], KEYS[5:])):
        child = two.session(900, gpid=parent.gpid)
        for position, key in enumerate(keys):
            insert(parent, child, 1000.0 * life + position * 10.0, key)
    assert pair_up(record(*nodes)) == rightly(KEYS)


def test_a_parent_pid_that_another_client_got_later(nodes: tuple[Node, Node]) -> None:
    one, two = nodes
    for life, keys in enumerate((KEYS[:5], KEYS[5:])):
        parent = one.session(500)
        child = two.session(900 + life, gpid=parent.gpid)
        for position, key in enumerate(keys):
            insert(parent, child, 1000.0 * life + position * 10.0, key)
    assert pair_up(record(*nodes)) == rightly(KEYS)


def test_a_child_that_died_with_its_server_is_not_counted(nodes: tuple[Node, Node]) -> None:
    one, two = nodes
    parent = one.session(500)
    child = two.session(900, gpid=parent.gpid)
    for position, key in enumerate(KEYS[:5]):
        insert(parent, child, position * 10.0, key)
    begin(parent, 60.0, 999_999)
    child.write(60.2, "statement: INSERT INTO public.usertable_102008 (ycsb_key) VALUES ('user999999'::text)")
    parent.write(61.0, "connection to the remote node failed: server closed the connection unexpectedly", "ERROR")
    child = two.session(950, gpid=parent.gpid)
    for position, key in enumerate(KEYS[5:]):
        insert(parent, child, 100.0 + position * 10.0, key)
    assert pair_up(record(*nodes)) == rightly(KEYS)


def failed_insert(parent: Session, child: Session, ms: float, key: int) -> None:
    begin(parent, ms, key)
    child.xid += 1
    child.write(ms + 0.2, f"statement: INSERT INTO public.usertable_102008 (ycsb_key) VALUES ('user{key}'::text)")
    child.write(ms + 0.4, 'duplicate key value violates unique constraint "usertable_pkey_102008"', "ERROR")
    child.write(ms + 0.4, f"Key (ycsb_key)=(user{key}) already exists.", "DETAIL")
    parent.write(ms + 0.6, 'duplicate key value violates unique constraint "usertable_pkey_102008"', "ERROR")
    parent.write(ms + 0.6, "while executing command on worker2:5432", "CONTEXT")


def test_failed_statements_do_not_shift_the_order(nodes: tuple[Node, Node]) -> None:
    one, two = nodes
    parent = one.session(500)
    child = two.session(900, gpid=parent.gpid)
    for position, key in enumerate(KEYS):
        insert(parent, child, position * 20.0, key)
        failed_insert(parent, child, position * 20.0 + 10.0, key)
    recording = record(*nodes)
    assert pair_up(recording) == rightly(KEYS)
    statements = build_traces(recording.log_events, recording.nodes).statements
    assert statements.filter("failed").height == len(KEYS)


def irregular(count: int, seed: int) -> list[float]:
    """Times between 3 and 40 ms apart."""
    draw = random.Random(seed)
    times = [0.0]
    while len(times) < count:
        times.append(times[-1] + draw.uniform(3.0, 40.0))
    return times


@pytest.mark.parametrize("clock_ms", [0, 3000, -3000])
def test_equal_lengths_by_accident_after_cuts_on_both_sides(clock_ms: int) -> None:
    """The child's log lost the first ten statements, the parent's the last ten: order alone would shift by ten."""
    one, two = Node("1", 2), Node("2", 3, clock_ms)
    parent = one.session(500)
    child = two.session(900, gpid=parent.gpid)
    keys = range(1_000_000, 1_000_060)
    for ms, key in zip(irregular(len(keys), 1), keys, strict=True):
        insert(parent, child, ms, key)
    two.lines = two.lines[20:]
    one.lines = one.lines[:-50]
    assert pair_up(record(one, two)) == rightly(keys[10:50], "exact")
    assert pair_up(record(one, two).without_values()) == rightly(keys[10:50], "inferred")


def test_equal_lengths_by_accident_without_a_sign_in_the_line_numbers() -> None:
    """As before, but the lost statements ran on a connection of their own: every session seems complete."""
    one, two = Node("1", 2), Node("2", 3)
    parent = one.session(500)
    first, second = two.session(900, gpid=parent.gpid), two.session(901, gpid=parent.gpid)
    keys = range(1_000_000, 1_000_060)
    for position, (ms, key) in enumerate(zip(irregular(len(keys), 2), keys, strict=True)):
        insert(parent, first if position < 10 else second, ms, key)
    two.lines = two.lines[20:]
    one.lines = one.lines[:-50]
    assert pair_up(record(one, two)) == rightly(keys[10:50], "exact")
    assert pair_up(record(one, two).without_values()) == rightly(keys[10:50], "inferred")


def test_a_periodic_workload_does_not_fool_it(nodes: tuple[Node, Node]) -> None:
    """Every 100 ms a statement: a shift by one fits the clocks as well as none, so only values decide."""
    one, two = nodes
    parent = one.session(500)
    child = two.session(900, gpid=parent.gpid)
    keys = range(1_000_000, 1_000_030)
    for position, key in enumerate(keys):
        insert(parent, child, 100.0 * position, key)
    two.lines = two.lines[20:]
    assert pair_up(record(*nodes)) == rightly(keys[10:], "exact")
    recording = record(*nodes).without_values()
    traces = build_traces(*recording.tables())
    assert pairs_with_keys(traces, recording).height == 0
    assert "offset of the clocks is unknown" in traces.match_quality["warning"][0]


def test_offsets_that_contradict_each_other_prove_nothing() -> None:
    """A periodic workload whose cut shows nowhere, but the pairs in the other direction tell the clocks."""
    one, two = Node("1", 2), Node("2", 3)
    parent, other = one.session(500), two.session(600)
    first, second = two.session(900, gpid=parent.gpid), two.session(901, gpid=parent.gpid)
    back = one.session(700, gpid=other.gpid)
    keys = range(1_000_000, 1_000_030)
    for position, key in enumerate(keys):
        insert(parent, first if position < 10 else second, 100.0 * position, key)
    begin_of_rest = len(two.lines) - 2 * 20
    two.lines = two.lines[begin_of_rest:]
    one.lines = one.lines[: -5 * 10]
    for position in range(5):
        insert(other, back, 5000.0 + 10 * position, 2_000_000 + position)
    wrong = {
        key: child for key, (child, match) in pair_up(record(one, two)).items() if child != key and match == "exact"
    }
    assert not wrong


def test_lost_lines_in_the_middle(nodes: tuple[Node, Node]) -> None:
    one, two = nodes
    parent = one.session(500)
    child = two.session(900, gpid=parent.gpid)
    keys = range(1_000_000, 1_000_040)
    for ms, key in zip(irregular(len(keys), 3), keys, strict=True):
        insert(parent, child, ms, key)
    two.lines = two.lines[:20] + two.lines[30:]
    assert pair_up(record(*nodes)) == rightly(keys[:10]) | rightly(keys[15:], "exact")
    assert pair_up(record(*nodes).without_values()) == rightly(keys[:10]) | rightly(keys[15:], "inferred")


def test_logs_cut_in_the_middle_of_a_statement(nodes: tuple[Node, Node]) -> None:
    """The parent's log begins between a statement line and its task: the rest must not join the next statement."""
    one, two = nodes
    parent = one.session(500)
    child = two.session(900, gpid=parent.gpid)
    keys = range(1_000_000, 1_000_040)
    for ms, key in zip(irregular(len(keys), 4), keys, strict=True):
        insert(parent, child, ms, key)
    one.lines = one.lines[5 * 10 + 3 :]
    recording = record(*nodes)
    traces = build_traces(recording.log_events, recording.nodes)
    statements = traces.statements.sort("byte_offset")
    assert set(statements["executed"]) == {"remote"}
    assert statements["total_us"].to_list() == [None, *[pytest.approx(820.0)] * 29]
    assert traces.match_quality.select("tasks", "by_content", "inferred", "unmatched_children").row(0) == (
        30,
        29,
        1,
        10,
    )


def test_simple_protocol_and_durations_with_their_statement(nodes: tuple[Node, Node]) -> None:
    one, _ = nodes
    psql = one.session(500)
    psql.write(0, "statement: select 1")
    psql.write(1, "duration: 1.000 ms", xid=0)
    psql.write(2, "duration: 0.500 ms  parse S_1: select $1")
    psql.write(3, "duration: 0.250 ms  bind S_1: select $1")
    psql.write(4, "duration: 2.000 ms  execute S_1: select $1")
    psql.write(5, "duration: 3.000 ms  statement: select 2")
    statements = build_traces(record(one).log_events, record(one).nodes).statements.sort("byte_offset")
    times = statements.select(pl.col("protocol").cast(pl.String), "parse_us", "bind_us", "execute_us").rows()
    assert times == [
        ("simple", None, None, 1000.0),
        ("extended", 500.0, 250.0, 2000.0),
        ("simple", None, None, 3000.0),
    ]


def test_a_partition_that_looks_like_a_shard_is_none_outside_of_a_cluster(nodes: tuple[Node, Node]) -> None:
    one, _ = nodes
    psql = one.session(500)
    for number in range(4):
        psql.write(number, f"statement: SELECT count(*) FROM public.events_20240{number}")
        psql.write(number + 1, "duration: 0.900 ms", xid=0)
    traces = build_traces(record(one).log_events, TABLES["nodes"].empty())
    assert traces.statements["total_us"].to_list() == [900.0] * 4
    assert traces.statements["executed"].cast(pl.String).to_list() == ["local"] * 4
    assert traces.spans.filter(pl.col("kind") == "local").is_empty()
    # In a cluster it is the execution of a statement whose own line is missing.
    assert build_traces(record(one).log_events, record(one).nodes).statements.is_empty()


def test_an_error_is_a_failed_statement_where_the_log_names_the_statement(nodes: tuple[Node, Node]) -> None:
    one, _ = nodes
    client = one.session(500)
    client.write(0, "duplicate key value violates unique constraint", "ERROR")
    client.write(0, "INSERT INTO usertable VALUES ($1)", "STATEMENT")
    client.write(9, "terminating connection due to administrator command", "FATAL")
    statements = build_traces(record(one).log_events, record(one).nodes).statements
    known = statements.select("statement_kind", "failed", "protocol", "total_us")
    assert known.cast({"statement_kind": pl.String}).rows() == [("insert", True, None, None)]


def test_an_error_belongs_to_the_statement_that_it_names(nodes: tuple[Node, Node]) -> None:
    one, _ = nodes
    client = one.session(500)
    client.write(0, "statement: UPDATE usertable SET field0 = 1")
    client.write(9, 'relation "x" does not exist', "ERROR")
    client.write(9, "SELECT * FROM x", "STATEMENT")
    client.write(12, "duration: 2.000 ms")
    client.write(22, "duration: 9.000 ms  statement: DELETE FROM usertable")
    statements = build_traces(record(one).log_events, record(one).nodes).statements
    known = statements.sort("byte_offset").select("statement_kind", "failed", "total_us")
    assert known.cast({"statement_kind": pl.String}).rows() == [
        ("update", False, None),
        ("select", True, None),
        ("delete", False, 9000.0),
    ]


def test_without_node_numbers_nothing_is_paired_and_nothing_fails(nodes: tuple[Node, Node]) -> None:
    one, two = nodes
    parent = one.session(500)
    insert(parent, two.session(900, gpid=parent.gpid), 0.0, 1_000_000)
    traces = build_traces(record(*nodes).log_events, TABLES["nodes"].empty())
    assert traces.statements["gpid"].to_list() == [None]
    assert traces.match_quality.select(pl.sum("tasks", "exact", "inferred", "children")).row(0) == (1, 0, 0, 1)


@pytest.mark.parametrize("with_success", [False, True], ids=["by order", "by time"])
def test_failed_children_belong_to_the_statement_that_failed(nodes: tuple[Node, Node], with_success: bool) -> None:
    one, two = nodes
    parent = one.session(500)
    child = two.session(900, gpid=parent.gpid)
    for position, key in enumerate(KEYS):
        if with_success:
            insert(parent, child, position * 40.0, key)
        failed_insert(parent, child, position * 40.0 + 20.0, key)
    recording = record(*nodes)
    traces = build_traces(recording.log_events, recording.nodes)
    failed = traces.statements.filter("failed").select("trace_id", "shard_id", "executed", "match", "end_time")
    assert set(failed.select("shard_id", "executed", "match").rows()) == {(102008, "remote", "inferred")}
    remotes = traces.spans.filter(pl.col("kind") == "remote").select("trace_id", child_end="end_time")
    linked = failed.join(remotes, on="trace_id")
    assert linked.height == len(KEYS)
    assert (linked["end_time"] - linked["child_end"]).dt.total_milliseconds().is_between(0, 1).all()

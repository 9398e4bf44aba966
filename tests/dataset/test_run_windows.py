from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from citus_analysis.dataset.identity import Identity
from citus_analysis.dataset.run_windows import KnownRun, Tagger, assign
from citus_analysis.schema import TABLES
from tests.shards import count_examples

NODE = Identity("V3", node="1", iteration=2)
FIRST = KnownRun("V3/a", 1, 10_000, 20_000)
SECOND = KnownRun("V3/b", 2, 30_000, 40_000)
THIRD = KnownRun("V3/c", 2, 50_000, 60_000)
FROM_TO = ("from_time", "sample_time")


def log(*times_ms: int | None) -> pl.DataFrame:
    frame = pl.DataFrame({"log_time": times_ms}, schema={"log_time": pl.Int64})
    return TABLES["log_events"].parsed().conform(frame.cast(pl.Datetime("ms", "UTC")))


def runs_of(tagger: Tagger, *times_ms: int | None) -> list[str | None]:
    return tagged(tagger, "log_events", log(*times_ms))["run_id"].to_list()


def tagged(tagger: Tagger, name: str, frame: pl.DataFrame) -> pl.DataFrame:
    return TABLES[name].conform(pl.DataFrame(tagger.tag(name, TABLES[name].parsed().batch(frame))))


def test_the_only_run_of_the_iteration() -> None:
    assert assign("s", NODE, (FIRST, SECOND)).run_id == "V3/b"


def test_a_file_that_names_its_run_keeps_it() -> None:
    named = Identity("V3", phase="run", iteration=2)
    assert assign("s", named, (FIRST, SECOND)).run_id == "V3/run-i2"


def test_without_iteration_the_only_run_of_the_resource() -> None:
    assert assign("s", Identity("V3"), (FIRST,)).run_id == "V3/a"
    assert assign("s", Identity("V3"), ()).run_id is None


def test_several_runs_share_the_iteration() -> None:
    tagger = assign("s", NODE, (THIRD, SECOND, FIRST))
    assert tagger.run_id is None
    expected = [(None, None), (30_000, "b"), (35_000, "b"), (20_000, None), (60_001, "c"), (45_000, None)]
    times = [time for time, _ in expected]
    assert runs_of(tagger, *times) == [None if run is None else f"V3/{run}" for _, run in expected]


def test_clients_connect_before_their_first_status_line() -> None:
    tagger = assign("s", NODE, (SECOND, THIRD))
    assert runs_of(tagger, 28_000, 27_999, 42_000, 42_001, 62_000) == ["V3/b", None, "V3/b", None, "V3/c"]


def test_the_margin_ends_half_way_to_the_neighbour() -> None:
    tagger = assign(
        "s",
        NODE,
        (
            SECOND,
            KnownRun("V3/c", 2, 41_000, 50_000),
        ),
    )
    assert runs_of(tagger, 40_499, 40_501) == ["V3/b", "V3/c"]


def test_rows_inside_two_windows_belong_to_neither() -> None:
    tagger = assign(
        "s",
        NODE,
        (
            KnownRun("V3/long", 2, 0, 100_000),
            KnownRun("V3/short", 2, 30_000, 40_000),
        ),
    )
    assert runs_of(tagger, 10_000, 35_000, 90_000) == ["V3/long", None, "V3/long"]


def test_a_run_without_times_takes_no_rows() -> None:
    tagger = assign(
        "s",
        NODE,
        (
            SECOND,
            KnownRun("V3/untimed", 2),
        ),
    )
    assert runs_of(tagger, 35_000, 99_000) == ["V3/b", None]


def test_the_iteration_comes_from_the_run_where_the_file_names_none() -> None:
    tagger = assign("s", Identity("V3", node="1"), (FIRST, SECOND))
    assert tagged(tagger, "log_events", log(15_000, 35_000, 25_000))["iteration"].to_list() == [1, 2, None]


def test_all_identity_columns_are_filled_in() -> None:
    tagger = assign("the-source", Identity("V3", node="1", iteration=2, role="main", part=0), (SECOND,))
    row = tagged(tagger, "log_events", log(35_000)).row(0, named=True)
    assert {name: row[name] for name in ("source_id", "run_id", "iteration", "node")} == {
        "source_id": "the-source",
        "run_id": "V3/b",
        "iteration": 2,
        "node": "1",
    }
    clients = pl.DataFrame({"tool": ["ycsb"]})
    assert tagged(tagger, "clients", clients).select("role", "part").row(0) == ("main", 0)


def test_a_format_that_states_the_node_keeps_it() -> None:
    nodes = pl.DataFrame({"node": ["7"], "nodeid": [3]})
    assert tagged(assign("s", NODE, ()), "nodes", nodes)["node"].to_list() == ["7"]


def test_tables_without_time_of_a_shared_source_belong_to_no_run() -> None:
    symbols = pl.DataFrame({"symbol": ["f"]})
    assert tagged(assign("s", NODE, (SECOND, THIRD)), "perf_symbols", symbols)["run_id"].to_list() == [None]


@settings(max_examples=count_examples(60), deadline=None)
@given(
    windows=st.lists(st.tuples(st.integers(0, 99_000), st.integers(0, 30_000)), min_size=2, max_size=6),
    times=st.lists(st.integers(0, 150_000), max_size=30),
)
def test_a_row_inside_exactly_one_window_belongs_to_it(windows: list[tuple[int, int]], times: list[int]) -> None:
    runs = [KnownRun(f"V3/{n}", 2, start, start + length) for n, (start, length) in enumerate(windows)]
    found = runs_of(assign("s", NODE, runs), *times)
    for time, run_id in zip(times, found, strict=True):
        inside = [r.run_id for r in runs if r.start_ms is not None and r.end_ms and r.start_ms <= time <= r.end_ms]
        if len(inside) > 1:
            assert run_id is None
        elif inside:
            assert run_id in (inside[0], None)
        if run_id is not None and inside:
            assert inside == [run_id]


def test_times_are_read_as_utc() -> None:
    frame = log(35_000)
    assert frame["log_time"].to_list() == [datetime(1970, 1, 1, 0, 0, 35, tzinfo=UTC)]


@pytest.mark.parametrize("table", ["cpu_samples", "device_samples", "vm_samples"])
def test_samples_are_placed_by_their_time(table: str) -> None:
    frame = pl.DataFrame({"sample_time": [35_000, 55_000]}).cast(pl.Datetime("ms", "UTC"))
    assert tagged(assign("s", NODE, (SECOND, THIRD)), table, frame)["run_id"].to_list() == ["V3/b", "V3/c"]


@pytest.mark.parametrize("table", ["activity_samples", "server_counters"])
def test_snapshots_of_several_runs_are_placed_by_their_microseconds(table: str) -> None:
    frame = pl.DataFrame({"sample_time": [35_000_322, 55_000_001]}).cast(pl.Datetime("us", "UTC"))
    assert tagged(assign("s", NODE, (SECOND, THIRD)), table, frame)["run_id"].to_list() == ["V3/b", "V3/c"]


@pytest.mark.parametrize(
    ("from_ms", "at_ms", "run"),
    [
        (None, 35_000, "b"),
        (30_000, 40_000, "b"),
        (25_000, 35_000, "b"),  # as long in as out
        (20_500, 33_500, None),  # mostly before the run
        (41_000, 49_500, None),  # between two runs
        (0, 51_000, None),  # the time since the last snapshot of an earlier run
        (20_000, 50_000, None),  # longer than the run around whose middle it lies
    ],
)
def test_growth_belongs_to_the_run_in_which_most_of_it_was(from_ms: int | None, at_ms: int, run: str | None) -> None:
    frame = pl.DataFrame({"from_time": [from_ms], "sample_time": [at_ms]}, schema=dict.fromkeys(FROM_TO, pl.Int64))
    rows = tagged(assign("s", NODE, (SECOND, THIRD)), "server_counters", frame.cast(pl.Datetime("ms", "UTC")))
    assert rows["run_id"].to_list() == [None if run is None else f"V3/{run}"]


def test_threads_never_make_polars_look_for_numpy() -> None:
    program = (
        "import citus_analysis.dataset, citus_analysis.dataset.ingestion, polars._dependencies as found;"
        "print(type(found.numpy).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "module\n"

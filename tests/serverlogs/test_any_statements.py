"""No statement of a log vanishes: whatever the prefix, the verbosity, the protocol and the limit of what is logged."""

import itertools

import polars as pl
import pytest

from citus_analysis.schema import TABLES
from citus_analysis.spans import build_traces
from tests.formats.pglog.oracle import use_oracle
from tests.serverlogs.written_logs import WITH_SESSION, WITHOUT_SESSION, Execution, Server, mixed, sessions_of
from tests.spans.recordings import parse_log

NO_NODES = TABLES["nodes"].empty()
IDENTITY = {"source_id": "a", "resource": "r", "run_id": None, "iteration": 1, "node": "1"}
SIMPLE, EXTENDED, BOTH = ("simple",), ("extended",), ("simple", "extended")


def events_of(data: bytes) -> pl.DataFrame:
    events = parse_log(data)["log_events"]
    named = events.with_columns(pl.lit(value).alias(name) for name, value in IDENTITY.items())
    return TABLES["log_events"].conform(named)


def statements_of(data: bytes) -> pl.DataFrame:
    return build_traces(events_of(data), NO_NODES).statements


def times_ms(statements: pl.DataFrame) -> list[float]:
    return sorted(round(time / 1000, 3) for time in statements["total_us"])


@pytest.mark.parametrize("protocols", [SIMPLE, EXTENDED, BOTH], ids=" and ".join)
@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("prefix", [*WITH_SESSION, *WITHOUT_SESSION])
def test_all_statements_are_counted(prefix: str, verbose: bool, protocols: tuple[str, ...]) -> None:
    for seed, limit_ms in itertools.product(range(2), (0.0, 1.0)):
        server, sessions = Server(prefix, verbose=verbose, limit_ms=limit_ms), sessions_of(seed, protocols)
        for pid, one in mixed(seed, sessions):
            server.executes(pid, one)
        truth = server.statements(sessions, told_apart=prefix in WITH_SESSION)
        if truth:
            found = statements_of(server.data())
            assert times_ms(found) == truth
            assert found["pid"].is_null().all() == (prefix in WITHOUT_SESSION)
            assert set(found["statement_kind"]) == {"select"}


@pytest.mark.parametrize("prefix", [WITH_SESSION[0], WITHOUT_SESSION[0]])
def test_the_oracle_finds_the_same(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(prefix, verbose=True, limit_ms=1.0)
    for pid, one in mixed(3, sessions_of(3, BOTH)):
        server.executes(pid, one)
    fast = statements_of(server.data())
    use_oracle(monkeypatch)
    assert statements_of(server.data()).equals(fast)


def test_times_of_other_statements_are_not_added() -> None:
    """A parse or bind that nothing follows, then another statement."""
    server = Server("%m [%p] ", limit_ms=1.0)
    server.executes(7, Execution("SELECT 1 FROM a", 0.1, 5.0, 0.1))
    server.executes(7, Execution("SELECT 1 FROM b", 2.0, 0.1, 0.1))
    server.executes(7, Execution("SELECT 1 FROM c", 0.1, 0.1, 3.0))
    server.executes(7, Execution("SELECT 1 FROM d", 4.0))
    assert times_ms(statements_of(server.data())) == [2.0, 3.0, 4.0]


def test_statements_without_times_count_too() -> None:
    """`log_statement = all` and `log_duration = on`: without a session, a time cannot be told to belong to a text."""
    for prefix, times in (("%m [%p] ", [1.5]), ("%m ", [None])):
        server = Server(prefix)
        server.record(7, "LOG", "statement: SELECT 1")
        server.record(7, "LOG", "duration: 1.500 ms")
        found = statements_of(server.data())["total_us"]
        assert [time and time / 1000 for time in found] == times

"""A table that may not be truncated is emptied all the same, and the runs say how."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from citus_analysis.runner import connections as sql
from citus_analysis.runner import make_plan, run_experiment
from citus_analysis.runner.embedded import LOOPBACK, SUPERUSER, Embedded
from citus_analysis.runner.execute import RunnerSummary
from citus_analysis.runner.experiment import EmbeddedTarget, parse_experiment
from citus_analysis.runner.truncation import empty_table

pytestmark = pytest.mark.server

#: More than two batches.
RECORDS = 25_000
REFUSING = (
    "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this table'; END $$",
    "CREATE TRIGGER refuse BEFORE TRUNCATE ON usertable EXECUTE FUNCTION refuse()",
)
#: An owner may take a privilege from himself.
REVOKED = (
    "CREATE ROLE bench LOGIN",
    "GRANT ALL ON SCHEMA public TO bench",
    "ALTER TABLE usertable OWNER TO bench",
    "REVOKE TRUNCATE ON usertable FROM bench",
)
STRANGERS = (*REVOKED[:2], "GRANT SELECT, INSERT, UPDATE, DELETE ON usertable TO bench")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Embedded]:
    """A server of somebody else's that holds the benchmark's table with records."""
    theirs = Embedded(EmbeddedTarget(), tmp_path / "theirs")
    theirs.prepare(make_plan(parse_experiment({"name": "x", "matrix": {"workloads": ["c"]}}))[0].configuration)
    theirs.fill(RECORDS)
    yield theirs
    theirs.stop()


def ask(server: Embedded, *statements: str) -> list[tuple[Any, ...]]:
    with server.connect(server.nodes()[0]) as connection:
        return [sql.query(connection, statement) for statement in statements][-1]


def load(server: Embedded, out: Path, **target: str) -> RunnerSummary:
    """Load 60 records twice."""
    nodes = [{"host": LOOPBACK, "port": server.nodes()[0].port, "role": "coordinator"}]
    stated = {"kind": "cluster", "system": "postgresql", "user": SUPERUSER, "nodes": nodes, **target}
    matrix = {"workloads": ["load"], "threads": [2], "records": [60]}
    samplers = dict.fromkeys(("iostat", "vmstat", "host", "activity", "counters"), False)
    document = {"name": "again", "iterations": 2, "target": stated, "matrix": matrix, "samplers": samplers}
    return run_experiment(parse_experiment(document), out)


@pytest.mark.parametrize(
    ("prepared", "target", "why"),
    [
        (REFUSING, {}, "not this table"),
        (REVOKED, {"user": "bench"}, "permission denied for table usertable"),
        ((), {"system": "spanner"}, "the system has none"),
    ],
    ids=["trigger", "privilege", "system"],
)
def test_delete_empties_what_truncate_may_not(
    server: Embedded, tmp_path: Path, prepared: tuple[str, ...], target: dict[str, str], why: str
) -> None:
    if prepared:
        ask(server, *prepared)
    summary = load(server, tmp_path / "out", **target)
    assert (len(summary.verified), dict(summary.failed)) == (2, {})  # verified: each load counted 60 rows
    said = [note for note in summary.notes if "DELETE" in note]
    assert said == [
        f"the table's {rows} rows were removed by DELETE instead of TRUNCATE ({why})" for rows in ("25,000", "60")
    ]
    assert server.count() == 60


def test_space_that_is_not_freed_is_told(server: Embedded) -> None:
    ask(server, *STRANGERS)
    with sql.connect(server.nodes()[0], database=SUPERUSER, user="bench") as connection:
        said = empty_table(connection)
    assert said is not None
    assert "permission denied for table usertable); their space was not freed: " in said
    assert server.count() == 0


def test_an_empty_table_needs_no_delete(server: Embedded) -> None:
    server.fill(0)
    ask(server, *REFUSING)
    with server.connect(server.nodes()[0]) as connection:
        assert empty_table(connection) is None

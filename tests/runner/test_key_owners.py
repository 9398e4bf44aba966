"""Load generators that are limited to the keys of one node: owners are as Citus says, scripts choose their own keys."""

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from citus_analysis.errors import InputError, RunnerError
from citus_analysis.runner import connections as sql
from citus_analysis.runner import run_experiment
from citus_analysis.runner.embedded import Embedded
from citus_analysis.runner.experiment import load_experiment, parse_experiment
from citus_analysis.runner.key_owners import divide_owned_numbers, find_key_owners
from citus_analysis.runner.plan import list_configurations
from citus_analysis.runner.workloads import RecordList, build_key_names, build_pgbench_scripts, write_lookup

CLUSTER = {"kind": "cluster", "nodes": [{"host": "c", "role": "coordinator"}]}
PGBENCH = {"kind": "pgbench", "distribution": "uniform"}
MATRIX: dict[str, Any] = {"workloads": ["c"], "workers": [2, 4], "drivers": [4], "threads": [8], "entry": ["owner"]}


def parse(matrix: dict[str, Any], driver: dict[str, Any] = PGBENCH, target: dict[str, Any] = CLUSTER) -> Any:
    return parse_experiment({"name": "x", "target": target, "driver": driver, "matrix": {**MATRIX, **matrix}})


def test_entries_are_an_axis_of_the_plan() -> None:
    found = list_configurations(parse({"entry": ["any-node", "owner"], "workers": [2]}))
    assert [(one.resource, one.set_up, one.entry) for one in found] == [
        ("x-w2-t8-c-any-node", "x entry=any-node", "any-node"),
        ("x-w2-t8-c-owner", "x entry=owner", "owner"),
    ]
    assert list_configurations(parse({"entry": ["owner"], "workers": [2]}))[0].resource == "x-w2-t8-c"


def test_the_shipped_experiment_measures_both_ways_with_equally_many_clients() -> None:
    found = list_configurations(load_experiment("owner-routing"))
    assert len(found) == 3 * 2 * 3 * 2
    assert {one.records for one in found} == {500_000}
    assert {one.entry for one in found} == {"any-node", "owner"}


@pytest.mark.parametrize(
    ("matrix", "driver", "target", "problem"),
    [
        ({}, {"kind": "ycsb", "home": "y"}, CLUSTER, "no property of YCSB's client limits it to keys"),
        ({}, {"kind": "pgbench"}, CLUSTER, r"driver\.distribution.*uniform"),
        ({"workloads": ["d"]}, PGBENCH, CLUSTER, "'d' asks for records that it inserts"),
        ({"drivers": [3]}, PGBENCH, CLUSTER, "3 is none of 2 workers"),
        ({"workers": [0]}, PGBENCH, CLUSTER, "a single server has no nodes"),
        ({"workers": []}, PGBENCH, {"kind": "embedded"}, r"set matrix\.workers: \[2\]"),
        ({}, PGBENCH, {**CLUSTER, "system": "aurora"}, "only a Citus cluster"),
        (
            {"workloads": ["reads"]},
            {**PGBENCH, "workloads": {"reads": {"scripts": [{"builtin": "select-only"}]}}},
            CLUSTER,
            r"driver\.workloads\.reads\.key: required",
        ),
    ],
)
def test_what_cannot_be_limited_is_refused(
    matrix: dict[str, Any], driver: dict[str, Any], target: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        parse(matrix, driver, target)


@pytest.mark.parametrize(
    "numbers",
    [
        np.array([7]),
        np.flatnonzero(np.random.default_rng(1).random(2_000) < 0.25),
        10**9 + np.sort(np.random.default_rng(2).choice(10**6, 100, replace=False)),
        np.sort(np.random.default_rng(3).choice(2**40, 20, replace=False)),
    ],
    ids=["one", "dense", "sparse", "far apart"],
)
def test_the_lookup_of_pgbench_is_the_list(numbers: Any) -> None:
    """SQLite evaluates the same expressions."""
    lines = [line.removeprefix("\\set ").split(" ", 1) for line in write_lookup(numbers, "record").splitlines()]
    (_, place), (_, group), (name, expression) = lines
    database = sqlite3.connect(":memory:")
    assert name == "record"
    found = []
    for owned in range(len(numbers)):
        values = database.execute(f"SELECT {place}, {group}", {"owned": owned}).fetchone()
        found.append(database.execute(f"SELECT {expression}", dict(zip(("place", "group"), values, strict=True))))
    assert [row.fetchone()[0] for row in found] == numbers.tolist()


def test_a_timed_load_that_has_used_its_keys_fails_by_name() -> None:
    numbers = np.arange(10)
    (timed,) = build_pgbench_scripts("A", phase="load", limited=RecordList(numbers, is_endless=True))
    (whole,) = build_pgbench_scripts("A", phase="load", limited=RecordList(numbers))
    assert "raise matrix.records" in timed.text
    assert "raise matrix.records" not in whole.text
    assert r"\if :owned < 10" in whole.text


def test_every_number_is_given_to_one_load_generator_of_its_node() -> None:
    owners = np.random.default_rng(1).integers(0, 4, 1000)
    parts = divide_owned_numbers(owners, np.arange(1000), nodes=4, parts=8)
    assert sorted(np.concatenate(parts).tolist()) == list(range(1000))
    assert all((owners[own] == part % 4).all() for part, own in enumerate(parts))
    with pytest.raises(RunnerError, match="no key of 4 records is left for load generator 1 and 3"):
        divide_owned_numbers(np.zeros(4, dtype=np.int64), np.arange(4), nodes=2, parts=4)


@pytest.mark.server
def test_owners_are_the_nodes_that_hold_the_rows_and_statements_stay_there(citus: Embedded, tmp_path: Path) -> None:
    keys, nodes = build_key_names(0, 400), citus.nodes()[1:]
    citus.fill(400)
    with citus.connect() as connection:
        owners = find_key_owners(connection, "usertable", keys, nodes)
        with pytest.raises(RunnerError, match="which no client connects to"):
            find_key_owners(connection, "usertable", keys, nodes[:1])
        sql.query(connection, "CREATE TABLE everywhere (key text)")
        sql.query(connection, "SELECT create_reference_table('everywhere')")
        with pytest.raises(RunnerError, match="no single node owns them"):
            find_key_owners(connection, "everywhere", keys, nodes)
    held = []
    for node in nodes:
        with citus.connect(node) as connection:
            sql.query(connection, "SET citus.override_table_visibility = off")
            tables = sql.query(connection, "SELECT relname FROM pg_class WHERE relname ~ '^usertable_[0-9]+$'")
            rows = [sql.query(connection, f"SELECT ycsb_key FROM {table}") for (table,) in tables]
            held.append({key for found in rows for (key,) in found})
    assert [set(np.array(keys)[owners == place]) for place in range(len(nodes))] == held
    assert all(len(one) > 100 for one in held)

    check_that_statements_stay(citus, tmp_path / "out")


def check_that_statements_stay(citus: Embedded, out: Path) -> None:
    """With owner routing no node has a session of another one; on any node there are some."""
    servers = zip(citus.nodes(), citus._servers, strict=True)
    nodes = [
        {"host": node.host, "port": node.port, "role": node.role, "shell": "local", "log_directory": str(server.folder)}
        for node, server in servers
    ]
    own = {
        "set_up": ["owner-routing/schema.sql"],
        "scripts": [{"file": "owner-routing/update.sql"}],
        "key": {"variable": "aid", "table": "accounts"},
    }
    experiment = parse_experiment(
        {
            "name": "x",
            "iterations": 1,
            "order": "sequential",
            "target": {"kind": "cluster", "nodes": nodes},
            "driver": {**PGBENCH, "workloads": {"update": own}},
            "samplers": dict.fromkeys(("iostat", "vmstat", "host", "canary", "activity", "counters"), False),
            "monitor": {"rate_ops_s": 100},
            "matrix": {
                "workloads": ["load", "c", "update"],
                "entry": ["any-node", "owner"],
                "workers": [2],
                "drivers": [2],
                "threads": [2],
                "records": [1000],
                "operations": [1500],
                "monitored": [True],
            },
        }
    )
    summary = run_experiment(experiment, out, replace_table=True)
    assert (len(summary.verified), dict(summary.failed), dict(summary.degraded)) == (6, {}, {})
    for entry, is_remote in (("any-node", True), ("owner", False)):
        for resource in out.glob(f"x-*-{entry}"):
            logs = b"".join(path.read_bytes() for path in sorted(resource.glob("pglogs/PGLOG-[12]-*.log")))
            assert b"statement: " in logs or b"execute " in logs, resource
            assert (b"app=citus_internal" in logs) is is_remote, resource

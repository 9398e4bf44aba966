"""What is recorded of servers over SQL, on a real one, and what is said where that is not possible."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.errors import RunnerError
from citus_analysis.runner import read_overview, run_experiment
from citus_analysis.runner.connections import Connecting
from citus_analysis.runner.experiment import parse_experiment
from citus_analysis.runner.server_snapshots import Counters, Reached, start_activity
from citus_analysis.runner.system import ServerNode

EXPERIMENT: dict[str, Any] = {
    "name": "seen",
    "matrix": {"workloads": ["a"], "threads": [3], "records": [300], "operations": [10**6]},
    "iterations": 1,
    "limits": {"duration_s": 3},
    "samplers": {
        "iostat": False,
        "vmstat": False,
        "plans": [
            "UPDATE usertable SET field0 = 'x'",
            "SELECT count(*) FROM usertable WHERE field0 = 'x'",
            "SELECT no",
        ],
    },
}
NODE = ServerNode("1", "127.0.0.1", 1, "worker")


@pytest.mark.server
def test_servers_and_hosts_are_recorded_beside_a_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    summary = run_experiment(parse_experiment(EXPERIMENT), out)
    assert summary.verified == ("seen-w0-t3-a#1",)
    names = {path.name for path in (out / "seen-w0-t3-a" / "snapshots").iterdir()}
    assert {"activity-0-1.csv", "pg_stat_wal-0-1.csv", "pg_stat_database-0-1.csv", "pg_stat_io-0-1.csv"} <= names
    seen = yaml.safe_load((out / "seen-w0-t3-a" / "config.yml").read_text())["measured"][1]
    assert seen["sessions_by_node"] == {"0": 3}
    assert seen["share_by_node"] == {"0": 1.0}
    assert seen["skipped"] == [
        "pg_stat_statements is not installed on node 0: no counters of statements",
        'statement 3 of samplers.plans was not explained: column "no" does not exist',
    ]
    assert read_overview(out).runs[0].shares == {"0": 1.0}

    ingest([out], tmp_path / "dataset")
    dataset = open_dataset(tmp_path / "dataset")
    run = dataset.runs().row(0, named=True)
    activity = dataset.table("activity_samples")
    assert activity["run_id"].unique().to_list() == [run["run_id"]]
    assert activity["sample"].n_unique() >= 3
    assert "usertable" not in str(activity.rows())  # no text of a query
    commits = dataset.table("server_counters").filter(pl.col("key") == "postgres", pl.col("counter") == "xact_commit")
    # A session hands its newest numbers on when it ends, or within a second.
    assert commits["value"].item() == pytest.approx(run["operations_done"], rel=0.05)
    plans = dataset.plans().sort("plan")
    assert plans.select("query", "analyzed", "node", "iteration").rows() == [
        (statement, True, "0", 1) for statement in EXPERIMENT["samplers"]["plans"][:2]
    ]
    assert plans["run_id"].to_list() == [run["run_id"]] * 2
    scan = dataset.plan_nodes().filter(pl.col("plan") == 1, pl.col("node_type") == "Seq Scan")
    assert (scan["actual_rows"].item(), scan["removed_rows"].item()) == (0, 300)  # the update was rolled back
    assert dataset.table("net_samples")["run_id"].unique().to_list() == [run["run_id"]]


def refused(_node: ServerNode) -> Connecting:
    raise RunnerError("node 1 (127.0.0.1:1): permission denied")


def test_what_is_refused_is_a_sentence(tmp_path: Path) -> None:
    (sampling,) = start_activity([NODE], refused, tmp_path)
    sampling.stop()
    assert sampling.taken == 0
    assert sampling.problem == (
        "sessions of node 1 were not recorded to the end: node 1 (127.0.0.1:1): permission denied"
    )
    counters = Counters([NODE], refused, tmp_path)
    counters.take()
    counters.take()
    assert counters.skipped == {"counters of node 1 were not read: node 1 (127.0.0.1:1): permission denied"}
    assert counters.executed() == {}


def test_a_counter_that_went_back_tells_no_number(tmp_path: Path) -> None:
    statements = {"1": [100, 350], "2": [100, 20], "3": [7]}
    assert Counters([], refused, tmp_path, statements=statements).executed() == {"1": 250}


@pytest.mark.parametrize(
    ("sessions", "threads", "one_sided"),
    [
        ({"1": 8, "2": 0}, 8, True),
        ({"1": 7, "2": 1}, 8, False),
        ({"1": 4, "2": 0}, 4, False),  # which happens by chance one time in eight
        ({"1": 1, "2": 0}, 1, False),  # one session cannot be on two nodes
        ({}, 8, False),  # not known
    ],
)
def test_a_run_from_any_node_that_reached_one_is_named(
    sessions: dict[str, int], threads: int, *, one_sided: bool
) -> None:
    problem = Reached(("1", "2"), sessions).problem(threads=threads)
    assert (problem is not None) == one_sided
    assert Reached(("1",), {"1": 8}).problem(threads=8) is None


def test_what_was_reached_survives_the_journal() -> None:
    reached = Reached(("1", "2"), {"1": 6, "2": 2}, {"1": 30, "2": 10}, {"1": "3 snapshots, 1.0 ms each"})
    assert Reached.read(reached.as_facts()) == reached
    assert reached.as_facts()["share_by_node"] == {"1": 0.75, "2": 0.25}

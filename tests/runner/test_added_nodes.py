"""Workers that an experiment adds to somebody else's Citus cluster are taken out again, and their shards move back."""

from pathlib import Path
from typing import Any, Final, LiteralString

import pytest
import yaml

from citus_analysis.errors import InputError, NotReadyError
from citus_analysis.runner import connections as sql
from citus_analysis.runner import restore_cluster, run_experiment
from citus_analysis.runner.embedded import LOOPBACK, SUPERUSER, Embedded
from citus_analysis.runner.execute import RunnerSummary
from citus_analysis.runner.experiment import parse_experiment
from citus_analysis.runner.former_state import FormerState
from citus_analysis.runner.preflight import check_all
from citus_analysis.runner.system import ServerNode

pytestmark = pytest.mark.server

LISTED: Final = "SELECT nodeport, shouldhaveshards FROM pg_dist_node ORDER BY groupid"
SHARDS: Final = (
    "SELECT DISTINCT nodeport FROM pg_dist_placement JOIN pg_dist_node USING (groupid) "
    "JOIN pg_dist_shard USING (shardid) WHERE logicalrelid = 'usertable'::regclass"
)


def ask(node: ServerNode, statement: LiteralString, *values: object) -> list[tuple[Any, ...]]:
    with sql.connect(node, database=SUPERUSER, user=SUPERUSER) as connection:
        return sql.query(connection, statement, *values)


def document(citus: Embedded, **target: Any) -> dict[str, Any]:
    addresses = [{"host": LOOPBACK, "port": node.port, "role": node.role} for node in citus.nodes()]
    return {
        "name": "grown",
        "iterations": 1,
        "order": "sequential",
        "samplers": dict.fromkeys(("iostat", "vmstat", "host", "activity", "counters"), False),
        "target": {"kind": "cluster", "nodes": addresses, "shard_count": 4, "add_nodes": True, **target},
        "matrix": {"workloads": ["c"], "threads": [4], "workers": [1, 2], "records": [500], "operations": [400]},
    }


def launch(citus: Embedded, out: Path, **target: Any) -> RunnerSummary:
    return run_experiment(parse_experiment(document(citus, **target)), out)


def take_out_the_second_worker(citus: Embedded) -> None:
    ask(citus.nodes()[0], "SELECT citus_drain_node(%s, %s, 'block_writes')", LOOPBACK, citus.nodes()[2].port)
    ask(citus.nodes()[0], "SELECT citus_remove_node(%s, %s)", LOOPBACK, citus.nodes()[2].port)


def test_a_worker_joins_for_the_runs_that_need_it(citus: Embedded, tmp_path: Path) -> None:
    take_out_the_second_worker(citus)
    coordinator, first, second = citus.nodes()
    before = ask(coordinator, LISTED)
    assert [port for port, _ in before] == [coordinator.port, first.port]
    checks = check_all(parse_experiment(document(citus)), tmp_path)
    assert [str(check) for check in checks if check.verdict == "failed"] == []
    summary = launch(citus, tmp_path / "out", growth="rebalance")
    assert (len(summary.verified), dict(summary.failed)) == (2, {})
    config = yaml.safe_load((tmp_path / "out/grown-w2-t4-c/config.yml").read_text())
    assert {node["node"] for node in config["nodes"].values()} == {
        f"{LOOPBACK}:{node.port}" for node in (coordinator, first, second)
    }
    growth = config["growth"]
    assert (growth["workers_before"], growth["workers_after"], growth["nodes_added"]) == (1, 2, 1)
    assert growth["adding_s"] > 0
    assert any("adding 1 node another" in note for note in summary.notes)
    assert ask(coordinator, LISTED) == before
    assert ask(coordinator, SHARDS) == [(first.port,)]
    assert ask(coordinator, "SELECT count(*) FROM usertable") == [(500,)]


def test_a_killed_runners_worker_is_taken_out_by_restore(citus: Embedded, tmp_path: Path) -> None:
    take_out_the_second_worker(citus)
    coordinator, _, second = citus.nodes()
    before = ask(coordinator, LISTED)
    launch(citus, tmp_path / "out")
    # What a runner that was killed right after it had added the worker leaves.
    place = tmp_path / "out/.runner/found.json"
    FormerState(place, coordinator, SUPERUSER, SUPERUSER).note_added(LOOPBACK, second.port)
    ask(coordinator, "SELECT citus_add_node(%s, %s)", LOOPBACK, second.port)
    assert restore_cluster(tmp_path / "out") == ()
    assert ask(coordinator, LISTED) == before
    assert not place.exists()


def test_without_leave_no_worker_is_added(citus: Embedded, tmp_path: Path) -> None:
    take_out_the_second_worker(citus)
    before = ask(citus.nodes()[0], LISTED)
    with pytest.raises(NotReadyError, match=r"1 in the cluster, but matrix\.workers requires 1, 2"):
        launch(citus, tmp_path / "out", add_nodes=False)
    assert ask(citus.nodes()[0], LISTED) == before


def test_only_citus_takes_workers() -> None:
    stated = {"kind": "cluster", "system": "aurora", "nodes": [{"host": "writer"}], "add_nodes": True}
    with pytest.raises(InputError, match="add_nodes: needs system: citus"):
        parse_experiment({"name": "x", "target": stated, "matrix": {"workloads": ["c"]}})

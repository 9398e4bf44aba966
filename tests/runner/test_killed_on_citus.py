"""A Citus cluster of somebody else's, and a runner that is killed in each of its states: the next call mends it all."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from citus_analysis.runner import connections as sql
from citus_analysis.runner import run_experiment
from citus_analysis.runner.embedded import LOOPBACK, SUPERUSER, Embedded
from citus_analysis.runner.execute import RunnerSummary
from citus_analysis.runner.experiment import parse_experiment
from citus_analysis.runner.former_state import FILE_NAME
from citus_analysis.runner.journal import Journal
from citus_analysis.runner.system import ServerNode
from citus_analysis.runner.task_log_level import probe_task_level

pytestmark = pytest.mark.server

#: What ALTER SYSTEM had set before, of which one is a list of names.
THEIRS = {"work_mem": "16MB", "search_path": '"$user", public, "odd, name"'}


def experiment(citus: Embedded, **changes: Any) -> dict[str, Any]:
    node = {"host": LOOPBACK, "port": citus.nodes()[0].port, "role": "coordinator"}
    matrix = {"workloads": ["a"], "threads": [2], "workers": [1], "records": [30_000], **changes.pop("matrix", {})}
    return {
        "name": "killed",
        "iterations": 1,
        "samplers": {"iostat": False, "vmstat": False},
        **changes,
        "target": {"kind": "cluster", "nodes": [node], "shard_count": 4, **changes.get("target", {})},
        "matrix": matrix,
    }


def ask(node: ServerNode, *statements: str) -> list[tuple[Any, ...]]:
    with sql.connect(node, database=SUPERUSER, user=SUPERUSER) as connection:
        return [sql.query(connection, statement) for statement in statements][-1]


def launch(citus: Embedded, out: Path, *, resume: bool = False, **changes: Any) -> RunnerSummary:
    return run_experiment(parse_experiment(experiment(citus, **changes)), out, resume=resume)


def altered(node: ServerNode) -> dict[str, str]:
    rows = ask(
        node,
        "SELECT name, setting FROM pg_file_settings WHERE sourcefile LIKE '%auto.conf' "
        "AND name IN ('work_mem', 'search_path') AND applied",
    )
    return {str(name): str(value) for name, value in rows}


def states(out: Path) -> list[str]:
    return [entry.state for entry in Journal(out / ".runner" / "journal.jsonl").entries()]


def filling(out: Path) -> bool:
    return states(out)[-1:] == ["prepared"]


def warming(out: Path) -> bool:
    return any((out / ".runner" / "attempts").glob("*/warm-up.log"))


def measuring(out: Path) -> bool:
    return any((out / ".runner" / "attempts").glob("*/client-0.log"))


def collecting(out: Path) -> bool:
    return "measured" in states(out)


def family_of(out: Path) -> list[psutil.Process]:
    """What the killed runner left running."""
    register = out / ".runner" / "processes.jsonl"
    if not register.exists():
        return []  # no client yet
    started = [json.loads(line)["detail"]["pid"] for line in register.read_text().splitlines()]
    return [psutil.Process(pid) for pid in started if psutil.pid_exists(pid)]


@pytest.mark.parametrize("reached", [filling, warming, measuring, collecting])
def test_a_killed_runner_is_mended_by_the_next(
    citus: Embedded, tmp_path: Path, reached: Callable[[Path], bool]
) -> None:
    for node in citus.nodes():
        ask(
            node,
            "ALTER SYSTEM SET work_mem = '16MB'",
            "ALTER SYSTEM SET search_path = '$user', 'public', 'odd, name'",
            "SELECT pg_reload_conf()",
        )
    assert altered(citus.nodes()[1]) == THEIRS
    settings = {"work_mem": ["8MB"], "search_path": ["public, pg_catalog"]}
    changes: dict[str, Any] = {
        "warmup_s": 2,
        "limits": {"duration_s": 2},
        "target": {"reload_with": "alter_system"},
        "matrix": {"settings": settings},
    }
    file, out = tmp_path / "killed.yml", tmp_path / "out"
    file.write_text(yaml.safe_dump(experiment(citus, **changes)))
    runner = subprocess.Popen([sys.executable, "-m", "citus_analysis", "run", file, "--out", out])
    deadline = time.monotonic() + 60
    while not reached(out):
        assert time.monotonic() < deadline
        assert runner.poll() is None
        time.sleep(0.01)
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    assert altered(citus.nodes()[1]) != THEIRS
    assert (out / ".runner" / FILE_NAME).exists()
    left = family_of(out)

    summary = launch(citus, out, resume=True, **changes)
    assert (summary.verified, dict(summary.failed), dict(summary.degraded)) == (("killed-w1-t2-a#1",), {}, {})
    assert not any(process.is_running() for process in left)
    assert [altered(node) for node in citus.nodes()] == [THEIRS] * 3
    assert not (out / ".runner" / FILE_NAME).exists()
    rows = ask(citus.nodes()[0], "SELECT shouldhaveshards FROM pg_dist_node ORDER BY groupid")
    assert [allowed for (allowed,) in rows] == [False, True, True]
    config = yaml.safe_load((out / "killed-w1-t2-a" / "config.yml").read_text())
    assert config["settings_by_node"]["1"] == {"search_path": "public, pg_catalog", "work_mem": "8MB"}


def test_one_node_carries_the_shards_itself_and_grows_by_moving_them(citus: Embedded, tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "order": "study",
        "between": ["vacuum", "checkpoint"],
        "target": {"growth": "rebalance"},
        # Connections are spread at random: of twelve, each worker gets some.
        "matrix": {"workloads": ["c"], "workers": [0, 1, 2], "threads": [12], "records": [500], "operations": [240]},
    }
    summary = launch(citus, tmp_path / "out", **changes)
    assert (len(summary.verified), dict(summary.failed)) == (3, {})
    found = {
        workers: yaml.safe_load((tmp_path / f"out/killed-w{workers}-t12-c/config.yml").read_text())
        for workers in (0, 1, 2)
    }
    placements = {
        workers: {line.split(",")[3] for line in file.read_text().splitlines()[1:]}
        for workers in (0, 1, 2)
        for file in [tmp_path / f"out/killed-w{workers}-t12-c/pg_dist_shard.csv"]
    }
    assert placements == {0: {"0"}, 1: {"1"}, 2: {"1", "2"}}
    assert (found[0]["growth"], found[1]["growth"]) == (None, None)
    growth = found[2]["growth"]
    assert (growth["workers_before"], growth["workers_after"], growth["shards_moved"]) == (1, 2, 2)
    assert growth["duration_s"] > 0
    assert growth["bytes_moved"] > 100_000  # half of 500 records of a kilobyte
    assert any(note.startswith("growing from 1 to 2 workers took") for note in summary.notes)


def test_a_monitor_gets_the_level_at_which_citus_tells_its_tasks(citus: Embedded, tmp_path: Path) -> None:
    for node in citus.nodes():
        ask(node, "ALTER SYSTEM SET log_line_prefix = '%m [%p] [%v] : [%l-1] %q[app=%a] '", "SELECT pg_reload_conf()")
    matrix = {"monitored": [True], "workers": [2], "records": [1000], "operations": [4000]}
    changes: dict[str, Any] = {"matrix": matrix, "monitor": {"share": 0.05}, "target": {"collect_logs": False}}
    summary = launch(citus, tmp_path / "out", **changes)
    assert dict(summary.failed) == {}
    config = yaml.safe_load((tmp_path / "out/killed-w2-t2-a/config.yml").read_text())
    coordinator = citus.nodes()[0]
    rows = ask(coordinator, "SELECT rolconfig FROM pg_roles WHERE rolname = 'monitor'")
    assert f"log_min_messages={config['task_level']}" in rows[0][0]
    with sql.connect(coordinator, database=SUPERUSER, user=SUPERUSER) as connection:
        assert probe_task_level(connection) == config["task_level"]


def test_shards_follow_the_number_of_workers(citus: Embedded, tmp_path: Path) -> None:
    matrix = {"workloads": ["c"], "workers": [1, 2], "records": [100], "operations": [100]}
    target = {"shard_count": None, "shards_per_worker": 3}
    assert dict(launch(citus, tmp_path / "out", matrix=matrix, target=target).failed) == {}
    counts = [
        yaml.safe_load((tmp_path / f"out/killed-w{workers}-t2-c/config.yml").read_text())["shard_count"]
        for workers in (1, 2)
    ]
    assert counts == [3, 6]

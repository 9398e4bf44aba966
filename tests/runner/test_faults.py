"""What kills, rotations, poolers and blockers do to the runner: the journal is the truth, and nothing is silent."""

from __future__ import annotations

import csv
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import yaml
from psycopg.conninfo import make_conninfo

from citus_analysis.errors import RunnerError
from citus_analysis.runner import cluster_lock, connections, read_overview
from citus_analysis.runner.cluster import FolderLogs
from citus_analysis.runner.cluster_lock import ClusterInUseError, ClusterLock
from citus_analysis.runner.embedded import SUPERUSER, Embedded
from citus_analysis.runner.execute import leave_out_role, remake_outcomes, run_experiment
from citus_analysis.runner.experiment import EmbeddedTarget, load_experiment, parse_experiment
from citus_analysis.runner.journal import Journal
from citus_analysis.runner.plan import list_configurations, make_plan
from citus_analysis.runner.schedule import JOURNAL, PRIVATE, Ledger, begin
from citus_analysis.runner.server_snapshots import ActivitySampling, SnapshotFile
from citus_analysis.runner.system import Description, ServerNode

LINE = "2026-11-20 21:26:{:02}.324 UTC [7] [3/1] : [1-1] [app=psql] LOG:  duration: {} ms\n"


def log_lines(*numbers: int) -> str:
    return "".join(LINE.format(number, number) for number in numbers)


@pytest.mark.parametrize("way", ["create", "copytruncate", "twice", "compress"])
def test_a_rotated_log_is_read_once(way: str, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    log = logs / "postgresql.log"
    log.write_text(log_lines(1, 2), encoding="utf-8")
    reader = FolderLogs(logs)
    mark = reader.mark()
    with log.open("a", encoding="utf-8") as file:
        file.write(log_lines(3))
    if way == "copytruncate":
        shutil.copyfile(log, logs / "postgresql.log.1")
        log.write_text("", encoding="utf-8")
    elif way == "compress":
        (logs / "postgresql.log.1.gz").write_bytes(b"\x1f\x8b")
        log.unlink()
    else:
        log.rename(logs / "postgresql.log.1")
    log.write_text(log_lines(4), encoding="utf-8")
    if way == "twice":
        (logs / "postgresql.log.1").rename(logs / "postgresql.log.2")
        log.rename(logs / "postgresql.log.1")
        log.write_text(log_lines(5), encoding="utf-8")
    lost = reader.copy_since(mark, tmp_path / "copy")
    expected = {"twice": (3, 4, 5), "compress": (4,)}.get(way, (3, 4))
    assert (tmp_path / "copy").read_text(encoding="utf-8") == log_lines(*expected)
    assert [sentence.partition(",")[0] for sentence in lost] == (
        ["postgresql.log was rotated during the run"] if way == "compress" else []
    )


def test_outcomes_are_made_again_from_the_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path / PRIVATE / JOURNAL)
    experiment = parse_experiment({"name": "x", "matrix": {"workloads": ["c"], "threads": [4]}, "iterations": 2})
    begin(journal, experiment, tmp_path, resume=False)
    journal.append("x-w0-t4-c#1", "verified", throughput_ops_s=10.0)
    journal.append("x-w0-t4-c#2", "failed", reason="a node went down")
    (tmp_path / "x-w0-t4-c").mkdir()
    remake_outcomes(tmp_path, Ledger.read(journal))
    rows = (tmp_path / "x-w0-t4-c" / "outcomes.csv").read_text(encoding="utf-8").splitlines()
    assert rows[1:] == ["1,verified,,,", "2,failed,a node went down,,"]


def test_status_says_what_is_not_restored(tmp_path: Path) -> None:
    journal = Journal(tmp_path / PRIVATE / JOURNAL)
    begin(journal, parse_experiment({"name": "x", "matrix": {"workloads": ["c"]}}), tmp_path, resume=False)
    (tmp_path / PRIVATE / "found.json").write_text(
        '{"coordinator": {"name": "0", "host": "h", "port": 1, "role": "coordinator"}, "database": "d", "user": "u",'
        ' "nodes": [{"node": {"name": "1", "host": "w", "port": 1, "role": "worker"}, "values": {"work_mem": "8MB"}}],'
        ' "shouldhaveshards": {"1": true, "2": false}, "added": []}',
        encoding="utf-8",
    )
    assert read_overview(tmp_path).unrestored == ("settings of node 1 (work_mem)", "shouldhaveshards of group 1, 2")


def test_the_role_of_the_sampled_client_is_no_setting_of_the_servers() -> None:
    """The runner makes it after it has described the servers for the first time."""
    of_roles = {"monitor": {"log_statement": "all"}, "monitor on node 1": {"a": "b"}, "monitoring": {"work_mem": "8MB"}}
    described = Description({}, recorded={"role_settings": of_roles, "versions": {"all": {"server_version": "18"}}})
    kept = leave_out_role(described, "monitor").recorded
    assert kept == {
        "role_settings": {"monitoring": {"work_mem": "8MB"}},
        "versions": {"all": {"server_version": "18"}},
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerNode]:
    """A PostgreSQL of the runner's own."""
    cluster = Embedded(EmbeddedTarget(), tmp_path_factory.mktemp("servers"))
    try:
        cluster.prepare(make_plan(parse_experiment({"name": "x", "matrix": {"workloads": ["c"]}}))[0].configuration)
        yield cluster.nodes()[0]
    finally:
        cluster.stop()


@pytest.mark.server
def test_the_lock_of_the_cluster_is_of_a_transaction(server: ServerNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pooler of transactions would keep a lock of the session when the runner has gone."""
    monkeypatch.setattr(cluster_lock, "_PATIENCE_S", 1)
    first, second = (ClusterLock(server, SUPERUSER, SUPERUSER) for _ in range(2))
    first.hold()
    with pytest.raises(ClusterInUseError, match=r"another experiment uses database .* \(session \d+"):
        second.hold()
    with connections.connect(server, database=SUPERUSER, user=SUPERUSER) as connection:
        held = "SELECT backend_xmin FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory'"
        # It does not hold VACUUM up.
        assert connections.query(connection, held) == [(None,)]
    assert first._connection is not None
    first._connection.execute("ROLLBACK")
    second.hold()
    second.release()
    first.release()


@pytest.mark.server
def test_a_server_without_citus_is_named_with_the_way_out(server: ServerNode) -> None:
    with (
        connections.connect(server, database=SUPERUSER, user=SUPERUSER) as connection,
        pytest.raises(RunnerError, match=r"has no Citus.*target\.system: postgresql"),
    ):
        connections.read_citus_nodes(connection)


@pytest.mark.server
def test_a_run_too_short_for_a_snapshot_says_so(server: ServerNode, tmp_path: Path) -> None:
    asked = threading.Event()

    @contextmanager
    def connect_late(node: ServerNode) -> Iterator[connections.Connection]:
        asked.wait()
        with connections.connect(node, database=SUPERUSER, user=SUPERUSER) as connection:
            yield connection

    sampling = ActivitySampling(SnapshotFile("activity", "0", tmp_path / "activity-0.csv"), server, connect_late)
    threading.Timer(0.1, asked.set).start()
    sampling.stop()
    assert sampling.problem == "sessions of node 0 were not recorded: the run ended before the first snapshot"


@pytest.mark.server
def test_a_statement_that_waits_names_who_blocks_it(server: ServerNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LOCK_TIMEOUT_S", 0.5)
    login = make_conninfo(
        host=server.host, port=server.port, dbname=SUPERUSER, user=SUPERUSER, application_name="somebody"
    )
    with (
        psycopg.connect(login, autocommit=False) as other,
        connections.connect(server, database=SUPERUSER, user=SUPERUSER) as connection,
    ):
        other.execute("CREATE TABLE held AS SELECT 1")
        other.commit()
        other.execute("LOCK TABLE held")
        with pytest.raises(RunnerError, match=r"waited for session \d+ of .* \(somebody, idle in transaction, in a"):
            connections.query(connection, "TRUNCATE held", timeout_s=None)
        with pytest.raises(RunnerError, match=r"got no answer for 0\.5 s"):
            connections.query(connection, "SELECT pg_sleep(20)", timeout_s=0.5)
        # The session can be used again.
        assert connections.query(connection, "SELECT 1") == [(1,)]


#: Ends the process by SIGKILL right after it has written a line of the journal.
KILLED = """
import os, signal, sys
from citus_analysis.runner.journal import Journal
from citus_analysis.runner import run_experiment
from citus_analysis.runner.experiment import load_experiment
append = Journal.append
def killed(self, subject, state, **detail):
    entry = append(self, subject, state, **detail)
    if (subject, state) == (sys.argv[3], sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)
    return entry
Journal.append = killed
run_experiment(load_experiment(sys.argv[1]), sys.argv[2], resume=sys.argv[5] == "resume")
"""
STATES = ("begun", "prepared", "loaded", "monitored", "measured", "publishing", "collected", "verified")


@pytest.mark.slow
@pytest.mark.server
def test_a_runner_killed_in_every_state_loses_nothing(tmp_path: Path) -> None:
    """Each iteration is killed in another state; without a resume, none that was not judged counts as measured."""
    document = {
        "name": "killed",
        "target": {"kind": "embedded"},
        "driver": {"kind": "pgbench"},
        "matrix": {"workloads": ["c"], "threads": [2], "records": [100], "operations": [400]},
        "iterations": len(STATES),
        "samplers": {"iostat": False, "vmstat": False},
    }
    (tmp_path / "e.yml").write_text(yaml.safe_dump(document), encoding="utf-8")
    tree = tmp_path / "out"
    resource = list_configurations(load_experiment(tmp_path / "e.yml"))[0].resource
    for number, state in enumerate(STATES, start=1):
        how = "resume" if number > 1 else "begin"
        run_id = f"{resource}#{number}"
        arguments = [sys.executable, "-c", KILLED, str(tmp_path / "e.yml"), str(tree), run_id, state, how]
        done = subprocess.run(arguments, check=False, capture_output=True)
        assert done.returncode == -signal.SIGKILL, done.stderr
        entry = next((one for one in read_outcomes(tree / resource) if one["iteration"] == str(number)), None)
        if any((tree / resource / "YCSB" / "raw").glob(f"run_*_{number}_0_*")):
            assert entry is not None
            assert (entry["outcome"] == "verified") == (state == "verified")
    run_experiment(load_experiment(tmp_path / "e.yml"), tree, resume=True)
    assert [one["outcome"] for one in read_outcomes(tree / resource)] == ["verified"] * len(STATES)
    assert len(list((tree / resource / "YCSB" / "raw").glob("run_*"))) == len(STATES)
    assert read_overview(tree).count("verified") == len(STATES)
    assert not any((tree / PRIVATE / "attempts").glob("*"))


def read_outcomes(folder: Path) -> list[dict[str, str]]:
    file = folder / "outcomes.csv"
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines())) if file.exists() else []

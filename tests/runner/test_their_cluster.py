"""A cluster that is somebody else's is used alone, verified, and left as it was found."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from citus_analysis.errors import RunnerError, UsageError
from citus_analysis.formats import Content, Hints, detect_format
from citus_analysis.runner import connections as sql
from citus_analysis.runner import restore_cluster, run_experiment
from citus_analysis.runner.cluster_lock import ClusterLock
from citus_analysis.runner.driver import LOGIN_FILE
from citus_analysis.runner.embedded import LOOPBACK, SUPERUSER, Embedded, OwnServer, find_free_port
from citus_analysis.runner.execute import RunLifecycle, RunnerSummary
from citus_analysis.runner.experiment import parse_experiment
from citus_analysis.runner.former_state import FILE_NAME
from citus_analysis.runner.journal import Journal
from citus_analysis.runner.plan import PlannedRun
from citus_analysis.runner.programs import find_programs
from citus_analysis.runner.shard_placement import spread_problem
from citus_analysis.runner.system import ServerNode, ShardPlacement

pytestmark = pytest.mark.server

PASSWORD = "the-admin's-own"
COLLECTED = {"logging_collector": "on", "log_directory": "log", "log_filename": "server.log"}
ALTERED = {"reload_with": "alter_system"}


@pytest.fixture
def server() -> Iterator[OwnServer]:
    """A server of somebody else's, with a value of its own set by ALTER SYSTEM."""
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="citus-analysis-test-"))
    folder.chmod(0o755)
    server = OwnServer(find_programs("wheel"), folder / "server", find_free_port())
    server.initialise({**COLLECTED, "work_mem": "16MB"})
    server.start()
    yield server
    server.remove()
    shutil.rmtree(folder)


def ask(server: OwnServer, *statements: str) -> Any:
    """The first value of the last statement."""
    with sql.connect(node_of(server), database=SUPERUSER, user=SUPERUSER) as connection:
        rows = [sql.query(connection, statement) for statement in statements]
    return rows[-1][0][0] if rows[-1] else None


def node_of(server: OwnServer) -> ServerNode:
    return ServerNode("0", LOOPBACK, server.port, "coordinator")


def document(ports: list[int], **changes: Any) -> dict[str, Any]:
    nodes = [
        {"host": LOOPBACK, "port": port, "role": "coordinator" if port == ports[0] else "worker"} for port in ports
    ]
    small = {"workloads": ["c"], "threads": [2], "records": [100], "operations": [200]}
    return {
        "name": "theirs",
        "iterations": 1,
        "samplers": dict.fromkeys(("iostat", "vmstat", "host", "activity", "counters"), False),
        **changes,
        "target": {"kind": "cluster", "system": "postgresql", "nodes": nodes, **changes.get("target", {})},
        "matrix": {**small, **changes.get("matrix", {})},
    }


def launch(
    ports: list[int], out: Path, *, resume: bool = False, replace: bool = False, **changes: Any
) -> RunnerSummary:
    return run_experiment(parse_experiment(document(ports, **changes)), out, resume=resume, replace_table=replace)


def start_runner(server: OwnServer, tmp_path: Path, **changes: Any) -> subprocess.Popen[bytes]:
    file = tmp_path / "long.yml"
    file.write_text(yaml.safe_dump(document([server.port], limits={"duration_s": 60}, **changes)))
    return subprocess.Popen([sys.executable, "-m", "citus_analysis", "run", file, "--out", tmp_path / "long"])


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def measuring(out: Path) -> bool:
    return "monitored" in [entry.state for entry in Journal(out / ".runner" / "journal.jsonl").entries()]


def test_a_value_that_existed_comes_back(server: OwnServer, tmp_path: Path) -> None:
    matrix = {"settings": {"work_mem": ["8192kB"], "random_page_cost": [2]}}
    summary = launch([server.port], tmp_path / "out", matrix=matrix, target=ALTERED)
    assert summary.failed == {}
    config = yaml.safe_load((tmp_path / "out/theirs-w0-t2-c/config.yml").read_text())
    assert config["settings"]["work_mem"] == "8MB"  # as the server reads it, not as it was asked for
    assert config["settings_by_node"] == {"0": {"random_page_cost": "2", "work_mem": "8MB"}}
    assert ask(server, "SHOW work_mem") == "16MB"
    assert ask(server, "SHOW random_page_cost") == "4"
    assert "random_page_cost" not in (server.data / "postgresql.auto.conf").read_text()


@pytest.mark.parametrize("way", ["next call", "restore"])
def test_a_killed_runner_leaves_what_the_way_back_needs(server: OwnServer, tmp_path: Path, way: str) -> None:
    changes: dict[str, Any] = {"matrix": {"settings": {"work_mem": ["8MB"]}}, "target": ALTERED}
    runner, out = start_runner(server, tmp_path, **changes), tmp_path / "long"
    wait_for(lambda: measuring(out))
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    assert ask(server, "SHOW work_mem") == "8MB"
    (out / ".runner" / "attempts" / LOGIN_FILE).write_text("db.passwd=left behind")
    if way == "restore":
        assert restore_cluster(out) == ()
    else:
        # The run that was in progress is marked as done: the call has nothing to do but to restore.
        run_id = "theirs-w0-t2-c#1"
        Journal(out / ".runner" / "journal.jsonl").append(run_id, "failed", reason="ended by the test")
        launch([server.port], out, resume=True, limits={"duration_s": 60}, **changes)
    assert ask(server, "SHOW work_mem") == "16MB"
    assert not list((out / ".runner").rglob(LOGIN_FILE))
    with pytest.raises(UsageError, match="nothing is left to restore"):
        restore_cluster(out)


def test_a_node_that_is_down_stops_neither_the_others_nor_the_summary(
    server: OwnServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = OwnServer(server.programs, server.folder.parent / "other", find_free_port())
    other.initialise({"work_mem": "12MB"})
    other.start()
    # The second node goes down after its last run.
    carry_out = RunLifecycle.carry_out

    def carry_out_and_go_down(lifecycle: RunLifecycle, run: PlannedRun) -> None:
        carry_out(lifecycle, run)
        other.stop()

    monkeypatch.setattr(RunLifecycle, "carry_out", carry_out_and_go_down)
    out = tmp_path / "out"
    target = {**ALTERED, "connect_to": "coordinator"}
    summary = launch([server.port, other.port], out, matrix={"settings": {"work_mem": ["8MB"]}}, target=target)
    assert summary.verified == ("theirs-w0-t2-c#1",)
    assert any(f"not restored: node 1 ({LOOPBACK}:{other.port})" in note for note in summary.notes)
    assert ask(server, "SHOW work_mem") == "16MB"
    other.start()
    assert ask(other, "SHOW work_mem") == "8MB"
    assert restore_cluster(out) == ()
    assert ask(other, "SHOW work_mem") == "12MB"
    assert not (out / ".runner" / FILE_NAME).exists()
    other.remove()


def test_a_setting_that_needs_a_restart_is_refused_before_the_first_run(server: OwnServer, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(RunnerError, match=r"can change shared_buffers only at server start.*embedded target"):
        launch([server.port], out, matrix={"settings": {"shared_buffers": ["64MB", "96MB"]}}, target=ALTERED)
    assert "shared_buffers" not in (server.data / "postgresql.auto.conf").read_text()
    with pytest.raises(RunnerError, match=r"has no setting wrok_mem"):
        launch([server.port], tmp_path / "typo", matrix={"settings": {"wrok_mem": ["64MB"]}}, target=ALTERED)


def test_a_setting_that_something_overrides_is_refused(server: OwnServer, tmp_path: Path) -> None:
    ask(server, f"ALTER ROLE {SUPERUSER} SET work_mem = '20MB'")
    with pytest.raises(RunnerError, match="work_mem comes from user, which overrides ALTER SYSTEM"):
        launch([server.port], tmp_path / "out", matrix={"settings": {"work_mem": ["8MB"]}}, target=ALTERED)


def test_the_embedded_server_is_restarted_for_a_setting_that_needs_it(tmp_path: Path) -> None:
    changes = document([0], matrix={"settings": {"shared_buffers": ["64MB", "96MB"]}})
    del changes["target"]
    assert run_experiment(parse_experiment(changes), tmp_path / "out").failed == {}
    for value in ("64MB", "96MB"):
        config = yaml.safe_load((tmp_path / f"out/theirs-w0-t2-c-sharedbuffers{value}/config.yml").read_text())
        assert config["settings_by_node"] == {"0": {"shared_buffers": value}}
        assert config["settings"]["shared_buffers"] == value


def test_a_second_runner_is_refused_while_the_first_works(server: OwnServer, tmp_path: Path) -> None:
    lock = ClusterLock(node_of(server), SUPERUSER, SUPERUSER)
    lock.hold()
    with pytest.raises(RunnerError, match=rf"another experiment uses database postgres .*session \d+ from {LOOPBACK}"):
        launch([server.port], tmp_path / "out")
    assert ask(server, "SELECT to_regclass('usertable') IS NULL") is True
    ask(server, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
    lock.hold()  # a lost lock is taken again
    assert ask(server, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 1
    lock.release()
    assert launch([server.port], tmp_path / "later").failed == {}


def test_a_table_of_somebody_elses_is_neither_emptied_nor_dropped(server: OwnServer, tmp_path: Path) -> None:
    ask(server, "CREATE TABLE usertable (ycsb_key text)", "INSERT INTO usertable VALUES ('precious')")
    with pytest.raises(RunnerError, match=r"was not made by this tool.*--replace-table"):
        launch([server.port], tmp_path / "refused")
    assert ask(server, "SELECT ycsb_key FROM usertable") == "precious"
    assert launch([server.port], tmp_path / "replaced", replace=True).failed == {}
    assert ask(server, "SELECT count(*) FROM usertable") == 100
    assert launch([server.port], tmp_path / "again").failed == {}  # it is ours now


@pytest.fixture
def asking(server: OwnServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OwnServer:
    """The server, asking everybody for a password; ours is in PGPASSFILE."""
    escaped = PASSWORD.replace("'", "''")
    ask(server, f"ALTER ROLE {SUPERUSER} PASSWORD '{escaped}'")
    hba = server.data / "pg_hba.conf"
    hba.write_text(hba.read_text().replace("trust", "scram-sha-256"))
    ask(server, "SELECT pg_reload_conf()")
    time.sleep(0.5)
    secrets = tmp_path / "pgpass"
    secrets.write_text(f"*:*:*:{SUPERUSER}:{PASSWORD}\n")
    secrets.chmod(0o600)
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", str(secrets))
    return server


@pytest.mark.parametrize("place", ["login_env", "login_file"])
def test_the_monitor_has_a_password_where_one_is_asked_for(
    asking: OwnServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("OF_MONITOR", "an'other")
    (tmp_path / "of-monitor").write_text("an'other\n")
    where = "OF_MONITOR" if place == "login_env" else str(tmp_path / "of-monitor")
    monitored = {"monitored": [True]}
    with pytest.raises(RunnerError, match=r"no password supplied.*monitor\.login_env"):
        launch([asking.port], tmp_path / "without", matrix=monitored)
    out = tmp_path / "out"
    summary = launch([asking.port], out, matrix=monitored, monitor={"share": 0.05, place: where})
    assert summary.failed == {}
    said = b"".join(file.read_bytes() for file in [*out.rglob("*"), *asking.data.glob("log/*")] if file.is_file())
    assert b"an'other" not in said
    assert b"an''other" not in said


def test_somebody_elses_monitor_role_keeps_its_password(asking: OwnServer, tmp_path: Path) -> None:
    ask(asking, "CREATE ROLE monitor LOGIN PASSWORD 'theirs'")
    before = ask(asking, "SELECT rolpassword FROM pg_authid WHERE rolname = 'monitor'")
    (tmp_path / "of-monitor").write_text("ours")
    monitor = {"share": 0.05, "login_file": str(tmp_path / "of-monitor")}
    with pytest.raises(RunnerError, match="password authentication failed for user"):
        launch([asking.port], tmp_path / "out", matrix={"monitored": [True]}, monitor=monitor)
    assert ask(asking, "SELECT rolpassword FROM pg_authid WHERE rolname = 'monitor'") == before


def test_a_service_gives_the_password_and_not_the_server(
    asking: OwnServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = tmp_path / "service"
    service.write_text(f"[bench]\nhost={LOOPBACK}\nport={find_free_port()}\nuser=nobody\npassword={PASSWORD}\n")
    monkeypatch.delenv("PGPASSFILE")
    monkeypatch.setenv("PGSERVICEFILE", str(service))
    monkeypatch.setenv("PGSERVICE", "bench")
    assert launch([asking.port], tmp_path / "out").failed == {}


def test_a_user_who_may_not_read_logs_can_measure(server: OwnServer, tmp_path: Path) -> None:
    ask(server, "CREATE ROLE tenant LOGIN", "GRANT ALL ON SCHEMA public TO tenant")
    summary = launch([server.port], tmp_path / "out", target={"user": "tenant"})
    assert summary.failed == {}
    assert any("permission denied for function pg_current_logfile" in note for note in summary.notes)
    with pytest.raises(RunnerError, match=r"a monitored run needs the server logs.*collect_logs: false"):
        launch([server.port], tmp_path / "monitored", target={"user": "tenant"}, matrix={"monitored": [True]})
    quiet = launch([server.port], tmp_path / "off", target={"user": "tenant", "collect_logs": False})
    assert (quiet.failed, quiet.notes) == ({}, ())
    assert not list((tmp_path / "off").rglob("PGLOG*"))


@pytest.mark.parametrize(
    ("groups", "shards", "problem"),
    [
        ([1, 2, 3, 1], 4, None),
        ([1, 1, 1, 1], 4, "its 4 shards are on groups 1, not 1, 2, 3"),
        ([1, 2, 3, 0], 4, "its 4 shards are on groups 0, 1, 2, 3, not 1, 2, 3"),
        ([1, 2, 3], 4, "it has 3 shards, not 4"),
        ([], 4, "it is not distributed"),
    ],
)
def test_placements_are_compared_with_what_was_asked_for(groups: list[int], shards: int, problem: str | None) -> None:
    placements = [ShardPlacement("usertable", n, n, group, "host", 5432, None, None) for n, group in enumerate(groups)]
    assert spread_problem(placements, shard_count=shards, groups={1, 2, 3}) == problem


def test_shards_are_where_the_experiment_wants_them(citus: Embedded, tmp_path: Path) -> None:
    ports = [node.port for node in citus.nodes()]
    with citus.connect() as connection:
        # An earlier experiment left its shards and its switch, and another table invites ours to its places.
        switch = "SELECT citus_set_node_property('127.0.0.1', %s, 'shouldhaveshards', false)"
        sql.query(connection, switch, ports[2])
        sql.query(connection, "CREATE TABLE neighbour (id varchar(255) PRIMARY KEY)")
        sql.query(connection, "SELECT create_distributed_table('neighbour', 'id', shard_count := 6)")
    target = {"system": "citus", "shard_count": 6}
    out = tmp_path / "out"
    summary = launch(ports[:1], out, target=target, matrix={"workers": [1, 2]})
    assert summary.failed == {}
    for workers in (1, 2):
        folder = out / f"theirs-w{workers}-t2-c"
        content = Content(folder / "pg_dist_shard.csv")
        found = detect_format(content)
        assert found is not None
        shards = next(iter(found.parse(content, Hints("pg_dist_shard.csv")))).frame("shards")
        assert sorted(set(shards["groupid"].to_list())) == list(range(1, workers + 1))
        assert shards["shard_id"].n_unique() == 6
        assert yaml.safe_load((folder / "config.yml").read_text())["shard_count"] == 6
    with citus.connect() as connection:
        rows = sql.query(connection, "SELECT shouldhaveshards FROM pg_dist_node ORDER BY groupid")
        assert [allowed for (allowed,) in rows] == [False, True, False]  # as found
    with pytest.raises(RunnerError, match="1 shards cannot be distributed over 2 workers"):
        launch(ports[:1], tmp_path / "few", target={**target, "shard_count": 1}, matrix={"workers": [2]})
    default = launch(ports[:1], tmp_path / "default", target={"system": "citus"}, matrix={"workers": [2]})
    assert default.failed == {}
    assert yaml.safe_load((tmp_path / "default/theirs-w2-t2-c/config.yml").read_text())["shard_count"] == 32


def test_a_refusal_before_the_first_run_leaves_no_experiment(server: OwnServer, tmp_path: Path) -> None:
    ask(server, "CREATE TABLE usertable (id int)")
    with pytest.raises(RunnerError, match="was not made by this tool"):
        launch([server.port], tmp_path / "out")
    with pytest.raises(UsageError, match="no experiment was begun here"):
        launch([server.port], tmp_path / "out", resume=True)
    ask(server, "DROP TABLE usertable")
    assert launch([server.port], tmp_path / "out", iterations=2).failed == {}

"""The checks before the first run, against a server that the runner did not make."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import pytest

from citus_analysis.errors import NotReadyError
from citus_analysis.runner import Experiment, preflight, run_experiment
from citus_analysis.runner import connections as sql
from citus_analysis.runner.embedded import LOOPBACK, SUPERUSER, OwnServer, find_free_port
from citus_analysis.runner.experiment import parse_experiment
from citus_analysis.runner.programs import find_programs
from citus_analysis.runner.system import ServerNode
from tests.citus_cluster import citus_cluster

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def server() -> Iterator[OwnServer]:
    folder = Path(tempfile.mkdtemp(prefix="citus-analysis-test-"))
    folder.chmod(0o755)
    server = OwnServer(find_programs("wheel"), folder / "server", find_free_port())
    server.initialise({"log_line_prefix": "%t [%d] "})
    server.start()
    with sql.connect(ServerNode("0", LOOPBACK, server.port, ""), database=SUPERUSER, user=SUPERUSER) as connection:
        sql.query(connection, "CREATE ROLE guest LOGIN")
        sql.query(connection, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    yield server
    server.remove()
    shutil.rmtree(folder)


@pytest.fixture
def experiment(server: OwnServer) -> Callable[..., Experiment]:
    def make(target: dict[str, Any] | None = None, matrix: dict[str, Any] | None = None) -> Experiment:
        node = {"host": LOOPBACK, "port": server.port, "role": "coordinator"}
        return parse_experiment(
            {
                "name": "theirs",
                "target": {"kind": "cluster", "system": "postgresql", "nodes": [node], **(target or {})},
                "matrix": {"workloads": ["c"], **(matrix or {})},
            }
        )

    return make


def found(experiment: Experiment, out: Path) -> dict[str, preflight.PreflightCheck]:
    return {check.name: check for check in preflight.check_all(experiment, out)}


def test_what_is_as_it_should_be(experiment: Callable[..., Experiment], tmp_path: Path) -> None:
    checks = found(experiment(), tmp_path / "not" / "there" / "yet")
    assert {check.verdict for check in checks.values()} == {"ok"}
    assert list(checks) == [
        "disk space",
        "client programs",
        "connection",
        "workers",
        "privileges of postgres",
        "table",
        "clock",
    ]
    assert not (tmp_path / "not").exists()


def test_a_prefix_that_cannot_be_paired_is_warned_of(experiment: Callable[..., Experiment], tmp_path: Path) -> None:
    check = found(experiment(matrix={"monitored": [True]}), tmp_path)["log_line_prefix"]
    assert check.verdict == "warning"
    assert "time (%m or %n), process (%p), application (%a)" in check.hint


def test_a_user_who_may_create_nothing_is_refused_before_anything_is_made(
    experiment: Callable[..., Experiment], tmp_path: Path
) -> None:
    with pytest.raises(NotReadyError, match="may not create a table in schema public") as raised:
        run_experiment(experiment({"user": "guest"}), tmp_path / "out")
    assert raised.value.exit_code == 3
    assert not (tmp_path / "out").exists()


def test_a_clock_that_goes_wrong_and_a_full_disk_are_seen(
    experiment: Callable[..., Experiment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("citus_analysis.runner.preflight.time.time", lambda: 0.0)
    full = SimpleNamespace(free=2**20)
    monkeypatch.setattr("citus_analysis.runner.preflight.shutil.disk_usage", lambda _place: full)
    checks = found(experiment(), tmp_path)
    assert checks["clock"].verdict == "warning"
    assert checks["disk space"].verdict == "failed"
    assert str(checks["disk space"]).startswith("failed   disk space: 1 MiB free in ")


def test_programs_that_are_missing(
    experiment: Callable[..., Experiment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    plain = experiment().model_dump(mode="json")
    ycsb = parse_experiment({**plain, "driver": {"kind": "ycsb", "home": str(tmp_path)}})
    assert found(ycsb, tmp_path)["client programs"].found == "no java in PATH"
    (tmp_path / "java").touch(mode=0o755)
    assert "holds no lib/core-*.jar" in found(ycsb, tmp_path)["client programs"].found
    for name in ("lib/core-0.17.0.jar", "jdbc-binding/lib/jdbc-binding-0.17.0.jar", "jdbc-binding/lib/cut.jar"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    with ZipFile(tmp_path / "jdbc-binding" / "lib" / "jdbc-binding-0.17.0.jar", "w") as jar:
        jar.writestr("site/ycsb/db/JdbcDBClient.class", b"")
    lacking = found(ycsb, tmp_path)["client programs"]
    assert lacking.verdict == "failed"
    assert lacking.found.endswith("has org.postgresql.Driver")


def test_more_workers_than_there_are(experiment: Callable[..., Experiment], tmp_path: Path) -> None:
    listed = experiment({"system": "citus", "discover": False}, {"workers": [2]})
    check = found(listed, tmp_path)["workers"]
    assert (check.verdict, check.found) == ("failed", "0 in the cluster, but matrix.workers requires 2")


def test_an_address_whose_shell_no_node_would_use(
    server: OwnServer, experiment: Callable[..., Experiment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(1, 0, "localhost", server.port), (2, 1, LOOPBACK, server.port)]
    monkeypatch.setattr(sql, "read_citus_nodes", lambda _connection: rows)
    nodes = [
        {"host": LOOPBACK, "port": server.port, "role": "coordinator"},
        {"host": "worker-1.example", "port": server.port, "shell": "local"},
    ]
    check = found(experiment({"system": "citus", "nodes": nodes}), tmp_path)["node addresses"]
    assert check.verdict == "failed"
    assert check.found.startswith(f"worker-1.example:{server.port} has a shell or logs, but the cluster's nodes are ")
    assert f"{LOOPBACK}:{server.port}" in check.found


def test_room_for_logs_is_looked_at_where_there_is_a_shell(
    server: OwnServer, experiment: Callable[..., Experiment], tmp_path: Path, ssh_port: int
) -> None:
    node = {"host": LOOPBACK, "port": server.port, "role": "coordinator"}
    for how in ({"shell": "local"}, {"shell": "ssh", "ssh_port": ssh_port}):
        nodes = [{**node, **how, "log_directory": str(server.data)}]
        check = found(experiment({"nodes": nodes}), tmp_path)["disk space of logs"]
        assert check.verdict in ("ok", "warning")
        assert check.found.endswith(f"MiB free in {server.data} of {LOOPBACK}:{server.port}")
        nodes = [{**node, **how, "log_directory": str(tmp_path / "none")}]
        check = found(experiment({"nodes": nodes}), tmp_path)["disk space of logs"]
        assert check.verdict == "warning"
        assert "could not be checked" in check.found


def test_hosts_of_load_generators_are_looked_at(
    experiment: Callable[..., Experiment], tmp_path: Path, ssh_port: int
) -> None:
    plain = experiment().model_dump(mode="json")
    host = {"host": LOOPBACK, "ssh_port": ssh_port, "java": "no-such-java"}
    driver = {"kind": "ycsb", "home": str(tmp_path), "hosts": [host, {**host, "ssh_port": find_free_port()}]}
    checks = found(parse_experiment({**plain, "driver": driver}), tmp_path)
    first, second = (checks[f"load generators on driver{number} ({LOOPBACK})"] for number in (1, 2))
    assert (first.verdict, first.found) == ("failed", "no-such-java is not there")
    assert second.verdict == "failed"
    assert checks["client programs"].verdict == "ok"  # nothing is launched here
    assert "2 hosts are listed, but matrix.drivers starts 1 load generator" in checks["load generators"].found


def test_what_traces_of_a_cluster_are_certain_of(tmp_path: Path) -> None:
    with citus_cluster(tmp_path) as cluster:
        nodes = [{"host": node.host, "port": node.port, "role": node.role} for node in cluster.nodes()]
        target = {"kind": "cluster", "nodes": nodes, "user": cluster.clients_connect().user, "database": SUPERUSER}
        theirs = {
            "name": "theirs",
            "target": target,
            "matrix": {"workloads": ["c"], "workers": [2], "monitored": [True]},
        }
        checks = preflight.check_all(parse_experiment(theirs), tmp_path)
        (traces,) = [check.found for check in checks if check.name == "traces"]
    assert traces.startswith("places, pairs and times are exact")
    assert not [check for check in checks if check.name == "auto_explain"]

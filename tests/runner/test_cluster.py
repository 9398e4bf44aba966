"""The cluster target on servers that the runner did not make, and nodes reached by ssh."""

import getpass
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import paramiko
import pytest
import yaml

from citus_analysis.errors import RunnerError
from citus_analysis.formats import Content, Hints, detect_format
from citus_analysis.runner import RunnerSummary, parse_experiment, run_experiment
from citus_analysis.runner.experiment import Samplers
from citus_analysis.runner.perf import Perf
from citus_analysis.runner.processes import Processes
from citus_analysis.runner.samplers import start_samplers
from citus_analysis.runner.shells import SshShell, open_ssh
from citus_analysis.runner.targets import sql
from citus_analysis.runner.targets.base import Node
from citus_analysis.runner.targets.logs import FolderLogs, SftpLogs, SqlLogs
from citus_analysis.runner.targets.programs import find_programs
from citus_analysis.runner.targets.server import LOOPBACK, SUPERUSER, OwnServer, free_port

pytestmark = pytest.mark.server

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
PEOPLES_SETTINGS = {
    "logging_collector": "on",
    "log_directory": "log",
    "log_filename": "server.log",
    "log_file_mode": "0644",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnServer]:
    """A server of somebody else's."""
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="citus-analysis-test-"))
    folder.chmod(0o755)
    server = OwnServer(find_programs("wheel"), folder / "server", free_port())
    server.initialise(PEOPLES_SETTINGS)
    server.start()
    yield server
    server.remove()
    shutil.rmtree(folder)


#: Long enough for the sampled client, which ends with the load, to do its share.
SAMPLED = {"monitored": [True], "operations": [20_000]}


def launch(server: OwnServer, out: Path, *, target: dict[str, Any] | None = None, **changes: Any) -> RunnerSummary:
    node = {"host": LOOPBACK, "port": server.port, "role": "coordinator", **changes.pop("node", {})}
    matrix = {"workloads": ["c"], "threads": [2], "records": [100], "operations": [200], **changes.pop("matrix", {})}
    document = {
        "name": "theirs",
        "target": {"kind": "cluster", "system": "postgresql", "nodes": [node], **(target or {})},
        "matrix": matrix,
        "iterations": 1,
        "samplers": dict.fromkeys(("iostat", "vmstat", "host", "activity", "counters"), False),
        **changes,
    }
    return run_experiment(parse_experiment(document), out)


def test_logs_come_over_sql_and_only_those_of_the_run(server: OwnServer, tmp_path: Path) -> None:
    summary = launch(server, tmp_path / "out", matrix=SAMPLED, monitor={"share": 0.05})
    assert summary.failed == {}
    log = (tmp_path / "out/theirs-w0-t2-c/pglogs/PGLOG-0-1.log").read_text()
    assert "execute P_0: SELECT * FROM usertable" in log
    assert "database system is ready" not in log  # said before the run began


def test_logs_come_from_a_folder_too(server: OwnServer, tmp_path: Path) -> None:
    node = {"shell": "local", "log_directory": str(server.data / "log")}
    summary = launch(server, tmp_path / "out", node=node, matrix=SAMPLED, monitor={"share": 0.05})
    assert summary.failed == {}
    assert "execute P_0" in (tmp_path / "out/theirs-w0-t2-c/pglogs/PGLOG-0-1.log").read_text()


def test_settings_are_set_where_allowed_and_taken_back(server: OwnServer, tmp_path: Path) -> None:
    matrix = {"settings": {"synchronous_commit": ["off"]}}
    with pytest.raises(RunnerError, match="may not set"):
        launch(server, tmp_path / "refused", matrix=matrix)
    summary = launch(server, tmp_path / "out", matrix=matrix, target={"reload_with": "alter_system"})
    assert len(summary.verified) == 1
    config = yaml.safe_load((tmp_path / "out/theirs-w0-t2-c/config.yml").read_text())
    assert config["settings"]["synchronous_commit"] == "off"
    node = Node("0", LOOPBACK, server.port, "coordinator")
    with sql.connect(node, database=SUPERUSER, user=SUPERUSER) as connection:
        assert sql.read_settings(connection)["synchronous_commit"] == "on"


def test_what_a_system_cannot_do_is_skipped_with_a_reason(server: OwnServer, tmp_path: Path) -> None:
    summary = launch(server, tmp_path / "out", target={"system": "aurora"})
    assert len(summary.verified) == 1
    assert any("aurora has no server logs" in note for note in summary.notes)
    assert not list((tmp_path / "out").rglob("PGLOG*"))
    config = yaml.safe_load((tmp_path / "out/theirs-w0-t2-c/config.yml").read_text())
    assert config["system"] == "aurora"


def test_a_server_that_does_not_answer_is_named_without_secrets(
    tmp_path: Path, server: OwnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "s3cret")
    with pytest.raises(RunnerError, match=r"node 0 \(127\.0\.0\.1:\d+\): .*refused.*PGPASSFILE") as raised:
        launch(replace(server, port=free_port()), tmp_path / "out")
    assert "s3cret" not in str(raised.value)


def test_rotated_logs_are_read_in_order(tmp_path: Path) -> None:
    first, second = tmp_path / "postgresql-01.log", tmp_path / "postgresql-02.log"
    first.write_text("before\n")
    reader = FolderLogs(tmp_path)
    mark = reader.mark()
    with first.open("a") as file:
        file.write("during\n")
    second.write_text("after the turn\n")
    reader.copy_since(mark, tmp_path / "copy")
    assert (tmp_path / "copy").read_text() == "during\nafter the turn\n"


def test_logs_named_by_weekday_lose_nothing_and_bring_no_older_day(tmp_path: Path) -> None:
    def write(day: str, text: str, *, mode: str = "a", hours: int) -> None:
        file = tmp_path / f"postgresql-{day}.log"
        with file.open(mode) as out:
            out.write(text)
        os.utime(file, (3600 * hours, 3600 * hours))

    write("Thu", "last Thursday, 10:00\n", hours=10)
    write("Tue", "Tuesday, 10:00\n", hours=130)
    write("Wed", "Wednesday, before\n", hours=153)
    reader = FolderLogs(tmp_path)
    mark = reader.mark()
    write("Wed", "Wednesday, during\n", hours=168)
    write("Thu", "this Thursday, just after midnight\n", mode="w", hours=169)  # longer than last week's
    reader.copy_since(mark, tmp_path / "copy")
    assert (tmp_path / "copy").read_text() == "Wednesday, during\nthis Thursday, just after midnight\n"


def test_a_rotated_name_that_is_appended_to_gives_its_new_lines_alone(tmp_path: Path) -> None:
    older, current = tmp_path / "postgresql-Thu.log", tmp_path / "postgresql-Wed.log"
    older.write_text("last week\n")
    os.utime(older, (1, 1))
    current.write_text("before\n")
    reader = FolderLogs(tmp_path)
    mark = reader.mark()
    with older.open("a") as file:  # log_truncate_on_rotation = off
        file.write("this week\n")
    reader.copy_since(mark, tmp_path / "copy")
    assert (tmp_path / "copy").read_text() == "this week\n"


def test_logs_over_sql_bring_no_older_file_and_no_csv(server: OwnServer, tmp_path: Path) -> None:
    folder = server.data / "log"
    others = [folder / name for name in ("zzz.log", "zzz.csv")]
    for other in others:
        other.write_text("another day\n")
        other.chmod(0o644)
    node = Node("0", LOOPBACK, server.port, "coordinator")
    reader = SqlLogs(node, SUPERUSER, SUPERUSER)
    try:
        mark = reader.mark()
        with others[1].open("a") as file:
            file.write("csv\n")
        with sql.connect(node, database=SUPERUSER, user=SUPERUSER) as connection, suppress(Exception):
            sql.query(connection, "SELECT no_such_column")
        reader.copy_since(mark, tmp_path / "copy")
    finally:
        for other in others:
            other.unlink()
    copied = (tmp_path / "copy").read_text()
    assert "no_such_column" in copied
    assert "another day" not in copied
    assert "csv" not in copied


@pytest.fixture
def ssh_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A real sshd on loopback that knows one key, and a home folder that knows the host."""
    if not Path(SSHD).exists():
        pytest.skip("needs sshd: install openssh-server")
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    for name in ("host", "home/.ssh/id_ed25519"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    shutil.copy(home / ".ssh/id_ed25519.pub", tmp_path / "authorized")
    port = free_port()
    host_key = " ".join((tmp_path / "host.pub").read_text().split()[:2])
    (home / ".ssh/known_hosts").write_text(f"[{LOOPBACK}]:{port} {host_key}\n")
    options = {
        "Port": port,
        "ListenAddress": LOOPBACK,
        "HostKey": tmp_path / "host",
        "AuthorizedKeysFile": tmp_path / "authorized",
        "PidFile": "none",
        "StrictModes": "no",
        "UsePAM": "no",
        "PermitRootLogin": "yes",
        "Subsystem": "sftp internal-sftp",
    }
    (tmp_path / "sshd_config").write_text("".join(f"{name} {value}\n" for name, value in options.items()))
    Path("/run/sshd").mkdir(exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    daemon = subprocess.Popen([SSHD, "-D", "-e", "-f", tmp_path / "sshd_config"], stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    yield port
    daemon.terminate()
    daemon.wait()


def test_samplers_and_logs_by_ssh(ssh_port: int, tmp_path: Path) -> None:
    user = getpass.getuser()
    shell = SshShell(open_ssh(LOOPBACK, user, ssh_port), LOOPBACK)
    assert not shell.has("no-such-program")
    if shell.has("vmstat"):
        samplers = Samplers(iostat=False, vmstat=True)
        started, skipped = start_samplers(samplers, {"1": shell}, tmp_path)
        time.sleep(2.5)
        for one in started:
            one.sampling.stop()
        assert skipped == []
        assert len((tmp_path / "vmstat-1.out").read_text().splitlines()) >= 4
    shell.close()

    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "postgresql.log").write_text("before\n")
    reader = SftpLogs(open_ssh(LOOPBACK, user, ssh_port), str(logs))
    mark = reader.mark()
    with (logs / "postgresql.log").open("a") as file:
        file.write("during\n")
    reader.copy_since(mark, tmp_path / "copy")
    reader.close()
    assert (tmp_path / "copy").read_text() == "during\n"


@pytest.mark.skipif(shutil.which("iostat") is None, reason="needs iostat: install sysstat")
def test_iostat_by_ssh_writes_no_colours(ssh_port: int, tmp_path: Path) -> None:
    shell = SshShell(open_ssh(LOOPBACK, getpass.getuser(), ssh_port), LOOPBACK)
    started, _ = start_samplers(Samplers(iostat=True, vmstat=False), {"1": shell}, tmp_path)
    time.sleep(2.5)
    for one in started:
        one.sampling.stop()
    shell.close()
    written = (tmp_path / "iostat-1.out").read_bytes()
    assert b"avg-cpu" in written
    assert b"\x1b" not in written
    content = Content(tmp_path / "iostat-1.out")
    found = detect_format(content)
    assert found is not None
    pieces = [piece for piece in found.parse(content, Hints("iostat-1.out")) if "rejects" in piece.tables]
    assert sum(piece.frame("rejects").height for piece in pieces) == 0


def test_an_unknown_host_key_is_refused(ssh_port: int, tmp_path: Path) -> None:
    (Path(os.environ["HOME"]) / ".ssh" / "known_hosts").write_text("")
    with pytest.raises(RunnerError, match=r"ssh to 127\.0\.0\.1.*knows its key"):
        open_ssh(LOOPBACK, getpass.getuser(), ssh_port)


def test_perf_never_records_this_machine_for_another(tmp_path: Path) -> None:
    with Processes(tmp_path / "processes.jsonl") as processes:
        perf = Perf.start(processes, tmp_path, {"1": SshShell(paramiko.SSHClient(), "worker1")})
        assert perf.recording is None
        assert perf.missing == ("perf records this machine only: no profile of node 1",)
        assert "no profile" in Perf.start(processes, tmp_path, {}).missing[0]

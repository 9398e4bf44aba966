"""The cluster target on servers that the runner did not make, and nodes reached by ssh."""

import getpass
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.errors import RunnerError
from citus_analysis.formats import Content, Hints, detect_format
from citus_analysis.runner import connections as sql
from citus_analysis.runner import make_plan, pgbench_driver, run_experiment
from citus_analysis.runner.cluster import FolderLogs, SftpLogs, SqlLogs
from citus_analysis.runner.embedded import LOOPBACK, SUPERUSER, OwnServer, find_free_port
from citus_analysis.runner.execute import RunnerSummary
from citus_analysis.runner.experiment import Samplers, parse_experiment
from citus_analysis.runner.host_samplers import start_samplers
from citus_analysis.runner.hosts import LocalShell, Processes, SshShell, open_ssh
from citus_analysis.runner.journal import Journal
from citus_analysis.runner.perf_recording import Perf
from citus_analysis.runner.programs import find_programs
from citus_analysis.runner.records import read_client
from citus_analysis.runner.system import ServerNode
from citus_analysis.runs.selection import select_runs

pytestmark = pytest.mark.server

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
    server = OwnServer(find_programs("wheel"), folder / "server", find_free_port())
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
    with pytest.raises(RunnerError, match="runner may not change"):
        launch(server, tmp_path / "refused", matrix=matrix)
    summary = launch(server, tmp_path / "out", matrix=matrix, target={"reload_with": "alter_system"})
    assert len(summary.verified) == 1
    config = yaml.safe_load((tmp_path / "out/theirs-w0-t2-c/config.yml").read_text())
    assert config["settings"]["synchronous_commit"] == "off"
    node = ServerNode("0", LOOPBACK, server.port, "coordinator")
    with sql.connect(node, database=SUPERUSER, user=SUPERUSER) as connection:
        assert sql.read_settings(connection)["synchronous_commit"] == "on"


def test_what_no_query_tells_is_stated_by_the_experiment(server: OwnServer, tmp_path: Path) -> None:
    launch(server, tmp_path / "out", target={"hardware": "a laptop", "cpu_per_node": 0.25})
    assert ingest([tmp_path / "out"], tmp_path / "dataset").exit_code == 0
    runs = select_runs(open_dataset(tmp_path / "dataset"))
    assert runs.hardware == ("a laptop",)
    assert runs.runs["cpu_per_node"].to_list() == ["0.25"]


def test_a_sampled_client_with_a_rate_needs_no_warm_up(server: OwnServer, tmp_path: Path) -> None:
    limits = {"duration_s": 3}
    summary = launch(server, tmp_path / "out", matrix={"monitored": [True]}, monitor={"rate_ops_s": 40}, limits=limits)
    assert len(summary.verified) == 1
    assert not any("monitor.share" in note or "sampled client" in note for note in summary.notes)
    states = [entry for entry in Journal(tmp_path / "out/.runner/journal.jsonl").entries() if entry.state != "recorded"]
    times = {entry.state: datetime.fromisoformat(entry.time) for entry in states}
    assert (times["loaded"] - times["prepared"]).total_seconds() < 3  # else fifteen seconds of load come first
    ingest([tmp_path / "out"], tmp_path / "dataset")
    done = open_dataset(tmp_path / "dataset").runs()["monitor_operations"].item()
    assert 60 <= done <= 240  # 40 a second for three seconds; without a rate, thousands


def test_a_sampled_client_that_was_killed_is_noted(
    server: OwnServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pgbench_driver, "_GRACE_S", 0)
    summary = launch(server, tmp_path / "out", matrix=SAMPLED, monitor={"rate_ops_s": 40})
    lacking = "sampled client 0 ended with signal 9, so its latencies may be missing"
    assert f"theirs-w0-t2-c#1: {lacking}" in summary.notes


def test_control_groups_of_servers_are_sampled(tmp_path: Path) -> None:
    """Those that processes named postgres are in, wherever they are."""
    mounts = [one for one in (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")) if (one / "cpu.stat").exists()]
    mount = mounts[0] if mounts else Path("/")
    if not mounts or not os.access(mount, os.W_OK):
        pytest.skip("needs to make a control group")
    group = mount / f"citus-analysis-test-{os.getpid()}"
    group.mkdir()
    program = tmp_path / "postgres"
    shutil.copy(shutil.which("sleep") or "", program)
    program.chmod(0o755)
    server = subprocess.Popen([program, "60"])
    try:
        (group / "cgroup.procs").write_text(str(server.pid))
        with Processes(tmp_path / "processes.jsonl") as processes:
            started, _ = start_samplers(Samplers(iostat=False, vmstat=False), {"0": LocalShell(processes)}, tmp_path)
            time.sleep(2.5)
            started[0].sampling.stop()
        samples = read_client(started[0].output, "throttle_samples")
        assert str(group / "cpu.stat") in samples["control_group"].to_list()
    finally:
        server.kill()
        server.wait()
        group.rmdir()


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
        launch(replace(server, port=find_free_port()), tmp_path / "out")
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
    node = ServerNode("0", LOOPBACK, server.port, "coordinator")
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
    with pytest.raises(RunnerError, match=r"ssh to 127\.0\.0\.1.*knows the host key"):
        open_ssh(LOOPBACK, getpass.getuser(), ssh_port)


@pytest.mark.skipif(shutil.which("perf") is None, reason="needs perf")
def test_perf_by_ssh_reports_what_it_recorded_there(ssh_port: int, tmp_path: Path) -> None:
    run = make_plan(parse_experiment({"name": "x", "matrix": {"workloads": ["c"]}}))[0]
    shell = SshShell(open_ssh(LOOPBACK, getpass.getuser(), ssh_port), LOOPBACK)
    files: dict[PurePosixPath, Path] = {}
    busy = shutil.copy("/bin/sh", tmp_path / "postgres")  # perf reports processes of this name
    with Processes(tmp_path / "processes.jsonl") as processes:
        processes.launch("busy", [busy, "-c", "while :; do :; done"])
        perf = Perf.start(processes, tmp_path, {"3": shell})
        time.sleep(2)
        perf.stop()
        notes = perf.collect(run, files)
    folder = Path(perf.recordings[0].data).parent
    shell.close()
    if notes:
        pytest.skip(f"needs perf: {notes[0]}")
    assert [place.name for place in files] == ["report-flat-3-1.txt", "report-graph-3-1.txt"]
    assert all(b"# comm: postgres" in path.read_bytes() for path in files.values())
    assert all("# Samples:" in path.read_text(errors="replace") for path in files.values())
    assert not folder.exists()


def test_perf_says_where_it_does_not_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with Processes(tmp_path / "processes.jsonl") as processes:
        assert Perf.start(processes, tmp_path, {}).missing == ("no node has a shell: no profile",)
        perf = Perf.start(processes, tmp_path, {"0": LocalShell(processes)})
        assert perf.missing == ("perf is not installed on node 0: no profile of it",)
        assert perf.recordings == ()


def test_a_sample_that_cannot_be_written_is_named(ssh_port: int, tmp_path: Path) -> None:
    shell = SshShell(open_ssh(LOOPBACK, getpass.getuser(), ssh_port), LOOPBACK)
    sampling = shell.start(["sleep", "60"], {}, tmp_path / "no-such-folder" / "out")
    time.sleep(0.2)
    problem = sampling.stop()
    shell.close()
    assert problem is not None
    assert "sleep on 127.0.0.1: its output was not copied to the end into out" in problem

"""Load generators on other machines: begun together, ended with the connection, without secrets on a command line."""

import getpass
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from citus_analysis.dataset.identity import name_facts
from citus_analysis.runner import make_plan
from citus_analysis.runner.driver import Command, Work
from citus_analysis.runner.embedded import LOOPBACK
from citus_analysis.runner.experiment import DriverHost, YcsbDriver, parse_experiment
from citus_analysis.runner.hosts import Processes
from citus_analysis.runner.measure import DriverHosts, find_host_problem, format_host_name
from citus_analysis.runner.system import ConnectionInfo, ServerNode
from citus_analysis.runner.workloads import KeyRange
from citus_analysis.runner.ycsb_driver import YcsbProgram
from citus_analysis.study_tree import build_sampler_output_path

SECRET = "db.passwd=s3cret\n"


@pytest.fixture
def host(ssh_port: int) -> DriverHost:
    return DriverHost(host=LOOPBACK, ssh_user=getpass.getuser(), ssh_port=ssh_port)


@pytest.fixture
def hosts(host: DriverHost) -> Iterator[DriverHosts]:
    machines = DriverHosts([host, host])
    yield machines
    machines.close()


def sh(script: str, *arguments: str, host: int = 0) -> Command:
    return Command(["/bin/sh", "-c", script, "client", *arguments], {"TZ": "UTC"}, host=host, private=SECRET)


def is_running(marker: str) -> bool:
    return any(marker in (process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"]))


def wait_until(marker: str, *, runs: bool) -> None:
    deadline = time.monotonic() + 20
    while is_running(marker) != runs:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_private_lines_arrive_and_stand_on_no_command_line(hosts: DriverHosts, tmp_path: Path) -> None:
    with Processes(tmp_path / "processes.jsonl") as processes:
        program = hosts.launch("client-0", sh("cat /dev/stdin; echo $TZ; echo oops >&2; exit 3"), tmp_path / "out")
        seen = [word for one in psutil.process_iter(["cmdline"]) for word in one.info["cmdline"] or []]
        assert not any("s3cret" in word for word in seen)
        hosts.release()
        assert processes.wait(program, timeout_s=10)
    assert program.exit_code == 3
    assert (tmp_path / "out").read_text() == f"{SECRET}UTC\noops\n"


def test_programs_begin_together(hosts: DriverHosts, tmp_path: Path) -> None:
    with Processes(tmp_path / "processes.jsonl") as processes:
        first = hosts.launch("client-0", sh("date +%s.%N", host=0), tmp_path / "0")
        time.sleep(1)
        second = hosts.launch("client-1", sh("date +%s.%N", host=1), tmp_path / "1")
        hosts.release()
        assert processes.wait(first, second, timeout_s=10)
    begun = [float((tmp_path / name).read_text()) for name in "01"]
    assert abs(begun[0] - begun[1]) < 0.5


def test_stopping_ends_the_program_there_and_keeps_what_it_said(hosts: DriverHosts, tmp_path: Path) -> None:
    marker = str(tmp_path / "stopped")
    script = "trap 'echo bye; exit 0' TERM; echo hello; while :; do sleep 0.1; done"
    with Processes(tmp_path / "processes.jsonl") as processes:
        program = hosts.launch("client-0", sh(script, marker), tmp_path / "out")
        hosts.release()
        deadline = time.monotonic() + 20
        while not ((tmp_path / "out").exists() and (tmp_path / "out").read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert program.running
        assert is_running(marker)
        processes.stop(program)
    assert (tmp_path / "out").read_text() == "hello\nbye\n"
    wait_until(marker, runs=False)


@pytest.mark.parametrize("begun", [True, False])
def test_a_lost_connection_leaves_nothing_running(hosts: DriverHosts, tmp_path: Path, begun: bool) -> None:
    marker = str(tmp_path / "lost")
    program = hosts.launch("client-0", sh("while :; do sleep 0.1; done", marker), tmp_path / "out")
    if begun:
        hosts.release()
    wait_until(marker, runs=True)
    hosts.close()
    wait_until(marker, runs=False)
    program.send(signal.SIGKILL)
    program.reap()
    assert program.exit_code == 255


def test_parts_go_to_the_hosts_in_turns_with_their_own_folders(tmp_path: Path) -> None:
    hosts = [DriverHost(host="a", home="/opt/ycsb"), DriverHost(host="b", java="/opt/java")]
    driver = YcsbProgram(YcsbDriver(home=tmp_path / "none-here", hosts=hosts))
    matrix = {"workloads": ["c"], "threads": [3], "drivers": [3]}
    run = make_plan(parse_experiment({"name": "x", "matrix": matrix}))[0]
    connection = ConnectionInfo([ServerNode("1", "worker1", 5432, "worker")], "ycsb", "bench", "s3cret")
    commands = [driver.command(Work(run, part, 1, 10, 10, KeyRange(0, 10)), connection, tmp_path) for part in range(3)]
    assert [command.host for command in commands] == [0, 1, 0]
    assert [command.arguments[0] for command in commands] == ["java", "/opt/java", "java"]
    assert "/opt/ycsb/lib/*" in str(commands[0].arguments)
    assert f"{tmp_path}/none-here/lib/*" in str(commands[1].arguments)
    assert all(command.private == SECRET and "s3cret" not in str(command) for command in commands)
    assert list(tmp_path.iterdir()) == []  # no file holds the password


def test_samples_of_a_host_are_filed_under_its_name() -> None:
    run = make_plan(parse_experiment({"name": "x", "matrix": {"workloads": ["c"]}}))[0]
    name = build_sampler_output_path(run.configuration.resource, "iostat", format_host_name(1), run.iteration).name
    assert name_facts(name) == {"node": "driver2", "iteration": 1}


def test_what_a_host_lacks_is_told(host: DriverHost, tmp_path: Path) -> None:
    assert find_host_problem(host.model_copy(update={"java": "no-java"}), tmp_path) == ("no-java is not there", "")
    there = host.model_copy(update={"java": shutil.which("sh")})
    problem, _ = find_host_problem(there, tmp_path)
    assert problem == f"{tmp_path} holds no lib/core-*.jar"
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "core-0.17.0.jar").touch()
    problem, found = find_host_problem(there, tmp_path)
    assert problem is None
    assert "core-0.17.0.jar" in found

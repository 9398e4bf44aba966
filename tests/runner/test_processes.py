"""Started processes are ended with their children, also by the runner that comes after a killed one."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from citus_analysis.cli.subcommands.run import _handle_sigterm_as_interrupt
from citus_analysis.runner.hosts import LocalShell, Processes

SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]
PARENT = [
    sys.executable,
    "-c",
    "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
    "print('ready', flush=True); time.sleep(60)",
]


def wait_for(file: Path, text: bytes) -> None:
    deadline = time.monotonic() + 20
    while text not in file.read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_leaving_the_block_ends_a_process_with_its_children(tmp_path: Path) -> None:
    with Processes(tmp_path / "register") as processes:
        launched = processes.launch("parent", PARENT, output=tmp_path / "out")
        wait_for(tmp_path / "out", b"ready")
        family = psutil.Process(launched.process.pid).children(recursive=True)
        assert family
    assert launched.exit_code == -signal.SIGTERM
    _gone, alive = psutil.wait_procs(family, timeout=10)
    assert not alive


def test_arguments_are_not_read_by_a_shell(tmp_path: Path) -> None:
    nasty = "$(touch broken); `touch broken` | ' \" \\"
    with Processes(tmp_path / "register") as processes:
        echo = [sys.executable, "-c", "import sys; print(sys.argv[1])", nasty]
        launched = processes.launch("echo", echo, output=tmp_path / "out", folder=tmp_path)
        assert processes.wait(launched, timeout_s=20)
    assert (tmp_path / "out").read_text() == nasty + "\n"
    assert not (tmp_path / "broken").exists()


def test_leftovers_of_a_killed_runner_are_ended_and_nothing_else(tmp_path: Path) -> None:
    mine = psutil.Popen(SLEEPER)
    killed_runner = Processes(tmp_path / "register")
    left = killed_runner.launch("left", SLEEPER)
    with Processes(tmp_path / "register"):
        assert left.process.wait(timeout=10) is not None
        assert mine.is_running()
    mine.kill()
    mine.wait()


def test_a_reused_pid_is_left_alone(tmp_path: Path) -> None:
    other = psutil.Popen(SLEEPER)
    register = tmp_path / "register"
    Processes(register)._register.append("old", "started", pid=other.pid, since=other.create_time() - 100)
    assert Processes(register).end_leftovers() == []
    assert other.is_running()
    other.kill()
    other.wait()


def test_a_relative_password_file_is_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGPASSFILE", "secrets/pgpass")
    (tmp_path / "elsewhere").mkdir()
    with Processes(tmp_path / "register") as processes:
        tell = [sys.executable, "-c", "import os; print(os.environ['PGPASSFILE'])"]
        launched = processes.launch("tell", tell, output=tmp_path / "out", folder=tmp_path / "elsewhere")
        assert processes.wait(launched, timeout_s=20)
    assert (tmp_path / "out").read_text() == f"{tmp_path / 'secrets/pgpass'}\n"


def test_signals_wait_until_all_processes_are_ended(tmp_path: Path) -> None:
    """Neither the first signal, which comes while processes end, nor the second leaves one running."""
    stubborn = ["sh", "-c", "trap '' TERM; echo ready; sleep 60"]
    ended: list[int | None] = []

    def end_all() -> None:
        with _handle_sigterm_as_interrupt(), Processes(tmp_path / "register") as processes:
            launched = [processes.launch(name, stubborn, output=tmp_path / name) for name in ("one", "other")]
            for one in launched:
                wait_for(one.output, b"ready")
            first = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM))
            first.start()
            try:
                processes.stop(*launched, grace_s=0.3)
            finally:
                first.join()
                ended.extend(one.exit_code for one in launched)
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        end_all()
    assert ended == [-signal.SIGKILL, -signal.SIGKILL]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_sampler_ends_with_what_started_it(tmp_path: Path) -> None:
    """For the kernel, its parent is a thread."""
    with Processes(tmp_path / "register") as processes:

        def start() -> None:
            LocalShell(processes).start(["sh", "-c", "echo ready; exec sleep 60"], {}, tmp_path / "out")
            wait_for(tmp_path / "out", b"ready")

        thread = threading.Thread(target=start)
        thread.start()
        thread.join()
        (launched,) = processes._launched
        assert processes.wait(launched, timeout_s=10)
        assert launched.exit_code == -signal.SIGTERM

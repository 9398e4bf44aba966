"""Other processes as an executor: errors, messages, and how they end."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from citus_analysis.core.parallel import send_to_parent, start_worker_processes
from citus_analysis.errors import InputError, UnknownNameError


def nothing() -> None:
    """Needs no preparation."""


def raising(error: Exception) -> None:
    """Raise an error."""
    raise error


def test_an_error_is_the_one_that_was_raised() -> None:
    errors = [
        InputError("is empty", path="a.log", place="line 1", hint="remove it"),
        UnknownNameError("f", "x", ["y"]),
    ]
    with start_worker_processes(1, prepare=nothing) as executor:
        for error in errors:
            found = executor.submit(raising, error).exception()
            assert type(found) is type(error)
            assert str(found) == str(error)
            assert vars(found) == vars(error)


def test_messages_of_several_processes_arrive_whole() -> None:
    heard: list[object] = []
    with start_worker_processes(2, prepare=nothing, heard=heard.append) as executor:
        for done in [executor.submit(send_to_parent, (number, 3)) for number in range(50)]:
            done.result()
        deadline = time.monotonic() + 10
        while len(heard) < 50 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert Counter(heard) == Counter((number, 3) for number in range(50))


def test_what_runs_at_the_end_is_killed() -> None:
    began = time.monotonic()
    with start_worker_processes(1, prepare=nothing) as executor:
        pid = executor.submit(os.getpid).result()
        executor.submit(time.sleep, 600)
    assert time.monotonic() - began < 60
    assert not Path(f"/proc/{pid}").exists()


def grow() -> int:
    """Take 400 MB and keep them, as a process that reads a large log does; its pid."""
    _held.append(b"x" * 400_000_000)
    return os.getpid()


_held: list[bytes] = []


def test_a_process_that_needs_memory_goes_on() -> None:
    """Once, it was replaced, which cost what it had imported, and the user was warned of a leak."""
    with start_worker_processes(1, prepare=nothing) as executor:
        begun = executor.submit(os.getpid).result()
        # Its memory would be looked at once a second.
        time.sleep(1.1)
        assert executor.submit(grow).result() == begun
        assert {executor.submit(os.getpid).result() for _ in range(3)} == {begun}


def test_an_interrupt_from_the_keyboard_is_not_theirs() -> None:
    with start_worker_processes(1, prepare=nothing) as executor:
        assert executor.submit(signal.getsignal, signal.SIGINT).result() == signal.SIG_IGN


def test_a_script_without_a_guard_is_not_run_again(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from citus_analysis.core.parallel import start_worker_processes\n"
        "print('once', flush=True)\n"
        "with start_worker_processes(1, prepare=int) as executor:\n"
        "    print(executor.submit(abs, -3).result())\n",
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["once", "3"]
    assert done.stderr == ""


@pytest.mark.parametrize("number", [1, 2])
def test_all_are_started_at_once(number: int) -> None:
    with start_worker_processes(number, prepare=nothing) as executor:
        executor.submit(int).result()
        assert len(executor._processes) == number  # type: ignore[attr-defined] # private

"""Processes of the runner: each is started in a session of its own, registered on disk, and ended with the runner.

No shell is involved: arguments are passed to the program as a list. A register on disk lists the started processes, so
that a resume after `kill -9` ends the processes that the killed runner left, and no others: a process is identified by
its pid *and* its start time.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

import psutil

from citus_analysis.runner.journal import Journal

_GRACE_S: Final = 10.0
_POLL_S: Final = 0.05


class Launched(Protocol):
    """A program that was started, on this or another machine, and the local file of its output."""

    @property
    def name(self) -> str:
        """Name for messages."""

    @property
    def output(self) -> Path | None:
        """The file of its output; None: the output is discarded."""

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""

    @property
    def exit_code(self) -> int | None:
        """Its exit code; negative: the signal that ended it; None while it runs."""

    def send(self, what: signal.Signals) -> None:
        """Send a signal to it and its children without waiting for them."""

    def reap(self) -> None:
        """Wait for the end of a program to which SIGKILL was sent."""


@dataclass(frozen=True)
class LaunchedHere:
    """A process of this machine.

    Attributes:
        private: its private folder; None if it has none.
        leaves: files that it leaves there: pattern -> format.
    """

    name: str
    process: subprocess.Popen[bytes]
    output: Path | None
    private: Path | None = None
    leaves: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self.process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Its exit code; negative: the signal that ended it; None while it runs."""
        return self.process.poll()

    def send(self, what: signal.Signals) -> None:
        """Send a signal to it and its children."""
        # The process leads its session, hence its group: children of a driver end with it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, what)

    def reap(self) -> None:
        """Wait for its end."""
        self.process.wait()


class Processes:
    """All processes of one runner; leaving the `with` block ends them."""

    def __init__(self, register: Path) -> None:
        self._register = Journal(register)
        self._launched: list[LaunchedHere] = []

    def __enter__(self) -> Self:
        self.end_leftovers()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(*self._launched)

    def launch(
        self,
        name: str,
        arguments: Sequence[str | os.PathLike[str]],
        *,
        output: Path | None = None,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        user: str | None = None,
        heading: bytes = b"",
    ) -> LaunchedHere:
        """Start a program.

        Args:
            name: name of the process, for messages.
            arguments: program and arguments; no shell reads them.
            output: file for standard output and standard error; None discards both.
            environment: variables besides the runner's own.
            folder: working folder.
            user: account to run as (needs root).
            heading: text written to the output before the program's own.

        Raises:
            OSError: the program cannot be started.
        """
        stated = os.environ.get("PGPASSFILE")
        # Absolute, so that it is valid in any working folder.
        login = {"PGPASSFILE": os.path.abspath(stated)} if stated else {}  # noqa: PTH100 - links are kept
        with contextlib.ExitStack() as stack:
            if output:
                output.write_bytes(heading)
            sink = stack.enter_context(output.open("ab")) if output else subprocess.DEVNULL
            process = subprocess.Popen(
                [os.fspath(argument) for argument in arguments],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**os.environ, **login, **(environment or {})},
                cwd=folder,
                user=user,
                start_new_session=True,
            )
        launched = LaunchedHere(name, process, output)
        self._launched.append(launched)
        with contextlib.suppress(psutil.NoSuchProcess):
            self._register.append(name, "started", pid=process.pid, since=psutil.Process(process.pid).create_time())
        return launched

    def wait(self, *launched: Launched, timeout_s: float) -> bool:
        """Wait until all have ended; False if the time is over before."""
        deadline = time.monotonic() + timeout_s
        while any(one.running for one in launched):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def stop(self, *launched: Launched, first: signal.Signals = signal.SIGTERM, grace_s: float = _GRACE_S) -> None:
        """End processes with their children: send `first` to each, and SIGKILL to the rest after `grace_s` seconds."""
        for one in launched:
            one.send(first)
        self.wait(*launched, timeout_s=grace_s)
        for one in launched:
            one.send(signal.SIGKILL)
            one.reap()

    def end_leftovers(self) -> list[str]:
        """End processes that an earlier runner started and did not end; return their names."""
        ended: list[str] = []
        for entry in self._register.entries():
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(int(entry.detail["pid"]))
                if process.create_time() == entry.detail["since"]:
                    family = [*process.children(recursive=True), process]
                    for member in family:
                        with contextlib.suppress(psutil.NoSuchProcess):
                            member.terminate()
                    _gone, alive = psutil.wait_procs(family, timeout=_GRACE_S)
                    for member in alive:
                        member.kill()
                    ended.append(entry.subject)
        self._register.path.unlink(missing_ok=True)
        return ended

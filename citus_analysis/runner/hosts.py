"""Hosts on which samplers and load generators run: this machine, or another by ssh.

The remote side of ssh is a shell by protocol; every word of a call is quoted, and no word comes from a file's content.
Host keys must be known, and keys come from the agent or `~/.ssh`: the runner does not ask for a passphrase.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, Self

import psutil

from citus_analysis.core.extras import require_extra
from citus_analysis.errors import RunnerError
from citus_analysis.runner.experiment import DriverHost, NodeAddress
from citus_analysis.runner.journal import Journal

if TYPE_CHECKING:
    import paramiko

# Processes of the runner: each is started in a session of its own, registered on disk, and ended with the runner.
#
# No shell is involved: arguments are passed to the program as a list. A register on disk lists the started processes,
# so that a resume after `kill -9` ends the processes that the killed runner left, and no others: a process is
# identified by its pid *and* its start time. Programs on other machines are ended by their connection instead.

_GRACE_S: Final = 10.0
_POLL_S: Final = 0.05
_JOIN_TIMEOUT_S: Final = 10
_LOST: Final = 255
_SIGNAL_BASE: Final = 128  # sh adds it to the number of the signal that ended a program
_END_OF_PRIVATE: Final = "."
CHUNK_BYTES: Final = 65_536


@contextmanager
def postpone_signals() -> Iterator[None]:
    """Receive SIGTERM and SIGINT only at the end of the block, so that what it starts or ends is not left half done.

    Outside of the main thread, which alone receives signals, there is nothing to do.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    before = {one: signal.signal(one, note) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for one, handler in before.items():
            # None: another language set it, and only it can restore it.
            signal.signal(one, handler or signal.SIG_DFL)
        for number in came[:1]:
            signal.raise_signal(number)


@dataclass(frozen=True)
class LaunchedHere:
    """A process of this machine, and the file of its output."""

    name: str
    process: subprocess.Popen[bytes]
    output: Path

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self.process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Its exit code; negative: the signal that ended it; None while it runs."""
        return self.process.poll()

    def send(self, what: signal.Signals) -> None:
        """Send a signal to it and its children without waiting for them."""
        # The process leads its session, hence its group: children of a driver end with it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, what)

    def reap(self) -> None:
        """Wait for the end of a process to which SIGKILL was sent."""
        self.process.wait()


@dataclass
class RemoteProgram:
    """A program on another machine that ends with the connection; a thread copies its output into a local file.

    Attributes:
        host: name of the machine, for messages.
        private: whole lines for its standard input, which :meth:`go` sends.
        problem: reason why the file is not complete; None if there is no problem.
    """

    name: str
    output: Path
    channel: paramiko.Channel
    host: str
    private: str = ""
    problem: str | None = None

    def __post_init__(self) -> None:
        self._copier = threading.Thread(target=self._copy, daemon=True)
        self._copier.start()

    @property
    def running(self) -> bool:
        """Whether it has not ended, or some of its output is still on the way."""
        return self._copier.is_alive() or not self.channel.exit_status_ready()

    @property
    def exit_code(self) -> int | None:
        """Its exit code, negative for a signal; that of `ssh` (255) if the connection was lost."""
        if self.running:
            return None
        code = self.channel.exit_status
        if code < 0 or self.problem:
            return _LOST
        return _SIGNAL_BASE - code if _SIGNAL_BASE < code < _LOST else code

    def go(self) -> None:
        """Send the private lines, and let the program begin."""
        self.channel.sendall(f"{self.private}{_END_OF_PRIVATE}\n".encode())

    def send(self, what: signal.Signals) -> None:
        """End the program: for SIGKILL the channel is closed, for other signals its input (the guard sends SIGTERM)."""
        with contextlib.suppress(OSError):
            if what is signal.SIGKILL:
                self.channel.close()
            else:
                self.channel.shutdown_write()

    def reap(self) -> None:
        """Wait for the last of its output."""
        self._copier.join(_JOIN_TIMEOUT_S)
        if self._copier.is_alive():
            self.problem = f"{self.name} on {self.host}: its output did not end within {_JOIN_TIMEOUT_S} s"

    def hang_up(self) -> str | None:
        """Close its terminal, which ends it; return the reason why its output is not complete, if it is not."""
        lost = self.channel.closed and self.problem is None
        self.channel.close()
        self.reap()
        return "it ended before the load" if lost else self.problem

    def _copy(self) -> None:
        try:
            with self.output.open("wb") as file:
                while piece := self.channel.recv(CHUNK_BYTES):
                    # A terminal ends lines with CR LF.
                    file.write(piece.replace(b"\r\n", b"\n"))
                    file.flush()
        except OSError as error:
            what = f"{self.name} on {self.host}"
            self.problem = f"{what}: its output was not copied to the end into {self.output.name}: {error}"
            # A program whose output is not read would block forever.
            self.channel.close()


#: A program that was started, on this or another machine, and the local file of its output.
Launched = LaunchedHere | RemoteProgram


class Processes:
    """All processes of one runner; leaving the `with` block ends them."""

    def __init__(self, register: Path) -> None:
        self._register = Journal(register)
        self._launched: list[LaunchedHere] = []

    def __enter__(self) -> Self:
        self.end_leftovers()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop(*self._launched)

    def launch(
        self,
        name: str,
        arguments: Sequence[str | os.PathLike[str]],
        *,
        output: Path = Path(os.devnull),
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        heading: bytes = b"",
    ) -> LaunchedHere:
        """Start a program.

        Args:
            name: name of the process, for messages.
            arguments: program and arguments; no shell reads them.
            output: file for standard output and standard error.
            environment: variables besides the runner's own.
            folder: working folder.
            heading: text written to the output before the program's own.

        Raises:
            OSError: the program cannot be started.
        """
        stated = os.environ.get("PGPASSFILE")
        # Absolute, so that it is valid in any working folder.
        login = {"PGPASSFILE": os.path.abspath(stated)} if stated else {}  # noqa: PTH100 - links are kept
        output.write_bytes(heading)
        with output.open("ab") as sink, postpone_signals():
            process = subprocess.Popen(
                [os.fspath(argument) for argument in arguments],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**os.environ, **login, **(environment or {})},
                cwd=folder,
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
        """End processes with their children: send `first` to each, and SIGKILL to the rest after `grace_s` seconds.

        Signals to this process wait until all are ended.
        """
        with postpone_signals():
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


_CONNECT_TIMEOUT_S: Final = 15
_KEEPALIVE_S: Final = 15

#: The remote script passes the private lines to the program through a pipe, and ends the program when its own input
#: ends: when the runner closes it, dies, or loses the connection. The text is fixed: values are arguments.
_GUARD: Final = """\
private=
while IFS= read -r line && [ "$line" != . ]; do
    private="$private$line
"
done
[ "$line" = . ] || exit 129
exec 3<&0
printf %s "$private" | "$@" 3<&- &
program=$!
(
    while read -r line; do :; done
    kill -TERM $program
    for second in 1 2 3 4 5 6 7 8 9; do
        sleep 1
        kill -0 $program || exit
    done
    kill -KILL $program
) <&3 >/dev/null 2>&1 &
watcher=$!
exec 3<&-
wait $program
code=$?
kill $watcher
exit $code
"""


@dataclass(frozen=True)
class Sampling:
    """A running sampler.

    Attributes:
        stop: ends the sampler. Its output file is then complete, or the returned sentence gives the reason why not.
    """

    stop: Callable[[], str | None]


@cache
def _find_ending_with_parent() -> tuple[str, ...]:
    """Words before a command so that the kernel ends it with its parent; none where no program is there for it."""
    words = ("setpriv", "--pdeathsig", "TERM")
    if shutil.which(words[0]) is None:
        return ()
    # That of busybox does not know it.
    known = subprocess.run([*words, "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return () if known.returncode else words


@dataclass(frozen=True)
class LocalShell:
    """This machine."""

    processes: Processes

    def has(self, program: str) -> bool:
        """Whether PATH contains it."""
        return shutil.which(program) is not None

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], output: Path) -> Sampling:
        """Start a process in a session of its own, which ends with this process, however this one ends."""
        command = [*_find_ending_with_parent(), *arguments]
        launched = self.processes.launch(arguments[0], command, output=output, environment=environment)
        return Sampling(partial(self.processes.stop, launched))

    def close(self) -> None:
        """Do nothing, because there is no connection."""


@dataclass
class SshShell:
    """A node by ssh."""

    client: paramiko.SSHClient
    host: str

    @property
    def connected(self) -> bool:
        """Whether the connection is active."""
        transport = self.client.get_transport()
        return transport is not None and transport.is_active()

    def has(self, program: str) -> bool:
        """Whether the remote PATH contains it."""
        return self._execute(["command", "-v", program]).recv_exit_status() == 0

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], output: Path) -> Sampling:
        """Start a remote program, which ends when its terminal is closed."""
        channel = self._execute(["env", *_format_assignments(environment), *arguments], terminal=True)
        return Sampling(RemoteProgram(arguments[0], output, channel, self.host).hang_up)

    def launch(
        self, name: str, arguments: Sequence[str], environment: Mapping[str, str], output: Path, private: str = ""
    ) -> RemoteProgram:
        """A remote program that begins at `go` and ends when the connection ends for any reason.

        Args:
            name: name of the program, for messages.
            arguments: program and arguments.
            environment: variables besides those of a login there.
            output: local file for its output.
            private: whole lines for its standard input, which appear in no command line and no file.
        """
        words = ["/bin/sh", "-c", _GUARD, "guard", "env", *_format_assignments(environment), *arguments]
        return RemoteProgram(name, output, self._execute(words), self.host, private)

    def ask(self, arguments: Sequence[str]) -> tuple[int, str]:
        """Exit code and output of a program that ends by itself."""
        channel = self._execute(arguments)
        channel.settimeout(_CONNECT_TIMEOUT_S)
        try:
            said = b"".join(iter(lambda: channel.recv(CHUNK_BYTES), b""))
        except OSError as error:
            raise RunnerError(f"ssh to {self.host}: {arguments[0]} failed: {error}") from error
        return channel.recv_exit_status(), said.decode(errors="replace")

    def close(self) -> None:
        """End the connection."""
        with suppress(OSError):
            self.client.close()

    def _execute(self, words: Sequence[str], *, terminal: bool = False) -> paramiko.Channel:
        """Start a program whose standard output and standard error are read together."""
        from paramiko import SSHException

        transport = self.client.get_transport()
        if transport is None:
            raise RunnerError(f"ssh to {self.host}: the connection is closed", hint="check the connection")
        try:
            channel = transport.open_session(timeout=_CONNECT_TIMEOUT_S)
        except (SSHException, OSError) as error:
            raise RunnerError(f"ssh to {self.host}: {error}", hint="check the connection") from error
        if terminal:
            channel.get_pty(width=1000)
        channel.set_combine_stderr(True)
        channel.exec_command(shlex.join(words))
        return channel


def _format_assignments(environment: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in environment.items()]


#: A place where a program can be started.
Shell = LocalShell | SshShell


def open_ssh(host: str, user: str | None, port: int) -> paramiko.SSHClient:
    """A connection to a known host.

    Raises:
        RunnerError: the connection cannot be made, or the host's key is unknown or different.
        UsageError: paramiko, of the extra `runner`, is not installed.
    """
    require_extra("paramiko", "run", f"ssh to {host}")
    import paramiko

    client = paramiko.SSHClient()
    client.load_system_host_keys()
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    try:
        client.connect(host, port=port, username=user, timeout=_CONNECT_TIMEOUT_S)
    except (paramiko.SSHException, OSError) as error:
        hint = "check that `ssh` connects without a password and knows the host key"
        raise RunnerError(f"ssh to {host}: {error}", hint=hint) from error
    if transport := client.get_transport():
        transport.set_keepalive(_KEEPALIVE_S)  # to detect a lost machine
    return client


def open_shell(address: DriverHost | NodeAddress) -> SshShell:
    """A shell on a known host.

    Raises:
        RunnerError, UsageError: as `open_ssh`.
    """
    return SshShell(open_ssh(address.host, address.ssh_user, address.ssh_port), address.host)

"""Hosts on which samplers and load generators run: this machine, or another by ssh.

The remote side of ssh is a shell by protocol; every word of a call is quoted, and no word comes from a file's content.
Host keys must be known, and keys come from the agent or `~/.ssh`: the runner does not ask for a passphrase.
"""

from __future__ import annotations

import shlex
import signal
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from citus_analysis.core.extras import required
from citus_analysis.errors import RunnerError
from citus_analysis.runner.hosts.processes import Launched, Processes

if TYPE_CHECKING:
    import paramiko

_CONNECT_TIMEOUT_S: Final = 15
_JOIN_TIMEOUT_S: Final = 10
_CHUNK_BYTES: Final = 65_536
_KEEPALIVE_S: Final = 15
_LOST: Final = 255
_SIGNAL_BASE: Final = 128  # sh adds it to the number of the signal that ended a program
_END_OF_PRIVATE: Final = "."

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


class Sampling(Protocol):
    """A running sampler."""

    def stop(self) -> str | None:
        """End the sampler. Its output file is then complete, or the returned sentence gives the reason why not."""


class Shell(Protocol):
    """A place where a program can be started."""

    def has(self, program: str) -> bool:
        """Whether the program is installed there."""

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], output: Path) -> Sampling:
        """Start a program whose output is written to a local file."""

    def close(self) -> None:
        """Close the connection."""


@dataclass(frozen=True)
class _LocalSampling:
    processes: Processes
    launched: Launched

    def stop(self) -> str | None:
        self.processes.stop(self.launched)
        return None


@dataclass(frozen=True)
class LocalShell:
    """This machine."""

    processes: Processes

    def has(self, program: str) -> bool:
        """Whether PATH contains it."""
        from shutil import which

        return which(program) is not None

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], output: Path) -> Sampling:
        """Start a process in a session of its own."""
        launched = self.processes.launch(arguments[0], arguments, output=output, environment=environment)
        return _LocalSampling(self.processes, launched)

    def close(self) -> None:
        """Do nothing, because there is no connection."""


class _Copier:
    """A thread that copies the output of a remote program into a local file.

    Attributes:
        problem: reason why the file is not complete; None if there is no problem.
    """

    def __init__(self, channel: paramiko.Channel, output: Path, what: str) -> None:
        self._channel, self._output, self._what = channel, output, what
        self.problem: str | None = None
        self.thread = threading.Thread(target=self._copy, daemon=True)
        self.thread.start()

    def join(self) -> None:
        """Wait until all output is in the file."""
        self.thread.join(_JOIN_TIMEOUT_S)
        if self.thread.is_alive():
            self.problem = f"{self._what}: its output did not end within {_JOIN_TIMEOUT_S} s"

    def _copy(self) -> None:
        try:
            with self._output.open("wb") as file:
                while piece := self._channel.recv(_CHUNK_BYTES):
                    # A terminal ends lines with CR LF.
                    file.write(piece.replace(b"\r\n", b"\n"))
                    file.flush()
        except OSError as error:
            self.problem = f"{self._what}: its output was not copied to the end into {self._output.name}: {error}"
            # A program whose output is not read would block forever.
            self._channel.close()


@dataclass
class _SshSampling:
    channel: paramiko.Channel
    copier: _Copier

    def stop(self) -> str | None:
        # Closing the terminal hangs up the remote program.
        lost = self.channel.closed and self.copier.problem is None
        self.channel.close()
        self.copier.join()
        return "it ended before the load" if lost else self.copier.problem


@dataclass
class RemoteProgram:
    """A program on another machine that ends with the connection; it waits for :meth:`go`."""

    name: str
    output: Path
    channel: paramiko.Channel
    private: str
    copier: _Copier

    @property
    def running(self) -> bool:
        """Whether it has not ended, or some of its output is still on the way."""
        return self.copier.thread.is_alive() or not self.channel.exit_status_ready()

    @property
    def exit_code(self) -> int | None:
        """Its exit code, negative for a signal; that of `ssh` (255) if the connection was lost."""
        if self.running:
            return None
        code = self.channel.exit_status
        if code < 0 or self.copier.problem:
            return _LOST
        return _SIGNAL_BASE - code if _SIGNAL_BASE < code < _LOST else code

    def go(self) -> None:
        """Send the private lines, and let the program begin."""
        self.channel.sendall(f"{self.private}{_END_OF_PRIVATE}\n".encode())

    def send(self, what: signal.Signals) -> None:
        """End the program: for SIGKILL the channel is closed, for other signals its input (the guard sends SIGTERM)."""
        with suppress(OSError):
            if what is signal.SIGKILL:
                self.channel.close()
            else:
                self.channel.shutdown_write()

    def reap(self) -> None:
        """Wait for the last of its output."""
        self.copier.join()


@dataclass
class SshShell:
    """A node by ssh."""

    client: paramiko.SSHClient
    host: str
    _open: list[paramiko.Channel] = field(default_factory=list)

    @property
    def connected(self) -> bool:
        """Whether the connection is active."""
        transport = self.client.get_transport()
        return transport is not None and transport.is_active()

    def has(self, program: str) -> bool:
        """Whether the remote PATH contains it."""
        channel = self._channel()
        channel.exec_command(shlex.join(["command", "-v", program]))
        return channel.recv_exit_status() == 0

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], output: Path) -> Sampling:
        """Start a remote program; a thread copies its output."""
        channel = self._channel()
        channel.get_pty(width=1000)
        channel.set_combine_stderr(True)
        words = ["env", *(f"{name}={value}" for name, value in environment.items()), *arguments]
        channel.exec_command(shlex.join(words))
        return _SshSampling(channel, _Copier(channel, output, f"{arguments[0]} on {self.host}"))

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
        channel = self._channel()
        channel.set_combine_stderr(True)
        words = [f"{variable}={value}" for variable, value in environment.items()]
        channel.exec_command(shlex.join(["/bin/sh", "-c", _GUARD, "guard", "env", *words, *arguments]))
        return RemoteProgram(name, output, channel, private, _Copier(channel, output, f"{name} on {self.host}"))

    def ask(self, arguments: Sequence[str]) -> tuple[int, str]:
        """Exit code and output of a program that ends by itself."""
        channel = self._channel()
        channel.settimeout(_CONNECT_TIMEOUT_S)
        channel.set_combine_stderr(True)
        channel.exec_command(shlex.join(arguments))
        try:
            said = b"".join(iter(lambda: channel.recv(_CHUNK_BYTES), b""))
        except OSError as error:
            raise RunnerError(f"ssh to {self.host}: {arguments[0]} failed: {error}") from error
        return channel.recv_exit_status(), said.decode(errors="replace")

    def close(self) -> None:
        """End the connection."""
        with suppress(OSError):
            self.client.close()

    def _channel(self) -> paramiko.Channel:
        from paramiko import SSHException

        transport = self.client.get_transport()
        if transport is None:
            raise RunnerError(f"ssh to {self.host}: the connection is closed", way_out="check the connection")
        try:
            return transport.open_session(timeout=_CONNECT_TIMEOUT_S)
        except (SSHException, OSError) as error:
            raise RunnerError(f"ssh to {self.host}: {error}", way_out="check the connection") from error


def open_ssh(host: str, user: str | None, port: int) -> paramiko.SSHClient:
    """A connection to a known host.

    Raises:
        RunnerError: the connection cannot be made, or the host's key is unknown or different.
        UsageError: paramiko, of the extra `runner`, is not installed.
    """
    required("paramiko", "runner", f"ssh to {host}")
    import paramiko

    client = paramiko.SSHClient()
    client.load_system_host_keys()
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    try:
        client.connect(host, port=port, username=user, timeout=_CONNECT_TIMEOUT_S)
    except (paramiko.SSHException, OSError) as error:
        way_out = "check that `ssh` connects without a password and knows the host key"
        raise RunnerError(f"ssh to {host}: {error}", way_out=way_out) from error
    if transport := client.get_transport():
        transport.set_keepalive(_KEEPALIVE_S)  # to detect a lost machine
    return client

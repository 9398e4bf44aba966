"""Hosts on which samplers and load generators run: this machine, or another by ssh.

The remote side of ssh is a shell by protocol; every word of a call is quoted, and no word comes from a file's content.
Host keys must be known, and keys come from the agent or `~/.ssh`: the runner does not ask for a passphrase.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from citus_analysis.core.extras import required
from citus_analysis.errors import RunnerError
from citus_analysis.runner.experiment_file.driver_fields import DriverHost
from citus_analysis.runner.experiment_file.target_fields import NodeAddress
from citus_analysis.runner.hosts.processes import CHUNK_BYTES, Processes, RemoteProgram

if TYPE_CHECKING:
    import paramiko

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


@dataclass(frozen=True)
class LocalShell:
    """This machine."""

    processes: Processes

    def has(self, program: str) -> bool:
        """Whether PATH contains it."""
        return shutil.which(program) is not None

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], output: Path) -> Sampling:
        """Start a process in a session of its own."""
        launched = self.processes.launch(arguments[0], arguments, output=output, environment=environment)
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
        channel = self._execute(["env", *_assigned(environment), *arguments], terminal=True)
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
        words = ["/bin/sh", "-c", _GUARD, "guard", "env", *_assigned(environment), *arguments]
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
            raise RunnerError(f"ssh to {self.host}: the connection is closed", way_out="check the connection")
        try:
            channel = transport.open_session(timeout=_CONNECT_TIMEOUT_S)
        except (SSHException, OSError) as error:
            raise RunnerError(f"ssh to {self.host}: {error}", way_out="check the connection") from error
        if terminal:
            channel.get_pty(width=1000)
        channel.set_combine_stderr(True)
        channel.exec_command(shlex.join(words))
        return channel


def _assigned(environment: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in environment.items()]


#: A place where a program can be started.
Shell = LocalShell | SshShell


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


def open_shell(address: DriverHost | NodeAddress) -> SshShell:
    """A shell on a known host.

    Raises:
        RunnerError, UsageError: as `open_ssh`.
    """
    return SshShell(open_ssh(address.host, address.ssh_user, address.ssh_port), address.host)

"""Where samplers run: on this machine, or on a node by ssh.

The remote side of ssh is a shell by protocol; every word of a call is quoted, and none comes from a file's content.
Host keys must be known, and keys come from the agent or `~/.ssh`: the runner asks for no passphrase.
"""

from __future__ import annotations

import shlex
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import paramiko

from citus_analysis.errors import RunnerError
from citus_analysis.runner.processes import Launched, Processes

__all__ = ["LocalShell", "Sampling", "Shell", "SshShell", "open_ssh"]

_CONNECT_TIMEOUT_S: Final = 15
_JOIN_TIMEOUT_S: Final = 10
_CHUNK_BYTES: Final = 65_536


class Sampling(Protocol):
    """A sampler under way."""

    def stop(self) -> None:
        """End it; its output file is complete afterwards."""


class Shell(Protocol):
    """A place where a program can be started."""

    def has(self, program: str) -> bool:
        """Whether the program is installed there."""

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], output: Path) -> Sampling:
        """Start a program whose output is written to a local file."""

    def close(self) -> None:
        """Give up the connection."""


@dataclass(frozen=True)
class _LocalSampling:
    processes: Processes
    launched: Launched

    def stop(self) -> None:
        self.processes.stop(self.launched)


@dataclass(frozen=True)
class LocalShell:
    """This machine."""

    processes: Processes

    def has(self, program: str) -> bool:
        """Whether PATH leads to it."""
        from shutil import which

        return which(program) is not None

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], output: Path) -> Sampling:
        """A process in a session of its own."""
        launched = self.processes.launch(arguments[0], arguments, output=output, environment=environment)
        return _LocalSampling(self.processes, launched)

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class _SshSampling:
    channel: paramiko.Channel
    copier: threading.Thread

    def stop(self) -> None:
        # Closing the terminal hangs up the remote program.
        self.channel.close()
        self.copier.join(_JOIN_TIMEOUT_S)


@dataclass
class SshShell:
    """A node by ssh."""

    client: paramiko.SSHClient
    host: str
    _open: list[paramiko.Channel] = field(default_factory=list)

    def has(self, program: str) -> bool:
        """Whether the remote PATH leads to it."""
        channel = self._channel()
        channel.exec_command(shlex.join(["command", "-v", program]))
        return channel.recv_exit_status() == 0

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], output: Path) -> Sampling:
        """A remote program; a thread copies what it prints."""
        channel = self._channel()
        channel.get_pty(width=1000)
        channel.set_combine_stderr(True)
        words = ["env", *(f"{name}={value}" for name, value in environment.items()), *arguments]
        channel.exec_command(shlex.join(words))
        copier = threading.Thread(target=_copy, args=(channel, output), daemon=True)
        copier.start()
        return _SshSampling(channel, copier)

    def close(self) -> None:
        """End the connection."""
        with suppress(OSError):
            self.client.close()

    def _channel(self) -> paramiko.Channel:
        transport = self.client.get_transport()
        if transport is None:
            raise RunnerError(f"ssh to {self.host}: the connection is closed", way_out="check the connection")
        try:
            return transport.open_session(timeout=_CONNECT_TIMEOUT_S)
        except (paramiko.SSHException, OSError) as error:
            raise RunnerError(f"ssh to {self.host}: {error}", way_out="check the connection") from error


def open_ssh(host: str, user: str | None, port: int) -> paramiko.SSHClient:
    """A connection to a known host.

    Raises:
        RunnerError: it cannot be made, or the host's key is unknown or another.
    """
    client = paramiko.SSHClient()
    client.load_system_host_keys()
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    try:
        client.connect(host, port=port, username=user, timeout=_CONNECT_TIMEOUT_S)
    except (paramiko.SSHException, OSError) as error:
        raise RunnerError(
            f"ssh to {host}: {error}", way_out="check that `ssh` reaches it without a password and knows its key"
        ) from error
    return client


def _copy(channel: paramiko.Channel, output: Path) -> None:
    with output.open("wb") as file, suppress(OSError):
        while piece := channel.recv(_CHUNK_BYTES):
            # A terminal ends lines with CR LF.
            file.write(piece.replace(b"\r\n", b"\n"))
            file.flush()

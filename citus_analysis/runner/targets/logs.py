"""Server logs of a node that is not ours: over SQL, from a folder of this machine, or by sftp.

A mark remembers file and size when a run begins; what was logged since is the rest of that file and all files
that rotation made after it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final, Protocol

import paramiko

from citus_analysis.errors import RunnerError
from citus_analysis.runner.experiment import ClusterTarget, NodeAddress
from citus_analysis.runner.shells import open_ssh
from citus_analysis.runner.targets import sql
from citus_analysis.runner.targets.base import LogMark, Node

__all__ = ["FolderLogs", "LogReader", "SftpLogs", "SqlLogs", "make_log_reader"]

_CHUNK_BYTES: Final = 8 * 2**20


class LogReader(Protocol):
    """Reads one node's server log."""

    def mark(self) -> LogMark:
        """Where the log stands now."""

    def copy_since(self, mark: LogMark, destination: Path) -> None:
        """Copy what came since the mark."""

    def close(self) -> None:
        """Give up connections."""


def make_log_reader(node: Node, address: NodeAddress | None, target: ClusterTarget) -> LogReader:
    """The reader that the node's address asks for; over SQL where it names no shell or no folder."""
    if address and address.log_directory and address.shell == "local":
        return FolderLogs(Path(address.log_directory))
    if address and address.log_directory and address.shell == "ssh":
        return SftpLogs(open_ssh(address.host, address.ssh_user, address.ssh_port), address.log_directory)
    return SqlLogs(node, target.database, target.user)


class SqlLogs:
    """Over SQL: pg_current_logfile, pg_ls_logdir, pg_read_binary_file (superuser or pg_read_server_files)."""

    def __init__(self, node: Node, database: str, user: str) -> None:
        self._node, self._database, self._user = node, database, user

    def mark(self) -> LogMark:
        """The current log file and its size."""
        with self._connection() as connection:
            rows = sql.query(
                connection, "SELECT file, (pg_stat_file(file)).size FROM pg_current_logfile() AS file WHERE file <> ''"
            )
        if not rows:
            raise RunnerError(
                f"node {self._node.name} writes no log file",
                way_out="set logging_collector = on, or give its logs as files",
            )
        return LogMark(str(rows[0][0]), int(rows[0][1]))

    def copy_since(self, mark: LogMark, destination: Path) -> None:
        """In pieces, so that a large log needs no large memory on either side."""
        with self._connection() as connection, destination.open("wb") as target:
            folder = PurePosixPath(mark.file).parent
            names = [str(name) for (name,) in sql.query(connection, "SELECT name FROM pg_ls_logdir()")]
            for file, offset in _since(mark, [str(folder / name) for name in names]):
                while chunk := self._read(connection, file, offset):
                    target.write(chunk)
                    offset += len(chunk)

    def close(self) -> None:
        """Nothing stays open."""

    def _connection(self) -> sql.Connecting:
        return sql.connect(self._node, database=self._database, user=self._user)

    def _read(self, connection: sql.Connection, file: str, offset: int) -> bytes:
        rows = sql.query(connection, "SELECT pg_read_binary_file(%s, %s, %s)", file, offset, _CHUNK_BYTES)
        return bytes(rows[0][0])


class FolderLogs:
    """From a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def mark(self) -> LogMark:
        """The newest file and its size."""
        files = sorted(self._folder.glob("*.log"), key=lambda file: file.stat().st_mtime_ns)
        if not files:
            raise RunnerError("no server log (*.log)", path=self._folder, way_out="correct log_directory")
        return LogMark(str(files[-1]), files[-1].stat().st_size)

    def copy_since(self, mark: LogMark, destination: Path) -> None:
        """The rest of the marked file and the files after it."""
        with destination.open("wb") as target:
            for file, offset in _since(mark, [str(path) for path in self._folder.glob("*.log")]):
                with Path(file).open("rb") as source:
                    source.seek(offset)
                    shutil.copyfileobj(source, target)

    def close(self) -> None:
        """Nothing stays open."""


class SftpLogs:
    """By sftp: no remote shell reads a path."""

    def __init__(self, client: paramiko.SSHClient, folder: str) -> None:
        self._client = client
        self._folder = PurePosixPath(folder)
        self._sftp = client.open_sftp()

    def mark(self) -> LogMark:
        """The newest file and its size."""
        files = sorted(self._logs(), key=lambda pair: pair[1])
        if not files:
            raise RunnerError("no server log (*.log)", path=self._folder, way_out="correct log_directory")
        name = files[-1][0]
        return LogMark(name, int(self._sftp.stat(name).st_size or 0))

    def copy_since(self, mark: LogMark, destination: Path) -> None:
        """The rest of the marked file and the files after it."""
        with destination.open("wb") as target:
            for file, offset in _since(mark, [name for name, _ in self._logs()]):
                with self._sftp.open(file, "rb", bufsize=_CHUNK_BYTES) as source:
                    source.seek(offset)
                    _copy(source, target)

    def close(self) -> None:
        """End the connection."""
        with suppress(OSError):
            self._client.close()

    def _logs(self) -> list[tuple[str, int]]:
        return [
            (str(self._folder / entry.filename), int(entry.st_mtime or 0))
            for entry in self._sftp.listdir_attr(str(self._folder))
            if entry.filename.endswith(".log")
        ]


def _copy(source: paramiko.SFTPFile, target: BinaryIO) -> None:
    while chunk := source.read(_CHUNK_BYTES):
        target.write(chunk)


def _since(mark: LogMark, files: list[str]) -> Iterator[tuple[str, int]]:
    """Files to read with the offset to begin at. Names of rotated logs sort by time."""
    yield mark.file, mark.size
    yield from ((file, 0) for file in sorted(files) if file > mark.file)

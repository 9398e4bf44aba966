"""Read the server logs of a node that the runner did not start: over SQL, from a folder of this machine, or by sftp.

A mark records the sizes of all log files when a run begins; the log of the run is all that was added to them since, in
the order of writing. Names do not give that order (`postgresql-Wed.log` is older than `postgresql-Thu.log`), and
rotation may reuse a name: such a file is recognised by its first bytes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

from citus_analysis.core.output_files import naming
from citus_analysis.errors import RunnerError
from citus_analysis.runner.experiment_file.target_fields import ClusterTarget, NodeAddress
from citus_analysis.runner.hosts.shells import open_ssh
from citus_analysis.runner.systems import connections as sql
from citus_analysis.runner.systems.system import LogFile, LogMark, Node

if TYPE_CHECKING:
    import paramiko

_CHUNK_BYTES: Final = 8 * 2**20
_HEAD_BYTES: Final = 128  # with the first line's time


class LogReader(Protocol):
    """Reads one node's server log."""

    def mark(self) -> LogMark:
        """The current end of the log."""

    def copy_since(self, mark: LogMark, destination: Path) -> None:
        """Copy the bytes that were logged since the mark."""

    def close(self) -> None:
        """Close connections."""


def make_log_reader(node: Node, address: NodeAddress | None, target: ClusterTarget) -> LogReader:
    """The reader for a node's address; over SQL if the address has no shell or no folder of logs."""
    if address and address.log_directory and address.shell == "local":
        return FolderLogs(Path(address.log_directory))
    if address and address.log_directory and address.shell == "ssh":
        return SftpLogs(open_ssh(address.host, address.ssh_user, address.ssh_port), address.log_directory)
    return SqlLogs(node, target.database, target.user)


class SqlLogs:
    """Reads over SQL: pg_current_logfile, pg_ls_logdir, pg_read_binary_file (superuser or pg_read_server_files)."""

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
            current = str(rows[0][0])
            return LogMark(current, int(rows[0][1]), self._files(connection, PurePosixPath(current)))

    def copy_since(self, mark: LogMark, destination: Path) -> None:
        """Copy in chunks, so that a large log does not have to fit into memory on either side."""
        with self._connection() as connection, naming(destination), destination.open("wb") as target:
            for file, offset in _since(mark, self._files(connection, PurePosixPath(mark.file))):
                while chunk := self._read(connection, file, offset):
                    target.write(chunk)
                    offset += len(chunk)

    def close(self) -> None:
        """Do nothing, because no connection is kept open."""

    def _files(self, connection: sql.Connection, current: PurePosixPath) -> dict[str, LogFile]:
        """The log files with the suffix of the current one, because a server may also write CSV and JSON logs."""
        rows = sql.query(
            connection,
            "SELECT name, size, extract(epoch FROM modification), "
            "pg_read_binary_file(%s || '/' || name, 0, %s, true) FROM pg_ls_logdir() WHERE right(name, %s) = %s",
            str(current.parent),
            _HEAD_BYTES,
            len(current.suffix),
            current.suffix,
        )
        return {
            str(current.parent / str(name)): LogFile(int(size), float(modified), bytes(head or b""))
            for name, size, modified, head in rows
        }

    def _connection(self) -> sql.Connecting:
        return sql.connect(self._node, database=self._database, user=self._user)

    def _read(self, connection: sql.Connection, file: str, offset: int) -> bytes:
        rows = sql.query(connection, "SELECT pg_read_binary_file(%s, %s, %s)", file, offset, _CHUNK_BYTES)
        return bytes(rows[0][0])


class FolderLogs:
    """Reads from a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def mark(self) -> LogMark:
        """The newest file and its size."""
        return _mark(self._files(), self._folder)

    def copy_since(self, mark: LogMark, destination: Path) -> None:
        """Copy the bytes that were added to the files since the mark."""
        with naming(destination), destination.open("wb") as target:
            for file, offset in _since(mark, self._files()):
                with Path(file).open("rb") as source:
                    source.seek(offset)
                    shutil.copyfileobj(source, target)

    def close(self) -> None:
        """Do nothing, because no connection is kept open."""

    def _files(self) -> dict[str, LogFile]:
        files: dict[str, LogFile] = {}
        for path in self._folder.glob("*.log"):
            with path.open("rb") as file:
                head = file.read(_HEAD_BYTES)
            known = path.stat()
            files[str(path)] = LogFile(known.st_size, known.st_mtime_ns / 1e9, head)
        return files


class SftpLogs:
    """Reads by sftp, so that no remote shell interprets a path."""

    def __init__(self, client: paramiko.SSHClient, folder: str) -> None:
        self._client = client
        self._folder = PurePosixPath(folder)
        self._sftp = client.open_sftp()

    def mark(self) -> LogMark:
        """The newest file and its size."""
        return _mark(self._files(), self._folder)

    def copy_since(self, mark: LogMark, destination: Path) -> None:
        """Copy the bytes that were added to the files since the mark."""
        with naming(destination), destination.open("wb") as target:
            for file, offset in _since(mark, self._files()):
                with self._sftp.open(file, "rb", bufsize=_CHUNK_BYTES) as source:
                    source.seek(offset)
                    _copy(source, target)

    def close(self) -> None:
        """End the connection."""
        with suppress(OSError):
            self._client.close()

    def _files(self) -> dict[str, LogFile]:
        files: dict[str, LogFile] = {}
        for entry in self._sftp.listdir_attr(str(self._folder)):
            if entry.filename.endswith(".log"):
                name = str(self._folder / entry.filename)
                with self._sftp.open(name, "rb") as file:
                    head = file.read(_HEAD_BYTES)
                files[name] = LogFile(int(entry.st_size or 0), float(entry.st_mtime or 0), head)
        return files


def _copy(source: paramiko.SFTPFile, target: BinaryIO) -> None:
    while chunk := source.read(_CHUNK_BYTES):
        target.write(chunk)


def _mark(files: Mapping[str, LogFile], folder: Path | PurePosixPath) -> LogMark:
    """A mark of the newest file, which is the one being written."""
    if not files:
        raise RunnerError("no server log (*.log)", path=folder, way_out="correct log_directory")
    newest = max(files, key=lambda name: files[name].modified)
    return LogMark(newest, files[newest].size, files)


def _since(mark: LogMark, files: Mapping[str, LogFile]) -> Iterator[tuple[str, int]]:
    """Files to read with the offset of the first new byte, in the order in which they were written."""
    for name in sorted(files, key=lambda name: (name != mark.file, files[name].modified, name)):
        before = mark.files.get(name)
        if before is None or not _goes_on(before, files[name]):
            yield name, 0
        elif files[name] != before:
            yield name, before.size


def _goes_on(before: LogFile, now: LogFile) -> bool:
    return now.size >= before.size and now.head.startswith(before.head)

"""Read the server logs of a node that the runner did not start: over SQL, from a folder of this machine, or by sftp.

A mark records the sizes of all log files when a run begins; the log of the run is all that was added to them since, in
the order of writing. Names do not give that order (`postgresql-Wed.log` is older than `postgresql-Thu.log`), and
rotation may reuse a name: such a file is recognised by its first bytes.
"""

from __future__ import annotations

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
        """End the connection, if one is kept open."""
        return


def make_log_reader(node: Node, address: NodeAddress | None, target: ClusterTarget) -> LogReader:
    """The reader for a node's address; over SQL if the address has no shell or no folder of logs."""
    if address and address.log_directory and address.shell == "local":
        return FolderLogs(Path(address.log_directory))
    if address and address.log_directory and address.shell == "ssh":
        return SftpLogs(open_ssh(address.host, address.ssh_user, address.ssh_port), address.log_directory)
    return SqlLogs(node, target.database, target.user)


class SqlLogs(LogReader):
    """Reads over SQL: pg_current_logfile, pg_ls_logdir, pg_read_binary_file (superuser or pg_read_server_files)."""

    def __init__(self, node: Node, database: str, user: str) -> None:
        self._node, self._database, self._user = node, database, user

    def mark(self) -> LogMark:
        """The current log file, and the sizes of all."""
        with self._connection() as connection:
            rows = sql.query(connection, "SELECT file FROM pg_current_logfile() AS file WHERE file <> ''")
            if not rows:
                way_out = "set logging_collector = on, or give its logs as files"
                raise RunnerError(f"node {self._node.name} writes no log file", way_out=way_out)
            current = str(rows[0][0])
            return LogMark(current, self._files(connection, PurePosixPath(current)))

    def copy_since(self, mark: LogMark, destination: Path) -> None:
        """Copy in chunks, so that a large log does not have to fit into memory on either side."""
        with self._connection() as connection, naming(destination), destination.open("wb") as target:
            for file, offset in _since(mark, self._files(connection, PurePosixPath(mark.file))):
                part = "SELECT pg_read_binary_file(%s, %s, %s)"
                while chunk := bytes(sql.query(connection, part, file, offset, _CHUNK_BYTES)[0][0]):
                    target.write(chunk)
                    offset += len(chunk)

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


class FolderLogs(LogReader):
    """Reads from a folder of this machine."""

    def __init__(self, folder: Path | PurePosixPath) -> None:
        self._folder = folder

    def mark(self) -> LogMark:
        """The newest file, which is the one being written, and the sizes of all."""
        files = self._files()
        if not files:
            raise RunnerError("no server log (*.log)", path=self._folder, way_out="correct log_directory")
        return LogMark(max(files, key=lambda name: files[name].modified), files)

    def copy_since(self, mark: LogMark, destination: Path) -> None:
        """Copy the bytes that were added to the files since the mark."""
        with naming(destination), destination.open("wb") as target:
            for file, offset in _since(mark, self._files()):
                with self._open(file) as source:
                    source.seek(offset)
                    while chunk := source.read(_CHUNK_BYTES):
                        target.write(chunk)

    def _files(self) -> dict[str, LogFile]:
        files: dict[str, LogFile] = {}
        for name, size, modified in self._listed():
            with self._open(name) as file:
                files[name] = LogFile(size, modified, file.read(_HEAD_BYTES))
        return files

    def _open(self, name: str) -> BinaryIO | paramiko.SFTPFile:
        return Path(name).open("rb")

    def _listed(self) -> Iterator[tuple[str, int, float]]:
        """Name, size and time of change of each log file."""
        found = ((path, path.stat()) for path in Path(self._folder).glob("*.log"))
        return ((str(path), known.st_size, known.st_mtime_ns / 1e9) for path, known in found)


class SftpLogs(FolderLogs):
    """Reads from a folder of another machine by sftp, so that no remote shell interprets a path."""

    def __init__(self, client: paramiko.SSHClient, folder: str) -> None:
        super().__init__(PurePosixPath(folder))
        self._client = client
        self._sftp = client.open_sftp()

    def _open(self, name: str) -> paramiko.SFTPFile:
        return self._sftp.open(name, "rb", bufsize=_CHUNK_BYTES)

    def _listed(self) -> Iterator[tuple[str, int, float]]:
        for entry in self._sftp.listdir_attr(str(self._folder)):
            if entry.filename.endswith(".log"):
                yield str(self._folder / entry.filename), int(entry.st_size or 0), float(entry.st_mtime or 0)

    def close(self) -> None:
        """End the connection."""
        with suppress(OSError):
            self._client.close()


def _since(mark: LogMark, files: Mapping[str, LogFile]) -> Iterator[tuple[str, int]]:
    """Files to read with the offset of the first new byte, in the order in which they were written."""
    for name in sorted(files, key=lambda name: (name != mark.file, files[name].modified, name)):
        before, now = mark.files.get(name), files[name]
        if before is None or now.size < before.size or not now.head.startswith(before.head):
            yield name, 0
        elif now != before:
            yield name, before.size

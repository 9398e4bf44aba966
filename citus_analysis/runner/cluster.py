"""The cluster target: existing servers, accessed over SQL; they are never started, stopped or removed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

from citus_analysis.core.output_files import add_path_to_errors
from citus_analysis.errors import RunnerError
from citus_analysis.formats.config import format_server_setting
from citus_analysis.runner import connections as sql
from citus_analysis.runner.cluster_lock import ClusterInUseError, ClusterLock, claim_table
from citus_analysis.runner.experiment import (
    CAPABILITIES,
    ClusterTarget,
    Experiment,
    Monitor,
    NodeAddress,
)
from citus_analysis.runner.former_state import FILE_NAME, FormerState, restore_under
from citus_analysis.runner.hosts import LocalShell, Processes, Shell, open_shell, open_ssh
from citus_analysis.runner.journal import Journal
from citus_analysis.runner.passwords import find_working_password, monitor_password
from citus_analysis.runner.plan import Configuration
from citus_analysis.runner.server_settings import (
    alter_server_settings,
    check_in_force,
    check_settable,
    find_common_settings,
    read_by_node,
    read_recorded_settings,
)
from citus_analysis.runner.shard_placement import read_placements
from citus_analysis.runner.system import ConnectionInfo, Description, LogFile, LogMark, ServerNode
from citus_analysis.runner.table_spread import TableSpread
from citus_analysis.runner.target import Target
from citus_analysis.runner.task_log_level import TaskLevel, determine_task_level, probe_task_level
from citus_analysis.runner.truncation import empty_table
from citus_analysis.runner.workloads import TABLE

if TYPE_CHECKING:
    import paramiko

# The nodes of a cluster target: those of the experiment file, or of Citus' catalogue.


def discover_nodes(target: ClusterTarget) -> list[ServerNode]:
    """The nodes of a cluster: from pg_dist_node for Citus unless `target.discover` is false, else from `target.nodes`.

    Raises:
        RunnerError: the first node does not answer, or pg_dist_node does not list the coordinator.
    """
    listed = []
    for number, one in enumerate(sorted(target.nodes, key=lambda address: address.role != "coordinator")):
        first_worker = 0 if one.role == "coordinator" else 1
        listed.append(ServerNode(one.name or str(max(number, first_worker)), one.host, one.port, one.role))
    if target.system != "citus":
        return listed
    if not target.discover:
        return _look_up_groups(listed, target)
    coordinator = listed[0]
    with sql.connect(coordinator, database=target.database, user=target.user) as connection:
        rows = sql.read_citus_nodes(connection)
    if all(groupid != 0 for _, groupid, _, _ in rows):
        hint = "SELECT citus_set_coordinator_host('HOST', PORT) once, or set target.discover: false"
        raise RunnerError("pg_dist_node does not list the coordinator", hint=hint)
    # The coordinator is often registered as `localhost`, so the stated address is kept.
    return [
        ServerNode(str(groupid), host, port, "worker", nodeid, groupid)
        if groupid
        else ServerNode("0", coordinator.host, coordinator.port, "coordinator", nodeid, groupid)
        for nodeid, groupid, host, port in rows
    ]


def _look_up_groups(listed: Sequence[ServerNode], target: ClusterTarget) -> list[ServerNode]:
    """Nodes with the numbers of Citus' catalogue, whatever addresses it lists: each node knows its group."""
    found = []
    with sql.connect(listed[0], database=target.database, user=target.user) as connection:
        numbers = {groupid: nodeid for nodeid, groupid, _, _ in sql.read_citus_nodes(connection)}
    for node in listed:
        with sql.connect(node, database=target.database, user=target.user) as connection:
            group = int(sql.query(connection, "SELECT groupid FROM pg_dist_local_group")[0][0])
        if node.role == "worker" and group not in numbers:
            hint = "SELECT citus_add_node('HOST', PORT) on the coordinator, or take it out of target.nodes"
            raise RunnerError(f"{node.host}:{node.port} is not a worker of this cluster", hint=hint)
        found.append(replace(node, nodeid=numbers.get(group), groupid=group))
    return found


def find_node_address(node: ServerNode, target: ClusterTarget) -> NodeAddress | None:
    """The node's entry in the experiment file; None if it was found in the catalogue only."""
    return next((address for address in target.nodes if (address.host, address.port) == (node.host, node.port)), None)


# Read the server logs of a node that the runner did not start: over SQL, from a folder of this machine, or by sftp.
#
# A mark records the sizes of all log files when a run begins; the log of the run is all that was added to them since,
# in the order of writing. Names do not give that order (`postgresql-Wed.log` is older than `postgresql-Thu.log`), and
# rotation reuses and changes names: a file is known by its inode and its first bytes.

_CHUNK_BYTES: Final = 8 * 2**20
_HEAD_BYTES: Final = 128  # with the first line's time
#: Rotated logs that were compressed cannot be continued at an offset.
_COMPRESSED: Final = re.compile(r"\.(gz|bz2|xz|zst|lz4|Z)$")


class LogReader(Protocol):
    """Reads one node's server log."""

    def mark(self) -> LogMark:
        """The current end of the log."""

    def copy_since(self, mark: LogMark, destination: Path) -> list[str]:
        """Copy the bytes that were logged since the mark; return a sentence for each part that is lost."""

    def close(self) -> None:
        """End the connection, if one is kept open."""
        return


def make_log_reader(node: ServerNode, address: NodeAddress | None, target: ClusterTarget) -> LogReader:
    """The reader for a node's address; over SQL if the address has no shell or no folder of logs."""
    if address and address.log_directory and address.shell == "local":
        return FolderLogs(Path(address.log_directory))
    if address and address.log_directory and address.shell == "ssh":
        return SftpLogs(open_ssh(address.host, address.ssh_user, address.ssh_port), address.log_directory)
    return SqlLogs(node, target.database, target.user)


class SqlLogs(LogReader):
    """Reads over SQL: pg_current_logfile, pg_ls_logdir, pg_read_binary_file (superuser or pg_read_server_files)."""

    def __init__(self, node: ServerNode, database: str, user: str) -> None:
        self._node, self._database, self._user = node, database, user

    def mark(self) -> LogMark:
        """The current log file, and the sizes of all."""
        with self._connection() as connection:
            rows = sql.query(connection, "SELECT file FROM pg_current_logfile() AS file WHERE file <> ''")
            if not rows:
                hint = "set logging_collector = on, or give its logs as files"
                raise RunnerError(f"node {self._node.name} writes no log file", hint=hint)
            current = str(rows[0][0])
            return LogMark(current, self._files(connection, PurePosixPath(current)))

    def copy_since(self, mark: LogMark, destination: Path) -> list[str]:
        """Copy in chunks, so that a large log does not have to fit into memory on either side."""
        with self._connection() as connection, add_path_to_errors(destination), destination.open("wb") as target:
            parts, lost = find_new_log_parts(mark, self._files(connection, PurePosixPath(mark.file)))
            for file, offset in parts:
                part = "SELECT pg_read_binary_file(%s, %s, %s)"
                while chunk := bytes(sql.query(connection, part, file, offset, _CHUNK_BYTES)[0][0]):
                    target.write(chunk)
                    offset += len(chunk)
        return lost

    def _files(self, connection: sql.Connection, current: PurePosixPath) -> dict[str, LogFile]:
        """The log files with the suffix of the current one, because a server may also write CSV and JSON logs.

        The suffix may be followed by another: programs that rotate logs rename `x.log` to `x.log.1`.
        """
        rows = sql.query(
            connection,
            "SELECT name, size, extract(epoch FROM modification), "
            "pg_read_binary_file(%s || '/' || name, 0, %s, true) FROM pg_ls_logdir() "
            "WHERE position(%s in name) > 0 AND name !~ %s",
            str(current.parent),
            _HEAD_BYTES,
            current.suffix,
            _COMPRESSED.pattern,
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
            raise RunnerError("no server log (*.log)", path=self._folder, hint="correct log_directory")
        return LogMark(max(files, key=lambda name: files[name].modified), files)

    def copy_since(self, mark: LogMark, destination: Path) -> list[str]:
        """Copy the bytes that were added to the files since the mark."""
        parts, lost = find_new_log_parts(mark, self._files())
        with add_path_to_errors(destination), destination.open("wb") as target:
            for file, offset in parts:
                with self._open(file) as source:
                    source.seek(offset)
                    while chunk := source.read(_CHUNK_BYTES):
                        target.write(chunk)
        return lost

    def _files(self) -> dict[str, LogFile]:
        files: dict[str, LogFile] = {}
        for name, size, modified, inode in self._list_files():
            # A file that is renamed between two looks is there under its new name.
            with suppress(FileNotFoundError), self._open(name) as file:
                files[name] = LogFile(size, modified, file.read(_HEAD_BYTES), inode)
        return files

    def _open(self, name: str) -> BinaryIO | paramiko.SFTPFile:
        return Path(name).open("rb")

    def _list_files(self) -> Iterator[tuple[str, int, float, tuple[int, int] | None]]:
        """Name, size, time of change and inode of each log file, also of those that were renamed to `x.log.1`."""
        for path in Path(self._folder).glob("*.log*"):
            if not _COMPRESSED.search(path.name):
                with suppress(FileNotFoundError):
                    known = path.stat()
                    yield str(path), known.st_size, known.st_mtime_ns / 1e9, (known.st_dev, known.st_ino)


class SftpLogs(FolderLogs):
    """Reads from a folder of another machine by sftp, so that no remote shell interprets a path."""

    def __init__(self, client: paramiko.SSHClient, folder: str) -> None:
        super().__init__(PurePosixPath(folder))
        self._client = client
        self._sftp = client.open_sftp()

    def _open(self, name: str) -> paramiko.SFTPFile:
        return self._sftp.open(name, "rb", bufsize=_CHUNK_BYTES)

    def _list_files(self) -> Iterator[tuple[str, int, float, tuple[int, int] | None]]:
        for entry in self._sftp.listdir_attr(str(self._folder)):
            if ".log" in entry.filename and not _COMPRESSED.search(entry.filename):
                yield str(self._folder / entry.filename), int(entry.st_size or 0), float(entry.st_mtime or 0), None

    def close(self) -> None:
        """End the connection."""
        with suppress(OSError):
            self._client.close()


def find_new_log_parts(mark: LogMark, files: Mapping[str, LogFile]) -> tuple[list[tuple[str, int]], list[str]]:
    """Files to read, with the offset of the first new byte, in the order in which they were written.

    A file that was renamed goes on where it ended under its old name, and so does a copy of it (`copytruncate`).

    Args:
        mark: the files when the run began.
        files: the files now.

    Returns:
        (file, offset) of each part, and a sentence for each marked file that can no longer be read from its mark on.

    Example:
        >>> mark = LogMark("a.log", {"a.log": LogFile(5, 1.0, b"old")})
        >>> now = {"a.log": LogFile(3, 3.0, b"new"), "a.log.1": LogFile(9, 2.0, b"old")}
        >>> find_new_log_parts(mark, now)
        ([('a.log.1', 5), ('a.log', 0)], [])
    """
    before = {name: _find_former(name, now, mark) for name, now in files.items()}
    parts = []
    for name in sorted(files, key=lambda name: (before[name] != mark.file, files[name].modified, name)):
        former, now = before[name], files[name]
        if former is None:
            parts.append((name, 0))
        elif now.size > mark.files[former].size:
            parts.append((name, mark.files[former].size))
    # An empty file, and one that was not written any more, may go without a loss.
    continued = set(before.values())
    lost = [] if mark.file in continued or not mark.files[mark.file].size else [mark.file]
    sentence = "{} was rotated during the run, and what was logged before that is lost (compressed, or truncated)"
    return parts, [sentence.format(PurePosixPath(name).name) for name in lost]


def _find_former(name: str, now: LogFile, mark: LogMark) -> str | None:
    """The name that a file had at the mark; None if it is a new file, or was truncated."""
    same = {old: one for old, one in mark.files.items() if now.size >= one.size and now.head.startswith(one.head)}
    by_inode = [old for old, one in same.items() if one.inode is not None and one.inode == now.inode]
    own = [name] if name in same and (not same[name].size or now.inode == same[name].inode) else []
    by_head = [old for old, one in same.items() if one.head]
    return next(iter([*by_inode, *own, *by_head]), None)


# The server logs of a cluster's nodes: checked for readability, marked before a run and copied after it.

_WAY_OUT: Final = (
    "a monitored run needs the server logs: GRANT pg_monitor and pg_read_server_files TO target.user and EXECUTE ON "
    "FUNCTION pg_current_logfile and pg_read_binary_file, or read them from a folder with "
    "nodes[].log_directory, or set target.collect_logs: false and add the logs by hand"
)


class ClusterLogs:
    """Readers of the server logs of a cluster's nodes.

    Args:
        target: the cluster's part of the experiment file.
        is_readable: whether the system lets its logs be read at all.
    """

    def __init__(self, target: ClusterTarget, *, is_readable: bool) -> None:
        self._target = target
        self._is_collected = is_readable and target.collect_logs
        self._readers: dict[str, LogReader] = {}
        self._unreadable: dict[str, str] = {}

    def add(self, nodes: Sequence[ServerNode]) -> None:
        """Make readers for the nodes that have none yet."""
        if self._is_collected:
            for node in nodes:
                if node.name not in self._readers:
                    self._readers[node.name] = make_log_reader(
                        node, find_node_address(node, self._target), self._target
                    )

    def check(self, nodes: Sequence[ServerNode], *, monitored: bool) -> None:
        """Check that the logs of these nodes can be read.

        Raises:
            RunnerError: a log cannot be read and the run is monitored. Other runs continue without it, with a note.
        """
        self._unreadable = {}
        for name, reader in self._get_readers(nodes).items():
            try:
                reader.mark()
            except RunnerError as error:
                if monitored:
                    raise RunnerError(error.problem, path=error.path, hint=_WAY_OUT) from error
                self._unreadable[name] = error.problem

    def mark(self, nodes: Sequence[ServerNode]) -> dict[str, LogMark]:
        """Node name -> current end of its log, for the readable logs of these nodes."""
        return {
            name: reader.mark() for name, reader in self._get_readers(nodes).items() if name not in self._unreadable
        }

    def copy_since(self, node: str, mark: LogMark, destination: Path) -> list[str]:
        """Copy the lines that a node logged after the mark; return a sentence for each part that is lost."""
        return self._readers[node].copy_since(mark, destination)

    def skipped(self) -> list[str]:
        """A sentence for each log that cannot be read."""
        return [f"the server log of node {name} is not collected: {why}" for name, why in self._unreadable.items()]

    def close(self) -> None:
        """Close the readers' connections."""
        for reader in self._readers.values():
            reader.close()

    def _get_readers(self, nodes: Collection[ServerNode]) -> dict[str, LogReader]:
        names = {node.name for node in nodes}
        return {name: reader for name, reader in self._readers.items() if name in names}


class Cluster(Target):
    """A cluster that this tool did not start, and whose former state is restored at the end.

    Args:
        target: its part of the experiment file.
        experiment: the experiment.
        private: folder on disk that outlives this process; it records the cluster's former state.
        replace_table: drop a table of the benchmark's name that this tool did not create.

    Raises:
        RunnerError: the first node does not answer, or a setting of the matrix cannot be set.
    """

    def __init__(
        self, target: ClusterTarget, experiment: Experiment, private: Path, *, replace_table: bool = False
    ) -> None:
        self._target, self._monitor = target, experiment.monitor
        self._replace_table = replace_table
        self._can = CAPABILITIES[target.system]
        self._all = discover_nodes(target)
        self._check_settings(experiment.matrix.settings)
        self._lock = ClusterLock(self._all[0], target.database, target.user)
        self._found = FormerState(private / FILE_NAME, self._all[0], target.database, target.user)
        self._logs = ClusterLogs(target, is_readable=self._can.server_logs)
        self._logs.add(self._all)
        self._workers_in_use = len(self._workers())
        self._asked: dict[str, str] = {}
        self._relation: str | None = TABLE
        self._passwords: dict[str, str | None] = {}
        self._shells: dict[tuple[str, str], tuple[str, Shell]] = {}
        self._spread = TableSpread(target, self._found, Journal(private / "growths.jsonl"))
        self._emptied: str | None = None
        self._monitored = False
        self._task_level: TaskLevel | None = None

    @property
    def system(self) -> str:
        """Name of the system, as in the experiment file."""
        return self._target.system

    def prepare(self, configuration: Configuration) -> None:
        """Reserve the cluster for this run, set its settings on every node, and place its shards on its workers."""
        if self._can.locks:
            self._lock.hold()
        if self.system == "citus":
            self._add_workers(configuration.workers)
            self._workers_in_use = configuration.workers
        self._logs.check(self.nodes(), monitored=configuration.monitored)
        self._set({name: format_server_setting(value) for name, value in configuration.settings})
        self._relation = None if configuration.own_tables else TABLE
        self._emptied = None
        self._monitored = configuration.monitored
        with self.connect() as connection:
            if configuration.own_tables:
                if self.system == "citus":
                    self._spread.let_workers_have_shards(connection, self._all, configuration.workers)
                return
            if self._can.locks:
                claim_table(connection, replace=self._replace_table)
            if self.system == "citus":
                self._spread.spread_table(connection, self._all, configuration.workers)
            else:
                sql.make_table(connection, mark=self._can.locks)

    def nodes(self) -> list[ServerNode]:
        """The coordinator, then the workers in use."""
        coordinator = [node for node in self._all if node.role == "coordinator"]
        return [*coordinator, *self._workers()[: self._workers_in_use]]

    def clients_connect(self, user: str | None = None) -> ConnectionInfo:
        """Connection to the nodes that `connect_to` names."""
        nodes = self.nodes()
        workers = [node for node in nodes if node.role == "worker"]
        chosen = {"workers": workers or nodes, "coordinator": nodes[:1], "all": nodes}[self._target.connect_to]
        role = user or self._target.user
        return ConnectionInfo(chosen, self._target.database, role, self._password(role, chosen))

    def connect(self, node: ServerNode | None = None) -> sql.Connecting:
        """A session as the user of the experiment."""
        return sql.connect(node or self._all[0], database=self._target.database, user=self._target.user)

    def describe(self) -> Description:
        """Versions and settings of the first node, the matrix' settings of every node, and the table's placements."""
        with self.connect() as connection:
            version = str(sql.query(connection, "SELECT version()")[0][0])
            settings = sql.read_settings(connection) if self._can.settings else {}
            citus = sql.query(connection, "SELECT citus_version()") if self.system == "citus" else []
            shards = read_placements(connection, self._relation) if self.system == "citus" else []
            is_probed = self._monitored and self.system == "citus"
            self._task_level = probe_task_level(connection, self._relation) if is_probed else None
        by_node = read_by_node(self._all, self._asked, self.connect)
        recorded = (
            read_recorded_settings(self.nodes(), self.connect, roles=self._can.roles) if self._can.settings else {}
        )
        facts = {
            "system": self.system,
            "postgres_version": version,
            "citus_version": str(citus[0][0]) if citus else None,
            "hardware": self._target.hardware,
            "cpu_per_node": self._target.cpu_per_node,
        }
        return Description(
            {name: value for name, value in facts.items() if value is not None},
            {**settings, **find_common_settings(by_node)},
            (*(f"{self.system} has no {phrase}" for phrase in self._can.missing()), *self._logs.skipped()),
            settings_by_node=by_node,
            recorded=recorded,
            shards=shards,
            growth=self._spread.growth(),
            task_level=self._task_level,
        )

    def fill(self, records: int) -> None:
        """COPY the records into the emptied table."""
        with self.connect() as connection:
            self._emptied = empty_table(connection, truncate=self._can.truncate)
            sql.fill_table(connection, records, maintain=self._can.truncate)

    def remarks(self) -> list[str]:
        """A remark if the table was emptied without TRUNCATE."""
        return [self._emptied] if self._emptied else []

    def set_monitor(self, monitor: Monitor) -> None:
        """Create the monitor role and its log settings; Citus propagates both to its workers."""
        if self._can.roles:
            with self.connect() as connection:
                level = determine_task_level(monitor, self._task_level) if self.system == "citus" else None
                password = monitor_password(monitor)
                sql.make_monitor_role(connection, monitor, password, level=level, relation=self._relation)
        self.clients_connect(monitor.role)  # fails here, before clients start, if the role cannot log in

    def shells(self, processes: Processes) -> Mapping[str, Shell]:
        """This machine for nodes with `shell: local`, an ssh connection for those with `shell: ssh`; one per host."""
        for node in self.nodes():
            address = find_node_address(node, self._target)
            if address and address.shell != "none" and (address.host, address.shell) not in self._shells:
                shell = LocalShell(processes) if address.shell == "local" else open_shell(address)
                self._shells[address.host, address.shell] = node.name, shell
        return dict(self._shells.values())

    def mark_logs(self) -> dict[str, LogMark]:
        """Node name -> current end of its server log, for readable logs."""
        return self._logs.mark(self.nodes())

    def copy_log(self, node: str, mark: LogMark, destination: Path) -> list[str]:
        """Copy the lines that the node logged after the mark; return a sentence for each part that is lost."""
        return self._logs.copy_since(node, mark, destination)

    def stop(self) -> list[str]:
        """Restore the former settings and nodes, one node after the other."""
        self._logs.close()
        for _, shell in self._shells.values():
            shell.close()
        if self._found.is_empty:
            self._lock.release()
            return []
        try:
            return restore_under(self._lock, self._found)
        except ClusterInUseError as error:
            return [f"not restored: {error}"]

    def _password(self, role: str, nodes: Sequence[ServerNode]) -> str | None:
        if role not in self._passwords:
            self._passwords[role] = find_working_password(nodes, self._target, self._monitor, role)
        return self._passwords[role]

    def _workers(self) -> list[ServerNode]:
        return [node for node in self._all if node.role == "worker"]

    def _add_workers(self, workers: int) -> None:
        """Add the workers that the run needs and the cluster lacks, if the experiment may add nodes."""
        self._spread.begin()
        lacking = workers - len(self._workers())
        if lacking <= 0 or not self._target.add_nodes:
            return
        with self.connect() as connection:
            self._spread.add_workers(connection, lacking)
        self._all = discover_nodes(self._target)
        self._logs.add(self._all)

    def _check_settings(self, settings: Mapping[str, object]) -> None:
        if settings and (self._target.reload_with != "alter_system" or not self._can.settings):
            problem = "the matrix varies server settings, but the runner may not change those of this target"
            hint = "set target.reload_with: alter_system, or vary them between experiments"
            raise RunnerError(problem, hint=hint)
        for node in self._all if settings else ():
            with self.connect(node) as connection:
                check_settable(connection, node, settings)

    def _set(self, settings: Mapping[str, str]) -> None:
        self._asked = dict(settings)
        for node in self._all if settings else ():
            self._found.note_settings(node, settings)
            with self.connect(node) as connection:
                alter_server_settings(connection, settings)
            with self.connect(node) as connection:
                check_in_force(connection, node, settings)

"""The interface of a target: servers that are prepared for a configuration and described, and whose logs are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from psycopg import Connection
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow

from citus_analysis.runner.experiment_file.measuring import Monitor
from citus_analysis.runner.hosts.processes import Processes
from citus_analysis.runner.hosts.shells import Shell
from citus_analysis.runner.planning.plan import Configuration
from citus_analysis.texts.counted_words import counted


@dataclass(frozen=True)
class Node:
    """One server.

    Attributes:
        name: name in file names; `0` is the coordinator or the only server.
        nodeid: Citus' pg_dist_node.nodeid, None for other systems.
    """

    name: str
    host: str
    port: int
    role: str
    nodeid: int | None = None
    groupid: int | None = None


@dataclass(frozen=True)
class Placement:
    """One placement of one shard, with the shard's range of hashes."""

    relation: str
    shard_id: int
    placement_id: int
    groupid: int
    host: str
    port: int
    hash_min: int | None
    hash_max: int | None


@dataclass(frozen=True)
class Growth:
    """One growth of a Citus cluster.

    Attributes:
        workers_before: number of workers with shards before it.
        workers_after: number of workers with shards after it.
        duration_s: from the start of the background job to its end, by the coordinator's clock.
        shards_moved: number of shards that are on another worker than before.
        bytes_moved: their size on disk before they were moved, with indexes.
        strategy: strategy of the rebalancer.
        nodes_added: number of workers that were not in the cluster before it.
        adding_s: time that adding them took, not included in `duration_s`.
    """

    workers_before: int
    workers_after: int
    duration_s: float
    shards_moved: int
    bytes_moved: int
    strategy: str
    nodes_added: int = 0
    adding_s: float = 0.0

    def __str__(self) -> str:
        moved = f"{counted(self.shards_moved, 'shard')} ({self.bytes_moved / 2**20:,.1f} MiB) moved"
        way = f"{self.workers_before} to {counted(self.workers_after, 'worker')}"
        added = (
            f", adding {counted(self.nodes_added, 'node')} another {self.adding_s:.2f} s" if self.nodes_added else ""
        )
        return f"growing from {way} took {self.duration_s:.2f} s{added}: {moved}"


@dataclass(frozen=True)
class ConnectionInfo:
    """The nodes, database and role for connections of clients.

    Attributes:
        password: password for clients that do not use libpq, and for a role with a password of its own; None if none is
            known. Clients get it through their environment or a private file, never through their command line.
    """

    nodes: Sequence[Node]
    database: str
    user: str
    password: str | None = field(default=None, repr=False)

    def environment(self) -> dict[str, str]:
        """The variables of libpq; with several nodes, every new connection chooses one at random (libpq >= 16)."""
        variables = {
            "PGHOST": ",".join(node.host for node in self.nodes),
            "PGPORT": ",".join(str(node.port) for node in self.nodes),
            "PGDATABASE": self.database,
            "PGUSER": self.user,
        }
        if self.password:
            variables["PGPASSWORD"] = self.password
        return {**variables, "PGLOADBALANCEHOSTS": "random"} if len(self.nodes) > 1 else variables

    def conninfo(self) -> str:
        """The same as a connection string without the password: it overrides a service that PGSERVICE names."""
        variables = ConnectionInfo(self.nodes, self.database, self.user).environment()
        names = {"PGHOST": "host", "PGPORT": "port", "PGDATABASE": "dbname", "PGUSER": "user"}
        return make_conninfo(**{name: variables[variable] for variable, name in names.items()})


@dataclass(frozen=True)
class LogFile:
    """A log file at one moment.

    Attributes:
        size: bytes.
        modified: seconds since 1970.
        head: its first bytes, which differ if another file was begun under its name.
    """

    size: int
    modified: float
    head: bytes


@dataclass(frozen=True)
class LogMark:
    """The end of a node's server log when a run began.

    Attributes:
        file: the file that was being written.
        size: its size in bytes.
        files: name -> each log file that existed; empty if only `file` is ever written.
    """

    file: str
    size: int
    files: Mapping[str, LogFile] = field(default_factory=dict)


@dataclass(frozen=True)
class Description:
    """Description of a target, written to `config.yml`; facts and settings are compared on resume.

    Attributes:
        facts: versions, hardware.
        settings: server settings in force on the first node.
        skipped: a sentence for each missing capability of the system.
        settings_by_node: node -> the matrix' settings in force on it.
        shards: Citus: placements of the table.
        growth: Citus: the growth that gave the table its present placements, if any.
        task_level: Citus: the level at which it reported its tasks in a probe; None if it did not, or was not probed.
    """

    facts: Mapping[str, object]
    settings: Mapping[str, str] = field(default_factory=dict)
    skipped: Sequence[str] = ()
    settings_by_node: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    shards: Sequence[Placement] = ()
    growth: Growth | None = None
    task_level: str | None = None


class Target(Protocol):
    """Servers under test. All methods may raise `RunnerError` with the server's own message."""

    @property
    def system(self) -> str:
        """citus, postgresql, aurora or spanner."""

    def prepare(self, configuration: Configuration) -> None:
        """Bring servers and table into the state that the configuration requires: size, settings, shards; verify it."""

    def nodes(self) -> list[Node]:
        """All nodes, the coordinator first."""

    def clients_connect(self, user: str | None = None) -> ConnectionInfo:
        """The connection of load generators."""

    def connect(self, node: Node | None = None) -> AbstractContextManager[Connection[TupleRow]]:
        """A session of the runner's own on a node; default: the first."""

    def describe(self) -> Description:
        """Versions, settings, hardware."""

    def settle(self, steps: Sequence[str]) -> None:
        """Perform steps before a run, in their order: `vacuum` of the table, `checkpoint` of every node."""

    def fill(self, records: int) -> None:
        """Fill the table with exactly the records 0..records-1; with 0 it is empty."""

    def remarks(self) -> list[str]:
        """Remarks on the last fill for readers of the results; empty if it was done as usual."""

    def count(self) -> int:
        """Rows of the table."""

    def mark_logs(self) -> dict[str, LogMark]:
        """Node name -> current end of its server log; nodes without readable logs are absent."""

    def copy_log(self, node: str, mark: LogMark, destination: Path) -> None:
        """Copy the log lines of a node since the mark."""

    def shells(self, processes: Processes) -> Mapping[str, Shell]:
        """Node name -> shell for its samplers; a machine with several nodes appears once."""

    def set_monitor(self, monitor: Monitor) -> None:
        """Make sure that the monitor's role exists and logs its statements."""

    def stop(self) -> list[str]:
        """Stop and remove started servers, and restore changes; return a sentence for each that was not restored."""

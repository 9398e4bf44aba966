"""Nodes of a system, connections to them, and the description of a system for its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from psycopg.conninfo import make_conninfo

from citus_analysis.texts.words import pluralize


@dataclass(frozen=True)
class ServerNode:
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
class ShardPlacement:
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
class ClusterGrowth:
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
        moved = f"{pluralize(self.shards_moved, 'shard')} ({self.bytes_moved / 2**20:,.1f} MiB) moved"
        way = f"{self.workers_before} to {pluralize(self.workers_after, 'worker')}"
        nodes = pluralize(self.nodes_added, "node")
        added = f", adding {nodes} another {self.adding_s:.2f} s" if self.nodes_added else ""
        return f"growing from {way} took {self.duration_s:.2f} s{added}: {moved}"


@dataclass(frozen=True)
class ConnectionInfo:
    """The nodes, database and role for connections of clients.

    Attributes:
        password: password for clients that do not use libpq, and for a role with a password of its own; None if none is
            known. Clients get it through their environment or a private file, never through their command line.
    """

    nodes: Sequence[ServerNode]
    database: str
    user: str
    password: str | None = field(default=None, repr=False)

    def environment(self) -> dict[str, str]:
        """The variables of libpq; with several nodes, every new connection chooses one at random (libpq >= 16)."""
        variables = dict(
            zip(("PGHOST", "PGPORT", "PGDATABASE", "PGUSER"), self._read_stated_facts().values(), strict=True)
        )
        if self.password:
            variables["PGPASSWORD"] = self.password
        return {**variables, "PGLOADBALANCEHOSTS": "random"} if len(self.nodes) > 1 else variables

    def conninfo(self) -> str:
        """The same as a connection string without the password: it overrides a service that PGSERVICE names."""
        return make_conninfo(**self._read_stated_facts())

    def _read_stated_facts(self) -> dict[str, str]:
        hosts, ports = ",".join(node.host for node in self.nodes), ",".join(str(node.port) for node in self.nodes)
        return {"host": hosts, "port": ports, "dbname": self.database, "user": self.user}


@dataclass(frozen=True)
class LogFile:
    """A log file at one moment.

    Attributes:
        size: bytes.
        modified: seconds since 1970.
        head: its first bytes, which differ if another file was begun under its name.
        inode: its device and inode, which a renamed file keeps; None over SQL and sftp, which do not tell them.
    """

    size: int
    modified: float
    head: bytes
    inode: tuple[int, int] | None = None


@dataclass(frozen=True)
class LogMark:
    """The end of a node's server log when a run began.

    Attributes:
        file: the file that was being written.
        files: name -> each log file that existed.
    """

    file: str
    files: Mapping[str, LogFile]


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
        recorded: all settings that are not at their default, by node, role and database, with extensions and versions.
    """

    facts: Mapping[str, object]
    settings: Mapping[str, str] = field(default_factory=dict)
    skipped: Sequence[str] = ()
    settings_by_node: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    shards: Sequence[ShardPlacement] = ()
    growth: ClusterGrowth | None = None
    task_level: str | None = None
    recorded: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)

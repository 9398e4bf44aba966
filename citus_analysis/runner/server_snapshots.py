"""Snapshots of the servers over SQL: sessions each second during the load, cumulative views before and after it.

There is one connection per node and one query per second. On an idle server with 100 sessions, a snapshot takes about
1 ms of the server's time; the measured cost is stated with every run. Files are in the format of `COPY ... CSV
HEADER`, with the column `sample_time`. Texts of queries are never read, because they may contain secrets.

A view that a server lacks or refuses is reported in a sentence; the run does not fail.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self, cast

import polars as pl
import psycopg
from psycopg import sql

from citus_analysis.errors import RunnerError
from citus_analysis.runner.connections import Connecting, Connection, query
from citus_analysis.runner.experiment import Samplers
from citus_analysis.runner.journal import Seen
from citus_analysis.runner.records import read_client
from citus_analysis.runner.system import ConnectionInfo, ServerNode
from citus_analysis.runner.target import Target
from citus_analysis.runner.workloads import TABLE

#: Name of the snapshots of pg_stat_activity in file names.
ACTIVITY: Final = "activity"

_INTERVAL_S: Final = 1.0
_JOIN_TIMEOUT_S: Final = 10.0
#: Columns of pg_stat_activity that are kept, as far as the server's version has them.
_ACTIVITY_COLUMNS: Final = (
    *("pid", "leader_pid", "backend_type", "state", "wait_event_type", "wait_event", "datname", "usename"),
    *("application_name", "client_addr", "query_id", "backend_start", "xact_start", "query_start", "state_change"),
)
_VIEWS: Final = (
    *("pg_stat_statements", "citus_stat_statements", "pg_stat_database", "pg_stat_wal", "pg_stat_io"),
    *("pg_stat_bgwriter", "pg_stat_checkpointer", "citus_stat_counters"),
)
_ISO_TIMES: Final = "SET datestyle = 'ISO, YMD'"
#: Texts of statements are not copied.
_LEFT_OUT: Final = frozenset({"query"})


@dataclass(frozen=True)
class SnapshotFile:
    """A file of snapshots.

    Attributes:
        view: name of the view, as in the file name.
    """

    view: str
    node: str
    output: Path


Connect = Callable[[ServerNode], Connecting]


@dataclass
class ActivitySampling:
    """Sessions of one node, recorded by a thread until :meth:`stop`.

    Attributes:
        taken: number of snapshots so far.
        spent_s: time that they took, including the network.
        problem: reason why it ended early; empty if it did not.
    """

    snapshot: SnapshotFile
    node: ServerNode
    connect: Connect
    taken: int = 0
    spent_s: float = 0.0
    problem: str = ""

    def __post_init__(self) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._record, daemon=True)
        self._thread.start()  # it takes the first snapshot at once

    def stop(self) -> None:
        """End the recording; the file is complete afterwards."""
        self._ended.set()
        self._thread.join(_JOIN_TIMEOUT_S)
        if not self.taken and not self.problem:
            self.problem = (
                f"sessions of node {self.node.name} were not recorded: the run ended before the first snapshot"
            )

    def _record(self) -> None:
        try:
            with self.connect(self.node) as connection, self.snapshot.output.open("wb") as output:
                query(connection, _ISO_TIMES)
                rows = _build_activity_query(connection)
                next_s = time.monotonic()
                while not self._ended.wait(max(0.0, next_s - time.monotonic())):
                    begin = time.monotonic()
                    output.write(_copy_query_rows(connection, rows, header=not self.taken))
                    output.flush()
                    self.taken, self.spent_s = self.taken + 1, self.spent_s + time.monotonic() - begin
                    next_s = max(next_s + _INTERVAL_S, time.monotonic())
        except (RunnerError, OSError) as error:
            self.problem = f"sessions of node {self.node.name} were not recorded to the end: {error}"


def start_activity(nodes: Sequence[ServerNode], connect: Connect, folder: Path) -> list[ActivitySampling]:
    """Record the sessions of every node from now on."""
    files = [SnapshotFile(ACTIVITY, node.name, folder / f"{ACTIVITY}-{node.name}.csv") for node in nodes]
    return [ActivitySampling(file, node, connect) for file, node in zip(files, nodes, strict=True)]


@dataclass
class Counters:
    """Cumulative views of all nodes, taken before and after a run.

    Attributes:
        snapshots: the files.
        skipped: a sentence for each node that lacks a view, or refuses it.
        statements: node -> executed statements on the benchmark's table, one number per snapshot.
    """

    nodes: Sequence[ServerNode]
    connect: Connect
    folder: Path
    snapshots: dict[tuple[str, str], SnapshotFile] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)
    statements: dict[str, list[int]] = field(default_factory=dict)

    def take(self) -> None:
        """Take one snapshot of all views of all nodes."""
        for node in self.nodes:
            try:
                with self.connect(node) as connection:
                    query(connection, _ISO_TIMES)
                    self._take_node(node, connection)
            except RunnerError as error:
                self.skipped.add(f"counters of node {node.name} were not read: {error}")

    def executed(self) -> dict[str, int]:
        """Node -> statements of clients on the benchmark's table between the first and the last snapshot."""
        whole = {node: counts for node, counts in self.statements.items() if len(counts) > 1}
        return {node: counts[-1] - counts[0] for node, counts in whole.items() if counts == sorted(counts)}

    def _take_node(self, node: ServerNode, connection: Connection) -> None:
        there = {view for view in _VIEWS if query(connection, "SELECT to_regclass(%s) IS NOT NULL", view)[0][0]}
        if "pg_stat_statements" not in there:
            self.skipped.add(f"pg_stat_statements is not installed on node {node.name}: no counters of statements")
            there.discard("citus_stat_statements")
        for view in sorted(there):
            self._take_view(node, connection, view)
        if (view := "pg_stat_statements", node.name) in self.snapshots:
            # On the benchmark's table so far, except on its shards, which nodes send to each other.
            text = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements WHERE query ~ %s AND query !~ %s"
            calls = query(connection, text, rf"\m{TABLE}\M", rf"\m{TABLE}_[0-9]")[0][0]
            self.statements.setdefault(node.name, []).append(int(calls))

    def _take_view(self, node: ServerNode, connection: Connection, view: str) -> None:
        snapshot = SnapshotFile(view, node.name, self.folder / f"{view}-{node.name}.csv")
        is_first = (view, node.name) not in self.snapshots
        try:
            rows = _copy_query_rows(connection, _build_view_query(connection, view), header=is_first)
        except psycopg.Error as error:
            reason = str(error).strip().splitlines()[0]
            self.skipped.add(f"{view} of node {node.name} cannot be read: {reason}")
            return
        with snapshot.output.open("ab") as output:
            output.write(rows)
        self.snapshots[view, node.name] = snapshot


def _list_relation_columns(connection: Connection, relation: str) -> list[str]:
    rows = query(
        connection,
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped "
        "ORDER BY attnum",
        relation,
    )
    return [str(name) for (name,) in rows]


def _build_activity_query(connection: Connection) -> sql.Composed:
    """Query of all sessions except our own, with the node's global pids: citus_stat_activity would query all nodes."""
    there = _list_relation_columns(connection, "pg_stat_activity")
    columns = _compose_column_list([name for name in _ACTIVITY_COLUMNS if name in there], "a")
    gpid, join = sql.SQL(""), sql.SQL("")
    if query(connection, "SELECT to_regproc('get_all_active_transactions') IS NOT NULL")[0][0]:
        gpid = sql.SQL(", t.global_pid, t.worker_query")
        join = sql.SQL(" LEFT JOIN get_all_active_transactions() t ON t.process_id = a.pid")
    return sql.SQL(
        "SELECT statement_timestamp() AS sample_time, {}{} FROM pg_stat_activity a{} WHERE a.pid <> pg_backend_pid()"
    ).format(columns, gpid, join)


def _build_view_query(connection: Connection, view: str) -> sql.Composed:
    """Query of a view without texts, with evictions and the last reset of pg_stat_statements if the server has them."""
    columns = [name for name in _list_relation_columns(connection, view) if name not in _LEFT_OUT]
    facts, source = sql.SQL(""), sql.SQL("")
    if view == "pg_stat_statements" and _list_relation_columns(connection, "pg_stat_statements_info"):
        facts = sql.SQL("i.dealloc, i.stats_reset, ")
        source = sql.SQL(", pg_stat_statements_info i")
    return sql.SQL("SELECT statement_timestamp() AS sample_time, {}{} FROM {} v{}").format(
        facts, _compose_column_list(columns, "v"), sql.Identifier(view), source
    )


def _compose_column_list(columns: Collection[str], source: str) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(source, column) for column in columns)


def _copy_query_rows(connection: Connection, rows: sql.Composed, *, header: bool) -> bytes:
    options = sql.SQL("FORMAT csv, HEADER" if header else "FORMAT csv")
    with connection.cursor().copy(sql.SQL("COPY ({}) TO STDOUT ({})").format(rows, options)) as copy:
        return b"".join(bytes(piece) for piece in copy)


# The nodes that the clients of a run reached, with their shares of sessions and statements.
#
# Sessions are counted in the snapshots of `pg_stat_activity`, statements by `pg_stat_statements` if a node has it.

#: Probability below which a distribution of sessions is not due to chance; clients choose nodes at random.
_RARE: Final = 0.01
#: Applications of sessions that do not belong to clients: of Citus' nodes among each other, and of this tool.
_NO_CLIENT: Final = r"^(?:citus_|citus-analysis|Citus )"


@dataclass(frozen=True)
class Reached:
    """The nodes that a run's clients reached.

    Attributes:
        asked: names of the nodes that they were to query.
        sessions: node -> sessions of clients seen there.
        statements: node -> statements on the benchmark's table; empty if a node lacks pg_stat_statements.
        cost: node -> cost of the snapshots, in words.

    Example:
        >>> reached = Reached(("1", "2"), {"1": 6, "2": 2}, {"1": 300, "2": 100})
        >>> reached.shares(), reached.problem(threads=8)
        ({'1': 0.75, '2': 0.25}, None)
        >>> Reached(("1", "2"), {"1": 8}).problem(threads=8)
        'all 8 sessions seen were on node 1, though clients were to query 2 nodes'

        In a very short run, snapshots contain too few of the sessions to decide; and four sessions that choose one of
        two nodes at random all choose the same node with probability 1/8:

        >>> Reached(("1", "2"), {"1": 2}).problem(threads=8)
        >>> Reached(("1", "2"), {"1": 4}).problem(threads=4)
    """

    asked: tuple[str, ...] = ()
    sessions: Mapping[str, int] = field(default_factory=dict)
    statements: Mapping[str, int] = field(default_factory=dict)
    cost: Mapping[str, str] = field(default_factory=dict)

    def shares(self) -> dict[str, float]:
        """Node -> share of the statements, or of the sessions if statements are not known; empty without either."""
        counts = self.statements if any(self.statements.values()) else self.sessions
        total = sum(counts.get(node, 0) for node in self.asked)
        return {node: counts.get(node, 0) / total for node in self.asked} if total else {}

    def problem(self, *, threads: int) -> str | None:
        """A sentence if the run did not query every node.

        None if it did or was not meant to, if the shares are unknown, or if one node may have all sessions by chance.
        """
        there = {node: self.sessions.get(node, 0) for node in self.asked}
        total = sum(there.values())
        if min(len(self.asked), threads) <= 1 or total < threads or max(there.values()) < total:
            return None
        if len(self.asked) ** (1 - total) >= _RARE:
            return None
        node = max(there, key=there.__getitem__)
        return f"all {total} sessions seen were on node {node}, though clients were to query {len(self.asked)} nodes"

    def as_facts(self) -> Seen:
        """The observations for the journal and `config.yml`."""
        shares = {node: round(share, 4) for node, share in self.shares().items()}
        facts = {
            "queried_nodes": list(self.asked),
            "share_by_node": shares,
            "share_of": shares and ("statements" if any(self.statements.values()) else "sessions"),
            "sessions_by_node": dict(self.sessions),
            "statements_by_node": dict(self.statements),
            "activity_snapshots": dict(self.cost),
        }
        return cast("Seen", {name: fact for name, fact in facts.items() if fact})

    @classmethod
    def read(cls, facts: Seen) -> Self:
        """From the result of :meth:`as_facts`."""
        return cls(
            tuple(facts.get("queried_nodes", ())),
            facts.get("sessions_by_node", {}),
            facts.get("statements_by_node", {}),
            facts.get("activity_snapshots", {}),
        )


def count_sessions(snapshots: Sequence[SnapshotFile], user: str) -> dict[str, int]:
    """Node -> number of sessions of the role's clients in the snapshots of the node; 0 if there are none.

    Args:
        snapshots: files of `pg_stat_activity`.
        user: role of the main clients.
    """
    text = {name: pl.col(name).cast(pl.String).fill_null("") for name in ("backend_type", "user", "application")}
    is_client = text["backend_type"] == "client backend", text["user"] == user
    counts = {}
    for one in snapshots:
        mine = read_client(one.output, "activity_samples").filter(
            *is_client, ~text["application"].str.contains(_NO_CLIENT)
        )
        seen = mine.group_by("pid", "backend_start").agg(pl.len())
        # A client may first open a short session to inspect the table, which carries no load.
        counts[one.node] = seen.filter(pl.col("len") > 1).height or seen.height
    return counts


# Recordings of a run over SQL: sessions during it, cumulative counters before and after it.


@dataclass
class ServerRecording:
    """A recording in progress.

    Attributes:
        activity: sessions of each node; empty if they are not requested.
        counters: cumulative views; of no node if they are not requested.
    """

    activity: Sequence[ActivitySampling]
    counters: Counters

    @classmethod
    def start(cls, samplers: Samplers, target: Target, folder: Path) -> Self:
        """Read the counters and start to record the sessions."""
        nodes = target.nodes()
        counters = Counters(nodes if samplers.counters else (), target.connect, folder)
        counters.take()
        return cls(start_activity(nodes if samplers.activity else (), target.connect, folder), counters)

    def stop(self) -> None:
        """End the recording of sessions, and read the counters again."""
        for one in self.activity:
            one.stop()
        self.counters.take()

    def snapshots(self) -> list[SnapshotFile]:
        """The files that are not empty."""
        return [*(one.snapshot for one in self.activity if one.taken), *self.counters.snapshots.values()]

    def skipped(self) -> list[str]:
        """A sentence for each missing recording, with the reason."""
        return [*(one.problem for one in self.activity if one.problem), *sorted(self.counters.skipped)]

    def count_reached(self, connection: ConnectionInfo) -> Reached:
        """The nodes that the clients of a connection reached."""
        taken = [one for one in self.activity if one.taken]
        sessions = count_sessions([one.snapshot for one in taken], connection.user)
        executed = self.counters.executed()
        asked = tuple(node.name for node in connection.nodes)
        cost = {one.node.name: f"{one.taken} snapshots, {1000 * one.spent_s / one.taken:.1f} ms each" for one in taken}
        return Reached(asked, sessions, executed if executed.keys() >= set(asked) else {}, cost)

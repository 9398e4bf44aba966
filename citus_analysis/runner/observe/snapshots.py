"""Snapshots of the servers over SQL: sessions each second during the load, cumulative views before and after it.

There is one connection per node and one query per second. On an idle server with 100 sessions, a snapshot takes about
1 ms of the server's time; the measured cost is stated with every run. Files are in the format of `COPY ... CSV HEADER`,
with the column `sample_time`. Texts of queries are never read, because they may contain secrets.

A view that a server lacks or refuses is reported in a sentence; the run does not fail.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql

from citus_analysis.errors import RunnerError
from citus_analysis.runner.planning.core_workloads import TABLE
from citus_analysis.runner.systems.connections import Connecting, Connection, query
from citus_analysis.runner.systems.system import Node

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
class Snapshot:
    """A file of snapshots.

    Attributes:
        view: name of the view, as in the file name.
    """

    view: str
    node: str
    output: Path


Connect = Callable[[Node], Connecting]


@dataclass
class ActivitySampling:
    """Sessions of one node, recorded by a thread until :meth:`stop`.

    Attributes:
        taken: number of snapshots so far.
        spent_s: time that they took, including the network.
        problem: reason why it ended early; empty if it did not.
    """

    snapshot: Snapshot
    node: Node
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

    def _record(self) -> None:
        try:
            with self.connect(self.node) as connection, self.snapshot.output.open("wb") as output:
                query(connection, _ISO_TIMES)
                rows = _activity_query(connection)
                next_s = time.monotonic()
                while not self._ended.wait(max(0.0, next_s - time.monotonic())):
                    begin = time.monotonic()
                    output.write(_copied(connection, rows, header=not self.taken))
                    output.flush()
                    self.taken, self.spent_s = self.taken + 1, self.spent_s + time.monotonic() - begin
                    next_s = max(next_s + _INTERVAL_S, time.monotonic())
        except (RunnerError, OSError) as error:
            self.problem = f"sessions of node {self.node.name} were not recorded to the end: {error}"


def start_activity(nodes: Sequence[Node], connect: Connect, folder: Path) -> list[ActivitySampling]:
    """Record the sessions of every node from now on."""
    files = [Snapshot(ACTIVITY, node.name, folder / f"{ACTIVITY}-{node.name}.csv") for node in nodes]
    return [ActivitySampling(file, node, connect) for file, node in zip(files, nodes, strict=True)]


@dataclass
class Counters:
    """Cumulative views of all nodes, taken before and after a run.

    Attributes:
        snapshots: the files.
        skipped: a sentence for each node that lacks a view, or refuses it.
        statements: node -> executed statements on the benchmark's table, one number per snapshot.
    """

    nodes: Sequence[Node]
    connect: Connect
    folder: Path
    snapshots: dict[tuple[str, str], Snapshot] = field(default_factory=dict)
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

    def _take_node(self, node: Node, connection: Connection) -> None:
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

    def _take_view(self, node: Node, connection: Connection, view: str) -> None:
        snapshot = Snapshot(view, node.name, self.folder / f"{view}-{node.name}.csv")
        is_first = (view, node.name) not in self.snapshots
        try:
            rows = _copied(connection, _view_query(connection, view), header=is_first)
        except psycopg.Error as error:
            reason = str(error).strip().splitlines()[0]
            self.skipped.add(f"{view} of node {node.name} cannot be read: {reason}")
            return
        with snapshot.output.open("ab") as output:
            output.write(rows)
        self.snapshots[view, node.name] = snapshot


def _columns_of(connection: Connection, relation: str) -> list[str]:
    rows = query(
        connection,
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped "
        "ORDER BY attnum",
        relation,
    )
    return [str(name) for (name,) in rows]


def _activity_query(connection: Connection) -> sql.Composed:
    """Query of all sessions except our own, with the node's global pids: citus_stat_activity would query all nodes."""
    there = _columns_of(connection, "pg_stat_activity")
    columns = _listed([name for name in _ACTIVITY_COLUMNS if name in there], "a")
    gpid, join = sql.SQL(""), sql.SQL("")
    if query(connection, "SELECT to_regproc('get_all_active_transactions') IS NOT NULL")[0][0]:
        gpid = sql.SQL(", t.global_pid, t.worker_query")
        join = sql.SQL(" LEFT JOIN get_all_active_transactions() t ON t.process_id = a.pid")
    return sql.SQL(
        "SELECT statement_timestamp() AS sample_time, {}{} FROM pg_stat_activity a{} WHERE a.pid <> pg_backend_pid()"
    ).format(columns, gpid, join)


def _view_query(connection: Connection, view: str) -> sql.Composed:
    """Query of a view without texts, with evictions and the last reset of pg_stat_statements if the server has them."""
    columns = [name for name in _columns_of(connection, view) if name not in _LEFT_OUT]
    facts, source = sql.SQL(""), sql.SQL("")
    if view == "pg_stat_statements" and _columns_of(connection, "pg_stat_statements_info"):
        facts = sql.SQL("i.dealloc, i.stats_reset, ")
        source = sql.SQL(", pg_stat_statements_info i")
    return sql.SQL("SELECT statement_timestamp() AS sample_time, {}{} FROM {} v{}").format(
        facts, _listed(columns, "v"), sql.Identifier(view), source
    )


def _listed(columns: Collection[str], source: str) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(source, column) for column in columns)


def _copied(connection: Connection, rows: sql.Composed, *, header: bool) -> bytes:
    options = sql.SQL("FORMAT csv, HEADER" if header else "FORMAT csv")
    with connection.cursor().copy(sql.SQL("COPY ({}) TO STDOUT ({})").format(rows, options)) as copy:
        return b"".join(bytes(piece) for piece in copy)

"""Determine the log level at which Citus reports the times of its tasks, by a probe, because builds differ.

Stock Citus reports `task execution (0) for placement ... finished in 591 microseconds` at debug4; a build made for
measurements may do so at debug1, at which far fewer other messages are logged. A client that sets
`client_min_messages` receives the messages that a log of this level would contain, so a read of the table is
enough.
"""

from __future__ import annotations

from typing import Final, Literal

from psycopg import sql as composing

from citus_analysis.runner import connections as sql
from citus_analysis.runner.experiment import Monitor
from citus_analysis.runner.workloads import TABLE

TaskLevel = Literal["debug1", "debug2", "debug3", "debug4"]

#: The level assumed if Citus reports no task in a probe (every shard on the node itself, or no table yet).
STOCK_LEVEL: Final[TaskLevel] = "debug4"
_LEVELS: Final[tuple[TaskLevel, ...]] = ("debug1", "debug2", "debug3", "debug4")
_READ: Final = composing.SQL("SELECT FROM {} LIMIT 1")
_MESSAGE: Final = "task execution ("


def probe_task_level(connection: sql.Connection, relation: str | None = TABLE) -> TaskLevel | None:
    """The least verbose level at which Citus reports its tasks; None if it does not report them at any level.

    Args:
        connection: connection to the coordinator; a row of the table is read.
        relation: a distributed table; None: any distributed table.
    """
    found = sql.query(
        connection,
        "SELECT nspname, relname FROM pg_dist_partition JOIN pg_class ON pg_class.oid = logicalrelid "
        "JOIN pg_namespace ON pg_namespace.oid = relnamespace "
        "WHERE partmethod = 'h' AND coalesce(logicalrelid = to_regclass(%s), true) ORDER BY 1, 2 LIMIT 1",
        relation and f"public.{relation}",
    )
    if not found:
        return None
    read = _READ.format(composing.Identifier(*found[0]))
    with sql.collect_notices(connection) as heard:
        try:
            for level in _LEVELS:
                heard.clear()
                sql.query(connection, composing.SQL("SET client_min_messages = {}").format(composing.Literal(level)))
                sql.query(connection, read)
                if any(_MESSAGE in message for message in heard):
                    return level
        finally:
            sql.query(connection, "RESET client_min_messages")
    return None


def determine_task_level(monitor: Monitor, probed: TaskLevel | None) -> TaskLevel:
    """The level of the monitor's role: that of the experiment, or the result of a probe."""
    if monitor.log_min_messages == "auto":
        return probed or STOCK_LEVEL
    return monitor.log_min_messages

"""Empty the benchmark's table by TRUNCATE, or by DELETE in batches if a server refuses that.

Spanner has no TRUNCATE, a role may lack the privilege, and a trigger may forbid it. DELETE leaves dead rows, which
only VACUUM removes, so each run after a DELETE gets a remark.
"""

from __future__ import annotations

from typing import Final, LiteralString

import psycopg
from psycopg import sql as composing

from citus_analysis.runner import connections as sql
from citus_analysis.runner.workloads import TABLE
from citus_analysis.texts.words import pluralize

#: Rows per transaction: Spanner allows 80,000 mutations, and each row is one.
_ROWS_AT_ONCE: Final = 10_000
_REFUSALS: Final = (
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.FeatureNotSupported,
    psycopg.errors.RaiseException,  # of a trigger
    psycopg.errors.SyntaxError,
)


def empty_table(connection: sql.Connection, *, truncate: bool = True) -> str | None:
    """Remove all rows of the table.

    Args:
        connection: connection to the coordinator or the only server.
        truncate: whether the system has TRUNCATE and VACUUM.

    Returns:
        a sentence if rows were removed by DELETE; None otherwise.
    """
    why = _try_table_command(connection, "TRUNCATE {}") if truncate else "the system has none"
    if why is None:
        return None
    deleted = _delete_in_batches(connection)
    if not deleted:
        return None
    left = _vacuum(connection) if truncate else None
    sentence = f"the table's {pluralize(deleted, 'row')} were removed by DELETE instead of TRUNCATE ({why})"
    return f"{sentence}; their space was not freed: {left}" if left else sentence


def _try_table_command(connection: sql.Connection, command: LiteralString) -> str | None:
    """Execute a command on the table; return the server's message if it refuses."""
    try:
        sql.query(connection, composing.SQL(command).format(composing.Identifier(TABLE)), timeout_s=None)
    except _REFUSALS as error:
        return str(error).strip().splitlines()[0]
    return None


def _delete_in_batches(connection: sql.Connection) -> int:
    """Delete all rows by ranges of the key, each in a transaction of its own; return the number of rows."""
    table = composing.Identifier(TABLE)
    last_of_batch = composing.SQL("SELECT ycsb_key FROM {} ORDER BY ycsb_key OFFSET {} LIMIT 1").format(
        table, composing.Literal(_ROWS_AT_ONCE - 1)
    )
    deleted = 0
    while last := sql.query(connection, last_of_batch, timeout_s=None):
        batch = composing.SQL("DELETE FROM {} WHERE ycsb_key <= %s").format(table)
        with sql.limit_statements(connection):
            deleted += connection.execute(batch, last[0]).rowcount
    with sql.limit_statements(connection):
        return deleted + connection.execute(composing.SQL("DELETE FROM {} WHERE true").format(table)).rowcount


def _vacuum(connection: sql.Connection) -> str | None:
    """Free the space of deleted rows; return the server's warning if it does not."""
    with sql.collect_notices(connection) as heard:
        refused = _try_table_command(connection, "VACUUM {}")
    return refused or next(iter(heard), None)

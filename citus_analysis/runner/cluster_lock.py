"""Ownership of the cluster and of the table: one experiment at a time, and no table of others is dropped.

The lock is an advisory lock of the database, held by a transaction that is open as long as the experiment. It ends
when the runner ends for any reason, also behind a pooler of transactions (PgBouncer), on whose connections a lock of
a session would stay for ever. The transaction has no snapshot, so that it does not hold VACUUM up.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import Final

import psycopg

from citus_analysis.errors import RunnerError
from citus_analysis.runner import connections as sql
from citus_analysis.runner.system import ServerNode
from citus_analysis.runner.workloads import TABLE

#: Two halves of the advisory lock's key: "citu" and "anal" in ASCII.
_KEY: Final = (0x63697475, 0x616E616C)
#: Settings that would end the session or the transaction that holds the lock.
_LIMITS_OF_SESSIONS: Final = ("idle_session_timeout", "idle_in_transaction_session_timeout", "transaction_timeout")
#: Seconds to wait for the lock, because the session of a killed runner may need a moment to end.
_PATIENCE_S: Final = 10


class ClusterInUseError(RunnerError):
    """Another experiment holds the lock."""


class ClusterLock:
    """The right to experiment with a database's table; a second runner is refused.

    Args:
        node: the coordinator or the only server.
    """

    def __init__(self, node: ServerNode, database: str, user: str) -> None:
        self._node, self._database, self._user = node, database, user
        self._session = ExitStack()
        self._connection: sql.Connection | None = None

    def hold(self) -> None:
        """Take the lock, or make sure that it is still held.

        Raises:
            ClusterInUseError: another experiment holds it.
            RunnerError: the server does not answer.
        """
        if self._connection is not None and _answers(self._connection):
            return
        self.release()
        with ExitStack() as session:
            connection = session.enter_context(sql.connect(self._node, database=self._database, user=self._user))
            sql.query(connection, "BEGIN")
            # All are settings of the transaction; no version of the server has all of them.
            unlimited = "SELECT set_config(name, '0', true) FROM pg_settings WHERE name = ANY(%s)"
            sql.query(connection, unlimited, list(_LIMITS_OF_SESSIONS))
            sql.query(connection, "SELECT set_config('lock_timeout', %s, true)", f"{_PATIENCE_S}s")
            try:
                sql.query(connection, "SELECT pg_advisory_xact_lock(%s, %s)", *_KEY)
            except psycopg.errors.LockNotAvailable as error:
                sql.query(connection, "ROLLBACK")
                place = f"{self._node.host}:{self._node.port}{_describe_lock_holder(connection)}"
                problem = f"another experiment uses database {self._database} on {place}"
                hint = "wait for it, or name another database in target.database"
                raise ClusterInUseError(problem, hint=hint) from error
            # The portal of a statement with parameters keeps its snapshot; this one leaves none, so VACUUM goes on.
            sql.query(connection, "SELECT 1")
            self._connection, self._session = connection, session.pop_all()

    def release(self) -> None:
        """Release the lock."""
        self._connection = None
        with suppress(RunnerError):  # a broken session holds nothing
            self._session.close()


def claim_table(connection: sql.Connection, *, replace: bool) -> None:
    """Make sure that the benchmark's table was created by this tool or does not exist.

    Args:
        connection: connection to the coordinator or the only server.
        replace: drop a table that another program created.

    Raises:
        RunnerError: another program created the table, and it must not be dropped.
    """
    comments = sql.query(
        connection,
        "SELECT obj_description(oid, 'pg_class') FROM pg_class WHERE oid = to_regclass(%s)",
        f"public.{TABLE}",
    )
    if not comments or comments[0][0] == sql.MARK:
        return
    if not replace:
        problem = f"the table {TABLE} was not made by this tool (its comment is not {sql.MARK!r})"
        hint = "pass --replace-table to have it dropped, or name another database in target.database"
        raise RunnerError(problem, hint=hint)
    sql.drop_table(connection)


def _answers(connection: sql.Connection) -> bool:
    try:
        sql.query(connection, "SELECT 1")
    except (psycopg.Error, RunnerError):
        return False
    return True


def _describe_lock_holder(connection: sql.Connection) -> str:
    rows = sql.query(
        connection,
        "SELECT pid, coalesce(host(client_addr), 'its own host'), backend_start::timestamptz(0)::text "
        "FROM pg_locks JOIN pg_stat_activity USING (pid) "
        "WHERE locktype = 'advisory' AND granted AND (classid, objid) = (%s, %s)",
        *_KEY,
    )
    return "".join(f" (session {pid} from {address}, since {since})" for pid, address, since in rows[:1])

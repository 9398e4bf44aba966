"""SQL statements of the runner, the same for every target.

Values reach the server as parameters; names (roles, settings, tables) through `psycopg.sql`, never by string
formatting.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Final, LiteralString

import psycopg
from psycopg import sql
from psycopg.errors import Diagnostic
from psycopg.rows import TupleRow

from citus_analysis.errors import RunnerError
from citus_analysis.runner.experiment import Monitor
from citus_analysis.runner.system import ServerNode
from citus_analysis.runner.workloads import CREATE_TABLE, FIELD_LENGTH, FIELDS, TABLE, build_key_names

#: Settings that affect the results of a benchmark; they are recorded in `config.yml`.
SETTINGS_DESCRIBED: Final = (
    *("server_version", "shared_buffers", "max_connections", "max_prepared_transactions", "fsync"),
    *("synchronous_commit", "full_page_writes", "wal_level", "max_wal_size", "checkpoint_timeout", "log_line_prefix"),
    *("log_timezone", "log_checkpoints", "log_lock_waits", "log_autovacuum_min_duration", "citus.version"),
    *("citus.shard_count", "citus.enable_binary_protocol", "citus.enable_local_execution"),
    *("citus.max_cached_conns_per_worker", "citus.max_adaptive_executor_pool_size"),
)

#: Comment on the table and the role that this tool creates.
MARK: Final = "made by citus-analysis"

Connection = psycopg.Connection[TupleRow]
#: Return type of :func:`connect`.
Connecting = AbstractContextManager[Connection]

_ROWS_AT_ONCE: Final = 10_000
_CONNECT_TIMEOUT_S: Final = 10
#: Name of the runner's own sessions.
APPLICATION: Final = "citus-analysis"
_LOGIN_WAY_OUT: Final = "set PGPASSWORD, or add the account to a password file and name it in PGPASSFILE"
#: Longest time of a statement that reads or changes a catalogue.
STATEMENT_TIMEOUT_S: Final = 120.0
#: Longest time that any statement waits for the lock of another session.
LOCK_TIMEOUT_S: Final = 30.0
_CANCEL_TIMEOUT_S: Final = 5.0
_BLOCKERS: Final = (
    "SELECT other.pid, other.usename, other.application_name, other.state, other.xact_start::timestamptz(0)::text "
    "FROM pg_stat_activity own, unnest(pg_blocking_pids(own.pid)) blocker "
    "JOIN pg_stat_activity other ON other.pid = blocker "
    "WHERE own.application_name = %s ORDER BY other.xact_start LIMIT 3"
)


@contextmanager
def connect(node: ServerNode, *, database: str, user: str, password: str | None = None) -> Iterator[Connection]:
    """An autocommit connection; without a password, libpq finds one (PGPASSWORD, PGPASSFILE, PGSERVICE).

    Raises:
        RunnerError: no connection, or a statement failed; with the server's message, without the connection string.
    """
    hint = "check that the server runs and that PGPASSWORD or PGPASSFILE is set"
    try:
        with psycopg.connect(
            host=node.host,
            port=node.port,
            dbname=database,
            user=user,
            password=password,
            autocommit=True,
            connect_timeout=_CONNECT_TIMEOUT_S,
            application_name=APPLICATION,
        ) as connection:
            hint = ""  # the server's message explains the failed statement
            yield connection
    except psycopg.Error as error:
        if isinstance(error, psycopg.OperationalError) and "no password supplied" in str(error):
            hint = _LOGIN_WAY_OUT
        problem = f"node {node.name} ({node.host}:{node.port}): {str(error).strip().splitlines()[0]}"
        raise RunnerError(problem, hint=hint or None) from error


def query(
    connection: Connection,
    text: LiteralString | sql.Composed,
    *values: object,
    timeout_s: float | None = STATEMENT_TIMEOUT_S,
) -> list[TupleRow]:
    """Execute a statement; return its rows, if it has any.

    Args:
        connection: the session.
        text: the statement.
        values: its parameters.
        timeout_s: its longest time; None: as long as it works, but not while it waits for another session.

    Raises:
        RunnerError: it took too long, or another session held it up; the message names that session.
    """
    with limit_statements(connection, timeout_s):
        cursor = connection.execute(text, values or None)
        return cursor.fetchall() if cursor.description else []


@contextmanager
def limit_statements(connection: Connection, timeout_s: float | None = None) -> Iterator[None]:
    """End the session's statement after a time, or once it has waited for another session for `LOCK_TIMEOUT_S`.

    The limits are the client's own: settings of the session would stay on a pooler's connection, which other clients
    use, and a server that does not go on enforces none.
    """
    ended, reasons = threading.Event(), list[str]()
    place = connection.info.host, connection.info.port, connection.info.dbname, connection.info.user
    watcher = threading.Timer(
        min(LOCK_TIMEOUT_S, timeout_s or LOCK_TIMEOUT_S), _watch_statement, (connection, timeout_s, ended, reasons)
    )
    watcher.daemon = True
    watcher.start()
    try:
        yield
    except psycopg.Error as error:
        if reasons:
            host, port, database, _ = place
            problem = f"{reasons[0]} (database {database} of {host}:{port})"
            raise RunnerError(problem, hint="end what holds it up, and call again with --resume") from error
        raise
    finally:
        ended.set()
        watcher.cancel()


def _watch_statement(
    connection: Connection, timeout_s: float | None, ended: threading.Event, reasons: list[str]
) -> None:
    """Cancel a statement that takes too long or waits for another session; if that does not help, close its line."""
    waited_s = min(LOCK_TIMEOUT_S, timeout_s or LOCK_TIMEOUT_S)
    while not ended.is_set():
        blockers = _find_blockers(connection)
        if blockers or (timeout_s is not None and waited_s >= timeout_s):
            because = f"waited for {'; '.join(blockers)}" if blockers else f"got no answer for {waited_s:g} s"
            reasons.append(f"a statement of the runner {because}")
            with suppress(psycopg.Error):
                connection.cancel_safe(timeout=_CANCEL_TIMEOUT_S)
            if not ended.wait(_CANCEL_TIMEOUT_S):
                # A server that was stopped, or a pooler without a free connection, does not cancel it.
                _shut_down(connection)
            return
        if ended.wait(LOCK_TIMEOUT_S):
            return
        waited_s += LOCK_TIMEOUT_S


def _find_blockers(connection: Connection) -> list[str]:
    """The sessions for which the runner's sessions wait; none if the server does not answer another session."""
    info = connection.info
    try:
        with psycopg.connect(
            host=info.host, port=info.port, dbname=info.dbname, user=info.user, password=info.password or None,
            autocommit=True, connect_timeout=round(_CANCEL_TIMEOUT_S), application_name=f"{APPLICATION} watch",
        ) as other:  # fmt: skip
            closing = threading.Timer(_CANCEL_TIMEOUT_S, _shut_down, (other,))
            closing.daemon = True
            closing.start()
            try:
                rows = other.execute(_BLOCKERS, (APPLICATION,)).fetchall()
            finally:
                closing.cancel()
    except (psycopg.Error, OSError):
        return []
    return [f"session {pid} of {user} ({name or 'no name'}, {state}, in a transaction since {since})"
            for pid, user, name, state, since in rows]  # fmt: skip


def _shut_down(connection: Connection) -> None:
    """Close the line of a connection, so that whoever waits for an answer goes on."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


@contextmanager
def collect_notices(connection: Connection) -> Iterator[list[str]]:
    """The server's notices while the context lasts."""
    heard: list[str] = []

    def hear(message: Diagnostic) -> None:
        heard.append(message.message_primary or "")

    connection.add_notice_handler(hear)
    try:
        yield heard
    finally:
        connection.remove_notice_handler(hear)


def read_settings(connection: Connection, names: Collection[str] = SETTINGS_DESCRIBED) -> dict[str, str]:
    """The values in force of the settings that the server knows."""
    rows = query(
        connection,
        "SELECT name, current_setting(name) FROM unnest(%s::text[]) AS name "
        "WHERE current_setting(name, true) IS NOT NULL",
        list(names),
    )
    return {str(name): str(value) for name, value in rows}


def read_citus_nodes(connection: Connection) -> list[tuple[int, int, str, int]]:
    """(nodeid, groupid, host, port) of the active primaries, the coordinator first.

    Raises:
        RunnerError: the database has no Citus.
    """
    try:
        rows = query(
            connection,
            "SELECT nodeid, groupid, nodename, nodeport FROM pg_dist_node "
            "WHERE noderole = 'primary' AND isactive ORDER BY groupid",
        )
    except psycopg.errors.UndefinedTable as error:
        info = connection.info
        problem = f"database {info.dbname} of {info.host}:{info.port} has no Citus"
        raise RunnerError(problem, hint="CREATE EXTENSION citus there, or set target.system: postgresql") from error
    return [(int(nodeid), int(groupid), str(host), int(port)) for nodeid, groupid, host, port in rows]


def drop_table(connection: Connection) -> None:
    """Drop the benchmark's table if it exists."""
    query(connection, sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(TABLE)))


def make_monitor_role(
    connection: Connection,
    monitor: Monitor,
    password: str | None = None,
    *,
    level: str | None = None,
    relation: str | None = TABLE,
) -> None:
    """Create the sampled client's role if it does not exist, grant it the tables, and switch its logging on.

    Args:
        connection: connection to the coordinator or the only server.
        monitor: its part of the experiment file.
        password: password of a role that this tool created; other roles keep theirs.
        level: its `log_min_messages`; None: that of the experiment, and debug1 if that is `auto`.
        relation: the table that it uses; None: the tables of `public` that the connection's own role has created.
    """
    name = sql.Identifier(monitor.role)
    comments = query(
        connection, "SELECT shobj_description(oid, 'pg_authid') FROM pg_roles WHERE rolname = %s", monitor.role
    )
    if not comments:
        query(connection, sql.SQL("CREATE ROLE {} LOGIN").format(name))
        query(connection, sql.SQL("COMMENT ON ROLE {} IS {}").format(name, sql.Literal(MARK)))
    if password is not None and (not comments or comments[0][0] == MARK):
        # Hashed here, so that neither the server's log nor its activity view ever shows the password.
        hashed = connection.pgconn.encrypt_password(password.encode(), monitor.role.encode()).decode()
        query(connection, sql.SQL("ALTER ROLE {} PASSWORD {}").format(name, sql.Literal(hashed)))
    query(connection, sql.SQL("GRANT ALL ON SCHEMA public TO {}").format(name))
    tables = query(
        connection,
        "SELECT tablename FROM pg_tables WHERE schemaname = 'public' "
        "AND coalesce(tablename = %s, tableowner = current_user)",
        relation,
    )
    for (table,) in tables:
        query(connection, sql.SQL("GRANT ALL ON public.{} TO {}").format(sql.Identifier(table), name))
    own_level = "debug1" if monitor.log_min_messages == "auto" else monitor.log_min_messages
    logging = {"log_duration": "on", "log_statement": "all", "log_min_messages": level or own_level}
    for setting, value in logging.items():
        query(
            connection,
            sql.SQL("ALTER ROLE {} SET {} = {}").format(name, sql.Identifier(setting), sql.Literal(value)),
        )


def make_table(connection: Connection, *, mark: bool = True) -> None:
    """Create the benchmark's table if it does not exist, and mark it by a comment if the system has comments."""
    query(connection, CREATE_TABLE)
    if mark:
        query(connection, sql.SQL("COMMENT ON TABLE {} IS {}").format(sql.Identifier(TABLE), sql.Literal(MARK)))


def fill_table(connection: Connection, records: int, *, maintain: bool = True) -> None:
    """Insert the records 0..records-1 into the empty table.

    Args:
        connection: connection to the coordinator or the only server.
        records: number of records; 0 leaves the table empty.
        maintain: run VACUUM ANALYZE afterwards.
    """
    table = sql.Identifier(TABLE)
    columns = sql.SQL(", ").join(sql.Identifier(column) for column in ("ycsb_key", *FIELDS))
    fields = "\t".join(["x" * FIELD_LENGTH] * len(FIELDS))
    for start in range(0, records, _ROWS_AT_ONCE):
        stop = min(start + _ROWS_AT_ONCE, records)
        command = sql.SQL("COPY {} ({}) FROM STDIN").format(table, columns)
        with limit_statements(connection), connection.cursor().copy(command) as copy:
            copy.write("".join(f"{key}\t{fields}\n" for key in build_key_names(start, stop)))
    if records and maintain:
        vacuum(connection)


def vacuum(connection: Connection) -> None:
    """Free the space of removed rows, and renew the statistics of the table."""
    query(connection, sql.SQL("VACUUM ANALYZE {}").format(sql.Identifier(TABLE)), timeout_s=None)


def count_rows(connection: Connection) -> int:
    """Rows of the table."""
    text = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(TABLE))
    return int(query(connection, text, timeout_s=None)[0][0])


def quote_setting_name(name: str) -> sql.Composed:
    """The name of a setting, quoted."""
    return sql.SQL(".").join(sql.Identifier(part) for part in name.split("."))

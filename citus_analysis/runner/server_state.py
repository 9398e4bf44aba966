"""Empty the benchmark's table by TRUNCATE, or by DELETE in batches if a server refuses that.

Spanner has no TRUNCATE, a role may lack the privilege, and a trigger may forbid it. DELETE leaves dead rows, which
only VACUUM removes, so each run after a DELETE gets a remark.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, LiteralString

import psycopg
from psycopg import sql as composing
from pydantic import TypeAdapter

from citus_analysis.core.output_files import open_output
from citus_analysis.errors import FormatError, InputError, RunnerError
from citus_analysis.runner import connections as sql
from citus_analysis.runner.experiment import ClusterTarget, Experiment, Monitor, NodeAddress
from citus_analysis.runner.journal import Journal
from citus_analysis.runner.system import ClusterGrowth, ServerNode, ShardPlacement
from citus_analysis.runner.workloads import TABLE
from citus_analysis.runs.setting_changes import ALL_NODES
from citus_analysis.texts.documents import parse_json
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


# Workers that an experiment adds to a Citus cluster for its runs, and removes afterwards.


def list_unlisted_workers(target: ClusterTarget, connection: sql.Connection) -> list[NodeAddress]:
    """Workers of the experiment file that may be added: `pg_dist_node` does not list them, not even as inactive.

    Args:
        target: the cluster.
        connection: to the coordinator.
    """
    if not target.add_nodes:
        return []
    listed = set(sql.query(connection, "SELECT nodename, nodeport FROM pg_dist_node"))
    return [one for one in target.nodes if one.role == "worker" and (one.host, one.port) not in listed]


def remove_worker(connection: sql.Connection, host: str, port: int) -> None:
    """Move the shards of a worker to the others, and remove it from the cluster if it is in it."""
    if sql.query(connection, "SELECT 1 FROM pg_dist_node WHERE (nodename, nodeport) = (%s, %s)", host, port):
        # No client writes any more, and blocking writes does not require a replica identity of the tables.
        sql.query(connection, "SELECT citus_drain_node(%s, %s, 'block_writes')", host, port, timeout_s=None)
        sql.query(connection, "SELECT citus_remove_node(%s, %s)", host, port, timeout_s=None)


# Ownership of the cluster and of the table: one experiment at a time, and no table of others is dropped.
#
# The lock is an advisory lock of the database, held by a transaction that is open as long as the experiment. It ends
# when the runner ends for any reason, also behind a pooler of transactions (PgBouncer), on whose connections a lock of
# a session would stay for ever. The transaction has no snapshot, so that it does not hold VACUUM up.

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


# Server settings of the matrix: check that they can be set, set them by ALTER SYSTEM, and read the values in force.

#: Settings whose value is a list of quoted names (GUC_LIST_QUOTE), which no catalogue lists; pg_dump has the same list.
_LISTS_OF_NAMES: Final = (
    *("local_preload_libraries", "search_path", "session_preload_libraries", "shared_preload_libraries"),
    *("temp_tablespaces", "unix_socket_directories"),
)
_NAME_IN_LIST: Final = re.compile(r'\s*(?:(?P<quoted>"(?:[^"]|"")*")|(?P<plain>[^",\s][^",]*))\s*(?:,|$)')
_RELOAD_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.02


def check_settable(connection: sql.Connection, node: ServerNode, names: Collection[str]) -> None:
    """Refuse settings that a reload cannot change.

    Raises:
        RunnerError: the server does not know a setting, or reads it at its start only.
    """
    rows = sql.query(
        connection, "SELECT lower(name), context FROM pg_settings WHERE lower(name) = ANY(%s)", _lower(names)
    )
    contexts = {str(name): str(context) for name, context in rows}
    if unknown := sorted(set(_lower(names)) - set(contexts)):
        hint = "correct matrix.settings, or load its library"
        raise RunnerError(f"node {node.name} has no setting {', '.join(unknown)}", hint=hint)
    at_start = sorted(name for name, context in contexts.items() if context in ("postmaster", "internal"))
    if at_start:
        raise RunnerError(
            f"node {node.name} can change {', '.join(at_start)} only at server start, and the runner does not restart "
            "servers that it did not start",
            hint="take it out of matrix.settings and make one experiment for each value, restarting the servers "
            "between them, or use the embedded target",
        )


def read_altered_values(connection: sql.Connection, names: Collection[str]) -> dict[str, str | None]:
    """The values that ALTER SYSTEM has set; None for settings that it has not set.

    Raises:
        RunnerError: the user may not read these values.
    """
    try:
        rows = sql.query(
            connection,
            "SELECT DISTINCT ON (lower(name)) lower(name), setting FROM pg_file_settings "
            "WHERE sourcefile LIKE '%%postgresql.auto.conf' AND lower(name) = ANY(%s) ORDER BY lower(name), seqno DESC",
            _lower(names),
        )
    except psycopg.errors.InsufficientPrivilege:
        rows = _read_altered_settings(connection, names)
    return dict.fromkeys(_lower(names)) | {str(name): str(value) for name, value in rows}


def _read_altered_settings(connection: sql.Connection, names: Collection[str]) -> list[tuple[str, str]]:
    rows = sql.query(
        connection,
        "SELECT lower(name), reset_val, source, sourcefile FROM pg_settings WHERE lower(name) = ANY(%s)",
        _lower(names),
    )
    if any(source == "configuration file" and sourcefile is None for _, _, source, sourcefile in rows):
        problem = "the user may not read the values set by ALTER SYSTEM, so they could not be restored"
        hint = "GRANT pg_read_all_settings TO the user of target.user, or leave out matrix.settings"
        raise RunnerError(problem, hint=hint)
    return [(name, value) for name, value, _, file in rows if str(file).endswith("postgresql.auto.conf")]


def alter_server_settings(connection: sql.Connection, values: Mapping[str, str | None]) -> None:
    """ALTER SYSTEM SET (or RESET, for None) each setting, reload, and wait until the server has read its files.

    Raises:
        RunnerError: the server does not reload.
    """
    for name, value in values.items():
        if value is None:
            sql.query(connection, composing.SQL("ALTER SYSTEM RESET {}").format(sql.quote_setting_name(name)))
        else:
            statement = composing.SQL("ALTER SYSTEM SET {} = {}")
            sql.query(connection, statement.format(sql.quote_setting_name(name), _compose_setting_value(name, value)))
    before = sql.query(connection, "SELECT pg_conf_load_time()")
    sql.query(connection, "SELECT pg_reload_conf()")
    deadline = time.monotonic() + _RELOAD_TIMEOUT_S
    # The server reads its files before it signals sessions: by then, new sessions have the values.
    while sql.query(connection, "SELECT pg_conf_load_time()") == before:
        if time.monotonic() > deadline:
            raise RunnerError("the server does not reload its settings", hint="check its log")
        time.sleep(_POLL_S)


def _compose_setting_value(name: str, value: str) -> composing.Composable:
    """A value after `SET name =`: for a list of names, one literal per name."""
    names = names_of_list(value) if name.lower() in _LISTS_OF_NAMES else [value]
    return composing.SQL(", ").join(composing.Literal(one) for one in names or [""])


def names_of_list(value: str) -> list[str]:
    """The names in the value of a list such as `search_path`, by the rules of PostgreSQL's SplitIdentifierString.

    Example:
        >>> names_of_list('"$user", Public, "a,""b"')
        ['$user', 'public', 'a,"b']
    """
    found = (match["quoted"] or match["plain"] for match in _NAME_IN_LIST.finditer(value))
    return [one[1:-1].replace('""', '"') if one.startswith('"') else one.strip().lower() for one in found]


def check_in_force(connection: sql.Connection, node: ServerNode, names: Collection[str]) -> None:
    """Check that the values set by ALTER SYSTEM are in force; the connection must be younger than the reload.

    Raises:
        RunnerError: a setting needs a restart of the server, or another source overrides it.
    """
    rows = sql.query(
        connection, "SELECT name, source, pending_restart FROM pg_settings WHERE lower(name) = ANY(%s)", _lower(names)
    )
    for name, source, pending in rows:
        if pending:
            problem = f"node {node.name}: {name} needs a restart of the server"
            raise RunnerError(problem, hint="take it out of matrix.settings")
        if source != "configuration file":
            problem = f"node {node.name}: {name} comes from {source}, which overrides ALTER SYSTEM"
            raise RunnerError(problem, hint="remove that setting of the database, role or command line")


def read_by_node(
    nodes: Sequence[ServerNode], names: Collection[str], connect: Callable[[ServerNode], sql.Connecting]
) -> dict[str, dict[str, str]]:
    """Node -> the values of the settings in force there; empty if no name is given."""
    by_node: dict[str, dict[str, str]] = {}
    for node in nodes if names else ():
        with connect(node) as connection:
            by_node[node.name] = sql.read_settings(connection, names)
    return by_node


#: Settings that are not recorded: secrets, and those of the runner's own session.
_NOT_RECORDED: Final = r"password|passphrase|secret|conninfo|^application_name$|^client_|^session_|^transaction_"
_RECORDED_LENGTH: Final = 200
Recorded = dict[str, dict[str, dict[str, str]]]


def read_recorded_settings(
    nodes: Sequence[ServerNode], connect: Callable[[ServerNode], sql.Connecting], *, roles: bool = True
) -> Recorded:
    """All settings that are not at their default on a node, for a role or a database, with extensions and versions.

    Args:
        nodes: the nodes.
        connect: opens a session on a node.
        roles: whether the system stores settings of roles and databases.

    Returns:
        `non_default_settings`, `extensions` and `versions` by node, `role_settings` by role (and database, or node if
        nodes differ), `database_settings` by database; what all nodes have in common is under `all`.
    """
    by_node: dict[str, Recorded] = {}
    for node in nodes:
        with connect(node) as connection:
            try:
                by_node[node.name] = _read_recorded(connection, roles=roles)
            except psycopg.Error:  # a system without these catalogues: half of a record would look like defaults
                return {}
    found: Recorded = {}
    for kind in ("non_default_settings", "extensions", "versions"):
        found[kind] = _divide_common_values({node: read[kind].get("", {}) for node, read in by_node.items()})
    for kind in ("role_settings", "database_settings") if roles else ():
        found[kind] = {}
        for name in sorted({name for read in by_node.values() for name in read[kind]}):
            divided = _divide_common_values({node: read[kind].get(name, {}) for node, read in by_node.items()})
            for where, values in divided.items():
                found[kind][name if where == ALL_NODES else f"{name} on node {where}"] = values
    return found


def _read_recorded(connection: sql.Connection, *, roles: bool) -> Recorded:
    settings = sql.query(
        connection,
        "SELECT name, current_setting(name) FROM pg_settings WHERE source IN "
        "('environment variable', 'configuration file', 'command line', 'global') ORDER BY name",
    )
    extensions = sql.query(connection, "SELECT extname, extversion FROM pg_extension ORDER BY extname")
    found: Recorded = {
        "non_default_settings": {"": _select_recorded(settings)},
        "extensions": {"": _select_recorded(extensions)},
        "versions": {"": sql.read_settings(connection, ["server_version"])},
        "role_settings": {},
        "database_settings": {},
    }
    stored = (
        sql.query(
            connection,
            "SELECT rolname, datname, unnest(setconfig) FROM pg_db_role_setting "
            "LEFT JOIN pg_roles ON pg_roles.oid = setrole LEFT JOIN pg_database ON pg_database.oid = setdatabase "
            "ORDER BY 1, 2, 3",
        )
        if roles
        else []
    )
    for role, database, text in stored:
        name, _, value = str(text).partition("=")
        of = " in ".join(str(one).replace(".", "_") for one in (role, database) if one) or ALL_NODES
        kind = "role_settings" if role else "database_settings"
        found[kind].setdefault(of, {}).update(_select_recorded([(name, value)]))
    return found


def _select_recorded(rows: Sequence[Sequence[object]]) -> dict[str, str]:
    return {str(name): str(value)[:_RECORDED_LENGTH] for name, value in rows if not re.search(_NOT_RECORDED, str(name))}


def _divide_common_values(by_node: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """What all nodes have in common under `all`, and what else each has.

    Example:
        >>> _divide_common_values({"0": {"a": "1", "b": "2"}, "1": {"a": "1"}})
        {'all': {'a': '1'}, '0': {'b': '2'}}
    """
    every = [dict(values) for values in by_node.values()]
    common = {name: value for name, value in (every or [{}])[0].items() if all(one.get(name) == value for one in every)}
    own = {
        node: {name: value for name, value in values.items() if name not in common} for node, values in by_node.items()
    }
    return {ALL_NODES: common, **{node: values for node, values in own.items() if values}}


def find_common_settings(by_node: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """The settings, if they are equal on all nodes.

    Example:
        >>> find_common_settings({"0": {"work_mem": "8MB"}, "1": {"work_mem": "8MB"}})
        {'work_mem': '8MB'}

    Raises:
        RunnerError: two nodes differ.
    """
    first, *others = [dict(settings) for settings in by_node.values()] or [{}]
    for node, settings in zip(list(by_node)[1:], others, strict=True):
        if settings != first:
            found = f"{first} on node {next(iter(by_node))}, {settings} on node {node}"
            problem = f"settings of the matrix differ between nodes: {found}"
            raise RunnerError(problem, hint="check the settings of the database and the role on that node")
    return first


def _lower(names: Collection[str]) -> list[str]:
    return [name.lower() for name in names]


# Placement of the benchmark's table in Citus: the nodes that may have shards, and the present placements.
#
# The catalogue is checked after each change, because Citus does not move existing shards when a node may no longer have
# shards, and by default colocates a table with another table of the same shard count.

#: Header of `pg_dist_shard.csv`, in the order of :class:`Placement`.
PLACEMENT_COLUMNS: Final = (
    *("logicalrelid", "shardid", "placementid", "groupid", "nodename", "nodeport"),
    *("shardminvalue", "shardmaxvalue"),
)


def read_placements(connection: sql.Connection, relation: str | None = TABLE) -> list[ShardPlacement]:
    """The active placements of a table, or of all tables; none if the table is not distributed or does not exist."""
    rows = sql.query(
        connection,
        "SELECT logicalrelid::text, shardid, placementid, groupid, nodename, nodeport, "
        "shardminvalue::bigint, shardmaxvalue::bigint "
        "FROM pg_dist_shard JOIN pg_dist_placement USING (shardid) JOIN pg_dist_node USING (groupid) "
        "WHERE coalesce(logicalrelid = to_regclass(%s), true) AND noderole = 'primary' AND shardstate = 1 "
        "ORDER BY shardid, placementid",
        relation and f"public.{relation}",
    )
    return [ShardPlacement(*row) for row in rows]


def read_default_shard_count(connection: sql.Connection) -> int:
    """The server's number of shards for a new table."""
    return int(sql.query(connection, "SELECT current_setting('citus.shard_count')")[0][0])


def read_shard_groups(connection: sql.Connection) -> dict[int, bool]:
    """Group -> whether new tables may place shards on its node."""
    rows = sql.query(connection, "SELECT groupid, shouldhaveshards FROM pg_dist_node WHERE noderole = 'primary'")
    return {int(groupid): bool(allowed) for groupid, allowed in rows}


def set_group_shard_permission(connection: sql.Connection, groupid: int, allowed: bool) -> None:
    """Set whether new tables may place shards on a group's node."""
    sql.query(
        connection,
        "SELECT citus_set_node_property(nodename, nodeport, 'shouldhaveshards', %s) FROM pg_dist_node "
        "WHERE groupid = %s AND noderole = 'primary'",
        allowed,
        groupid,
    )


def spread_problem(placements: Sequence[ShardPlacement], *, shard_count: int, groups: Collection[int]) -> str | None:
    """The difference between the table's placements and the requested ones; None if there is none."""
    shards = {placement.shard_id for placement in placements}
    found = {placement.groupid for placement in placements}
    if not shards:
        return "it is not distributed"
    if len(shards) != shard_count:
        return f"it has {len(shards)} shards, not {shard_count}"
    if found != set(groups):
        return f"its {len(shards)} shards are on groups {_join_group_ids(found)}, not {_join_group_ids(groups)}"
    return None


def make_distributed_table(connection: sql.Connection, *, shard_count: int, groups: Collection[int]) -> bool:
    """Make sure that the benchmark's table has `shard_count` shards on exactly these groups; make it again if not.

    Args:
        connection: connection to the coordinator; only these groups may have shards.
        shard_count: number of shards.
        groups: groups of the nodes in use.

    Returns:
        whether the table was made again.

    Raises:
        RunnerError: there are fewer shards than groups, or Citus placed the shards elsewhere.
    """
    if shard_count < len(groups):
        hint = "set target.shard_count to at least the number of workers"
        raise RunnerError(f"{shard_count} shards cannot be distributed over {len(groups)} workers", hint=hint)
    is_unfit = spread_problem(read_placements(connection), shard_count=shard_count, groups=groups) is not None
    if is_unfit:
        sql.drop_table(connection)
        sql.make_table(connection)
        # Without colocate_with, Citus would use the placements of another table with the same shard count.
        sql.query(
            connection,
            "SELECT create_distributed_table(%s, 'ycsb_key', shard_count := %s, colocate_with := 'none')",
            f"public.{TABLE}",
            shard_count,
            timeout_s=None,
        )
    if problem := spread_problem(read_placements(connection), shard_count=shard_count, groups=groups):
        hint = "compare pg_dist_node.shouldhaveshards and pg_dist_placement on the coordinator"
        raise RunnerError(f"the table {TABLE} is not as the experiment asks: {problem}", hint=hint)
    return is_unfit


def _join_group_ids(groups: Collection[int]) -> str:
    return ", ".join(str(group) for group in sorted(groups))


# The former state of a cluster: it is written to disk before the runner changes it, and is restored afterwards.
#
# `OUT/.runner/found.json` contains, for every node, the values that ALTER SYSTEM had set before (null for none), the
# groups of Citus that could have shards, and the workers that were added. Restored entries are removed; the file is
# deleted when nothing is left. If a runner was killed, the next call on the same folder, or
# `citus-analysis run --restore OUT`, restores the cluster from it.

FILE_NAME: Final = "found.json"
_PRIVATE_FILE: Final = 0o600


@dataclass
class _NodeFound:
    node: ServerNode
    values: dict[str, str | None] = field(default_factory=dict)


@dataclass
class _Document:
    """Content of the file: values of nodes, group of Citus -> shards allowed or not, addresses of added workers."""

    coordinator: ServerNode
    database: str
    user: str
    nodes: list[_NodeFound] = field(default_factory=list)
    shouldhaveshards: dict[int, bool] = field(default_factory=dict)
    added: list[tuple[str, int]] = field(default_factory=list)


_DOCUMENT: Final = TypeAdapter(_Document)


class FormerState:
    """The former state of a cluster, and its restoration.

    Args:
        path: the file on disk; entries of an earlier runner are kept.
        coordinator: node on which Citus' catalogue is changed.

    Raises:
        InputError: the file on disk cannot be read.
    """

    def __init__(self, path: Path, coordinator: ServerNode, database: str, user: str) -> None:
        self._path = path
        self._found = _read(path) if path.exists() else _Document(coordinator, database, user)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to restore."""
        return not (self._found.nodes or self._found.shouldhaveshards or self._found.added)

    def note_settings(self, node: ServerNode, names: Collection[str]) -> None:
        """Record a node's values of these settings, unless they are recorded already."""
        known = next((one for one in self._found.nodes if one.node.name == node.name), None)
        missing = [name.lower() for name in names if known is None or name.lower() not in known.values]
        if missing:
            with self._connection(node) as connection:
                values = read_altered_values(connection, missing)
            if known is None:
                self._found.nodes.append(known := _NodeFound(node))
            known.values |= values
            self._save()

    def note_group(self, groupid: int, allowed: bool) -> None:
        """Record whether a group could have shards, unless that is recorded already."""
        if groupid not in self._found.shouldhaveshards:
            self._found.shouldhaveshards[groupid] = allowed
            self._save()

    def note_added(self, host: str, port: int) -> None:
        """Record that a worker was not in the cluster."""
        if (host, port) not in self._found.added:
            self._found.added.append((host, port))
            self._save()

    def restore(self) -> list[str]:
        """Restore the former state, each node independently.

        Returns:
            a sentence for each node that could not be restored; its entry is kept on disk for the next call.
        """
        problems = [self._attempt(self._put_back, one) for one in list(self._found.nodes)]
        if self._found.shouldhaveshards:
            problems.append(self._attempt(self._put_back_groups))
        # Added workers come last, because their shards move to nodes that may have shards again.
        problems += [self._attempt(self._take_out, *one) for one in list(self._found.added)]
        return [problem for problem in problems if problem]

    def _attempt(self, restore: Callable[..., None], *arguments: object) -> str | None:
        try:
            restore(*arguments)
        except RunnerError as error:
            folder = self._path.parent.parent
            return f"not restored: {error.problem}; citus-analysis run --restore {folder} does it later"
        self._save()
        return None

    def _put_back(self, found: _NodeFound) -> None:
        with self._connection(found.node) as connection:
            now = read_altered_values(connection, found.values)
            changed = {name: value for name, value in found.values.items() if now[name] != value}
            if changed:
                alter_server_settings(connection, changed)
        self._found.nodes.remove(found)

    def _put_back_groups(self) -> None:
        with self._connection(self._found.coordinator) as connection:
            now = read_shard_groups(connection)
            for groupid, allowed in self._found.shouldhaveshards.items():
                if now.get(groupid, allowed) != allowed:
                    set_group_shard_permission(connection, groupid, allowed)
        self._found.shouldhaveshards.clear()

    def _take_out(self, host: str, port: int) -> None:
        with self._connection(self._found.coordinator) as connection:
            remove_worker(connection, host, port)
        self._found.added.remove((host, port))

    def _connection(self, node: ServerNode) -> sql.Connecting:
        return sql.connect(node, database=self._found.database, user=self._found.user)

    def _save(self) -> None:
        if self.is_empty:
            self._path.unlink(missing_ok=True)
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with open_output(self._path) as out:
            out.write(json.dumps(asdict(self._found), indent=1).encode())
        self._path.chmod(_PRIVATE_FILE)


def restore_found(private: Path) -> list[str] | None:
    """Restore a cluster to the state in which an experiment found it.

    Args:
        private: the experiment's folder `.runner`.

    Returns:
        a sentence for each node that could not be restored; None if nothing is left to restore.

    Raises:
        InputError: the file with the former state cannot be read.
        ClusterInUseError: another experiment uses the cluster.
    """
    path = private / FILE_NAME
    if not path.exists():
        return None
    document = _read(path)
    place = document.coordinator, document.database, document.user
    return restore_under(ClusterLock(*place), FormerState(path, *place))


def describe_unrestored(private: Path) -> tuple[str, ...]:
    """What of a cluster is not as an experiment found it, by its folder `.runner`; empty if nothing is left.

    Raises:
        InputError: the file with the former state cannot be read.
    """
    path = private / FILE_NAME
    if not path.exists():
        return ()
    found = _read(path)
    changed = ((one.node.name, ", ".join(sorted(one.values))) for one in found.nodes if one.values)
    settings = [f"settings of node {node} ({names})" for node, names in changed]
    groups = ", ".join(map(str, sorted(found.shouldhaveshards)))
    spread = [f"shouldhaveshards of group {groups}"] if groups else []
    return (*settings, *spread, *(f"the added worker {host}:{port}" for host, port in found.added))


def restore_under(lock: ClusterLock, found: FormerState) -> list[str]:
    """Restore under the lock of the cluster, then release the lock.

    Raises:
        ClusterInUseError: another experiment uses the cluster.
    """
    try:
        lock.hold()
    except ClusterInUseError:
        raise
    except RunnerError:
        pass  # if the coordinator does not answer, no experiment can run, and the other nodes can be restored
    try:
        return found.restore()
    finally:
        lock.release()


def _read(path: Path) -> _Document:
    try:
        return _DOCUMENT.validate_python(parse_json(path.read_bytes()))
    except (OSError, ValueError, FormatError) as error:
        hint = "restore the settings by hand, then delete it"
        raise InputError(f"cannot be read: {error}", path=path, hint=hint) from error


# Growth of a Citus cluster: shards are moved to workers that had none, and the time is measured.
#
# Citus moves shards in background jobs. Their times are read from its catalogue, so that a job that continued after its
# runner was killed is measured as well.

_GROWTH_POLL_S: Final = 0.2
#: The strategy that also applies to a new table: the same number of shards on every worker.
_STRATEGY: Final = "by_shard_count"
_ENDED: Final = ("finished", "failed", "cancelled")


def can_grow(placements: Collection[ShardPlacement], *, shard_count: int, groups: Collection[int]) -> bool:
    """Whether a table has the requested number of shards, all of them on some, but not all, of these groups."""
    shards = {placement.shard_id for placement in placements}
    found = {placement.groupid for placement in placements}
    return len(shards) == shard_count and found < set(groups)


def rebalance_shards(connection: sql.Connection) -> ClusterGrowth:
    """Spread the shards over all nodes that may have some, and wait until that is done.

    Args:
        connection: to the coordinator.

    Raises:
        RunnerError: Citus is older than 11.1, or did not move all shards; with its own message.
    """
    before = read_placements(connection)
    rows = sql.query(connection, "SELECT shardid, max(shard_size) FROM citus_shards GROUP BY shardid")
    sizes = {int(shard): int(size or 0) for shard, size in rows}
    # A rebalance may run already, which a killed runner started.
    unended = "SELECT job_id FROM pg_dist_background_job WHERE job_type = 'rebalance' AND NOT state::text = ANY(%s)"
    rows = sql.query(connection, unended, list(_ENDED)) or sql.query(
        connection, "SELECT citus_rebalance_start(rebalance_strategy := %s)", _STRATEGY
    )
    duration_s = 0.0 if rows[0][0] is None else _wait(connection, int(rows[0][0]))
    after = read_placements(connection)
    places = {placement.shard_id: placement.groupid for placement in before}
    moved = [placement.shard_id for placement in after if places.get(placement.shard_id) != placement.groupid]
    workers_before, workers_after = (len({one.groupid for one in placements}) for placements in (before, after))
    bytes_moved = sum(sizes.get(shard, 0) for shard in moved)
    return ClusterGrowth(workers_before, workers_after, duration_s, len(moved), bytes_moved, _STRATEGY)


def _wait(connection: sql.Connection, job: int) -> float:
    """Wait for the end of a background job; its duration in seconds."""
    text = (
        "SELECT state::text, extract(epoch FROM coalesce(finished_at, clock_timestamp()) - started_at), "
        "(SELECT string_agg(message, '; ') FROM pg_dist_background_task WHERE job_id = job.job_id AND status = 'error')"
        " FROM pg_dist_background_job AS job WHERE job_id = %s"
    )
    while rows := sql.query(connection, text, job):
        state, seconds, message = rows[0]
        if state == "finished":
            return float(seconds or 0.0)
        if state in _ENDED:
            hint = "check the coordinator's log, or set target.growth: refill"
            said = " ".join(str(message or "").split()) or "no message"
            raise RunnerError(f"Citus' rebalance job {job} {state}: {said}", hint=hint)
        time.sleep(_GROWTH_POLL_S)
    problem = f"Citus' rebalance job {job} is no longer in pg_dist_background_job"
    raise RunnerError(problem, hint="check the coordinator's log")


# Passwords of a cluster's clients: libpq finds them, except the monitor's if the experiment states one.
#
# libpq's rules apply to every client, including clients that do not use libpq (YCSB): these get the password with which
# the runner's own connection was made.


def monitor_password(monitor: Monitor) -> str | None:
    """The password that the experiment states for the monitor's role; None if it states none.

    Raises:
        RunnerError: the environment variable is not set, or the file cannot be read; the message contains no secret.
    """
    if monitor.login_env is not None:
        found = os.environ.get(monitor.login_env, "")
        place = f"the environment variable {monitor.login_env}"
    elif monitor.login_file is not None:
        try:
            found = monitor.login_file.read_text(encoding="utf-8").partition("\n")[0].rstrip("\r")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            problem = f"the monitor's password cannot be read: {reason}"
            raise RunnerError(problem, path=monitor.login_file, hint="correct it") from error
        place = f"the first line of {monitor.login_file}"
    else:
        return None
    if not found:
        raise RunnerError(f"the monitor's password is missing: {place} is empty", hint="put the password there")
    return found


def find_working_password(
    nodes: Sequence[ServerNode], target: ClusterTarget, monitor: Monitor, role: str
) -> str | None:
    """The password with which a role can log in on all nodes; libpq finds it unless the experiment states it.

    Args:
        nodes: the nodes.
        target: the cluster's part of the experiment file.
        monitor: the monitor's part, which states the password of its role.
        role: the role.

    Raises:
        RunnerError: the role cannot log in on a node, or the nodes require different passwords, which a client with one
            list of nodes cannot use.
    """
    is_monitor = role == monitor.role
    password = monitor_password(monitor) if is_monitor else None
    places = "monitor.login_env or monitor.login_file" if is_monitor else "PGPASSWORD or PGPASSFILE"
    found: set[str] = set()
    for node in nodes:
        try:
            with sql.connect(node, database=target.database, user=role, password=password) as connection:
                found.add(connection.info.password)
        except RunnerError as error:
            raise RunnerError(error.problem, hint=f"set {places} for role {role}") from error
    if len(found) > 1:
        problem = f"role {role} has different passwords on the nodes {', '.join(node.name for node in nodes)}"
        raise RunnerError(problem, hint="give it the same password on all of them")
    return next(iter(found), "") or None


# Number of workers of a Citus cluster, for experiments that use all of them.


def fill_worker_count(experiment: Experiment) -> Experiment:
    """The experiment with the cluster's number of workers if `matrix.workers` is empty.

    Raises:
        RunnerError: the coordinator does not answer.
    """
    target = experiment.target
    if experiment.matrix.workers or not isinstance(target, ClusterTarget) or target.system != "citus":
        return experiment
    matrix = experiment.matrix.model_copy(update={"workers": [_count_workers(target)]})
    return experiment.model_copy(update={"matrix": matrix})


def _count_workers(target: ClusterTarget) -> int:
    if not target.discover:
        return sum(address.role == "worker" for address in target.nodes)
    with sql.connect(choose_coordinator(target), database=target.database, user=target.user) as connection:
        active = sum(groupid != 0 for _, groupid, _, _ in sql.read_citus_nodes(connection))
        return active + len(list_unlisted_workers(target, connection))


def choose_coordinator(target: ClusterTarget) -> ServerNode:
    """The node that is queried about the others: the coordinator, or the first node."""
    first = next((one for one in target.nodes if one.role == "coordinator"), target.nodes[0])
    return ServerNode(first.name or "0", first.host, first.port, first.role)


# The benchmark's table on the workers of a run: added workers, shards that may be placed there, growth.

#: Subject of the lines of the growths.
_TABLE: Final = "table"
_GROWTH: Final = TypeAdapter(ClusterGrowth)


class TableSpread:
    """Places the shards of the benchmark's table on the workers of a run.

    Args:
        target: the cluster's part of the experiment file.
        found: records the cluster's former state, to be restored.
        growths: the table's growth, kept on disk, because later runs on the same workers state it, too.
    """

    def __init__(self, target: ClusterTarget, found: FormerState, growths: Journal) -> None:
        self._target, self._found, self._growths = target, found, growths
        self._adding_s: list[float] = []  # one time for each worker added for the run in preparation

    def add_workers(self, connection: sql.Connection, lacking: int) -> None:
        """Add `lacking` of the workers that the experiment file lists and the cluster does not have yet."""
        for address in list_unlisted_workers(self._target, connection)[:lacking]:
            self._found.note_added(address.host, address.port)
            begun = time.monotonic()
            sql.query(connection, "SELECT citus_add_node(%s, %s)", address.host, address.port, timeout_s=None)
            self._adding_s.append(time.monotonic() - begun)

    def begin(self) -> None:
        """Forget the workers that were added for the run before."""
        self._adding_s = []

    def growth(self) -> ClusterGrowth | None:
        """The growth that gave the table its present placements; None unless `target.growth` is `rebalance_shards`."""
        entry = self._growths.last(_TABLE) if self._target.growth == "rebalance" else None
        return _GROWTH.validate_python(entry.detail["growth"]) if entry and entry.state == "grown" else None

    def spread_table(self, connection: sql.Connection, nodes: Sequence[ServerNode], workers: int) -> None:
        """Place the table's shards on the first workers only; without workers, on the coordinator.

        Raises:
            RunnerError: the cluster has fewer workers, or the shards cannot be placed as the experiment asks.
        """
        groups = self.let_workers_have_shards(connection, nodes, workers)
        shard_count = self._shard_count(connection, len(groups))
        placed = read_placements(connection)
        if self._target.growth == "rebalance" and can_grow(placed, shard_count=shard_count, groups=groups):
            grown = replace(rebalance_shards(connection), nodes_added=len(self._adding_s), adding_s=sum(self._adding_s))
            self._growths.append(_TABLE, "grown", growth=asdict(grown))
        if make_distributed_table(connection, shard_count=shard_count, groups=groups) and self.growth():
            self._growths.append(_TABLE, "made")  # its placements result from no growth

    def let_workers_have_shards(
        self, connection: sql.Connection, nodes: Sequence[ServerNode], workers: int
    ) -> list[int]:
        """Let the first workers, and no other node, have shards of new tables.

        Returns:
            the Citus groups of the nodes that may have shards.

        Raises:
            RunnerError: the cluster has fewer workers.
        """
        available = [node for node in nodes if node.role == "worker"]
        if workers > len(available):
            problem = f"the experiment needs {workers} workers, but the cluster has {len(available)}"
            hint = "correct matrix.workers, or list further nodes and set target.add_nodes: true"
            raise RunnerError(problem, hint=hint)
        top_contributors = available[:workers] or nodes[:1]
        groups = [node.groupid for node in top_contributors if node.groupid is not None]
        # Nodes that gain shards come first: Citus requires at least one such node at any time.
        for groupid, allowed in sorted(read_shard_groups(connection).items(), key=lambda item: item[0] not in groups):
            if allowed != (groupid in groups):
                self._found.note_group(groupid, allowed)
                set_group_shard_permission(connection, groupid, groupid in groups)
        return groups

    def _shard_count(self, connection: sql.Connection, top_contributors: int) -> int:
        if self._target.shards_per_worker:
            return self._target.shards_per_worker * top_contributors
        return self._target.shard_count or read_default_shard_count(connection)


# Determine the log level at which Citus reports the times of its tasks, by a probe, because builds differ.
#
# Stock Citus reports `task execution (0) for placement ... finished in 591 microseconds` at debug4; a build made for
# measurements may do so at debug1, at which far fewer other messages are logged. A client that sets
# `client_min_messages` receives the messages that a log of this level would contain, so a read of the table is
# enough.

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

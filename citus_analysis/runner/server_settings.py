"""Server settings of the matrix: check that they can be set, set them by ALTER SYSTEM, and read the values in force."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import psycopg
from psycopg import sql as composing

from citus_analysis.errors import RunnerError
from citus_analysis.runner import connections as sql
from citus_analysis.runner.system import ServerNode
from citus_analysis.runs.setting_changes import ALL_NODES

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

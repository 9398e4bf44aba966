"""Server settings of the matrix: check that they can be set, set them by ALTER SYSTEM, and read the values in force."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import psycopg
from psycopg import sql as composing

from citus_analysis.errors import RunnerError
from citus_analysis.runner.systems import connections as sql
from citus_analysis.runner.systems.system import Node

#: Settings whose value is a list of quoted names (GUC_LIST_QUOTE), which no catalogue lists; pg_dump has the same list.
_LISTS_OF_NAMES: Final = (
    *("local_preload_libraries", "search_path", "session_preload_libraries", "shared_preload_libraries"),
    *("temp_tablespaces", "unix_socket_directories"),
)
_NAME_IN_LIST: Final = re.compile(r'\s*(?:(?P<quoted>"(?:[^"]|"")*")|(?P<plain>[^",\s][^",]*))\s*(?:,|$)')
_RELOAD_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.02


def check_settable(connection: sql.Connection, node: Node, names: Collection[str]) -> None:
    """Refuse settings that a reload cannot change.

    Raises:
        RunnerError: the server does not know a setting, or reads it at its start only.
    """
    rows = sql.query(
        connection, "SELECT lower(name), context FROM pg_settings WHERE lower(name) = ANY(%s)", _lower(names)
    )
    contexts = {str(name): str(context) for name, context in rows}
    if unknown := sorted(set(_lower(names)) - set(contexts)):
        way_out = "correct matrix.settings, or load its library"
        raise RunnerError(f"node {node.name} has no setting {', '.join(unknown)}", way_out=way_out)
    at_start = sorted(name for name, context in contexts.items() if context in ("postmaster", "internal"))
    if at_start:
        raise RunnerError(
            f"node {node.name} can change {', '.join(at_start)} only at server start, and the runner does not restart "
            "servers that it did not start",
            way_out="take it out of matrix.settings and make one experiment for each value, restarting the servers "
            "between them, or use the embedded target",
        )


def altered_values(connection: sql.Connection, names: Collection[str]) -> dict[str, str | None]:
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
        rows = _altered_by_pg_settings(connection, names)
    return dict.fromkeys(_lower(names)) | {str(name): str(value) for name, value in rows}


def _altered_by_pg_settings(connection: sql.Connection, names: Collection[str]) -> list[tuple[str, str]]:
    rows = sql.query(
        connection,
        "SELECT lower(name), reset_val, source, sourcefile FROM pg_settings WHERE lower(name) = ANY(%s)",
        _lower(names),
    )
    if any(source == "configuration file" and sourcefile is None for _, _, source, sourcefile in rows):
        problem = "the user may not read the values set by ALTER SYSTEM, so they could not be restored"
        way_out = "GRANT pg_read_all_settings TO the user of target.user, or leave out matrix.settings"
        raise RunnerError(problem, way_out=way_out)
    return [(name, value) for name, value, _, file in rows if str(file).endswith("postgresql.auto.conf")]


def alter_system(connection: sql.Connection, values: Mapping[str, str | None]) -> None:
    """ALTER SYSTEM SET (or RESET, for None) each setting, reload, and wait until the server has read its files.

    Raises:
        RunnerError: the server does not reload.
    """
    for name, value in values.items():
        if value is None:
            sql.query(connection, composing.SQL("ALTER SYSTEM RESET {}").format(sql.dotted(name)))
        else:
            statement = composing.SQL("ALTER SYSTEM SET {} = {}")
            sql.query(connection, statement.format(sql.dotted(name), _assigned(name, value)))
    before = sql.query(connection, "SELECT pg_conf_load_time()")
    sql.query(connection, "SELECT pg_reload_conf()")
    deadline = time.monotonic() + _RELOAD_TIMEOUT_S
    # The server reads its files before it signals sessions: by then, new sessions have the values.
    while sql.query(connection, "SELECT pg_conf_load_time()") == before:
        if time.monotonic() > deadline:
            raise RunnerError("the server does not reload its settings", way_out="check its log")
        time.sleep(_POLL_S)


def _assigned(name: str, value: str) -> composing.Composable:
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


def check_in_force(connection: sql.Connection, node: Node, names: Collection[str]) -> None:
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
            raise RunnerError(problem, way_out="take it out of matrix.settings")
        if source != "configuration file":
            problem = f"node {node.name}: {name} comes from {source}, which overrides ALTER SYSTEM"
            raise RunnerError(problem, way_out="remove that setting of the database, role or command line")


def read_by_node(
    nodes: Sequence[Node], names: Collection[str], connect: Callable[[Node], sql.Connecting]
) -> dict[str, dict[str, str]]:
    """Node -> the values of the settings in force there; empty if no name is given."""
    by_node: dict[str, dict[str, str]] = {}
    for node in nodes if names else ():
        with connect(node) as connection:
            by_node[node.name] = sql.read_settings(connection, names)
    return by_node


def common_settings(by_node: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """The settings, if they are equal on all nodes.

    Example:
        >>> common_settings({"0": {"work_mem": "8MB"}, "1": {"work_mem": "8MB"}})
        {'work_mem': '8MB'}

    Raises:
        RunnerError: two nodes differ.
    """
    first, *others = [dict(settings) for settings in by_node.values()] or [{}]
    for node, settings in zip(list(by_node)[1:], others, strict=True):
        if settings != first:
            found = f"{first} on node {next(iter(by_node))}, {settings} on node {node}"
            problem = f"settings of the matrix differ between nodes: {found}"
            raise RunnerError(problem, way_out="check the settings of the database and the role on that node")
    return first


def _lower(names: Collection[str]) -> list[str]:
    return [name.lower() for name in names]

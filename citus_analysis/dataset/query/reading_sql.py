"""Which SQL only reads, judged by DuckDB's own parser.

The type of a statement alone does not tell: `EXPLAIN ANALYZE` runs what it explains, a common table expression may be
a COPY, PIVOT wraps any statement, and some table functions write (`enable_logging`). So EXPLAIN is unwrapped, the tree
of a SELECT may hold queries only, and table functions are those that are known to read nothing but their arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from citus_analysis.errors import UsageError

if TYPE_CHECKING:
    import duckdb

__all__ = ["require_reading"]

#: SHOW, DESCRIBE, SUMMARIZE, VALUES and FROM are SELECTs to DuckDB. What holds a PIVOT without a list of values is
#: MULTI: DuckDB looks the values up first.
_SELECT: Final = "SELECT"
_PIVOT: Final = "MULTI"

#: What the tree of a query consists of; a COPY, INSERT, UPDATE or DELETE in a common table expression is none of them.
_QUERY_NODES: Final = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
#: Table functions that read no file and change nothing.
_TABLE_FUNCTIONS: Final = frozenset(
    {"unnest", "range", "generate_series", "repeat", "json_each", "json_tree"}
    | {"pragma_table_info", "pragma_show", "pragma_version", "icu_calendar_names", "pg_timezone_names"}
    | {f"duckdb_{name}" for name in ("columns", "functions", "keywords", "settings", "tables", "types", "views")}
)
#: Words that make a statement, or a part of one, other than a query.
_CHANGING_WORDS: Final = frozenset(
    {"ALTER", "ATTACH", "CALL", "COPY", "CREATE", "DELETE", "DETACH", "DROP", "EXECUTE", "EXPORT", "IMPORT", "INSERT"}
    | {"INSTALL", "LOAD", "MERGE", "PRAGMA", "PREPARE", "TRUNCATE", "UPDATE", "VACUUM"}
)

# Within a JSON string quotes are escaped, so that no text of the query looks like these.
_NODE: Final = re.compile(r'"type":"(\w+_NODE)"')
_TABLE_FUNCTION: Final = re.compile(r'"type":"TABLE_FUNCTION".*?"function_name":"((?:[^"\\]|\\.)*)"', re.DOTALL)
_WAY_OUT: Final = "a query reads the dataset's tables; they are changed by `ingest` alone"


def require_reading(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    """Refuse what is not one query that only reads.

    Args:
        connection: any connection; nothing is executed that the query says.
        query: one SELECT, WITH, FROM, VALUES, PIVOT, DESCRIBE, SUMMARIZE or SHOW, or EXPLAIN of one of these.

    Raises:
        UsageError: it is something else, or calls a function that reads files or changes anything.
        duckdb.ParserException: it is not SQL.

    Example:
        >>> import duckdb
        >>> require_reading(duckdb.connect(), "EXPLAIN ANALYZE SELECT 1")
        >>> require_reading(duckdb.connect(), "EXPLAIN ANALYZE COPY (SELECT 1) TO 'x'")
        Traceback (most recent call last):
        citus_analysis.errors.UsageError: SQL: must be one SELECT (a query reads the dataset's tables; they are \
changed by `ingest` alone)
    """
    if "\0" in query or not _is_unicode(query):
        raise UsageError("holds bytes that are no text", place="SQL", way_out="write it in UTF-8, without NUL")
    inner = _explained(connection, query)
    match [statement.type.name for statement in connection.extract_statements(inner)]:
        case [kind] if kind == _SELECT:
            functions = _functions_of_select(connection, inner)
        case [kind] if kind == _PIVOT:
            functions = _functions_of_pivot(connection, inner)
        case _:
            raise _not_one_select()
    refused = next((name for name in functions if name.lower() not in _TABLE_FUNCTIONS), None)
    if refused is not None:
        raise UsageError(f"Permission Error: {refused}() is not a table of the dataset", place="SQL", way_out=_WAY_OUT)


def _not_one_select() -> UsageError:
    return UsageError("must be one SELECT", place="SQL", way_out=_WAY_OUT)


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _functions_of_select(connection: duckdb.DuckDBPyConnection, query: str) -> Iterable[str]:
    """The table functions that a SELECT calls; anything but queries in it is refused."""
    ((tree,),) = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchall()
    nodes = set(_NODE.findall(tree))
    if not nodes or not nodes <= _QUERY_NODES:
        raise _not_one_select()
    return _TABLE_FUNCTION.findall(tree)


def _functions_of_pivot(connection: duckdb.DuckDBPyConnection, query: str) -> Iterable[str]:
    """The same for a PIVOT, of which DuckDB gives no tree: by words."""
    words = list(_words(query))
    if any(word.upper() in _CHANGING_WORDS for word, _ in words):
        raise _not_one_select()
    known = connection.execute("SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'table'")
    names = {str(name) for (name,) in known.fetchall()}
    called = (word.strip('"').lower() for (word, _), (following, _) in pairwise(words) if following == "(")
    return [name for name in called if name in names]


def _explained(connection: duckdb.DuckDBPyConnection, query: str) -> str:
    """What an EXPLAIN explains; any other query as it is."""
    words = list(_words(query))
    if not words or words[0][0].upper() != "EXPLAIN":
        return query
    del words[0]
    while words and words[0][0].upper() in ("ANALYZE", "ANALYSE", "VERBOSE"):
        del words[0]
    rest = _from(query, words)
    return rest if _parses(connection, rest) else _from(query, _after_options(words))


def _parses(connection: duckdb.DuckDBPyConnection, query: str) -> bool:
    import duckdb

    try:
        return bool(connection.extract_statements(query))
    except duckdb.ParserException:
        return False


def _after_options(words: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Behind `(ANALYZE, FORMAT json)`."""
    depth = 0
    for position, (word, _) in enumerate(words):
        depth += (word == "(") - (word == ")")
        if depth == 0:
            return words[position + 1 :]
    return []


def _from(query: str, words: list[tuple[str, int]]) -> str:
    return query.encode()[words[0][1] :].decode() if words else ""


def _words(query: str) -> Iterator[tuple[str, int]]:
    """Words, quoted names and signs with the byte at which they begin; neither comments nor strings."""
    import duckdb

    text = query.encode()
    tokens = duckdb.tokenize(query)
    places = pairwise([*(offset for offset, _ in tokens), len(text)])
    for (begin, end), (_, kind) in zip(places, tokens, strict=True):
        if kind not in (duckdb.token_type.comment, duckdb.token_type.string_const):
            yield text[begin:end].decode().strip(), begin

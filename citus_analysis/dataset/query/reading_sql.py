"""Recognise SQL that only reads, with DuckDB's own parser.

The type of a statement is not sufficient: `EXPLAIN ANALYZE` executes its statement, a common table expression may be a
COPY, PIVOT wraps any statement, and some table functions write (`enable_logging`). Therefore EXPLAIN is unwrapped, the
parse tree of a SELECT may contain queries only, and only table functions that read just their arguments are allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from citus_analysis.errors import UsageError

if TYPE_CHECKING:
    import duckdb

#: DuckDB treats SHOW, DESCRIBE, SUMMARIZE, VALUES and FROM as SELECT. A statement with a PIVOT without a list of values
#: is MULTI, because DuckDB queries the values first.
_SELECT: Final = "SELECT"
_PIVOT: Final = "MULTI"

#: Node types of a query's parse tree; a COPY, INSERT, UPDATE or DELETE in a common table expression is not among them.
_QUERY_NODES: Final = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
#: Table functions that read no file and change nothing.
_TABLE_FUNCTIONS: Final = frozenset(
    {"unnest", "range", "generate_series", "repeat", "json_each", "json_tree"}
    | {"pragma_table_info", "pragma_show", "pragma_version", "icu_calendar_names", "pg_timezone_names"}
    | {f"duckdb_{name}" for name in ("columns", "functions", "keywords", "settings", "tables", "types", "views")}
)
#: Keywords that begin a statement, or part of a statement, other than a query.
_CHANGING_WORDS: Final = frozenset(
    {"ALTER", "ATTACH", "CALL", "COPY", "CREATE", "DELETE", "DETACH", "DROP", "EXECUTE", "EXPORT", "IMPORT", "INSERT"}
    | {"INSTALL", "LOAD", "MERGE", "PRAGMA", "PREPARE", "TRUNCATE", "UPDATE", "VACUUM"}
)

# Quotes within a JSON string are escaped, so a string in the query cannot match these patterns.
_NODE: Final = re.compile(r'"type":"(\w+_NODE)"')
_TABLE_FUNCTION: Final = re.compile(r'"type":"TABLE_FUNCTION".*?"function_name":"((?:[^"\\]|\\.)*)"', re.DOTALL)
_WAY_OUT: Final = "a query reads the dataset's tables; they are changed by `ingest` alone"


def require_reading(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    """Raise an error unless the text is a single query that only reads.

    Args:
        connection: any connection; the query is not executed.
        query: one SELECT, WITH, FROM, VALUES, PIVOT, DESCRIBE, SUMMARIZE or SHOW, or EXPLAIN of one of these.

    Raises:
        UsageError: the text is another kind of statement, or calls a function that reads files or changes data.
        duckdb.ParserException: the text is not valid SQL.

    Example:
        >>> import duckdb
        >>> require_reading(duckdb.connect(), "EXPLAIN ANALYZE SELECT 1")
        >>> require_reading(duckdb.connect(), "EXPLAIN ANALYZE COPY (SELECT 1) TO 'x'")
        Traceback (most recent call last):
        citus_analysis.errors.UsageError: SQL: must be one SELECT (a query reads the dataset's tables; they are \
changed by `ingest` alone)
    """
    if "\0" in query or not _is_unicode(query):
        raise UsageError("contains bytes that are not text", place="SQL", way_out="write it in UTF-8, without NUL")
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
    """The table functions that a SELECT calls; raises an error if it contains anything but queries."""
    ((tree,),) = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchall()
    nodes = set(_NODE.findall(tree))
    if not nodes or not nodes <= _QUERY_NODES:
        raise _not_one_select()
    return _TABLE_FUNCTION.findall(tree)


def _functions_of_pivot(connection: duckdb.DuckDBPyConnection, query: str) -> Iterable[str]:
    """The table functions of a PIVOT, for which DuckDB returns no parse tree; determined from its tokens."""
    words = list(_words(query))
    if any(word.upper() in _CHANGING_WORDS for word, _ in words):
        raise _not_one_select()
    known = connection.execute("SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'table'")
    names = {str(name) for (name,) in known.fetchall()}
    called = (word.strip('"').lower() for (word, _), (following, _) in pairwise(words) if following == "(")
    return [name for name in called if name in names]


def _explained(connection: duckdb.DuckDBPyConnection, query: str) -> str:
    """The statement inside an EXPLAIN; any other query unchanged."""
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
    """Position after the options of an EXPLAIN, such as `(ANALYZE, FORMAT json)`."""
    depth = 0
    for position, (word, _) in enumerate(words):
        depth += (word == "(") - (word == ")")
        if depth == 0:
            return words[position + 1 :]
    return []


def _from(query: str, words: list[tuple[str, int]]) -> str:
    return query.encode()[words[0][1] :].decode() if words else ""


def _words(query: str) -> Iterator[tuple[str, int]]:
    """Keywords, quoted names and operators, each with its byte offset; comments and strings are skipped."""
    import duckdb

    text = query.encode()
    tokens = duckdb.tokenize(query)
    places = pairwise([*(offset for offset, _ in tokens), len(text)])
    for (begin, end), (_, kind) in zip(places, tokens, strict=True):
        if kind not in (duckdb.token_type.comment, duckdb.token_type.string_const):
            yield text[begin:end].decode().strip(), begin

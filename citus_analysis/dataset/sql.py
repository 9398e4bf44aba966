"""DuckDB views of the tables of a dataset, locked so that a query can read nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl
from polars import selectors

from citus_analysis.core.frames import convert_to_polars, is_frame
from citus_analysis.dataset.manifest import ParquetPart
from citus_analysis.errors import DatasetError, UsageError, join_first_names
from citus_analysis.runs.set_ups import SETUP_COLUMNS
from citus_analysis.schema import OUTSIDE_DATASET, TABLES

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    import pyarrow.dataset as ds

# Recognise SQL that only reads, with DuckDB's own parser.
#
# The type of a statement is not sufficient: `EXPLAIN ANALYZE` executes its statement, a common table expression may be
# a COPY, PIVOT wraps any statement, and some table functions write (`enable_logging`). Therefore EXPLAIN is unwrapped,
# the parse tree of a SELECT may contain queries only, and only table functions that read just their arguments are
# allowed.

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
        raise UsageError("contains bytes that are not text", place="SQL", hint="write it in UTF-8, without NUL")
    inner = _unwrap_explain(connection, query)
    match [statement.type.name for statement in connection.extract_statements(inner)]:
        case [kind] if kind == _SELECT:
            functions = _list_select_functions(connection, inner)
        case [kind] if kind == _PIVOT:
            functions = _list_pivot_functions(connection, inner)
        case _:
            raise _make_single_select_error()
    refused = next((name for name in functions if name.lower() not in _TABLE_FUNCTIONS), None)
    if refused is not None:
        raise UsageError(f"Permission Error: {refused}() is not a table of the dataset", place="SQL", hint=_WAY_OUT)


def _make_single_select_error() -> UsageError:
    return UsageError("must be one SELECT", place="SQL", hint=_WAY_OUT)


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _list_select_functions(connection: duckdb.DuckDBPyConnection, query: str) -> Iterable[str]:
    """The table functions that a SELECT calls; raises an error if it contains anything but queries."""
    ((tree,),) = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchall()
    nodes = set(_NODE.findall(tree))
    if not nodes or not nodes <= _QUERY_NODES:
        raise _make_single_select_error()
    return _TABLE_FUNCTION.findall(tree)


def _list_pivot_functions(connection: duckdb.DuckDBPyConnection, query: str) -> Iterable[str]:
    """The table functions of a PIVOT, for which DuckDB returns no parse tree; determined from its tokens."""
    words = list(_tokenize_query(query))
    if any(word.upper() in _CHANGING_WORDS for word, _ in words):
        raise _make_single_select_error()
    known = connection.execute("SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'table'")
    names = {str(name) for (name,) in known.fetchall()}
    called = (word.strip('"').lower() for (word, _), (following, _) in pairwise(words) if following == "(")
    return [name for name in called if name in names]


def _unwrap_explain(connection: duckdb.DuckDBPyConnection, query: str) -> str:
    """The statement inside an EXPLAIN; any other query unchanged."""
    words = list(_tokenize_query(query))
    if not words or words[0][0].upper() != "EXPLAIN":
        return query
    del words[0]
    while words and words[0][0].upper() in ("ANALYZE", "ANALYSE", "VERBOSE"):
        del words[0]
    rest = _get_query_remainder(query, words)
    return rest if _is_parsable(connection, rest) else _get_query_remainder(query, _skip_explain_options(words))


def _is_parsable(connection: duckdb.DuckDBPyConnection, query: str) -> bool:
    import duckdb

    try:
        return bool(connection.extract_statements(query))
    except duckdb.ParserException:
        return False


def _skip_explain_options(words: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Position after the options of an EXPLAIN, such as `(ANALYZE, FORMAT json)`."""
    depth = 0
    for position, (word, _) in enumerate(words):
        depth += (word == "(") - (word == ")")
        if depth == 0:
            return words[position + 1 :]
    return []


def _get_query_remainder(query: str, words: list[tuple[str, int]]) -> str:
    return query.encode()[words[0][1] :].decode() if words else ""


def _tokenize_query(query: str) -> Iterator[tuple[str, int]]:
    """Keywords, quoted names and operators, each with its byte offset; comments and strings are skipped."""
    import duckdb

    text = query.encode()
    tokens = duckdb.tokenize(query)
    places = pairwise([*(offset for offset, _ in tokens), len(text)])
    for (begin, end), (_, kind) in zip(places, tokens, strict=True):
        if kind not in (duckdb.token_type.comment, duckdb.token_type.string_const):
            yield text[begin:end].decode().strip(), begin


#: The name under which a query finds what is computed of the set-ups of runs.
SET_UPS: Final = "set_ups"
_SET_UPS_NAME: Final = re.compile(rf"\b{SET_UPS}\b", re.IGNORECASE)
_UNKNOWN_COLUMN: Final = re.compile(r'[Cc]olumn (?:with name |named )?"?(\w+)"?')
#: Functions of DuckDB that take the name of a table, or a query, as a text.
_BY_TEXT: Final = frozenset({"query", "query_table"})

#: What a query contains that lists tables.
_CATALOGUE: Final = re.compile(r"show|desc|duckdb_|pragma_|information_schema|pg_|sqlite_", re.IGNORECASE)
#: Names that DuckDB suggests for an unknown one, on the line after the error.
_CANDIDATES: Final = re.compile(r"^(?:Did you mean|Candidate bindings).*", re.MULTILINE)
#: Times with a zone, whichever it is.
_ANY_ZONE: Final = selectors.datetime(time_zone="*")
#: Variables of the program must not become tables of the query.
_SETTINGS: Final = {"python_enable_replacements": "false"}
#: Further settings of the queries of this thread.
_further_settings: ContextVar[Mapping[str, str]] = ContextVar("further_settings", default={})  # noqa: B039 - not changed


@contextmanager
def query_in_memory() -> Iterator[None]:
    """While this is active, queries write no temporary files: one that needs more memory than there is fails."""
    token = _further_settings.set({"temp_directory": ""})
    try:
        yield
    finally:
        _further_settings.reset(token)


def run_query(
    query: str,
    place: Path | str,
    parts: Mapping[str, Sequence[ParquetPart]],
    rows: Callable[[str], pl.DataFrame | ds.Dataset],
    own: Mapping[str, pl.DataFrame] | None = None,
) -> pl.DataFrame:
    """The rows of one SELECT.

    Args:
        query: the SELECT.
        place: the dataset's folder or URL, for messages.
        parts: the files of each table.
        rows: gives the rows of a table, or its files as a dataset of Arrow, which reads what the query needs.
        own: frames of the caller, by name.

    Raises:
        UsageError: the query is not a single SELECT, has an error, or yields a column type that a frame cannot hold.
        DatasetError: a file of the dataset cannot be read.
    """
    import duckdb

    try:
        with duckdb.connect(":memory:", config={**_SETTINGS, **_further_settings.get()}) as connection:
            require_reading(connection, query)
            mentioned = [name for name in find_mentioned_tables(query) if name not in OUTSIDE_DATASET]
            others = [name for name in TABLES.keys() - OUTSIDE_DATASET if name not in mentioned]
            _register_tables(connection, {name: rows(name) for name in mentioned})
            if _CATALOGUE.search(query):
                _register_empty_tables(connection, others)
            for name, frame in (own or {}).items():
                connection.register(name, frame.to_arrow())
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
            try:
                return _convert_to_frame(connection.sql(query).to_arrow_table())
            except duckdb.CatalogException:
                # The message names the table that may be meant.
                _register_empty_tables(connection, others)
                return _convert_to_frame(connection.sql(query).to_arrow_table())
    except (duckdb.InternalError, duckdb.FatalException):
        raise
    except duckdb.Error as error:
        raise _translate_duckdb_error(error, place, parts) from error


def _register_tables(
    connection: duckdb.DuckDBPyConnection, tables: Mapping[str, pl.DataFrame | pa.Table | ds.Dataset]
) -> None:
    for name, table in tables.items():
        connection.register(name, _convert_to_arrow(table) if isinstance(table, pl.DataFrame) else table)


def _register_empty_tables(connection: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
    """The columns of tables, for what reads the names of all, which takes as long as a small query."""
    _register_tables(connection, {name: TABLES[name].empty().to_arrow() for name in names})


def _convert_to_arrow(frame: pl.DataFrame) -> pa.Table:
    """A table for DuckDB; its categories are texts, as they are in files."""
    return frame.with_columns((selectors.categorical() | selectors.enum()).cast(pl.String)).to_arrow()


def _convert_to_frame(table: pa.Table) -> pl.DataFrame:
    for position, name in enumerate(table.column_names):
        if name in table.column_names[:position]:
            raise UsageError(f"two columns are named {name!r}", place="SQL", hint="name one of them with AS")
    for field in table.schema:
        if _is_foreign(field.type):
            hint = f"cast it: {field.name}::VARCHAR, or epoch({field.name}) for the seconds of an interval"
            raise UsageError(f"column {field.name!r} is of type {field.type}", place="SQL", hint=hint)
    # DuckDB returns times in the time zone of the machine.
    return pl.DataFrame(pl.from_arrow(table)).with_columns(_ANY_ZONE.dt.convert_time_zone("UTC"))


def _is_foreign(kind: pa.DataType) -> bool:
    """Whether polars lacks this type, or a type nested in it (it would panic)."""
    import pyarrow as pa

    if pa.types.is_interval(kind) or pa.types.is_union(kind):
        return True
    return any(_is_foreign(kind.field(number).type) for number in range(kind.num_fields))


def _translate_duckdb_error(
    error: duckdb.Error, place: Path | str, parts: Mapping[str, Sequence[ParquetPart]]
) -> UsageError | DatasetError:
    import duckdb

    # DuckDB shows the position of an error on several lines; the first line holds the message.
    problem = str(error).strip().splitlines()[0]
    where = str(place if isinstance(place, str) else place.resolve())
    if where in problem or isinstance(error, duckdb.IOException):
        hint = "ingest again: sources of missing or damaged files are read again"
        return DatasetError(problem, path=place, hint=hint)
    candidates = _CANDIDATES.search(str(error))
    return UsageError(problem, place="SQL", hint=_choose_hint(problem, candidates.group() if candidates else "", parts))


def find_own_frames(query: str, *scopes: Mapping[str, object]) -> dict[str, pl.DataFrame]:
    """The frames among variables whose names occur in a query; a table of the dataset is never replaced.

    Args:
        query: the query.
        scopes: variables by name, of which the first that has a name gives the frame.

    Example:
        >>> mine = pl.DataFrame({"run_id": [1]})
        >>> list(find_own_frames("SELECT * FROM runs JOIN mine USING (run_id)", {"mine": mine}))
        ['mine']
    """
    found: dict[str, pl.DataFrame] = {}
    for name in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", query)):
        value = next((scope[name] for scope in scopes if name in scope), None)
        if name.lower() not in TABLES and value is not None and is_frame(value):
            found[name] = convert_to_polars(value)
    return found


def find_mentioned_tables(query: str) -> list[str]:
    """Tables whose name occurs anywhere in a query; all tables if the query may compose names.

    Example:
        >>> find_mentioned_tables("SELECT count(*) FROM Shards WHERE run_id NOT IN (SELECT run_id FROM clients)")
        ['shards', 'clients']
    """
    text = query.lower()
    composed = not _BY_TEXT.isdisjoint(re.findall(r"\w+", text))
    return [name for name in TABLES if composed or name in text]


def names_set_ups(query: str) -> bool:
    """Whether a query names the set-ups of runs.

    Example:
        >>> names_set_ups("FROM runs JOIN Set_Ups USING (resource, run_id)"), names_set_ups("SELECT set_up FROM runs")
        (True, False)
    """
    return _SET_UPS_NAME.search(query) is not None


def _choose_hint(problem: str, candidates: str, parts: Mapping[str, Sequence[ParquetPart]]) -> str | None:
    if "does not exist" in problem and problem.startswith("Catalog Error: Table with"):
        filled = sorted(name for name, files in parts.items() if any(part.rows for part in files))
        tables = f"tables with rows: {join_first_names(filled)}" if filled else "no table has rows"
        return f"{candidates} {tables}; all of them: docs/tables.md".strip()
    column = _UNKNOWN_COLUMN.search(problem)
    if column is not None and column[1].lower() in SETUP_COLUMNS:
        return f"it is a column of {SET_UPS}: FROM runs JOIN {SET_UPS} USING (resource, run_id)"
    return candidates or None

"""DuckDB views of the tables of a dataset, locked so that a query can read nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl
from polars import selectors

from citus_analysis.dataset.query.reading_sql import require_reading
from citus_analysis.dataset.storage.encoding import by_partition, is_partition_above, location
from citus_analysis.dataset.storage.manifest import Part
from citus_analysis.errors import DatasetError, UsageError, some_of
from citus_analysis.schema import OUTSIDE_DATASET, PARTITION_KEY, TABLES

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from citus_analysis.dataset.objects.object_reading import ObjectReader

#: Functions of DuckDB that take the name of a table, or a query, as a text.
_BY_TEXT: Final = frozenset({"query", "query_table"})

#: DuckDB's messages if files of a table differ in their columns, or lack a column of the schema.
_OTHER_COLUMNS: Final = re.compile(r"union_by_name|Referenced column .* not found in FROM clause")
#: Names that DuckDB suggests for an unknown one, on the line after the error.
_CANDIDATES: Final = re.compile(r"^(?:Did you mean|Candidate bindings).*", re.MULTILINE)
#: Times with a zone, whichever it is.
_ANY_ZONE: Final = selectors.datetime(time_zone="*")
#: Variables of the program must not become tables of the query.
_SETTINGS: Final = {"python_enable_replacements": "false"}


def run_query(query: str, folder: Path, parts: Mapping[str, Sequence[Part]], sources: pl.LazyFrame) -> pl.DataFrame:
    """The rows of one SELECT.

    Raises:
        UsageError: the query is not a single SELECT, has an error, or yields a column type that a frame cannot hold.
        DatasetError: a file of the dataset cannot be read.
    """
    import duckdb

    try:
        try:
            return _answer(query, folder, parts, sources, of_any_age=False)
        except duckdb.Error as error:
            if not _OTHER_COLUMNS.search(str(error)):
                raise
            return _answer(query, folder, parts, sources, of_any_age=True)
    except (duckdb.InternalError, duckdb.FatalException):
        raise
    except duckdb.Error as error:
        raise _in_our_words(error, folder, parts) from error


def run_query_on_objects(
    query: str, objects: ObjectReader, parts: Mapping[str, Sequence[Part]], sources: pl.LazyFrame
) -> pl.DataFrame:
    """The rows of one SELECT over a dataset on an object store; only the needed parts of files are fetched.

    Raises:
        UsageError: the query is not a single SELECT, has an error, or yields a column type that a frame cannot hold.
        DatasetError: a file of the dataset cannot be read.
    """
    import duckdb

    try:
        with duckdb.connect(":memory:", config=dict(_SETTINGS)) as connection:
            require_reading(connection, query)
            for name in TABLES.keys() - OUTSIDE_DATASET:
                table, files = TABLES[name], parts.get(name, ())
                held = name == "sources" or not files
                rows = sources.collect() if name == "sources" else table.empty()
                connection.register(f"_{name}", rows.to_arrow() if held else objects.dataset(table, files))
                columns = ", ".join(f'"{column.name}"' for column in table)
                connection.execute(f"CREATE VIEW {name} AS SELECT {columns} FROM _{name}")  # noqa: S608 - names are the schema's
            _lock(connection, [])
            return _frame(connection.sql(query).to_arrow_table())
    except (duckdb.InternalError, duckdb.FatalException):
        raise
    except duckdb.Error as error:
        raise _in_our_words(error, objects.place.url, parts) from error


def _answer(
    query: str, folder: Path, parts: Mapping[str, Sequence[Part]], sources: pl.LazyFrame, *, of_any_age: bool
) -> pl.DataFrame:
    import duckdb

    with duckdb.connect(":memory:", config=dict(_SETTINGS)) as connection:
        require_reading(connection, query)
        _create_views(connection, folder.resolve(), parts, sources, of_any_age=of_any_age)
        _lock(connection, [location(folder.resolve(), part) for group in parts.values() for part in group])
        return _frame(connection.sql(query).to_arrow_table())


def _frame(table: pa.Table) -> pl.DataFrame:
    for position, name in enumerate(table.column_names):
        if name in table.column_names[:position]:
            raise UsageError(f"two columns are named {name!r}", place="SQL", way_out="name one of them with AS")
    for field in table.schema:
        if _is_foreign(field.type):
            way_out = f"cast it: {field.name}::VARCHAR, or epoch({field.name}) for the seconds of an interval"
            raise UsageError(f"column {field.name!r} is of type {field.type}", place="SQL", way_out=way_out)
    # DuckDB returns times in the time zone of the machine.
    return pl.DataFrame(pl.from_arrow(table)).with_columns(_ANY_ZONE.dt.convert_time_zone("UTC"))


def _is_foreign(kind: pa.DataType) -> bool:
    """Whether polars lacks this type, or a type nested in it (it would panic)."""
    import pyarrow as pa

    if pa.types.is_interval(kind) or pa.types.is_union(kind):
        return True
    return any(_is_foreign(kind.field(number).type) for number in range(kind.num_fields))


def _in_our_words(
    error: duckdb.Error, place: Path | str, parts: Mapping[str, Sequence[Part]]
) -> UsageError | DatasetError:
    import duckdb

    # DuckDB shows the position of an error on several lines; the first line holds the message.
    problem = str(error).strip().splitlines()[0]
    where = str(place if isinstance(place, str) else place.resolve())
    if where in problem or isinstance(error, duckdb.IOException):
        return DatasetError(
            problem, path=place, way_out="ingest again: sources of missing or damaged files are read again"
        )
    candidates = _CANDIDATES.search(str(error))
    return UsageError(problem, place="SQL", way_out=_way_out(problem, candidates.group() if candidates else "", parts))


def _create_views(
    connection: duckdb.DuckDBPyConnection,
    folder: Path,
    parts: Mapping[str, Sequence[Part]],
    sources: pl.LazyFrame,
    *,
    of_any_age: bool,
) -> None:
    """Create a view for each table; `of_any_age` inspects every file, which is slower, and adds absent columns."""
    for name, table in TABLES.items():
        if name in OUTSIDE_DATASET:
            continue
        files = parts.get(name, ())
        columns = ", ".join(f'"{column.name}"' for column in table)
        if name == "sources" or not files:
            frame = sources.collect() if name == "sources" else table.empty()
            connection.register(f"_{name}", frame.to_arrow())
            connection.execute(f"CREATE TABLE {name} AS SELECT {columns} FROM _{name}")  # noqa: S608 - names are the schema's
            continue
        rows = _rows(folder, files, of_any_age=of_any_age)
        if of_any_age:
            present = {str(found[0]) for found in connection.execute(f"DESCRIBE FROM {rows}").fetchall()}
            absent = [f'NULL AS "{column.name}"' for column in table if column.name not in present]
            rows = f"(SELECT {', '.join(['*', *absent])} FROM {rows})"  # noqa: S608 - names are the schema's, paths quoted
        connection.execute(f"CREATE VIEW {name} AS SELECT {columns} FROM {rows}")  # noqa: S608 - names are the schema's, paths quoted


def _rows(folder: Path, parts: Sequence[Part], *, of_any_age: bool) -> str:
    """The SQL expression that reads some parts, including the partition key."""
    if is_partition_above(folder):
        # DuckDB looks for partitions in the whole path, so the resource is stated as a literal here.
        scans = [
            f"SELECT *, {_quoted(resource)} AS {PARTITION_KEY} FROM "  # noqa: S608 - quoted
            f"read_parquet([{_listed(folder, group)}], hive_partitioning = false, union_by_name = {of_any_age})"
            for resource, group in by_partition(parts)
        ]
        return f"({' UNION ALL BY NAME '.join(scans)})"
    options = f"hive_partitioning = true, hive_types = {{'{PARTITION_KEY}': VARCHAR}}, union_by_name = {of_any_age}"
    return f"read_parquet([{_listed(folder, parts)}], {options})"


def _listed(folder: Path, parts: Sequence[Part]) -> str:
    return ", ".join(_quoted(location(folder, part)) for part in parts)


def mentioned(query: str) -> list[str]:
    """Tables whose name occurs anywhere in a query; all tables if the query may compose names.

    Example:
        >>> mentioned("SELECT count(*) FROM Runs WHERE run_id NOT IN (SELECT run_id FROM clients)")
        ['runs', 'clients']
    """
    words = set(re.findall(r"\w+", query.lower()))
    return [name for name in TABLES if name in words or words & _BY_TEXT]


def _lock(connection: duckdb.DuckDBPyConnection, files: Sequence[str]) -> None:
    """Restrict the connection to these files."""
    connection.execute(f"SET allowed_paths = [{', '.join(_quoted(file) for file in files)}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _way_out(problem: str, candidates: str, parts: Mapping[str, Sequence[Part]]) -> str | None:
    if "does not exist" in problem and problem.startswith("Catalog Error: Table with"):
        filled = sorted(name for name, files in parts.items() if any(part.rows for part in files))
        tables = f"tables with rows: {some_of(filled)}" if filled else "no table has rows"
        return f"{candidates} {tables}; all of them: docs/tables.md".strip()
    return candidates or None

"""DuckDB over the tables of a dataset, locked so that a query reads these tables and nothing else."""

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
from citus_analysis.errors import DatasetError, UsageError
from citus_analysis.schema import OUTSIDE_DATASET, PARTITION_KEY, TABLES

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

__all__ = ["mentioned", "run_query"]

#: Functions of DuckDB that take the name of a table, or a query, as a text.
_BY_TEXT: Final = frozenset({"query", "query_table"})

#: What DuckDB says where files of a table differ in their columns, or lack one that the schema has.
_OTHER_COLUMNS: Final = re.compile(r"union_by_name|Referenced column .* not found in FROM clause")
#: Names that DuckDB offers for the one that it does not know, a line below the error.
_CANDIDATES: Final = re.compile(r"^(?:Did you mean|Candidate bindings).*", re.MULTILINE)
#: Times with a zone, whichever it is.
_ANY_ZONE: Final = selectors.datetime(time_zone="*")
#: Variables of the program must not turn into tables of the query.
_SETTINGS: Final = {"python_enable_replacements": "false"}


def run_query(query: str, folder: Path, parts: Mapping[str, Sequence[Part]], sources: pl.LazyFrame) -> pl.DataFrame:
    """The rows of one SELECT.

    Raises:
        UsageError: not one SELECT, an error in it, or a column of a type that a frame cannot hold.
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
        raise _in_our_words(error, folder) from error


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
    # DuckDB gives times in the zone of the machine.
    return pl.DataFrame(pl.from_arrow(table)).with_columns(_ANY_ZONE.dt.convert_time_zone("UTC"))


def _is_foreign(kind: pa.DataType) -> bool:
    """A type that polars has nothing for (it would panic), or that holds one."""
    import pyarrow as pa

    if pa.types.is_interval(kind) or pa.types.is_union(kind):
        return True
    return any(_is_foreign(kind.field(number).type) for number in range(kind.num_fields))


def _in_our_words(error: duckdb.Error, folder: Path) -> UsageError | DatasetError:
    import duckdb

    # DuckDB draws the place of an error over several lines; the first says what is wrong.
    problem = str(error).strip().splitlines()[0]
    if str(folder.resolve()) in problem or isinstance(error, duckdb.IOException):
        return DatasetError(problem, path=folder, way_out="ingest again: what is missing or damaged is read anew")
    candidates = _CANDIDATES.search(str(error))
    return UsageError(problem, place="SQL", way_out=_way_out(problem, candidates.group() if candidates else ""))


def _create_views(
    connection: duckdb.DuckDBPyConnection,
    folder: Path,
    parts: Mapping[str, Sequence[Part]],
    sources: pl.LazyFrame,
    *,
    of_any_age: bool,
) -> None:
    """One view per table; those of any age look into every file, which takes longer, and add absent columns."""
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
    """What gives the rows of some parts, the partition key included."""
    if is_partition_above(folder):
        # DuckDB looks for partitions in the whole path: here the resource must be said in words.
        scans = [
            f"SELECT *, {_quoted(resource)} AS {PARTITION_KEY} FROM "  # noqa: S608 - quoted
            f"read_parquet([{_listed(folder, group)}], hive_partitioning = false, union_by_name = {of_any_age})"
            for resource, group in by_partition(parts)
        ]
        return f"({' UNION ALL BY NAME '.join(scans)})"
    options = f"hive_partitioning = true, hive_types = {{'{PARTITION_KEY}': VARCHAR}}, union_by_name = {of_any_age}"
    return f"read_parquet([{_listed(folder, parts)}], {options})"


def _listed(folder: Path, parts: Sequence[Part]) -> str:
    return ", ".join(_quoted(str(location(folder, part))) for part in parts)


def mentioned(query: str) -> list[str]:
    """Tables whose name stands anywhere in a query; all where it may put names together.

    Example:
        >>> mentioned("SELECT count(*) FROM Runs WHERE run_id NOT IN (SELECT run_id FROM clients)")
        ['runs', 'clients']
    """
    words = set(re.findall(r"\w+", query.lower()))
    return [name for name in TABLES if name in words or words & _BY_TEXT]


def _lock(connection: duckdb.DuckDBPyConnection, files: Sequence[Path]) -> None:
    """Nothing but these files can be opened from here on."""
    connection.execute(f"SET allowed_paths = [{', '.join(_quoted(str(file)) for file in files)}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _way_out(problem: str, candidates: str) -> str | None:
    if "does not exist" in problem and problem.startswith("Catalog Error: Table with"):
        tables = f"tables: {', '.join(sorted(TABLES.keys() - OUTSIDE_DATASET))}"
        return f"{candidates} {tables}".strip()
    return candidates or None

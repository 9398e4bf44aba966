"""DuckDB over the tables of a dataset, locked so that a query reads these tables and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from citus_analysis.dataset.manifest import Part
from citus_analysis.errors import UsageError
from citus_analysis.schema import OUTSIDE_DATASET, PARTITION_KEY, TABLES

if TYPE_CHECKING:
    import duckdb

__all__ = ["run_query"]

#: Statements that only read; SHOW, DESCRIBE and SUMMARIZE are SELECTs to DuckDB, PIVOT is MULTI.
_READING: Final = ("SELECT", "EXPLAIN", "MULTI")
#: What DuckDB says where files of a table differ in their columns, or lack one that the schema has.
_OTHER_COLUMNS: Final = re.compile(r"union_by_name|Referenced column .* not found in FROM clause")


def run_query(query: str, folder: Path, parts: Mapping[str, Sequence[Part]], sources: pl.LazyFrame) -> pl.DataFrame:
    """The rows of one SELECT.

    Raises:
        UsageError: not one SELECT, or an error in it.
    """
    import duckdb

    try:
        try:
            return _answer(query, folder, parts, sources, of_any_age=False)
        except duckdb.Error as error:
            if not _OTHER_COLUMNS.search(str(error)):
                raise
            return _answer(query, folder, parts, sources, of_any_age=True)
    except duckdb.Error as error:
        # DuckDB draws the place of an error over several lines; the first says what is wrong.
        raise UsageError(str(error).strip().splitlines()[0], place="SQL", way_out=_way_out(str(error))) from error


def _answer(
    query: str, folder: Path, parts: Mapping[str, Sequence[Part]], sources: pl.LazyFrame, *, of_any_age: bool
) -> pl.DataFrame:
    import duckdb

    with duckdb.connect(":memory:") as connection:
        _require_select(connection, query)
        _create_views(connection, folder.resolve(), parts, sources, of_any_age=of_any_age)
        _lock(connection, folder.resolve())
        return pl.DataFrame(pl.from_arrow(connection.sql(query).to_arrow_table()))


def _require_select(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    kinds = [statement.type.name for statement in connection.extract_statements(query)]
    if len(kinds) != 1 or kinds[0] not in _READING:
        raise UsageError("must be one SELECT", place="SQL", way_out="a dataset is changed by `ingest` alone")


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
        files = [str(folder / part.path) for part in parts.get(name, ())]
        columns = ", ".join(f'"{column.name}"' for column in table)
        if name == "sources" or not files:
            frame = sources.collect() if name == "sources" else table.empty()
            connection.register(f"_{name}", frame.to_arrow())
            connection.execute(f"CREATE TABLE {name} AS SELECT {columns} FROM _{name}")  # noqa: S608 - names are the schema's
            continue
        listed = ", ".join(_quoted(file) for file in files)
        options = f"hive_partitioning = true, hive_types = {{'{PARTITION_KEY}': VARCHAR}}"
        rows = f"read_parquet([{listed}], {options}, union_by_name = {of_any_age})"
        if of_any_age:
            present = {str(found[0]) for found in connection.execute(f"DESCRIBE FROM {rows}").fetchall()}
            absent = [f'NULL AS "{column.name}"' for column in table if column.name not in present]
            rows = f"(SELECT {', '.join(['*', *absent])} FROM {rows})"  # noqa: S608 - names are the schema's, paths quoted
        connection.execute(f"CREATE VIEW {name} AS SELECT {columns} FROM {rows}")  # noqa: S608 - names are the schema's, paths quoted


def _lock(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    connection.execute(f"SET allowed_directories = [{_quoted(str(folder))}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _way_out(problem: str) -> str | None:
    if "does not exist" in problem and "Table" in problem:
        return f"tables: {', '.join(TABLES.keys() - OUTSIDE_DATASET)}"
    return None

"""DuckDB over the tables of a dataset, locked so that a query reads these tables and nothing else."""

from __future__ import annotations

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


def run_query(query: str, folder: Path, parts: Mapping[str, Sequence[Part]], sources: pl.LazyFrame) -> pl.DataFrame:
    """The rows of one SELECT.

    Raises:
        UsageError: not one SELECT, or an error in it.
    """
    import duckdb

    connection = duckdb.connect(":memory:")
    try:
        _require_select(connection, query)
        _create_views(connection, folder.resolve(), parts, sources)
        _lock(connection, folder.resolve())
        relation = connection.sql(query)
        return pl.DataFrame(pl.from_arrow(relation.to_arrow_table()))
    except duckdb.Error as error:
        # DuckDB draws the place of an error over several lines; the first says what is wrong.
        raise UsageError(str(error).strip().splitlines()[0], place="SQL", way_out=_way_out(str(error))) from error
    finally:
        connection.close()


def _require_select(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    kinds = [statement.type.name for statement in connection.extract_statements(query)]
    if len(kinds) != 1 or kinds[0] not in _READING:
        raise UsageError("must be one SELECT", place="SQL", way_out="a dataset is changed by `ingest` alone")


def _create_views(
    connection: duckdb.DuckDBPyConnection, folder: Path, parts: Mapping[str, Sequence[Part]], sources: pl.LazyFrame
) -> None:
    for name, table in TABLES.items():
        if name in OUTSIDE_DATASET:
            continue
        files = [str(folder / part.path) for part in parts.get(name, ())]
        columns = ", ".join(f'"{column.name}"' for column in table)
        if name == "sources" or not files:
            frame = sources.collect() if name == "sources" else table.empty()
            connection.register(f"_{name}", frame.to_arrow())
            connection.execute(f"CREATE TABLE {name} AS SELECT {columns} FROM _{name}")  # noqa: S608 - from the schema
            continue
        listed = ", ".join(_quoted(file) for file in files)
        connection.execute(
            f"CREATE VIEW {name} AS SELECT {columns} FROM read_parquet([{listed}], hive_partitioning = true, "  # noqa: S608
            f"hive_types = {{'{PARTITION_KEY}': VARCHAR}})"
        )


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

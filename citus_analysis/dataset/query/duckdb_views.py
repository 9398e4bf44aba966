"""DuckDB views of the tables of a dataset, locked so that a query can read nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl
from polars import selectors

from citus_analysis.dataset.query.reading_sql import require_reading
from citus_analysis.dataset.storage.manifest import Part
from citus_analysis.errors import DatasetError, UsageError, some_of
from citus_analysis.schema import OUTSIDE_DATASET, TABLES

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    import pyarrow.dataset as ds

#: Functions of DuckDB that take the name of a table, or a query, as a text.
_BY_TEXT: Final = frozenset({"query", "query_table"})

#: Names that DuckDB suggests for an unknown one, on the line after the error.
_CANDIDATES: Final = re.compile(r"^(?:Did you mean|Candidate bindings).*", re.MULTILINE)
#: Times with a zone, whichever it is.
_ANY_ZONE: Final = selectors.datetime(time_zone="*")
#: Variables of the program must not become tables of the query.
_SETTINGS: Final = {"python_enable_replacements": "false"}


def run_query(
    query: str, place: Path | str, parts: Mapping[str, Sequence[Part]], rows: Callable[[str], pa.Table | ds.Dataset]
) -> pl.DataFrame:
    """The rows of one SELECT.

    Args:
        query: the SELECT.
        place: the dataset's folder or URL, for messages.
        parts: the files of each table.
        rows: gives the rows of a table, of which Arrow reads what the query needs.

    Raises:
        UsageError: the query is not a single SELECT, has an error, or yields a column type that a frame cannot hold.
        DatasetError: a file of the dataset cannot be read.
    """
    import duckdb

    try:
        with duckdb.connect(":memory:", config=dict(_SETTINGS)) as connection:
            require_reading(connection, query)
            for name in TABLES.keys() - OUTSIDE_DATASET:
                connection.register(f"_{name}", rows(name))
                columns = ", ".join(f'"{column.name}"' for column in TABLES[name])
                connection.execute(f"CREATE VIEW {name} AS SELECT {columns} FROM _{name}")  # noqa: S608 - names are the schema's
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
            return _frame(connection.sql(query).to_arrow_table())
    except (duckdb.InternalError, duckdb.FatalException):
        raise
    except duckdb.Error as error:
        raise _in_our_words(error, place, parts) from error


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
        way_out = "ingest again: sources of missing or damaged files are read again"
        return DatasetError(problem, path=place, way_out=way_out)
    candidates = _CANDIDATES.search(str(error))
    return UsageError(problem, place="SQL", way_out=_way_out(problem, candidates.group() if candidates else "", parts))


def mentioned(query: str) -> list[str]:
    """Tables whose name occurs anywhere in a query; all tables if the query may compose names.

    Example:
        >>> mentioned("SELECT count(*) FROM Runs WHERE run_id NOT IN (SELECT run_id FROM clients)")
        ['runs', 'clients']
    """
    words = set(re.findall(r"\w+", query.lower()))
    return [name for name in TABLES if name in words or words & _BY_TEXT]


def _way_out(problem: str, candidates: str, parts: Mapping[str, Sequence[Part]]) -> str | None:
    if "does not exist" in problem and problem.startswith("Catalog Error: Table with"):
        filled = sorted(name for name, files in parts.items() if any(part.rows for part in files))
        tables = f"tables with rows: {some_of(filled)}" if filled else "no table has rows"
        return f"{candidates} {tables}; all of them: docs/tables.md".strip()
    return candidates or None

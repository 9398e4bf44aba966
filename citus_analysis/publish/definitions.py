"""PostgreSQL definitions of the tables of a dataset.

The rows of a derived table (`runs`, `spans`, ...) are stored in a table whose name begins with an underscore; a view
has the name of the derived table, so that its readers do not depend on the storage of the rows. Other tables have their
own names. Table `_published` contains the state of each source or derivation in each table.

Hash values are unsigned 64-bit integers, which PostgreSQL does not have: they are `numeric(20)`. Categories are `text`,
because new words may be added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from citus_analysis.core.column_types import FLAG, HASH, INT32, INT64, REAL, TIME
from citus_analysis.dataset.ingesting.derive import DERIVATIONS
from citus_analysis.schema import TABLES, Column, Table

#: Tables that are computed for a whole resource.
DERIVED: Final = frozenset(name for derivation in DERIVATIONS for name in derivation.outputs)
#: Column by which Citus distributes the rows, so that all rows of a run are on one node.
DISTRIBUTED_BY: Final = "run_id"
#: Table with the states of the published units.
STATES: Final = "_published"

_TYPES: Final = {
    FLAG: "boolean",
    INT32: "integer",
    INT64: "bigint",
    HASH: "numeric(20)",
    REAL: "double precision",
    TIME: "timestamp with time zone",
}


def identifier(name: str) -> str:
    """A name as a quoted SQL identifier.

    Example:
        >>> identifier("Spans of w2")
        '"Spans of w2"'
    """
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as an SQL literal (`standard_conforming_strings = on`).

    Example:
        >>> literal("it's")
        "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def server_type(column: Column) -> str:
    """The type of a column in PostgreSQL, as `format_type` prints it.

    Example:
        >>> server_type(TABLES["spans"]["trace_id"]), server_type(TABLES["spans"]["start_time"])
        ('numeric(20)', 'timestamp with time zone')
    """
    return _TYPES.get(column.type, "text")


def base_name(table: str) -> str:
    """Name of the table that stores the rows.

    Example:
        >>> base_name("log_events"), base_name("runs")
        ('log_events', '_runs')
    """
    return f"_{table}" if table in DERIVED else table


def qualified(schema: str, table: str) -> str:
    """The table that stores the rows, as an identifier with its schema.

    Example:
        >>> print(qualified("bench", "runs"))
        "bench"."_runs"
    """
    return f"{identifier(schema)}.{identifier(base_name(table))}"


def create_table(schema: str, table: Table) -> list[str]:
    """The statements that create the table that stores the rows of a table, with its comments."""
    where = qualified(schema, table.name)
    columns = ", ".join(f"{identifier(column.name)} {server_type(column)}" for column in table)
    key = "source_id" if table.name not in DERIVED else "resource"
    index = identifier(f"{base_name(table.name)}_{key}")
    return [
        f"CREATE TABLE {where} ({columns})",
        f"CREATE INDEX {index} ON {where} ({identifier(key)})",
        *_comments("TABLE", where, table),
    ]


def create_view(schema: str, table: Table) -> list[str]:
    """The statements that create the view of a derived table."""
    where = f"{identifier(schema)}.{identifier(table.name)}"
    columns = ", ".join(identifier(column.name) for column in table)
    return [
        f"DROP VIEW IF EXISTS {where}",
        f"CREATE VIEW {where} AS SELECT {columns} FROM {qualified(schema, table.name)}",  # noqa: S608 - names are the schema's, quoted
        *_comments("VIEW", where, table),
    ]


def placement(schema: str, table: Table, beside: str | None) -> str:
    """The statement by which Citus places a table: distributed by run, or on every node if the table has no runs.

    Args:
        schema: name of the database's schema.
        table: the table.
        beside: name of a table of the schema that is already distributed by run; rows of a run are placed on the same
            node in both tables, so that they can be joined there. None: there is no such table.
    """
    where = literal(qualified(schema, table.name))
    if DISTRIBUTED_BY not in table:
        return f"SELECT create_reference_table({where})"
    other = "none" if beside is None else qualified(schema, beside)
    return f"SELECT create_distributed_table({where}, {literal(DISTRIBUTED_BY)}, colocate_with => {literal(other)})"


def statements_of(schema: str, tables: Sequence[str]) -> Iterator[str]:
    """All definitions for an empty database.

    Args:
        schema: name of the database's schema.
        tables: names of tables of a dataset.

    Example:
        >>> print(next(statements_of("bench", ["runs"])))
        CREATE SCHEMA IF NOT EXISTS "bench"
    """
    yield f"CREATE SCHEMA IF NOT EXISTS {identifier(schema)}"
    yield create_states(schema)
    beside = None
    for name in tables:
        yield from create_table(schema, TABLES[name])
        yield f"-- where the extension citus exists: {placement(schema, TABLES[name], beside)}"
        beside = beside or (name if DISTRIBUTED_BY in TABLES[name] else None)
        if name in DERIVED:
            yield from create_view(schema, TABLES[name])


def create_states(schema: str) -> str:
    """The statement that creates the table of published states."""
    columns = "table_name text, unit text, state text, row_count bigint, PRIMARY KEY (table_name, unit)"
    return f"CREATE TABLE IF NOT EXISTS {qualified(schema, STATES)} ({columns})"


def _comments(kind: str, where: str, table: Table) -> Iterable[str]:
    yield f"COMMENT ON {kind} {where} IS {literal(f'{table.meaning} (source: {table.source})')}"
    for column in table:
        unit = f" [{column.unit}]" if column.unit else ""
        text = f"{column.meaning}{unit}"
        yield f"COMMENT ON COLUMN {where}.{identifier(column.name)} IS {literal(text)}"

"""Bring tables in PostgreSQL up to date with a dataset, in one transaction.

Rows are sent in units: the rows of one source, or of one derivation of one resource, in one table. Table `_published`
contains the state of each unit, the same hash by which an ingest detects changes. Units whose state did not change are
not sent; units that are no longer in the dataset are deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

import polars as pl

from citus_analysis.core.extras import require_extra
from citus_analysis.core.table_definition import FLAG, HASH, INT32, INT64, REAL, TIME
from citus_analysis.dataset.derive import DERIVATIONS
from citus_analysis.dataset.manifest import ParquetPart, SourceState
from citus_analysis.errors import DatasetError, InputError, UsageError, require_known
from citus_analysis.redaction import names_secret
from citus_analysis.schema import OUTSIDE_DATASET, TABLES, Column, Table
from citus_analysis.texts.words import pluralize

if TYPE_CHECKING:
    import pyarrow as pa
    from adbc_driver_manager.dbapi import Cursor

    from citus_analysis.dataset import Dataset

# PostgreSQL definitions of the tables of a dataset.
#
# The rows of a derived table (`runs`, `spans`, ...) are stored in a table whose name begins with an underscore; a view
# has the name of the derived table, so that its readers do not depend on the storage of the rows. Other tables have
# their own names. Table `_published` contains the state of each source or derivation in each table.
#
# Hash values are unsigned 64-bit integers, which PostgreSQL does not have: they are `numeric(20)`. Categories are
# `text`, because new words may be added.

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


def quote_identifier(name: str) -> str:
    """A name as a quoted SQL identifier.

    Example:
        >>> quote_identifier("Spans of w2")
        '"Spans of w2"'
    """
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """A text as an SQL literal (`standard_conforming_strings = on`).

    Example:
        >>> quote_literal("it's")
        "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def get_server_type(column: Column) -> str:
    """The type of a column in PostgreSQL, as `format_type` prints it.

    Example:
        >>> get_server_type(TABLES["spans"]["trace_id"]), get_server_type(TABLES["spans"]["start_time"])
        ('numeric(20)', 'timestamp with time zone')
    """
    return _TYPES.get(column.type, "text")


def get_base_table_name(table: str) -> str:
    """Name of the table that stores the rows.

    Example:
        >>> get_base_table_name("log_events"), get_base_table_name("runs")
        ('log_events', '_runs')
    """
    return f"_{table}" if table in DERIVED else table


def format_qualified_name(schema: str, table: str) -> str:
    """The table that stores the rows, as an identifier with its schema.

    Example:
        >>> print(format_qualified_name("bench", "runs"))
        "bench"."_runs"
    """
    return f"{quote_identifier(schema)}.{quote_identifier(get_base_table_name(table))}"


def create_table(schema: str, table: Table) -> list[str]:
    """The statements that create the table that stores the rows of a table, with its comments."""
    where = format_qualified_name(schema, table.name)
    columns = ", ".join(f"{quote_identifier(column.name)} {get_server_type(column)}" for column in table)
    key = "source_id" if table.name not in DERIVED else "resource"
    index = quote_identifier(f"{get_base_table_name(table.name)}_{key}")
    return [
        f"CREATE TABLE {where} ({columns})",
        f"CREATE INDEX {index} ON {where} ({quote_identifier(key)})",
        *_write_comment_statements("TABLE", where, table),
    ]


def create_view(schema: str, table: Table) -> list[str]:
    """The statements that create the view of a derived table."""
    where = f"{quote_identifier(schema)}.{quote_identifier(table.name)}"
    columns = ", ".join(quote_identifier(column.name) for column in table)
    return [
        f"DROP VIEW IF EXISTS {where}",
        f"CREATE VIEW {where} AS SELECT {columns} FROM {format_qualified_name(schema, table.name)}",  # noqa: S608 - names are the schema's, quoted
        *_write_comment_statements("VIEW", where, table),
    ]


def write_placement_statement(schema: str, table: Table, beside: str | None) -> str:
    """The statement by which Citus places a table: distributed by run, or on every node if the table has no runs.

    Args:
        schema: name of the database's schema.
        table: the table.
        beside: name of a table of the schema that is already distributed by run; rows of a run are placed on the same
            node in both tables, so that they can be joined there. None: there is no such table.
    """
    where = quote_literal(format_qualified_name(schema, table.name))
    if DISTRIBUTED_BY not in table:
        return f"SELECT create_reference_table({where})"
    other = "none" if beside is None else format_qualified_name(schema, beside)
    return (
        f"SELECT create_distributed_table({where}, {quote_literal(DISTRIBUTED_BY)}, colocate_with => "
        f"{quote_literal(other)})"
    )


def write_definition_statements(schema: str, tables: Sequence[str]) -> Iterator[str]:
    """All definitions for an empty database.

    Args:
        schema: name of the database's schema.
        tables: names of tables of a dataset.

    Example:
        >>> print(next(write_definition_statements("bench", ["runs"])))
        CREATE SCHEMA IF NOT EXISTS "bench"
    """
    yield f"CREATE SCHEMA IF NOT EXISTS {quote_identifier(schema)}"
    yield create_states(schema)
    beside = None
    for name in tables:
        yield from create_table(schema, TABLES[name])
        yield f"-- where the extension citus exists: {write_placement_statement(schema, TABLES[name], beside)}"
        beside = beside or (name if DISTRIBUTED_BY in TABLES[name] else None)
        if name in DERIVED:
            yield from create_view(schema, TABLES[name])


def create_states(schema: str) -> str:
    """The statement that creates the table of published states."""
    columns = "table_name text, unit text, state text, row_count bigint, PRIMARY KEY (table_name, unit)"
    return f"CREATE TABLE IF NOT EXISTS {format_qualified_name(schema, STATES)} ({columns})"


def _write_comment_statements(kind: str, where: str, table: Table) -> Iterable[str]:
    yield f"COMMENT ON {kind} {where} IS {quote_literal(f'{table.meaning} (source: {table.source})')}"
    for column in table:
        unit = f" [{column.unit}]" if column.unit else ""
        text = f"{column.meaning}{unit}"
        yield f"COMMENT ON COLUMN {where}.{quote_identifier(column.name)} IS {quote_literal(text)}"


# A connection to the database that tables are published in.
#
# libpq finds the password: in `PGPASSWORD`, a password file or a service file. A password in the URL is refused,
# because other users of the machine see the command line.

_SCHEMES: Final = ("postgresql", "postgres")
_WAY_OUT: Final = "leave it out and set PGPASSWORD, or use a password file (~/.pgpass) or ?service=NAME"


def require_no_password(url: str) -> None:
    """Refuse a text that is not a URL of PostgreSQL, or that contains a password.

    Raises:
        UsageError: with the way out; the URL is not quoted.

    Example:
        >>> require_no_password("postgresql://bench:secret@host/db")
        Traceback (most recent call last):
        citus_analysis.errors.UsageError: --to: the URL holds a password, which others can see \
(leave it out and set PGPASSWORD, or use a password file (~/.pgpass) or ?service=NAME)
    """
    try:
        parts = urlsplit(url)
        password = parts.password
    except ValueError:
        raise UsageError("is not a URL", place="--to", hint="postgresql://USER@HOST:PORT/DATABASE") from None
    if parts.scheme not in _SCHEMES:
        raise UsageError("is not a URL of PostgreSQL", place="--to", hint="postgresql://USER@HOST:PORT/DATABASE")
    if password is not None or any(names_secret(name) for name, _ in parse_qsl(parts.query)):
        raise UsageError("the URL holds a password, which others can see", place="--to", hint=_WAY_OUT)


@contextmanager
def connect_to_database(url: str) -> Iterator[Cursor]:
    """A cursor in one transaction: committed at the end, rolled back after an exception.

    Raises:
        UsageError: the URL is wrong, or the driver is not installed.
        InputError: the server cannot be reached, or refuses something.
    """
    require_no_password(url)
    require_extra("adbc_driver_postgresql", "publish", "publish")
    import adbc_driver_manager
    from adbc_driver_postgresql import dbapi

    parts = urlsplit(url)
    place = f"{parts.hostname or 'local server'}{parts.path}"
    try:
        with dbapi.connect(url) as connection, connection.cursor() as cursor:
            yield cursor
            connection.commit()
    except adbc_driver_manager.Error as error:
        raise InputError(
            _extract_server_message(error), path=place, hint="nothing was changed; publish again"
        ) from error


def _extract_server_message(error: Exception) -> str:
    """The server's message, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines).removeprefix("IO: ").removeprefix("[libpq] ")


#: Must be increased whenever the same rows would be stored differently; all units are then sent again.
_VERSION: Final = 1
_STAGE: Final = "citus_analysis_stage"
#: Ids in one DELETE.
_AT_ONCE: Final = 1000
#: Replacement (U+FFFD) of zero bytes, which PostgreSQL's texts cannot contain.
_INSTEAD_OF_ZERO: Final = "\ufffd"
#: Number of values of an unsigned 64-bit column, which is sent as a signed one.
_BEYOND_SIGNED: Final = 2**64


@dataclass(frozen=True)
class Published:
    """The result of publishing.

    Attributes:
        rows: table -> number of rows sent; unchanged tables are absent.
        deleted: units (sources, derivations) of tables that the dataset no longer has.
        unchanged: units that were up to date.
        distributed: the tables are distributed by Citus.
    """

    rows: Mapping[str, int] = field(default_factory=dict)
    deleted: int = 0
    unchanged: int = 0
    distributed: bool = False

    def __str__(self) -> str:
        """One line."""
        sent = f"{pluralize(sum(self.rows.values()), 'row')} in {pluralize(len(self.rows), 'table')} sent"
        return f"{sent}, {self.unchanged} parts unchanged, {self.deleted} removed"


@dataclass(frozen=True)
class _PublishUnit:
    """The rows of one source or derivation in one table."""

    key: str
    state: str
    parts: tuple[ParquetPart, ...]

    @property
    def rows(self) -> int:
        """Number of its rows."""
        return sum(part.rows for part in self.parts)


def choose_tables(tables: Iterable[str] = ()) -> list[str]:
    """Names of the tables to publish: those given, or all of a dataset.

    Raises:
        UnknownNameError: a dataset has no such table.

    Example:
        >>> choose_tables(["runs", "clients"])
        ['runs', 'clients']
    """
    known = [name for name in TABLES if name not in OUTSIDE_DATASET]
    for name in (given := list(tables)):
        require_known("table", name, known)
    return given or known


def publish_dataset(
    dataset: Dataset, to: str, *, tables: Iterable[str] = (), schema: str = "citus_analysis"
) -> Published:
    """Bring the tables of a schema up to date with a dataset, in one transaction.

    A schema contains one dataset: rows that the dataset no longer has are removed from the chosen tables.

    Args:
        dataset: an open dataset.
        to: URL of the database without a password (`postgresql://user@host/db`).
        tables: names of tables; default: all.
        schema: schema of the database; created if it does not exist.

    Returns:
        Numbers of rows sent and of units removed.

    Raises:
        UsageError: the URL is wrong, or the schema contains another dataset.
        UnknownNameError: a table does not exist.
        InputError: the server cannot be reached, or refuses something; nothing is changed.
    """
    chosen = choose_tables(tables)
    with connect_to_database(to) as cursor:
        cursor.execute(f"SELECT pg_advisory_xact_lock(hashtext({quote_literal('citus_analysis ' + schema)}))")
        distributed = bool(_fetch_query_rows(cursor, "SELECT 1 FROM pg_extension WHERE extname = 'citus'"))
        publication = _Publication(cursor, dataset, schema, distributed)
        publication.prepare(chosen)
        return publication.send({name: _list_publish_units(dataset, name) for name in chosen})


@dataclass(frozen=True)
class _Publication:
    """A transaction that brings the tables of a schema up to date with a dataset.

    Attributes:
        distributed: the tables are distributed by Citus.
    """

    cursor: Cursor
    dataset: Dataset
    schema: str
    distributed: bool

    def prepare(self, tables: Sequence[str]) -> None:
        """Create missing schemas, tables and views, and add columns that were added to the definition of a table."""
        existing = f"SELECT 1 FROM pg_namespace WHERE nspname = {quote_literal(self.schema)}"  # noqa: S608 - quoted
        if not _fetch_query_rows(self.cursor, existing):
            self.cursor.execute(f"CREATE SCHEMA {quote_identifier(self.schema)}")
        found = self._columns()
        if STATES not in found:
            self.cursor.execute(create_states(self.schema))
        beside = self._distributed_table() if self.distributed else None
        for name in tables:
            table, base = TABLES[name], get_base_table_name(name)
            absent = [column for column in table if column.name not in found.get(base, {})]
            if base not in found:
                self._run(create_table(self.schema, table))
                if self.distributed:
                    self.cursor.execute(write_placement_statement(self.schema, table, beside))
                    beside = beside or (name if DISTRIBUTED_BY in table else None)
            else:
                _require_types(self.schema, table, found[base])
                added = (f"ADD COLUMN {quote_identifier(column.name)} {get_server_type(column)}" for column in absent)
                self._run(f"ALTER TABLE {format_qualified_name(self.schema, name)} {column}" for column in added)
            if name in DERIVED and (absent or name not in found):
                self._run(create_view(self.schema, table))

    def send(self, units: Mapping[str, Sequence[_PublishUnit]]) -> Published:
        """Send the units that changed, and delete those that the dataset does not have any more."""
        known: dict[str, dict[str, str]] = {}
        text = f"SELECT table_name, unit, state FROM {format_qualified_name(self.schema, STATES)}"  # noqa: S608 - quoted
        for table, unit, state in _fetch_query_rows(self.cursor, text):
            known.setdefault(str(table), {})[str(unit)] = str(state)
        _require_same_dataset(self.schema, known, units)
        rows: dict[str, int] = {}
        deleted = unchanged = 0
        for name, wanted in units.items():
            there = known.get(name, {})
            changed = [unit for unit in wanted if there.get(unit.key) != unit.state]
            gone = there.keys() - {unit.key for unit in wanted}
            unchanged += len(wanted) - len(changed)
            deleted += len(gone)
            self._delete(name, [*gone, *(unit.key for unit in changed if unit.key in there)])
            if changed:
                self._insert(TABLES[name], changed)
                rows[name] = sum(unit.rows for unit in changed)
        return Published(rows, deleted, unchanged, self.distributed)

    def _distributed_table(self) -> str | None:
        """A table of the schema that is distributed already; None if there is none."""
        query = f"""
            SELECT c.relname::text FROM pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid
            WHERE p.partmethod = 'h' AND c.relnamespace = {quote_literal(quote_identifier(self.schema))}::regnamespace
            ORDER BY 1
        """  # noqa: S608 - quoted
        found = {str(row[0]) for row in _fetch_query_rows(self.cursor, query)}
        return next((name for name in TABLES if get_base_table_name(name) in found), None)

    def _columns(self) -> dict[str, dict[str, str]]:
        """Tables and views of the schema with the types of their columns."""
        query = f"""
            SELECT c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod)
            FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
            WHERE c.relnamespace = {quote_literal(quote_identifier(self.schema))}::regnamespace
              AND c.relkind IN ('r', 'p', 'v') AND a.attnum > 0 AND NOT a.attisdropped
        """  # noqa: S608 - quoted
        found: dict[str, dict[str, str]] = {}
        for table, column, kind in _fetch_query_rows(self.cursor, query):
            found.setdefault(str(table), {})[str(column)] = str(kind)
        return found

    def _run(self, statements: Iterable[str]) -> None:
        for statement in statements:
            self.cursor.execute(statement)

    def _delete(self, name: str, keys: Sequence[str]) -> None:
        """Delete the rows of units, and their states."""
        column = quote_identifier("resource" if name in DERIVED else "source_id")
        for begin in range(0, len(keys), _AT_ONCE):
            listed = ", ".join(map(quote_literal, keys[begin : begin + _AT_ONCE]))
            of_table = f"table_name = {quote_literal(name)} AND unit IN ({listed})"
            self.cursor.execute(f"DELETE FROM {format_qualified_name(self.schema, name)} WHERE {column} IN ({listed})")  # noqa: S608 - quoted
            self.cursor.execute(f"DELETE FROM {format_qualified_name(self.schema, STATES)} WHERE {of_table}")  # noqa: S608 - quoted

    def _insert(self, table: Table, units: Sequence[_PublishUnit]) -> None:
        """Send the rows of units through a temporary table."""
        columns = ", ".join(
            f"{quote_identifier(c.name)} {'bigint' if c.type == HASH else get_server_type(c)}" for c in table
        )
        self.cursor.execute(f"CREATE TEMPORARY TABLE {_STAGE} ({columns}) ON COMMIT DROP")
        self.cursor.adbc_ingest(_STAGE, self._reader(table, units), mode="append", temporary=True)
        names = ", ".join(quote_identifier(column.name) for column in table)
        values = ", ".join(_format_staging_value(column) for column in table)
        where = format_qualified_name(self.schema, table.name)
        self.cursor.execute(f"INSERT INTO {where} ({names}) SELECT {values} FROM {_STAGE}")  # noqa: S608 - quoted
        self.cursor.execute(f"DROP TABLE {_STAGE}")
        states = f"{format_qualified_name(self.schema, STATES)} (table_name, unit, state, row_count)"
        for begin in range(0, len(units), _AT_ONCE):
            some = units[begin : begin + _AT_ONCE]
            listed = ", ".join(
                f"({quote_literal(table.name)}, {quote_literal(unit.key)}, {quote_literal(unit.state)}, {unit.rows})"
                for unit in some
            )
            self.cursor.execute(f"INSERT INTO {states} VALUES {listed}")  # noqa: S608 - quoted

    def _reader(self, table: Table, units: Sequence[_PublishUnit]) -> pa.RecordBatchReader:
        """The rows of units, file by file, so that memory does not depend on their number."""
        import pyarrow as pa

        shape = self._sendable(table.empty(), table).to_arrow().schema
        parts = (part for unit in units for part in unit.parts)
        frames = (self._sendable(self.dataset.scan_parts(table.name, [part]).collect(), table) for part in parts)
        batches = (batch for rows in frames for batch in rows.to_arrow().cast(shape).to_batches())
        return pa.RecordBatchReader.from_batches(shape, batches)

    def _sendable(self, rows: pl.DataFrame, table: Table) -> pl.DataFrame:
        """Rows in types that the driver can send: texts for categories, signed numbers for hash values."""
        columns = []
        for column in table:
            value = pl.col(column.name)
            if column.type == HASH:
                value = value.reinterpret(signed=True)
            elif get_server_type(column) == "text":
                value = value.cast(pl.String).str.replace_all("\0", _INSTEAD_OF_ZERO, literal=True)
            if self.distributed and column.name == DISTRIBUTED_BY:
                # Citus does not allow nulls in the distribution column.
                value = value.fill_null("")
            columns.append(value)
        return rows.select(columns)


def _fetch_query_rows(cursor: Cursor, query: str) -> list[tuple[object, ...]]:
    cursor.execute(query)
    return list(cursor.fetchall())


def _list_publish_units(dataset: Dataset, table: str) -> list[_PublishUnit]:
    """The units that have rows in a table."""
    units = []
    for state in dataset.states():
        parts = tuple(part for part in state.parts if part.table == table)
        key = state.source_id if isinstance(state, SourceState) else state.resource
        if parts:
            units.append(_PublishUnit(key, f"{_VERSION}:{state.state_key}", parts))
    return units


def _require_same_dataset(
    schema: str, known: Mapping[str, Mapping[str, str]], units: Mapping[str, Sequence[_PublishUnit]]
) -> None:
    """Refuse to replace all rows of a schema, because it then contains another dataset."""
    stored = {(table, key) for table, keys in known.items() if table in units for key in keys}
    here = {(table, unit.key) for table, of_table in units.items() for unit in of_table}
    if stored and not stored & here:
        problem = f"holds another dataset: none of its {len(stored)} published parts is in this one"
        raise UsageError(problem, path=schema, hint="name another --schema, or drop this one first")


def _require_types(schema: str, table: Table, found: Mapping[str, str]) -> None:
    for column in table:
        stored = found.get(column.name, get_server_type(column)).replace("numeric(20,0)", "numeric(20)")
        if stored != get_server_type(column):
            problem = f"is of type {stored}, not {get_server_type(column)}"
            place = f"column {column.name}"
            path = f"{schema}.{get_base_table_name(table.name)}"
            raise DatasetError(problem, path=path, place=place, hint="drop the table, or name another --schema")


def _format_staging_value(column: Column) -> str:
    """A column of the staging table as the value of the table's column."""
    name = quote_identifier(column.name)
    if column.type == HASH:
        return f"CASE WHEN {name} < 0 THEN {name}::numeric + {_BEYOND_SIGNED} ELSE {name}::numeric END"
    return name

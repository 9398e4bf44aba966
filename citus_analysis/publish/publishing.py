"""Bring tables in PostgreSQL up to date with a dataset, in one transaction.

Rows are sent in units: the rows of one source, or of one derivation of one resource, in one table. Table `_published`
contains the state of each unit, the same hash by which an ingest detects changes. Units whose state did not change are
not sent; units that are no longer in the dataset are deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import polars as pl

from citus_analysis.core.column_types import HASH
from citus_analysis.dataset.storage.manifest import Part, SourceState
from citus_analysis.errors import DatasetError, UsageError, require_known
from citus_analysis.publish.definitions import (
    DERIVED,
    DISTRIBUTED_BY,
    STATES,
    base_name,
    create_states,
    create_table,
    create_view,
    identifier,
    literal,
    placement,
    qualified,
    server_type,
)
from citus_analysis.publish.session import connected
from citus_analysis.schema import OUTSIDE_DATASET, TABLES, Column, Table
from citus_analysis.texts.counted_words import counted

if TYPE_CHECKING:
    import pyarrow as pa
    from adbc_driver_manager.dbapi import Cursor

    from citus_analysis.dataset import Dataset

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
        sent = f"{counted(sum(self.rows.values()), 'row')} in {counted(len(self.rows), 'table')} sent"
        return f"{sent}, {self.unchanged} parts unchanged, {self.deleted} removed"


@dataclass(frozen=True)
class _Unit:
    """The rows of one source or derivation in one table."""

    key: str
    state: str
    parts: tuple[Part, ...]

    @property
    def rows(self) -> int:
        """Number of its rows."""
        return sum(part.rows for part in self.parts)


def chosen_tables(tables: Iterable[str] = ()) -> list[str]:
    """Names of the tables to publish: those given, or all of a dataset.

    Raises:
        UnknownNameError: a dataset has no such table.

    Example:
        >>> chosen_tables(["runs", "clients"])
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
    chosen = chosen_tables(tables)
    with connected(to) as cursor:
        cursor.execute(f"SELECT pg_advisory_xact_lock(hashtext({literal('citus_analysis ' + schema)}))")
        distributed = bool(_rows(cursor, "SELECT 1 FROM pg_extension WHERE extname = 'citus'"))
        publication = _Publication(cursor, dataset, schema, distributed)
        publication.prepare(chosen)
        return publication.send({name: _units(dataset, name) for name in chosen})


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
        if not _rows(self.cursor, f"SELECT 1 FROM pg_namespace WHERE nspname = {literal(self.schema)}"):  # noqa: S608 - quoted
            self.cursor.execute(f"CREATE SCHEMA {identifier(self.schema)}")
        found = self._columns()
        if STATES not in found:
            self.cursor.execute(create_states(self.schema))
        beside = self._distributed_table() if self.distributed else None
        for name in tables:
            table, base = TABLES[name], base_name(name)
            absent = [column for column in table if column.name not in found.get(base, {})]
            if base not in found:
                self._run(create_table(self.schema, table))
                if self.distributed:
                    self.cursor.execute(placement(self.schema, table, beside))
                    beside = beside or (name if DISTRIBUTED_BY in table else None)
            else:
                _require_types(self.schema, table, found[base])
                added = (f"ADD COLUMN {identifier(column.name)} {server_type(column)}" for column in absent)
                self._run(f"ALTER TABLE {qualified(self.schema, name)} {column}" for column in added)
            if name in DERIVED and (absent or name not in found):
                self._run(create_view(self.schema, table))

    def send(self, units: Mapping[str, Sequence[_Unit]]) -> Published:
        """Send the units that changed, and delete those that the dataset does not have any more."""
        known: dict[str, dict[str, str]] = {}
        text = f"SELECT table_name, unit, state FROM {qualified(self.schema, STATES)}"  # noqa: S608 - quoted
        for table, unit, state in _rows(self.cursor, text):
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
            WHERE p.partmethod = 'h' AND c.relnamespace = {literal(identifier(self.schema))}::regnamespace ORDER BY 1
        """  # noqa: S608 - quoted
        found = {str(row[0]) for row in _rows(self.cursor, query)}
        return next((name for name in TABLES if base_name(name) in found), None)

    def _columns(self) -> dict[str, dict[str, str]]:
        """Tables and views of the schema with the types of their columns."""
        query = f"""
            SELECT c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod)
            FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
            WHERE c.relnamespace = {literal(identifier(self.schema))}::regnamespace AND c.relkind IN ('r', 'p', 'v')
              AND a.attnum > 0 AND NOT a.attisdropped
        """  # noqa: S608 - quoted
        found: dict[str, dict[str, str]] = {}
        for table, column, kind in _rows(self.cursor, query):
            found.setdefault(str(table), {})[str(column)] = str(kind)
        return found

    def _run(self, statements: Iterable[str]) -> None:
        for statement in statements:
            self.cursor.execute(statement)

    def _delete(self, name: str, keys: Sequence[str]) -> None:
        """Delete the rows of units, and their states."""
        column = identifier("resource" if name in DERIVED else "source_id")
        for begin in range(0, len(keys), _AT_ONCE):
            listed = ", ".join(map(literal, keys[begin : begin + _AT_ONCE]))
            of_table = f"table_name = {literal(name)} AND unit IN ({listed})"
            self.cursor.execute(f"DELETE FROM {qualified(self.schema, name)} WHERE {column} IN ({listed})")  # noqa: S608 - quoted
            self.cursor.execute(f"DELETE FROM {qualified(self.schema, STATES)} WHERE {of_table}")  # noqa: S608 - quoted

    def _insert(self, table: Table, units: Sequence[_Unit]) -> None:
        """Send the rows of units through a temporary table."""
        columns = ", ".join(f"{identifier(c.name)} {'bigint' if c.type == HASH else server_type(c)}" for c in table)
        self.cursor.execute(f"CREATE TEMPORARY TABLE {_STAGE} ({columns}) ON COMMIT DROP")
        self.cursor.adbc_ingest(_STAGE, self._reader(table, units), mode="append", temporary=True)
        names = ", ".join(identifier(column.name) for column in table)
        values = ", ".join(_value(column) for column in table)
        where = qualified(self.schema, table.name)
        self.cursor.execute(f"INSERT INTO {where} ({names}) SELECT {values} FROM {_STAGE}")  # noqa: S608 - quoted
        self.cursor.execute(f"DROP TABLE {_STAGE}")
        states = f"{qualified(self.schema, STATES)} (table_name, unit, state, row_count)"
        for begin in range(0, len(units), _AT_ONCE):
            some = units[begin : begin + _AT_ONCE]
            listed = ", ".join(
                f"({literal(table.name)}, {literal(unit.key)}, {literal(unit.state)}, {unit.rows})" for unit in some
            )
            self.cursor.execute(f"INSERT INTO {states} VALUES {listed}")  # noqa: S608 - quoted

    def _reader(self, table: Table, units: Sequence[_Unit]) -> pa.RecordBatchReader:
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
            elif server_type(column) == "text":
                value = value.cast(pl.String).str.replace_all("\0", _INSTEAD_OF_ZERO, literal=True)
            if self.distributed and column.name == DISTRIBUTED_BY:
                # Citus does not allow nulls in the distribution column.
                value = value.fill_null("")
            columns.append(value)
        return rows.select(columns)


def _rows(cursor: Cursor, query: str) -> list[tuple[object, ...]]:
    cursor.execute(query)
    return list(cursor.fetchall())


def _units(dataset: Dataset, table: str) -> list[_Unit]:
    """The units that have rows in a table."""
    units = []
    for state in dataset.states():
        parts = tuple(part for part in state.parts if part.table == table)
        key = state.source_id if isinstance(state, SourceState) else state.resource
        if parts:
            units.append(_Unit(key, f"{_VERSION}:{state.state_key}", parts))
    return units


def _require_same_dataset(
    schema: str, known: Mapping[str, Mapping[str, str]], units: Mapping[str, Sequence[_Unit]]
) -> None:
    """Refuse to replace all rows of a schema, because it then contains another dataset."""
    stored = {(table, key) for table, keys in known.items() if table in units for key in keys}
    here = {(table, unit.key) for table, of_table in units.items() for unit in of_table}
    if stored and not stored & here:
        problem = f"holds another dataset: none of its {len(stored)} published parts is in this one"
        raise UsageError(problem, path=schema, way_out="name another --schema, or drop this one first")


def _require_types(schema: str, table: Table, found: Mapping[str, str]) -> None:
    for column in table:
        stored = found.get(column.name, server_type(column)).replace("numeric(20,0)", "numeric(20)")
        if stored != server_type(column):
            problem = f"is of type {stored}, not {server_type(column)}"
            place = f"column {column.name}"
            path = f"{schema}.{base_name(table.name)}"
            raise DatasetError(problem, path=path, place=place, way_out="drop the table, or name another --schema")


def _value(column: Column) -> str:
    """A column of the staging table as the value of the table's column."""
    name = identifier(column.name)
    if column.type == HASH:
        return f"CASE WHEN {name} < 0 THEN {name}::numeric + {_BEYOND_SIGNED} ELSE {name}::numeric END"
    return name

"""Values of samplers that cannot be: findings that lead to the lines in which they were printed.

The values are those that the column `doubtful` of a table of samples names
(:mod:`citus_analysis.core.possible_values`); they enter no mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Final

import polars as pl

from citus_analysis.core.frames import Frame, TableSource, as_polars, lazy_table
from citus_analysis.core.possible_values.doubtful_values import DOUBTFUL
from citus_analysis.published.checks._run_tables import Cells, RunTables, Weighted, about
from citus_analysis.schema import TABLES, Table
from citus_analysis.texts.counted_words import counted
from citus_analysis.texts.number_text import readable

_SAMPLED: Final = tuple(name for name, table in TABLES.items() if DOUBTFUL in table)
_ORIGIN: Final = ("resource", "run_id", "source_id")
_KIND: Final = (*_ORIGIN, DOUBTFUL)
#: Columns of :func:`doubtful_samples`.
DOUBTFUL_SCHEMA: Final = pl.Schema(
    {
        **dict.fromkeys(("resource", "run_id", "path", "table", DOUBTFUL, "stated", "expected"), pl.String()),
        **dict.fromkeys(("byte_offset", "samples"), pl.Int64()),
    }
)


def doubtful_samples(source: TableSource | Mapping[str, Frame]) -> pl.DataFrame:
    """The doubtful values of all tables of samples, a row for each source, run and combination of columns.

    Args:
        source: a dataset.

    Returns:
        `resource`, `run_id` (null if the source names none), `path` of the source, `table`, `doubtful` (the columns),
        `stated` (the values of the first such sample) and `expected`, its `byte_offset`, and the number of `samples`.
    """
    found = [rows for name in _SAMPLED if (rows := _of_table(source, name)).height]
    if not found:
        return DOUBTFUL_SCHEMA.to_frame()
    paths = lazy_table(source, "sources").select("source_id", "resource", "path").collect()
    named = pl.concat(found).join(paths, on=["source_id", "resource"], how="left", maintain_order="left")
    return named.select(pl.col(name).cast(kind) for name, kind in DOUBTFUL_SCHEMA.items())


def audited(source: TableSource) -> dict[str, pl.DataFrame]:
    """The arguments of :func:`citus_analysis.published.audit_runs`, from a dataset."""
    names = [field.name for field in fields(RunTables) if field.name in TABLES]
    tables = {name: as_polars(source.table(name)) for name in names}
    return tables | {"doubtful_samples": doubtful_samples(source)}


def _of_table(source: TableSource | Mapping[str, Frame], name: str) -> pl.DataFrame:
    samples = lazy_table(source, name)
    # Datasets of older versions lack the column.
    if DOUBTFUL not in samples.collect_schema():
        return pl.DataFrame()
    flagged = as_polars(samples.filter(pl.col(DOUBTFUL).is_not_null()))
    if "byte_offset" not in flagged.columns:
        # Stacks are sums over many lines.
        flagged = flagged.with_columns(byte_offset=pl.lit(None, pl.Int64))
    kinds = flagged.sort("source_id", "byte_offset").group_by(_KIND, maintain_order=True)
    first = kinds.agg(pl.all().first(), _count=pl.len())
    rows = list(first.iter_rows(named=True))
    return first.select(
        *_KIND,
        "byte_offset",
        pl.col("_count").alias("samples"),
        pl.Series("stated", [_stated(row) for row in rows], pl.String),
        pl.Series("expected", [_expected(TABLES[name], row) for row in rows], pl.String),
        table=pl.lit(name),
    )


def _known(row: Cells) -> dict[str, float]:
    """The doubtful values."""
    return {name: value for name in str(row[DOUBTFUL]).split(", ") if isinstance(value := row[name], int | float)}


def _stated(row: Cells) -> str:
    return ", ".join(f"{name} {readable(value)}" for name, value in _known(row).items())


def _expected(table: Table, row: Cells) -> str:
    """The bounds of impossible values, and the relations between the others."""
    known = _known(row)
    ranges = {name: table[name].range for name in known}
    impossible = {name for name, value in known.items() if not ranges[name].holds(value)}
    bounds = [f"{name} {ranges[name]}" for name in known if name in impossible]
    related = [relation for relation in table.relations if len((known.keys() - impossible) & {*relation.members}) > 1]
    return "; ".join([*bounds, *map(str, related)])


def possible_values(tables: RunTables) -> Iterator[Weighted]:
    """Samples whose values lie within what their units and each other allow."""
    for row in tables.doubtful_samples.iter_rows(named=True):
        line = "" if row["byte_offset"] is None else f"byte {row['byte_offset']} of "
        where = f"{line}{row['path']}"
        others = "" if row["samples"] == 1 else f", and {counted(row['samples'] - 1, 'more sample')}"
        cells = {"resource": row["resource"], "run_id": row["run_id"] or row["path"]}
        stated = f"{row['stated']} ({row['table']}; {where}{others})"
        amber = "these values cannot be, and enter no mean"
        yield about(cells, row["expected"], stated, amber=amber, weight=row["samples"])

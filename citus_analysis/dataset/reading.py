"""Parts of a table as one frame, also those that an earlier version of the schema wrote.

A source that vanished keeps its rows, and these keep the columns that the table had when they were written. What
was added since is null in them until the source is read again.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from citus_analysis.dataset.manifest import Part
from citus_analysis.schema import PARTITION_KEY, Column, Table

__all__ = ["scan_table"]


def scan_table(table: Table, folder: Path, parts: Iterable[Part]) -> pl.LazyFrame:
    """The rows of some parts with the table's columns and dtypes; an empty frame where there are none."""
    paths = [folder / part.path for part in parts]
    if not paths:
        return table.empty().lazy()
    stored = {c.name: pl.String() if _is_category(c) else c.dtype for c in table if c.name != PARTITION_KEY}
    scanned = pl.scan_parquet(
        paths,
        hive_partitioning=True,
        hive_schema={PARTITION_KEY: pl.String},
        glob=False,
        cache=False,
        schema=stored,
        missing_columns="insert",
        extra_columns="ignore",
    )
    # No cast where none is needed: it would keep filters from skipping whole row groups.
    return scanned.select(pl.col(c.name).cast(c.dtype) if _is_category(c) else pl.col(c.name) for c in table)


def _is_category(column: Column) -> bool:
    return isinstance(column.dtype, pl.Categorical | pl.Enum)

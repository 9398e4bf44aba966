"""Two datasets hold the same rows, whatever files they are in."""

from __future__ import annotations

import polars as pl

from citus_analysis.dataset import Dataset


def sorted_rows(dataset: Dataset, name: str) -> pl.DataFrame:
    """All rows of a table in an order of their own; categories as text, whose codes differ between processes."""
    rows = dataset.table(name)
    texts = [name for name, kind in rows.schema.items() if kind in (pl.Categorical, pl.Enum)]
    rows = rows.with_columns(pl.col(texts).cast(pl.String))
    return rows.sort(rows.columns, nulls_last=True)


def assert_same_rows(one: Dataset, other: Dataset) -> None:
    assert one.tables() == other.tables()
    assert one.content_hash == other.content_hash
    for name in one.tables():
        assert sorted_rows(one, name).equals(sorted_rows(other, name)), name

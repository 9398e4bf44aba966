"""Two datasets hold the same rows, whatever files they are in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from citus_analysis.dataset import Dataset, open_dataset
from citus_analysis.dataset.manifest import ParquetPart
from citus_analysis.dataset.parts import locate_part
from citus_analysis.errors import DatasetError


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


def assert_whole(out: Path | str, local: Dataset) -> None:
    """Whatever is committed is what belongs there."""
    try:
        found = open_dataset(out)
    except DatasetError as error:
        if error.problem not in ("is not a dataset", "does not exist"):
            raise
        return
    expected = {row["source_id"]: row for row in local.table("sources").to_dicts()}
    for row in found.table("sources").to_dicts():
        assert row == expected[row["source_id"]]
    for name in found.tables():
        found.table(name)


def digests(dataset: Dataset, folder: Path) -> dict[str, tuple[int, int]]:
    """Of each table the number of rows and the sum of their hashes, whatever files they are in."""
    found: dict[str, tuple[int, int]] = {}
    texts = pl.col(pl.Categorical, pl.Enum).cast(pl.String)
    for part in parts_of(dataset):
        rows = pl.read_parquet(locate_part(folder, part)).with_columns(texts)
        number, total = found.get(part.table, (0, 0))
        hashes = int(rows.hash_rows(seed=1).to_numpy().sum(dtype=np.uint64))
        found[part.table] = (number + rows.height, (total + hashes) % 2**64)
    return found


def parts_of(dataset: Dataset) -> list[ParquetPart]:
    return [part for state in dataset.states() for part in state.parts]

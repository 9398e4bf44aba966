"""Growth of cumulative counters between two snapshots, with a note if it is unknown.

Example:
    >>> import polars as pl
    >>> from datetime import UTC, datetime
    >>> times = [datetime(2026, 3, 1, 12, 0, second, tzinfo=UTC) for second in (0, 10)]
    >>> nothing = {"reset": [None, None], "since": [None, None], "evicted": [None, None]}
    >>> rows = pl.DataFrame({"sample_time": times, "key": ["", ""], **nothing, "wal_records": [10.0, 25.0]})
    >>> growth("pg_stat_wal", rows, None)[0].select("counter", "value", "total", "note").rows()
    [('wal_records', 15.0, 25.0, None)]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.schema import TABLES

__all__ = ["SINCE", "Snapshot", "growth"]

#: Type of the column `since`.
SINCE: Final = pl.Datetime("us", "UTC")
_TABLE: Final = TABLES["server_counters"].parsed()
_FACTS: Final = ("reset", "since", "evicted")
_BESIDE: Final = ("sample_time", "key", *_FACTS)


@dataclass(frozen=True)
class Snapshot:
    """The newest snapshot so far, with which the next one is compared.

    Attributes:
        sample: its number within the source.
        rows: its entries.
    """

    sample: int
    rows: pl.DataFrame


def growth(
    view: str, rows: pl.DataFrame, before: Snapshot | None, *, alone: bool = True
) -> tuple[pl.DataFrame, Snapshot | None]:
    """Rows of `server_counters` for whole snapshots.

    Args:
        view: name of the view.
        rows: entries with `sample_time`, `key`, `reset` (stats_reset), `since` (time when the entry began to count),
            `evicted` (number of evictions so far), each null if not stated, and one column per counter.
        before: the snapshot before the first of them.
        alone: no snapshot follows. The first snapshot yields rows only if it is also the last: otherwise its counters
            also appear in the differences.

    Returns:
        the rows, and the newest snapshot.
    """
    if rows.is_empty():
        return _TABLE.empty(), before
    whole = rows if before is None else pl.concat([before.rows.select(rows.columns), rows])
    whole = whole.unique(["sample_time", "key"], keep="last", maintain_order=True)
    first = 0 if before is None else before.sample
    numbered = whole.with_columns(sample=pl.col("sample_time").rank("dense").cast(pl.Int32) - 1 + first)
    newest = int(numbered.select(pl.col("sample").max()).item())
    counters = [name for name in rows.columns if name not in _BESIDE]
    has_first = before is None and alone and newest == first
    compared = _compared(numbered, newest).filter(pl.col("sample") > first - has_first)
    grown = _long(view, _with_notes(compared, counters), counters)
    return grown, Snapshot(newest, numbered.filter(sample=newest).drop("sample"))


def _compared(numbered: pl.DataFrame, newest: int) -> pl.DataFrame:
    """Each entry with its values in the previous snapshot (columns `..._before`), and facts about both snapshots."""
    key = ["sample", "key"]
    earlier = numbered.with_columns(pl.col("sample") + 1).filter(pl.col("sample") <= newest)
    there = pl.lit(value=True)
    joined = numbered.with_columns(now=there).join(
        earlier.with_columns(then=there), on=key, how="full", suffix="_before", coalesce=True, nulls_equal=True
    )
    snapshots = numbered.group_by("sample").agg(pl.col("sample_time").first(), evicted=pl.col("evicted").max())
    previous = snapshots.with_columns(pl.col("sample") + 1).rename({"sample_time": "from_time"})
    return (
        joined.drop("sample_time", "sample_time_before", "evicted", "evicted_before")
        .join(snapshots, on="sample", how="left")
        .join(previous, on="sample", how="left", suffix="_before")
        .sort("sample", "key")
    )


def _with_notes(compared: pl.DataFrame, counters: list[str]) -> pl.DataFrame:
    """`note`, and `born`: whether the entry is known to have begun at 0 since the previous snapshot."""
    went_back = pl.any_horizontal(*(pl.col(name) < pl.col(f"{name}_before") for name in counters), False)
    other = {name: pl.col(name).ne_missing(pl.col(f"{name}_before")) for name in ("reset", "since")}
    both = pl.col("now") & pl.col("then")
    stated = pl.col("evicted").is_not_null() & pl.col("evicted_before").is_not_null()
    evictions = stated & (pl.col("evicted") != pl.col("evicted_before"))
    young = (pl.col("since") >= pl.col("from_time")).fill_null(value=False)
    absent = pl.col("then").is_null()
    cleared = absent & (pl.col("reset") >= pl.col("from_time")).fill_null(value=False)
    born = absent & ~cleared & (young | (stated & ~evictions))
    note = (
        pl.when(pl.col("from_time").is_null())
        .then(pl.lit("first"))
        .when(pl.col("now").is_null())
        .then(pl.lit("gone"))
        .when(cleared | (both & (other["reset"] | other["since"])))
        .then(pl.lit("reset"))
        .when(both & went_back)
        .then(pl.lit("decreased"))
        .when(both & evictions & pl.col("since").is_null())
        .then(pl.lit("evictions"))
        .when(absent & ~born)
        .then(pl.lit("new"))
    )
    return compared.with_columns(note=note, born=born)


def _long(view: str, compared: pl.DataFrame, counters: list[str]) -> pl.DataFrame:
    """One row for each entry and counter that one of the two snapshots contains, in the order of the entries."""
    if not counters:
        return _TABLE.empty()
    names = sorted(counters)
    # Row by row, so that nothing has to be sorted: many entries have fifty counters each.
    total = compared.select(names).to_numpy().ravel()
    before = compared.select(f"{name}_before" for name in names).to_numpy().ravel()
    kept = np.flatnonzero(~(np.isnan(total) & np.isnan(before)))
    entry, counter = np.divmod(kept, len(names))
    known = pl.col("note").is_null() | (pl.col("note") == "evictions")
    index = compared.select("sample", "from_time", "sample_time", "key", "note", "born", known=known)
    rows = index.select(pl.all().gather(entry)).with_columns(
        counter=pl.Series(names, dtype=pl.Enum(names)).gather(counter).cast(pl.Categorical),
        total=pl.Series(total[kept], nan_to_null=True),
        before=pl.Series(before[kept], nan_to_null=True),
        view=pl.lit(view),
    )
    base = pl.when("born").then(0.0).otherwise("before")
    return rows.with_columns(value=pl.when("known").then(pl.col("total") - base)).drop("known", "born", "before")

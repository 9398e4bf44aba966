"""Growth of cumulative counters between two snapshots, with a note if it is unknown.

Example:
    >>> import polars as pl
    >>> from datetime import UTC, datetime
    >>> times = [datetime(2026, 3, 1, 12, 0, second, tzinfo=UTC) for second in (0, 10)]
    >>> nothing = {"reset": [None, None], "since": [None, None], "evicted": [None, None]}
    >>> rows = pl.DataFrame({"sample_time": times, "key": ["", ""], **nothing, "wal_records": [10.0, 25.0]})
    >>> pl.DataFrame(growth("pg_stat_wal", rows, None)[0]).select("counter", "value", "total", "note").rows()
    [('wal_records', 15.0, 25.0, None)]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.core.array_types import Floats
from citus_analysis.formats.reading.lines import first_true
from citus_analysis.schema import TABLES

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
    first = 0 if before is None else before.sample
    numbered = _numbered(whole, first)
    newest = int(numbered.select(pl.col("sample").max()).item())
    has_first = before is None and alone and newest == first
    grown = _grown(view, numbered, [] if has_first else [first])
    return grown, Snapshot(newest, numbered.filter(sample=newest).drop("sample"))


def _numbered(rows: pl.DataFrame, first: int) -> pl.DataFrame:
    """The last row of each entry, and the number `sample` of its snapshot."""
    entry = ["sample_time", "key"]
    if rows.select(pl.struct(entry).is_duplicated().any()).item():
        rows = rows.unique(entry, keep="last", maintain_order=True)
    return rows.with_columns(sample=pl.col("sample_time").rank("dense").cast(pl.Int32) + (first - 1))


def _grown(view: str, numbered: pl.DataFrame, left_out: Sequence[int]) -> pl.DataFrame:
    """Rows of all snapshots but those that are left out."""
    counters = [name for name in numbered.columns if name not in (*_BESIDE, "sample")]
    compared = _compared(numbered.drop(counters)).filter(~pl.col("sample").is_in(left_out))
    return _long(view, compared, numbered.select(sorted(counters)))


def _compared(numbered: pl.DataFrame) -> pl.DataFrame:
    """Each entry with facts about both snapshots, and the rows of its values (`row`, and `row_before` of the previous).

    The values themselves are not joined: many entries have fifty counters each.
    """
    key = ["sample", "key"]
    entries = numbered.with_row_index("row")
    snapshots = numbered.group_by("sample").agg(pl.col("sample_time").first(), evicted=pl.col("evicted").max())
    following = pl.col("sample") + 1
    earlier = entries.with_columns(following).filter(pl.col("sample").is_in(snapshots["sample"].to_list()))
    joined = entries.join(earlier, on=key, how="full", suffix="_before", coalesce=True, nulls_equal=True)
    previous = snapshots.with_columns(following).rename({"sample_time": "from_time"})
    return (
        joined.drop("sample_time", "sample_time_before", "evicted", "evicted_before")
        .join(snapshots, on="sample", how="left")
        .join(previous, on="sample", how="left", suffix="_before")
        .sort("sample", "key")
    )


def _long(view: str, compared: pl.DataFrame, values: pl.DataFrame) -> pl.DataFrame:
    """One row for each entry and counter, in the order of the entries; those that neither snapshot states have none."""
    if not values.width:
        return _TABLE.empty()
    numbers = values.to_numpy(order="c")
    total, before = _gathered(numbers, compared["row"]), _gathered(numbers, compared["row_before"])
    noted = _with_notes(compared.with_columns(decreased=pl.Series((total < before).any(axis=1))))
    kept = ~(np.isnan(total) & np.isnan(before))
    before[noted["born"].to_numpy()] = 0.0
    value = total - before
    value[~noted["known"].to_numpy()] = np.nan
    # Mostly all are there, and a view of them is no copy.
    chosen = slice(None) if kept.all() else kept.ravel()
    counter = np.tile(np.arange(values.width, dtype=np.uint32), len(kept))
    facts = noted.select("sample", "from_time", "sample_time", pl.col("key").cast(_TABLE["key"].dtype), "note")
    rows = facts[np.repeat(np.arange(len(kept), dtype=np.uint32), kept.sum(axis=1))].with_columns(
        view=pl.lit(view, _TABLE["view"].dtype),
        counter=pl.Series(values.columns, dtype=_TABLE["counter"].dtype).gather(counter[chosen]),
        value=pl.Series(value.ravel()[chosen], nan_to_null=True),
        total=pl.Series(total.ravel()[chosen], nan_to_null=True),
    )
    return _TABLE.conform(rows)


def _gathered(numbers: Floats, rows: pl.Series) -> Floats:
    """Some rows; NaN where a row is null."""
    found: Floats = numbers[rows.fill_null(0).to_numpy()]
    found[rows.is_null().to_numpy()] = np.nan
    return found


def _with_notes(compared: pl.DataFrame) -> pl.DataFrame:
    """`note`; `known`: whether the growth is; `born`: whether the entry began at 0 since the previous snapshot."""
    other = {name: pl.col(name).ne_missing(pl.col(f"{name}_before")) for name in ("reset", "since")}
    both = pl.col("row").is_not_null() & pl.col("row_before").is_not_null()
    stated = pl.col("evicted").is_not_null() & pl.col("evicted_before").is_not_null()
    evictions = stated & (pl.col("evicted") != pl.col("evicted_before"))
    young = (pl.col("since") >= pl.col("from_time")).fill_null(value=False)
    absent = pl.col("row_before").is_null()
    cleared = absent & (pl.col("reset") >= pl.col("from_time")).fill_null(value=False)
    born = absent & ~cleared & (young | (stated & ~evictions))
    notes = {
        "first": pl.col("from_time").is_null(),
        "gone": pl.col("row").is_null(),
        "reset": cleared | (both & (other["reset"] | other["since"])),
        "decreased": both & pl.col("decreased"),
        "evictions": both & evictions & pl.col("since").is_null(),
        "new": absent & ~born,
    }
    noted = compared.with_columns(note=first_true(notes), born=born)
    return noted.with_columns(known=pl.col("note").is_null() | (pl.col("note") == "evictions"))

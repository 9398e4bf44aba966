r"""Snapshots of a server's cumulative views as CSV with a column for the time, to `server_counters`.

Written by the runner before and after each run, or by hand with::

    SELECT now() AS sample_time, * FROM pg_stat_wal \watch 10          -- in `psql --csv`

One file contains one view: `pg_stat_statements` (with or without the text), `pg_stat_database`, `pg_stat_wal`,
`pg_stat_io` (PostgreSQL 16 and later), `pg_stat_bgwriter`, `pg_stat_checkpointer` (17), or Citus'
`citus_stat_statements` and `citus_stat_counters` (13.1); its columns, in any order, identify it. The header has a
column with the time, as :mod:`citus_analysis.formats.activity` describes, unless a title of `\watch` or the file
states it (:mod:`citus_analysis.formats.parsing.csv_records`, also for the forms in which the rows may stand). Records
with the same time are one snapshot.

Two snapshots give one row for each entry of the view and counter: `value` is the growth of the counter. A difference
is never taken across a reset: `note` is `reset` if `stats_reset` (or the entry's `stats_since`, PostgreSQL 17)
changed and `decreased` if a counter decreased without that. A new entry counts from 0 if the snapshots show that
nothing was evicted in between (the column `dealloc`, of `pg_stat_statements_info`) or that it is younger than the
previous snapshot (`stats_since`); otherwise its value is unknown (`new`). If entries were evicted in between and
`stats_since` is missing, an entry may have been evicted and created again: `evictions`.

Not kept: columns that are not counters (texts, means, smallest and largest times, numbers of connections). A record
whose time or one of whose counters cannot be read is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import polars as pl

from citus_analysis.core.type_aliases import Floats
from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.content import Content
from citus_analysis.formats.parsing.csv_records import Records, parse_header_names, read_records
from citus_analysis.formats.parsing.format import TIMEZONE, Format, Hints, Parsed
from citus_analysis.formats.parsing.lines import make_first_true_expr
from citus_analysis.formats.parsing.time_zones import get_timezone
from citus_analysis.formats.parsing.times import time_column, time_expr
from citus_analysis.schema import TABLES

# Growth of cumulative counters between two snapshots, with a note if it is unknown.

#: Type of the column `since`.
SINCE: Final = pl.Datetime("us", "UTC")
_TABLE: Final = TABLES["server_counters"].parsed()
_FACTS: Final = ("reset", "since", "evicted")
_BESIDE: Final = ("sample_time", "key", *_FACTS)


@dataclass(frozen=True)
class CounterSnapshot:
    """The newest snapshot so far, with which the next one is compared.

    Attributes:
        sample: its number within the source.
        rows: its entries.
    """

    sample: int
    rows: pl.DataFrame


def compute_counter_growth(
    view: str, rows: pl.DataFrame, before: CounterSnapshot | None, *, alone: bool = True
) -> tuple[pl.DataFrame, CounterSnapshot | None]:
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
    numbered = _number_snapshots(whole, first)
    newest = int(numbered.select(pl.col("sample").max()).item())
    has_first = before is None and alone and newest == first
    grown = _build_growth_rows(view, numbered, [] if has_first else [first])
    return grown, CounterSnapshot(newest, numbered.filter(sample=newest).drop("sample"))


def _number_snapshots(rows: pl.DataFrame, first: int) -> pl.DataFrame:
    """The last row of each entry, and the number `sample` of its snapshot."""
    entry = ["sample_time", "key"]
    if rows.select(pl.struct(entry).is_duplicated().any()).item():
        rows = rows.unique(entry, keep="last", maintain_order=True)
    return rows.with_columns(sample=pl.col("sample_time").rank("dense").cast(pl.Int32) + (first - 1))


def _build_growth_rows(view: str, numbered: pl.DataFrame, left_out: Sequence[int]) -> pl.DataFrame:
    """Rows of all snapshots but those that are left out."""
    counters = [name for name in numbered.columns if name not in (*_BESIDE, "sample")]
    compared = _compare_entries(numbered.drop(counters)).filter(~pl.col("sample").is_in(left_out))
    return _melt_counters(view, compared, numbered.select(sorted(counters)))


def _compare_entries(numbered: pl.DataFrame) -> pl.DataFrame:
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


def _melt_counters(view: str, compared: pl.DataFrame, values: pl.DataFrame) -> pl.DataFrame:
    """One row for each entry and counter, in the order of the entries; those that neither snapshot states have none."""
    if not values.width:
        return _TABLE.empty()
    numbers = values.to_numpy(order="c")
    total, before = _gather_rows(numbers, compared["row"]), _gather_rows(numbers, compared["row_before"])
    noted = _add_growth_notes(compared.with_columns(decreased=pl.Series((total < before).any(axis=1))))
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


def _gather_rows(numbers: Floats, rows: pl.Series) -> Floats:
    """Some rows; NaN where a row is null."""
    found: Floats = numbers[rows.fill_null(0).to_numpy()]
    found[rows.is_null().to_numpy()] = np.nan
    return found


def _add_growth_notes(compared: pl.DataFrame) -> pl.DataFrame:
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
    noted = compared.with_columns(note=make_first_true_expr(notes), born=born)
    return noted.with_columns(known=pl.col("note").is_null() | (pl.col("note") == "evictions"))


@dataclass(frozen=True)
class _View:
    """Columns by which a view is recognised, and columns that name its entries."""

    name: str
    signature: frozenset[str]
    keys: tuple[str, ...] = ()


#: In order of precedence: the columns of a later view may also appear in an earlier one.
_VIEWS: Final = (
    _View(
        "citus_stat_statements",
        frozenset({"queryid", "executor", "calls"}),
        ("userid", "dbid", "queryid", "executor", "partition_key"),
    ),
    _View("pg_stat_statements", frozenset({"queryid", "calls"}), ("userid", "dbid", "toplevel", "queryid")),
    _View("pg_stat_io", frozenset({"backend_type", "object", "context"}), ("backend_type", "object", "context")),
    _View("pg_stat_database", frozenset({"datname", "xact_commit", "blks_hit"}), ("datname",)),
    _View("citus_stat_counters", frozenset({"connection_establishment_succeeded", "connection_reused"}), ("name",)),
    _View("pg_stat_wal", frozenset({"wal_records", "wal_fpi", "wal_bytes"})),
    _View("pg_stat_checkpointer", frozenset({"num_timed", "num_requested"})),
    _View("pg_stat_bgwriter", frozenset({"buffers_clean", "maxwritten_clean"})),
)
_NO_COUNTER: Final = re.compile(
    r"(?:min|max|mean|stddev)_.*|.*_(?:min|max|mean|stddev)|numbackends|op_bytes|oid|name|userid|dbid|datid|usesysid|query|"
    r"relid|indexrelid|checksum_last_failure|stats_reset|stats_since|minmax_stats_since|dealloc|toplevel|usename|rolname"
)


def is_counter(column: str) -> bool:
    """Whether a column of a view is a growing counter; other columns are identifiers, texts, means and extremes.

    Example:
        >>> is_counter("xact_commit"), is_counter("datid")
        (True, False)
    """
    return not _NO_COUNTER.fullmatch(column)


@dataclass(frozen=True)
class _Layout:
    """Facts from the header."""

    view: _View
    time: str
    header: Sequence[str]
    keys: Sequence[str]
    counters: Sequence[str]


class ServerViews(Format):
    """Snapshots of a server's statistics views: cumulative counters."""

    name: ClassVar[str] = "server_views"
    version: ClassVar[int] = 3
    tables = ("server_counters",)
    noise = "the header, also where it is repeated"
    options = (TIMEZONE,)

    def detect(self, name: str, head: bytes) -> float:
        """Certain if the header has the columns of one of the views."""
        return 1.0 if _layout(head) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece per block; a block's last snapshot waits for the next block, or the end.

        Raises:
            FormatError: the header is of none of the views, or nothing states the time of the rows.
        """
        layout = _layout(content.head)
        if layout is None:
            raise FormatError("the header is of no view that has counters", place="line 1")
        zone = get_timezone(hints.options)
        held: pl.DataFrame | None = None
        before: CounterSnapshot | None = None
        named = TIMEZONE.value(hints.options)
        for piece in read_records(content, layout.counters, file_time=hints.file_time, timezone=named):
            if isinstance(piece, Parsed):
                yield piece
                continue
            rows = _rows(piece, layout, zone)
            good = rows.filter(pl.col("reason").is_null()).drop("offset", "reason")
            whole, held = _split(good if held is None else pl.concat([held, good]))
            grown, before = compute_counter_growth(layout.view.name, whole, before, alone=False)
            yield piece.parsed({"server_counters": grown}, rows)
        if held is not None and held.height:
            yield Parsed({"server_counters": compute_counter_growth(layout.view.name, held, before)[0]}, 0)


def _layout(head: bytes) -> _Layout | None:
    header = parse_header_names(head)
    time = time_column(header)
    view = next((view for view in _VIEWS if view.signature <= set(header)), None)
    if view is None:
        return None
    # A title above the table, or the file, has it.
    time = time or "sample_time"
    counters = [name for name in header if name not in view.keys and name != time and is_counter(name)]
    return _Layout(view, time, header, [key for key in view.keys if key in header], counters)


def _rows(records: Records, layout: _Layout, zone: str) -> pl.DataFrame:
    """`ENTRY`'s columns and the counters as numbers, `offset`, and `reason` where a cell cannot be read."""
    key = pl.concat_str([pl.col(name).fill_null("") for name in layout.keys] or [pl.lit("")], separator="/")
    times = {"sample_time": layout.time, "reset": "stats_reset", "since": "stats_since"}
    there = {*layout.header, layout.time}
    rows = records.fields.select(
        "offset",
        key=key,
        evicted=pl.col("dealloc").cast(pl.Int64, strict=False) if "dealloc" in there else pl.lit(None, pl.Int64),
        **{
            name: time_expr(pl.col(column), zone) if column in there else pl.lit(None, SINCE)
            for name, column in times.items()
        },
        **{name: pl.col(name) for name in layout.counters},
    )
    return rows.with_columns(reason=_reasons(rows, layout.counters))


def _reasons(rows: pl.DataFrame, counters: Sequence[str]) -> pl.Expr:
    """Why a record is rejected; null for the others."""
    # Columns of reasons are built only for the few counters that have unreadable values, because they take long.
    unread = rows.select((~pl.col(counters).is_finite()).any()).row(0) if counters else ()
    bad = [
        pl.when(~pl.col(name).is_finite()).then(pl.lit(f"{name} is no number"))
        for name, some in zip(counters, unread, strict=True)
        if some
    ]
    return pl.coalesce(pl.when(pl.col("sample_time").is_null()).then(pl.lit("no time")), *bad)


def _split(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Complete snapshots, and the last snapshot, which may continue in the next block."""
    last = pl.col("sample_time") == pl.col("sample_time").tail(1).first()
    return rows.filter(~last), rows.filter(last)


FORMAT: Final = ServerViews()

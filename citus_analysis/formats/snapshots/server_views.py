r"""Snapshots of a server's cumulative views as CSV with a column for the time, to `server_counters`.

Written by the runner before and after each run, or by hand with::

    SELECT now() AS sample_time, * FROM pg_stat_wal \watch 10          -- in `psql --csv`

One file contains one view: `pg_stat_statements` (with or without the text), `pg_stat_database`, `pg_stat_wal`,
`pg_stat_io` (PostgreSQL 16 and later), `pg_stat_bgwriter`, `pg_stat_checkpointer` (17), or Citus'
`citus_stat_statements` and `citus_stat_counters` (13.1); its columns, in any order, identify it. The header has a
column with the time, as :mod:`citus_analysis.formats.snapshots.activity` describes. Records with the same time are one
snapshot.

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

import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats.api.format import Format, Hints, Parsed
from citus_analysis.formats.api.options import TIMEZONE
from citus_analysis.formats.reading.counter_growth import SINCE, Snapshot, growth
from citus_analysis.formats.reading.csv_records import (
    Records,
    header_of,
    read_records,
)
from citus_analysis.formats.sources.content import Content
from citus_analysis.formats.times.snapshot_times import time_column, time_expr
from citus_analysis.formats.times.zones import timezone_of


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
    _View("pg_stat_statements", frozenset({"queryid", "calls", "rows"}), ("userid", "dbid", "toplevel", "queryid")),
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
    version: ClassVar[int] = 2
    tables = ("server_counters",)
    noise = "the header, also where it is repeated"
    options = (TIMEZONE,)

    def detect(self, name: str, head: bytes) -> float:
        """Certain if the header has a time and the columns of one of the views."""
        return 1.0 if _layout(head) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece per block; a block's last snapshot waits for the next block, or the end.

        Raises:
            FormatError: the header is of none of the views, or lacks a time.
        """
        layout = _layout(content.head)
        if layout is None:
            raise FormatError("the header is of no view that has counters, or lacks a time", place="line 1")
        zone = timezone_of(hints.options)
        held: pl.DataFrame | None = None
        before: Snapshot | None = None
        for piece in read_records(content, layout.counters):
            if isinstance(piece, Parsed):
                yield piece
                continue
            rows = _rows(piece, layout, zone)
            good = rows.filter(pl.col("reason").is_null()).drop("offset", "reason")
            whole, held = _split(good if held is None else pl.concat([held, good]))
            grown, before = growth(layout.view.name, whole, before, alone=False)
            yield piece.parsed({"server_counters": grown}, rows)
        if held is not None and held.height:
            yield Parsed({"server_counters": growth(layout.view.name, held, before)[0]}, 0)


def _layout(head: bytes) -> _Layout | None:
    header = header_of(head)
    time = time_column(header)
    view = next((view for view in _VIEWS if view.signature <= set(header)), None)
    if view is None or time is None:
        return None
    counters = [name for name in header if name not in view.keys and name != time and is_counter(name)]
    return _Layout(view, time, header, [key for key in view.keys if key in header], counters)


def _rows(records: Records, layout: _Layout, zone: str) -> pl.DataFrame:
    """`ENTRY`'s columns and the counters as numbers, `offset`, and `reason` where a cell cannot be read."""
    key = pl.concat_str([pl.col(name).fill_null("") for name in layout.keys] or [pl.lit("")], separator="/")
    times = {"sample_time": layout.time, "reset": "stats_reset", "since": "stats_since"}
    there = set(layout.header)
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

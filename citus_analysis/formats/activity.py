r"""Snapshots of `pg_stat_activity` or `citus_stat_activity` as CSV with a column for the time, to `activity_samples`.

Written by the runner each second, or by hand with::

    COPY (SELECT statement_timestamp() AS sample_time, * FROM pg_stat_activity) TO STDOUT (FORMAT csv, HEADER)
    \watch 1                          -- in `psql --csv`: SELECT now() AS sample_time, * FROM pg_stat_activity

The header has a column with the time (`sample_time`, `snapshot_time`, `captured_at`, `now`, `time`, `ts` ...), `pid`
and `wait_event`; every other column may be missing, as versions differ (`backend_type` exists from PostgreSQL 10,
`leader_pid` from 13, `query_id` from 14). Records with the same time are one snapshot; `sample` counts them from 0.

Not kept: the text of the query, which may contain secrets and data, and columns that the table does not define.

Times without an offset are in the zone of the option `timezone` (default UTC). A record is rejected where its time, its
process id or another of its numbers and times cannot be read.

Citus: `gpid` is the column `global_pid`; where that is empty or 0, the application of a child (`citus_internal
gpid=20000030999`) names the session of its parent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.content import Content
from citus_analysis.formats.parsing.csv_records import Records, parse_header_names, read_records
from citus_analysis.formats.parsing.format import TIMEZONE, Format, Hints, Parsed
from citus_analysis.formats.parsing.time_zones import get_timezone
from citus_analysis.formats.parsing.times import time_column, time_expr
from citus_analysis.schema import TABLES

_TABLE: Final = TABLES["activity_samples"].parsed()
#: Column of the table -> column of the view, where the names differ.
_NAMED: Final = {
    "application": "application_name",
    "database": "datname",
    "user": "usename",
    "client_host": "client_addr",
    "gpid": "global_pid",
}
#: Application name of a session that another node of a Citus cluster opened, with the session it works for.
CHILD_APPLICATION: Final = r"^citus_(?:internal|rebalancer|run_command) gpid=([0-9]{1,18})(?:[^0-9]|$)"


class Activity(Format):
    """Snapshots of `pg_stat_activity`: sessions and their wait events."""

    name: ClassVar[str] = "activity"
    version: ClassVar[int] = 2
    tables = ("activity_samples",)
    noise = "the header, also where it is repeated"
    options = (TIMEZONE,)

    def detect(self, name: str, head: bytes) -> float:
        """Certain if the header has a combination of columns that no other view of PostgreSQL has."""
        header = parse_header_names(head)
        return 1.0 if {"pid", "wait_event", "state"} <= set(header) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece per block.

        Raises:
            FormatError: the header lacks `pid`, `wait_event` or `state`, or nothing states the time of the rows.
        """
        header = parse_header_names(content.head)
        # A title above the table, or the file, may have it.
        time = time_column(header) or "sample_time"
        if not self.detect(content.path.name, content.head):
            raise FormatError("the header lacks pid, wait_event or state", place="line 1")
        zone = get_timezone(hints.options)
        named = {one.name: _NAMED.get(one.name, one.name) for one in _TABLE if one.name != "sample"}
        sources = {name: source for name, source in named.items() if source in header} | {"sample_time": time}
        snapshots, last = 0, None
        named_zone = TIMEZONE.value(hints.options)
        for piece in read_records(content, file_time=hints.file_time, timezone=named_zone):
            if isinstance(piece, Parsed):
                yield piece
                continue
            rows = _rows(piece, sources, zone)
            good = rows.filter(pl.col("reason").is_null())
            times = good["sample_time"]
            begins = times.ne_missing(times.shift(fill_value=last)).cast(pl.Int32)
            table = good.drop("offset", "reason").with_columns(sample=begins.cum_sum() + (snapshots - 1))
            if good.height:
                snapshots, last = snapshots + int(begins.sum()), times.item(-1)
            yield piece.parsed({"activity_samples": table}, rows)


def _rows(records: Records, sources: Mapping[str, str], zone: str) -> pl.DataFrame:
    """The table's columns, `offset`, and `reason` if a cell cannot be read."""
    typed = records.fields.select(
        "offset", *(_cast_column(name, pl.col(source), zone).alias(name) for name, source in sources.items())
    )
    return typed.with_columns(gpid=_gpid(sources), reason=_reasons(records.fields, typed, sources))


def _reasons(fields: pl.DataFrame, typed: pl.DataFrame, sources: Mapping[str, str]) -> pl.Expr:
    """The first cell of each record that cannot be read, or is needed but empty."""
    given, read = ({values.name: values for values in frame.iter_columns()} for frame in (fields, typed))
    unread = [
        pl.when(given[source].is_not_null() & read[name].is_null()).then(pl.lit(f"{source} cannot be read"))
        for name, source in sources.items()
        if read[name].null_count() > given[source].null_count()
    ]
    empty = [
        pl.when(read[name].is_null()).then(pl.lit(f"{sources[name]} is empty"))
        for name in ("sample_time", "pid")
        if read[name].null_count()
    ]
    return pl.coalesce(*unread, *empty, pl.lit(None, pl.String))


def _cast_column(name: str, text: pl.Expr, zone: str) -> pl.Expr:
    kind = _TABLE[name].type
    if kind.is_time:
        return time_expr(text, zone)
    if kind.name == "flag":
        return text.replace_strict({"t": True, "true": True, "f": False, "false": False}, default=None)
    if kind.is_integer:
        return text.str.extract(r"^(-?[0-9]{1,19})$").cast(_TABLE[name].dtype, strict=False)
    return text.cast(_TABLE[name].dtype)


def is_from_node() -> pl.Expr:
    """Whether a session of `activity_samples` was opened by another node of the cluster, not by a client."""
    application = pl.col("application").cast(pl.String).fill_null("")
    return pl.col("worker_query").fill_null(value=False) | application.str.contains(CHILD_APPLICATION)


def _gpid(sources: Mapping[str, str]) -> pl.Expr:
    # Citus shows 0 for a session that has no gpid yet.
    stated = pl.when(pl.col("gpid") != 0).then("gpid") if "gpid" in sources else pl.lit(None, pl.Int64)
    if "application" not in sources:
        return stated
    named = pl.col("application").cast(pl.String).str.extract(CHILD_APPLICATION).cast(pl.Int64, strict=False)
    return pl.coalesce(stated, named)


FORMAT: Final = Activity()

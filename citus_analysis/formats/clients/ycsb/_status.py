"""Status lines (`-s`) of a YCSB client as rows of `client_series`.

One row for the line's total over operations, and one for each operation group after it, in any of the three
forms that the measurement types print::

    [READ: Count=100, Max=13287, Min=476, Avg=1799.44, 90=3309, 99=8131, 99.9=13287, 99.99=13287]
    [READ AverageLatency(us)=441.48]
    READ count: 3000, average latency(us): 441.48
"""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.formats.api.name_pairs import name_pairs
from citus_analysis.formats.clients.ycsb._lines import STATUS
from citus_analysis.formats.times.snapshot_times import in_utc

#: What a client shows in each status line, and never twice.
SHOWN: Final = ("log_time", "operations_total")


def _number(text: pl.Expr) -> pl.Expr:
    """Parse numbers in the client's locale (`37,02`); Java prints invalid ones as NaN, U+FFFD or infinity signs."""
    return text.str.replace(",", ".", literal=True).cast(pl.Float64, strict=False).fill_nan(None)


_HDR_GROUP: Final = r"\[[^\[\]]+?: Count=[^\]]*\]"
#: Two forms with the mean only.
_MEAN_GROUP: Final = r"\[[^\[\]:=]+? AverageLatency\((?:us|ms)\)=[^\]]*\]|\S+ count: [0-9]+, average latency\(us\): \S+"
_MEAN_PARTS: Final = (
    r"^\[?(?<section>.+?) (?:count: (?<operations>[0-9]+), average latency\(us\): |AverageLatency\((?<unit>us|ms)\)=)"
    r"(?<mean_us>[^\]]*)\]?$"
)

#: Column -> pattern of its value within a group of each form.
_HDR_FIELDS: Final = name_pairs(
    r"operations=Count max_us=Max min_us=Min mean_us=Avg p90_us=90 p99_us=99 p999_us=99\.9 p9999_us=99\.99"
)
#: The section and the fields of a group as texts, whichever it has.
_HDR_PARTS: Final = (
    pl.col("group").str.extract(r"^\[(.+?): Count=").alias("section"),
    *(pl.col("group").str.extract(rf"[ ]{key}=(.+?)(?:, |\])").alias(name) for name, key in _HDR_FIELDS.items()),
)
_HDR_NUMBERS: Final = _number(pl.col(list(_HDR_FIELDS)))
#: Without operations YCSB prints 0, NaN and the largest integer.
_HDR_MEASURED: Final = (
    pl.col("operations").cast(pl.Int64, strict=False),
    pl.when(pl.col("operations") > 0).then(pl.col([name for name in _HDR_FIELDS if name != "operations"])).name.keep(),
)
#: The printed clock has milliseconds, `sec` only whole seconds; a larger difference means that the clock was set.
_CLOCK_JUMP_S: Final = 1.5


def status_fields(lines: pl.DataFrame, timezone: str) -> pl.DataFrame:
    """Status lines with their fixed fields: `offset`, `log_time` (UTC), `seconds`, `operations_total`, `rest`.

    Repetitions (on the other stream) are left out; lines without a time are never taken for one.
    """
    local = pl.col("1").str.to_datetime("%Y-%m-%d %H:%M:%S:%3f", time_unit="us", strict=False)
    # Separated first, because each expression that names a group would match the pattern again.
    parts = lines.select("offset", pl.col("text").str.extract_groups(STATUS)).unnest("text")
    status = parts.select(
        "offset",
        log_time=in_utc(local, timezone),
        seconds=pl.col("2").cast(pl.Int64, strict=False),
        operations_total=pl.col("3").cast(pl.Int64, strict=False),
        rest=pl.col("4"),
    )
    return status.filter(pl.struct(SHOWN).is_first_distinct() | pl.col("log_time").is_null())


def series_rows(status: pl.DataFrame, start: pl.Expr) -> pl.DataFrame:
    """Rows of `client_series`: per status line its total, then its operations in the order printed.

    The column `offset` is that of the line.

    Args:
        status: a frame of :func:`status_fields`.
        start: the client's start on its own clock, if known.
    """
    by_clock = ((pl.col("log_time") - start).dt.total_milliseconds() / 1000).round(3)
    plausible = (by_clock - pl.col("seconds")).abs() <= _CLOCK_JUMP_S
    timed = status.select(
        "offset",
        "log_time",
        "operations_total",
        "rest",
        elapsed_s=pl.when(plausible).then(by_clock).otherwise(pl.col("seconds").cast(pl.Float64)),
        throughput_ops_s=_number(pl.col("rest").str.extract(r"(\S+) current ops/sec")),
    )
    rows = [timed.drop("rest"), _hdr_rows(timed), _mean_rows(timed)]
    return pl.concat(rows, how="diagonal").sort("offset", maintain_order=True)


def _groups(timed: pl.DataFrame, pattern: str) -> pl.DataFrame:
    groups = pl.col("rest").str.extract_all(pattern).alias("group")
    return timed.select("offset", "elapsed_s", "log_time", groups).explode("group").drop_nulls("group")


def _hdr_rows(timed: pl.DataFrame) -> pl.DataFrame:
    rows = _groups(timed, _HDR_GROUP).select("offset", "elapsed_s", "log_time", *_HDR_PARTS)
    return rows.with_columns(_HDR_NUMBERS).with_columns(_HDR_MEASURED)


def _mean_rows(timed: pl.DataFrame) -> pl.DataFrame:
    parts = _groups(timed, _MEAN_GROUP).with_columns(pl.col("group").str.extract_groups(_MEAN_PARTS)).unnest("group")
    factor = pl.when(pl.col("unit") == "ms").then(1000.0).otherwise(1.0)
    return parts.select(
        *("offset", "elapsed_s", "log_time", "section"),
        pl.col("operations").cast(pl.Int64, strict=False),
        _number(pl.col("mean_us")) * factor,
    )

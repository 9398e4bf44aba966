"""Classification of the lines of an iostat text, what its first lines tell about it, and the beginnings of samples."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import polars as pl

from citus_analysis.formats.api.format import Hints
from citus_analysis.formats.reading.lines import first_true, line_frame
from citus_analysis.formats.reading.sampler_lines import clock_options, is_stamped, split_stamp
from citus_analysis.formats.times.sampler_clock import DATE, TIME

#: Kinds of lines that can begin a sample.
MARKERS: Final = ("time", "cpu_header", "device_header")

_ISO_TIME: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:Z|[+-][0-9]{2}:?[0-9]{2})"
_NUMBERS: Final = r"^\s*-?[0-9][0-9.,%]*(?:\s+-?[0-9][0-9.,%]*)*$"
_BANNER_DATE: Final = r"^\w+ \S+ \(.*?\)\s+(\S*[0-9]\S*)(?:\s+_\S+_)?(?:\s+\([0-9]+ CPUs?\))?$"

#: Kind of a line -> pattern; the first that matches decides.
_KINDS: Final = {
    "blank": r"^$",
    "cpu_header": r"^avg-cpu:\s+%user\s",
    "device_header": r"^(?:Device:?\s.*(?:tps|/s)(?:\s.*)?|\s+\S.*\sDevice)$",
    "time": rf"^(?:Time:\s+{TIME}|{DATE}\s+{TIME}|{_ISO_TIME})$",
    "banner": _BANNER_DATE,
}
#: The kind of a line according to its text alone.
_KIND: Final = first_true({kind: pl.col("text").str.contains(pattern) for kind, pattern in _KINDS.items()})


def classified(lines: pl.DataFrame, *, stamped: bool | None = None) -> pl.DataFrame:
    """Lines with their `kind`; stamps move to a column `stamp` if lines have them (None: detect it)."""
    if is_stamped(lines) if stamped is None else stamped:
        lines = split_stamp(lines)
    kind = pl.col("kind")
    values = (kind == "row") & (kind.shift() == "cpu_header") & pl.col("text").str.contains(_NUMBERS)
    return lines.with_columns(kind=_KIND.fill_null("row")).with_columns(
        kind=pl.when(values).then(pl.lit("cpu_values")).otherwise(kind)
    )


@dataclass(frozen=True)
class Style:
    """Facts about the whole file."""

    stamped: bool
    order: str
    timezone: str
    first_report: bool | None

    @classmethod
    def of_lines(cls, lines: pl.DataFrame, hints: Hints) -> Style:
        """The facts, from the options and the classified lines of the beginning."""
        dated = lines.filter(pl.col("kind").is_in(["banner", "time"]))["text"]
        values = lines.filter(pl.col("kind") == "cpu_values")["text"]
        comma = bool(values.str.contains(r"[0-9],[0-9]").any())
        # A banner's kernel version looks like a date.
        dates = [re.sub(r"^.*\)", "", text) for text in dated]
        return cls("stamp" in lines.columns, *clock_options(dates, hints.options, decimal_comma=comma))


def with_starts(lines: pl.DataFrame) -> pl.DataFrame:
    """Mark the beginnings of samples.

    Adds `segment` (number of banners so far; each run of iostat prints one), `starts` (the line begins a sample),
    `start` (number of the line's sample within the frame, null before the first), `banner_date`, and `omits_first`
    (the segment's banner precedes two empty lines: `-y`).
    """
    kind = pl.col("kind")
    lines = lines.with_columns(segment=(kind == "banner").cum_sum())
    first = (
        lines.filter(kind.is_in(MARKERS))
        .group_by("segment", maintain_order=True)
        .agg(first_kind=kind.first(), first_text=pl.col("text").first())
    )
    starts = (kind == pl.col("first_kind")) & ((kind != "device_header") | (pl.col("text") == pl.col("first_text")))
    started = lines.join(first, on="segment", how="left", maintain_order="left").with_columns(
        starts=starts.fill_null(value=False), banner_date=pl.col("text").str.extract(_BANNER_DATE)
    )
    in_preamble = pl.col("starts").cum_sum().over("segment") == 0
    number = pl.col("starts").cast(pl.Int64).cum_sum() - 1
    return started.with_columns(
        start=pl.when(number >= 0).then(number),
        banner_date=pl.when(kind == "banner").then("banner_date").forward_fill(),
        omits_first=((kind == "blank") & in_preamble).sum().over("segment") > 1,
    ).drop("first_kind", "first_text")


def complete_bytes(data: bytes, offset: int, *, stamped: bool) -> int:
    """Number of bytes before the last run or sample, which may continue in the next block; all if there is only one."""
    lines = with_starts(classified(line_frame(data, offset), stamped=stamped))
    after_first = pl.col("starts").cum_sum().over("segment") > 1
    cuts = lines.filter((pl.col("kind") == "banner") | (pl.col("starts") & after_first))["offset"]
    return int(cuts[-1]) - offset if cuts.len() else len(data)

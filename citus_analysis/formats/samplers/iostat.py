"""`iostat` text output (sysstat 9 to 12): CPU and device reports, once or per interval.

Tables: `cpu_samples`, `device_samples`. Supported: all column sets (plain, `-x`, `-s`, `-xs`, `-d`, `-c`,
`-k`, `-m`, `-h`, `-g`, `-N`, `-j`, `-p`, `--pretty`, `--compact`, `--dec`), with and without `-t`, dates of any
locale that prints numbers (:mod:`citus_analysis.formats.times.sampler_clock`), decimal commas, and files with the
output of several runs of iostat. Sizes become kB.

A *sample* is one report: it begins with its time line, without `-t` with its CPU block, without either with
its first device header. `sample_time` is the time line; without one it is null, unless a logging wrapper
stamped every line. A banner contains only a date, which is not the time of a sample.

`since_boot`: the first report of a run averages since boot, unless `-y` left it out. The text does not show
`-y` itself, but sysstat 10.1.3 to 12.7.6 print one more empty line after the banner under `-y`, and only
then: two empty lines there prove that the first report is an interval. Otherwise (newer versions print the
same with and without `-y`), the first report counts as since boot: at worst one good sample is left out,
but an average over weeks is never included. The option `first_report` overrides both rules.

A last line without line end is rejected: a truncated number is still a valid number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import ClassVar, Final

import polars as pl

from citus_analysis.formats.api.format import Format, Hints, Parsed
from citus_analysis.formats.api.openings import Opening
from citus_analysis.formats.api.options import DATE_ORDER, FIRST_REPORT, TIMEZONE, Option
from citus_analysis.formats.reading.lines import accounted, beginning, chunks, line_frame, parse_each
from citus_analysis.formats.reading.sampler_lines import SYSSTAT_BANNER, may_be_stamped
from citus_analysis.formats.samplers import _iostat_lines as iostat_lines
from citus_analysis.formats.samplers._iostat_lines import Style
from citus_analysis.formats.samplers._iostat_reports import cpu_reports, device_reports
from citus_analysis.formats.sources.content import Block, Content
from citus_analysis.formats.times.sampler_clock import parse_times

_DAY_MS = 86_400_000
#: Lines, of those that are not blank, by which a file is recognised.
_TELLING: Final = 4


@dataclass(frozen=True)
class _Position:
    """State of the previous chunks that a chunk needs."""

    samples: int = 0
    banner_date: str | None = None
    last_time: datetime | None = None


class Iostat(Format):
    """Text output of `iostat` (sysstat)."""

    name: ClassVar[str] = "iostat"
    version: ClassVar[int] = 4
    tables = ("cpu_samples", "device_samples")
    noise = "banners and empty lines"
    options: ClassVar[tuple[Option, ...]] = (TIMEZONE, DATE_ORDER, FIRST_REPORT)
    openings = (
        SYSSTAT_BANNER,
        Opening(b"avg-cpu:", rb"\s+%user\s", repeats=True, continues=True),
        Opening(b"Device", rb":?\s[^\n]*(?:tps|/s)(?:\s|$)", repeats=True, continues=True),
    )

    def detect(self, name: str, head: bytes) -> float:
        """Detects the CPU and device headers, which no other sampler prints."""
        if b"avg-cpu:" not in head and b"Device" not in head:
            return 0.0
        # Whether most lines are stamped decides how they are read.
        lines = iostat_lines.classified(line_frame(head if may_be_stamped(head) else beginning(head, _TELLING)))
        kinds = lines.filter(pl.col("kind") != "blank")["kind"].head(_TELLING).to_list()
        if not {"cpu_header", "device_header"} & set(kinds) or kinds[0] not in {"banner", *iostat_lines.MARKERS}:
            return 0.0
        return 0.95 if kinds[0] == "banner" else 0.8

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Samples in order, in chunks of whole reports."""
        style = Style.of_lines(iostat_lines.classified(line_frame(content.head)), hints)
        blocks = chunks(content, partial(iostat_lines.complete_bytes, stamped=style.stamped))
        yield from parse_each(blocks, partial(_parse_chunk, style), _Position())


def _parse_chunk(style: Style, block: Block, position: _Position) -> tuple[Parsed, _Position]:
    lines = iostat_lines.classified(line_frame(block.data, block.offset), stamped=style.stamped)
    lines = iostat_lines.with_starts(lines)
    samples, position = _samples(lines, style, position)
    lines = lines.join(samples, on="start", how="left", maintain_order="left")
    cpu, lines = cpu_reports(lines)
    devices, lines = device_reports(lines)
    tables = {"cpu_samples": cpu, "device_samples": devices}
    return accounted(tables, lines, pl.col("kind").is_in(["blank", "banner"])), position


def _samples(lines: pl.DataFrame, style: Style, position: _Position) -> tuple[pl.DataFrame, _Position]:
    """One row per sample of the chunk: start, sample, sample_time, since_boot; and the position after it."""
    starts = lines.filter("starts").with_columns(sample=pl.int_range(pl.len(), dtype=pl.Int64) + position.samples)
    starts = starts.with_columns(sample_time=_times(starts, style, position))
    opens = pl.col("start") == pl.col("start").min().over("segment")
    first = (pl.col("sample") == 0) | (pl.col("banner_date").is_not_null() & opens)
    averages = ~pl.col("omits_first") if style.first_report is None else pl.lit(style.first_report)
    samples = starts.select("start", "sample", "sample_time", since_boot=first & averages)
    *_, banner_date = position.banner_date, *lines["banner_date"].drop_nulls().tail(1)
    *_, last_time = position.last_time, *samples["sample_time"].drop_nulls().tail(1)
    return samples, _Position(position.samples + samples.height, banner_date, last_time)


def _times(starts: pl.DataFrame, style: Style, position: _Position) -> pl.Series:
    """Times of samples; a `Time:` line of sysstat 9 gets the banner's date, plus one day after each midnight."""
    date = pl.col("banner_date").fill_null(pl.lit(position.banner_date, pl.String))
    undated = pl.col("text").str.starts_with("Time:")
    raw = (
        pl.when((pl.col("kind") == "time") & undated)
        .then(pl.concat_str(date, pl.col("text").str.strip_prefix("Time:"), separator=" "))
        .when(pl.col("kind") == "time")
        .then("text")
        .otherwise(pl.col("stamp") if style.stamped else pl.lit(None, pl.String))
    )
    frame = starts.select("segment", raw=raw, undated=undated)
    frame = frame.with_columns(time=parse_times(frame["raw"], style.order, style.timezone))
    if not frame["undated"].any():
        return frame["time"]
    time = pl.col("time")
    days = (time < time.shift().over("segment")).fill_null(value=False).cum_sum().over("segment").cast(pl.Int64)
    if position.last_time is not None:
        behind = (pl.lit(position.last_time) - time.first().over("segment")).dt.total_milliseconds()
        missing = (behind / _DAY_MS).ceil().clip(lower_bound=0).cast(pl.Int64)
        days += pl.when(pl.col("segment") == 0).then(missing).otherwise(0)
    return frame.select(time + pl.duration(days=days)).to_series()


FORMAT = Iostat()

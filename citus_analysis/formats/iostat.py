"""`iostat` text output (sysstat 9 to 12): CPU and device reports, once or per interval.

Tables: `cpu_samples`, `device_samples`. Supported: all column sets (plain, `-x`, `-s`, `-xs`, `-d`, `-c`,
`-k`, `-m`, `-h`, `-g`, `-N`, `-j`, `-p`, `--pretty`, `--compact`, `--dec`), with and without `-t`, dates of any
locale that prints numbers (:mod:`citus_analysis.formats.parsing.times`), decimal commas, and files with the
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

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import ClassVar, Final

import polars as pl

from citus_analysis.formats.deliveries.content import Block, Content
from citus_analysis.formats.parsing.format import (
    DATE_ORDER,
    FIRST_REPORT,
    TIMEZONE,
    Format,
    Hints,
    Option,
    Parsed,
    StartMarker,
)
from citus_analysis.formats.parsing.lines import (
    UNTERMINATED,
    build_parsed_lines,
    line_frame,
    make_first_true_expr,
    parse_each,
    split_into_blocks,
    take_first_lines,
)
from citus_analysis.formats.parsing.sampler_lines import (
    CPU,
    DEVICE,
    SYSSTAT_BANNER,
    choose_clock_options,
    fill_derived_await,
    is_stamped,
    may_be_stamped,
    number_expr,
    parse_rows_under_headers,
    split_stamp,
)
from citus_analysis.formats.parsing.times import DATE, TIME, parse_times

# Classification of the lines of an iostat text, what its first lines tell about it, and the beginnings of samples.

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
_KIND: Final = make_first_true_expr({kind: pl.col("text").str.contains(pattern) for kind, pattern in _KINDS.items()})


def classify_iostat_lines(lines: pl.DataFrame, *, stamped: bool | None = None) -> pl.DataFrame:
    """Lines with their `kind`; stamps move to a column `stamp` if lines have them (None: detect it)."""
    if is_stamped(lines) if stamped is None else stamped:
        lines = split_stamp(lines)
    kind = pl.col("kind")
    values = (kind == "row") & (kind.shift() == "cpu_header") & pl.col("text").str.contains(_NUMBERS)
    return lines.with_columns(kind=_KIND.fill_null("row")).with_columns(
        kind=pl.when(values).then(pl.lit("cpu_values")).otherwise(kind)
    )


@dataclass(frozen=True)
class IostatStyle:
    """Facts about the whole file."""

    stamped: bool
    order: str
    timezone: str
    first_report: bool | None

    @classmethod
    def from_lines(cls, lines: pl.DataFrame, hints: Hints) -> IostatStyle:
        """The facts, from the options and the classified lines of the beginning."""
        dated = lines.filter(pl.col("kind").is_in(["banner", "time"]))["text"]
        values = lines.filter(pl.col("kind") == "cpu_values")["text"]
        comma = bool(values.str.contains(r"[0-9],[0-9]").any())
        # A banner's kernel version looks like a date.
        dates = [re.sub(r"^.*\)", "", text) for text in dated]
        return cls("stamp" in lines.columns, *choose_clock_options(dates, hints.options, decimal_comma=comma))


def mark_sample_starts(lines: pl.DataFrame) -> pl.DataFrame:
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
    lines = mark_sample_starts(classify_iostat_lines(line_frame(data, offset), stamped=stamped))
    after_first = pl.col("starts").cum_sum().over("segment") > 1
    cuts = lines.filter((pl.col("kind") == "banner") | (pl.col("starts") & after_first))["offset"]
    return int(cuts[-1]) - offset if cuts.len() else len(data)


# CPU and device reports of iostat as frames of samples, from classified lines.
#
# Both functions add a `reason` to lines that cannot be read.

_IDENTITY: Final = ("sample", "sample_time", "since_boot")


def parse_cpu_reports(lines: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`cpu_samples` rows, and the lines with `reason`."""
    lines = lines.with_columns(header=pl.col("text").shift(), reason=pl.lit(None, pl.String))
    rows = lines.filter((pl.col("kind") == "cpu_values") & pl.col("start").is_not_null())
    samples, lines = parse_rows_under_headers(lines, rows, partial(_parse_report_fields, named=False))
    return samples.with_columns(sampler=pl.lit("iostat")), lines


def parse_device_reports(lines: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`device_samples` rows, and the lines with `reason`."""
    header = pl.when(pl.col("kind") == "device_header").then("text").forward_fill().over("start")
    lines = lines.with_columns(header=header)
    is_row, headed = pl.col("kind") == "row", pl.col("header").is_not_null()
    stray = pl.when(is_row & ~headed).then(pl.lit("no header precedes this line"))
    rows = lines.filter(is_row & headed)
    devices, lines = parse_rows_under_headers(
        lines.with_columns(reason=pl.coalesce("reason", stray)), rows, partial(_parse_report_fields, named=True)
    )
    merged = _merge_blocks(devices) if rows["header"].n_unique() > 1 else devices
    return fill_derived_await(merged.drop("block", strict=False)), lines


def _parse_report_fields(header: str, rows: pl.DataFrame, *, named: bool) -> pl.DataFrame:
    """Rows under one header: numbers, and if `named` a name of one or more words before or after them."""
    names = header.split()
    name_last = named and names[-1] == "Device"
    printed = [name.lstrip("%") for name in (names[:-1] if name_last else names[1:])]
    columns, count = DEVICE if named else CPU, len(printed)
    words = pl.col("words")
    rows = rows.with_columns(words=pl.col("text").str.extract_all(r"\S+"))
    rows = rows.with_columns(
        numbers=words.list.head(count) if name_last else words.list.tail(count),
        name_words=words.list.len().cast(pl.Int64) - count,
    )
    number = pl.col("numbers").list
    values = {
        columns[name][0]: number_expr(number.get(index, null_on_oob=True), columns[name][1])
        for index, name in enumerate(printed)
        if name in columns
    }
    name = (words.list.tail("name_words") if name_last else words.list.head("name_words")).list.join(" ")
    # Only groups are indented if the name comes first; in the other layouts, every line is indented.
    is_group = pl.lit(None, pl.Boolean) if name_last else pl.col("text").str.starts_with(" ")
    own = {"device": name, "is_group": is_group, "block": pl.lit(header)} if named else {}
    fields = rows.select(*_IDENTITY, "offset", "terminated", "name_words", **own, **values)
    reasons = {
        UNTERMINATED: ~pl.col("terminated"),
        f"the header announces {count} numbers": (pl.col("name_words") < 1) if named else (pl.col("name_words") != 0),
        "not a number": ~pl.all_horizontal(True, pl.col(list(values)).is_not_null()),
    }
    return fields.with_columns(reason=make_first_true_expr(reasons)).drop("terminated", "name_words")


def _merge_blocks(devices: pl.DataFrame) -> pl.DataFrame:
    """One row per sample and device: `--pretty` prints reads, writes and discards in blocks of their own."""
    # With -g a device can occur in two groups of one block; its occurrences must stay separate.
    keyed = devices.with_columns(occurrence=pl.int_range(pl.len()).over("sample", "device", "block"))
    return (
        keyed.group_by("sample", "device", "occurrence", maintain_order=True)
        .agg(pl.exclude("sample", "device", "occurrence").drop_nulls().first())
        .drop("occurrence")
    )


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
    version: ClassVar[int] = 5
    tables = ("cpu_samples", "device_samples")
    noise = "banners and empty lines"
    options: ClassVar[tuple[Option, ...]] = (TIMEZONE, DATE_ORDER, FIRST_REPORT)
    start_markers = (
        SYSSTAT_BANNER,
        StartMarker(b"avg-cpu:", rb"\s+%user\s", repeats=True, continues=True),
        StartMarker(b"Device", rb":?\s[^\n]*(?:tps|/s)(?:\s|$)", repeats=True, continues=True),
    )

    def detect(self, name: str, head: bytes) -> float:
        """Detects the CPU and device headers, which no other sampler prints."""
        if b"avg-cpu:" not in head and b"Device" not in head:
            return 0.0
        # Whether most lines are stamped decides how they are read.
        lines = classify_iostat_lines(line_frame(head if may_be_stamped(head) else take_first_lines(head, _TELLING)))
        kinds = lines.filter(pl.col("kind") != "blank")["kind"].head(_TELLING).to_list()
        if not {"cpu_header", "device_header"} & set(kinds) or kinds[0] not in {"banner", *MARKERS}:
            return 0.0
        return 0.95 if kinds[0] == "banner" else 0.8

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Samples in order, in chunks of whole reports."""
        style = IostatStyle.from_lines(classify_iostat_lines(line_frame(content.head)), hints)
        blocks = split_into_blocks(content, partial(complete_bytes, stamped=style.stamped))
        yield from parse_each(blocks, partial(_parse_chunk, style), _Position())


def _parse_chunk(style: IostatStyle, block: Block, position: _Position) -> tuple[Parsed, _Position]:
    lines = classify_iostat_lines(line_frame(block.data, block.offset), stamped=style.stamped)
    lines = mark_sample_starts(_join_folded_rows(lines))
    samples, position = _list_iostat_samples(lines, style, position)
    lines = lines.join(samples, on="start", how="left", maintain_order="left")
    cpu, lines = parse_cpu_reports(lines)
    devices, lines = parse_device_reports(lines)
    tables = {"cpu_samples": cpu, "device_samples": devices}
    return build_parsed_lines(tables, lines, pl.col("kind").is_in(["blank", "banner"])), position


def _join_folded_rows(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines of which a device's name and the numbers below it are one (`-h` of sysstat 10 and 11)."""
    is_row = pl.col("kind") == "row"
    named = is_row & pl.col("text").str.contains(r"^\S+\s*$")
    below = is_row & pl.col("text").str.contains(r"^\s+[0-9.,]+(?:\s+[0-9.,]+)+\s*$")
    marked = lines.with_columns(named=named & below.shift(-1), below=below & named.shift())
    if not marked["named"].any():
        return lines
    next_ = pl.col("text", "length", "terminated").shift(-1).name.prefix("next_")
    joined = marked.with_columns(next_).with_columns(
        text=pl.when("named").then(pl.col("text").str.strip_chars_end() + pl.col("next_text")).otherwise("text"),
        length=pl.when("named").then(pl.col("length") + pl.col("next_length")).otherwise("length"),
        terminated=pl.when("named").then("next_terminated").otherwise("terminated"),
    )
    return joined.filter(~pl.col("below").fill_null(value=False)).select(lines.columns)


def _list_iostat_samples(
    lines: pl.DataFrame, style: IostatStyle, position: _Position
) -> tuple[pl.DataFrame, _Position]:
    """One row per sample of the chunk: start, sample, sample_time, since_boot; and the position after it."""
    starts = lines.filter("starts").with_columns(sample=pl.int_range(pl.len(), dtype=pl.Int64) + position.samples)
    starts = starts.with_columns(sample_time=_parse_iostat_times(starts, style, position))
    opens = pl.col("start") == pl.col("start").min().over("segment")
    first = (pl.col("sample") == 0) | (pl.col("banner_date").is_not_null() & opens)
    averages = ~pl.col("omits_first") if style.first_report is None else pl.lit(style.first_report)
    samples = starts.select("start", "sample", "sample_time", since_boot=first & averages)
    *_, banner_date = position.banner_date, *lines["banner_date"].drop_nulls().tail(1)
    *_, last_time = position.last_time, *samples["sample_time"].drop_nulls().tail(1)
    return samples, _Position(position.samples + samples.height, banner_date, last_time)


def _parse_iostat_times(starts: pl.DataFrame, style: IostatStyle, position: _Position) -> pl.Series:
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

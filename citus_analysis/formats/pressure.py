r"""Dumps of `/proc/pressure` that were taken by hand.

Table: `pressure_samples`. The dumps are output of `cat`, `grep`, `head` or `tail`, once or in a loop, with or without
times::

    while date -Is; do cat /proc/pressure/*; sleep 1; done
    while date +%s.%N; do grep . /proc/pressure/*; sleep 1; done
    tail -n +1 /proc/pressure/*

    2026-11-22T14:19:54+00:00
    /proc/pressure/cpu:some avg10=18.59 avg60=9.37 avg300=23.04 total=195225869
    /proc/pressure/cpu:full avg10=0.00 avg60=0.00 avg300=0.00 total=0

A line with a time (ISO 8601, seconds since 1970, or `date` in English) begins a sample, also if signs surround it
(`=== 2026-11-22 14:19:54 ===`). A time may stand before each line instead, and so may the name of the file::

    1763821194 cpu some avg10=18.59 avg60=9.37 avg300=23.04 total=195225869

Then, and without times, a line begins a sample unless it comes after the previous line in the order cpu, io, irq,
memory. Times without an offset are in the zone of the option `timezone` (default UTC), and so are those with an
abbreviation of several meanings (`IST`), which is refused without it. Without times, `sample_time` is null, and so is
`stalled_percent`, the growth of the total divided by the time between two samples; it is only as accurate as the times.

`cat` prints no names. If the dump's own name contains exactly one of the four words (`io.out`), its lines are of that
file. Otherwise they are taken to be in the order of `cat /proc/pressure/*`: `some` lines begin cpu, io and memory in
turn, and the second `full` in a row is irq, which has no `some`.

The runner's own sampler is `host_counters.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import ClassVar, Final

import polars as pl

from citus_analysis.formats.deliveries.content import Block, Content
from citus_analysis.formats.parsing.format import TIMEZONE, Format, Hints, Parsed
from citus_analysis.formats.parsing.lines import (
    UNTERMINATED,
    build_parsed_lines,
    make_first_true_expr,
    parse_each,
    split_into_blocks,
)
from citus_analysis.formats.parsing.sampler_lines import split_columns, split_compact_lines
from citus_analysis.formats.parsing.time_zones import LocalTime, parse_zone_minutes
from citus_analysis.formats.parsing.times import convert_local_to_utc, time_expr
from citus_analysis.schema import PRESSURES, TABLES

# Times that people print between or before the lines of a dump: ISO 8601, seconds since 1970, or `date` in English.
#
# `date` prints one of these, by language and version::
#
#     Mon Nov 23 16:01:10 UTC 2026
#     Mon Nov 23 04:01:10 PM CET 2026
#     Mon 23 Nov 16:01:10 +03 2026
#     Mon 23 Nov 2026 04:01:10 PM GMT

_ISO: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?(?:Z|[+-][0-9:]{2,6})?"
_EPOCH: Final = r"[0-9]{9,10}(?:\.[0-9]{1,9})?"
_DATE: Final = (
    r"[A-Z][a-z]{2} (?:[A-Z][a-z]{2} {1,2}[0-9]{1,2}|[ 0-9]?[0-9] [A-Z][a-z]{2})(?: [0-9]{4})? "
    r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?: [AP]M)? (?:[A-Z]{1,5}|[+-][0-9]{2,4})(?: [0-9]{4})?"
)
#: A whole text that is a time.
TIME: Final = rf"^(?:{_ISO}|{_EPOCH}|{_DATE})$"
_FORMATS: Final = ("%Y %b %d %H:%M:%S", "%Y %b %d %I:%M:%S %p")


def parse_dump_times(texts: pl.Series, local: LocalTime) -> pl.Series:
    """Times in UTC with microseconds; null for other texts and for zones that nobody knows.

    Args:
        texts: texts of any kind.
        local: the zone of times that state none, and of zones whose abbreviation has several meanings.

    Raises:
        FormatError: an abbreviation has several meanings, and the option `timezone` does not name its zone.

    Example:
        >>> from pathlib import Path
        >>> found = parse_dump_times(pl.Series(["Mon Nov 23 04:01:10 PM CET 2026"]), LocalTime(Path("dump"), None))
        >>> str(found[0])
        '2026-11-23 15:01:10+00:00'
    """
    text = pl.col("text")
    own = "UTC" if local.zone is None else local.zone.key
    iso = time_expr(text.str.extract(f"^({_ISO})$").str.replace(",", ".", literal=True), own)
    epoch = (text.str.extract(f"^({_EPOCH})$").cast(pl.Float64) * 1e6).round().cast(pl.Int64)
    frame = texts.alias("text").to_frame()
    times = (iso, epoch.cast(pl.Datetime("us", "UTC")), _make_date_expr(frame, local, own))
    return frame.select(time=pl.coalesce(times)).to_series()


def _make_date_expr(frame: pl.DataFrame, local: LocalTime, own: str) -> pl.Expr:
    """The times of `date`."""
    text = pl.when(pl.col("text").str.contains(rf"^{_DATE}$")).then("text")
    zone = text.str.extract(r" ([A-Z]{1,5}|[+-][0-9]{2,4})(?: [0-9]{4})?$")
    names = frame.select(zone.unique().drop_nulls()).to_series().to_list()
    local.check(names)
    clock = text.str.extract(r" ([0-9]{2}:[0-9]{2}:[0-9]{2}(?: [AP]M)?) ")
    day = text.str.extract(r"^... (?:... )? ?([0-9]{1,2}) ").str.zfill(2)
    month = text.str.extract(r"^... (?:[ 0-9]?[0-9] )?([A-Z][a-z]{2}) ")
    said = pl.format("{} {} {} {}", text.str.extract(r" ([0-9]{4})(?: |$)"), month, day, clock)
    naive = pl.coalesce(said.str.to_datetime(form, time_unit="us", strict=False) for form in _FORMATS)
    known = {name: minutes for name in names if (minutes := parse_zone_minutes(name)) is not None}
    east = zone.replace_strict(known, default=None, return_dtype=pl.Int64)
    # An abbreviation with several meanings passed the check: it is the time of the zone that is stated.
    stated = convert_local_to_utc(naive, own)
    placed = (naive - pl.duration(minutes=east)).dt.replace_time_zone("UTC")
    return pl.when(east.is_not_null()).then(placed).when(local.zone is not None).then(stated)


# Lines of the kernel's files with pressure stall information, and the growth of their totals.
#
# The kernel writes `some avg10=18.59 avg60=9.37 avg300=23.04 total=195225869`: its own means, and the microseconds
# since boot in which tasks were stalled.

#: Lines as the kernel writes them, without groups: searching for such a pattern is several times as fast.
PRESSURE_VALUES: Final = (
    r"(?:some|full) avg10=[0-9]+\.[0-9]+ avg60=[0-9]+\.[0-9]+ avg300=[0-9]+\.[0-9]+ total=[0-9]{1,18}"
)
US: Final = 1_000_000
PERCENT_OF_US: Final = 100 / US
_LABELS: Final = [" avg10=", " avg60=", " avg300=", " total="]
_COLUMNS: Final = {"1": "avg10_percent", "2": "avg60_percent", "3": "avg300_percent", "4": "total"}


def parse_pressure_fields(values: pl.Series) -> pl.DataFrame:
    """`scope`, the means of the kernel in percent and `total` in microseconds of texts that fit `PRESSURE_VALUES`.

    Example:
        >>> parse_pressure_fields(pl.Series(["full avg10=1.50 avg60=0.25 avg300=0.00 total=7"])).row(0)
        ('full', 1.5, 0.25, 0.0, 7.0)
    """
    plain = values.str.replace_many(_LABELS, [" "] * len(_LABELS))
    return split_columns(plain, 1 + len(_COLUMNS), frozenset({1, 2, 3, 4})).rename({"0": "scope"} | _COLUMNS)


def make_growth_expr(counter: str, *series: str) -> pl.Expr:
    """Difference to the previous sample in the same series; null if there is none or the counter decreased."""
    grown = pl.col(counter).diff().over(series)
    return pl.when(grown >= 0).then(grown)


def make_rate_expr(counter: str, *series: str) -> pl.Expr:
    """Growth in a second since the previous sample of the same series; null if no time passed."""
    passed = pl.col("sample_time").diff().over(series).dt.total_microseconds() / US
    return make_growth_expr(counter, *series) / pl.when(passed > 0).then(passed)


def select_fresh_rows(name: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows that are `fresh` in the columns of their table."""
    fresh = rows.filter("fresh").with_columns(since_boot=pl.lit(value=False))
    return fresh.select(column for column in TABLES[name].parsed().names() if column in fresh.columns)


_WORDS: Final = "|".join(PRESSURES)
#: What follows the name of a file and a time, if they stand before the values; these texts are cheap to search for.
_VALUES: Final = r"(?:some|full) avg10=.*$"
_NAMED: Final = rf"\b({_WORDS})[: ]\s*$"
_FILE: Final = rf"(?:/proc/pressure/)?\b(?:{_WORDS})[: ]\s*$"
_TITLE: Final = rf"^==> (?:/proc/pressure/)?({_WORDS}) <==$"
#: Signs that people put around times.
_AROUND: Final = "=#*-[]() "
_FIRST_LINES: Final = 8
#: Place of each file in the order in which a shell lists them, and the files that unnamed `some` lines belong to.
_PLACES: Final = {name: place for place, name in enumerate(sorted(PRESSURES))}
_UNNAMED: Final = ("cpu", "io", "memory")
_LAST_PLACE: Final = 2 * len(PRESSURES)
_SERIES: Final = ("pressure", "scope")
_KEPT: Final = ("sample", "sample_time", *_SERIES, "total")


@dataclass(frozen=True)
class _PressureState:
    """The state that a block takes over from the blocks before it.

    Attributes:
        samples: number of the newest sample.
        time: time of the newest sample.
        place: place of the newest line in the order of the files.
        somes: number of unnamed `some` lines in the sample.
        title: the file that the newest title names.
        before: the newest total of each series.
    """

    samples: int = -1
    time: datetime | None = None
    place: int = _LAST_PLACE
    somes: int = 0
    title: str | None = None
    before: pl.DataFrame | None = None


class Pressure(Format):
    """Dumps of `/proc/pressure` by cat, grep, head or tail, with or without times between them."""

    name: ClassVar[str] = "pressure"
    version: ClassVar[int] = 3
    tables = ("pressure_samples",)
    noise = "empty lines, titles (`==> /proc/pressure/cpu <==`), times"
    options = (TIMEZONE,)

    def detect(self, name: str, head: bytes) -> float:
        """By the first lines, each of which must be a value of the kernel, a title or a time."""
        if b" avg300=" not in head[:4096]:
            return 0.0
        lines = split_compact_lines(head[: head.rfind(b"\n") + 1]).filter(pl.col("text") != "").head(_FIRST_LINES)
        found = _split_pressure_lines(lines["text"])
        values, timed = found["value"].is_not_null(), found["before"].str.contains(TIME)
        known = timed | (values & (found["before"] == "")) | (~values & lines["text"].str.contains(_TITLE))
        return 0.95 if known.all() and values.any() else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece per block."""
        local = LocalTime.of(content.path, hints.options)
        words = set(re.findall(rf"(?<![a-z])({_WORDS})(?![a-z])", hints.name.rpartition("/")[2].lower()))
        only = words.pop() if len(words) == 1 else None
        yield from parse_each(split_into_blocks(content), partial(_parse_pressure_block, local, only), _PressureState())


def _split_pressure_lines(texts: pl.Series) -> pl.DataFrame:
    """Of each line its `value` and the `file` named before it (null without), and `before`: what stands before them.

    Of a line without a value, `before` is the whole line; signs around it are left out.
    """
    text, head = pl.col("text"), pl.col("head")
    frame = texts.alias("text").to_frame().with_columns(head=text.str.replace(_VALUES, ""))
    tail = text.str.strip_prefix(head)
    frame = frame.select("text", "head", value=pl.when(tail.str.contains(rf"^{PRESSURE_VALUES}$")).then(tail))
    valued = pl.col("value").is_not_null()
    before = pl.when(valued).then(head.str.replace(_FILE, "").str.strip_chars_end(" ,;|")).otherwise(text)
    return frame.select(
        "value", file=pl.when(valued).then(head.str.extract(_NAMED)), before=before.str.strip_chars(_AROUND)
    )


def _parse_pressure_times(before: pl.Series, local: LocalTime) -> pl.Series:
    """The times that texts are; most are empty."""
    at = (before != "").arg_true()
    times = pl.repeat(None, len(before), dtype=pl.Datetime("us", "UTC"), eager=True)
    return times.scatter(at, parse_dump_times(before.gather(at), local))


def _parse_pressure_block(
    local: LocalTime, only: str | None, block: Block, state: _PressureState
) -> tuple[Parsed, _PressureState]:
    lines = split_compact_lines(block.data, block.offset)
    text = pl.col("text")
    found = _split_pressure_lines(lines["text"])
    lines = lines.with_columns(
        found["value"].is_not_null().alias("value"),
        found["value"].alias("shown"),
        found["file"],
        _parse_pressure_times(found["before"], local).alias("time"),
        title=text.str.extract(_TITLE),
    )
    # Text before a value must be a time.
    lines = lines.with_columns(pl.col("value") & ((found["before"] == "") | pl.col("time").is_not_null()))
    known = (text == "") | pl.any_horizontal("value", pl.col("title", "time").is_not_null())
    cut = ~pl.col("terminated") & (text != "")
    reasons = {UNTERMINATED: cut, "neither pressure as the kernel writes it nor a time": ~known}
    lines = lines.with_columns(reason=make_first_true_expr(reasons))
    good = lines.filter(pl.col("reason").is_null())
    rows, state = _number_pressure_samples(good, state, only)
    rows, newest = _add_pressure_growth(rows, state.before)
    return build_parsed_lines({"pressure_samples": rows}, lines, ~pl.col("value")), replace(state, before=newest)


def _number_pressure_samples(
    good: pl.DataFrame, state: _PressureState, only: str | None
) -> tuple[pl.DataFrame, _PressureState]:
    """Lines with values: `sample`, `sample_time`, `pressure` and the columns of :func:`parse_pressure_fields`."""
    part = (pl.col("time").is_not_null() & ~pl.col("value")).cum_sum()
    marked = good.with_columns(
        part=part,
        time=pl.col("time").forward_fill().fill_null(pl.lit(state.time, pl.Datetime("us", "UTC"))),
        title=_make_last_in_part_expr(part, pl.col("title")).fill_null(pl.when(part == 0).then(pl.lit(state.title))),
    )
    values = marked.filter("value")
    fields = parse_pressure_fields(values["shown"])
    named = pl.coalesce("file", "title", pl.lit(only, pl.String))
    rows = values.select("part", byte_offset="offset", sample_time="time", pressure=named).hstack(fields)
    full, continued, place = pl.col("scope") == "full", pl.col("part") == 0, pl.col("place")
    unnamed_some = ((pl.col("scope") == "some") & pl.col("pressure").is_null()).cast(pl.Int64)
    so_far = unnamed_some.cum_sum()
    somes = so_far - pl.when(_BEGINS).then(so_far - unnamed_some).forward_fill()
    rows = rows.with_columns(somes=somes + continued * state.somes)
    # A second `full` in a row is that of irq.
    again = full & pl.when(_BEGINS).then(continued & (state.place % 2 == 1)).otherwise(full.shift())
    cycle = ((pl.col("somes") - 1) % len(_UNNAMED)).replace_strict(dict(enumerate(_UNNAMED)), default="cpu")
    unnamed = pl.when(again).then(pl.lit("irq")).otherwise(cycle)
    rows = rows.with_columns(pressure=pl.coalesce("pressure", unnamed))
    rows = rows.with_columns(place=2 * pl.col("pressure").replace_strict(_PLACES) + full)
    timed = pl.col("part") != pl.col("part").shift(fill_value=0)
    begins = timed | (place <= place.shift(fill_value=state.place))
    rows = rows.with_columns(sample=begins.cast(pl.Int32).cum_sum() + state.samples)
    return rows, _advance_pressure_state(marked, rows, state)


#: The first row of a part: rows of a part are adjacent, and a window of thousands of parts takes most of the time.
_BEGINS: Final = pl.col("part").ne_missing(pl.col("part").shift())


def _make_last_in_part_expr(part: pl.Expr, column: pl.Expr) -> pl.Expr:
    """The last value before or in each row, if it is of the same part."""
    return pl.when(pl.when(column.is_not_null()).then(part).forward_fill() == part).then(column.forward_fill())


def _advance_pressure_state(marked: pl.DataFrame, rows: pl.DataFrame, state: _PressureState) -> _PressureState:
    if not marked.height:
        return state
    part, time, title = marked.select("part", "time", "title").row(-1)
    kept = ("part", "sample", "place", "somes")
    *_, newest = (0, state.samples, state.place, state.somes), *rows.select(kept).tail(1).iter_rows()
    place, somes = (_LAST_PLACE, 0) if newest[0] < part else newest[2:]
    return _PressureState(newest[1], time, place, somes, title, state.before)


def _add_pressure_growth(rows: pl.DataFrame, before: pl.DataFrame | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows of the table, and the newest total of each series."""
    fresh = rows.with_columns(fresh=pl.lit(value=True))
    whole = fresh if before is None else pl.concat([before, fresh], how="diagonal")
    newest = whole.select(_KEPT, fresh=pl.lit(value=False)).unique(_SERIES, keep="last", maintain_order=True)
    stalled = make_rate_expr("total", *_SERIES) * PERCENT_OF_US
    return select_fresh_rows("pressure_samples", whole.with_columns(stalled_percent=stalled)), newest


FORMAT: Final = Pressure()

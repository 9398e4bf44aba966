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

The runner's own sampler is :mod:`.host_counters`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import ClassVar, Final

import polars as pl

from citus_analysis.formats.api.format import Format, Hints, Parsed
from citus_analysis.formats.api.options import TIMEZONE
from citus_analysis.formats.reading.lines import UNTERMINATED, accounted, chunks, first_true, parse_each
from citus_analysis.formats.reading.sampler_lines import compact_lines
from citus_analysis.formats.samplers._dump_times import TIME, times_of
from citus_analysis.formats.samplers._pressure_lines import (
    PERCENT_OF_US,
    PRESSURE_VALUES,
    fresh_rows,
    pressure_fields,
    rate,
)
from citus_analysis.formats.sources.content import Block, Content
from citus_analysis.formats.times.zones import LocalTime
from citus_analysis.schema import PRESSURES

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
class _State:
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
        lines = compact_lines(head[: head.rfind(b"\n") + 1]).filter(pl.col("text") != "").head(_FIRST_LINES)
        found = _divided(lines["text"])
        values, timed = found["value"].is_not_null(), found["before"].str.contains(TIME)
        known = timed | (values & (found["before"] == "")) | (~values & lines["text"].str.contains(_TITLE))
        return 0.95 if known.all() and values.any() else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece per block."""
        local = LocalTime.of(content.path, hints.options)
        words = set(re.findall(rf"(?<![a-z])({_WORDS})(?![a-z])", hints.name.rpartition("/")[2].lower()))
        only = words.pop() if len(words) == 1 else None
        yield from parse_each(chunks(content), partial(_parsed, local, only), _State())


def _divided(texts: pl.Series) -> pl.DataFrame:
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


def _times(before: pl.Series, local: LocalTime) -> pl.Series:
    """The times that texts are; most are empty."""
    at = (before != "").arg_true()
    times = pl.repeat(None, len(before), dtype=pl.Datetime("us", "UTC"), eager=True)
    return times.scatter(at, times_of(before.gather(at), local))


def _parsed(local: LocalTime, only: str | None, block: Block, state: _State) -> tuple[Parsed, _State]:
    lines = compact_lines(block.data, block.offset)
    text = pl.col("text")
    found = _divided(lines["text"])
    lines = lines.with_columns(
        found["value"].is_not_null().alias("value"),
        found["value"].alias("shown"),
        found["file"],
        _times(found["before"], local).alias("time"),
        title=text.str.extract(_TITLE),
    )
    # Text before a value must be a time.
    lines = lines.with_columns(pl.col("value") & ((found["before"] == "") | pl.col("time").is_not_null()))
    known = (text == "") | pl.any_horizontal("value", pl.col("title", "time").is_not_null())
    cut = ~pl.col("terminated") & (text != "")
    reasons = {UNTERMINATED: cut, "neither pressure as the kernel writes it nor a time": ~known}
    lines = lines.with_columns(reason=first_true(reasons))
    good = lines.filter(pl.col("reason").is_null())
    rows, state = _numbered(good, state, only)
    rows, newest = _with_growth(rows, state.before)
    return accounted({"pressure_samples": rows}, lines, ~pl.col("value")), replace(state, before=newest)


def _numbered(good: pl.DataFrame, state: _State, only: str | None) -> tuple[pl.DataFrame, _State]:
    """Lines with values as rows with `sample`, `sample_time`, `pressure` and the columns of :func:`pressure_fields`."""
    part = (pl.col("time").is_not_null() & ~pl.col("value")).cum_sum()
    marked = good.with_columns(
        part=part,
        time=pl.col("time").forward_fill().fill_null(pl.lit(state.time, pl.Datetime("us", "UTC"))),
        title=_within(part, pl.col("title")).fill_null(pl.when(part == 0).then(pl.lit(state.title))),
    )
    values = marked.filter("value")
    fields = pressure_fields(values["shown"])
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
    return rows, _after(marked, rows, state)


#: The first row of a part: rows of a part are adjacent, and a window of thousands of parts takes most of the time.
_BEGINS: Final = pl.col("part").ne_missing(pl.col("part").shift())


def _within(part: pl.Expr, column: pl.Expr) -> pl.Expr:
    """The last value before or in each row, if it is of the same part."""
    return pl.when(pl.when(column.is_not_null()).then(part).forward_fill() == part).then(column.forward_fill())


def _after(marked: pl.DataFrame, rows: pl.DataFrame, state: _State) -> _State:
    if not marked.height:
        return state
    part, time, title = marked.select("part", "time", "title").row(-1)
    kept = ("part", "sample", "place", "somes")
    *_, newest = (0, state.samples, state.place, state.somes), *rows.select(kept).tail(1).iter_rows()
    place, somes = (_LAST_PLACE, 0) if newest[0] < part else newest[2:]
    return _State(newest[1], time, place, somes, title, state.before)


def _with_growth(rows: pl.DataFrame, before: pl.DataFrame | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows of the table, and the newest total of each series."""
    fresh = rows.with_columns(fresh=pl.lit(value=True))
    whole = fresh if before is None else pl.concat([before, fresh], how="diagonal")
    newest = whole.select(_KEPT, fresh=pl.lit(value=False)).unique(_SERIES, keep="last", maintain_order=True)
    stalled = rate("total", *_SERIES) * PERCENT_OF_US
    return fresh_rows("pressure_samples", whole.with_columns(stalled_percent=stalled)), newest


FORMAT: Final = Pressure()

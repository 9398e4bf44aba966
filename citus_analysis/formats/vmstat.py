"""`vmstat` reports (procps): default, `-a`, `-w`, `-t`, `-n` or with repeated headers.

Tables: `vm_samples`, and `cpu_samples` with `sampler` = vmstat (whole percent; `nice` is null, vmstat counts it as
user). Each data line is one sample.

`sample_time` comes from `-t`, or from a logging wrapper that stamped every line; otherwise it is null. The header of
`-t` names the recorder's time zone. UTC, GMT and offsets (`+03`) are unambiguous; for other abbreviations the
option `timezone` (IANA name) decides. Without it, abbreviations with one meaning (PDT, CEST ...) are accepted, those
with several (IST, BST, CST) are refused, and unknown ones leave the times null.

`since_boot`: the first line averages since boot, unless `vmstat -y` left that line out. No version shows `-y` in its
output, so the first line counts as since boot unless the option `first_report` is `interval`. Its memory and
process columns are momentary values in either case. A file to which several runs of vmstat were appended has several
such lines: a header begins a further run unless it comes 21 lines after the last one, where vmstat repeats it if its
output is no terminal of another height, and at the time of the next line.

`-S k|m|M` changes the unit of the memory columns without a trace in the output: the option `vmstat_unit` states it.

ExaWatcher puts a time of day before each line, under the title `--time--`, and comments before them. Its samples have
no `sample_time`: their date is in the comments only, whose order of day and month no line proves.

Other outputs of vmstat (`-d`, `-D`, `-s`, `-m`, `-p`) are counters since boot, for which there is no table:
they are recognised and rejected with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Final

import numpy as np
import polars as pl

from citus_analysis.formats.deliveries.content import Block, Content
from citus_analysis.formats.parsing.format import (
    FIRST_REPORT,
    TIMEZONE,
    VMSTAT_UNIT,
    Format,
    Hints,
    Parsed,
    StartMarker,
)
from citus_analysis.formats.parsing.lines import (
    UNTERMINATED,
    build_parsed_lines,
    line_frame,
    parse_each,
    reject_runs,
    take_first_lines,
)
from citus_analysis.formats.parsing.sampler_lines import (
    VM,
    is_stamped,
    make_range_exprs,
    map_printed_columns,
    may_be_stamped,
    parse_first_report_option,
    parse_rows_under_headers,
    split_columns,
    split_compact_lines,
    split_stamp,
)
from citus_analysis.formats.parsing.time_zones import LocalTime, is_offset, parse_zone_minutes
from citus_analysis.formats.parsing.times import parse_times

# Rows of vmstat's reports as columns of the tables, from lines under a header.

CPU: Final = map_printed_columns(
    {"us": "user_percent", "sy": "system_percent", "id": "idle_percent", "wa": "iowait_percent", "st": "steal_percent"}
)
_COLUMNS: Final = VM | CPU
KB_PER_UNIT: Final[Mapping[str, float]] = {"k": 1000 / 1024, "K": 1.0, "m": 1e6 / 1024, "M": 1024.0}
_MEMORY: Final = ("swpd", "free", "buff", "cache", "inact", "active")


@dataclass(frozen=True)
class VmstatStyle:
    """Options, and the state of the previous blocks that a block needs."""

    stamped: bool
    clocked: bool
    local: LocalTime
    first_report: bool
    memory_kb: float
    header: str | None = None
    samples: int = 0


def parse_vmstat_fields(header: str, rows: pl.DataFrame, style: VmstatStyle) -> pl.DataFrame:
    """Rows under one header as columns of the tables, with `reason` if a row does not fit it."""
    words = header.split()
    names = [word for word in words if word in _COLUMNS]
    zone = " ".join(words[len(names) :])
    texts, count = rows["text"], len(names) + (2 if zone else 0)
    blanks = texts.str.count_matches(" ", literal=True)
    if zone and (blanks == count).any():
        # The time is followed by its zone.
        texts = pl.select(pl.when(blanks == count).then(texts.str.replace(r" \S+$", "")).otherwise(texts)).to_series()
        blanks = texts.str.count_matches(" ", literal=True)
    fitting = blanks == count - 1
    misfit = f"the header announces {len(names)} numbers{' and a time' if zone else ''}"
    misfits = rows.filter(~fitting).select("offset", "terminated", misread=pl.lit(misfit))
    rows, texts = rows.filter(fitting), texts.filter(fitting)
    columns = split_columns(texts, count, frozenset(range(len(names))))
    memory = dict.fromkeys(_MEMORY, style.memory_kb)
    values = {_COLUMNS[name][0]: pl.col(str(index)) * memory.get(name, 1.0) for index, name in enumerate(names)}
    if {"us", "gu"} <= set(names):
        # vmstat subtracts guests from `us` where it prints them (procps, vmstat.c: cpu_use -= cpu_gue).
        values[_COLUMNS["us"][0]] += pl.col(str(names.index("gu")))
    clock = pl.concat_str(str(len(names)), str(len(names) + 1), separator=" ") if zone else pl.lit(None, pl.String)
    fields = columns.select(raw=clock, **values)
    raw = rows["stamp"] if style.stamped and not zone else fields["raw"]
    readable = pl.all_horizontal(
        fits.fill_null(value=False) for fits in make_range_exprs("vm_samples", values).values()
    )
    fields = fields.select(*values, misread=pl.when(~readable).then(pl.lit("not a number")))
    placed = pl.concat([rows.select("offset", "terminated"), fields], how="horizontal")
    timed = pl.concat([placed.with_columns(sample_time=_parse_vmstat_times(raw, zone, style)), misfits], how="diagonal")
    reason = pl.when(~pl.col("terminated")).then(pl.lit(UNTERMINATED)).otherwise("misread")
    return timed.with_columns(reason=reason).drop("terminated", "misread")


def _parse_vmstat_times(raw: pl.Series, zone: str, style: VmstatStyle) -> pl.Series:
    style.local.check([zone])
    minutes, given = parse_zone_minutes(zone), style.local.zone
    certain = zone in {"UTC", "GMT"} or is_offset(zone)
    if zone and minutes is not None and (certain or given is None):
        return parse_times(raw).dt.offset_by(f"{-minutes}m")
    if zone and given is None:
        return parse_times(raw.clear().extend_constant(None, raw.len()))
    return parse_times(raw, timezone=given.key if given else "UTC")


_TITLE: Final = r"^(?:--time-- )?(?:-*procs\s?-+\s*-*memory|procs\s+memory)"
_HEADER: Final = r"^\s*r\s+b\s+swpd\s+free\s.*\sus\s+sy\s+id\b"

#: vmstat repeats its header after as many lines as a terminal of 24 has below it (procps, vmstat.c: winhi() - 3).
_ROWS_BELOW_HEADER: Final = 21
#: A line that comes later than this many intervals after the last one is not of the same run.
_LATE_INTERVALS: Final = 2

#: ExaWatcher's title, and the time before a line.
_CLOCKED: Final = re.compile(rb"^--time-- +procs ", re.MULTILINE)
_CLOCK: Final = r"^[0-9]{2}:[0-9]{2}:[0-9]{2} "
#: First line of outputs without interval samples -> the option that produces them.
_OTHERS: Final = (
    (r"^disk-\s*-+reads-+", "-d"),
    (r"^\s*[0-9]+ disks\s*$", "-D"),
    (r"^\s*[0-9]+ [KkMm]?\s*total memory\s*$", "-s"),
    (r"^Cache\s+Num\s+Total\s+Size\s+Pages", "-m"),
    (r"^\S+\s+reads\s+read sectors\s+writes\s+requested writes", "-p"),
)


class Vmstat(Format):
    """Reports of `vmstat` (procps)."""

    name: ClassVar[str] = "vmstat"
    version: ClassVar[int] = 4
    tables = ("vm_samples", "cpu_samples")
    noise = "title and header lines, empty lines, comments of ExaWatcher"
    options = (TIMEZONE, FIRST_REPORT, VMSTAT_UNIT)
    start_markers = (
        StartMarker(b"procs", rb"\s?-+\s*-*memory|procs\s+memory", repeats=True),
        StartMarker(b"--procs--", rb"\s*-*memory", repeats=True),
    )

    def detect(self, name: str, head: bytes) -> float:
        """Detects the title and header among the first lines."""
        if b"swpd" not in head:
            return 0.9 if _detect_other_option(head) else 0.0
        whole = may_be_stamped(head) or _CLOCKED.search(head) is not None
        lines = _split_vmstat_lines(head if whole else take_first_lines(head, 2), 0, stamped=_is_stamped(head))
        first = [text for text in lines["text"] if text and not text.startswith("#")][:2]
        return 0.95 if pl.Series(first, dtype=pl.String).str.contains(_HEADER).any() else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Samples in order.

        Raises:
            FormatError: the header names an ambiguous time zone.
        """
        style = VmstatStyle(
            stamped=_is_stamped(content.head),
            clocked=_CLOCKED.search(content.head) is not None,
            local=LocalTime.of(content.path, hints.options),
            first_report=parse_first_report_option(hints.options) is not False,
            memory_kb=KB_PER_UNIT[VMSTAT_UNIT.value(hints.options) or "K"],
        )
        other = _detect_other_option(content.head)
        parse = _parse_block if other is None else partial(_reject_vmstat_block, other)
        yield from parse_each(content.blocks(), parse, style)


def _is_stamped(head: bytes) -> bool:
    return may_be_stamped(head) and is_stamped(line_frame(head))


def _split_vmstat_lines(data: bytes, offset: int, *, stamped: bool) -> pl.DataFrame:
    """Lines with single blanks between words; stamps are in a column of their own."""
    if not stamped:
        return split_compact_lines(data, offset)
    return split_stamp(line_frame(data, offset)).with_columns(
        pl.col("text").str.strip_chars().str.replace_all(r"\s+", " ")
    )


def _detect_other_option(head: bytes) -> str | None:
    """The option that produced an output without samples; None for vmstat's report."""
    first = head.lstrip(b"\n").partition(b"\n")[0].decode("utf-8", "replace")
    return next((option for pattern, option in _OTHERS if re.match(pattern, first)), None)


def _reject_vmstat_block(other: str, block: Block, style: VmstatStyle) -> tuple[Parsed, VmstatStyle]:
    reason = f"vmstat {other} prints counters since boot, not samples"
    whole = line_frame(block.data, block.offset).head(1)
    rejects = reject_runs(whole.with_columns(length=pl.lit(block.length), reason=pl.lit(reason)))
    return Parsed({}, 0, rejects=rejects), style


def _parse_block(block: Block, style: VmstatStyle) -> tuple[Parsed, VmstatStyle]:
    lines = _classify_vmstat_lines(block, style)
    rows = lines.filter(~pl.col("noise") & pl.col("header").is_not_null())
    tables = {}
    if not rows.is_empty():
        samples, lines = parse_rows_under_headers(lines, rows, partial(parse_vmstat_fields, style=style))
        samples = samples.with_columns(sample=pl.int_range(pl.len(), dtype=pl.Int64) + style.samples)
        further = _begins_further_run(samples, lines.filter("is_header")["offset"])
        tables = _build_vmstat_tables(samples.with_columns(further=further), style)
        style = replace(style, samples=style.samples + samples.height)
    *_, header = style.header, *lines["header"].tail(1)
    return build_parsed_lines(tables, lines, pl.col("noise")), replace(style, header=header)


def _classify_vmstat_lines(block: Block, style: VmstatStyle) -> pl.DataFrame:
    """The lines with their `header`, whether they are `noise`, and the `reason` of those without a header."""
    lines = _split_vmstat_lines(block.data, block.offset, stamped=style.stamped)
    text = pl.col("text")
    comment = text.str.starts_with("#") & style.clocked
    if style.clocked:
        lines = lines.with_columns(text.str.replace(_CLOCK, ""))
    is_header = text.str.contains(_HEADER)
    lines = lines.with_columns(
        is_header=is_header,
        noise=comment | (text == "") | is_header | text.str.contains(_TITLE),
        header=pl.when(is_header).then("text").forward_fill().fill_null(pl.lit(style.header, pl.String)),
    )
    stray = pl.when(~pl.col("noise") & pl.col("header").is_null()).then(pl.lit("no header precedes this line"))
    return lines.with_columns(reason=stray)


def _begins_further_run(samples: pl.DataFrame, headers: pl.Series) -> pl.Series:
    """Whether a sample is the first of a run of vmstat that was appended to the output of another."""
    part = np.searchsorted(headers.to_numpy(), samples["byte_offset"].to_numpy())
    begins = np.flatnonzero(np.diff(part)) + 1
    rows = np.diff(begins, prepend=0)
    # Of the rows above the first header of a block, some are in the block before: their number is not known.
    rows[part[begins - 1] == 0] = _ROWS_BELOW_HEADER
    times = samples["sample_time"].cast(pl.Datetime("ms", "UTC")).cast(pl.Int64).cast(pl.Float64).to_numpy()
    gaps = np.diff(times, prepend=np.nan)
    # Without times (nan), no comparison is true.
    late = (gaps[begins] > _LATE_INTERVALS * gaps[begins - 1]) | (gaps[begins] <= 0)
    found = np.zeros(samples.height, dtype=bool)
    found[begins] = (rows != _ROWS_BELOW_HEADER) | late
    return pl.Series(found)


def _build_vmstat_tables(samples: pl.DataFrame, style: VmstatStyle) -> dict[str, pl.DataFrame]:
    first = (pl.col("sample") == 0) | pl.col("further")
    fields = samples.with_columns(since_boot=first & style.first_report, sampler=pl.lit("vmstat")).drop("further")
    cpu = [name for name, _ in CPU.values() if name in fields.columns]
    shared = ("sample", "sample_time", "since_boot", "byte_offset")
    return {
        "vm_samples": fields.drop(*cpu, "sampler"),
        "cpu_samples": fields.select(*shared, "sampler", *cpu),
    }


FORMAT = Vmstat()

"""`vmstat` reports (procps): default, `-a`, `-w`, `-t`, `-n` or with repeated headers.

Tables: `vm_samples`, and `cpu_samples` with `sampler` = vmstat (whole percent; `nice` is null, vmstat counts it as
user). Each data line is one sample.

`sample_time` comes from `-t`, or from a logging wrapper that stamped every line; otherwise it is null. The header of
`-t` names the recorder's time zone. UTC, GMT and offsets (`+03`) are unambiguous; for other abbreviations the
option `timezone` (IANA name) decides. Without it, abbreviations with one meaning (PDT, CEST ...) are accepted, those
with several (IST, BST, CST) are refused, and unknown ones leave the times null.

`since_boot`: the first line averages since boot, unless `vmstat -y` left that line out. No version shows `-y` in its
output, so the first line counts as since boot unless the option `first_report` is `interval`. Its memory and
process columns are momentary values in either case.

`-S k|m|M` changes the unit of the memory columns without a trace in the output: the option `vmstat_unit` states it.

Other outputs of vmstat (`-d`, `-D`, `-s`, `-m`, `-p`) are counters since boot, for which there is no table:
they are recognised and rejected with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import polars as pl

from citus_analysis.formats.api.format import Format, Hints, Parsed
from citus_analysis.formats.api.number_columns import fits
from citus_analysis.formats.api.options import FIRST_REPORT, TIMEZONE, VMSTAT_UNIT, Option
from citus_analysis.formats.reading.compact_lines import compact_lines, split_columns
from citus_analysis.formats.reading.lines import UNTERMINATED, beginning, line_frame, reject_oversized, reject_runs
from citus_analysis.formats.reading.sampler_lines import first_report_option, is_stamped, may_be_stamped, split_stamp
from citus_analysis.formats.reading.signs import contains
from citus_analysis.formats.samplers._columns import VM
from citus_analysis.formats.sources.content import Block, Content
from citus_analysis.formats.times.sampler_clock import parse_times
from citus_analysis.formats.times.zones import LocalTime, is_offset, zone_minutes
from citus_analysis.schema import TABLES

__all__ = ["FORMAT", "Vmstat"]

_TITLE: Final = r"^(?:-*procs\s?-+\s*-*memory|procs\s+memory)"
_HEADER: Final = r"^\s*r\s+b\s+swpd\s+free\s.*\sus\s+sy\s+id\b"
_CPU: Final[Mapping[str, str]] = {
    "us": "user_percent",
    "sy": "system_percent",
    "id": "idle_percent",
    "wa": "iowait_percent",
    "st": "steal_percent",
}
_COLUMNS: Final[Mapping[str, str]] = {**VM, **_CPU}
_DTYPES: Final = TABLES["vm_samples"].parsed().polars_schema()
_KB_PER_UNIT: Final[Mapping[str, float]] = {"k": 1000 / 1024, "K": 1.0, "m": 1e6 / 1024, "M": 1024.0}
_MEMORY: Final = ("swpd", "free", "buff", "cache", "inact", "active")

#: First line of outputs without interval samples -> the option that produces them.
_OTHERS: Final = (
    (r"^disk-\s*-+reads-+", "-d"),
    (r"^\s*[0-9]+ disks\s*$", "-D"),
    (r"^\s*[0-9]+ [KkMm]?\s*total memory\s*$", "-s"),
    (r"^Cache\s+Num\s+Total\s+Size\s+Pages", "-m"),
    (r"^\S+\s+reads\s+read sectors\s+writes\s+requested writes", "-p"),
)


@dataclass(frozen=True)
class _Style:
    """Options, and the state of the previous blocks that a block needs."""

    stamped: bool
    local: LocalTime
    first_report: bool
    memory_kb: float
    header: str | None = None
    samples: int = 0


class Vmstat(Format):
    """Reports of `vmstat` (procps)."""

    name: ClassVar[str] = "vmstat"
    version: ClassVar[int] = 2
    tables: ClassVar[tuple[str, ...]] = ("vm_samples", "cpu_samples")
    noise: ClassVar[str] = "title and header lines, empty lines"
    options: ClassVar[tuple[Option, ...]] = (TIMEZONE, FIRST_REPORT, VMSTAT_UNIT)

    def detect(self, name: str, head: bytes) -> float:
        """Detects the title and header among the first lines."""
        if b"swpd" not in head:
            return 0.9 if _other_output(head) else 0.0
        lines = _lines(head, 0, stamped=None) if may_be_stamped(head) else compact_lines(beginning(head, 2))
        first = [text for text in lines["text"] if text][:2]
        return 0.95 if any(contains(first, _HEADER)) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Samples in order.

        Raises:
            FormatError: the header names an ambiguous time zone.
        """
        style = _style(content, hints)
        other = _other_output(content.head)
        for block in content.blocks():
            if block.oversized:
                yield reject_oversized(block)
                continue
            if other:
                yield _rejected(block, other)
                continue
            parsed, style = _parse_block(block, style)
            yield parsed


def _style(content: Content, hints: Hints) -> _Style:
    return _Style(
        stamped=may_be_stamped(content.head) and is_stamped(line_frame(content.head)),
        local=LocalTime.of(content.path, hints.options),
        first_report=first_report_option(hints.options) is not False,
        memory_kb=_KB_PER_UNIT[VMSTAT_UNIT.value(hints.options) or "K"],
    )


def _lines(data: bytes, offset: int, *, stamped: bool | None) -> pl.DataFrame:
    """Lines with single blanks between words; stamps are in a column of their own."""
    if stamped is False:
        return compact_lines(data, offset)
    lines = line_frame(data, offset)
    if stamped is None and not is_stamped(lines):
        return compact_lines(data, offset)
    return split_stamp(lines).with_columns(pl.col("text").str.strip_chars().str.replace_all(r"\s+", " "))


def _other_output(head: bytes) -> str | None:
    """The option that produced an output without samples; None for vmstat's report."""
    begin = len(head) - len(head.lstrip(b"\n"))
    end = head.find(b"\n", begin)
    first = head[begin : end if end >= 0 else None].decode("utf-8", "replace")
    return next((option for pattern, option in _OTHERS if re.match(pattern, first)), None)


def _rejected(block: Block, other: str) -> Parsed:
    reason = f"vmstat {other} prints counters since boot, not samples"
    whole = line_frame(block.data, block.offset).head(1)
    return Parsed({}, 0, rejects=reject_runs(whole.with_columns(length=pl.lit(block.length), reason=pl.lit(reason))))


def _parse_block(block: Block, style: _Style) -> tuple[Parsed, _Style]:
    lines = _lines(block.data, block.offset, stamped=style.stamped)
    is_header = pl.col("text").str.contains(_HEADER)
    lines = lines.with_columns(
        noise=(pl.col("text") == "") | is_header | pl.col("text").str.contains(_TITLE),
        header=pl.when(is_header).then("text").forward_fill().fill_null(pl.lit(style.header, pl.String)),
    )
    rows = lines.filter(~pl.col("noise") & pl.col("header").is_not_null())
    frames = [_fields(str(text), group, style) for (text,), group in rows.group_by("header", maintain_order=True)]
    fields = pl.concat(frames, how="diagonal").sort("offset") if frames else None
    stray = pl.when(~pl.col("noise")).then(pl.lit("no header precedes this line"))
    lines = lines.with_columns(reason=stray)
    tables = {}
    if fields is not None:
        reasons = fields.select("offset", read=pl.lit(value=True), misread="reason")
        lines = lines.join(reasons, on="offset", how="left", maintain_order="left")
        lines = lines.with_columns(reason=pl.when("read").then("misread").otherwise("reason"))
        good = fields.filter(pl.col("reason").is_null()).drop("reason", "offset")
        tables = _tables(good, style)
        style = replace(style, samples=style.samples + good.height)
    clean = lines.filter(pl.col("reason").is_null())
    noise = int(clean.filter("noise")["length"].sum())
    parsed = Parsed(tables, int(clean["length"].sum()) - noise, noise, reject_runs(lines))
    last_header = lines["header"].last()
    return parsed, replace(style, header=None if last_header is None else str(last_header))


def _fields(header: str, rows: pl.DataFrame, style: _Style) -> pl.DataFrame:
    """Rows under one header as columns of the tables, with `reason` if a row does not fit it."""
    names, zone = _split_header(header)
    texts, count = rows["text"], len(names) + (2 if zone else 0)
    blanks = texts.str.count_matches(" ", literal=True)
    if zone and (blanks == count).any():
        # The time is followed by its zone.
        texts = pl.select(pl.when(blanks == count).then(texts.str.replace(r" \S+$", "")).otherwise(texts)).to_series()
        blanks = texts.str.count_matches(" ", literal=True)
    fitting = blanks == count - 1
    misfit = f"the header announces {len(names)} numbers{' and a time' if zone else ''}"
    misfits = rows.filter(~fitting).select("offset", "terminated", misread=pl.lit(misfit))
    rows, texts = (rows, texts) if fitting.all() else (rows.filter(fitting), texts.filter(fitting))
    columns = split_columns(texts, count, frozenset(range(len(names))))
    memory = dict.fromkeys(_MEMORY, style.memory_kb)
    values = {
        _COLUMNS[name]: pl.col(str(index)) * memory.get(name, 1.0)
        for index, name in enumerate(names)
        if name in _COLUMNS
    }
    clock = pl.concat_str(str(len(names)), str(len(names) + 1), separator=" ") if zone else pl.lit(None, pl.String)
    fields = columns.select(raw=clock, **values)
    raw = rows["stamp"] if style.stamped and not zone else fields["raw"]
    readable = pl.all_horizontal(
        fits(pl.col(name), _DTYPES.get(name, pl.Float64())).fill_null(value=False) for name in values
    )
    fields = fields.select(*values, misread=pl.when(~readable).then(pl.lit("not a number")))
    placed = pl.concat([rows.select("offset", "terminated"), fields], how="horizontal")
    timed = pl.concat([placed.with_columns(sample_time=_times(raw, zone, style)), misfits], how="diagonal")
    reason = pl.when(~pl.col("terminated")).then(pl.lit(UNTERMINATED)).otherwise("misread")
    return timed.with_columns(reason=reason).drop("terminated", "misread")


def _split_header(header: str) -> tuple[list[str], str]:
    """Column names, and the time zone after them, empty without `-t`."""
    words = header.split()
    names = [word for word in words if word in VM or word in _CPU]
    return names, " ".join(words[len(names) :])


def _times(raw: pl.Series, zone: str, style: _Style) -> pl.Series:
    style.local.check([zone])
    minutes, given = zone_minutes(zone), style.local.zone
    certain = zone in {"UTC", "GMT"} or is_offset(zone)
    if zone and minutes is not None and (certain or given is None):
        return parse_times(raw).dt.offset_by(f"{-minutes}m")
    if zone and given is None:
        return parse_times(raw.clear().extend_constant(None, raw.len()))
    return parse_times(raw, timezone=given.key if given else "UTC")


def _tables(fields: pl.DataFrame, style: _Style) -> dict[str, pl.DataFrame]:
    sample = pl.int_range(pl.len(), dtype=pl.Int64) + style.samples
    fields = fields.with_columns(sample=sample).with_columns(
        since_boot=(pl.col("sample") == 0) & style.first_report, sampler=pl.lit("vmstat")
    )
    cpu = [name for name in _CPU.values() if name in fields.columns]
    shared = ("sample", "sample_time", "since_boot")
    return {
        "vm_samples": fields.drop(*cpu, "sampler"),
        "cpu_samples": fields.select(*shared, "sampler", *cpu),
    }


FORMAT = Vmstat()

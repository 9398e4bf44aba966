"""Counters of a Linux host, as the runner samples them.

Tables: `pressure_samples`, `net_samples`, `throttle_samples`. Each sample is a line with the time in UTC, followed by
the lines of kernel files, each preceded by its file's name as `grep -H` prints it (the runner's sampler is a loop of
`date` and `grep`)::

    sampled 2026-03-01 12:00:00.120456789
    /proc/pressure/cpu:some avg10=18.59 avg60=9.37 avg300=23.04 total=195225869
    /proc/net/dev:    lo: 2302032   10551    0    0    0     0          0         0  2302032   10551 ...
    /sys/fs/cgroup/cpu.stat:nr_throttled 12

The kernel counts since boot; rates are differences to the previous sample, divided by the time between the two. They
are null in the first sample, and if a counter decreased (the host was restarted, the interface was created again).
`throttled_percent` sums the throttled time of all CPUs of the group, so it may exceed 100. Control groups of version 1
state times in nanoseconds, those of version 2 in microseconds.

If the last line of a sample is cut, that line is rejected; the rest of the sample is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

import polars as pl

from citus_analysis.formats.deliveries.content import Block, Content
from citus_analysis.formats.parsing.format import Format, Hints, Parsed
from citus_analysis.formats.parsing.lines import (
    UNTERMINATED,
    build_parsed_lines,
    make_first_true_expr,
    parse_each,
    split_into_blocks,
)
from citus_analysis.formats.parsing.sampler_lines import split_columns, split_compact_lines
from citus_analysis.formats.parsing.times import time_expr
from citus_analysis.formats.pressure import (
    PERCENT_OF_US,
    PRESSURE_VALUES,
    make_growth_expr,
    make_rate_expr,
    parse_pressure_fields,
    select_fresh_rows,
)
from citus_analysis.schema import PRESSURES

_BEGINS: Final = re.compile(rb"^(?:absent: [^\n]*\n)*sampled [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}")
#: Counters of an interface in /proc/net/dev.
_NET_NUMBERS: Final = 16
_COUNTERS: Final = ("nr_periods", "nr_throttled", "throttled_time", "throttled_usec", "usage_usec")
#: Kind of a line -> the pattern that it fits; the first decides. Patterns without groups are several times as fast.
_KINDS: Final = {
    "begins": r"^sampled \S+ \S+$",
    "pressure": rf"^/proc/pressure/(?:{'|'.join(PRESSURES)}):{PRESSURE_VALUES}$",
    "net": rf"^/proc/net/dev: ?[^\s:]+(?::[^\s:]+)*: ?[0-9]{{1,18}}(?: [0-9]{{1,18}}){{{_NET_NUMBERS - 1}}}$",
    "throttle": rf"^/sys/fs/cgroup/[^:]*cpu\.stat:(?:{'|'.join(_COUNTERS)}) [0-9]{{1,18}}$",
    # Lines of these files without data for the tables.
    "noise": r"^(?:|absent: .*|/proc/net/dev:(?:Inter-\|| face \|).*|/sys/fs/cgroup/[^:]*cpu\.stat:[a-z_.]+ [0-9]+)$",
    "strange": r"^(?:/proc/pressure/|/proc/net/dev:|/sys/fs/cgroup/)",
}
_REASONS: Final = {
    UNTERMINATED: ~pl.col("terminated"),
    "not as the kernel writes it": pl.col("kind") == "strange",
    "not a line of a sampled file": pl.col("kind") == "foreign",
    "no time precedes this line": (pl.col("kind") != "noise") & pl.col("sample_time").is_null(),
}
#: Column of net_samples -> number of the field in /proc/net/dev, from 1, and the factor from its unit.
_NET_FIELDS: Final = {
    f"{way}_{what}": (place, 1024 if what == "kb_s" else 1)
    for way, first in (("receive", 1), ("transmit", 9))
    for place, what in enumerate(("kb_s", "packets_per_s", "errors_per_s", "drops_per_s"), first)
}
_SHARED: Final = ["sample", "sample_time"]
#: The lines of the last sample so far, for the differences to it, and the number of samples.
_State = tuple[pl.DataFrame | None, int]
_BEGIN: Final[_State] = (None, 0)


class HostCounters(Format):
    """Snapshots of `/proc` and control groups: pressure, network and throttling of a host."""

    name: ClassVar[str] = "host_counters"
    version: ClassVar[int] = 2
    tables = ("pressure_samples", "net_samples", "throttle_samples")
    noise = (
        "headers of `/proc/net/dev`, empty lines, lines of other files without data for the tables, and the sampler's "
        "notes about files that a host does not have (`absent: /proc/pressure`)"
    )

    def detect(self, name: str, head: bytes) -> float:
        """Certain if the file begins with a sample and contains a line of a kernel file."""
        whole = head.replace(b"\r\n", b"\n")
        return 1.0 if _BEGINS.match(whole) and re.search(rb"(?m)^(?:/proc/|/sys/)[^\s:]+:", whole) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece per block; a block's last sample is read again with the next block, for the differences."""
        yield from parse_each(split_into_blocks(content, _measure_whole_samples), _parse_counter_block, _BEGIN)


def _parse_counter_block(block: Block, state: _State) -> tuple[Parsed, _State]:
    held, samples = state
    fresh = _classify_counter_lines(block, samples)
    lines = fresh if held is None else pl.concat([held.with_columns(fresh=pl.lit(value=False)), fresh])
    parsed = build_parsed_lines(
        {name: read(lines) for name, read in _READERS.items()}, fresh, pl.col("kind") == "noise"
    )
    samples += int((fresh["kind"] == "begins").sum())
    return parsed, (lines.filter(pl.col("sample") == pl.col("sample").max()), samples)


def _classify_counter_lines(block: Block, samples: int) -> pl.DataFrame:
    """The lines of a block after so many samples, all of them `fresh`, with `kind`, `sample`, its time and `reason`."""
    text, begins = pl.col("text"), pl.col("kind") == "begins"
    kind = make_first_true_expr({name: text.str.contains(pattern) for name, pattern in _KINDS.items()}).fill_null(
        "foreign"
    )
    lines = split_compact_lines(block.data, block.offset).with_columns(kind=kind, fresh=pl.lit(value=True))
    number = begins.cast(pl.Int32).cum_sum()
    times = lines.filter(begins).select(time_expr(text.str.strip_prefix("sampled "), "UTC")).to_series()
    place = lines.select(pl.when(number > 0).then(number - 1)).to_series()
    lines = lines.with_columns(times.gather(place).alias("sample_time"), sample=number + (samples - 1))
    return lines.with_columns(reason=make_first_true_expr(_REASONS))


def _measure_whole_samples(data: bytes, _offset: int) -> int:
    """Number of bytes before the last sample."""
    return data.rfind(b"\nsampled ") + 1


def _select_lines_of_kind(lines: pl.DataFrame, kind: str) -> pl.DataFrame:
    return lines.filter(pl.col("reason").is_null(), pl.col("kind") == kind).select(
        *_SHARED, "fresh", "text", byte_offset="offset"
    )


def _parse_pressure_samples(lines: pl.DataFrame) -> pl.DataFrame:
    rows = _select_lines_of_kind(lines, "pressure")
    parts = rows["text"].str.strip_prefix("/proc/pressure/").str.splitn(":", 2).struct
    fields = parse_pressure_fields(parts.field("field_1"))
    rows = rows.drop("text").with_columns(parts.field("field_0").alias("pressure")).hstack(fields)
    stalled = make_rate_expr("total", "pressure", "scope") * PERCENT_OF_US
    return select_fresh_rows("pressure_samples", rows.with_columns(stalled_percent=stalled))


def _parse_net_samples(lines: pl.DataFrame) -> pl.DataFrame:
    rows = _select_lines_of_kind(lines, "net").with_columns(
        interface=pl.col("text").str.extract("^/proc/net/dev: ?(.*):")
    )
    counters = split_columns(rows["text"].str.replace("^.*: ?", ""), _NET_NUMBERS, frozenset(range(_NET_NUMBERS)))
    rows = rows.hstack(counters.select(**{name: pl.col(str(field - 1)) for name, (field, _) in _NET_FIELDS.items()}))
    rates = {name: make_rate_expr(name, "interface") / unit for name, (_, unit) in _NET_FIELDS.items()}
    return select_fresh_rows("net_samples", rows.with_columns(**rates))


def _parse_throttle_samples(lines: pl.DataFrame) -> pl.DataFrame:
    """One row per sample and group, from lines with one named counter each."""
    rows = _select_lines_of_kind(lines, "throttle")
    parts = rows["text"].str.extract_groups(r"^(/sys/fs/cgroup/.*):(\S+) ([0-9]+)$").struct
    rows = rows.with_columns(parts.field("1").alias("control_group"), parts.field("2").alias("counter"))
    value = parts.field("3").cast(pl.Float64).alias("value")
    by_name = {name: pl.col("value").filter(pl.col("counter") == name).first() for name in _COUNTERS}
    rows = (
        rows.with_columns(value)
        .group_by(*_SHARED, "control_group", maintain_order=True)
        .agg(pl.col("fresh").any(), pl.col("byte_offset").first(), **by_name)
    )
    rows = rows.with_columns(throttled=pl.coalesce("throttled_usec", pl.col("throttled_time") / 1000))
    measures = {
        "used_percent": make_rate_expr("usage_usec", "control_group") * PERCENT_OF_US,
        "periods": make_growth_expr("nr_periods", "control_group"),
        "throttled_periods": make_growth_expr("nr_throttled", "control_group"),
        "throttled_percent": make_rate_expr("throttled", "control_group") * PERCENT_OF_US,
    }
    return select_fresh_rows("throttle_samples", rows.with_columns(**measures))


_READERS: Final = {
    "pressure_samples": _parse_pressure_samples,
    "net_samples": _parse_net_samples,
    "throttle_samples": _parse_throttle_samples,
}

FORMAT: Final = HostCounters()

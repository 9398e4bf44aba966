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

import numpy as np
import polars as pl

from citus_analysis.formats.api.format import Format, Hints, Parsed
from citus_analysis.formats.reading.compact_lines import compact_lines, split_columns
from citus_analysis.formats.reading.lines import UNTERMINATED, chunks, reject_oversized, reject_runs
from citus_analysis.formats.samplers._pressure_lines import (
    PERCENT_OF_US,
    PRESSURE_VALUES,
    growth,
    pressure_fields,
    seconds_passed,
)
from citus_analysis.formats.sources.content import Block, Content
from citus_analysis.formats.times.snapshot_times import time_expr
from citus_analysis.schema import PRESSURES, TABLES

_SAMPLED: Final = r"^sampled (\S+ \S+)$"
_BEGINS: Final = re.compile(rb"^(?:absent: [^\n]*\n)*sampled [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}")
#: Counters of an interface in /proc/net/dev.
_NET_NUMBERS: Final = 16
_COUNTERS: Final = ("nr_periods", "nr_throttled", "throttled_time", "throttled_usec", "usage_usec")
#: Beginning of a line -> kind of its row, and the pattern that the line has to fit. Searching for a pattern without
#: groups is several times as fast as for one with groups.
_FILES: Final = {
    "/proc/pressure/": ("pressure", rf"^/proc/pressure/(?:{'|'.join(PRESSURES)}):{PRESSURE_VALUES}$"),
    "/proc/net/dev:": (
        "net",
        rf"^/proc/net/dev: ?[^\s:]+(?::[^\s:]+)*: ?[0-9]{{1,18}}(?: [0-9]{{1,18}}){{{_NET_NUMBERS - 1}}}$",
    ),
    "/sys/fs/cgroup/": ("throttle", rf"^/sys/fs/cgroup/[^:]*cpu\.stat:(?:{'|'.join(_COUNTERS)}) [0-9]{{1,18}}$"),
}
_KINDS: Final = ("begins", "noise", "pressure", "net", "throttle", "strange", "foreign")
_CODES: Final = {kind: code for code, kind in enumerate(_KINDS)}
_KIND: Final = pl.Enum(_KINDS)
#: Lines of these files without data for the tables.
_NOISE: Final = r"^(?:/proc/net/dev:(?:Inter-\|.*| face \|.*)|/sys/fs/cgroup/[^:]*cpu\.stat:[a-z_.]+ [0-9]+)$"
#: Column of net_samples -> number of the field in /proc/net/dev, from 1, and the factor from its unit.
_NET_FIELDS: Final = {
    "receive_kb_s": (1, 1024),
    "receive_packets_per_s": (2, 1),
    "receive_errors_per_s": (3, 1),
    "receive_drops_per_s": (4, 1),
    "transmit_kb_s": (9, 1024),
    "transmit_packets_per_s": (10, 1),
    "transmit_errors_per_s": (11, 1),
    "transmit_drops_per_s": (12, 1),
}
_SHARED: Final = ["sample", "sample_time"]


class HostCounters(Format):
    """Snapshots of `/proc` and control groups: pressure, network and throttling of a host."""

    name: ClassVar[str] = "host_counters"
    version: ClassVar[int] = 2
    tables: ClassVar[tuple[str, ...]] = ("pressure_samples", "net_samples", "throttle_samples")
    noise: ClassVar[str] = (
        "headers of `/proc/net/dev`, empty lines, lines of other files without data for the tables, and the sampler's "
        "notes about files that a host does not have (`absent: /proc/pressure`)"
    )

    def detect(self, name: str, head: bytes) -> float:
        """Certain if the file begins with a sample and contains a line of a kernel file."""
        whole = head.replace(b"\r\n", b"\n")
        return 1.0 if _BEGINS.match(whole) and re.search(rb"(?m)^(?:/proc/|/sys/)[^\s:]+:", whole) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece per block; a block's last sample is read again with the next block, for the differences."""
        held: pl.DataFrame | None = None
        samples = 0
        for block in chunks(content, _whole_samples):
            if block.oversized:
                yield reject_oversized(block)
                continue
            fresh = _lines(block, samples)
            lines = fresh if held is None else pl.concat([held.with_columns(fresh=pl.lit(value=False)), fresh])
            held = lines.filter(pl.col("sample") == pl.col("sample").max())
            samples += int((fresh["kind"] == "begins").sum())
            tables = {name: read(lines) for name, read in _READERS.items()}
            clean = fresh.filter(pl.col("reason").is_null())
            noise = int(clean.filter(kind="noise")["length"].sum())
            yield Parsed(tables, int(clean["length"].sum()) - noise, noise, reject_runs(fresh))


def _lines(block: Block, samples: int) -> pl.DataFrame:
    """The lines of a block after so many samples, all of them `fresh`."""
    lines = _judged(_placed(compact_lines(block.data, block.offset), samples))
    return lines.with_columns(fresh=pl.lit(value=True))


def _whole_samples(data: bytes, _offset: int) -> int:
    """Number of bytes before the last sample."""
    return data.rfind(b"\nsampled ") + 1


def _kinds(text: pl.Series) -> pl.Series:
    """The kind of each line; a pattern is compared only with the lines of its file."""
    codes = np.full(len(text), _CODES["foreign"], np.uint8)
    codes[((text == "") | text.str.starts_with("absent: ")).to_numpy()] = _CODES["noise"]
    times = np.flatnonzero(text.str.starts_with("sampled "))
    codes[times[text.gather(times).str.contains(_SAMPLED).to_numpy()]] = _CODES["begins"]
    for beginning, (kind, pattern) in _FILES.items():
        own = np.flatnonzero(text.str.starts_with(beginning))
        fits = text.gather(own).str.contains(pattern).to_numpy()
        codes[own[fits]] = _CODES[kind]
        others = own[~fits]
        known = text.gather(others).str.contains(_NOISE).to_numpy()
        codes[others] = np.where(known, _CODES["noise"], _CODES["strange"])
    return pl.Series("kind", codes).replace_strict(range(len(_KINDS)), _KINDS, return_dtype=_KIND)


def _placed(lines: pl.DataFrame, samples: int) -> pl.DataFrame:
    """Lines with their `kind`, and the `sample` and `sample_time` that they belong to."""
    placed = lines.with_columns(_kinds(lines["text"]))
    begins = placed["kind"] == "begins"
    number = begins.cast(pl.Int32).cum_sum()
    times = placed.filter(begins).select(time_expr(pl.col("text").str.extract(_SAMPLED), "UTC")).to_series()
    known = pl.select(pl.when(number > 0).then(number - 1)).to_series()
    return placed.with_columns(sample=number + (samples - 1), sample_time=times.gather(known))


def _judged(lines: pl.DataFrame) -> pl.DataFrame:
    """Placed lines with a `reason` if a line is rejected."""
    kind = pl.col("kind")
    reason = (
        pl.when(~pl.col("terminated"))
        .then(pl.lit(UNTERMINATED))
        .when(kind == "strange")
        .then(pl.lit("not as the kernel writes it"))
        .when(kind == "foreign")
        .then(pl.lit("not a line of a sampled file"))
        .when((kind != "noise") & pl.col("sample_time").is_null())
        .then(pl.lit("no time precedes this line"))
    )
    return lines.with_columns(reason=reason)


def _of_kind(lines: pl.DataFrame, kind: str) -> pl.DataFrame:
    return lines.filter(pl.col("reason").is_null(), pl.col("kind") == kind).select(
        *_SHARED, "fresh", "text", byte_offset="offset"
    )


def _finished(name: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Fresh rows in the columns of their table."""
    table = TABLES[name].parsed()
    fresh = rows.filter("fresh").with_columns(since_boot=pl.lit(value=False))
    return fresh.select(column for column in table.names() if column in fresh.columns)


def _pressure(lines: pl.DataFrame) -> pl.DataFrame:
    series = ["pressure", "scope"]
    rows = _of_kind(lines, "pressure")
    parts = rows["text"].str.strip_prefix("/proc/pressure/").str.splitn(":", 2).struct
    fields = pressure_fields(parts.field("field_1"))
    rows = rows.drop("text").with_columns(parts.field("field_0").alias("pressure")).hstack(fields)
    stalled = growth("total", series) / seconds_passed(series) * PERCENT_OF_US
    return _finished("pressure_samples", rows.with_columns(stalled_percent=stalled))


def _net(lines: pl.DataFrame) -> pl.DataFrame:
    series = ["interface"]
    rows = _of_kind(lines, "net")
    counters = split_columns(rows["text"].str.replace("^.*: ?", ""), _NET_NUMBERS, frozenset(range(_NET_NUMBERS)))
    rows = rows.select(
        *_SHARED, "fresh", "byte_offset", interface=pl.col("text").str.extract("^/proc/net/dev: ?(.*):")
    ).hstack(counters.select(**{name: pl.col(str(field - 1)) for name, (field, _) in _NET_FIELDS.items()}))
    rates = {name: growth(name, series) / seconds_passed(series) / unit for name, (_, unit) in _NET_FIELDS.items()}
    return _finished("net_samples", rows.with_columns(**rates))


def _throttle(lines: pl.DataFrame) -> pl.DataFrame:
    """One row per sample and group, from lines with one named counter each."""
    rows = _of_kind(lines, "throttle")
    parts = rows["text"].str.extract_groups(r"^(/sys/fs/cgroup/.*):(\S+) ([0-9]+)$").struct
    found = rows.select(
        *_SHARED,
        "fresh",
        "byte_offset",
        control_group=parts.field("1"),
        counter=parts.field("2"),
        value=parts.field("3").cast(pl.Float64),
    )
    by_name = {name: pl.col("value").filter(pl.col("counter") == name).first() for name in _COUNTERS}
    rows = found.group_by(*_SHARED, "control_group", maintain_order=True).agg(
        pl.col("fresh").any(), pl.col("byte_offset").first(), **by_name
    )
    rows = rows.with_columns(throttled=pl.coalesce("throttled_usec", pl.col("throttled_time") / 1000))
    series = ["control_group"]
    return _finished(
        "throttle_samples",
        rows.with_columns(
            used_percent=growth("usage_usec", series) / seconds_passed(series) * PERCENT_OF_US,
            periods=growth("nr_periods", series),
            throttled_periods=growth("nr_throttled", series),
            throttled_percent=growth("throttled", series) / seconds_passed(series) * PERCENT_OF_US,
        ),
    )


_READERS: Final = {"pressure_samples": _pressure, "net_samples": _net, "throttle_samples": _throttle}

FORMAT: Final = HostCounters()

"""Counters of a Linux host, as the runner samples them, to `pressure_samples`, `net_samples`, `throttle_samples`.

Each sample is a line with the time in UTC, then the lines of files of the kernel, each preceded by its file's name as
`grep -H` writes it (the runner's sampler is such a loop of `date` and `grep`)::

    sampled 2026-03-01 12:00:00.120456789
    /proc/pressure/cpu:some avg10=18.59 avg60=9.37 avg300=23.04 total=195225869
    /proc/net/dev:    lo: 2302032   10551    0    0    0     0          0         0  2302032   10551 ...
    /sys/fs/cgroup/cpu.stat:nr_throttled 12

The kernel counts since boot; rates are differences to the previous sample, over the time between the two. They are null
in the first sample, and if a counter decreased (the host was restarted, the interface was created again).
`throttled_percent` counts the time that all CPUs of the group were held back, so it may exceed 100. Control groups of
version 1 state times in nanoseconds, those of version 2 in microseconds.

If the last line of a sample is cut, that line is rejected; the rest of the sample is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

import polars as pl

from citus_analysis.formats.api.format import Format, Hints, Parsed
from citus_analysis.formats.reading.lines import UNTERMINATED, chunks, line_frame, reject_oversized, reject_runs
from citus_analysis.formats.sources.content import Content
from citus_analysis.formats.times.snapshot_times import time_expr
from citus_analysis.schema import PRESSURES, TABLES

__all__ = ["FORMAT", "HostCounters"]

_SAMPLED: Final = r"^sampled (\S+ \S+)$"
_BEGINS: Final = re.compile(rb"^(?:absent: [^\n]*\n)*sampled [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}")
_PRESSURE: Final = (
    rf"^/proc/pressure/({'|'.join(PRESSURES)}):(some|full) "
    r"avg10=([0-9.]+) avg60=([0-9.]+) avg300=([0-9.]+) total=([0-9]{1,18})$"
)
_NET: Final = r"^/proc/net/dev:\s*([^\s:]+(?::[^\s:]+)*):\s*" + r"\s+".join([r"([0-9]{1,18})"] * 16) + "$"
_THROTTLE: Final = (
    r"^(/sys/fs/cgroup/[^:]*cpu\.stat):"
    r"(nr_periods|nr_throttled|throttled_time|throttled_usec|usage_usec) ([0-9]{1,18})$"
)
_KNOWN: Final = r"^(?:/proc/pressure/|/proc/net/dev:|/sys/fs/cgroup/|absent: )"
#: Lines of these files without data for the tables.
_NOISE: Final = (
    r"^(?:|/proc/net/dev:(?:Inter-\|.*| face \|.*)|/sys/fs/cgroup/[^:]*cpu\.stat:[a-z_.]+ [0-9]+|absent: .*)$"
)
#: Column of net_samples -> number of the field in /proc/net/dev, from 1, and what a unit of it counts for.
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
_US: Final = 1_000_000
_PERCENT_OF_US: Final = 100 / _US
_SHARED: Final = ["sample", "sample_time"]


class HostCounters(Format):
    """Snapshots of `/proc` and control groups: pressure, network and throttling of a host."""

    name: ClassVar[str] = "host_counters"
    version: ClassVar[int] = 1
    tables: ClassVar[tuple[str, ...]] = ("pressure_samples", "net_samples", "throttle_samples")
    noise: ClassVar[str] = (
        "headers of `/proc/net/dev`, empty lines, lines of other files without data for the tables, and the sampler's "
        "notes about files that a host does not have (`absent: /proc/pressure`)"
    )

    def detect(self, name: str, head: bytes) -> float:
        """Certain if a sample begins and a file of the kernel follows."""
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
            fresh = _judged(_placed(line_frame(block.data, block.offset), samples)).with_columns(
                fresh=pl.lit(value=True)
            )
            lines = fresh if held is None else pl.concat([held.with_columns(fresh=pl.lit(value=False)), fresh])
            held = lines.filter(pl.col("sample") == pl.col("sample").max())
            samples += int(fresh["begins"].sum())
            tables = {name: read(lines) for name, read in _READERS.items()}
            clean = fresh.filter(pl.col("reason").is_null())
            noise = int(clean.filter("noise")["length"].sum())
            yield Parsed(tables, int(clean["length"].sum()) - noise, noise, reject_runs(fresh))


def _whole_samples(data: bytes, _offset: int) -> int:
    """Number of bytes before the last sample."""
    return data.rfind(b"\nsampled ") + 1


def _placed(lines: pl.DataFrame, samples: int) -> pl.DataFrame:
    """Lines with `begins`, `noise`, and the `sample` and `sample_time` that they belong to."""
    text = pl.col("text")
    begins = text.str.contains(_SAMPLED)
    placed = lines.with_columns(
        begins=begins,
        noise=text.str.contains(_NOISE) & ~text.str.contains(_THROTTLE),
        sample=begins.cast(pl.Int32).cum_sum() + (samples - 1),
        sample_time=time_expr(text.str.extract(_SAMPLED), "UTC"),
    )
    return placed.with_columns(pl.col("sample_time").first().over("sample"))


def _judged(lines: pl.DataFrame) -> pl.DataFrame:
    """Placed lines with the `reason` why a line becomes no row."""
    text = pl.col("text")
    read = pl.any_horizontal(text.str.contains(pattern) for pattern in (_PRESSURE, _NET, _THROTTLE))
    strange = pl.when(text.str.contains(_KNOWN)).then(pl.lit("not as the kernel writes it"))
    reason = (
        pl.when(~pl.col("terminated"))
        .then(pl.lit(UNTERMINATED))
        .when(~pl.col("noise") & ~pl.col("begins") & ~read)
        .then(strange.otherwise(pl.lit("of no file that is sampled")))
        .when(~pl.col("noise") & pl.col("sample_time").is_null())
        .then(pl.lit("no time stands in front of this line"))
    )
    return lines.with_columns(reason=reason)


def _series(lines: pl.DataFrame, pattern: str) -> pl.DataFrame:
    """Lines of a pattern that are not rejected, their groups in the fields of a column `part`."""
    kept = lines.filter(pl.col("reason").is_null(), ~pl.col("begins"), pl.col("text").str.contains(pattern))
    return kept.with_columns(part=pl.col("text").str.extract_groups(pattern))


def _number(group: int) -> pl.Expr:
    return pl.col("part").struct.field(str(group)).cast(pl.Float64)


def _growth(counter: str, series: list[str]) -> pl.Expr:
    """Difference to the previous sample in the same series; null if there is none or the counter decreased."""
    grown = pl.col(counter) - pl.col(counter).shift().over(series)
    return pl.when(grown >= 0).then(grown)


def _seconds(series: list[str]) -> pl.Expr:
    passed = (pl.col("sample_time") - pl.col("sample_time").shift().over(series)).dt.total_microseconds() / _US
    return pl.when(passed > 0).then(passed)


def _finished(name: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Fresh rows in the columns of their table."""
    table = TABLES[name].parsed()
    fresh = rows.filter("fresh").with_columns(since_boot=pl.lit(value=False))
    return fresh.select(column for column in table.names() if column in fresh.columns)


def _pressure(lines: pl.DataFrame) -> pl.DataFrame:
    series = ["pressure", "scope"]
    rows = _series(lines, _PRESSURE).select(
        *_SHARED,
        "fresh",
        pressure=pl.col("part").struct.field("1"),
        scope=pl.col("part").struct.field("2"),
        avg10_percent=_number(3),
        avg60_percent=_number(4),
        avg300_percent=_number(5),
        total=_number(6),
    )
    stalled = _growth("total", series) / _seconds(series) * _PERCENT_OF_US
    return _finished("pressure_samples", rows.with_columns(stalled_percent=stalled))


def _net(lines: pl.DataFrame) -> pl.DataFrame:
    series = ["interface"]
    rows = _series(lines, _NET).select(
        *_SHARED,
        "fresh",
        interface=pl.col("part").struct.field("1"),
        **{name: _number(field + 1) for name, (field, _) in _NET_FIELDS.items()},
    )
    rates = {name: _growth(name, series) / _seconds(series) / unit for name, (_, unit) in _NET_FIELDS.items()}
    return _finished("net_samples", rows.with_columns(**rates))


def _throttle(lines: pl.DataFrame) -> pl.DataFrame:
    """One row per sample and group: its lines are counters by name."""
    part = pl.col("part").struct
    found = _series(lines, _THROTTLE).select(
        *_SHARED, "fresh", control_group=part.field("1"), counter=part.field("2"), value=_number(3)
    )
    by_name = {
        name: pl.col("value").filter(pl.col("counter") == name).first()
        for name in ("nr_periods", "nr_throttled", "throttled_time", "throttled_usec", "usage_usec")
    }
    rows = found.group_by(*_SHARED, "control_group", maintain_order=True).agg(pl.col("fresh").any(), **by_name)
    rows = rows.with_columns(throttled=pl.coalesce("throttled_usec", pl.col("throttled_time") / 1000))
    series = ["control_group"]
    return _finished(
        "throttle_samples",
        rows.with_columns(
            used_percent=_growth("usage_usec", series) / _seconds(series) * _PERCENT_OF_US,
            periods=_growth("nr_periods", series),
            throttled_periods=_growth("nr_throttled", series),
            throttled_percent=_growth("throttled", series) / _seconds(series) * _PERCENT_OF_US,
        ),
    )


_READERS: Final = {"pressure_samples": _pressure, "net_samples": _net, "throttle_samples": _throttle}

FORMAT: Final = HostCounters()

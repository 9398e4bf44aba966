"""Rows of vmstat's reports as columns of the tables, from lines under a header."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import polars as pl

from citus_analysis.formats.reading.lines import UNTERMINATED
from citus_analysis.formats.reading.sampler_lines import split_columns
from citus_analysis.formats.samplers._columns import VM, in_range, places
from citus_analysis.formats.times.sampler_clock import parse_times
from citus_analysis.formats.times.zones import LocalTime, is_offset, zone_minutes

CPU: Final = places("us=user_percent sy=system_percent id=idle_percent wa=iowait_percent st=steal_percent")
_COLUMNS: Final = VM | CPU
KB_PER_UNIT: Final[Mapping[str, float]] = {"k": 1000 / 1024, "K": 1.0, "m": 1e6 / 1024, "M": 1024.0}
_MEMORY: Final = ("swpd", "free", "buff", "cache", "inact", "active")


@dataclass(frozen=True)
class Style:
    """Options, and the state of the previous blocks that a block needs."""

    stamped: bool
    clocked: bool
    local: LocalTime
    first_report: bool
    memory_kb: float
    header: str | None = None
    samples: int = 0


def fields_of(header: str, rows: pl.DataFrame, style: Style) -> pl.DataFrame:
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
    readable = pl.all_horizontal(fits.fill_null(value=False) for fits in in_range("vm_samples", values).values())
    fields = fields.select(*values, misread=pl.when(~readable).then(pl.lit("not a number")))
    placed = pl.concat([rows.select("offset", "terminated"), fields], how="horizontal")
    timed = pl.concat([placed.with_columns(sample_time=_times(raw, zone, style)), misfits], how="diagonal")
    reason = pl.when(~pl.col("terminated")).then(pl.lit(UNTERMINATED)).otherwise("misread")
    return timed.with_columns(reason=reason).drop("terminated", "misread")


def _times(raw: pl.Series, zone: str, style: Style) -> pl.Series:
    style.local.check([zone])
    minutes, given = zone_minutes(zone), style.local.zone
    certain = zone in {"UTC", "GMT"} or is_offset(zone)
    if zone and minutes is not None and (certain or given is None):
        return parse_times(raw).dt.offset_by(f"{-minutes}m")
    if zone and given is None:
        return parse_times(raw.clear().extend_constant(None, raw.len()))
    return parse_times(raw, timezone=given.key if given else "UTC")

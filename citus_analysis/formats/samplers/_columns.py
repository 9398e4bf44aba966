"""Meaning of the columns of iostat and vmstat in all versions, and the syntax of their numbers.

A printed column maps to a schema column and a factor that converts its unit to the schema's: kilobytes of
1024 bytes. iostat's text and JSON share one map: JSON names are the text's without `%`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import polars as pl

from citus_analysis.formats.api.name_pairs import name_pairs
from citus_analysis.formats.api.number_columns import fits
from citus_analysis.formats.reading.lines import readable, with_reasons
from citus_analysis.schema import TABLES

#: Printed column -> column of the schema, and the factor that converts its unit.
Places = Mapping[str, tuple[str, float]]
_KB_PER_MB: Final = 1024.0
KB_PER_SECTOR: Final = 0.5


def places(columns: str, factor: float = 1.0) -> dict[str, tuple[str, float]]:
    """Printed columns with one factor, from pairs `printed=column`.

    Example:
        >>> places("rkB/s=read_kb_s wkB/s=write_kb_s")["wkB/s"]
        ('write_kb_s', 1.0)
    """
    return {printed: (column, factor) for printed, column in name_pairs(columns).items()}


CPU: Final[Places] = places(
    "user=user_percent nice=nice_percent system=system_percent sys=system_percent iowait=iowait_percent "
    "steal=steal_percent idle=idle_percent"
)


def _device_columns() -> Places:
    columns = places(
        "tps=transfers_per_s rqm/s=merges_per_s await=await_ms areq-sz=request_kb aqu-sz=queue_length "
        "avgqu-sz=queue_length svctm=service_ms util=utilization_percent f/s=flushes_per_s f_await=flush_await_ms"
    ) | places("avgrq-sz=request_kb", KB_PER_SECTOR)
    for letter, noun in {"r": "read", "w": "write", "d": "discard"}.items():
        columns |= places(
            f"{letter}/s={noun}s_per_s {letter}rqm/s={noun}_merges_per_s {letter}rqm={noun}_merge_percent "
            f"{letter}_await={noun}_await_ms {letter}areq-sz={noun}_request_kb"
        )
    for unit, factor in {"kB": 1.0, "MB": _KB_PER_MB, "sec": KB_PER_SECTOR, "Blk": KB_PER_SECTOR}.items():
        columns |= places(
            f"r{unit}/s=read_kb_s w{unit}/s=write_kb_s d{unit}/s=discard_kb_s {unit}_read/s=read_kb_s "
            f"{unit}_wrtn/s=write_kb_s {unit}_dscd/s=discard_kb_s {unit}_w+d/s=write_discard_kb_s {unit}/s=total_kb_s",
            factor,
        )
    return columns


DEVICE: Final = _device_columns()
VM: Final = places(
    "r=runnable b=blocked swpd=swapped_kb free=free_kb buff=buffer_kb cache=cache_kb inact=inactive_kb "
    "active=active_kb si=swap_in_kb_s so=swap_out_kb_s bi=blocks_in_per_s bo=blocks_out_per_s in=interrupts_per_s "
    "cs=context_switches_per_s gu=guest_percent"
)

#: Suffixes that `iostat --human` appends to sizes, in kB.
_HUMAN: Final = {suffix: 1024.0**power for power, suffix in enumerate("BkMGTP", -1)}


def number_expr(text: pl.Expr, factor: float = 1.0) -> pl.Expr:
    """A printed number times `factor`; a human-readable suffix (`1.5M`) states the unit and replaces the factor.

    Decimal commas are read as points (iostat prints no thousands separators); other text is null.

    Args:
        text: printed numbers.
        factor: factor that converts their unit.

    Example:
        >>> frame = pl.DataFrame({"text": ["1.50", "1,50", "1.5M", "15.2%", "x"]})
        >>> frame.select(number_expr(pl.col("text"), 2.0))["text"].to_list()
        [3.0, 3.0, 1536.0, 30.4, None]
    """
    plain = text.str.replace(",", ".", literal=True).str.strip_suffix("%")
    number = plain.str.strip_chars_end("BkMGTP").cast(pl.Float64, strict=False)
    suffix = plain.str.slice(-1).replace_strict(_HUMAN, default=factor, return_dtype=pl.Float64)
    return pl.when(number.is_finite()).then(number * suffix)


def in_range(table: str, names: Iterable[str]) -> dict[str, pl.Expr]:
    """Whether numbers are within the ranges of their columns; those that the table lacks may be any real numbers."""
    kinds = TABLES[table].parsed().polars_schema()
    return {name: fits(pl.col(name), kinds.get(name, pl.Float64())) for name in names}


def in_whole_numbers(rows: pl.DataFrame, table: str) -> pl.DataFrame:
    """Rows of a table with rounded values in its columns of whole numbers."""
    kinds = TABLES[table].parsed().polars_schema()
    whole = [name for name, kind in kinds.items() if kind.is_integer() and name in rows.columns]
    return rows.with_columns(pl.col(name).round().cast(kinds[name]) for name in whole)


def under_headers(
    lines: pl.DataFrame, rows: pl.DataFrame, read: Callable[[str, pl.DataFrame], pl.DataFrame]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows that can be read, in the order of the source, and the lines with the `reason` of the others.

    Args:
        lines: the lines with their `offset` and `reason`.
        rows: those that contain values, with their `header`.
        read: returns, for a header and the lines under it, their values with `offset` and `reason`.
    """
    frames = [read(str(header), group) for (header,), group in rows.group_by("header", maintain_order=True)]
    fields = pl.concat([rows.select("offset", "reason").clear(), *frames], how="diagonal").sort("offset")
    return readable(fields).rename({"offset": "byte_offset"}), with_reasons(lines, fields)


def with_derived_await(devices: pl.DataFrame) -> pl.DataFrame:
    """Fill a missing `await_ms` with the mean of the awaits of reads, writes and discards, weighted by requests.

    Flush requests are left out, as in sysstat's own combined figure. Without requests the result is null.
    """
    pairs = ((f"{kind}s_per_s", f"{kind}_await_ms") for kind in ("read", "write", "discard"))
    present = [pair for pair in pairs if pair[0] in devices.columns and pair[1] in devices.columns]
    if not present:
        return devices
    requests = pl.sum_horizontal(rate for rate, _ in present)
    waited = pl.sum_horizontal(pl.col(rate) * pl.col(wait) for rate, wait in present)
    derived = pl.when(requests > 0).then(waited / requests)
    printed = [name for name in devices.columns if name == "await_ms"]
    return devices.with_columns(await_ms=pl.coalesce(*printed, derived))

"""Texts of sar, mpstat and pidstat: from blocks of lines to tables, in columns.

Sections without a table (interrupts by number, NFS, sensors, NUMA nodes ...) are noise, and so are averages, which are
no samples, comments and restarts of the machine, which only begin a new part (:mod:`._clock`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from citus_analysis.formats.api.format import Hints, Parsed
from citus_analysis.formats.reading.lines import UNTERMINATED, chunks, reject_oversized, reject_runs
from citus_analysis.formats.reading.sampler_lines import first_report_option
from citus_analysis.formats.sources.content import Block, Content
from citus_analysis.formats.sysstat._clock import Clock, order_of, placed
from citus_analysis.formats.sysstat._lines import classified
from citus_analysis.formats.sysstat._reports import report_of
from citus_analysis.formats.sysstat._rows import read_rows
from citus_analysis.formats.sysstat._tables import rows_of
from citus_analysis.formats.times.zones import timezone_of

__all__ = ["NOISE", "parse_text", "reports_in"]

NOISE: Final = (
    "banners, empty lines, headers, averages, comments, restarts, and reports that no table holds (single interrupts, "
    "protocols, sensors, NUMA nodes ...)"
)
_HEADLESS: Final = "no header in front of this line names its columns"
_STRANGE: Final = "no line of this tool"
_TIMELESS: Final = "no time of day"
_DECIMAL_COMMA: Final = r" [0-9]+,[0-9]+(?: |$)"


@dataclass(frozen=True)
class _Style:
    """Facts about the whole file.

    Attributes:
        sampler: name of the tool.
        order: of day, month and year.
        timezone: of the times.
        comma: numbers have a decimal comma.
        first_report: the option of that name.
        tables: the format's tables.
    """

    sampler: str
    order: str
    timezone: str
    comma: bool
    first_report: bool | None
    tables: tuple[str, ...]


@dataclass(frozen=True)
class _State:
    """What a block needs of those before it; `clock_of_header` as printed, `alone`: the file has one header only."""

    clock: Clock
    header: str | None = None
    clock_of_header: str | None = None
    alone: bool = False


def reports_in(head: bytes) -> list[list[str]]:
    """Names of the columns of the headers in the beginning of a file, if it begins with a banner or a header."""
    lines = classified(head[: head.rfind(b"\n") + 1])
    kinds = lines.filter(pl.col("kind") != "blank")["kind"].head(3).to_list()
    if not kinds or kinds[0] not in {"banner", "header", "restart"} or not {"header", "restart"} & set(kinds):
        return []
    headers = lines.filter(kind="header")["rest"].unique(maintain_order=True)
    return [header.split(" ") for header in headers.to_list()]


def parse_text(content: Content, hints: Hints, sampler: str, tables: tuple[str, ...]) -> Iterator[Parsed]:
    """Samples in the order of the source, in pieces of whole lines."""
    head = classified(content.head)
    comma = bool(head.filter(kind="row")["text"].head(1000).str.contains(_DECIMAL_COMMA).any())
    style = _Style(
        sampler=sampler,
        order=order_of(head, dict(hints.options), decimal_comma=comma),
        timezone=timezone_of(hints.options),
        comma=comma,
        first_report=first_report_option(hints.options),
        tables=tables,
    )
    state: _State | None = None
    for block in chunks(content, lambda data, _: data.rfind(b"\n") + 1):
        if block.oversized:
            yield reject_oversized(block)
            continue
        lines = classified(block.data, block.offset)
        if state is None:
            state = _State(Clock(), alone=lines.filter(kind="header").height == 1)
        parsed, state = _parse_block(block, lines, style, state)
        yield parsed


def _parse_block(block: Block, lines: pl.DataFrame, style: _Style, state: _State) -> tuple[Parsed, _State]:
    where = placed(lines, state.clock, style.order, style.timezone)
    is_header = pl.col("kind") == "header"
    lines = lines.with_columns(
        header=pl.when(is_header).then("rest").forward_fill().fill_null(pl.lit(state.header, pl.String)),
        clock_of_header=pl.when(is_header).then("clock").forward_fill(),
    )
    # A header without a time hides that of an earlier one.
    rows = lines.filter(kind="row").join(where.rows.drop("kind"), on="offset", how="left", maintain_order="left")
    rows = rows.with_columns(since_boot=_since_boot(style, state))
    tables, reasons = _read(rows, style)
    lines = lines.join(reasons, on="offset", how="left", maintain_order="left").with_columns(
        reason=pl.when(~pl.col("terminated") & (pl.col("text") != "") & (pl.col("kind") != "average"))
        .then(pl.lit(UNTERMINATED))
        .when(pl.col("kind") == "other")
        .then(pl.lit(_STRANGE))
        .otherwise("reason")
    )
    rejects = reject_runs(lines)
    clean = lines.filter(pl.col("reason").is_null())
    parsed_bytes = int(clean.filter(pl.col("read").fill_null(value=False))["length"].sum())
    noise = int(clean["length"].sum()) - parsed_bytes
    last = lines.filter(is_header).tail(1)
    state = replace(state, clock=where.clock)
    if last.height:
        state = replace(state, header=str(last["rest"][0]), clock_of_header=last["clock"][0], alone=state.alone)
    return Parsed(tables, parsed_bytes, noise, rejects), state


def _since_boot(style: _Style, state: _State) -> pl.Expr:
    """A report whose header has its own time covers the time since boot: an interval begins with the header's."""
    if style.sampler == "sar":
        return pl.lit(value=False)
    header_clock = pl.col("clock_of_header").fill_null(pl.lit(state.clock_of_header, pl.String))
    alone = pl.lit(state.alone) & header_clock.is_null()
    shown = (header_clock == pl.col("clock")).fill_null(value=False) | alone
    first = pl.col("sample") == 0
    return shown if style.first_report is None else first & style.first_report


def _read(rows: pl.DataFrame, style: _Style) -> tuple[dict[str, pl.DataFrame], pl.DataFrame]:
    """Rows of the tables, and `offset`, `read`, `reason` of the lines that have a place or none that can be told."""
    found: dict[str, list[pl.DataFrame]] = {}
    strays = rows.filter(pl.col("header").is_null() | pl.col("sample").is_null()).select(
        "offset",
        reason=pl.when(pl.col("header").is_null()).then(pl.lit(_HEADLESS)).otherwise(pl.lit(_TIMELESS)),
        read=pl.lit(value=False),
    )
    reasons = [strays]
    usable = rows.filter(pl.col("header").is_not_null() & pl.col("sample").is_not_null() & pl.col("terminated"))
    for (header,), group in usable.group_by("header", maintain_order=True):
        report = report_of(str(header).split(" "))
        if report is None or report.table not in style.tables:
            continue
        fields = read_rows(str(header), group, comma=style.comma)
        reasons.append(fields.select("offset", "reason", read=pl.lit(value=True)))
        good = fields.filter(pl.col("reason").is_null()).drop("reason")
        for table, some in rows_of(good, report, style.sampler).items():
            found.setdefault(table, []).append(some)
    return _together(found), pl.concat(reasons)


def _together(found: Mapping[str, list[pl.DataFrame]]) -> dict[str, pl.DataFrame]:
    """Rows of each table in the order of the source."""
    return {
        table: pl.concat(some, how="diagonal").sort("offset", maintain_order=True).drop("offset")
        for table, some in found.items()
    }

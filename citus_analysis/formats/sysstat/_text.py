"""Tables from the texts of sar, mpstat and pidstat, block by block, in columns.

Sections without a table (interrupts by number, NFS, sensors, NUMA nodes ...) are noise, and so are averages, which are
not samples, comments, and restarts of the machine, which only begin a new part (:mod:`._clock`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Final

import polars as pl

from citus_analysis.formats.api.format import Format, Hints, Parsed
from citus_analysis.formats.api.options import DATE_ORDER, FIRST_REPORT, TIMEZONE, Option
from citus_analysis.formats.reading.lines import UNTERMINATED, beginning, chunks, parse_each, reject_runs, with_reasons
from citus_analysis.formats.reading.sampler_lines import SYSSTAT_BANNER, first_report_option
from citus_analysis.formats.reading.text_fields import Fields
from citus_analysis.formats.sources.content import Block, Content
from citus_analysis.formats.sysstat._clock import Clock, banner_dates, placed
from citus_analysis.formats.sysstat._lines import classified
from citus_analysis.formats.sysstat._reports import Report, report_of
from citus_analysis.formats.sysstat._rows import read_rows
from citus_analysis.formats.sysstat._split._lines import split_lines, with_texts
from citus_analysis.formats.sysstat._split._rows import split_rows
from citus_analysis.formats.sysstat._tables import tables_under_headers
from citus_analysis.formats.times.sampler_clock import date_order
from citus_analysis.formats.times.zones import timezone_of

_NOISE: Final = (
    "banners, empty lines, headers, averages, comments, restarts, and reports without a table (single interrupts, "
    "protocols, sensors, NUMA nodes ...)"
)
_HEADLESS: Final = "no header precedes this line"
_STRANGE: Final = "not a line of this tool"
_TIMELESS: Final = "no time of day"
#: Lines, of those that are not blank, by which a file is recognised.
_TELLING: Final = 3
_DECIMAL_COMMA: Final = r" [0-9]+,[0-9]+(?: |$)"


_HEADER: Final = pl.Schema({"header": pl.String(), "seconds_of_header": pl.Float64()})


@dataclass(frozen=True)
class _Style:
    """Facts about the whole file.

    Attributes:
        sampler: name of the tool.
        tables: the format's tables.
        comma: numbers have a decimal comma.
        order: order of day, month and year.
        timezone: zone of the times.
        first_report: the option of that name.
    """

    sampler: str
    tables: tuple[str, ...]
    comma: bool
    order: str
    timezone: str
    first_report: bool | None


@dataclass(frozen=True)
class _State:
    """State after the previous blocks.

    Attributes:
        alone: the file has only one header.
        clock: state of the times.
        header: the newest header and its second of the day, if there is one.
    """

    alone: bool
    clock: Clock = field(default_factory=Clock)
    header: pl.DataFrame = field(default_factory=_HEADER.to_frame)


def reports_in(head: bytes) -> list[list[str]]:
    """Names of the columns of each header in the beginning of a file, if it begins with a banner or a header."""
    whole = head[: head.rfind(b"\n") + 1]
    # The first lines exclude most other files.
    first = classified(beginning(whole, _TELLING)).filter(pl.col("kind") != "blank")
    kinds = first["kind"].head(_TELLING).to_list()
    if not {"header", "restart"} & set(kinds) or kinds[0] not in {"banner", "header", "restart"}:
        return []
    headers = classified(whole).filter(kind="header")["rest"].unique(maintain_order=True)
    return [header.split(" ") for header in headers.to_list()]


class SysstatText(Format):
    """A text of a tool of sysstat, whose name is the format's."""

    noise = _NOISE
    options: ClassVar[tuple[Option, ...]] = (TIMEZONE, DATE_ORDER, FIRST_REPORT)
    openings = (SYSSTAT_BANNER,)

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Samples in the order of the text, in pieces of whole lines."""
        head = classified(content.head)
        comma = bool(head.filter(kind="row")["text"].head(1000).str.contains(_DECIMAL_COMMA).any())
        order = date_order(banner_dates(head), hints.options, decimal_comma=comma)
        # sar has no averages since boot.
        first_report = first_report_option(hints.options) if FIRST_REPORT in self.options else None
        style = _Style(self.name, self.tables, comma, order, timezone_of(hints.options), first_report)
        yield from parse_each(chunks(content), partial(_parse_block, style), None)


def _parse_block(style: _Style, block: Block, state: _State | None) -> tuple[Parsed, _State]:
    lines, fields = split_lines(block.data, block.offset)
    if state is None:
        state = _State(lines.filter(kind="header").height == 1)
    where, clock = placed(lines, state.clock, style.order, style.timezone)
    rows, state = _under_headers(lines, state)
    rows = rows.hstack(where).with_columns(since_boot=_since_boot(style, state))
    tables, read, misread = _read(rows, style, block, fields)
    rejected = _judged(lines, rows, misread).filter(pl.col("reason").is_not_null())
    rejects = reject_runs(with_texts(rejected, block.data, block.offset))
    usable = (
        pl.col("terminated") & pl.col("sample").is_not_null() & ~pl.col("offset").is_in(misread["offset"].implode())
    )
    parsed = rows.filter(pl.col("header").is_in(read) & usable)["length"].sum()
    noise = block.length - int(parsed) - int(rejects["byte_length"].sum())
    return Parsed(tables, int(parsed), noise, rejects), replace(state, clock=clock)


def _under_headers(lines: pl.DataFrame, state: _State) -> tuple[pl.DataFrame, _State]:
    """The rows with `header` and `seconds_of_header`, null before the first header; and the state after them."""
    fresh = lines.filter(kind="header").select(header="rest", seconds_of_header="seconds")
    headers = pl.concat([state.header, fresh])
    place = (pl.col("kind") == "header").cum_sum().cast(pl.Int64) + (state.header.height - 1)
    rows = lines.with_columns(place=pl.when(place >= 0).then(place)).filter(kind="row")
    return rows.hstack(headers.select(pl.all().gather(rows["place"]))), replace(state, header=headers.tail(1))


def _judged(lines: pl.DataFrame, rows: pl.DataFrame, misread: pl.DataFrame) -> pl.DataFrame:
    """The lines with a `reason` if they are rejected."""
    stray = rows.filter(pl.col("header").is_null() | pl.col("sample").is_null()).select(
        "offset", reason=pl.when(pl.col("header").is_null()).then(pl.lit(_HEADLESS)).otherwise(pl.lit(_TIMELESS))
    )
    known = pl.concat([misread, stray])
    lines = with_reasons(lines.with_columns(reason=pl.lit(None, pl.String)), known)
    cut = ~pl.col("terminated") & ~pl.col("kind").is_in(["blank", "average"])
    strange = pl.when(pl.col("kind") == "other").then(pl.lit(_STRANGE))
    return lines.with_columns(reason=pl.when(cut).then(pl.lit(UNTERMINATED)).otherwise(pl.coalesce(strange, "reason")))


def _since_boot(style: _Style, state: _State) -> pl.Expr:
    """Whether a row averages since boot: its header then has the row's time, otherwise that of the interval's begin."""
    if style.sampler == "sar":
        return pl.lit(value=False)
    of_header = pl.col("seconds_of_header")
    alone = pl.lit(state.alone) & of_header.is_null()
    shown = (of_header == pl.col("seconds")).fill_null(value=False) | alone
    return shown if style.first_report is None else (pl.col("sample") == 0) & style.first_report


def _read(
    rows: pl.DataFrame, style: _Style, block: Block, split: Fields | None
) -> tuple[dict[str, pl.DataFrame], list[str], pl.DataFrame]:
    """Rows of the tables, the headers that have a place, and `offset` and `reason` of misread rows."""
    found = {str(header): report_of(tuple(header.split(" "))) for header in rows["header"].unique().drop_nulls()}
    reports = {header: report for header, report in found.items() if report and report.table in style.tables}
    usable = rows.filter(pl.col("sample").is_not_null() & pl.col("terminated"))

    def fields_of(report: Report, group: pl.DataFrame) -> pl.DataFrame:
        fields = split_rows(report, group, split)
        if fields is not None:
            return fields
        return read_rows(report, with_texts(group, block.data, block.offset), comma=style.comma)

    tables, misread = tables_under_headers(usable, reports, fields_of, style.sampler)
    return tables, [*reports], misread

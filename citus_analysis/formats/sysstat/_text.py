"""Tables from the texts of sar, mpstat and pidstat, block by block, in columns.

Sections without a table (interrupts by number, NFS, sensors, NUMA nodes ...) are noise, and so are averages, which are
not samples, comments, and restarts of the machine, which only begin a new part (:mod:`._clock`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
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
from citus_analysis.formats.sysstat._reports import report_of
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


@dataclass(frozen=True)
class _Style:
    """Facts about the whole file.

    Attributes:
        sampler: name of the tool.
        order: order of day, month and year.
        timezone: zone of the times.
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
    """State after the previous blocks.

    Attributes:
        clock: state of the times.
        header: the newest header.
        seconds_of_header: its second of the day.
        alone: the file has only one header.
    """

    clock: Clock
    header: str | None = None
    seconds_of_header: float | None = None
    alone: bool = False


def reports_in(head: bytes) -> list[list[str]]:
    """Names of the columns of each header in the beginning of a file, if it begins with a banner or a header."""
    whole = head[: head.rfind(b"\n") + 1]
    # The first lines exclude most other files.
    if not _begins(classified(beginning(whole, _TELLING))):
        return []
    lines = classified(whole)
    headers = lines.filter(kind="header")["rest"].unique(maintain_order=True)
    return [header.split(" ") for header in headers.to_list()]


def _begins(lines: pl.DataFrame) -> bool:
    kinds = lines.filter(pl.col("kind") != "blank")["kind"].head(_TELLING).to_list()
    return bool(kinds) and kinds[0] in {"banner", "header", "restart"} and bool({"header", "restart"} & set(kinds))


class SysstatText(Format):
    """A text of a tool of sysstat, whose name is the format's."""

    noise = _NOISE
    options: ClassVar[tuple[Option, ...]] = (TIMEZONE, DATE_ORDER, FIRST_REPORT)
    openings = (SYSSTAT_BANNER,)

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Samples in the order of the text, in pieces of whole lines."""
        head = classified(content.head)
        comma = bool(head.filter(kind="row")["text"].head(1000).str.contains(_DECIMAL_COMMA).any())
        style = _Style(
            sampler=self.name,
            order=date_order(banner_dates(head), hints.options, decimal_comma=comma),
            timezone=timezone_of(hints.options),
            comma=comma,
            # sar prints intervals only.
            first_report=None if self.name == "sar" else first_report_option(hints.options),
            tables=self.tables,
        )
        yield from parse_each(chunks(content), partial(_parse_block, style), None)


def _parse_block(style: _Style, block: Block, state: _State | None) -> tuple[Parsed, _State]:
    lines, fields = split_lines(block.data, block.offset)
    if state is None:
        state = _State(Clock(), alone=lines.filter(kind="header").height == 1)
    where, clock = placed(lines, state.clock, style.order, style.timezone)
    rows, headers, state = _under_headers(lines, state)
    rows = pl.concat([rows, where], how="horizontal").with_columns(since_boot=_since_boot(style, state))
    tables, read, misread = _read(rows, headers, style, block, fields)
    rejects = _rejects(_judged(lines, rows, misread), block)
    rejected = rows.filter(~pl.col("terminated") | pl.col("sample").is_null())["offset"]
    unread = pl.concat([misread["offset"], rejected]).implode()
    parsed = rows.filter(pl.col("header").is_in(read) & ~pl.col("offset").is_in(unread))["length"].sum()
    noise = block.length - int(parsed) - int(rejects["byte_length"].sum())
    return Parsed(tables, int(parsed), noise, rejects), replace(state, clock=clock)


def _under_headers(lines: pl.DataFrame, state: _State) -> tuple[pl.DataFrame, list[str], _State]:
    """The rows with `header` (index in the list, or null) and `seconds_of_header`; the list; the state after them."""
    headers = lines.filter(kind="header").select("rest", "seconds")
    texts, clocks = headers["rest"], headers["seconds"]
    if state.header is not None:
        texts = pl.concat([pl.Series("rest", [state.header]), texts])
        clocks = pl.concat([pl.Series("seconds", [state.seconds_of_header], pl.Float64), clocks])
    first = -1 if state.header is None else 0
    names = texts.unique(maintain_order=True)
    number = texts.to_frame().join(names.to_frame().with_row_index("number"), on="rest", maintain_order="left")[
        "number"
    ]
    place = (pl.col("kind") == "header").cum_sum().cast(pl.Int64) + first
    rows = lines.with_columns(place=pl.when(place >= 0).then(place)).filter(kind="row")
    rows = rows.with_columns(header=number.gather(rows["place"]), seconds_of_header=clocks.gather(rows["place"]))
    if texts.len():
        state = replace(state, header=str(texts[-1]), seconds_of_header=clocks[-1])
    return rows, [str(name) for name in names], state


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


def _rejects(lines: pl.DataFrame, block: Block) -> pl.DataFrame:
    if lines["reason"].null_count() == lines.height:
        return reject_runs(lines)
    return reject_runs(with_texts(lines.filter(pl.col("reason").is_not_null()), block.data, block.offset))


def _since_boot(style: _Style, state: _State) -> pl.Expr:
    """Whether a row averages since boot: its header then has the row's time, otherwise that of the interval's begin."""
    if style.sampler == "sar":
        return pl.lit(value=False)
    of_header = pl.col("seconds_of_header")
    alone = pl.lit(state.alone) & of_header.is_null()
    shown = (of_header == pl.col("seconds")).fill_null(value=False) | alone
    return shown if style.first_report is None else (pl.col("sample") == 0) & style.first_report


def _read(
    rows: pl.DataFrame, headers: list[str], style: _Style, block: Block, split: Fields | None
) -> tuple[dict[str, pl.DataFrame], list[int], pl.DataFrame]:
    """Rows of the tables, indexes of the headers that have a place, and `offset` and `reason` of misread rows."""
    reports = {str(number): (name, report_of(name.split(" "))) for number, name in enumerate(headers)}
    read = {number: (name, one) for number, (name, one) in reports.items() if one and one.table in style.tables}
    usable = rows.filter(pl.col("sample").is_not_null() & pl.col("terminated"))

    def fields_of(header: str, group: pl.DataFrame) -> pl.DataFrame:
        fields = split_rows(header, group, split)
        if fields is not None:
            return fields
        return read_rows(header, with_texts(group, block.data, block.offset), comma=style.comma)

    tables, misread = tables_under_headers(usable, read, fields_of, style.sampler)
    return tables, [int(number) for number in read], misread

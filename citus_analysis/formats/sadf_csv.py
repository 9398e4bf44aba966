"""`sadf -d`: samples of sar as lines of `host;interval;time;values`, with a header for each kind of report.

Tables, columns and units are those of the text (`sar.py`). Times are UTC, local (`-t`, `-T`: option `timezone`) or
seconds since 1970 (`-U`), as the file states. `sample` counts the distinct times of the file.

`sadf -dh` puts all reports of a moment into one line without the number of items, so its lines are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import ClassVar, Final

import polars as pl

from citus_analysis.formats.deliveries.content import Block, Content
from citus_analysis.formats.parsing.format import TIMEZONE, Format, Hints, Parsed
from citus_analysis.formats.parsing.lines import (
    UNTERMINATED,
    add_reject_reasons,
    build_parsed_lines,
    line_frame,
    make_first_true_expr,
    parse_each,
    split_into_blocks,
)
from citus_analysis.formats.parsing.sysstat import build_tables_under_headers, find_report_table, read_rows
from citus_analysis.formats.parsing.time_zones import get_timezone
from citus_analysis.formats.parsing.times import convert_local_to_utc

_HEADER: Final = "# hostname;interval;timestamp;"
_ROW: Final = r"^[^;]*;-?[0-9]+;([0-9][^;]*);(.*)$"
#: Lines without values: a restart of the machine or a comment of sadc.
_EVENT: Final = r"^[^;]*;-1;[^;]*;(?:LINUX-RESTART|COM\b)"
_STAMP: Final = r"^([0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2})(?: (UTC))?"
_JOINED: Final = "sadf -h puts several reports into one line without naming their items; run sadf without -h"
_TIMES: Final = pl.Schema({"time": pl.String(), "sample": pl.Int64()})


_IS_ROW: Final = ~pl.col("noise")
_REASONS: Final[Mapping[str, pl.Expr]] = {
    UNTERMINATED: ~pl.col("terminated") & (pl.col("text") != ""),
    "not a line of sadf -d": _IS_ROW & pl.col("rest").is_null(),
    "no header precedes this line": _IS_ROW & (pl.col("header") == ""),
    "no time": _IS_ROW & pl.col("sample").is_null(),
    _JOINED: _IS_ROW & pl.col("header").str.contains("[...]", literal=True),
}


class SadfCsv(Format):
    """Samples of sar in CSV, as `sadf -d` writes them."""

    name: ClassVar[str] = "sadf_csv"
    version: ClassVar[int] = 2
    tables = ("cpu_samples", "core_samples", "device_samples", "vm_samples", "net_samples", "pressure_samples")
    noise = "headers, comments, restarts, empty lines, and reports without a table"
    options = (TIMEZONE,)

    def detect(self, name: str, head: bytes) -> float:
        """By a header, at the beginning or after a restart."""
        first = head.lstrip(b"\xef\xbb\xbf\r\n").split(b"\n", 2)
        return 1.0 if any(line.startswith(_HEADER.encode()) for line in first[:2]) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Samples in the order of the file."""
        zone = get_timezone(hints.options)
        comma = re.search(rb";[0-9]+,[0-9]+[;\r\n]", content.head) is not None
        yield from parse_each(split_into_blocks(content), partial(_parse_block, zone, comma), ("", _TIMES.to_frame()))


def _parse_block(
    zone: str, comma: bool, block: Block, state: tuple[str, pl.DataFrame]
) -> tuple[Parsed, tuple[str, pl.DataFrame]]:
    """The rows after a header and the times so far."""
    header, times = state
    lines = _assign_csv_headers(line_frame(block.data, block.offset), header)
    fresh = _list_csv_moments(lines["time"], zone)
    times = _number_csv_moments(fresh, times)
    places = fresh.join(times, on="time", how="left")
    lines = lines.join(places, on="time", how="left", maintain_order="left")
    return _parse_csv_block(lines, comma=comma), (str(lines["header"][-1]) if lines.height else header, times)


def _assign_csv_headers(lines: pl.DataFrame, header: str) -> pl.DataFrame:
    """Lines with `header`; rows also with `time` as printed and `rest`."""
    text = pl.col("text")
    is_header = text.str.starts_with(_HEADER)
    lines = lines.with_columns(noise=is_header | (text == "") | text.str.contains(_EVENT))
    part = pl.when(~pl.col("noise")).then(text).str.extract_groups(_ROW).struct
    return lines.with_columns(
        header=pl.when(is_header).then(text.str.strip_prefix(_HEADER)).forward_fill().fill_null(header),
        time=part.field("1"),
        rest=part.field("2"),
    )


def _list_csv_moments(times: pl.Series, zone: str) -> pl.DataFrame:
    """The distinct times in order of appearance: `time` as printed, and `sample_time`."""
    stamp = pl.col("time").str.extract_groups(_STAMP).struct
    local = stamp.field("1").str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us", strict=False)
    stated = pl.when(stamp.field("2").is_not_null()).then(local.dt.replace_time_zone("UTC"))
    here = convert_local_to_utc(local, zone)
    epoch = pl.col("time").str.extract(r"^([0-9]{1,11})$").cast(pl.Int64) * 1_000_000
    moment = pl.coalesce(stated, here, epoch.cast(pl.Datetime("us", "UTC")))
    return times.drop_nulls().unique(maintain_order=True).to_frame("time").with_columns(sample_time=moment)


def _number_csv_moments(moments: pl.DataFrame, times: pl.DataFrame) -> pl.DataFrame:
    """All times so far with the numbers of their samples."""
    fresh = moments.filter(pl.col("sample_time").is_not_null()).select("time")
    fresh = fresh.join(times, on="time", how="anti", maintain_order="left")
    numbered = fresh.with_columns(sample=pl.int_range(pl.len(), dtype=pl.Int64) + times.height)
    return pl.concat([times, numbered])


def _parse_csv_block(lines: pl.DataFrame, *, comma: bool) -> Parsed:
    row = ~pl.col("noise") & pl.col("terminated") & pl.col("sample").is_not_null()
    rows = lines.filter(row).with_columns(since_boot=pl.lit(value=False))
    headers = [str(header) for header in rows["header"].unique() if "[...]" not in header]
    reports = {header: one for header in headers if (one := find_report_table(tuple(header.split(";"))))}
    read = partial(read_rows, comma=comma, separator=";")
    tables, misread = build_tables_under_headers(rows, reports, read, "sar")
    lines = add_reject_reasons(lines.with_columns(reason=make_first_true_expr(_REASONS)), misread)
    return build_parsed_lines(tables, lines, ~(row & pl.col("header").is_in(list(reports))))


FORMAT: Final = SadfCsv()

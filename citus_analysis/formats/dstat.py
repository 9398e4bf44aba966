"""CSV of dstat (0.6 to 0.8), pcp-dstat and dool (1.x), as `--output` writes it; several runs may follow each other.

Tables: `cpu_samples`, `core_samples` (`-C 0,1`), `device_samples` (`-d`, `-r`; totals as groups), `net_samples`,
`vm_samples` (`-m`, `-s`, `-g`, `-y`, `-p`, `-l`, `--vm`). Columns of other plugins are left out.

`sample_time` comes from `-T` (seconds since 1970) or `-t`, which prints day, month and time in the zone of the machine
(option `timezone`); the year is that of the date in the head of the run, and one more after New Year. Without either,
times are null.

`since_boot`: the first line of a run averages since boot. The option `first_report` overrides this.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Final

import polars as pl

from citus_analysis.formats.deliveries.content import Block, Content
from citus_analysis.formats.parsing.format import FIRST_REPORT, TIMEZONE, Format, Hints, Parsed, StartMarker
from citus_analysis.formats.parsing.lines import (
    UNTERMINATED,
    build_parsed_lines,
    line_frame,
    parse_each,
    split_into_blocks,
)
from citus_analysis.formats.parsing.sampler_lines import (
    PrintedColumns,
    map_printed_columns,
    parse_first_report_option,
    round_whole_columns,
    split_columns,
)
from citus_analysis.formats.parsing.time_zones import get_timezone
from citus_analysis.formats.parsing.times import convert_local_to_utc

# Columns of dstat and dool: group and name -> table, item and column.
#
# Sizes are bytes, rates are per second. The total of network interfaces is left out if single interfaces are printed.

_KB: Final = 1 / 1024


@dataclass(frozen=True)
class ColumnPlace:
    """Where a printed column belongs: `item` is a device, interface or CPU; empty for tables without items."""

    table: str
    item: str
    column: str
    factor: float = 1.0


_CPU: Final[PrintedColumns] = map_printed_columns(
    {
        "usr": "user_percent",
        "sys": "sys",
        "idl": "idle_percent",
        "wai": "iowait_percent",
        "stl": "steal_percent",
        "hiq": "irq_percent",
        "siq": "softirq_percent",
    }
)
#: Groups of vm_samples -> their columns.
_VM: Final[Mapping[str, PrintedColumns]] = {
    "memory usage": map_printed_columns(
        {"used": "used_kb", "free": "free_kb", "buff": "buffer_kb", "cach": "cache_kb", "avai": "available_kb"}, _KB
    ),
    "swap": map_printed_columns({"used": "swapped_kb"}, _KB),
    "paging": map_printed_columns({"in": "swap_in_kb_s", "out": "swap_out_kb_s"}, _KB),
    "system": map_printed_columns({"int": "interrupts_per_s", "csw": "context_switches_per_s"}),
    "procs": map_printed_columns({"run": "runnable", "blk": "blocked", "new": "forks_per_s"}),
    "load avg": map_printed_columns({"1m": "load_1", "5m": "load_5", "15m": "load_15"}),
    "virtual memory": map_printed_columns({"majpf": "major_faults_per_s", "minpf": "faults_per_s"}),
}
#: Beginning of a group's name -> table and columns of its items.
_ITEMS: Final[Mapping[str, tuple[str, PrintedColumns]]] = {
    "dsk": ("device_samples", map_printed_columns({"read": "read_kb_s", "writ": "write_kb_s"}, _KB)),
    "io": ("device_samples", map_printed_columns({"read": "reads_per_s", "writ": "writes_per_s"})),
    "net": ("net_samples", map_printed_columns({"recv": "receive_kb_s", "send": "transmit_kb_s"}, _KB)),
}
_CPU_GROUP: Final = re.compile(r"(?:total cpu|cpu([0-9]{1,9})) usage")


def find_column_places(groups: Sequence[str], names: Sequence[str]) -> dict[int, ColumnPlace]:
    """The place of each column that has one.

    Example:
        >>> find_column_places(["dsk/vda", ""], ["dsk/vda:read", "dsk/vda:writ"])[1]
        ColumnPlace(table='device_samples', item='vda', column='write_kb_s', factor=0.0009765625)
    """
    group, found = "", {}
    for index, name in enumerate(names):
        group = (groups[index] if index < len(groups) else "") or group
        place = _place(group, name.rpartition(":")[2])
        if place is not None:
            found[index] = place
    interfaces = {place.item for place in found.values() if place.table == "net_samples"}
    left_out = ("net_samples", "total") if interfaces - {"total"} else None
    return {index: place for index, place in found.items() if (place.table, place.item) != left_out}


def _place(group: str, name: str) -> ColumnPlace | None:
    cpu = _CPU_GROUP.fullmatch(group)
    kind, _, item = group.partition("/")
    if cpu:
        table, item, columns = "core_samples" if cpu[1] else "cpu_samples", cpu[1] or "", _CPU
    elif item:
        table, columns = _ITEMS.get(kind, ("", {}))
    else:
        table, columns = "vm_samples", _VM.get(group, {})
    return ColumnPlace(table, item, *columns[name]) if name in columns else None


_BANNER: Final = re.compile(r'^"((?:pcp-)?[Dd]stat|[Dd]ool) [0-9.]+ CSV [Oo]utput"')
_DATE: Final = re.compile(r'"Date:","[0-9]{1,2} ([A-Z][a-z]{2}) ([0-9]{4}) ')
_VALUES: Final = r"^(?:[0-9-]|[A-Z][a-z]{2}-[0-9]{2} )"
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_STAMP: Final = r"^(?:([0-9]{2})-([0-9]{2})|([A-Z][a-z]{2})-([0-9]{2})) ([0-9]{2}:[0-9]{2}:[0-9]{2})$"
_NO_NUMBER: Final = "not a number, or out of its column's range"


@dataclass(frozen=True)
class _DstatRun:
    """The head of a run, and how far the run was read.

    Attributes:
        tool: dstat or dool.
        month: month of the head's date, from 1.
        year: year of the head's date; None without a date.
        groups: names of the groups of columns.
        names: names of the columns.
        places: number of a column -> its place; other columns are not read.
        read: number of lines read.
        samples: number of samples of the file before this run.
    """

    tool: str = "dstat"
    month: int = 1
    year: int | None = None
    groups: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    places: dict[int, ColumnPlace] = field(default_factory=dict)
    read: int = 0
    samples: int = 0


class Dstat(Format):
    """CSV of dstat, pcp-dstat and dool."""

    name: ClassVar[str] = "dstat"
    version: ClassVar[int] = 2
    tables = ("cpu_samples", "core_samples", "device_samples", "net_samples", "vm_samples")
    noise = "heads of runs, names of columns, empty lines"
    options = (TIMEZONE, FIRST_REPORT)
    start_markers = (StartMarker(b'"', rb'(?:(?:pcp-)?[Dd]stat|[Dd]ool) [0-9.]+ CSV [Oo]utput"', repeats=True),)

    def detect(self, name: str, head: bytes) -> float:
        """By its first line."""
        first = head.lstrip(b"\xef\xbb\xbf\r\n").split(b"\n", 1)[0].decode("utf-8", "replace")
        return 1.0 if _BANNER.match(first) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Samples in the order of the file."""
        zone, first_report = get_timezone(hints.options), parse_first_report_option(hints.options) is not False
        parse = partial(_parse_dstat_block, zone=zone, first_report=first_report)
        yield from parse_each(split_into_blocks(content), parse, _DstatRun())


def _parse_dstat_block(block: Block, run: _DstatRun, *, zone: str, first_report: bool) -> tuple[Parsed, _DstatRun]:
    lines = line_frame(block.data, block.offset)
    values = pl.col("text").str.contains(_VALUES)
    lines = lines.with_columns(values=values, section=values.rle_id())
    found: dict[str, list[pl.DataFrame]] = {}
    reasons = [pl.DataFrame(schema={"offset": pl.Int64(), "reason": pl.String()})]
    # Lines of values and of heads alternate, once for each run of the tool.
    for section in lines.partition_by("section", maintain_order=True):
        if not section["values"][0]:
            run, strange = _parse_dstat_head(section, run)
            reasons.append(strange)
            continue
        tables, misread = _parse_dstat_rows(section, run, zone, first_report=first_report)
        run = replace(run, read=run.read + section.height)
        reasons.append(misread)
        for table, rows in tables.items():
            found.setdefault(table, []).append(rows)
    lines = lines.join(pl.concat(reasons), on="offset", how="left", maintain_order="left")
    tables = {table: pl.concat(some, how="diagonal") for table, some in found.items()}
    return build_parsed_lines(tables, lines, ~pl.col("values")), run


def _split_header_fields(text: str) -> tuple[str, ...]:
    """The fields of a header; none if it is damaged."""
    try:
        return tuple(next(csv.reader([text])))
    except csv.Error:
        return ()


def _parse_dstat_head(lines: pl.DataFrame, run: _DstatRun) -> tuple[_DstatRun, pl.DataFrame]:
    """The run that these lines begin or continue, and `offset` and `reason` of lines that dstat does not print."""
    strange = []
    for offset, text in lines.select("offset", "text").iter_rows():
        if banner := _BANNER.match(text):
            tool = "dool" if banner[1].lower() == "dool" else "dstat"
            run = _DstatRun(tool=tool, samples=run.samples + run.read)
        elif text.startswith('"Cmdline:"') and (date := _DATE.search(text)) and date[1] in _MONTHS:
            run = replace(run, month=_MONTHS.index(date[1]) + 1, year=int(date[2]))
        elif text.startswith('"') and not re.match(r'"(?:Author|Host|Cmdline):"', text):
            fields = _split_header_fields(text)
            if not fields:
                strange.append(offset)
                continue
            # The names follow the groups; both are repeated if the run continues in the file.
            run = replace(run, groups=run.names, names=fields)
        elif text and not text.startswith('"'):
            strange.append(offset)
    places = find_column_places(run.groups, run.names)
    offsets = pl.Series("offset", strange, pl.Int64).to_frame()
    return replace(run, places=places), offsets.with_columns(reason=pl.lit("not a line of dstat"))


def _parse_dstat_rows(
    lines: pl.DataFrame, run: _DstatRun, zone: str, *, first_report: bool
) -> tuple[dict[str, pl.DataFrame], pl.DataFrame]:
    """Rows of the tables, and `offset` and `reason` of lines that cannot be read."""
    count = len(run.names)
    fitting = pl.col("terminated") & (pl.col("text").str.count_matches(",", literal=True) == count - 1)
    misfit = pl.when(pl.col("terminated")).then(pl.lit(f"the header announces {count} columns"))
    misfits = lines.filter(~fitting).select("offset", reason=misfit.otherwise(pl.lit(UNTERMINATED)))
    numbered = lines.with_columns(sample=pl.int_range(pl.len(), dtype=pl.Int64) + run.samples + run.read)
    good = numbered.filter(fitting)
    fields = split_columns(good["text"], max(count, 1), frozenset(run.places), ",")
    placed = pl.concat([good.select("offset", "sample"), fields], how="horizontal").with_columns(
        sample_time=_parse_dstat_times(fields, run, zone), since_boot=(pl.col("sample") == run.samples) & first_report
    )
    held = _make_in_range_expr(run)
    misread = placed.filter(~held).select("offset", reason=pl.lit(_NO_NUMBER))
    return _build_dstat_tables(placed.filter(held), run), pl.concat([misfits, misread])


def _make_in_range_expr(run: _DstatRun) -> pl.Expr:
    """Whether all numbers of a line are within their columns' ranges."""
    limits = [
        pl.col(str(index)).abs() < 2.0**31 * (1.0 if place.factor == 1.0 else 2.0**20)
        for index, place in run.places.items()
    ]
    return pl.all_horizontal(limits).fill_null(value=False) if limits else pl.lit(value=True)


def _parse_dstat_times(fields: pl.DataFrame, run: _DstatRun, zone: str) -> pl.Series:
    if "epoch" in run.names:
        epoch = pl.col(str(run.names.index("epoch"))).str.extract(r"^([0-9]{1,11}(?:\.[0-9]+)?)$").cast(pl.Float64)
        return fields.select((epoch * 1e6).round().cast(pl.Int64).cast(pl.Datetime("us", "UTC"))).to_series()
    if "time" not in run.names or run.year is None:
        return pl.Series([None] * fields.height, dtype=pl.Datetime("us", "UTC"))
    part = pl.col(str(run.names.index("time"))).str.strip_chars('"').str.extract_groups(_STAMP).struct
    numbers = {name: f"{number:02}" for number, name in enumerate(_MONTHS, 1)}
    month = pl.coalesce(part.field("2"), part.field("3").replace_strict(numbers, default=None, return_dtype=pl.String))
    year = pl.lit(run.year) + (month.cast(pl.Int32) < run.month).cast(pl.Int32)
    text = pl.format("{}-{}-{} {}", year, month, pl.coalesce(part.field("1"), part.field("4")), part.field("5"))
    local = text.str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us", strict=False)
    return fields.select(convert_local_to_utc(local, zone)).to_series()


def _build_dstat_tables(placed: pl.DataFrame, run: _DstatRun) -> dict[str, pl.DataFrame]:
    """One row for each line and item."""
    items: dict[tuple[str, str], dict[str, pl.Expr]] = {}
    for index, place in run.places.items():
        items.setdefault((place.table, place.item), {})[place.column] = pl.col(str(index)) * place.factor
    found: dict[str, list[pl.DataFrame]] = {}
    for (table, item), columns in items.items():
        rows = placed.select("sample", "sample_time", "since_boot", byte_offset="offset", **columns)
        found.setdefault(table, []).append(_name_item_column(rows, table, item, run.tool))
    return {table: pl.concat(some, how="diagonal").sort("sample", maintain_order=True) for table, some in found.items()}


def _name_item_column(rows: pl.DataFrame, table: str, item: str, tool: str) -> pl.DataFrame:
    if table == "device_samples":
        return rows.with_columns(device=pl.lit(item), is_group=pl.lit(True if item == "total" else None, pl.Boolean))
    if table == "net_samples":
        return rows.with_columns(interface=pl.lit(item))
    if table == "vm_samples":
        return round_whole_columns(rows, table)
    interrupts = [name for name in ("irq_percent", "softirq_percent") if name in rows.columns]
    system = pl.sum_horizontal("sys", *interrupts) if "sys" in rows.columns else pl.lit(None, pl.Float64)
    rows = rows.with_columns(system_percent=system, sampler=pl.lit(tool)).select(pl.exclude("sys"))
    return rows if table == "cpu_samples" else rows.with_columns(cpu=pl.lit(int(item), pl.Int32))


FORMAT: Final = Dstat()

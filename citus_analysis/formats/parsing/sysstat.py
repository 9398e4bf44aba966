"""Tables from the texts of sar, mpstat and pidstat, block by block, in columns.

Sections without a table (interrupts by number, NFS, sensors, NUMA nodes ...) are noise, and so are averages, which are
not samples, comments, and restarts of the machine, which only begin a new part.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain, pairwise
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from citus_analysis.core.type_aliases import Bools, Floats, Integers
from citus_analysis.formats.deliveries.content import Block, Content, find_line_starts
from citus_analysis.formats.parsing.format import DATE_ORDER, FIRST_REPORT, TIMEZONE, Format, Hints, Option, Parsed
from citus_analysis.formats.parsing.lines import (
    UNTERMINATED,
    add_reject_reasons,
    make_first_true_expr,
    parse_each,
    reject_runs,
    select_readable_rows,
    split_into_blocks,
    take_first_lines,
)
from citus_analysis.formats.parsing.sampler_lines import (
    CLOCK,
    DEVICE,
    KB_PER_SECTOR,
    NUMBER,
    SYSSTAT_BANNER,
    PrintedColumns,
    TextFields,
    fill_derived_await,
    make_range_exprs,
    map_printed_columns,
    number_expr,
    parse_first_report_option,
    read_fields,
    round_whole_columns,
    split_columns,
    split_compact_lines,
)
from citus_analysis.formats.parsing.time_zones import get_timezone
from citus_analysis.formats.parsing.times import convert_local_to_utc, infer_date_order, parse_times

# Kinds of lines in the texts of sar, mpstat and pidstat, in any locale.
#
# banner
#     `Linux 6.1 (host) 11/22/26 _x86_64_ (2 CPU)`, at the beginning of each output.
# header
#     A time and the names of columns, or `#` and names (`pidstat -h`); none of its words is a number.
# row
#     A time and values.
# average
#     A line that begins with a word and a colon, `Average:` in the language of the locale; headers of averages, too.
# restart, comment
#     A time and `LINUX RESTART`, or `COM` and a comment of `sadc -C`.
# blank, other
#     An empty line; anything else.

#: A time of day in any locale that prints digits; groups: leading half of the day, hour, minute, second, trailing half.
#: English in India has the abbreviation of the zone after the half of the day.
TIME: Final = (
    r"(?:(上午|下午|오전|오후) ?)?([0-9]{1,2})[:.時时點点시] ?([0-9]{2})[:.分분] ?([0-9]{2})[秒초]?"
    r"(?: ([AaPp])\.?[Mm]\.?(?: (?:UTC|[A-Z]{1,4}T))?)?"
)
#: System, version, host, date (the group), architecture, CPUs.
BANNER: Final = r"^\S+ \S+ \(.*\) (\S*[0-9]\S*(?: [^_\s]\S*){0,3}) _\S+_ \([0-9]+ CPUs?\)$"
_EPOCH: Final = r"[0-9]{9,11}"
_CLOCK: Final = rf"^((?:{TIME}|{_EPOCH})) "
#: A number after a time; a pattern that does not begin with alternatives is searched several times as fast.
_NUMBER_ALONE: Final = r" -?[0-9][0-9.,]*[BkMGTP%]?(?: |$)"
_AVERAGE: Final = r"^[^\s0-9:：#]+(?: [^\s0-9:：]+)?[\s\x{202f}\x{a0}]?[:：](?: |$)"


#: Characters that occur in names of columns, but not in messages of a shell (`sar: not found`).
_NAMES: Final = r"[ :](?:%|kb|CPU |INTR |\S+/s(?: |$)|\S+-sz )"
#: Kinds of lines.
KINDS: Final = pl.Enum(["row", "header", "average", "blank", "banner", "restart", "comment", "other"])


@cache
def _make_line_kind_expr() -> pl.Expr:
    text, rest = pl.col("text"), pl.col("rest")
    timed = pl.col("clock").is_not_null()
    named = {
        "restart": timed & rest.str.starts_with("LINUX RESTART"),
        "comment": timed & rest.str.starts_with("COM "),
        "row": timed & text.str.contains(_NUMBER_ALONE),
        "header": timed | text.str.contains(r"^# ?Time [A-Za-z]"),
        "blank": text == "",
        "average": text.str.contains(_AVERAGE) & text.str.contains(f"{_NUMBER_ALONE}|{_NAMES}"),
        "banner": text.str.contains(BANNER),
    }
    return make_first_true_expr(named).fill_null("other").cast(KINDS)


def classify_sysstat_lines(data: bytes, offset: int = 0) -> pl.DataFrame:
    """Lines of :func:`split_compact_lines` with `kind`, `clock` (as printed, or null) and `rest` (text after it)."""
    lines = split_compact_lines(data, offset).with_columns(clock=pl.col("text").str.extract(_CLOCK))
    rest = pl.col("text").str.slice(pl.col("clock").str.len_chars() + 1)
    hashed = pl.col("text").str.starts_with("#")
    if lines.select(hashed.any()).item():
        rest = pl.coalesce(rest, pl.when(hashed).then(pl.col("text").str.replace(r"^# ?Time ", "")))
    return lines.with_columns(rest=rest).with_columns(kind=_make_line_kind_expr())


# Times of samples in the texts of sysstat, which print the date once, in the banner, and then only times of day.
#
# A file has *parts* (each begins with a banner, or with a restart of the machine) and parts have *sections*: `sar -f`
# prints one kind of report for the whole part, its averages, then the next kind, which begins at the part's first time
# again; sar with an interval prints all kinds for each moment, in one section. Within a section times only increase: a
# time of day that is hours before the previous one is on the next day. The clock may be set back by up to two hours
# (the end of summer time) without a change of the day.
#
# Only the samples, restarts and the first header of a section are used: the later headers repeat the time of the
# previous report, and averages have none.

_SET_BACK_S: Final = 2 * 3600
_DAY_S: Final = 86_400
_UNKNOWN: Final = -(2**31)


@dataclass(frozen=True)
class Clock:
    """The state after the lines so far, from which the next lines are dated.

    Attributes:
        day: days from 1970 to the newest time, or to the banner's date; far in the past if no date can be read.
        last: second of the day of the newest time.
        part_day: days from 1970 to the time at which the part began.
        part_first: second of the day of that time; None before it.
        sample: highest number of a sample, -1 before the first.
        at: number of the newest sample; it begins again in the later sections of a part.
        part_sample: number of the last sample before the part.
        newest_kind: kind of the newest line that counts.
    """

    day: int = _UNKNOWN
    last: float | None = None
    part_day: int = _UNKNOWN
    part_first: float | None = None
    sample: int = -1
    at: int = -1
    part_sample: int = -1
    newest_kind: str = "banner"


def parse_banner_dates(lines: pl.DataFrame) -> list[str]:
    """The dates of the banners as printed, or as numbers with dashes if they have signs for year, month and day."""
    dates = lines.filter(kind="banner")["text"].str.extract(BANNER)
    return [re.sub(r"[年月년월] ?", "-", text).rstrip("日일 ") for text in dates.drop_nulls()]


def assign_line_times(lines: pl.DataFrame, clock: Clock, order: str, timezone: str) -> tuple[pl.DataFrame, Clock]:
    """Place the rows among classified lines in time.

    Returns:
        `sample` and `sample_time` of each line of the kind `row`, null without a valid time; and the state after them.
    """
    counting = lines.lazy().select("kind", "seconds", text=pl.when(pl.col("kind") == "banner").then("text"))
    counting = counting.filter(pl.col("kind").is_in(["banner", "restart", "average", "row", "header"]))
    before = pl.col("kind").shift(fill_value=pl.lit(clock.newest_kind, KINDS))
    opens = before.is_in(["banner", "restart", "average"]) & pl.col("kind").is_in(["row", "header"])
    marked = counting.with_columns(section=opens & (before == "average"), opens=opens).collect()
    newest = str(marked["kind"][-1]) if marked.height else clock.newest_kind
    marked = marked.filter((pl.col("kind") != "average") & ((pl.col("kind") != "header") | pl.col("opens")))
    # A header without a time (`pidstat -h`) does not change the clock.
    known = pl.col("seconds").is_not_null() | (pl.col("kind") == "banner")
    timed = marked.filter(known)
    epochs = bool((timed["seconds"] > 2 * _DAY_S).any())
    walk = _ClockWalk(clock, timed, _convert_to_epoch_days(parse_banner_dates(timed), order))
    clock = walk.done()
    found = pl.DataFrame(
        {"sample": walk.samples, "sample_time": _convert_to_utc(walk.days, walk.seconds, timezone, epochs=epochs)}
    )
    if timed.height < marked.height:
        place = marked.select(pl.when(known).then(known.cum_sum() - 1)).to_series()
        found = found.select(pl.all().gather(place))
    return found.filter(marked["kind"] == "row"), replace(clock, newest_kind=newest)


def _convert_to_epoch_days(texts: list[str], order: str) -> list[int]:
    """The dates of banners as days since 1970."""
    moments = parse_times(pl.Series([f"{text} 00:00:00" for text in texts], dtype=pl.String), order)
    return moments.dt.epoch("d").cast(pl.Int64).fill_null(_UNKNOWN).to_list()


class _ClockWalk:
    """Dates and numbers the lines that count, section by section.

    Attributes:
        days: days since 1970 of each line.
        seconds: seconds of the day of each line.
        samples: number of the sample of each line.
    """

    def __init__(self, clock: Clock, lines: pl.DataFrame, dates: list[int]) -> None:
        self.clock = clock
        self.seconds = lines["seconds"].fill_null(0.0).to_numpy()
        self.days = np.full(lines.height, _UNKNOWN, np.int64)
        self.samples = np.zeros(lines.height, np.int64)
        self._banner = (lines["kind"] == "banner").to_numpy()
        self._restart = (lines["kind"] == "restart").to_numpy()
        self._row = (lines["kind"] == "row").to_numpy()
        self._section = lines["section"].to_numpy()
        self._dates = iter(dates)

    def done(self) -> Clock:
        """Walk through all sections; returns the state after the last line."""
        starts = np.flatnonzero(self._banner | self._restart | self._section)
        for begin, end in pairwise(sorted({0, len(self.seconds), *starts.tolist()})):
            self._slice(begin, end)
        return self.clock

    def _slice(self, begin: int, end: int) -> None:
        clock = self.clock
        if self._banner[begin]:
            day, sample = next(self._dates), clock.sample
            self.clock = clock = Clock(day, part_day=day, sample=sample, at=sample, part_sample=sample)
            begin += 1
            if begin == end:
                return
        first, last = float(self.seconds[begin]), clock.last
        day, sample = clock.day + _count_midnight_wraps(first, last), clock.at
        if self._restart[begin] or clock.part_first is None:
            last, sample = None, clock.sample
            clock = replace(clock, part_first=first, part_day=day, part_sample=sample)
        elif self._section[begin]:
            last, day, sample = None, clock.part_day + _count_midnight_wraps(first, clock.part_first), clock.part_sample
        self._place(begin, end, day, sample, last)
        at = int(self.samples[end - 1])
        last, day = float(self.seconds[end - 1]), int(self.days[end - 1])
        self.clock = replace(clock, last=last, day=day, sample=max(clock.sample, at), at=at)

    def _place(self, begin: int, end: int, day: int, sample: int, last: float | None) -> None:
        """Number and date the lines of a slice whose first is `day` days after the banner's date."""
        seconds, row = self.seconds[begin:end], self._row[begin:end]
        wraps = np.concatenate([[0], np.cumsum(np.diff(seconds) < -_SET_BACK_S)])
        self.days[begin:end] = wraps + day
        of_rows = seconds[row]
        changes = np.concatenate([[len(of_rows) > 0 and of_rows[0] != last], np.diff(of_rows) != 0])[: len(of_rows)]
        numbers: npt.NDArray[np.int64] = np.full(end - begin, sample, np.int64)
        numbers[row] += np.cumsum(changes)
        self.samples[begin:end] = np.maximum.accumulate(numbers)


def _count_midnight_wraps(second: float, before: float | None) -> int:
    return int(before is not None and second < before - _SET_BACK_S)


def _convert_to_utc(
    days: npt.NDArray[np.int64], seconds: npt.NDArray[np.float64], timezone: str, *, epochs: bool
) -> pl.Series:
    """Times in UTC of local times, or of seconds since 1970."""
    if epochs:
        return pl.Series((seconds * 1e6).astype(np.int64)).cast(pl.Datetime("us", "UTC"))
    known = days > _UNKNOWN // 2
    local = ((np.where(known, days, 0) * _DAY_S + seconds) * 1e6).astype(np.int64)
    frame = pl.DataFrame({"local": pl.Series(local).cast(pl.Datetime("us")), "known": known})
    return frame.select(pl.when("known").then(convert_local_to_utc(pl.col("local"), timezone))).to_series()


# The table that a report of sysstat belongs to, by the names of its columns, and the meaning of each column.
#
# The names are the same in the texts of sar, mpstat and pidstat and in the CSV of `sadf -d`, in all versions; a column
# that is not listed is left out, so that versions with more columns need no change. JSON names are those without `/s`
# and `%` (:mod:`citus_analysis.formats.parsing.sysstat_json`).

_CPU: Final = map_printed_columns(
    {
        "%usr": "usr",
        "%user": "user_percent",
        "%nice": "nice_percent",
        "%sys": "sys",
        "%system": "system_percent",
        "%iowait": "iowait_percent",
        "%steal": "steal_percent",
        "%irq": "irq_percent",
        "%soft": "softirq_percent",
        "%guest": "guest",
        "%gnice": "guest_nice",
        "%idle": "idle_percent",
    }
)
_DEVICE: Final[PrintedColumns] = {
    **DEVICE,
    "%util": DEVICE["util"],
    **map_printed_columns(
        {"rd_sec/s": "read_kb_s", "wr_sec/s": "write_kb_s", "dc_sec/s": "discard_kb_s"}, KB_PER_SECTOR
    ),
}
#: `sar -b`: all devices together.
_TRANSFERS: Final[PrintedColumns] = {
    **map_printed_columns(
        {"tps": "transfers_per_s", "rtps": "reads_per_s", "wtps": "writes_per_s", "dtps": "discards_per_s"}
    ),
    **map_printed_columns({"bread/s": "read_kb_s", "bwrtn/s": "write_kb_s", "bdscd/s": "discard_kb_s"}, KB_PER_SECTOR),
}
_NET: Final[PrintedColumns] = {
    **map_printed_columns(
        {
            "rxpck/s": "receive_packets_per_s",
            "txpck/s": "transmit_packets_per_s",
            "rxkB/s": "receive_kb_s",
            "txkB/s": "transmit_kb_s",
            "rxerr/s": "receive_errors_per_s",
            "txerr/s": "transmit_errors_per_s",
            "rxdrop/s": "receive_drops_per_s",
            "txdrop/s": "transmit_drops_per_s",
            "%ifutil": "utilization_percent",
        }
    ),
    **map_printed_columns({"rxbyt/s": "receive_kb_s", "txbyt/s": "transmit_kb_s"}, 1 / 1024),
}
#: Memory, paging, swapping, tasks and the queue: a report has columns of one of them.
_VM: Final = map_printed_columns(
    {
        "kbmemfree": "free_kb",
        "kbavail": "available_kb",
        "kbmemused": "used_kb",
        "kbbuffers": "buffer_kb",
        "kbcached": "cache_kb",
        "kbactive": "active_kb",
        "kbinact": "inactive_kb",
        "kbdirty": "dirty_kb",
        "kbswpused": "swapped_kb",
        "pgpgin/s": "blocks_in_per_s",
        "pgpgout/s": "blocks_out_per_s",
        "fault/s": "faults_per_s",
        "majflt/s": "major_faults_per_s",
        "pswpin/s": "swap_in_pages_per_s",
        "pswpout/s": "swap_out_pages_per_s",
        "proc/s": "forks_per_s",
        "cswch/s": "context_switches_per_s",
        "runq-sz": "runnable",
        "plist-sz": "tasks",
        "ldavg-1": "load_1",
        "ldavg-5": "load_5",
        "ldavg-15": "load_15",
        "blocked": "blocked",
    }
)
_PROCESS: Final = map_printed_columns(
    {
        "PID": "pid",
        "TGID": "pid",
        "TID": "thread",
        "%usr": "user_percent",
        "%system": "system_percent",
        "%guest": "guest_percent",
        "%wait": "wait_percent",
        "%CPU": "cpu_percent",
        "CPU": "cpu",
        "minflt/s": "minor_faults_per_s",
        "majflt/s": "major_faults_per_s",
        "VSZ": "virtual_kb",
        "RSS": "resident_kb",
        "%MEM": "memory_percent",
        "kB_rd/s": "read_kb_s",
        "kB_wr/s": "write_kb_s",
        "kB_ccwr/s": "cancelled_write_kb_s",
        "iodelay": "io_delay_ticks",
        "cswch/s": "voluntary_switches_per_s",
        "nvcswch/s": "involuntary_switches_per_s",
    }
)


def _list_pressure_columns() -> dict[str, tuple[str, str, str]]:
    means = {"-10": "avg10_percent", "-60": "avg60_percent", "-300": "avg300_percent", "": "stalled_percent"}
    return {
        f"%{scope[0]}{short}{suffix}": (pressure, scope, column)
        for scope in ("some", "full")
        for short, pressure in {"cpu": "cpu", "io": "io", "mem": "memory"}.items()
        for suffix, column in means.items()
    }


#: Column of `sar -q PSI` -> pressure, scope and column of pressure_samples.
PRESSURE: Final[Mapping[str, tuple[str, str, str]]] = _list_pressure_columns()


@dataclass(frozen=True)
class ReportTable:
    """Place of a report's columns.

    Attributes:
        table: the table; `pressure_samples` has several rows for each row of the report.
        key: name of the column that names the item of a row (CPU, device, interface, interrupt); None without items.
        numbers: position of a column -> column of the table and factor that converts its unit. Shares of CPU time
            are added up later, so their names may not be in the table.
        names: names of all columns as printed.
    """

    table: str
    key: str | None
    numbers: Mapping[int, tuple[str, float]]
    names: tuple[str, ...] = ()


#: Table, key and columns; the first entry decides whose key and at least one of whose columns are in the report.
_REPORTS: Final[tuple[tuple[str, str | None, PrintedColumns], ...]] = (
    ("process_samples", "PID", _PROCESS),
    ("process_samples", "TGID", _PROCESS),
    ("cpu_samples", "CPU", _CPU),
    ("vm_samples", "CPU", map_printed_columns({"intr/s": "interrupts_per_s"})),
    ("vm_samples", "INTR", map_printed_columns({"intr/s": "interrupts_per_s", "all": "interrupts_per_s"})),
    ("device_samples", "DEV", _DEVICE),
    ("net_samples", "IFACE", _NET),
    ("device_samples", None, _TRANSFERS),
    ("vm_samples", None, _VM),
    ("pressure_samples", None, {name: (name, 1.0) for name in PRESSURE}),
)
#: Columns that name items; a report with one of these as its key, but without an entry above, has no table.
_KEYS: Final = frozenset({"PID", "TGID", "CPU", "NODE", "INTR", "DEV", "IFACE", "TTY", "BUS", "DEVICE", "FILESYSTEM"})


@cache
def find_report_table(names: tuple[str, ...]) -> ReportTable | None:
    """The place of a report, from the names of its columns in order; None if it has no table."""
    for table, key, columns in _REPORTS:
        numbers = {index: columns[name] for index, name in enumerate(names) if name in columns and name != key}
        if numbers and (key in names if key else not _KEYS.intersection(names)):
            if table == "process_samples":
                numbers |= {index: columns[name] for index, name in enumerate(names) if name in {"PID", "TGID"}}
            return ReportTable(table, key, numbers, names)
    return None


def map_report_columns(table: str, key: str | None) -> PrintedColumns:
    """The columns of a table in reports with this key, and their factors."""
    columns = (columns for one, named, columns in _REPORTS if (one, named) == (table, key))
    return next(columns)


# Rows of the tables, from rows of a report of sysstat with named columns.
#
# Shares of CPU time are added up as iostat does, so that those of all samplers mean the same: user includes guests,
# system includes interrupts. Rows of single CPUs go to `core_samples`. Items without a table (single interrupts) have
# no rows.

#: Names of all CPUs together, in texts and in CSV.
ALL_CPUS: Final = ("all", "-1")
NO_NUMBER: Final = "not a number, or out of its column's range"
#: pidstat prints this for rates that it is not permitted to read.
_UNREADABLE: Final = -1.0
#: Columns of every row.
PLACE: Final = ("offset", "sample", "sample_time", "since_boot")
#: The row of a thread has no process, and that of a process no thread.
_OPTIONAL: Final = frozenset({"pid", "thread"})
#: CPU columns that are sums of printed ones.
_PRINTED: Final = ("usr", "sys", "guest", "guest_nice")


def add_range_reasons(fields: pl.DataFrame, report: ReportTable) -> pl.DataFrame:
    """Fields with a `reason` if a number is missing or out of its column's range."""
    fitting = make_range_exprs(report.table, (name for name, _ in report.numbers.values())).items()
    whole = pl.all_horizontal(fits.fill_null(value=name in _OPTIONAL) for name, fits in fitting)
    return fields.with_columns(reason=pl.when(~whole).then(pl.lit(NO_NUMBER)))


def null_out_of_range_fields(fields: pl.DataFrame, report: ReportTable) -> pl.DataFrame:
    """Fields of JSON, whose values may be missing: a number out of its column's range is null and `doubtful`."""
    fitting = make_range_exprs(report.table, (name for name, _ in report.numbers.values()))
    misfit = {name: ~fits.fill_null(value=True) for name, fits in fitting.items()}
    named = [pl.when(misfits).then(pl.lit(name)) for name, misfits in misfit.items()]
    doubtful = pl.concat_str(named, separator=", ", ignore_nulls=True)
    return fields.with_columns(
        *(pl.when(~misfits).then(pl.col(name)).alias(name) for name, misfits in misfit.items()),
        doubtful=pl.when(doubtful != "").then(doubtful),
    )


def build_table_rows(fields: pl.DataFrame, report: ReportTable, sampler: str) -> dict[str, pl.DataFrame]:
    """Table -> rows.

    Args:
        fields: `offset`, `sample`, `sample_time`, `since_boot`, `item` (text, if the report has a key), `user` and
            `command` (of pidstat), and the report's numbers under the names of the table's columns.
        report: the report's place.
        sampler: name of the tool.
    """
    if report.table == "cpu_samples":
        return _build_cpu_rows(fields, sampler)
    if report.table == "pressure_samples":
        return {report.table: _build_pressure_rows(fields)}
    if report.table == "device_samples":
        return {report.table: _build_device_rows(fields, report)}
    if report.table == "net_samples":
        return {report.table: fields.rename({"item": "interface"})}
    if report.table == "process_samples":
        return {report.table: _build_process_rows(fields)}
    whole = pl.col("item").is_in([*ALL_CPUS, "sum"]) if report.key else pl.lit(value=True)
    return {report.table: round_whole_columns(fields.filter(whole).select(pl.exclude("item")), report.table)}


def _build_cpu_rows(fields: pl.DataFrame, sampler: str) -> dict[str, pl.DataFrame]:
    there = set(fields.columns)
    absent = [pl.lit(None, pl.Float64).alias(name) for name in _PRINTED if name not in there]
    have = fields.with_columns(absent, sampler=pl.lit(sampler))
    sums = {
        "user_percent": pl.col("usr") + pl.col("guest").fill_null(0.0),
        "system_percent": pl.col("sys")
        + _make_column_or_zero_expr("irq_percent", there)
        + _make_column_or_zero_expr("softirq_percent", there),
        "nice_percent": _make_column_or_zero_expr("nice_percent", there) + pl.col("guest_nice").fill_null(0.0),
    }
    summed = have.with_columns(
        **{name: value for name, value in sums.items() if name not in there or name == "nice_percent"},
        guest_percent=pl.col("guest") + pl.col("guest_nice").fill_null(0.0),
    ).drop(_PRINTED)
    everything = pl.col("item").is_in(ALL_CPUS)
    single = summed.with_columns(cpu=pl.col("item").str.extract("^([0-9]{1,9})$").cast(pl.Int32)).drop("item")
    return {
        "cpu_samples": summed.filter(everything).drop("item"),
        "core_samples": single.filter(pl.col("cpu").is_not_null()),
    }


def _make_column_or_zero_expr(name: str, there: set[str]) -> pl.Expr:
    return pl.col(name) if name in there else pl.lit(0.0)


def _build_device_rows(fields: pl.DataFrame, report: ReportTable) -> pl.DataFrame:
    if report.key is None:
        return fields.with_columns(device=pl.lit("all"), is_group=pl.lit(value=True))
    return fill_derived_await(fields.rename({"item": "device"}))


def _build_pressure_rows(fields: pl.DataFrame) -> pl.DataFrame:
    """One row for each kind of pressure and scope."""
    kinds: dict[tuple[str, str], dict[str, str]] = {}
    for name in fields.columns:
        if name in PRESSURE:
            pressure, scope, column = PRESSURE[name]
            kinds.setdefault((pressure, scope), {})[name] = column
    parts = [
        fields.select(*PLACE, *names).rename(names).with_columns(pressure=pl.lit(pressure), scope=pl.lit(scope))
        for (pressure, scope), names in kinds.items()
    ]
    return pl.concat(parts, how="diagonal")


def _build_process_rows(fields: pl.DataFrame) -> pl.DataFrame:
    converted = [
        pl.when(pl.col(name) != _UNREADABLE).then(name).alias(name)
        for name in ("read_kb_s", "write_kb_s", "cancelled_write_kb_s")
        if name in fields.columns
    ]
    return round_whole_columns(fields.with_columns(converted), "process_samples")


def build_tables_under_headers(
    rows: pl.DataFrame,
    reports: Mapping[str, ReportTable],
    read: Callable[[ReportTable, pl.DataFrame], pl.DataFrame],
    sampler: str,
) -> tuple[dict[str, pl.DataFrame], pl.DataFrame]:
    """Rows of the tables, and `offset` and `reason` of misread rows.

    Args:
        rows: rows with their `header`.
        reports: the report of each header; rows under others are left out.
        read: reads the fields of the rows of a report.
        sampler: the tool.
    """
    found = []
    reasons = [pl.DataFrame(schema={"offset": pl.Int64(), "reason": pl.String()})]
    for (header,), group in rows.group_by("header", maintain_order=True):
        if report := reports.get(str(header)):
            fields = read(report, group)
            reasons.append(fields.filter(pl.col("reason").is_not_null()).select("offset", "reason"))
            found.append(build_table_rows(select_readable_rows(fields), report, sampler))
    return combine_table_rows(found), pl.concat(reasons)


def combine_table_rows(found: Sequence[Mapping[str, pl.DataFrame]]) -> dict[str, pl.DataFrame]:
    """Rows of each table in the order of the source."""
    tables = {
        table: pl.concat([some[table] for some in found if table in some], how="diagonal")
        for table in dict.fromkeys(chain.from_iterable(found))
    }
    return {
        name: rows.sort("offset", maintain_order=True).rename({"offset": "byte_offset"})
        for name, rows in tables.items()
    }


# Rows of the texts of sysstat under one header: their columns, and the reasons for rows that cannot be read.

#: mpstat -T prints these for single CPUs only, and leaves them empty in the row of all CPUs.
TOPOLOGY: Final = ("CORE", "SOCK", "NODE")
#: The last column of pidstat, which may contain blanks.
COMMAND: Final = "Command"
#: Columns that name the user of a process.
_USERS: Final = ("UID", "USER")
#: Columns that are `-` in rows of threads or of processes.
OPTIONAL_KEYS: Final = frozenset({"PID", "TGID", "TID"})


def read_rows(report: ReportTable, rows: pl.DataFrame, *, comma: bool, separator: str = " ") -> pl.DataFrame:
    """Columns of the rows of a report.

    Args:
        report: the place of its columns.
        rows: lines with `offset`, `sample`, `sample_time`, `since_boot` and `rest` (the text after the time).
        comma: numbers have a decimal comma.
        separator: the text between two columns.

    Returns:
        The fields that :func:`citus_analysis.formats.parsing.sysstat.build_table_rows` takes, and `reason`.
    """
    names = report.names
    last = names[-1] == COMMAND
    rows = _fill_short_rows(rows, names) if set(TOPOLOGY) <= set(names) else rows
    count = len(names) - last
    texts = rows["rest"]
    if last:
        # pidstat prints fewer than forty; the columns of a damaged header may be too many for a pattern.
        counted = min(count, 100)
        parts = texts.str.extract_groups(rf"^((?:\S+ ){{{counted - 1}}}\S+)(?: (.*))?$").struct
        rows = rows.with_columns(command=parts.field("2").str.replace(r"^\|__", ""))
        texts = parts.field("1")
    fitting = (texts.str.count_matches(separator, literal=True) == count - 1).fill_null(value=False)
    misfits = rows.filter(~fitting).select("offset", reason=pl.lit(f"the header announces {len(names)} columns"))
    if misfits.height:
        rows, texts = rows.filter(fitting), texts.filter(fitting)
    if comma:
        texts = texts.str.replace_all(",", ".", literal=True)
    fields = _parse_row_fields(texts, count, report, separator)
    placed = pl.concat([rows.select(*PLACE, *(["command"] if last else [])), fields], how="horizontal")
    return pl.concat([add_range_reasons(placed, report), misfits], how="diagonal")


def _fill_short_rows(rows: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    short = pl.col("rest").str.count_matches(" ", literal=True) == len(names) - 1 - len(TOPOLOGY)
    filled = pl.col("rest").str.replace(r"^all ", f"all{' -' * len(TOPOLOGY)} ")
    return rows.with_columns(rest=pl.when(short).then(filled).otherwise("rest"))


def _parse_row_fields(texts: pl.Series, count: int, report: ReportTable, separator: str) -> pl.DataFrame:
    """The report's numbers under their columns' names, with `item` and `user`."""
    numbers = frozenset(index for index in report.numbers if report.names[index] not in OPTIONAL_KEYS)
    columns = split_columns(texts, count, numbers, separator)
    if any(columns[str(index)].null_count() for index in numbers):
        # Numbers with a unit (`--human`) are rare, and reading them takes several times as long.
        columns = split_columns(texts, count, frozenset(), separator).with_columns(
            number_expr(pl.col(str(index))).alias(str(index)) for index in numbers
        )
    values = {
        column: pl.col(str(index)).cast(pl.Float64, strict=False) * factor
        for index, (column, factor) in report.numbers.items()
    }
    named = {name: pl.col(str(index)) for name, index in find_naming_columns(report).items()}
    return columns.select(**named, **values)


def find_naming_columns(report: ReportTable) -> dict[str, int]:
    """The column that names the item of each row, or its user, if there is one."""
    of_user = report.table == "process_samples"
    named = _USERS if of_user else (report.key,)
    places = [index for index, name in enumerate(report.names) if name in named]
    return {"user" if of_user else "item": places[0]} if places else {}


# Lines of sysstat's texts: rows that look the same in all locales as columns of numbers, other lines as texts.
#
# A plain row begins with a time such as `10:00:01`, optionally followed by `AM` or `PM`, or with seconds since 1970,
# and has a plain number after that. Without the compiled reader, every line is read as a text, with
# the same rows.

_NOON: Final = 12
_HALF_DAY_S: Final = 43_200
_NO_FIELD: Final = -1
_LEAST_EPOCH: Final = 1e8
_MOST_EPOCH_DIGITS: Final = 12
_SECONDS_PLACE: Final = 6
_CODES: Final = {kind: code for code, kind in enumerate(KINDS.categories)}


def split_lines(data: bytes, offset: int) -> tuple[pl.DataFrame, TextFields | None]:
    """Lines of a block, and its fields.

    Returns:
        `offset`, `length`, `terminated`, `kind`, `seconds` (of the day, or since 1970); of plain rows `field` (number
        of the first field after the time) and `fields` (their number), of other lines `text` and `rest` as
        :func:`citus_analysis.formats.parsing.sysstat.classify_sysstat_lines` gives them.
    """
    if not offset and data.startswith(codecs.BOM_UTF8):
        data = b"   " + data[len(codecs.BOM_UTF8) :]
    fields = read_fields(data)
    if fields is None:
        return _convert_to_text_lines(classify_sysstat_lines(data, offset)), None
    bounds = find_line_starts(data)
    lines = pl.DataFrame({"offset": bounds[:-1] + offset, "length": np.diff(bounds)})
    lines = lines.with_columns(terminated=np.arange(lines.height) < data.count(b"\n"))
    timed, plain, seconds, first = _find_plain_rows(fields)
    other = np.flatnonzero(~plain & (np.diff(fields.first) > 0))
    texts = _parse_other_lines(fields, bounds, other, timed[other], first[other])
    kind = np.where(plain, _CODES["row"], _CODES["blank"])
    kind[other] = texts["kind"].to_physical().to_numpy()
    seconds[other] = np.where(timed[other], seconds[other], texts["seconds"].fill_null(np.nan).to_numpy())
    place = np.full(lines.height, _NO_FIELD)
    place[other] = np.arange(len(other))
    shown = texts.select("text", "rest").select(pl.all().gather(pl.Series(place).replace(_NO_FIELD, None)))
    blank = pl.Series(~plain & (place == _NO_FIELD))
    lines = lines.with_columns(
        KINDS.categories.gather(kind).cast(KINDS).alias("kind"),
        pl.Series("seconds", np.where(blank, np.nan, seconds), nan_to_null=True),
        field=np.where(plain, first, _NO_FIELD),
        fields=np.where(plain, fields.first[1:] - first, 0),
    )
    return lines.hstack(shown.with_columns(text=pl.when(blank).then(pl.lit("")).otherwise("text"))), fields


def _parse_other_lines(
    fields: TextFields, bounds: Integers, lines: Integers, timed: Bools, after: Integers
) -> pl.DataFrame:
    """Columns of lines other than plain rows. Each text is read once: most are headers that differ only in their time.

    Lines that begin with a time have no `text`.
    """
    begin = np.where(timed, fields.begin[np.minimum(after, len(fields.begin) - 1)], bounds[lines])
    end = bounds[lines + 1]
    end -= np.frombuffer(fields.data, np.uint8)[end - 1] == ord("\n")
    keys = pl.DataFrame({"timed": timed, "text": fields.slices(begin, end - begin)}).with_row_index()
    first = keys.select(pl.col("index").first().over("timed", "text")).to_series().to_numpy()
    distinct, number = np.unique(first, return_inverse=True)
    texts = _convert_to_text_lines(
        classify_sysstat_lines(_join_line_bytes(fields.data, bounds[lines[distinct]], bounds[lines[distinct] + 1]))
    )
    return texts.select(pl.all().gather(number)).with_columns(text=pl.when(~pl.Series(timed)).then("text"))


def add_line_texts(lines: pl.DataFrame, data: bytes, offset: int) -> pl.DataFrame:
    """Lines of a block, with `text` and `rest` of each line."""
    if not lines["text"].null_count():
        return lines
    begin = lines["offset"].to_numpy() - offset
    texts = classify_sysstat_lines(
        _join_line_bytes(data, begin, begin + lines["length"].to_numpy()), offset + int(begin[0])
    )
    return lines.with_columns(texts["text"], texts["rest"])


def _convert_to_text_lines(lines: pl.DataFrame) -> pl.DataFrame:
    no_fields = {"field": pl.lit(_NO_FIELD, pl.Int64), "fields": pl.lit(0, pl.Int64)}
    return lines.with_columns(seconds=_make_seconds_of_day_expr(), **no_fields).drop("clock")


def _join_line_bytes(data: bytes, begin: Integers, end: Integers) -> bytes:
    """Some lines of the data, joined."""
    lengths = end - begin
    before = np.cumsum(lengths) - lengths
    places = np.repeat(begin - before, lengths) + np.arange(int(lengths.sum()))
    return np.frombuffer(data, np.uint8)[places].tobytes()


def _find_plain_rows(fields: TextFields) -> tuple[Bools, Bools, Floats, Integers]:
    """Which lines begin with a time and which are plain rows; the time in seconds, and the first field after it."""
    begins, counts = fields.first[:-1], np.diff(fields.first)
    if not len(fields.kind):
        nothing = np.zeros(len(begins), np.bool_)
        return nothing, nothing, np.zeros(len(begins)), begins
    first = np.minimum(begins, len(fields.kind) - 1)
    half, late = _find_day_halves(fields, first, counts)
    clock, value = fields.kind[first] == CLOCK, fields.number[first]
    least = 10.0 ** (np.minimum(fields.length[first], _MOST_EPOCH_DIGITS) - 1)
    # The text has as many digits as characters, so it has neither a sign nor a point.
    epoch = (fields.kind[first] == NUMBER) & (value >= np.maximum(least, _LEAST_EPOCH)) & (value < _LEAST_EPOCH * 1000)
    after = first + 1 + half
    numbers = np.append(0, np.cumsum(fields.kind == NUMBER))
    numeric = numbers[fields.first[1:]] - numbers[np.minimum(first + 1, fields.first[1:])] > 0
    # LINUX RESTART, COM
    event = np.isin(_get_field_bytes(fields, np.minimum(after, len(fields.kind) - 1)), np.frombuffer(b"LC", np.uint8))
    timed = (counts > 1 + half) & (clock | (epoch & ~half))
    return timed, timed & numeric & ~event, np.where(half, value % _HALF_DAY_S + late * _HALF_DAY_S, value), after


def _find_day_halves(fields: TextFields, first: Integers, counts: Integers) -> tuple[Bools, Bools]:
    """Whether `AM` or `PM` comes after the first field of each line, and which of them."""
    second = np.minimum(first + 1, len(fields.kind) - 1)
    if not (b" AM " in fields.data or b" PM " in fields.data):
        return np.zeros(len(first), np.bool_), np.zeros(len(first), np.bool_)
    one, two = _get_field_bytes(fields, second), _get_field_bytes(fields, second, 1)
    # A leap second at the end of a half day would otherwise begin that half again.
    leap = _get_field_bytes(fields, first, _SECONDS_PLACE) == ord("6")
    half = (counts > 1) & (fields.length[second] == len("AM")) & (two == ord("M")) & ~leap
    late = one == ord("P")
    return half & (late | (one == ord("A"))), half & late


def _get_field_bytes(fields: TextFields, field: Integers, place: int = 0) -> npt.NDArray[np.uint8]:
    """The byte at a place of each of some fields; a later byte if the field is shorter."""
    text = np.frombuffer(fields.data, np.uint8)
    return text[np.minimum(fields.begin[field] + place, len(text) - 1)]


@cache
def _make_seconds_of_day_expr() -> pl.Expr:
    """Seconds since midnight of printed times, or since 1970; null without a time."""
    part = pl.col("clock").str.extract_groups(rf"^{TIME}$").struct
    before, after = part.field("1"), part.field("5")
    hour, minute, second = (part.field(group).cast(pl.Int64) for group in "234")
    late = (before.is_in(["下午", "오후"]) | after.is_in(["P", "p"])).fill_null(value=False)
    halved = before.is_not_null() | after.is_not_null()
    hour = pl.when(halved).then(hour % _NOON + late.cast(pl.Int64) * _NOON).otherwise(hour)
    possible = (hour < 24) & (minute < 60) & (second <= 60)
    epoch = pl.col("clock").str.extract(r"^([0-9]{9,11})$").cast(pl.Int64)
    return pl.coalesce(pl.when(possible).then(hour * 3600 + minute * 60 + second), epoch).cast(pl.Float64)


# Columns of plain rows of sysstat's texts under one header, from the fields of their block.

_ABSENT: Final = ord("-")


def split_rows(report: ReportTable, rows: pl.DataFrame, fields: TextFields | None) -> pl.DataFrame | None:
    """The rows of :func:`citus_analysis.formats.parsing.sysstat.read_rows`; None if only that function can read them.

    Args:
        report: the place of the columns.
        rows: lines with `field` and `fields` as :func:`citus_analysis.formats.parsing.sysstat.split_lines` gives
            them, `offset`, `sample`, `sample_time` and `since_boot`.
        fields: fields of the block.
    """
    names = report.names
    last = names[-1] == COMMAND
    # Commands contain blanks; those outside ASCII are part of a field.
    if fields is None or set(TOPOLOGY) <= set(names) or (last and not fields.data.isascii()):
        return None
    first, count, most = rows["field"].to_numpy(), len(names) - last, rows["fields"].to_numpy()
    if (first < 0).any() or (most < count).any() or (not last and (most > count).any()):
        return None
    values = _parse_plain_values(report, first, fields)
    if values is None:
        return None
    texts = {name: fields.texts(first + index) for name, index in find_naming_columns(report).items()}
    if last:
        command = _extract_commands(first + count, first + most, fields)
        if command is None:
            return None
        texts["command"] = command
    return add_range_reasons(rows.select(PLACE).with_columns(**texts, **values), report)


def _parse_plain_values(report: ReportTable, first: Integers, fields: TextFields) -> dict[str, pl.Series] | None:
    """The report's numbers under their columns' names; None if one of them is not a plain number."""
    found: dict[str, pl.Series] = {}
    for index, (column, factor) in report.numbers.items():
        places = first + index
        plain = fields.kind[places] == NUMBER
        values = fields.number[places]
        if not plain.all():
            strange = places[~plain]
            if report.names[index] not in OPTIONAL_KEYS or not _has_only_absent_values(fields, strange):
                return None
            values[~plain] = np.nan
        scaled = values if factor == 1.0 else values * factor
        found[column] = pl.Series(scaled, nan_to_null=report.names[index] in OPTIONAL_KEYS)
    return found


def _has_only_absent_values(fields: TextFields, places: Integers) -> bool:
    begin = np.frombuffer(fields.data, np.uint8)[fields.begin[places]]
    return bool(((fields.length[places] == 1) & (begin == _ABSENT)).all())


def _extract_commands(first: Integers, after: Integers, fields: TextFields) -> pl.Series | None:
    """The rest of each line; None if more than one blank separates its words."""
    present = after > first
    last = np.maximum(after - 1, 0)
    begin = fields.begin[np.minimum(first, len(fields.begin) - 1)]
    length = np.where(present, fields.begin[last] + fields.length[last] - begin, 0)
    ends = np.append(0, np.cumsum(fields.length, dtype=np.int64))
    words = ends[after] - ends[first]
    if (length > words + np.maximum(after - first - 1, 0)).any():
        return None
    texts = fields.slices(begin, length).str.strip_prefix("|__")
    if (after - first > 1).any() and texts.str.contains(r"[\t\r\x0b\x0c]").any():
        return None
    return texts if present.all() else texts.to_frame().select(pl.when(pl.Series(present)).then("text")).to_series()


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
class _SysstatStyle:
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
class _SysstatState:
    """State after the previous blocks.

    Attributes:
        alone: the file has only one header.
        clock: state of the times.
        header: the newest header and its second of the day, if there is one.
    """

    alone: bool
    clock: Clock = field(default_factory=Clock)
    header: pl.DataFrame = field(default_factory=_HEADER.to_frame)


def find_report_headers(head: bytes) -> list[list[str]]:
    """Names of the columns of each header in the beginning of a file, if it begins with a banner or a header."""
    whole = head[: head.rfind(b"\n") + 1]
    # The first lines exclude most other files.
    first = classify_sysstat_lines(take_first_lines(whole, _TELLING)).filter(pl.col("kind") != "blank")
    kinds = first["kind"].head(_TELLING).to_list()
    if not {"header", "restart"} & set(kinds) or kinds[0] not in {"banner", "header", "restart"}:
        return []
    headers = classify_sysstat_lines(whole).filter(kind="header")["rest"].unique(maintain_order=True)
    return [header.split(" ") for header in headers.to_list()]


class SysstatText(Format):
    """A text of a tool of sysstat, whose name is the format's."""

    noise = _NOISE
    options: ClassVar[tuple[Option, ...]] = (TIMEZONE, DATE_ORDER, FIRST_REPORT)
    start_markers = (SYSSTAT_BANNER,)

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Samples in the order of the text, in pieces of whole lines."""
        head = classify_sysstat_lines(content.head)
        comma = bool(head.filter(kind="row")["text"].head(1000).str.contains(_DECIMAL_COMMA).any())
        order = infer_date_order(parse_banner_dates(head), hints.options, decimal_comma=comma)
        # sar has no averages since boot.
        first_report = parse_first_report_option(hints.options) if FIRST_REPORT in self.options else None
        style = _SysstatStyle(self.name, self.tables, comma, order, get_timezone(hints.options), first_report)
        yield from parse_each(split_into_blocks(content), partial(_parse_block, style), None)


def _parse_block(style: _SysstatStyle, block: Block, state: _SysstatState | None) -> tuple[Parsed, _SysstatState]:
    lines, fields = split_lines(block.data, block.offset)
    if state is None:
        state = _SysstatState(lines.filter(kind="header").height == 1)
    where, clock = assign_line_times(lines, state.clock, style.order, style.timezone)
    rows, state = _assign_row_headers(lines, state)
    rows = rows.hstack(where).with_columns(since_boot=_make_since_boot_expr(style, state))
    tables, read, misread = _read(rows, style, block, fields)
    rejected = _add_line_reasons(lines, rows, misread).filter(pl.col("reason").is_not_null())
    rejects = reject_runs(add_line_texts(rejected, block.data, block.offset))
    usable = (
        pl.col("terminated") & pl.col("sample").is_not_null() & ~pl.col("offset").is_in(misread["offset"].implode())
    )
    parsed = rows.filter(pl.col("header").is_in(read) & usable)["length"].sum()
    noise = block.length - int(parsed) - int(rejects["byte_length"].sum())
    return Parsed(tables, int(parsed), noise, rejects), replace(state, clock=clock)


def _assign_row_headers(lines: pl.DataFrame, state: _SysstatState) -> tuple[pl.DataFrame, _SysstatState]:
    """The rows with `header` and `seconds_of_header`, null before the first header; and the state after them."""
    fresh = lines.filter(kind="header").select(header="rest", seconds_of_header="seconds")
    headers = pl.concat([state.header, fresh])
    place = (pl.col("kind") == "header").cum_sum().cast(pl.Int64) + (state.header.height - 1)
    rows = lines.with_columns(place=pl.when(place >= 0).then(place)).filter(kind="row")
    return rows.hstack(headers.select(pl.all().gather(rows["place"]))), replace(state, header=headers.tail(1))


def _add_line_reasons(lines: pl.DataFrame, rows: pl.DataFrame, misread: pl.DataFrame) -> pl.DataFrame:
    """The lines with a `reason` if they are rejected."""
    stray = rows.filter(pl.col("header").is_null() | pl.col("sample").is_null()).select(
        "offset", reason=pl.when(pl.col("header").is_null()).then(pl.lit(_HEADLESS)).otherwise(pl.lit(_TIMELESS))
    )
    known = pl.concat([misread, stray])
    lines = add_reject_reasons(lines.with_columns(reason=pl.lit(None, pl.String)), known)
    cut = ~pl.col("terminated") & ~pl.col("kind").is_in(["blank", "average"])
    strange = pl.when(pl.col("kind") == "other").then(pl.lit(_STRANGE))
    return lines.with_columns(reason=pl.when(cut).then(pl.lit(UNTERMINATED)).otherwise(pl.coalesce(strange, "reason")))


def _make_since_boot_expr(style: _SysstatStyle, state: _SysstatState) -> pl.Expr:
    """Whether a row averages since boot: its header then has the row's time, otherwise that of the interval's begin."""
    if style.sampler == "sar":
        return pl.lit(value=False)
    of_header = pl.col("seconds_of_header")
    alone = pl.lit(state.alone) & of_header.is_null()
    shown = (of_header == pl.col("seconds")).fill_null(value=False) | alone
    return shown if style.first_report is None else (pl.col("sample") == 0) & style.first_report


def _read(
    rows: pl.DataFrame, style: _SysstatStyle, block: Block, split: TextFields | None
) -> tuple[dict[str, pl.DataFrame], list[str], pl.DataFrame]:
    """Rows of the tables, the headers that have a place, and `offset` and `reason` of misread rows."""
    found = {
        str(header): find_report_table(tuple(header.split(" "))) for header in rows["header"].unique().drop_nulls()
    }
    reports = {header: report for header, report in found.items() if report and report.table in style.tables}
    usable = rows.filter(pl.col("sample").is_not_null() & pl.col("terminated"))

    def list_fields(report: ReportTable, group: pl.DataFrame) -> pl.DataFrame:
        fields = split_rows(report, group, split)
        if fields is not None:
            return fields
        return read_rows(report, add_line_texts(group, block.data, block.offset), comma=style.comma)

    tables, misread = build_tables_under_headers(usable, reports, list_fields, style.sampler)
    return tables, [*reports], misread

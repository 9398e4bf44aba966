"""Rows of the tables, from rows of a report of sysstat with named columns.

Shares of CPU time are added up as iostat does, so that those of all samplers mean the same: user includes guests,
system includes interrupts. Rows of single CPUs go to `core_samples`. Items without a table (single interrupts) have no
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Final

import polars as pl

from citus_analysis.formats.reading.lines import readable
from citus_analysis.formats.samplers._columns import in_range, in_whole_numbers, with_derived_await
from citus_analysis.formats.sysstat._reports import PRESSURE, Report

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


def judged(fields: pl.DataFrame, report: Report) -> pl.DataFrame:
    """Fields with a `reason` if a number is missing or out of its column's range."""
    fitting = in_range(report.table, (name for name, _ in report.numbers.values())).items()
    whole = pl.all_horizontal(fits.fill_null(value=name in _OPTIONAL) for name, fits in fitting)
    return fields.with_columns(reason=pl.when(~whole).then(pl.lit(NO_NUMBER)))


def with_misfits(fields: pl.DataFrame, report: Report) -> pl.DataFrame:
    """Fields of JSON, whose values may be missing: a number out of its column's range is null and `doubtful`."""
    fitting = in_range(report.table, (name for name, _ in report.numbers.values()))
    misfit = {name: ~fits.fill_null(value=True) for name, fits in fitting.items()}
    named = [pl.when(misfits).then(pl.lit(name)) for name, misfits in misfit.items()]
    doubtful = pl.concat_str(named, separator=", ", ignore_nulls=True)
    return fields.with_columns(
        *(pl.when(~misfits).then(pl.col(name)).alias(name) for name, misfits in misfit.items()),
        doubtful=pl.when(doubtful != "").then(doubtful),
    )


def rows_of(fields: pl.DataFrame, report: Report, sampler: str) -> dict[str, pl.DataFrame]:
    """Table -> rows.

    Args:
        fields: `offset`, `sample`, `sample_time`, `since_boot`, `item` (text, if the report has a key), `user` and
            `command` (of pidstat), and the report's numbers under the names of the table's columns.
        report: the report's place.
        sampler: name of the tool.
    """
    if report.table == "cpu_samples":
        return _cpus(fields, sampler)
    if report.table == "pressure_samples":
        return {report.table: _pressures(fields)}
    if report.table == "device_samples":
        return {report.table: _devices(fields, report)}
    if report.table == "net_samples":
        return {report.table: fields.rename({"item": "interface"})}
    if report.table == "process_samples":
        return {report.table: _processes(fields)}
    whole = pl.col("item").is_in([*ALL_CPUS, "sum"]) if report.key else pl.lit(value=True)
    return {report.table: in_whole_numbers(fields.filter(whole).select(pl.exclude("item")), report.table)}


def _cpus(fields: pl.DataFrame, sampler: str) -> dict[str, pl.DataFrame]:
    there = set(fields.columns)
    absent = [pl.lit(None, pl.Float64).alias(name) for name in _PRINTED if name not in there]
    have = fields.with_columns(absent, sampler=pl.lit(sampler))
    sums = {
        "user_percent": pl.col("usr") + pl.col("guest").fill_null(0.0),
        "system_percent": pl.col("sys") + _or_zero("irq_percent", there) + _or_zero("softirq_percent", there),
        "nice_percent": _or_zero("nice_percent", there) + pl.col("guest_nice").fill_null(0.0),
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


def _or_zero(name: str, there: set[str]) -> pl.Expr:
    return pl.col(name) if name in there else pl.lit(0.0)


def _devices(fields: pl.DataFrame, report: Report) -> pl.DataFrame:
    if report.key is None:
        return fields.with_columns(device=pl.lit("all"), is_group=pl.lit(value=True))
    return with_derived_await(fields.rename({"item": "device"}))


def _pressures(fields: pl.DataFrame) -> pl.DataFrame:
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


def _processes(fields: pl.DataFrame) -> pl.DataFrame:
    converted = [
        pl.when(pl.col(name) != _UNREADABLE).then(name).alias(name)
        for name in ("read_kb_s", "write_kb_s", "cancelled_write_kb_s")
        if name in fields.columns
    ]
    return in_whole_numbers(fields.with_columns(converted), "process_samples")


def tables_under_headers(
    rows: pl.DataFrame,
    reports: Mapping[str, Report],
    read: Callable[[Report, pl.DataFrame], pl.DataFrame],
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
            found.append(rows_of(readable(fields), report, sampler))
    return together(found), pl.concat(reasons)


def together(found: Sequence[Mapping[str, pl.DataFrame]]) -> dict[str, pl.DataFrame]:
    """Rows of each table in the order of the source."""
    tables = {
        table: pl.concat([some[table] for some in found if table in some], how="diagonal")
        for table in dict.fromkeys(chain.from_iterable(found))
    }
    return {
        name: rows.sort("offset", maintain_order=True).rename({"offset": "byte_offset"})
        for name, rows in tables.items()
    }

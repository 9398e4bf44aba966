"""What was measured beside each run and is not the run's own doing: the speed of its machines, and foreign work.

The canary (:mod:`citus_analysis.formats.canary`) does a fixed piece of work each second. Of its additions, copies and
system calls, the units per second of *CPU time* are the speed of a processor, whoever else uses it; of its forced
pages, the time is that of the disk. CPU time that the hypervisor took, and work of programs that are not the run's own
(:mod:`citus_analysis.bottleneck.machine_work`), are measured by samplers. What a run lost until its clients were at
their speed is read off their status lines, and a cold cache off the counters of the servers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from citus_analysis.bottleneck.machine_work import ACCOUNT_TABLES, ForeignWork, find_foreign_work
from citus_analysis.bottleneck.samples import NODE, RUN, align_to_runs, select_one_source
from citus_analysis.core.frames import TableSource, convert_to_polars, scan_source_table

#: Column -> the factor in words.
WITNESSES: Final = {
    "machine_speed": "speed of the machines",
    "memory_time": "time to read memory",
    "disk_time": "time to force a page to the disk",
    "foreign_work": "foreign work",
    "stolen_time": "stolen CPU time",
    "start_up": "start-up of the clients",
    "cold_cache": "blocks not found in the cache",
}
#: Column -> the sign of the effect that it can have on the throughput.
WITNESS_DIRECTIONS: Final = {
    "machine_speed": 1, "memory_time": -1, "disk_time": -1, "foreign_work": -1, "stolen_time": -1, "start_up": -1,
    "cold_cache": -1,
}  # fmt: skip
#: Those of the run itself, which a compared change may cause: no comparison is corrected by them.
RUN_WITNESSES: Final = ("start_up", "cold_cache")
#: Tables that witnesses are measured from.
WITNESS_TABLES: Final = (*ACCOUNT_TABLES, "canaries", "client_series", "server_counters")
#: Of large tables, the rows that witnesses are measured from.
_ROWS: Final = {
    "client_series": pl.col("section").is_null() & (pl.col("role").cast(pl.String) == "main"),
    "server_counters": pl.col("view").cast(pl.String).eq("pg_stat_database")
    & pl.col("counter").cast(pl.String).is_in(["blks_hit", "blks_read"]),
}
#: Fewest status intervals of a run from which its start-up is measured, and the part of the later throughput at which
#: it is over.
_LEAST_INTERVALS: Final = 4
_STARTED: Final = 0.9
#: Works of the canary whose units per second of CPU time are the speed of a processor.
OF_PROCESSOR: Final = ("cpu", "memory", "system")
_UNKNOWN: Final = "not known"


def measure_witnesses(tables: Mapping[str, pl.DataFrame], runs: pl.DataFrame, foreign: ForeignWork) -> pl.DataFrame:
    """What was measured beside each run.

    Args:
        tables: those of :data:`WITNESS_TABLES`.
        runs: the runs.
        foreign: result of :func:`citus_analysis.bottleneck.machine_work.find_foreign_work`.

    Returns:
        One row per run: `resource`, `run_id`, `machine_speed` (natural logarithm of that of the runs), `memory_time`
        (natural logarithm of the CPU time that a read of memory took over that of an addition, means of the samples,
        mean of the machines: where a hypervisor maps pages anew, some samples are slow), `disk_time` (natural logarithm
        of the microseconds to force a page to the disk, mean of the machines), `foreign_work` (per cent of the
        machines' CPU time, mean), `stolen_time` (per cent, mean of the machines), `start_up` (per cent of the run,
        lost at its begin), `cold_cache` (blocks that the servers did not find in their shared buffers: not a part of
        those that they asked for, because a slow run asks for fewer). What was not measured of a run is null.
    """
    canaries = measure_canaries(tables["canaries"], runs)
    known = foreign.runs.filter(pl.col("method") != _UNKNOWN)
    steal = align_to_runs(tables["cpu_samples"].filter(pl.col("steal_percent").is_not_null()), runs)
    steal = select_one_source(steal.with_columns(pl.col("node").cast(pl.String)), NODE)
    found = runs.select(RUN).unique(maintain_order=True)
    for facts in (
        runs.select(*RUN, pl.col("machine_speed").log()).unique(RUN, keep="first"),
        _measure_memory_time(canaries),
        _average_over_machines(canaries.filter(pl.col("work") == "disk"), "duration", "disk_time"),
        known.group_by(RUN).agg(foreign_work=pl.col("share_percent").fill_null(0.0).mean()),
        steal.group_by(RUN).agg(stolen_time=pl.col("steal_percent").mean()),
        measure_start_up(tables["client_series"].filter(_ROWS["client_series"])),
        _measure_cold_cache(tables["server_counters"].filter(_ROWS["server_counters"])),
    ):
        found = found.join(facts, on=RUN, how="left", maintain_order="left")
    return found


def measure_machine_speed(canaries: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """The speed of the machines during each run, by the canary's work of the processor.

    Args:
        canaries: the table `canaries`.
        runs: the runs.

    Returns:
        `resource`, `run_id`, `machine_speed` (units of work per second of CPU time, geometric mean of the works and of
        the machines; null where a machine of the run's resource was not measured).
    """
    measured = measure_canaries(canaries, runs).filter(pl.col("work").is_in(OF_PROCESSOR))
    return _average_over_machines(measured, "speed", "machine_speed").with_columns(pl.col("machine_speed").exp())


def measure_canaries(canaries: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """The canary of each run, node and work.

    Returns:
        `resource`, `run_id`, `node`, `work`, `speed` (natural logarithm of the units per second of CPU time) and
        `duration` (natural logarithm of the microseconds per unit), medians over the samples, because a sample may be
        interrupted; `cpu_time` (natural logarithm of the mean microseconds of CPU time per unit), `samples`.
    """
    inside = align_to_runs(canaries.filter(pl.col("operations") > 0, pl.col("cpu_us") > 0, pl.col("wall_us") > 0), runs)
    speed = (pl.col("operations") / pl.col("cpu_us") * 1e6).log().median()
    duration = (pl.col("wall_us") / pl.col("operations")).log().median()
    node, work = pl.col("node").cast(pl.String), pl.col("work").cast(pl.String)
    measured = inside.group_by(*RUN, node, work, maintain_order=True)
    cpu_time = (pl.col("cpu_us").sum() / pl.col("operations").sum()).log()
    return measured.agg(speed=speed, duration=duration, cpu_time=cpu_time, samples=pl.len())


def _measure_memory_time(canaries: pl.DataFrame) -> pl.DataFrame:
    """`memory_time`: of two works, the mean of twice the one and minus twice the other is their difference."""
    sign = pl.when(work="memory").then(2.0).when(work="cpu").then(-2.0)
    signed = canaries.with_columns(signed=sign * pl.col("cpu_time")).drop_nulls("signed")
    return _average_over_machines(signed, "signed", "memory_time")


def measure_start_up(series: pl.DataFrame) -> pl.DataFrame:
    """The part of each run that was lost until its clients were at their speed.

    A client is at its speed from the first status interval on whose throughput is at least 90 % of the median of the
    second half of its intervals; before, an interval loses the part that it lacks.

    Args:
        series: rows of the table `client_series`, totals over operations, of main clients.

    Returns:
        `resource`, `run_id`, `start_up` (per cent of the run's time, mean of its clients); runs with fewer than four
        intervals are left out.

    Example:
        >>> rows = {"resource": ["w2"] * 5, "run_id": ["1"] * 5, "part": [0] * 5, "elapsed_s": [2.0, 4, 6, 8, 10]}
        >>> series = pl.DataFrame(rows).with_columns(throughput_ops_s=pl.Series([50.0, 99, 101, 99, 101]))
        >>> measure_start_up(series)["start_up"].round(1).to_list()
        [10.1]
    """
    client = [*RUN, "part"]
    known = series.filter(pl.col("elapsed_s") > 0, pl.col("throughput_ops_s").is_finite())
    # A line may be printed again at the end.
    lines = known.unique([*client, "elapsed_s"], keep="first").sort(*client, "elapsed_s")
    end = pl.col("elapsed_s").max().over(client)
    later = pl.col("throughput_ops_s").filter(pl.col("elapsed_s") > pl.col("elapsed_s").max() / 2)
    part = pl.col("throughput_ops_s") / pl.col("steady")
    marked = lines.with_columns(
        width=pl.col("elapsed_s") - pl.col("elapsed_s").shift(1, fill_value=0.0).over(client),
        steady=later.median().over(client),
        intervals=pl.len().over(client),
        end=end,
    ).filter(pl.col("intervals") >= _LEAST_INTERVALS, pl.col("steady") > 0)
    starting = ~(part >= _STARTED).cum_max().over(client)
    lost = ((1 - part) * pl.col("width")).filter(starting).sum()
    of_clients = (
        marked.with_columns(part=pl.col("part"))
        .group_by(client, maintain_order=True)
        .agg(start_up=100 * lost / pl.col("end").first())
    )
    return of_clients.group_by(RUN, maintain_order=True).agg(pl.col("start_up").mean())


def _measure_cold_cache(counters: pl.DataFrame) -> pl.DataFrame:
    """`cold_cache` of the runs of which `pg_stat_database` was read before and after and blocks were asked for."""
    grown = counters.filter(pl.col("value") >= 0, pl.col("run_id").is_not_null())
    name = pl.col("counter").cast(pl.String)
    sums = grown.group_by(RUN, maintain_order=True).agg(
        read=pl.col("value").filter(name == "blks_read").sum(), hit=pl.col("value").filter(name == "blks_hit").sum()
    )
    return sums.filter(pl.col("read") + pl.col("hit") > 0).select(*RUN, cold_cache="read")


def read_rows_of_witnesses(source: TableSource) -> dict[str, pl.DataFrame]:
    """The tables of :data:`WITNESS_TABLES`, of large ones the rows that are needed.

    Args:
        source: a dataset, or another source of its tables.
    """
    large = {name: scan_source_table(source, name).filter(rows).collect() for name, rows in _ROWS.items()}
    small = {name: convert_to_polars(source.table(name)) for name in WITNESS_TABLES if name not in large}
    return small | large


def _average_over_machines(canaries: pl.DataFrame, value: str, name: str) -> pl.DataFrame:
    """The mean over works, then over nodes; null where a run lacks a node or work that others of its resource have.

    Machines differ, so that a mean over fewer of them is another quantity.
    """
    pairs = canaries.group_by("resource").agg(_all=pl.struct("node", "work").n_unique())
    means = canaries.group_by(RUN, maintain_order=True).agg(pl.col(value).mean().alias(name), _own=pl.len())
    whole = means.join(pairs, on="resource")
    return whole.select(*RUN, pl.when(pl.col("_own") == pl.col("_all")).then(name).alias(name))


def read_witness_tables(tables: Mapping[str, pl.DataFrame]) -> tuple[pl.DataFrame, ForeignWork]:
    """Witnesses and foreign work of all runs of some tables.

    Args:
        tables: those of :data:`WITNESS_TABLES`.
    """
    foreign = find_foreign_work({name: tables[name] for name in ACCOUNT_TABLES})
    return measure_witnesses(tables, tables["runs"], foreign), foreign

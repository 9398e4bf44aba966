"""What was measured beside each run and is not the run's own doing: the speed of its machines, and foreign work.

The canary (:mod:`citus_analysis.formats.canary`) does a fixed piece of work each second. Of its additions, copies and
system calls, the units per second of *CPU time* are the speed of a processor, whoever else uses it; of its forced
pages, the time is that of the disk. CPU time that the hypervisor took, and work of programs that are not the run's own
(:mod:`citus_analysis.bottleneck.machine_work`), are measured by samplers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from citus_analysis.bottleneck.machine_work import ACCOUNT_TABLES, ForeignWork, find_foreign_work
from citus_analysis.bottleneck.samples import NODE, RUN, align_to_runs, select_one_source

#: Column -> the factor in words.
WITNESSES: Final = {
    "machine_speed": "speed of the machines",
    "disk_time": "time to force a page to the disk",
    "foreign_work": "foreign work",
    "stolen_time": "stolen CPU time",
}
#: Tables that witnesses are measured from.
WITNESS_TABLES: Final = (*ACCOUNT_TABLES, "canaries")
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
        One row per run: `resource`, `run_id`, `machine_speed` (natural logarithm of that of the runs), `disk_time`
        (natural logarithm of the microseconds to force a page to the disk, mean of the machines), `foreign_work` (per
        cent of the machines' CPU time, mean), `stolen_time` (per cent, mean of the machines). What was not measured of
        a run is null.
    """
    canaries = measure_canaries(tables["canaries"], runs)
    known = foreign.runs.filter(pl.col("method") != _UNKNOWN)
    steal = align_to_runs(tables["cpu_samples"].filter(pl.col("steal_percent").is_not_null()), runs)
    steal = select_one_source(steal.with_columns(pl.col("node").cast(pl.String)), NODE)
    found = runs.select(RUN).unique(maintain_order=True)
    for facts in (
        runs.select(*RUN, pl.col("machine_speed").log()).unique(RUN, keep="first"),
        _average_over_machines(canaries.filter(pl.col("work") == "disk"), "duration", "disk_time"),
        known.group_by(RUN).agg(foreign_work=pl.col("share_percent").fill_null(0.0).mean()),
        steal.group_by(RUN).agg(stolen_time=pl.col("steal_percent").mean()),
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
    """The canary of each run, node and work: medians over its samples, because a sample may be interrupted.

    Returns:
        `resource`, `run_id`, `node`, `work`, `speed` (natural logarithm of the units per second of CPU time),
        `duration` (natural logarithm of the microseconds per unit), `samples`.
    """
    inside = align_to_runs(canaries.filter(pl.col("operations") > 0, pl.col("cpu_us") > 0, pl.col("wall_us") > 0), runs)
    speed = (pl.col("operations") / pl.col("cpu_us") * 1e6).log().median()
    duration = (pl.col("wall_us") / pl.col("operations")).log().median()
    node, work = pl.col("node").cast(pl.String), pl.col("work").cast(pl.String)
    measured = inside.group_by(*RUN, node, work, maintain_order=True)
    return measured.agg(speed=speed, duration=duration, samples=pl.len())


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

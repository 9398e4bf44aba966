"""Measures of a run that claims are about, beside the columns of `runs`: from traces, snapshots, samples and profiles.

A measure is one number for each run, so that its interval is that of the runs. It is null where the dataset cannot
give it: samples of a machine that several nodes share are never those of a node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import polars as pl

from citus_analysis.bottleneck.connection_counts import connection_balance, connections_over_time
from citus_analysis.bottleneck.evidence.waits import client_sessions
from citus_analysis.bottleneck.samples_in_runs import NODE, RUN, align_to_runs, one_source
from citus_analysis.bottleneck.timeline import cpu_over_time
from citus_analysis.core.frames import TableSource, as_polars
from citus_analysis.defaults import SKIP_FIRST
from citus_analysis.errors import InsufficientDataError
from citus_analysis.runs.run_selection import select_runs
from citus_analysis.runs.setups import CONFIGURATION
from citus_analysis.spans.analyse.selected_statements import select_statements
from citus_analysis.stats.start_up import steady_runs

#: A sample of a CPU that is busier than this is at its limit.
_BUSY_PERCENT: Final = 90.0
#: What a session does while it needs its own node.
_AT_WORK: Final = ("working", "WAL", "I/O", "lock", "other wait")


class RunMeasure(NamedTuple):
    """A measure of runs.

    Attributes:
        meaning: what it is, in words.
        needs: the tables that it is computed from, in words.
        values: a function of the dataset and its runs, which gives `resource`, `run_id` and `value`.
    """

    meaning: str
    needs: str
    values: Callable[[TableSource, pl.DataFrame], pl.DataFrame]


def is_run_measure(name: str) -> bool:
    """Whether a metric is one of :data:`RUN_MEASURES`, or the lead of a function.

    Example:
        >>> is_run_measure("parent_share"), is_run_measure("lead.memcpy"), is_run_measure("throughput_ops_s")
        (True, True, False)
    """
    return name in RUN_MEASURES or name.startswith(_LEAD)


def with_run_measure(source: TableSource, runs: pl.DataFrame, name: str) -> pl.DataFrame:
    """The runs with a measure as a column of its name.

    Args:
        source: a dataset.
        runs: its runs.
        name: one of :data:`RUN_MEASURES`, or `lead.FUNCTION`.
    """
    is_lead = name.startswith(_LEAD)
    found = _leads(source, name.removeprefix(_LEAD)) if is_lead else RUN_MEASURES[name].values(source, runs)
    values = found.select(pl.col(RUN).cast(pl.String), pl.col("value").cast(pl.Float64).alias(name))
    keyed = runs.with_columns(pl.col(RUN).cast(pl.String))
    return keyed.join(values, on=RUN, how="left", maintain_order="left")


def needs_of(name: str) -> str:
    """What a measure is computed from, in words."""
    return _NEEDS_OF_LEAD if name.startswith(_LEAD) else RUN_MEASURES[name].needs


def _table(source: TableSource, name: str) -> pl.DataFrame:
    return as_polars(source.table(name))


def _steady_throughput(source: TableSource, runs: pl.DataFrame) -> pl.DataFrame:
    """Throughput of the steady part; runs of one configuration have one start-up, and runs that did not settle none."""
    by = ["resource", "phase", *(name for name in CONFIGURATION if name in runs.columns)]
    steady = steady_runs(runs, _table(source, "client_series"), by).filter("settled")
    return steady.select(*RUN, value="steady_ops_s")


def _parent_share(source: TableSource, runs: pl.DataFrame) -> pl.DataFrame:
    """Of the time of remote statements in the steady state, those of the page on profiles, the share of the parent."""
    try:
        steady = select_statements(select_runs(source), source, skip_first=SKIP_FIRST).steady
    except InsufficientDataError:
        return runs.clear().select(*RUN, value=pl.lit(None, pl.Float64))
    remote = steady.filter(
        pl.col("executed").cast(pl.String) == "remote", pl.col("parent_us").is_not_null() & (pl.col("total_us") > 0)
    )
    sums = remote.group_by(RUN, maintain_order=True).agg(pl.col("parent_us", "total_us").sum())
    return sums.select(*RUN, value=pl.col("parent_us") / pl.col("total_us"))


def _wal_wait_share(source: TableSource, runs: pl.DataFrame) -> pl.DataFrame:
    """Of the snapshots of sessions that work on their node, the share of those that wait for WAL."""
    sessions = client_sessions(_table(source, "activity_samples"), runs)
    at_work = sessions.filter(pl.col("doing").is_in(_AT_WORK)).group_by(RUN, maintain_order=True)
    return at_work.agg(value=(pl.col("doing") == "WAL").mean())


def _cpu_limited_share(source: TableSource, runs: pl.DataFrame) -> pl.DataFrame:
    """Of the node that has it most: the share of time in which it used all the CPU that it may.

    Where control groups have a quota, the share of periods in which it was used up; else the share of samples in which
    the CPU was busy, if every node has a machine of its own.
    """
    keys = [*NODE, "control_group"]
    quotas = one_source(align_to_runs(_table(source, "throttle_samples"), runs), keys)
    periods = quotas.group_by(keys, maintain_order=True).agg(pl.col("throttled_periods", "periods").sum())
    # Periods in which a group was idle are not counted: a run has as many as its busiest group.
    used = periods.filter(pl.col("periods").max().over(RUN) > 0).with_columns(
        value=pl.col("throttled_periods") / pl.col("periods").max().over(RUN)
    )
    by_quota = used.group_by(RUN, maintain_order=True).agg(pl.col("value").max())
    shares = (
        _own_machines(source, runs)
        .group_by(NODE, maintain_order=True)
        .agg(value=(pl.col("busy_percent") >= _BUSY_PERCENT).mean())
    )
    by_machine = shares.group_by(RUN, maintain_order=True).agg(pl.col("value").max())
    return pl.concat([by_quota, by_machine.join(by_quota, on=RUN, how="anti")], how="vertical_relaxed")


def _own_machines(source: TableSource, runs: pl.DataFrame) -> pl.DataFrame:
    """CPU samples of runs in which every worker has some: their machines are not shared."""
    cpu = cpu_over_time(_table(source, "cpu_samples"), runs)
    nodes = cpu.group_by(RUN).agg(machines=pl.col("node").n_unique()).join(runs.select(*RUN, "workers"), on=RUN)
    own = nodes.filter(pl.col("machines") >= pl.max_horizontal("workers", pl.lit(1)))
    return cpu.join(own, on=RUN, how="semi", maintain_order="left")


def _uneven_cpu_ratio(source: TableSource, runs: pl.DataFrame) -> pl.DataFrame:
    """CPU use of the node with the most connections of clients over that of the node with the fewest."""
    cpu = _own_machines(source, runs).group_by(NODE, maintain_order=True).agg(pl.col("busy_percent").mean())
    sessions = connection_balance(connections_over_time(_table(source, "activity_samples"), runs))
    both = cpu.join(sessions, on=NODE).filter(pl.col("client") + pl.col("internal") > 0)
    ends = (
        both.sort("client")
        .group_by(RUN, maintain_order=True)
        .agg(
            pl.col("client").first().alias("few"),
            pl.col("client").last().alias("many"),
            value=pl.col("busy_percent").last() / pl.col("busy_percent").first(),
        )
    )
    return ends.filter(pl.col("many") > pl.col("few"))


def _checkpoint_await_ratio(source: TableSource, runs: pl.DataFrame) -> pl.DataFrame:
    """Of the device that is written to most: mean await during checkpoints over that at other times."""
    samples = _table(source, "device_samples").remove(pl.col("is_group")).drop_nulls("await_ms")
    devices = one_source(align_to_runs(samples, runs), [*NODE, "device"])
    written = devices.group_by(*NODE, "device", maintain_order=True).agg(pl.col("write_kb_s").mean().fill_null(0))
    main = written.sort("write_kb_s", descending=True).group_by(RUN, maintain_order=True).first()
    total = pl.duration(milliseconds=(pl.col("total_s") * 1_000).round().cast(pl.Int64))
    begin = pl.coalesce("start_time", pl.col("end_time") - total, "end_time")
    marks = _table(source, "checkpoints").select(*RUN, "end_time", begin_time=begin)
    kept = devices.join(main, on=[*NODE, "device"], how="semi").with_row_index("_row")
    paired = kept.select(*RUN, "_row", "sample_time", "await_ms").join(marks, on=RUN)
    during = pl.col("sample_time").is_between("begin_time", "end_time")
    marked = paired.group_by(*RUN, "_row", maintain_order=True).agg(pl.col("await_ms").first(), during=during.any())
    means = marked.group_by(RUN, maintain_order=True).agg(
        inside=pl.col("await_ms").filter("during").mean(), outside=pl.col("await_ms").filter(~pl.col("during")).mean()
    )
    return means.filter(pl.col("outside") > 0).select(*RUN, value=pl.col("inside") / pl.col("outside")).drop_nulls()


#: Prefix of the lead of a function: `lead.finish_task_switch`.
_LEAD: Final = "lead."
_NEEDS_OF_LEAD: Final = "reports of perf (table `perf_symbols`)"


def _leads(source: TableSource, function: str) -> pl.DataFrame:
    """Of a run's recordings by perf: the function's share of samples over the largest share of another, on average."""
    symbols = _table(source, "perf_symbols").drop_nulls(["run_id", "self_percent"])
    recording = [*RUN, "source_id", "event"]
    mine = pl.col("symbol") == function
    shares = symbols.group_by(*recording, "symbol", maintain_order=True).agg(pl.col("self_percent").sum())
    leads = shares.group_by(recording, maintain_order=True).agg(
        own=pl.col("self_percent").filter(mine).sum(), other=pl.col("self_percent").filter(~mine).max()
    )
    return (
        leads.filter(pl.col("other") > 0)
        .group_by(RUN, maintain_order=True)
        .agg(value=(pl.col("own") / pl.col("other")).mean())
    )


#: Name -> measure.
RUN_MEASURES: Final = {
    "steady_throughput_ops_s": RunMeasure(
        "throughput of a run without its start-up",
        "status lines of the clients (table `client_series`)",
        _steady_throughput,
    ),
    "parent_share": RunMeasure(
        "share of the parent in the time of remote statements of the steady state",
        "traces of sampled statements (table `statements`)",
        _parent_share,
    ),
    "wal_wait_share": RunMeasure(
        "of the sessions that work on their node, the share that waits for WAL",
        "snapshots of sessions (table `activity_samples`)",
        _wal_wait_share,
    ),
    "cpu_limited_share": RunMeasure(
        "share of time in which a node used all the CPU that it may, of the node that has it most",
        "control groups with a quota (table `throttle_samples`), or CPU samples of every node's own machine",
        _cpu_limited_share,
    ),
    "uneven_cpu_ratio": RunMeasure(
        "CPU use of the node with the most connections of clients over that of the node with the fewest",
        "CPU samples of every node's own machine, and snapshots of sessions that are spread unevenly",
        _uneven_cpu_ratio,
    ),
    "checkpoint_await_ratio": RunMeasure(
        "await of the device that is written to most, during checkpoints over that at other times",
        "samples of devices, and checkpoints in the servers' logs within the run",
        _checkpoint_await_ratio,
    ),
}

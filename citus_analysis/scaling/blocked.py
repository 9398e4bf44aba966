"""Blocked-time analysis of measured statements: where an operation waits, and what its removal could bring.

References:
    Ousterhout, K. et al. (2015). Making sense of performance in data analytics frameworks. NSDI.
    Schweitzer, P. (1979). Approximate analysis of multiclass closed networks of queues (its inversion gives demands).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.runs import CONFIGURATION, within_measured
from citus_analysis.scaling.laws import little_runs
from citus_analysis.scaling.mva import mva
from citus_analysis.scaling.whatif import what_if
from citus_analysis.shown import Shown
from citus_analysis.stats import Interval, mean_interval
from citus_analysis.stats.frames import Frame, TableSource, strata_of, tables_of
from citus_analysis.stats.intervals import mean_method
from citus_analysis.units import US_PER_S
from citus_analysis.words import counted

__all__ = ["PARTS", "BlockedTime", "blocked_time", "demands_from_residence"]

#: What an operation's response time is made of. `outside` is what no span of the servers covers: the client and its
#: driver, the way to the server, queueing before the statement, and commits that no duration contains.
PARTS: Final = ("parent", "child", "network", "outside")
_KINDS: Final = ("select", "insert", "update", "delete")
#: A network that misses the measured throughput by more than this is not to be believed, in per cent.
_TOLERATED: Final = 10.0


@dataclass(frozen=True, repr=False)
class BlockedTime(Shown):
    """Where the operations of one configuration spend their time; intervals are over its runs.

    Attributes:
        configuration: resource, phase, workload, threads ...
        parts_us: mean time per operation in each part.
        response_us: mean response time at the client.
        throughput_ops_s: mean throughput.
        limits: per part, largest factor on throughput if its time vanished and nothing else changed (Little's law).
        gains: per part, factor that the closed queueing network predicts if the part were infinitely fast.
        model_error_percent: by how much the network misses the measured throughput.
        warnings: what a reader must know.
    """

    configuration: dict[str, object]
    parts_us: dict[str, Interval]
    response_us: Interval
    throughput_ops_s: Interval
    limits: dict[str, Interval]
    gains: dict[str, Interval]
    model_error_percent: Interval
    warnings: tuple[str, ...] = ()

    def sentence(self) -> str:
        """The largest part and what its removal could bring, in one sentence."""
        part = max(self.limits, key=lambda name: self.limits[name].estimate)
        share = self.parts_us[part].estimate / self.response_us.estimate
        return (
            f"{share * 100:.0f} % of the response time is {part} time: without it throughput could rise at most "
            f"{self.limits[part].estimate:.2f}-fold; the queueing network expects {self.gains[part].estimate:.2f}-fold."
        )


def demands_from_residence(
    residence_us: Mapping[str, float], throughput_ops_s: float, threads: float
) -> dict[str, float]:
    """Service demands from residence times that contain queueing: D = R / (1 + (N - 1)/N X R).

    By Schweitzer's approximation an arriving operation finds (N - 1)/N of the mean queue Q = X R of a resource.

    Raises:
        UsageError: throughput or threads that are not positive, or a negative time.

    Example:
        >>> demands = demands_from_residence({"cpu": 1_000.0, "disk": 3_000.0}, 2_000, 8)
        >>> {name: round(value) for name, value in demands.items()}
        {'cpu': 364, 'disk': 480}
    """
    if not (throughput_ops_s > 0 and threads > 0) or min(residence_us.values(), default=0) < 0:
        raise UsageError("demands need a positive throughput, threads, and times that are not negative")
    seen = throughput_ops_s / US_PER_S * (threads - 1) / threads
    return {name: value / (1 + seen * value) for name, value in residence_us.items()}


def blocked_time(source: TableSource | Mapping[str, Frame], *, level: float = 0.95) -> tuple[BlockedTime, ...]:
    """Blocked-time analysis of every configuration that has traced statements and client latencies.

    Per run, the mean parent, child and network time of the sampled statements (matched, not failed, from within the
    measured window) and the rest of the client's response time are parts of the cycle N / X. A part's limit is the
    cycle over the cycle without it. The queueing network takes each part as one queue whose demand follows from
    :func:`demands_from_residence`.

    Args:
        source: a dataset, or a mapping with the tables `runs`, `operation_latencies` and `statements`.
        level: confidence level.

    Raises:
        InsufficientDataError: no run has both.
    """
    tables = tables_of(source, ("runs", "operation_latencies", "statements"))
    measured = within_measured(tables["statements"], tables["runs"])
    per_run = _parts(measured.rows).join(little_runs(tables), on=["run_id", "resource"])
    runs = tables["runs"].filter(pl.col("status").cast(pl.String) == "ok").drop("threads", "throughput_ops_s")
    joined = per_run.join(runs, on=["run_id", "resource"])
    if joined.is_empty():
        raise InsufficientDataError("no run has both traced statements and client latencies")
    columns = [name for name in ("resource", *CONFIGURATION) if name in joined.columns]
    return tuple(_of_configuration(key, part, level) for key, part in strata_of(joined, columns))


def _parts(statements: pl.DataFrame) -> pl.DataFrame:
    """Mean times per run over data statements; a local statement is all parent."""
    local = pl.col("executed").cast(pl.String) == "local"
    return (
        statements.filter(
            pl.col("statement_kind").cast(pl.String).is_in(_KINDS)
            & ~pl.col("failed").fill_null(value=False)
            & (local | (pl.col("child_us").is_not_null() & (pl.col("match").cast(pl.String) != "unmatched")))
        )
        .group_by("run_id", "resource")
        .agg(
            parent=pl.when(local).then("total_us").otherwise("parent_us").mean(),
            child=pl.when(local).then(0.0).otherwise("child_us").mean(),
            network=pl.when(local).then(0.0).otherwise("latency_us").mean(),
            total=pl.col("total_us").mean(),
            statements=pl.len(),
            without_commit=(~pl.col("includes_commit")).fill_null(value=False).mean(),
        )
    )


def _of_configuration(configuration: dict[str, object], runs: pl.DataFrame, level: float) -> BlockedTime:
    records = [_one_run(row) for row in runs.iter_rows(named=True)]

    def over_runs(values: list[float]) -> Interval:
        return mean_interval(values, level, mean_method(values))

    return BlockedTime(
        configuration=configuration,
        parts_us={name: over_runs([one["parts"][name] for one in records]) for name in PARTS},
        response_us=over_runs(runs["response_time_us"].to_list()),
        throughput_ops_s=over_runs(runs["throughput_ops_s"].to_list()),
        limits={name: over_runs([one["limits"][name] for one in records]) for name in PARTS},
        gains={name: over_runs([one["gains"][name] for one in records]) for name in PARTS},
        model_error_percent=mean_interval([one["error"] for one in records], level),
        warnings=_notes(runs, [one["error"] for one in records]),
    )


def _one_run(row: dict[str, Any]) -> dict[str, Any]:
    threads, rate = int(row["threads"]), float(row["throughput_ops_s"])
    parts = {name: float(row[name]) for name in PARTS[:3]}
    parts["outside"] = max(float(row["response_time_us"]) - float(row["total"]), 0.0)
    think = max(float(row["client_time_us"]), 0.0)
    cycle = sum(parts.values()) + think
    demands = demands_from_residence(parts, rate, threads)
    modelled = float(mva(demands, threads, think).throughput[0]) * US_PER_S
    return {
        "parts": parts,
        "limits": {name: cycle / (cycle - value) if value < cycle else math.inf for name, value in parts.items()},
        "gains": {one.resource: one.speedup for one in what_if(demands, threads, think)},
        "error": (modelled / rate - 1) * 100,
    }


def _notes(runs: pl.DataFrame, errors: list[float]) -> tuple[str, ...]:
    sampled = int(runs["statements"].sum())
    notes = [
        f"all operations are taken to be like {counted(sampled, 'sampled statement')} in {counted(runs.height, 'run')}"
    ]
    share = (pl.col("without_commit") * pl.col("statements")).sum() / pl.col("statements").sum()
    hidden = float(runs.select(share).item())
    if hidden > 0:
        notes.append(f"{hidden * 100:.0f} % of the durations do not contain the commit: its wait counts as outside")
    if (runs["total"] > runs["response_time_us"]).any():
        notes.append("sampled statements take longer than the client's mean response: sampling slows them down")
    if max(map(abs, errors)) > _TOLERATED:
        worst = max(errors, key=abs)
        notes.append(f"the network misses a run's throughput by {worst:+.0f} %: do not believe its gains")
    return tuple(notes)

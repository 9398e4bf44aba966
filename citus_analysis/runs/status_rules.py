"""The rules of status: what makes a run failed or degraded, and what is counted without changing its status.

docs/statistics.md shows the table :data:`STATUS_RULES`; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

import polars as pl

#: TPC-C 2.4.1.4 has 1 % of the new orders rolled back; by 5.2.3, at most 45 % of all transactions are new orders.
_PRESCRIBED_SHARE: Final = 0.01 * 0.45
#: Standard deviations by which chance may exceed the prescribed number.
_CHANCE: Final = 4
#: Factor by which a share of an unknown number of operations may exceed it.
_UNCOUNTED: Final = 1.25
_TPCC: Final = r"(?i)\btpc-?c\b"
#: Share of the machine's CPU time in a run from which work that is not the run's own makes it doubtful.
DOUBTFUL_PERCENT: Final = 2.0
#: First words of the reason of a doubtful run.
FOREIGN: Final = "other work on the machine"


@dataclass(frozen=True)
class StatusRule:
    """A condition that decides the status of a run.

    Attributes:
        status: the status of a run for which it holds.
        tools: tools to which it applies, in words; those that print what it needs.
        meaning: the condition in words.
        holds: the condition, over the columns that :func:`with_status` describes.
        reason: what is said of the run.
    """

    status: str
    tools: str
    meaning: str
    holds: pl.Expr
    reason: pl.Expr


_failed, _degraded, _doubtful, _passed = (
    partial(StatusRule, status) for status in ("failed", "degraded", "doubtful", "ok")
)
_FAILED: Final = pl.col("failed_operations")
_SHARE: Final = pl.col("failed_share")
#: Operations failed: how many, or, if that is not known, which share.
_LOST: Final = (_FAILED > 0) | (_FAILED.is_null() & (_SHARE > 0))
_HOW_MANY: Final = (
    pl.when(_FAILED.is_not_null())
    .then(pl.format("{} of {}", "failed_operations", "attempted"))
    .otherwise(pl.format("{} % of the", (_SHARE * 100).round(2)))
)
_COMPLETE: Final = pl.col("incomplete") == 0
_NOTHING_DONE: Final = (pl.col("operations_done") == 0) & _COMPLETE & (pl.col("main_clients") > 0)
_SOMETHING_DONE: Final = ~_NOTHING_DONE.fill_null(value=False)
_AT_REST: Final = (pl.col("throughput_ops_s") == 0) & pl.col("operations_done").is_null() & _COMPLETE
_MISSING: Final = pl.col("drivers") - pl.col("main_clients")
_IDLE: Final = pl.col("threads") - pl.col("connected_threads")
_ENDED_EARLY: Final = (
    pl.when(pl.col("throughput_ops_s").is_not_null())
    .then(pl.format("incomplete results of {} of {} clients: aborted, or cut", "incomplete", "main_clients"))
    .otherwise(pl.format("no final summary: {} of {} clients ended early", "incomplete", "main_clients"))
)
_OF_MONITOR: Final = pl.col("monitor_operations")
_FAILED_OF_MONITOR: Final = pl.col("monitor_failed_operations").fill_null(0)


def _is_prescribed() -> pl.Expr:
    """Whether no more requests failed than TPC-C has rolled back; other tools do not count these as failures."""
    expected = pl.col("attempted") * _PRESCRIBED_SHARE
    chance = _CHANCE * (expected * (1 - _PRESCRIBED_SHARE)).sqrt()
    is_tpcc = (pl.col("tool") == "BenchBase") & pl.col("script").str.contains(_TPCC)
    few = (expected + chance >= _FAILED) | (_FAILED.is_null() & (_SHARE <= _PRESCRIBED_SHARE * _UNCOUNTED))
    return (is_tpcc & few).fill_null(value=False)


_PRESCRIBED: Final = _is_prescribed()
_TOLERATED: Final = (pl.col("tool") == "sysbench").fill_null(value=False)

#: All rules, in the order in which they are applied.
STATUS_RULES: Final = (
    # Runs that were not measured to their end.
    _failed(
        "all",
        "a main client left no log",
        _MISSING > 0,
        pl.format("no log of {} of {} main clients", _MISSING, "drivers"),
    ),
    _failed(
        "all",
        "a main client printed no final summary (it was ended, or its output is cut), or that it aborted its run",
        pl.col("incomplete") > 0,
        _ENDED_EARLY.str.replace("1 of 1 clients", "the client", literal=True),
    ),
    _failed(
        "YCSB, pgbench, HammerDB",
        "client threads (virtual users) never connected, or ended early",
        _IDLE > 0,
        pl.format("{} of {} client threads never connected, or ended early", _IDLE, "threads"),
    ),
    _failed(
        "YCSB, go-ycsb, pgbench",
        "fewer operations were attempted than planned, without a time limit",
        (pl.col("attempted") < pl.col("operations")) & ~pl.col("time_limited"),
        pl.format("{} of {} planned operations attempted", "attempted", "operations"),
    ),
    # Runs to their end in which nothing succeeded.
    _failed(
        "all",
        "nothing was measured: every operation failed, or there was none",
        _NOTHING_DONE | _AT_REST,
        pl.when(_NOTHING_DONE & (_FAILED > 0))
        .then(pl.format("nothing was measured: {} of {} operations failed", "failed_operations", "attempted"))
        .otherwise(pl.lit("nothing was measured: no operation was done")),
    ),
    _failed(
        "HammerDB, go-tpc",
        "TPC-C without a new order (0 NOPM or tpmC), which is what it measures",
        (pl.col("new_orders_per_min") == 0) & _COMPLETE,
        pl.lit("nothing was measured: no new order succeeded"),
    ),
    # Runs to their end in which operations failed.
    _degraded(
        "all",
        "operations failed, except those that the last two rows count",
        _LOST & ~_PRESCRIBED & ~_TOLERATED & _SOMETHING_DONE,
        pl.format("{} operations failed", _HOW_MANY),
    ),
    _degraded(
        "HammerDB",
        "it printed errors of virtual users, the monitor among them",
        pl.col("reported_errors") > 0,
        pl.format("errors of virtual users that were printed: {}", "reported_errors"),
    ),
    _degraded(
        "the monitor",
        "operations of the sampled client failed",
        _FAILED_OF_MONITOR > 0,
        pl.format("{} of {} operations of the monitor failed", _FAILED_OF_MONITOR, _OF_MONITOR + _FAILED_OF_MONITOR),
    ),
    _degraded(
        "the monitor",
        "the sampled client did nothing",
        _OF_MONITOR + _FAILED_OF_MONITOR == 0,
        pl.lit("the monitor client did nothing: no sampled statements"),
    ),
    # Runs that were measured while their machine did something else.
    _doubtful(
        "all, with samples of the CPUs",
        f"work that is not the run's own took at least {DOUBTFUL_PERCENT:g} % of the machine's CPU time, as "
        "`citus_analysis.bottleneck.machine_work` finds it",
        pl.col("foreign_share_percent") >= DOUBTFUL_PERCENT,
        pl.format("{} {}", pl.lit(FOREIGN), "foreign_work"),
    ),
    # Failures that are counted, and do not change the status.
    _passed(
        "BenchBase",
        "TPC-C: not more requests failed than it has rolled back, 1 % of the new orders, which are at most 45 % of "
        f"all transactions, and {_CHANCE} standard deviations for chance (if only their share is known, "
        f"{100 * _PRESCRIBED_SHARE * _UNCOUNTED:.2f} %)",
        _LOST & _PRESCRIBED & _SOMETHING_DONE,
        pl.format("{} operations were rolled back, as TPC-C prescribes", _HOW_MANY),
    ),
    _passed(
        "sysbench",
        "transactions were repeated after errors that it ignores (deadlocks, serialization failures)",
        (_FAILED > 0) & _TOLERATED & _SOMETHING_DONE,
        pl.format("ignored errors, after which transactions were repeated: {}", "failed_operations"),
    ),
)

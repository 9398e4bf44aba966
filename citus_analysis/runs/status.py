"""The status of a run (ok, doubtful, degraded or failed) and its reason, by the same rules in runner and `ingest`.

:data:`citus_analysis.runs.status.STATUS_RULES` is the one table of the rules. :func:`add_run_status` judges the load
generators' outputs by it, :func:`with_verdicts` adds the verdicts of the runner, which detects failures that these
outputs do not show, and :func:`with_doubts` what the samples of the machines show. The status of a run is the worst of
these. Statistics take runs that are ok, and doubtful or degraded ones where a user allows it
(:func:`list_included_statuses`).

Example:
    >>> import polars as pl
    >>> facts = {"drivers": 1, "main_clients": 1, "incomplete": 0, "threads": 260, "connected_threads": 197,
    ...     "operations": 500, "attempted": 500, "failed_operations": 0, "time_limited": False,
    ...     "monitor_operations": None, "monitor_failed_operations": None}
    >>> add_run_status(pl.DataFrame([facts])).select("status", "status_reason").row(0)
    ('failed', '63 of 260 client threads never connected, or ended early')
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Final

import polars as pl

from citus_analysis.errors import UsageError
from citus_analysis.runs.windows import WINDOW
from citus_analysis.schema import STATUSES
from citus_analysis.texts.words import pluralize

# The rules of status: what makes a run failed or degraded, and what is counted without changing its status.
#
# docs/statistics.md shows the table :data:`STATUS_RULES`; a test compares the two.

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
        holds: the condition, over the columns that :func:`add_run_status` describes.
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
    .when(pl.col("operations_done") == 0)
    .then(pl.lit("no operation was done, and no throughput printed"))
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

#: Status -> the word for it in `outcomes.csv` and in the runner's journal.
OUTCOME_OF: Final = {"ok": "verified", "degraded": "degraded", "failed": "failed"}
_STATUS_OF: Final = {outcome: status for status, outcome in OUTCOME_OF.items()}
_SEVERITY: Final = {status: severity for severity, status in enumerate(STATUSES)}


#: `include_status` of a function that gets runs which were selected before; which may enter was decided then.
AS_SELECTED: Final = ("doubtful", "degraded")


def find_worst_status(*statuses: str) -> str:
    """The most severe of the statuses; `ok` if there is none.

    Example:
        >>> find_worst_status("ok", "failed", "degraded")
        'failed'
    """
    return max(statuses, key=_SEVERITY.__getitem__, default="ok")


def list_included_statuses(include_status: str | Collection[str] = ()) -> tuple[str, ...]:
    """The statuses of the runs that enter a statistic.

    Args:
        include_status: `doubtful` or `degraded`, to use such runs as well; one text or several, or one with commas.

    Raises:
        UsageError: another word; runs that failed measured nothing that could be used.

    Example:
        >>> list_included_statuses(), list_included_statuses("degraded")
        (('ok',), ('ok', 'degraded'))
        >>> list_included_statuses("doubtful, degraded")
        ('ok', 'doubtful', 'degraded')
    """
    texts = [include_status] if isinstance(include_status, str) else include_status
    words = [word.strip() for text in texts for word in str(text).split(",") if word.strip()]
    if unknown := [word for word in words if word not in STATUSES[:3]]:
        raise UsageError(
            f"runs with the status {unknown[0]!r} cannot be allowed", hint="allow 'doubtful', 'degraded', or nothing"
        )
    return tuple(status for status in STATUSES if status == STATUSES[0] or status in words)


def write_used_run_notes(runs: pl.DataFrame) -> list[str]:
    """Words on runs that are used although they are not ok, and on those whose clients contradict themselves.

    Args:
        runs: rows of the table `runs`; a table without `status` and `notes` has no words.

    Example:
        >>> write_used_run_notes(pl.DataFrame({"status": ["ok", "degraded"], "notes": ["a total is wrong", None]}))
        ['1 degraded run of 2 used, as allowed', "1 run of 2 has a client's output that contradicts itself (notes)"]
    """
    texts = []
    of = f"of {runs.height}"
    if "status" in runs.columns:
        numbers = {status: int((runs["status"].cast(pl.String) == status).sum()) for status in STATUSES[1:3]}
        texts += [f"{pluralize(n, f'{status} run')} {of} used, as allowed" for status, n in numbers.items() if n]
    if "notes" in runs.columns and (n := runs.height - runs["notes"].null_count()):
        texts.append(
            f"{pluralize(n, 'run')} {of} {'has' if n == 1 else 'have'} a client's output that contradicts itself "
            "(notes)"
        )
    return texts


def add_run_status(runs: pl.DataFrame) -> pl.DataFrame:
    """Runs with `status` and `status_reason`, judged by the outputs of their clients: :data:`STATUS_RULES`.

    The first rule that holds determines the status; the reason names all that hold. A run for which none holds is ok,
    without a reason.

    Args:
        runs: one row per run with `drivers`, `main_clients` (with a log), `incomplete` (of these, without a final
            summary), `threads`, `connected_threads`, `operations` (planned), `attempted`, `failed_operations`,
            `time_limited`, `monitor_operations` (null without a monitor) and `monitor_failed_operations`. If known,
            also `tool`, `script`, `operations_done`, `throughput_ops_s`, `failed_share`, `new_orders_per_min` and
            `reported_errors`.
    """
    known = runs.with_columns(pl.lit(None, kind).alias(name) for name, kind in _OPTIONAL.items() if name not in runs)
    status = pl.coalesce(*(pl.when(one.holds).then(pl.lit(one.status)) for one in STATUS_RULES), pl.lit("ok"))
    words = pl.concat_list(pl.when(one.holds).then(one.reason) for one in STATUS_RULES).list.drop_nulls()
    reason = pl.when(words.list.len() > 0).then(words.list.join("; "))
    return runs.with_columns(known.select(status=status, status_reason=reason).get_columns())


_OPTIONAL: Final[dict[str, pl.DataType]] = {
    **dict.fromkeys(("tool", "script", "foreign_work"), pl.String()),
    **dict.fromkeys(("operations_done", "reported_errors"), pl.Int64()),
    **dict.fromkeys(("throughput_ops_s", "failed_share", "new_orders_per_min", "foreign_share_percent"), pl.Float64()),
}


def add_runner_verdicts(runs: pl.DataFrame, outcomes: pl.DataFrame) -> pl.DataFrame:
    """Runs with the runner's verdicts: the worse status, with both reasons.

    Args:
        runs: the table `runs`.
        outcomes: the table `outcomes` of the same resources; of several rows for a run, the last one is used.
    """
    verdicts = outcomes.unique(["resource", "judged_iteration"], keep="last", maintain_order=True).select(
        "resource",
        iteration="judged_iteration",
        judged=pl.col("outcome").replace_strict(_STATUS_OF, default="ok", return_dtype=pl.String),
        judged_reason="reason",
        **{f"judged_{name}": name for name in WINDOW},
    )
    joined = runs.join(verdicts, on=["resource", "iteration"], how="left", maintain_order="left")
    severity = pl.max_horizontal(
        pl.col(name).cast(pl.String).fill_null("ok").replace_strict(_SEVERITY, return_dtype=pl.Int8)
        for name in ("status", "judged")
    )
    # The runner judges the clients by the same rule, so its reason may repeat theirs.
    repeated = pl.col("judged_reason").str.contains(pl.col("status_reason"), literal=True).fill_null(value=False)
    words = pl.concat_list(pl.when(~repeated).then("status_reason"), "judged_reason").list.drop_nulls()
    judged_worse = pl.col("judged").fill_null("ok") != "ok"
    return joined.with_columns(
        status=severity.replace_strict(dict(enumerate(STATUSES)), return_dtype=pl.String),
        status_reason=pl.when(judged_worse).then(words.list.join("; ")).otherwise("status_reason"),
        **{name: pl.coalesce(name, f"judged_{name}") for name in WINDOW},
    ).select(runs.columns)


def add_machine_doubts(runs: pl.DataFrame, foreign: pl.DataFrame) -> pl.DataFrame:
    """Runs with the doubts that other work on their machines raises; earlier doubts are replaced.

    Args:
        runs: the table `runs`.
        foreign: `resource`, `run_id`, `foreign_share_percent` (of the machine's CPU time) and `foreign_work` (in words)
            of the runs for which they are known.

    Example:
        >>> run = {"resource": "w2", "run_id": "1", "status": "ok", "status_reason": None}
        >>> work = {"resource": "w2", "run_id": "1", "foreign_share_percent": 30.0, "foreign_work": "from 10:00:00 on"}
        >>> runs = pl.DataFrame([run], schema_overrides={"status_reason": pl.String})
        >>> doubted = add_machine_doubts(runs, pl.DataFrame([work]))
        >>> doubted.select("status", "status_reason").row(0)
        ('doubtful', 'other work on the machine from 10:00:00 on')
        >>> add_machine_doubts(doubted, pl.DataFrame([work]).clear())["status"].to_list()
        ['ok']
    """
    (rule,) = (one for one in STATUS_RULES if one.status == _DOUBTFUL)
    known = foreign.sort("foreign_share_percent").unique(["resource", "run_id"], keep="last")
    joined = runs.join(known, on=["resource", "run_id"], how="left", maintain_order="left")
    earlier = pl.col("status_reason").str.split("; ")
    others = earlier.list.eval(pl.element().filter(~pl.element().str.starts_with(FOREIGN)))
    words = pl.concat_list(others.fill_null([]), pl.when(rule.holds).then(rule.reason)).list.drop_nulls()
    status = pl.col("status").cast(pl.String)
    judged = pl.when(status.is_in(["ok", _DOUBTFUL])).then(
        pl.when(rule.holds).then(pl.lit(_DOUBTFUL)).otherwise(pl.lit("ok"))
    )
    found = joined.select(
        status=judged.otherwise(status).cast(runs.schema["status"]),
        status_reason=pl.when(words.list.len() > 0).then(words.list.join("; ")),
    )
    return runs.with_columns(found.get_columns())


_DOUBTFUL: Final = "doubtful"

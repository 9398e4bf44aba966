"""The status of a run (ok, degraded or failed) and its reason, by the same rule in the runner and in `ingest`.

:func:`with_status` judges the load generators' outputs, :func:`with_verdicts` adds the verdicts of the runner, which
detects failures that these outputs do not show. The status of a run is the worse of the two.

Example:
    >>> import polars as pl
    >>> facts = {"drivers": 1, "main_clients": 1, "incomplete": 0, "threads": 260, "connected_threads": 197,
    ...     "operations": 500, "attempted": 500, "failed_operations": 0, "time_limited": False,
    ...     "monitor_operations": None, "monitor_failed_operations": None}
    >>> with_status(pl.DataFrame([facts])).select("status", "status_reason").row(0)
    ('failed', '63 of 260 client threads never connected, or ended early')
"""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.schema import STATUSES

__all__ = ["OUTCOME_OF", "with_status", "with_verdicts", "worst_status"]

#: Status -> the word for it in `outcomes.csv` and in the runner's journal.
OUTCOME_OF: Final = {"ok": "verified", "degraded": "degraded", "failed": "failed"}
_STATUS_OF: Final = {outcome: status for status, outcome in OUTCOME_OF.items()}
_SEVERITY: Final = {status: severity for severity, status in enumerate(STATUSES)}
_BY_SEVERITY: Final = dict(enumerate(STATUSES))


def worst_status(*statuses: str) -> str:
    """The most severe of the statuses; `ok` if there is none.

    Example:
        >>> worst_status("ok", "failed", "degraded")
        'failed'
    """
    return max(statuses, key=_SEVERITY.__getitem__, default="ok")


def with_status(runs: pl.DataFrame) -> pl.DataFrame:
    """Runs with `status` and `status_reason`, judged by the outputs of their clients.

    The status is `failed` if a main client left no log or no final summary, if client threads never connected, or if
    fewer operations were attempted than planned (unless a time limit was set); `degraded` if operations failed, if the
    monitor's operations failed, or if it had none; else `ok`. The first condition that is true determines the status;
    the reason names all that are true.

    Args:
        runs: one row per run with `drivers`, `main_clients` (with a log), `incomplete` (of these, without a final
            summary), `threads`, `connected_threads`, `operations` (planned), `attempted`, `failed_operations`,
            `time_limited`, `monitor_operations` (null without a monitor) and `monitor_failed_operations`.
    """
    rules = (*_failures(), *_degradations())
    status = pl.coalesce(*(pl.when(holds).then(pl.lit(word)) for holds, word, _ in rules), pl.lit("ok"))
    words = pl.concat_list(pl.when(holds).then(text) for holds, _, text in rules).list.drop_nulls()
    reason = pl.when(words.list.len() > 0).then(words.list.join("; "))
    return runs.with_columns(status=status, status_reason=reason)


_Rule = tuple[pl.Expr, str, pl.Expr]


def _failures() -> tuple[_Rule, ...]:
    missing = pl.col("drivers") - pl.col("main_clients")
    idle = pl.col("threads") - pl.col("connected_threads")
    short = (pl.col("attempted") < pl.col("operations")) & ~pl.col("time_limited")
    ended_early = pl.format("no final summary: {} of {} clients ended early", "incomplete", "main_clients")
    never = pl.format("{} of {} client threads never connected, or ended early", idle, "threads")
    return (
        (missing > 0, "failed", pl.format("no log of {} of {} main clients", missing, "drivers")),
        (
            pl.col("incomplete") > 0,
            "failed",
            ended_early.str.replace("1 of 1 clients", "the client", literal=True),
        ),
        (idle > 0, "failed", never),
        (short, "failed", pl.format("{} of {} planned operations attempted", "attempted", "operations")),
    )


def _degradations() -> tuple[_Rule, ...]:
    done, failed = pl.col("monitor_operations"), pl.col("monitor_failed_operations").fill_null(0)
    return (
        (
            pl.col("failed_operations") > 0,
            "degraded",
            pl.format("{} of {} operations failed", "failed_operations", "attempted"),
        ),
        (failed > 0, "degraded", pl.format("{} of {} operations of the monitor failed", failed, done + failed)),
        (done + failed == 0, "degraded", pl.lit("the monitor client did nothing: no sampled statements")),
    )


def with_verdicts(runs: pl.DataFrame, outcomes: pl.DataFrame) -> pl.DataFrame:
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
        **{f"judged_{name}": name for name in _WINDOW},
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
        status=severity.replace_strict(_BY_SEVERITY, return_dtype=pl.String),
        status_reason=pl.when(judged_worse).then(words.list.join("; ")).otherwise("status_reason"),
        **{name: pl.coalesce(name, f"judged_{name}") for name in _WINDOW},
    ).select(runs.columns)


_WINDOW: Final = ("measured_from", "measured_until")

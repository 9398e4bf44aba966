"""Single statements of a profile: the composition of T up to its tail, and traces to look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from citus_analysis.core.frames import TableSource, as_polars, lazy_table
from citus_analysis.errors import InsufficientDataError
from citus_analysis.spans.analyse.composition import percentile_profile
from citus_analysis.spans.analyse.profile import ProfileStudy
from citus_analysis.spans.analyse.tail import TailProfile, autovacuum_intervals, tail_profile
from citus_analysis.texts.counted_words import size_text, threads_text

#: Columns of spans that the tail's profile needs.
_OF_SPANS: Final = ("trace_id", "kind", "start_time", "end_time", "resource", "iteration", "node")
#: Columns of statements that their profile by percentile needs.
_FOLLOWED: Final = (
    *("trace_id", "statement_kind", "executed", "failed", "total_us", "wait_us"),
    *("parse_us", "bind_us", "connect_us", "execute_us", "child_us", "latency_us"),
)


@dataclass(frozen=True)
class TraceStudy:
    """One kind of statement in one configuration.

    Attributes:
        label: kind and configuration, in words.
        statements: the statements of the configuration, of the steady state.
        of_one_run: the statements of the run with the most statements, for figures over time.
        percentiles: composition of T by percentile, of remote executions only if there are any.
        tail: the slowest statements compared with the others; None if there are too few.
        typical: trace_id of a statement whose T is the median.
        slowest: trace_id of the slowest statement.
        spans: spans of these two traces.
    """

    label: str
    statements: pl.DataFrame
    of_one_run: pl.DataFrame
    percentiles: pl.DataFrame
    tail: TailProfile | None
    typical: int
    slowest: int
    spans: pl.DataFrame


def trace_studies(study: ProfileStudy, dataset: TableSource) -> tuple[TraceStudy, ...]:
    """One study per kind of statement, in the largest cluster that the profile's figures show.

    Args:
        study: the profile.
        dataset: gives `spans`, `checkpoints` and `log_events`.
    """
    found = []
    for kind in study.kinds():
        chosen, workers = _of_kind(study, kind)
        if chosen.is_empty():
            continue
        remote = chosen.lazy().filter(pl.col("executed") == "remote").select(_FOLLOWED).collect()
        followed = (remote if remote.height else chosen.select(_FOLLOWED)).sort("total_us", "trace_id")
        typical, slowest = followed["trace_id"][followed.height // 2], followed["trace_id"][-1]
        runs = chosen["run_id"].value_counts(sort=True)["run_id"]
        one = TraceStudy(
            label=f"{kind.upper()}, {size_text(workers)}, {threads_text(study.threads)}",
            statements=chosen,
            of_one_run=chosen if runs.len() == 1 else chosen.filter(pl.col("run_id") == runs[0]),
            percentiles=percentile_profile(followed),
            tail=_tail(chosen, dataset),
            typical=typical,
            slowest=slowest,
            spans=lazy_table(dataset, "spans").filter(pl.col("trace_id").is_in([typical, slowest])).collect(),
        )
        found.append(one)
    return tuple(found)


def _of_kind(study: ProfileStudy, kind: str) -> tuple[pl.DataFrame, int]:
    """The statements of a kind in the largest cluster that the figures show, and its number of workers."""
    shown = study.statements.lazy().filter(
        pl.col("family") == study.main,
        pl.col("threads") == study.threads,
        pl.col("total_us").is_not_null(),
        pl.col("statement_kind") == kind,
    )
    workers = shown.select(pl.col("workers").max().fill_null(0)).collect().item()
    return shown.filter(pl.col("workers").fill_null(0) == workers).collect(), int(workers)


def _tail(statements: pl.DataFrame, dataset: TableSource) -> TailProfile | None:
    runs, traces = statements.lazy().select("run_id").unique(), statements.lazy().select("trace_id")
    autovacuums = lazy_table(dataset, "log_events").filter(pl.col("kind") == "autovacuum")
    times = lazy_table(dataset, "spans").filter(pl.col("kind").is_in(["statement", "remote"])).select(_OF_SPANS)
    try:
        return tail_profile(
            statements,
            times.join(traces, on="trace_id", how="semi"),
            checkpoints=as_polars(dataset.table("checkpoints")).lazy().join(runs, on="run_id", how="semi").collect(),
            autovacuums=autovacuum_intervals(autovacuums.join(runs, on="run_id", how="semi").collect()),
        )
    except InsufficientDataError:
        return None

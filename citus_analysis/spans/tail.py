"""Properties that distinguish the slowest statements from the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.frames import (
    Frame,
    TableSource,
    convert_to_polars,
    return_callers_frame_kind,
    scan_source_table,
)
from citus_analysis.errors import InsufficientDataError
from citus_analysis.spans.composition import COMPONENT_WORDS, COMPONENTS, compose, compute_percentile_profile
from citus_analysis.spans.profile import ProfileStudy
from citus_analysis.stats.verdicts import adjust_by_holm
from citus_analysis.texts.numbers import format_percent
from citus_analysis.texts.words import format_cluster_size, format_thread_count, pluralize

#: Statements at the beginning of a session count as its start: plans and connections are made there.
CONNECTION_START: Final = 5

_EXEMPLARS: Final = 3
#: Columns that identify the server of a span or an interval.
_WHERE: Final = ["resource", "iteration", "node"]
#: Columns that identify a statement.
_TOLD_APART: Final = (
    *("trace_id", "resource", "run_id", "iteration", "node", "source_id", "pid", "session_seq"),
    *("statement_kind", "executed", "shard_id", "includes_commit"),
)


@dataclass(frozen=True, repr=False)
class TailProfile(DisplayMixin):
    """The slowest statements compared with the others.

    Attributes:
        factors: per factor (`node`, `shard`, `executed`, `longest part`, `checkpoint`, `autovacuum`,
            `connection start`) and level: statements in the tail and in the rest with that level, their shares
            (`tail_share`, `rest_share`), the `lift` (tail share over rest share), the `p_value` of Fisher's exact
            test, corrected for the number of levels examined (Holm), and `exemplars`: trace_ids of the slowest
            statements in the tail with that level. Sorted by p_value.
        composition: mean parts of T in the tail and in the rest.
        threshold_us: smallest T in the tail.
        n: statements examined; `n_tail` of them are in the tail.
        warnings: reasons why the profile may mislead.
    """

    factors: pl.DataFrame
    composition: pl.DataFrame
    threshold_us: float
    n: int
    n_tail: int
    warnings: tuple[str, ...] = field(default=())


@return_callers_frame_kind
def tail_profile(
    statements: Frame,
    spans: Frame,
    *,
    checkpoints: Frame | None = None,
    autovacuums: Frame | None = None,
    share: float = 0.01,
) -> TailProfile:
    """Compare the slowest statements with the rest, factor by factor.

    Args:
        statements: rows of table `statements`, of statements that are comparable (one kind, one configuration).
        spans: rows of table `spans`, which show which other nodes took part, and when.
        checkpoints: rows of table `checkpoints`; without them the factor is left out.
        autovacuums: result of :func:`find_autovacuum_intervals`; without them the factor is left out.
        share: share of the statements that counts as the tail.

    Raises:
        InsufficientDataError: the tail would have fewer than 5 statements.

    Source: Fisher's exact test with Holm's correction (Holm 1979).
    """
    intervals = {"checkpoint": checkpoints, "autovacuum": autovacuums}
    # First, so that the millions of spans of an hour are not in memory together with the statements.
    met = _find_overlapping_traces(
        spans, {name: convert_to_polars(table) for name, table in intervals.items() if table is not None}
    )
    composed = compose(convert_to_polars(statements), _TOLD_APART)
    n_tail = round(share * composed.height)
    if n_tail < 5:
        needed = int(np.ceil(5 / share))
        raise InsufficientDataError(
            f"the slowest {format_percent(share, 1)} of {pluralize(composed.height, 'statement')} are {n_tail}",
            hint=f"give at least {needed} statements or a larger share",
        )
    ordered = composed.sort("total_us", "trace_id", descending=[True, False]).with_row_index("order")
    marked = _add_factor_columns(ordered, met).with_columns(tail=pl.col("order") < n_tail)
    threshold_us = float(ordered["total_us"][n_tail - 1])
    means = marked.group_by("tail").agg(pl.len().alias("n"), pl.col("total_us", *COMPONENTS).mean()).sort("tail")
    return TailProfile(
        _tabulate_factors(marked), means, threshold_us, ordered.height, n_tail, tuple(_iterate_tail_warnings(marked))
    )


def _iterate_tail_warnings(marked: pl.DataFrame) -> Iterable[str]:
    if marked["includes_commit"].drop_nulls().n_unique() > 1:
        yield "T of some statements contains the commit's WAL flush, of others it does not: local and remote differ"
    if marked["statement_kind"].n_unique() > 1:
        yield "statements of several kinds are compared with each other"
    if marked.select("resource", "run_id", "iteration").n_unique() > 1:
        yield "statements of several runs are compared with each other"


def _add_factor_columns(ordered: pl.DataFrame, met: Mapping[str, pl.Series]) -> pl.DataFrame:
    parts = pl.concat_list(COMPONENTS)
    names = pl.Series([COMPONENT_WORDS[name] for name in COMPONENTS])
    session = ["source_id", "pid"]
    return ordered.with_columns(
        pl.col("node").alias("factor:node"),
        pl.col("shard_id").cast(pl.String).alias("factor:shard"),
        pl.col("executed").cast(pl.String).alias("factor:executed"),
        pl.lit(names).gather(parts.list.arg_max()).alias("factor:longest part"),
        _make_yes_expr(pl.col("session_seq") - pl.col("session_seq").min().over(session) < CONNECTION_START).alias(
            "factor:connection start"
        ),
        *(
            _make_yes_expr(pl.col("trace_id").is_in(traces.implode())).alias(f"factor:{name}")
            for name, traces in met.items()
        ),
    )


def _make_yes_expr(condition: pl.Expr) -> pl.Expr:
    # A level "no" would repeat the same test, and cost power in the correction for many levels.
    return pl.when(condition).then(pl.lit("yes"))


def _find_overlapping_traces(spans: Frame, intervals: Mapping[str, pl.DataFrame]) -> dict[str, pl.Series]:
    """Name of intervals -> traces with a statement or remote span that overlaps an interval on its node."""
    if not intervals:
        return {}
    took_part = pl.col("kind").is_in(["statement", "remote"]) & pl.col("end_time").is_not_null()
    running = (
        (spans if isinstance(spans, pl.LazyFrame) else convert_to_polars(spans).lazy())
        .filter(took_part)
        .select("trace_id", "start_time", "end_time", *_WHERE)
        .collect(engine="streaming")
        .sort("end_time")
    )
    return {name: _find_interval_traces(running, table) for name, table in intervals.items()}


def _find_interval_traces(running: pl.DataFrame, intervals: pl.DataFrame) -> pl.Series:
    us = pl.Datetime("us", "UTC")
    busy = intervals.select(
        *_WHERE, begin=pl.coalesce("start_time", "end_time").cast(us), until=pl.col("end_time").cast(us)
    ).sort("begin")
    # Intervals of one kind on one node do not overlap: only the last that began before the span's end can cover it.
    met = running.join_asof(
        busy, left_on="end_time", right_on="begin", by=_WHERE, strategy="backward", check_sortedness=False
    )
    return met.filter(pl.col("until") >= pl.col("start_time"))["trace_id"].unique()


def _tabulate_factors(marked: pl.DataFrame) -> pl.DataFrame:
    from scipy.stats import fisher_exact

    columns = [name for name in marked.columns if name.startswith("factor:")]
    n_tail = int(marked["tail"].sum())
    levels = pl.concat(_count_factor_levels(marked, column) for column in columns)
    n_rest = marked.height - n_tail
    p_values = [
        float(fisher_exact(np.array([[tail, n_tail - tail], [rest, n_rest - rest]])).pvalue)
        for tail, rest in levels.select("in_tail", "in_rest").iter_rows()
    ]
    tail_share, rest_share = pl.col("in_tail") / n_tail, pl.col("in_rest") / n_rest
    table = levels.with_columns(
        tail_share=tail_share,
        rest_share=rest_share,
        lift=tail_share / rest_share,
        p_value=pl.Series(adjust_by_holm(p_values), dtype=pl.Float64),
    )
    return table.select(pl.exclude("exemplars"), "exemplars").sort("p_value", "factor", "level")


def _count_factor_levels(marked: pl.DataFrame, column: str) -> pl.DataFrame:
    slowest = pl.col("trace_id").filter(pl.col("tail")).head(_EXEMPLARS)
    return (
        marked.select("order", "tail", "trace_id", column)
        .filter(pl.col(column).is_not_null())
        .sort("order")
        .group_by(level=column)
        .agg(in_tail=pl.col("tail").sum(), in_rest=(~pl.col("tail")).sum(), exemplars=slowest)
        .select(pl.lit(column.removeprefix("factor:")).alias("factor"), "level", "in_tail", "in_rest", "exemplars")
    )


def make_autovacuum_seconds_expr() -> pl.Expr:
    """Seconds for which autovacuum worked, from its `message`; null if that part of the message was not kept.

    PostgreSQL 9.6 and before write `elapsed 0.12 sec`, later versions `elapsed: 0.12 s`.
    """
    return pl.col("message").str.extract(r"elapsed:? ([0-9.]+) s", 1).cast(pl.Float64)


@return_callers_frame_kind
def find_autovacuum_intervals(log_events: Frame) -> pl.DataFrame:
    """When autovacuum ran: `resource`, `iteration`, `node`, `start_time`, `end_time`.

    A record is logged when autovacuum ends, and contains the time that it took; if that part of the message was not
    kept, start and end are equal.
    """
    seconds = make_autovacuum_seconds_expr().fill_null(0.0)
    end = pl.col("log_time").cast(pl.Datetime("us", "UTC"))
    begin = end - pl.duration(microseconds=(seconds * 1e6).cast(pl.Int64))
    worked = convert_to_polars(log_events).filter(pl.col("kind") == "autovacuum")
    return worked.select("resource", "iteration", "node", start_time=begin, end_time=end)


# Single statements of a profile: the composition of T up to its tail, and traces to look at.

#: Columns of spans that the tail's profile needs.
_OF_SPANS: Final = ("trace_id", "kind", "start_time", "end_time", "resource", "iteration", "node")
#: Columns of statements that their profile by percentile needs.
_FOLLOWED: Final = (
    *("trace_id", "statement_kind", "executed", "failed", "total_us", "wait_us"),
    *("parse_us", "bind_us", "connect_us", "execute_us", "child_us", "between_us"),
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
        chosen, workers = _select_statements_of_kind(study, kind)
        if chosen.is_empty():
            continue
        remote = chosen.lazy().filter(pl.col("executed") == "remote").select(_FOLLOWED).collect()
        followed = (remote if remote.height else chosen.select(_FOLLOWED)).sort("total_us", "trace_id")
        typical, slowest = followed["trace_id"][followed.height // 2], followed["trace_id"][-1]
        runs = chosen["run_id"].value_counts(sort=True)["run_id"]
        one = TraceStudy(
            label=f"{kind.upper()}, {format_cluster_size(workers)}, {format_thread_count(study.threads)}",
            statements=chosen,
            of_one_run=chosen if runs.len() == 1 else chosen.filter(pl.col("run_id") == runs[0]),
            percentiles=compute_percentile_profile(followed),
            tail=_profile_statement_tail(chosen, dataset),
            typical=typical,
            slowest=slowest,
            spans=scan_source_table(dataset, "spans").filter(pl.col("trace_id").is_in([typical, slowest])).collect(),
        )
        found.append(one)
    return tuple(found)


def _select_statements_of_kind(study: ProfileStudy, kind: str) -> tuple[pl.DataFrame, int]:
    """The statements of a kind in the largest cluster that the figures show, and its number of workers."""
    shown = study.statements.lazy().filter(
        pl.col("family") == study.main,
        pl.col("threads") == study.threads,
        pl.col("total_us").is_not_null(),
        pl.col("statement_kind") == kind,
    )
    workers = shown.select(pl.col("workers").max().fill_null(0)).collect().item()
    return shown.filter(pl.col("workers").fill_null(0) == workers).collect(), int(workers)


def _profile_statement_tail(statements: pl.DataFrame, dataset: TableSource) -> TailProfile | None:
    runs, traces = statements.lazy().select("run_id").unique(), statements.lazy().select("trace_id")
    autovacuums = scan_source_table(dataset, "log_events").filter(pl.col("kind") == "autovacuum")
    times = scan_source_table(dataset, "spans").filter(pl.col("kind").is_in(["statement", "remote"])).select(_OF_SPANS)
    try:
        return tail_profile(
            statements,
            times.join(traces, on="trace_id", how="semi"),
            checkpoints=convert_to_polars(dataset.table("checkpoints"))
            .lazy()
            .join(runs, on="run_id", how="semi")
            .collect(),
            autovacuums=find_autovacuum_intervals(autovacuums.join(runs, on="run_id", how="semi").collect()),
        )
    except InsufficientDataError:
        return None

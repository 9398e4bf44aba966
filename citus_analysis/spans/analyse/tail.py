"""Properties that distinguish the slowest statements from the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.core.displays import Shown
from citus_analysis.core.frames import Frame, as_polars, in_callers_kind
from citus_analysis.errors import InsufficientDataError
from citus_analysis.spans.analyse.composition import COMPONENT_WORDS, COMPONENTS, compose
from citus_analysis.stats.compare.families import holm
from citus_analysis.texts.counted_words import counted
from citus_analysis.texts.number_text import percent

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
class TailProfile(Shown):
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


@in_callers_kind
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
        autovacuums: result of :func:`autovacuum_intervals`; without them the factor is left out.
        share: share of the statements that counts as the tail.

    Raises:
        InsufficientDataError: the tail would have fewer than 5 statements.

    Source: Fisher's exact test with Holm's correction (Holm 1979).
    """
    intervals = {"checkpoint": checkpoints, "autovacuum": autovacuums}
    # First, so that the millions of spans of an hour are not in memory together with the statements.
    met = _overlapping(spans, {name: as_polars(table) for name, table in intervals.items() if table is not None})
    composed = compose(as_polars(statements), _TOLD_APART)
    n_tail = round(share * composed.height)
    if n_tail < 5:
        needed = int(np.ceil(5 / share))
        raise InsufficientDataError(
            f"the slowest {percent(share, 1)} of {counted(composed.height, 'statement')} are {n_tail}",
            way_out=f"give at least {needed} statements or a larger share",
        )
    ordered = composed.sort("total_us", "trace_id", descending=[True, False]).with_row_index("order")
    marked = _with_factors(ordered, met).with_columns(tail=pl.col("order") < n_tail)
    threshold_us = float(ordered["total_us"][n_tail - 1])
    means = marked.group_by("tail").agg(pl.len().alias("n"), pl.col("total_us", *COMPONENTS).mean()).sort("tail")
    return TailProfile(_factor_table(marked), means, threshold_us, ordered.height, n_tail, tuple(_warnings(marked)))


def _warnings(marked: pl.DataFrame) -> Iterable[str]:
    if marked["includes_commit"].drop_nulls().n_unique() > 1:
        yield "T of some statements contains the commit's WAL flush, of others it does not: local and remote differ"
    if marked["statement_kind"].n_unique() > 1:
        yield "statements of several kinds are compared with each other"
    if marked.select("resource", "run_id", "iteration").n_unique() > 1:
        yield "statements of several runs are compared with each other"


def _with_factors(ordered: pl.DataFrame, met: Mapping[str, pl.Series]) -> pl.DataFrame:
    parts = pl.concat_list(COMPONENTS)
    names = pl.Series([COMPONENT_WORDS[name] for name in COMPONENTS])
    session = ["source_id", "pid"]
    return ordered.with_columns(
        pl.col("node").alias("factor:node"),
        pl.col("shard_id").cast(pl.String).alias("factor:shard"),
        pl.col("executed").cast(pl.String).alias("factor:executed"),
        pl.lit(names).gather(parts.list.arg_max()).alias("factor:longest part"),
        _yes(pl.col("session_seq") - pl.col("session_seq").min().over(session) < CONNECTION_START).alias(
            "factor:connection start"
        ),
        *(_yes(pl.col("trace_id").is_in(traces.implode())).alias(f"factor:{name}") for name, traces in met.items()),
    )


def _yes(condition: pl.Expr) -> pl.Expr:
    # A level "no" would repeat the same test, and cost power in the correction for many levels.
    return pl.when(condition).then(pl.lit("yes"))


def _overlapping(spans: Frame, intervals: Mapping[str, pl.DataFrame]) -> dict[str, pl.Series]:
    """Name of intervals -> traces with a statement or remote span that overlaps an interval on its node."""
    if not intervals:
        return {}
    took_part = pl.col("kind").is_in(["statement", "remote"]) & pl.col("end_time").is_not_null()
    running = (
        (spans if isinstance(spans, pl.LazyFrame) else as_polars(spans).lazy())
        .filter(took_part)
        .select("trace_id", "start_time", "end_time", *_WHERE)
        .collect(engine="streaming")
        .sort("end_time")
    )
    return {name: _met(running, table) for name, table in intervals.items()}


def _met(running: pl.DataFrame, intervals: pl.DataFrame) -> pl.Series:
    us = pl.Datetime("us", "UTC")
    busy = intervals.select(
        *_WHERE, begin=pl.coalesce("start_time", "end_time").cast(us), until=pl.col("end_time").cast(us)
    ).sort("begin")
    # Intervals of one kind on one node do not overlap: only the last that began before the span's end can cover it.
    met = running.join_asof(
        busy, left_on="end_time", right_on="begin", by=_WHERE, strategy="backward", check_sortedness=False
    )
    return met.filter(pl.col("until") >= pl.col("start_time"))["trace_id"].unique()


def _factor_table(marked: pl.DataFrame) -> pl.DataFrame:
    from scipy.stats import fisher_exact

    columns = [name for name in marked.columns if name.startswith("factor:")]
    n_tail = int(marked["tail"].sum())
    levels = pl.concat(_levels(marked, column) for column in columns)
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
        p_value=pl.Series(holm(p_values), dtype=pl.Float64),
    )
    return table.select(pl.exclude("exemplars"), "exemplars").sort("p_value", "factor", "level")


def _levels(marked: pl.DataFrame, column: str) -> pl.DataFrame:
    slowest = pl.col("trace_id").filter(pl.col("tail")).head(_EXEMPLARS)
    return (
        marked.select("order", "tail", "trace_id", column)
        .filter(pl.col(column).is_not_null())
        .sort("order")
        .group_by(level=column)
        .agg(in_tail=pl.col("tail").sum(), in_rest=(~pl.col("tail")).sum(), exemplars=slowest)
        .select(pl.lit(column.removeprefix("factor:")).alias("factor"), "level", "in_tail", "in_rest", "exemplars")
    )


def autovacuum_seconds() -> pl.Expr:
    """Seconds for which autovacuum worked, from its `message`; null if that part of the message was not kept.

    PostgreSQL 9.6 and before write `elapsed 0.12 sec`, later versions `elapsed: 0.12 s`.
    """
    return pl.col("message").str.extract(r"elapsed:? ([0-9.]+) s", 1).cast(pl.Float64)


@in_callers_kind
def autovacuum_intervals(log_events: Frame) -> pl.DataFrame:
    """When autovacuum ran: `resource`, `iteration`, `node`, `start_time`, `end_time`.

    A record is logged when autovacuum ends, and contains the time that it took; if that part of the message was not
    kept, start and end are equal.
    """
    seconds = autovacuum_seconds().fill_null(0.0)
    end = pl.col("log_time").cast(pl.Datetime("us", "UTC"))
    begin = end - pl.duration(microseconds=(seconds * 1e6).cast(pl.Int64))
    worked = as_polars(log_events).filter(pl.col("kind") == "autovacuum")
    return worked.select("resource", "iteration", "node", start_time=begin, end_time=end)

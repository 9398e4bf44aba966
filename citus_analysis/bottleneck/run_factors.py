"""Factors that may have differed between the runs of a configuration: one number for each run and factor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from citus_analysis.bottleneck.samples import RUN
from citus_analysis.bottleneck.waits import count_opened_sessions
from citus_analysis.bottleneck.witnesses import WITNESS_DIRECTIONS, WITNESSES
from citus_analysis.runs.selection import USUAL_QUESTION, Question
from citus_analysis.runs.status import list_included_statuses
from citus_analysis.spans.tail import find_autovacuum_intervals

#: The factor that blocks take the place of.
ORDER: Final = "order in time"
#: Column -> the factor in words.
FACTORS: Final = {
    "order": ORDER,
    "checkpoint": "checkpoints",
    "autovacuum": "autovacuum",
    "balance": "balance of nodes",
    **WITNESSES,
}
#: Factor in words -> the sign of the effect that it can have on the throughput. The opposite sign is the run's effect
#: on the factor: a faster run writes more and so has more checkpoints, and slows the canary beside it.
DIRECTIONS: Final = {
    FACTORS["checkpoint"]: -1,
    FACTORS["autovacuum"]: -1,
    FACTORS["balance"]: 1,
    **{WITNESSES[name]: sign for name, sign in WITNESS_DIRECTIONS.items()},
}
#: Fewest iterations, and configurations with all of them, that are blocks.
_LEAST_BLOCKS: Final = 3
_LEAST_CONFIGURATIONS: Final = 2
_UNDER_WAY: Final = "time with a checkpoint under way"
_LOGS_AUTOVACUUM: Final = "settings.log_autovacuum_min_duration"


def measure_run_factors(
    runs: pl.DataFrame,
    measured: pl.DataFrame,
    sessions: pl.DataFrame,
    autovacuum: pl.DataFrame,
    settings: pl.DataFrame,
    configuration: Sequence[str],
    question: Question = USUAL_QUESTION,
    witnesses: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """The runs that are ok or allowed, with a number for each factor; null if it is not known.

    Args:
        runs: the runs, with the columns of `configuration`.
        measured: columns of :data:`citus_analysis.bottleneck.measurements.COLUMNS`.
        sessions: result of :func:`citus_analysis.bottleneck.select_client_sessions`.
        autovacuum: records of kind `autovacuum`, rows of `log_events`.
        settings: the table `settings`.
        configuration: columns that identify a configuration.
        question: the statuses of runs that are included.
        witnesses: result of :func:`citus_analysis.bottleneck.witnesses.measure_witnesses`; None: none of them is known.

    Returns:
        `configuration`, `run_id`, `throughput_ops_s`, `order` (rank of the begin within the configuration),
        `checkpoint` (per cent of the run with a checkpoint under way, mean of the nodes), `autovacuum` (its seconds
        during the run, sum of the nodes), `balance` (Jain's index of the clients' sessions over nodes), the columns of
        the witnesses, `block` (the iteration, where iterations are blocks; null elsewhere).
    """
    done = runs.filter(
        pl.col("status").is_in(list_included_statuses(question.include_status)) & (pl.col("throughput_ops_s") > 0)
    )
    ordered = done.with_columns(order=pl.col("start_time").rank("ordinal").over(configuration).cast(pl.Float64))
    under_way = measured.filter(pl.col("metric") == _UNDER_WAY).group_by(RUN, maintain_order=True)
    shares = under_way.agg(checkpoint=pl.col("value").mean())
    for facts in (
        shares,
        _measure_autovacuum_seconds(done, autovacuum, settings),
        _compute_session_jain_index(sessions),
        *([] if witnesses is None else [witnesses]),
    ):
        # The runs have the speed of their machines, which is not its logarithm.
        ordered = ordered.drop(set(facts.columns) - set(RUN), strict=False).join(facts, on=RUN, how="left")
    names = [name for name in FACTORS if witnesses is not None or name not in WITNESSES]
    placed = _add_blocks(ordered, configuration)
    return placed.select(*configuration, "run_id", "throughput_ops_s", *names, "block").sort(*configuration, "order")


def _add_blocks(runs: pl.DataFrame, configuration: Sequence[str]) -> pl.DataFrame:
    """Runs with `block`: their iteration, if most configurations were run once in each, one iteration after the other.

    Blocks are known from the configurations that share the most frequent set of at least three iterations, if all runs
    of an iteration began before those of the next; another run is in a block if it has the same iteration and began
    while this went on.
    """
    unknown = runs.with_columns(block=pl.lit(None, pl.Float64))
    if runs.is_empty() or "iteration" not in runs.columns:
        return unknown
    timed = runs.drop_nulls(["iteration", "start_time"])
    sets = timed.group_by(configuration, maintain_order=True).agg(
        iterations=pl.col("iteration").sort(), once=pl.col("iteration").is_unique().all()
    )
    usual = sets.filter(pl.col("once") & (pl.col("iterations").list.len() >= _LEAST_BLOCKS))
    most = usual.group_by("iterations").len().sort("len", pl.col("iterations").list.len()).tail(1)
    if most.is_empty() or most["len"].item() < _LEAST_CONFIGURATIONS:
        return unknown
    alike = usual.join(most, on="iterations", how="semi").select(configuration)
    own = timed.join(alike, on=list(configuration), how="semi", nulls_equal=True)
    spans = own.group_by("iteration").agg(first=pl.col("start_time").min(), last=pl.col("start_time").max())
    spans = spans.sort("first")
    if not (spans["first"].slice(1) > spans["last"].slice(0, spans.height - 1)).all():
        return unknown
    joined = runs.join(spans, on="iteration", how="left", maintain_order="left")
    inside = pl.col("start_time").is_between("first", "last")
    return joined.with_columns(block=pl.when(inside).then(pl.col("iteration").cast(pl.Float64))).drop("first", "last")


def _measure_autovacuum_seconds(runs: pl.DataFrame, events: pl.DataFrame, settings: pl.DataFrame) -> pl.DataFrame:
    """Seconds of autovacuum within each run; null instead of 0 if the servers would not have logged it."""
    window = runs.select(*RUN, begin="start_time", until="end_time").drop_nulls()
    placed = window.join(find_autovacuum_intervals(events).select("resource", "start_time", "end_time"), on="resource")
    overlap = pl.min_horizontal("end_time", "until") - pl.max_horizontal("start_time", "begin")
    inside = placed.with_columns(overlap=overlap.dt.total_milliseconds() / 1000).filter(pl.col("overlap") >= 0)
    sums = inside.group_by(RUN, maintain_order=True).agg(autovacuum=pl.col("overlap").sum())
    asked = settings.filter((pl.col("name") == _LOGS_AUTOVACUUM) & ~pl.col("value").str.starts_with("-"))
    logged = pl.concat([asked.select("resource"), events.select(pl.col("resource").cast(pl.String))]).unique()
    known = window.join(logged, on="resource", how="semi").select(RUN)
    return known.join(sums, on=RUN, how="left").with_columns(pl.col("autovacuum").fill_null(0.0))


def _compute_session_jain_index(sessions: pl.DataFrame) -> pl.DataFrame:
    """Jain's index of the clients' sessions over all nodes on which sessions of the resource were seen."""
    nodes = sessions.group_by("resource", maintain_order=True).agg(nodes=pl.col("node").n_unique())
    opened = count_opened_sessions(sessions).group_by(RUN, maintain_order=True)
    count = pl.col("opened").cast(pl.Float64)
    sums = opened.agg(total=count.sum(), squares=(count**2).sum())
    index = pl.col("total") ** 2 / (pl.col("nodes") * pl.col("squares"))
    return sums.join(nodes.filter(pl.col("nodes") > 1), on="resource").select(*RUN, balance=index)

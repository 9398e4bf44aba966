"""The composition of T: at each percentile, per statement, and along the critical path of several tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from citus_analysis.core.frames import Frame, convert_to_polars, return_callers_frame_kind

#: Parts that add up to T: the parent's protocol phases without waiting, among them making connections, the time that
#: the child reported, and the rest of W.
COMPONENTS: Final = ("parse_us", "bind_us", "connect_us", "parent_execute_us", "child_us", "between_us")
#: Part of T -> its name wherever it is shown.
COMPONENT_WORDS: Final = {
    "parse_us": "parse",
    "bind_us": "bind",
    "connect_us": "connection set-up",
    "parent_execute_us": "execute on the parent",
    "child_us": "child",
    "between_us": "between",
}

DEFAULT_PERCENTILES: Final = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9)


def compose(statements: Frame, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Statements whose T can be divided, with the parts of :data:`COMPONENTS`.

    Statements that failed, touched no shard, or have a task whose child is unknown are left out.

    Args:
        statements: rows of table `statements`.
        columns: columns of the result besides T and its parts; None: all columns of `statements`.
    """
    remote = pl.col("wait_us").is_not_null()
    known = pl.col("total_us").is_not_null() & (~remote | pl.col("child_us").is_not_null())
    frame = convert_to_polars(statements)
    connect = pl.col("connect_us").fill_null(0.0) if "connect_us" in frame.columns else pl.lit(0.0)
    kept = frame.lazy().filter(pl.col("executed").is_not_null() & ~pl.col("failed") & known)
    composed = kept.with_columns(
        pl.col("parse_us", "bind_us", "child_us", "between_us").fill_null(0.0),
        connect_us=connect,
        parent_execute_us=pl.col("execute_us").fill_null(0.0) - pl.col("wait_us").fill_null(0.0) - connect,
    )
    # Copies of every column would not fit into memory for an hour of statements.
    wanted = pl.all() if columns is None else pl.col(dict.fromkeys([*columns, "total_us", *COMPONENTS]))
    return composed.select(wanted).collect()


@return_callers_frame_kind
def compute_percentile_profile(
    statements: Frame,
    *,
    by: Sequence[str] = ("statement_kind", "executed"),
    percentiles: Sequence[float] = DEFAULT_PERCENTILES,
) -> pl.DataFrame:
    """Composition of T at percentiles of T, from the typical to the slow statement.

    The composition at percentile p is the mean over the statements whose rank by T lies near p: within 2.5 % of n,
    but not beyond half the way to the slowest. A percentile with fewer than one statement beyond it, or with no
    statement near it, is left out.

    Args:
        statements: rows of table `statements`.
        by: columns to group by.
        percentiles: percentiles of T, between 0 and 100.

    Returns:
        Per group and `percentile`: `n` statements of the group, `near` of which were averaged, their mean `total_us`,
        and the parts that add up to it.
    """
    total = pl.len().over(list(by))
    rank = (pl.col("total_us").rank("ordinal").over(list(by)) - 0.5) / total
    ranked = compose(statements, by).with_columns(n=total, rank=rank)
    rows = []
    for percent in percentiles:
        centre = percent / 100
        reach = min(0.025, (1 - centre) / 2)
        near = ranked.filter(((pl.col("rank") - centre).abs() <= reach) & (pl.col("n") * (1 - centre) >= 1))
        counts = pl.lit(percent).alias("percentile"), pl.col("n").first(), pl.len().alias("near")
        rows.append(near.group_by(list(by)).agg(*counts, pl.col("total_us", *COMPONENTS).mean()))
    return pl.concat(rows).sort(*by, "percentile", nulls_last=True)


@return_callers_frame_kind
def compute_fan_out_profile(statements: Frame, *, by: Sequence[str] = ("statement_kind",)) -> pl.DataFrame:
    """Skew of the tasks of multi-shard statements: time of the slowest task over that of the median task.

    Args:
        statements: rows of table `statements`.
        by: columns to group by.

    Returns:
        Per group: `n` statements with several tasks, mean number of `tasks`, `skew_mean` and its quartiles, and
        `slowest_share`: the slowest task's share of W, on average.
    """
    skew = pl.col("slowest_task_us") / pl.col("median_task_us")
    several = convert_to_polars(statements).filter(
        (pl.col("tasks") > 1) & (pl.col("median_task_us") > 0) & ~pl.col("failed")
    )
    found = several.group_by(list(by)).agg(
        *(pl.len().alias("n"), pl.col("tasks").mean(), skew.mean().alias("skew_mean")),
        *(skew.quantile(q / 100, "linear").alias(f"skew_p{q}") for q in (25, 50, 75)),
        (pl.col("slowest_task_us") / pl.col("wait_us")).mean().alias("slowest_share"),
    )
    return found.sort(*by, nulls_last=True)


@return_callers_frame_kind
def critical_path(spans: Frame) -> pl.DataFrame:
    """The tasks that determine how long each statement waits.

    Tasks that ran on one child connection follow each other; the connection that was busy longest with a statement
    is its critical path. A task whose child is unknown counts as a connection of its own.

    Args:
        spans: rows of table `spans`.

    Returns:
        Task spans on critical paths, with the connection (`child_node`, `child_pid`), the time that the child reported
        (`child_us`) and the path's length (`path_us`).
    """
    frame = convert_to_polars(spans)
    remotes = frame.filter((pl.col("kind") == "remote") & pl.col("parent_span_id").is_not_null()).select(
        span_id="parent_span_id", child_node="node", child_pid="pid", child_us="duration_us"
    )
    tasks = frame.filter(pl.col("kind") == "task").join(remotes, on="span_id", how="left")
    known = pl.col("child_pid").is_not_null()
    connection = pl.when(known).then(pl.struct("child_node", "child_pid").hash()).otherwise("span_id")
    lanes = tasks.with_columns(connection=connection).with_columns(
        path_us=pl.col("duration_us").sum().over("trace_id", "connection")
    )
    # Of connections of the same length, the one that ended last is chosen, then the one with the smaller span id.
    longest = (
        lanes.sort("path_us", "end_time", "span_id", descending=[True, True, False])
        .group_by("trace_id", maintain_order=True)
        .agg(pl.col("connection").first())
    )
    chosen = lanes.join(longest, on=["trace_id", "connection"], how="semi", nulls_equal=True)
    return chosen.drop("connection").sort("trace_id", "byte_offset")

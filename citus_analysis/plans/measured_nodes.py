"""Total times of the nodes of a plan, and the error of the planner's estimate of rows."""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.core.frames import Frame, as_polars, in_callers_kind
from citus_analysis.units import US_PER_MS

#: The columns that identify a plan.
KEY: Final = ("resource", "source_id", "plan")
#: Citus states the same number of rows for any distributed query, which is no estimate.
_NO_ESTIMATE: Final = "Custom Scan (Citus "


@in_callers_kind
def measure_nodes(plan_nodes: Frame) -> pl.DataFrame:
    """Nodes of plans with totals over all their executions.

    Args:
        plan_nodes: the table `plan_nodes`.

    Returns:
        The rows of `plan_nodes`, and: `time_ms` (`total_us` times `loops`; with parallel workers the sum over them),
        `self_ms` (without the nodes below it in the same process; null if that is unknown), `expected_rows` and
        `given_rows` (of all executions), and `q_error`, the factor of the planner's error: the larger of expected/given
        and given/expected, with at least one row on either side (Moerkotte, Neumann and Steidl 2009). It is null for
        the scan of Citus, whose expectation is a constant, for the nodes above it, whose expectations depend on it, and
        for nodes that were not executed. A node below a Limit may have been stopped before it returned all rows.

    Example:
        >>> scan = {"resource": "r", "source_id": "s", "plan": 0, "plan_node": 0, "parent": None, "kind": "node"}
        >>> scan |= {"node_type": "Seq Scan", "estimated_rows": 10.0, "actual_rows": 2.0, "loops": 3, "total_us": 5.0}
        >>> measure_nodes(pl.DataFrame([scan])).select("time_ms", "given_rows", "q_error").row(0)
        (0.015, 6.0, 5.0)
    """
    # In other libraries, a column that contains only nulls has no type.
    frame = as_polars(plan_nodes).with_columns(pl.col("plan_node", "parent").cast(pl.Int32))
    node = pl.col("kind").cast(pl.String) == "node"
    timed = frame.with_columns(
        # A subplan's time is that of its one execution.
        time_ms=pl.col("total_us") * pl.when(node).then(pl.col("loops")).otherwise(1) / US_PER_MS,
        expected_rows=pl.col("estimated_rows") * pl.col("loops").fill_null(1),
        given_rows=pl.col("actual_rows") * pl.col("loops"),
    )
    below = (
        timed.filter(node)
        .group_by(*KEY, "parent")
        .agg(pl.col("time_ms").sum().alias("_below"), pl.col("time_ms").is_null().any().alias("_unknown"))
    )
    joined = timed.join(below.drop_nulls("parent"), left_on=[*KEY, "plan_node"], right_on=[*KEY, "parent"], how="left")
    self_ms = (pl.col("time_ms") - pl.col("_below").fill_null(0)).clip(lower_bound=0)
    expected, given = (pl.col(name).clip(lower_bound=1) for name in ("expected_rows", "given_rows"))
    constant = _with_parents(frame).select(*KEY, "plan_node", _constant=pl.lit(value=True))
    joined = joined.join(constant, on=[*KEY, "plan_node"], how="left")
    judged = node & (pl.col("loops") > 0) & pl.col("_constant").is_null()
    found = joined.with_columns(
        self_ms=pl.when(node & ~pl.col("_unknown").fill_null(value=False)).then(self_ms),
        q_error=pl.when(judged).then(pl.max_horizontal(expected / given, given / expected)),
    ).drop("_below", "_unknown", "_constant")
    return found.sort(*KEY, "plan_node")


def _with_parents(frame: pl.DataFrame) -> pl.DataFrame:
    """The scans of Citus and all nodes above them."""
    place = frame.select(*KEY, "plan_node", "parent")
    found = [place.filter(frame["node_type"].cast(pl.String).str.starts_with(_NO_ESTIMATE))]
    while found[-1].height:
        above = found[-1].select(*KEY, plan_node="parent").unique()
        found.append(place.join(above, on=[*KEY, "plan_node"], how="semi"))
    return pl.concat(found).unique()

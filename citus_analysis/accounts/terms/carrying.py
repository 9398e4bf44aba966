"""The statements that carry most of a cause, as a selection that the explorer opens."""

from __future__ import annotations

from typing import Final, Literal

import polars as pl

from citus_analysis.accounts.causes import Carriers, Cause
from citus_analysis.accounts.observed import Observed
from citus_analysis.accounts.statement_times import OF_CHILD, SEGMENTS

#: Share of a cause that its statements have to carry.
_MOST: Final = 0.8
#: Share of a cause that is of one kind of statement for this kind alone to be selected.
MOST_OF_KIND: Final = 0.8
#: Segment -> column of table `statements` that contains it, by which the explorer sorts.
_ORDERS: Final = {
    "parent_us": "parent_us",
    "between_us": "latency_us",
    "commit_us": "latency_us",
    "child_us": "child_us",
}
_OF_TIME: Final = ("node", "segment", "time")


def carriers(sides: Observed, cause: Cause) -> Carriers | None:
    """The slowest statements of the run with most of a cause that together carry four fifths of it.

    A statement carries what it took longer, on the node and in the segment of the cause, than statements of its kind on
    the other side did on average; of the mix, all of its time. Of places, the statements are those executed in the way
    (`local`, `remote`, `multi_shard`) with most of it.

    Args:
        sides: what was observed.
        cause: a cause of their account.

    Returns:
        None if no traced statement carries the cause: what is outside them, or not traced.
    """
    if cause.effect not in (*_OF_TIME, "mix", "place"):
        return None
    slower = 1 if cause.estimate_us > 0 else 0
    of_time = cause.effect in _OF_TIME
    chosen: dict[str, object] = {}
    if cause.statement_kind and cause.statement_share >= MOST_OF_KIND:
        chosen["kind"] = cause.statement_kind
    timed = sides.timed.with_columns(pl.col("statement_kind", "node", "child_node").cast(pl.String))
    if chosen:
        timed = timed.filter(statement_kind=cause.statement_kind)
    timed = timed.with_columns(_here(cause, child=False).alias("as_parent"), _here(cause, child=True).alias("as_child"))
    means = timed.filter(pl.col("side") != slower).group_by("statement_kind").agg(mean_us=_both().mean())
    mine = timed.filter(side=slower).join(means, on="statement_kind", how="left")
    longer = pl.col("total_us") if cause.effect == "mix" else _both() - pl.col("mean_us").fill_null(0.0)
    mine = mine.with_columns(longer_us=longer)
    if cause.effect == "place":
        ways = mine.drop_nulls("executed").group_by(pl.col("executed").cast(pl.String)).agg(pl.col("longer_us").sum())
        chosen["executed"] = ways.sort("longer_us", "executed")["executed"][-1] if ways.height else None
        mine = mine.filter(executed=chosen["executed"])
    if of_time and cause.node:
        as_child = mine["as_child"].sum() >= mine["as_parent"].sum()
        place = ("child", "child_node") if as_child else ("node", "node")
        chosen |= {place[0]: cause.node}
        mine = mine.filter(pl.col(place[1]) == cause.node)
    if mine.is_empty():
        return None
    if cause.segment in _ORDERS:
        chosen["order"] = _ORDERS[cause.segment]
    return _of_run(mine, "base" if slower == 0 else "other", chosen, has_runs=sides.unit == "run")


def _both() -> pl.Expr:
    return pl.col("as_parent") + pl.col("as_child")


def _here(cause: Cause, *, child: bool) -> pl.Expr:
    """Time (µs) of a statement in the segments of the cause, on its node as a parent or as a child."""
    own = [name for name in SEGMENTS if (name in OF_CHILD) == child and cause.segment in ("", name)]
    spent = pl.sum_horizontal(own) if own else pl.lit(0.0)
    at = "child_node" if child else "node"
    return pl.when(pl.col(at) == cause.node).then(spent).otherwise(0.0) if cause.node else spent


def _of_run(
    mine: pl.DataFrame, side: Literal["base", "other"], chosen: dict[str, object], *, has_runs: bool
) -> Carriers:
    if has_runs:
        run = mine.group_by("run_id").agg(pl.col("longer_us").sum()).sort("longer_us", "run_id")["run_id"][-1]
        mine, chosen = mine.filter(run_id=run), {"run": run} | chosen
    slowest = mine.sort("total_us", descending=True, maintain_order=True).select(
        "total_us", carried=pl.col("longer_us").cum_sum()
    )
    whole = slowest["carried"][-1]
    if whole <= 0:
        return Carriers(side, chosen, mine.height, 1.0)
    enough = int((slowest["carried"] >= _MOST * whole).arg_max() or 0)
    fastest_us = int(slowest["total_us"][enough])
    kept = mine.filter(pl.col("total_us") >= fastest_us)
    return Carriers(side, chosen | {"fastest_us": fastest_us}, kept.height, float(kept["longer_us"].sum()) / whole)

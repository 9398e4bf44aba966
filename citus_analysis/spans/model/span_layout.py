"""The layout of spans for drawing.

Times in the logs are whole milliseconds, durations are known to the microsecond. So that the spans of a backend nest,
its phases are laid out one after the other and moved as little as possible (about a millisecond); tasks are moved into
the phase that waited for them. Durations do not change.
"""

from __future__ import annotations

import polars as pl


def lay_out(spans: pl.DataFrame) -> pl.DataFrame:
    """Place spans so that those of one backend nest.

    Args:
        spans: rows of table `spans`.

    Returns:
        The spans with `begin` and `end` (microseconds since 1970 on the node's own clock), `process` and `track`
        (numbers of the node and of the backend).
    """
    numbered = spans.with_columns(
        track=pl.struct("node", "pid").rank("dense").cast(pl.Int64),
        process=pl.col("node").rank("dense").cast(pl.Int64),
        raw_end=pl.col("end_time").to_physical(),
        raw_begin=pl.coalesce("start_time", "end_time").to_physical(),
    ).with_columns(pl.coalesce("raw_end", "raw_begin").alias("raw_end"))
    leaves = _one_after_the_other(_leaves(numbered))
    owners = (
        leaves.filter(pl.col("kind") == "phase")
        .group_by(span_id="parent_span_id")
        .agg(end=pl.col("end").max(), begin=pl.col("begin").min())
    )
    outer = numbered.filter(pl.col("kind").is_in(["statement", "remote"])).join(owners, on="span_id", how="inner")
    inner = _clamp(numbered.filter(pl.col("kind").is_in(["task", "local", "connect"])), pl.concat([leaves, outer]))
    return pl.concat([outer, leaves, inner]).sort("begin", "end", descending=[False, True])


def _leaves(spans: pl.DataFrame) -> pl.DataFrame:
    """Spans that occupy a backend: phases, and executions without phases of their own."""
    phases = spans.filter(pl.col("kind") == "phase")
    whole = spans.filter(pl.col("kind").is_in(["statement", "remote"]))
    return pl.concat([phases, whole.join(phases, left_on="span_id", right_on="parent_span_id", how="anti")])


def _one_after_the_other(leaves: pl.DataFrame) -> pl.DataFrame:
    """Lay out leaves per track: end(k) = max(begin(k), end(k-1)) + length(k), solved for all k at once."""
    length = pl.coalesce("duration_us", (pl.col("raw_end") - pl.col("raw_begin")).cast(pl.Float64)).clip(0)
    ordered = leaves.sort("track", "source_id", "byte_offset").with_columns(length=length)
    done = pl.col("length").cum_sum().over("track")
    earliest = (pl.col("raw_end") - pl.col("length") - done + pl.col("length")).cum_max().over("track")
    return ordered.with_columns(end=earliest + done).with_columns(begin=pl.col("end") - pl.col("length")).drop("length")


def _clamp(inner: pl.DataFrame, owners: pl.DataFrame) -> pl.DataFrame:
    """Move tasks and local executions into the phase that they belong to."""
    within = owners.select(parent_span_id="span_id", owner_begin="begin", owner_end="end")
    length = pl.col("duration_us").fill_null(0.0)
    last = pl.max_horizontal(pl.col("owner_begin"), pl.col("owner_end") - length)
    return (
        inner.join(within, on="parent_span_id", how="inner")
        .with_columns(begin=pl.col("raw_begin").cast(pl.Float64).clip(pl.col("owner_begin"), last))
        .with_columns(end=pl.min_horizontal(pl.col("begin") + length, "owner_end"))
        .select(pl.all().exclude("owner_begin", "owner_end", "end", "begin"), "end", "begin")
    )

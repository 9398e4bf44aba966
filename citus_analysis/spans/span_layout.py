"""The layout of spans for drawing.

Times in the logs are whole milliseconds, durations are known to the microsecond. So that the spans of a backend nest,
its phases are laid out one after the other and moved as little as possible (about a millisecond); tasks are moved into
the phase that waited for them. Durations do not change.
"""

from __future__ import annotations

from typing import Self, TypeVar

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
    leaves = _lay_out_leaves(_leaves(numbered))
    owners = (
        leaves.filter(pl.col("kind") == "phase")
        .group_by(span_id="parent_span_id")
        .agg(end=pl.col("end").max(), begin=pl.col("begin").min())
    )
    outer = numbered.filter(pl.col("kind").is_in(["statement", "remote"])).join(owners, on="span_id", how="inner")
    inner = _clamp_to_owners(
        numbered.filter(pl.col("kind").is_in(["task", "local", "connect"])), pl.concat([leaves, outer])
    )
    return pl.concat([outer, leaves, inner]).sort("begin", "end", descending=[False, True])


def _leaves(spans: pl.DataFrame) -> pl.DataFrame:
    """Spans that occupy a backend: phases, and executions without phases of their own."""
    phases = spans.filter(pl.col("kind") == "phase")
    whole = spans.filter(pl.col("kind").is_in(["statement", "remote"]))
    return pl.concat([phases, whole.join(phases, left_on="span_id", right_on="parent_span_id", how="anti")])


def _lay_out_leaves(leaves: pl.DataFrame) -> pl.DataFrame:
    """Lay out leaves per track: end(k) = max(begin(k), end(k-1)) + length(k), solved for all k at once."""
    length = pl.coalesce("duration_us", (pl.col("raw_end") - pl.col("raw_begin")).cast(pl.Float64)).clip(0)
    ordered = leaves.sort("track", "source_id", "byte_offset").with_columns(length=length)
    done = pl.col("length").cum_sum().over("track")
    earliest = (pl.col("raw_end") - pl.col("length") - done + pl.col("length")).cum_max().over("track")
    return ordered.with_columns(end=earliest + done).with_columns(begin=pl.col("end") - pl.col("length")).drop("length")


def _clamp_to_owners(inner: pl.DataFrame, owners: pl.DataFrame) -> pl.DataFrame:
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


# The number of spans that an export contains, and of those that it leaves out.


class ExportCount(int):
    """Number of trace events or spans that were written.

    Attributes:
        left_out: spans that were left out because the logs do not contain their time: statements without a duration
            (`log_statement = all` alone), logs whose prefix has no time (syslog).

    Example:
        >>> count = ExportCount(5, left_out=2)
        >>> count == 5, count.left_out
        (True, 2)
    """

    left_out: int

    def __new__(cls, written: int, *, left_out: int) -> Self:  # noqa: D102 - see the class
        count = super().__new__(cls, written)
        count.left_out = left_out
        return count


_Rows = TypeVar("_Rows", pl.DataFrame, pl.LazyFrame)


def select_timed_spans(spans: _Rows) -> _Rows:
    """The spans with a known begin or end."""
    return spans.filter(pl.coalesce("start_time", "end_time").is_not_null())

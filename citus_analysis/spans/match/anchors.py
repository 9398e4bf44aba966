"""Find the shard by which a parent's task records name a child's statement.

A task record names one shard, the anchor; the child's statement may name several, those of all tables that it joins,
with the anchor at any place. Only tasks that the same session sent to the same node are considered. If one shard of the
text is the anchor of such tasks, the statement belongs to this shard. If several are, the statement and the tasks of
these shards share one stream, whose order proves nothing, because the tasks of a statement on several shards run at the
same time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import polars as pl

from citus_analysis.spans.read.sessions import Sessions

_PLACE: Final = ("gpid", "child_node")
_SHARD: Final = (*_PLACE, "shard_id")


def name_anchors(sessions: Sessions, children: pl.DataFrame) -> tuple[Sessions, pl.DataFrame]:
    """Assign children, and tasks where needed, the shard that identifies their stream.

    Args:
        sessions: with the tasks.
        children: `gpid`, `child_node`, `shard_id`, `other_shards`, `child` and more.

    Returns:
        The sessions, whose tasks have the shard of their stream in `stream_shard`, and the children, with the same
        column and with `doubtful`: the order of their stream proves nothing.
    """
    tasks = sessions.tasks.with_columns(stream_shard="shard_id")
    children = children.with_columns(stream_shard="shard_id", doubtful=pl.lit(value=False))
    if children["other_shards"].null_count() == children.height:
        return replace(sessions, tasks=tasks), children
    anchors = sessions.tasks.select(_SHARD).unique()
    named = _candidates(children).join(anchors, on=_SHARD, how="semi", maintain_order="left")
    together = _together(named)
    own = named.group_by("child", maintain_order=True).agg(anchor=pl.col("shard_id").first())
    children = (
        children.join(own, on="child", how="left", maintain_order="left")
        .with_columns(stream_shard=pl.coalesce("anchor", "shard_id"))
        .drop("anchor")
    )
    return replace(sessions, tasks=_merged(tasks, together).drop("doubtful")), _merged(children, together)


def _candidates(children: pl.DataFrame) -> pl.DataFrame:
    """The shards that each statement names, in their order."""
    others = pl.col("other_shards").str.split(" ").cast(pl.List(pl.Int64))
    several = children.filter(pl.col("other_shards").is_not_null())
    every = pl.concat_list(pl.concat_list("shard_id"), others)
    return several.select(*_PLACE, "child", shard_id=every).explode("shard_id")


def _together(named: pl.DataFrame) -> pl.DataFrame:
    """Shards that share a text with other anchors, and `stream`: the smallest shard that is linked to each."""
    labels = named.filter(pl.len().over("child") > 1).with_columns(stream="shard_id")
    while True:
        smaller = labels.with_columns(pl.col("stream").min().over("child")).with_columns(
            pl.col("stream").min().over(_SHARD)
        )
        if smaller["stream"].equals(labels["stream"]):
            return labels.select(*_SHARD, "stream").unique()
        labels = smaller


def _merged(frame: pl.DataFrame, together: pl.DataFrame) -> pl.DataFrame:
    """Rows with the stream that their shard shares with others; rows in such a stream are doubtful."""
    named, keys = together.rename({"shard_id": "stream_shard"}), [*_PLACE, "stream_shard"]
    merged = frame.join(named, on=keys, how="left", maintain_order="left", nulls_equal=True)
    shared = pl.col("stream").is_not_null()
    return merged.with_columns(stream_shard=pl.coalesce("stream", "stream_shard"), doubtful=shared).drop("stream")

"""Names of spans in viewers, and the spans that may overlap others of their backend."""

from __future__ import annotations

import polars as pl


def label() -> pl.Expr:
    """Name of a span, with its shard if it works on one."""
    shard = pl.format("{} on shard {}", pl.col("name").cast(pl.String), "shard_id")
    inner = pl.col("kind").is_in(["task", "remote", "local"])
    return pl.when(inner & pl.col("shard_id").is_not_null()).then(shard).otherwise(pl.col("name").cast(pl.String))


def overlapping() -> pl.Expr:
    """Whether a span may overlap others of its backend: one of several tasks, or a connection.

    While a connection is made, tasks may already run on other connections.
    """
    return ((pl.col("kind") == "task") & (pl.col("tasks") > 1)) | (pl.col("kind") == "connect")

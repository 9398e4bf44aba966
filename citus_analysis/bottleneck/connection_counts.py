"""Connections of each node over time: of clients, and from other nodes of the cluster."""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.bottleneck.samples_in_runs import align_to_runs, one_source
from citus_analysis.core.frames import Frame, as_polars, in_callers_kind
from citus_analysis.formats.snapshots.activity import CHILD_APPLICATION
from citus_analysis.texts.natural_order import natural_expr

#: The runner's own sessions, including the session that takes the snapshots.
_RUNNER: Final = "citus-analysis"
_RUN: Final = ("resource", "run_id", "iteration", "node")


@in_callers_kind
def connections_over_time(activity_samples: Frame, runs: Frame, *, margin_s: float = 5.0) -> pl.DataFrame:
    """Open connections per node and snapshot: of clients, and internal ones, which work for another node's session.

    Background processes, parallel workers and the runner's own sessions are not counted.

    Args:
        activity_samples: the table `activity_samples`.
        runs: the table `runs`.
        margin_s: seconds by which a snapshot may lie outside the measured time, to show how connections are opened and
            closed.

    Returns:
        `resource`, `run_id`, `iteration`, `node`, `elapsed_s` (since the measured time began), `client`, `internal`.
    """
    samples = as_polars(activity_samples).with_columns(since_boot=pl.lit(value=False))
    inside = one_source(align_to_runs(samples, runs, margin_s=margin_s), _RUN)
    application = pl.col("application").cast(pl.String).fill_null("")
    internal = pl.col("worker_query").fill_null(value=False) | application.str.contains(CHILD_APPLICATION)
    backend = pl.col("backend_type").cast(pl.String) == "client backend"
    connection = backend & pl.col("leader_pid").is_null() & (application != _RUNNER)
    counts = inside.group_by(*_RUN, "elapsed_s", maintain_order=True).agg(
        client=(connection & ~internal).sum(), internal=(connection & internal).sum()
    )
    return counts.sort(*_RUN, "elapsed_s")


@in_callers_kind
def connection_balance(connections: Frame) -> pl.DataFrame:
    """The connections of a run on each of its nodes.

    Args:
        connections: result of :func:`connections_over_time`.

    Returns:
        Per run and node: `samples`, and medians over its snapshots within the measured time: `client`, `internal`.
    """
    measured = as_polars(connections).filter(pl.col("elapsed_s") >= 0)
    medians = (pl.len().alias("samples"), pl.col("client", "internal").median())
    order = (natural_expr(name) if name == "node" else pl.col(name) for name in _RUN)
    return measured.group_by(_RUN, maintain_order=True).agg(medians).sort(*order, nulls_last=True)

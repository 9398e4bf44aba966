"""Average active sessions by wait event, from snapshots of sessions.

A session that a client opened is a *parent*; a session that another node opened for it (Citus: `worker_query`) is a
*child*. PostgreSQL shows an active Citus parent that waits for its workers under ClientRead, as if it waited for its
client (https://github.com/citusdata/citus/issues/8539): such a session is labelled `waits for workers`. Its children on
the workers have the parent's global pid.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.bottleneck.samples import NODE, RUN, align_to_runs, make_first_true_expr
from citus_analysis.core.frames import Frame, convert_to_polars, return_callers_frame_kind
from citus_analysis.formats.activity import is_from_node

#: A global pid is the node's id times this, plus the process id.
GPID_NODE: Final = 10_000_000_000
#: The application names of sessions that only observe.
_OBSERVERS: Final = ("citus-analysis",)
_MAINTENANCE: Final = r"^(?:Citus (?:Maintenance|Metadata)|citus_rebalancer)"
_WAL_EVENTS: Final = r"(?i)^wal"
_TIME: Final = "sample_time"


@return_callers_frame_kind
def select_client_sessions(activity: Frame, runs: Frame) -> pl.DataFrame:
    """Client backends in the snapshots from within runs, with their role, activity and wait event.

    Args:
        activity: the table `activity_samples`.
        runs: the table `runs`.

    Returns:
        Rows of `activity` with `role` (`parent`, `child`), `doing` (`working` for active sessions without a wait, else
        a class of waits: `lock`, `WAL`, `I/O`, `other wait`, `waits for workers`, `client` for a session that has
        nothing to do) and `event` (type and name of the wait event).
    """
    named = pl.col("application").cast(pl.String)
    own = named.is_in(_OBSERVERS) | named.fill_null("").str.contains(_MAINTENANCE)
    of_clients = pl.col("backend_type").cast(pl.String) == "client backend"
    backends = convert_to_polars(activity).filter(of_clients & ~own.fill_null(value=False))
    placed = align_to_runs(backends.with_columns(since_boot=pl.lit(value=False)), runs)
    inside = placed.with_columns(pl.col("backend_type", "state", "application").cast(pl.String))
    child = is_from_node()
    citus = child.any().over(RUN)
    # PostgreSQL 19 calls the type Buffer.
    kind = pl.col("wait_event_type").cast(pl.String).replace("BufferPin", "Buffer")
    event = pl.col("wait_event").cast(pl.String)
    active = pl.col("state") == "active"
    doing = [
        (~active.fill_null(value=False), "client"),
        (kind.is_null(), "working"),
        (kind == "Lock", "lock"),
        (event.str.contains(_WAL_EVENTS), "WAL"),
        ((event == "ClientRead") & citus & ~child, "waits for workers"),
        (kind == "Client", "client"),
        (kind == "IO", "I/O"),
    ]
    return inside.with_columns(
        role=make_first_true_expr([(child, "child")], "parent"),
        doing=make_first_true_expr(doing, "other wait"),
        event=pl.concat_str([kind, event], separator=": ").fill_null("on CPU or ready to run"),
    )


@return_callers_frame_kind
def compute_session_waits(sessions: Frame, nodes: Frame | None = None) -> pl.DataFrame:
    """Average active sessions by node, role and wait event, for each run.

    Args:
        sessions: result of :func:`select_client_sessions`.
        nodes: the table `nodes`, which names the node of a child's parent.

    Returns:
        `resource`, `run_id`, `node`, `role`, `parent_node` (of children), `doing`, `event`, `snapshots` (of the node
        within the run), `average_sessions` (such sessions in all snapshots, divided by the number of snapshots).
        A session that waits for a lock in one of two snapshots is half a session on average.
    """
    seen = convert_to_polars(sessions)
    snapshots = seen.group_by(*NODE, maintain_order=True).agg(snapshots=pl.col("sample").n_unique())
    busy = seen.filter(pl.col("doing") != "client")
    named = _add_parent_nodes(busy, nodes)
    keys = [*NODE, "role", "parent_node", "doing", "event"]
    counts = named.group_by(keys, maintain_order=True).agg(seen=pl.len()).join(snapshots, on=NODE)
    found = counts.with_columns(average_sessions=pl.col("seen") / pl.col("snapshots")).drop("seen")
    order = (*RUN, "average_sessions", *keys[2:])
    return found.sort(order, descending=[name == "average_sessions" for name in order])


def _add_parent_nodes(sessions: pl.DataFrame, nodes: Frame | None) -> pl.DataFrame:
    parent_id = pl.when(pl.col("role") == "child").then(pl.col("gpid") // GPID_NODE).alias("_nodeid")
    if nodes is None:
        return sessions.with_columns(parent_node=pl.lit(None, pl.String))
    names = convert_to_polars(nodes).select(
        "resource", pl.col("nodeid").cast(pl.Int64).alias("_nodeid"), parent_node="node"
    )
    by = ["resource", "_nodeid"]
    return sessions.with_columns(parent_id).join(names.unique(by, keep="first"), on=by, how="left")


def count_opened_sessions(sessions: pl.DataFrame) -> pl.DataFrame:
    """Number of sessions that clients opened on each node during each run: `opened`."""
    parents = sessions.filter(pl.col("role") == "parent").group_by(NODE, maintain_order=True)
    return parents.agg(opened=pl.struct("pid", "backend_start").n_unique())


def time_shares(sessions: pl.DataFrame) -> pl.DataFrame:
    """Shares of the time of the clients' sessions (parents) of each run by activity, in per cent.

    Returns:
        `resource`, `run_id`, `doing`, `percent`, `n` (number of sessions in all snapshots of all nodes).
    """
    parents = sessions.filter(pl.col("role") == "parent")
    counted = parents.group_by(*RUN, "doing", maintain_order=True).agg(n=pl.len())
    total = pl.col("n").sum().over(RUN)
    return counted.with_columns(percent=pl.col("n") / total * 100, n=total).sort(*RUN, "doing")

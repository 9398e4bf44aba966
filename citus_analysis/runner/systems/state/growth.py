"""Growth of a Citus cluster: shards are moved to workers that had none, and the time is measured.

Citus moves shards in background jobs. Their times are read from its catalogue, so that a job that continued after its
runner was killed is measured as well.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Final

from citus_analysis.errors import RunnerError
from citus_analysis.runner.systems import connections as sql
from citus_analysis.runner.systems.state.shards import read_placements
from citus_analysis.runner.systems.system import Growth, Placement

_POLL_S: Final = 0.2
#: The strategy that also applies to a new table: the same number of shards on every worker.
_STRATEGY: Final = "by_shard_count"
_ENDED: Final = ("finished", "failed", "cancelled")


def can_grow(placements: Collection[Placement], *, shard_count: int, groups: Collection[int]) -> bool:
    """Whether a table has the requested number of shards, all of them on some, but not all, of these groups."""
    shards = {placement.shard_id for placement in placements}
    found = {placement.groupid for placement in placements}
    return len(shards) == shard_count and found < set(groups)


def rebalance(connection: sql.Connection) -> Growth:
    """Spread the shards over all nodes that may have some, and wait until that is done.

    Args:
        connection: to the coordinator.

    Raises:
        RunnerError: Citus is older than 11.1, or did not move all shards; with its own message.
    """
    before = read_placements(connection)
    rows = sql.query(connection, "SELECT shardid, max(shard_size) FROM citus_shards GROUP BY shardid")
    sizes = {int(shard): int(size or 0) for shard, size in rows}
    # A rebalance may run already, which a killed runner started.
    unended = "SELECT job_id FROM pg_dist_background_job WHERE job_type = 'rebalance' AND NOT state::text = ANY(%s)"
    rows = sql.query(connection, unended, list(_ENDED)) or sql.query(
        connection, "SELECT citus_rebalance_start(rebalance_strategy := %s)", _STRATEGY
    )
    duration_s = 0.0 if rows[0][0] is None else _wait(connection, int(rows[0][0]))
    after = read_placements(connection)
    places = {placement.shard_id: placement.groupid for placement in before}
    moved = [placement.shard_id for placement in after if places.get(placement.shard_id) != placement.groupid]
    workers_before, workers_after = (len({one.groupid for one in placements}) for placements in (before, after))
    bytes_moved = sum(sizes.get(shard, 0) for shard in moved)
    return Growth(workers_before, workers_after, duration_s, len(moved), bytes_moved, _STRATEGY)


def _wait(connection: sql.Connection, job: int) -> float:
    """Wait for the end of a background job; its duration in seconds."""
    text = (
        "SELECT state::text, extract(epoch FROM coalesce(finished_at, clock_timestamp()) - started_at), "
        "(SELECT string_agg(message, '; ') FROM pg_dist_background_task WHERE job_id = job.job_id AND status = 'error')"
        " FROM pg_dist_background_job AS job WHERE job_id = %s"
    )
    while rows := sql.query(connection, text, job):
        state, seconds, message = rows[0]
        if state == "finished":
            return float(seconds or 0.0)
        if state in _ENDED:
            way_out = "check the coordinator's log, or set target.growth: refill"
            said = " ".join(str(message or "").split()) or "no message"
            raise RunnerError(f"Citus' rebalance job {job} {state}: {said}", way_out=way_out)
        time.sleep(_POLL_S)
    problem = f"Citus' rebalance job {job} is no longer in pg_dist_background_job"
    raise RunnerError(problem, way_out="check the coordinator's log")

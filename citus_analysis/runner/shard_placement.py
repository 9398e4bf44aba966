"""Placement of the benchmark's table in Citus: nodes that may have shards, present placements, shards that move.

The catalogue is checked after each change, because Citus does not move existing shards when a node may no longer have
shards, and by default colocates a table with another table of the same shard count.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Final

from citus_analysis.errors import RunnerError
from citus_analysis.runner import connections as sql
from citus_analysis.runner.system import ClusterGrowth, ShardPlacement
from citus_analysis.runner.workloads import TABLE

#: Header of `pg_dist_shard.csv`, in the order of :class:`Placement`.
PLACEMENT_COLUMNS: Final = (
    *("logicalrelid", "shardid", "placementid", "groupid", "nodename", "nodeport"),
    *("shardminvalue", "shardmaxvalue"),
)


def read_placements(connection: sql.Connection, relation: str | None = TABLE) -> list[ShardPlacement]:
    """The active placements of a table, or of all tables; none if the table is not distributed or does not exist."""
    rows = sql.query(
        connection,
        "SELECT logicalrelid::text, shardid, placementid, groupid, nodename, nodeport, "
        "shardminvalue::bigint, shardmaxvalue::bigint "
        "FROM pg_dist_shard JOIN pg_dist_placement USING (shardid) JOIN pg_dist_node USING (groupid) "
        "WHERE coalesce(logicalrelid = to_regclass(%s), true) AND noderole = 'primary' AND shardstate = 1 "
        "ORDER BY shardid, placementid",
        relation and f"public.{relation}",
    )
    return [ShardPlacement(*row) for row in rows]


def read_default_shard_count(connection: sql.Connection) -> int:
    """The server's number of shards for a new table."""
    return int(sql.query(connection, "SELECT current_setting('citus.shard_count')")[0][0])


def read_shard_groups(connection: sql.Connection) -> dict[int, bool]:
    """Group -> whether new tables may place shards on its node."""
    rows = sql.query(connection, "SELECT groupid, shouldhaveshards FROM pg_dist_node WHERE noderole = 'primary'")
    return {int(groupid): bool(allowed) for groupid, allowed in rows}


def set_group_shard_permission(connection: sql.Connection, groupid: int, allowed: bool) -> None:
    """Set whether new tables may place shards on a group's node."""
    sql.query(
        connection,
        "SELECT citus_set_node_property(nodename, nodeport, 'shouldhaveshards', %s) FROM pg_dist_node "
        "WHERE groupid = %s AND noderole = 'primary'",
        allowed,
        groupid,
    )


def spread_problem(placements: Sequence[ShardPlacement], *, shard_count: int, groups: Collection[int]) -> str | None:
    """The difference between the table's placements and the requested ones; None if there is none."""
    shards = {placement.shard_id for placement in placements}
    found = {placement.groupid for placement in placements}
    if not shards:
        return "it is not distributed"
    if len(shards) != shard_count:
        return f"it has {len(shards)} shards, not {shard_count}"
    if found != set(groups):
        return f"its {len(shards)} shards are on groups {_join_group_ids(found)}, not {_join_group_ids(groups)}"
    return None


def make_distributed_table(connection: sql.Connection, *, shard_count: int, groups: Collection[int]) -> bool:
    """Make sure that the benchmark's table has `shard_count` shards on exactly these groups; make it again if not.

    Args:
        connection: connection to the coordinator; only these groups may have shards.
        shard_count: number of shards.
        groups: groups of the nodes in use.

    Returns:
        whether the table was made again.

    Raises:
        RunnerError: there are fewer shards than groups, or Citus placed the shards elsewhere.
    """
    if shard_count < len(groups):
        hint = "set target.shard_count to at least the number of workers"
        raise RunnerError(f"{shard_count} shards cannot be distributed over {len(groups)} workers", hint=hint)
    is_unfit = spread_problem(read_placements(connection), shard_count=shard_count, groups=groups) is not None
    if is_unfit:
        sql.drop_table(connection)
        sql.make_table(connection)
        # Without colocate_with, Citus would use the placements of another table with the same shard count.
        sql.query(
            connection,
            "SELECT create_distributed_table(%s, 'ycsb_key', shard_count := %s, colocate_with := 'none')",
            f"public.{TABLE}",
            shard_count,
            timeout_s=None,
        )
    if problem := spread_problem(read_placements(connection), shard_count=shard_count, groups=groups):
        hint = "compare pg_dist_node.shouldhaveshards and pg_dist_placement on the coordinator"
        raise RunnerError(f"the table {TABLE} is not as the experiment asks: {problem}", hint=hint)
    return is_unfit


def _join_group_ids(groups: Collection[int]) -> str:
    return ", ".join(str(group) for group in sorted(groups))


# Growth of a Citus cluster: shards are moved to workers that had none, and the time is measured.
#
# Citus moves shards in background jobs. Their times are read from its catalogue, so that a job that continued after its
# runner was killed is measured as well.

_GROWTH_POLL_S: Final = 0.2
#: The strategy that also applies to a new table: the same number of shards on every worker.
_STRATEGY: Final = "by_shard_count"
_ENDED: Final = ("finished", "failed", "cancelled")


def can_grow(placements: Collection[ShardPlacement], *, shard_count: int, groups: Collection[int]) -> bool:
    """Whether a table has the requested number of shards, all of them on some, but not all, of these groups."""
    shards = {placement.shard_id for placement in placements}
    found = {placement.groupid for placement in placements}
    return len(shards) == shard_count and found < set(groups)


def rebalance_shards(connection: sql.Connection) -> ClusterGrowth:
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
    return ClusterGrowth(workers_before, workers_after, duration_s, len(moved), bytes_moved, _STRATEGY)


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
            hint = "check the coordinator's log, or set target.growth: refill"
            said = " ".join(str(message or "").split()) or "no message"
            raise RunnerError(f"Citus' rebalance job {job} {state}: {said}", hint=hint)
        time.sleep(_GROWTH_POLL_S)
    problem = f"Citus' rebalance job {job} is no longer in pg_dist_background_job"
    raise RunnerError(problem, hint="check the coordinator's log")

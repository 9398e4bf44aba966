"""Placement of the benchmark's table in Citus: the nodes that may have shards, and the present placements.

The catalogue is checked after each change, because Citus does not move existing shards when a node may no longer have
shards, and by default colocates a table with another table of the same shard count.

Example:
    >>> from citus_analysis.runner.systems.system import Placement
    >>> placements = [Placement("usertable", 102008 + n, n, 1, "worker1", 5432, None, None) for n in range(12)]
    >>> spread_problem(placements, shard_count=12, groups={1, 2, 3})
    'its 12 shards are on groups 1, not 1, 2, 3'
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from citus_analysis.errors import RunnerError
from citus_analysis.runner.planning.core_workloads import TABLE
from citus_analysis.runner.systems import connections as sql
from citus_analysis.runner.systems.system import Placement

#: Header of `pg_dist_shard.csv`, in the order of :class:`Placement`.
PLACEMENT_COLUMNS: Final = (
    *("logicalrelid", "shardid", "placementid", "groupid", "nodename", "nodeport"),
    *("shardminvalue", "shardmaxvalue"),
)


def read_placements(connection: sql.Connection, relation: str | None = TABLE) -> list[Placement]:
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
    return [Placement(*row) for row in rows]


def default_shard_count(connection: sql.Connection) -> int:
    """The server's number of shards for a new table."""
    return int(sql.query(connection, "SELECT current_setting('citus.shard_count')")[0][0])


def groups_with_shards(connection: sql.Connection) -> dict[int, bool]:
    """Group -> whether new tables may place shards on its node."""
    rows = sql.query(connection, "SELECT groupid, shouldhaveshards FROM pg_dist_node WHERE noderole = 'primary'")
    return {int(groupid): bool(allowed) for groupid, allowed in rows}


def let_group_have_shards(connection: sql.Connection, groupid: int, allowed: bool) -> None:
    """Set whether new tables may place shards on a group's node."""
    sql.query(
        connection,
        "SELECT citus_set_node_property(nodename, nodeport, 'shouldhaveshards', %s) FROM pg_dist_node "
        "WHERE groupid = %s AND noderole = 'primary'",
        allowed,
        groupid,
    )


def spread_problem(placements: Sequence[Placement], *, shard_count: int, groups: Collection[int]) -> str | None:
    """The difference between the table's placements and the requested ones; None if there is none."""
    shards = {placement.shard_id for placement in placements}
    found = {placement.groupid for placement in placements}
    if not shards:
        return "it is not distributed"
    if len(shards) != shard_count:
        return f"it has {len(shards)} shards, not {shard_count}"
    if found != set(groups):
        return f"its {len(shards)} shards are on groups {_listed(found)}, not {_listed(groups)}"
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
        way_out = "set target.shard_count to at least the number of workers"
        raise RunnerError(f"{shard_count} shards cannot be distributed over {len(groups)} workers", way_out=way_out)
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
        )
    if problem := spread_problem(read_placements(connection), shard_count=shard_count, groups=groups):
        way_out = "compare pg_dist_node.shouldhaveshards and pg_dist_placement on the coordinator"
        raise RunnerError(f"the table {TABLE} is not as the experiment asks: {problem}", way_out=way_out)
    return is_unfit


def _listed(groups: Collection[int]) -> str:
    return ", ".join(str(group) for group in sorted(groups))

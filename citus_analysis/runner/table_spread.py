"""The benchmark's table on the workers of a run: added workers, shards that may be placed there, growth."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Final

from pydantic import TypeAdapter

from citus_analysis.errors import RunnerError
from citus_analysis.runner import connections as sql
from citus_analysis.runner.cluster_workers import list_unlisted_workers
from citus_analysis.runner.experiment import ClusterTarget
from citus_analysis.runner.former_state import FormerState
from citus_analysis.runner.journal import Journal
from citus_analysis.runner.shard_placement import (
    can_grow,
    make_distributed_table,
    read_default_shard_count,
    read_placements,
    read_shard_groups,
    rebalance_shards,
    set_group_shard_permission,
)
from citus_analysis.runner.system import ClusterGrowth, ServerNode

#: Subject of the lines of the growths.
_TABLE: Final = "table"
_GROWTH: Final = TypeAdapter(ClusterGrowth)


class TableSpread:
    """Places the shards of the benchmark's table on the workers of a run.

    Args:
        target: the cluster's part of the experiment file.
        found: records the cluster's former state, to be restored.
        growths: the table's growth, kept on disk, because later runs on the same workers state it, too.
    """

    def __init__(self, target: ClusterTarget, found: FormerState, growths: Journal) -> None:
        self._target, self._found, self._growths = target, found, growths
        self._adding_s: list[float] = []  # one time for each worker added for the run in preparation

    def add_workers(self, connection: sql.Connection, lacking: int) -> None:
        """Add `lacking` of the workers that the experiment file lists and the cluster does not have yet."""
        for address in list_unlisted_workers(self._target, connection)[:lacking]:
            self._found.note_added(address.host, address.port)
            begun = time.monotonic()
            sql.query(connection, "SELECT citus_add_node(%s, %s)", address.host, address.port, timeout_s=None)
            self._adding_s.append(time.monotonic() - begun)

    def begin(self) -> None:
        """Forget the workers that were added for the run before."""
        self._adding_s = []

    def growth(self) -> ClusterGrowth | None:
        """The growth that gave the table its present placements; None unless `target.growth` is `rebalance_shards`."""
        entry = self._growths.last(_TABLE) if self._target.growth == "rebalance" else None
        return _GROWTH.validate_python(entry.detail["growth"]) if entry and entry.state == "grown" else None

    def spread_table(self, connection: sql.Connection, nodes: Sequence[ServerNode], workers: int) -> None:
        """Place the table's shards on the first workers only; without workers, on the coordinator.

        Raises:
            RunnerError: the cluster has fewer workers, or the shards cannot be placed as the experiment asks.
        """
        groups = self.let_workers_have_shards(connection, nodes, workers)
        shard_count = self._shard_count(connection, len(groups))
        placed = read_placements(connection)
        if self._target.growth == "rebalance" and can_grow(placed, shard_count=shard_count, groups=groups):
            grown = replace(rebalance_shards(connection), nodes_added=len(self._adding_s), adding_s=sum(self._adding_s))
            self._growths.append(_TABLE, "grown", growth=asdict(grown))
        if make_distributed_table(connection, shard_count=shard_count, groups=groups) and self.growth():
            self._growths.append(_TABLE, "made")  # its placements result from no growth

    def let_workers_have_shards(
        self, connection: sql.Connection, nodes: Sequence[ServerNode], workers: int
    ) -> list[int]:
        """Let the first workers, and no other node, have shards of new tables.

        Returns:
            the Citus groups of the nodes that may have shards.

        Raises:
            RunnerError: the cluster has fewer workers.
        """
        available = [node for node in nodes if node.role == "worker"]
        if workers > len(available):
            problem = f"the experiment needs {workers} workers, but the cluster has {len(available)}"
            hint = "correct matrix.workers, or list further nodes and set target.add_nodes: true"
            raise RunnerError(problem, hint=hint)
        top_contributors = available[:workers] or nodes[:1]
        groups = [node.groupid for node in top_contributors if node.groupid is not None]
        # Nodes that gain shards come first: Citus requires at least one such node at any time.
        for groupid, allowed in sorted(read_shard_groups(connection).items(), key=lambda item: item[0] not in groups):
            if allowed != (groupid in groups):
                self._found.note_group(groupid, allowed)
                set_group_shard_permission(connection, groupid, groupid in groups)
        return groups

    def _shard_count(self, connection: sql.Connection, top_contributors: int) -> int:
        if self._target.shards_per_worker:
            return self._target.shards_per_worker * top_contributors
        return self._target.shard_count or read_default_shard_count(connection)

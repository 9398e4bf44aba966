"""Workers that an experiment adds to a Citus cluster for its runs, and removes afterwards."""

from __future__ import annotations

from citus_analysis.runner.experiment_file.target_fields import ClusterTarget, NodeAddress
from citus_analysis.runner.systems import connections as sql


def unlisted_workers(target: ClusterTarget, connection: sql.Connection) -> list[NodeAddress]:
    """Workers of the experiment file that may be added: `pg_dist_node` does not list them, not even as inactive.

    Args:
        target: the cluster.
        connection: to the coordinator.
    """
    if not target.add_nodes:
        return []
    listed = set(sql.query(connection, "SELECT nodename, nodeport FROM pg_dist_node"))
    return [one for one in target.nodes if one.role == "worker" and (one.host, one.port) not in listed]


def remove_worker(connection: sql.Connection, host: str, port: int) -> None:
    """Move the shards of a worker to the others, and remove it from the cluster if it is in it."""
    if sql.query(connection, "SELECT 1 FROM pg_dist_node WHERE (nodename, nodeport) = (%s, %s)", host, port):
        # No client writes any more, and blocking writes does not require a replica identity of the tables.
        sql.query(connection, "SELECT citus_drain_node(%s, %s, 'block_writes')", host, port)
        sql.query(connection, "SELECT citus_remove_node(%s, %s)", host, port)

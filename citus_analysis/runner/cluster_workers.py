"""The workers of a Citus cluster: those that an experiment adds for its runs and removes, and their number."""

from __future__ import annotations

from citus_analysis.runner import connections as sql
from citus_analysis.runner.experiment import ClusterTarget, Experiment, NodeAddress
from citus_analysis.runner.system import ServerNode


def list_unlisted_workers(target: ClusterTarget, connection: sql.Connection) -> list[NodeAddress]:
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
        sql.query(connection, "SELECT citus_drain_node(%s, %s, 'block_writes')", host, port, timeout_s=None)
        sql.query(connection, "SELECT citus_remove_node(%s, %s)", host, port, timeout_s=None)


# Number of workers of a Citus cluster, for experiments that use all of them.


def fill_worker_count(experiment: Experiment) -> Experiment:
    """The experiment with the cluster's number of workers if `matrix.workers` is empty.

    Raises:
        RunnerError: the coordinator does not answer.
    """
    target = experiment.target
    if experiment.matrix.workers or not isinstance(target, ClusterTarget) or target.system != "citus":
        return experiment
    matrix = experiment.matrix.model_copy(update={"workers": [_count_workers(target)]})
    return experiment.model_copy(update={"matrix": matrix})


def _count_workers(target: ClusterTarget) -> int:
    if not target.discover:
        return sum(address.role == "worker" for address in target.nodes)
    with sql.connect(choose_coordinator(target), database=target.database, user=target.user) as connection:
        active = sum(groupid != 0 for _, groupid, _, _ in sql.read_citus_nodes(connection))
        return active + len(list_unlisted_workers(target, connection))


def choose_coordinator(target: ClusterTarget) -> ServerNode:
    """The node that is queried about the others: the coordinator, or the first node."""
    first = next((one for one in target.nodes if one.role == "coordinator"), target.nodes[0])
    return ServerNode(first.name or "0", first.host, first.port, first.role)

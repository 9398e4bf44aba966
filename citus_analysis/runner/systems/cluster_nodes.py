"""The nodes of a cluster target: those of the experiment file, or of Citus' catalogue."""

from __future__ import annotations

from citus_analysis.errors import RunnerError
from citus_analysis.runner.experiment_file.target_fields import ClusterTarget, NodeAddress
from citus_analysis.runner.systems import connections as sql
from citus_analysis.runner.systems.system import Node


def discover_nodes(target: ClusterTarget) -> list[Node]:
    """The nodes of a cluster: from pg_dist_node for Citus unless `target.discover` is false, else from `target.nodes`.

    Raises:
        RunnerError: the first node does not answer, or pg_dist_node does not list the coordinator.
    """
    listed = []
    for number, one in enumerate(sorted(target.nodes, key=lambda address: address.role != "coordinator")):
        first_worker = 0 if one.role == "coordinator" else 1
        listed.append(Node(one.name or str(max(number, first_worker)), one.host, one.port, one.role))
    if target.system != "citus" or not target.discover:
        return listed
    coordinator = listed[0]
    with sql.connect(coordinator, database=target.database, user=target.user) as connection:
        rows = sql.read_citus_nodes(connection)
    if all(groupid != 0 for _, groupid, _, _ in rows):
        way_out = "SELECT citus_set_coordinator_host('HOST', PORT) once, or set target.discover: false"
        raise RunnerError("pg_dist_node does not list the coordinator", way_out=way_out)
    # The coordinator is often registered as `localhost`, so the stated address is kept.
    return [
        Node(str(groupid), host, port, "worker", nodeid, groupid)
        if groupid
        else Node("0", coordinator.host, coordinator.port, "coordinator", nodeid, groupid)
        for nodeid, groupid, host, port in rows
    ]


def address_of(node: Node, target: ClusterTarget) -> NodeAddress | None:
    """The node's entry in the experiment file; None if it was found in the catalogue only."""
    return next((address for address in target.nodes if (address.host, address.port) == (node.host, node.port)), None)

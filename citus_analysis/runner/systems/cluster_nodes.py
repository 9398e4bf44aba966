"""The nodes of a cluster target: those of the experiment file, or of Citus' catalogue, and their shells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from citus_analysis.errors import RunnerError
from citus_analysis.runner.experiment_file.target_fields import ClusterTarget, NodeAddress
from citus_analysis.runner.hosts.processes import Processes
from citus_analysis.runner.hosts.shells import LocalShell, Shell, SshShell, open_ssh
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
    return [
        Node(
            name=str(groupid),
            # The coordinator is often registered as `localhost`, so the stated address is kept.
            host=coordinator.host if groupid == 0 else host,
            port=coordinator.port if groupid == 0 else port,
            role="coordinator" if groupid == 0 else "worker",
            nodeid=nodeid,
            groupid=groupid,
        )
        for nodeid, groupid, host, port in rows
    ]


def address_of(node: Node, target: ClusterTarget) -> NodeAddress | None:
    """The node's entry in the experiment file; None if it was found in the catalogue only."""
    return next((address for address in target.nodes if (address.host, address.port) == (node.host, node.port)), None)


class NodeShells:
    """Shells on the hosts of a cluster's nodes, opened on first use.

    Args:
        target: the cluster's part of the experiment file.
    """

    def __init__(self, target: ClusterTarget) -> None:
        self._target = target
        self._shells: dict[tuple[str, str], tuple[str, Shell]] = {}

    def of(self, nodes: Sequence[Node], processes: Processes) -> Mapping[str, Shell]:
        """This machine for nodes with `shell: local`, an ssh connection for those with `shell: ssh`; one per host."""
        for node in nodes:
            address = address_of(node, self._target)
            if address is None or address.shell == "none" or (address.host, address.shell) in self._shells:
                continue
            shell: Shell = LocalShell(processes)
            if address.shell == "ssh":
                shell = SshShell(open_ssh(address.host, address.ssh_user, address.ssh_port), address.host)
            self._shells[address.host, address.shell] = node.name, shell
        return dict(self._shells.values())

    def close(self) -> None:
        """Close every connection."""
        for _node, shell in self._shells.values():
            shell.close()

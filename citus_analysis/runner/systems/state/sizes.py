"""Number of workers of a Citus cluster, for experiments that use all of them."""

from __future__ import annotations

from citus_analysis.runner.experiment_file.experiment import Experiment
from citus_analysis.runner.experiment_file.target_fields import ClusterTarget
from citus_analysis.runner.systems import connections as sql
from citus_analysis.runner.systems.state.joining import unlisted_workers
from citus_analysis.runner.systems.system import Node


def with_known_workers(experiment: Experiment) -> Experiment:
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
    with sql.connect(coordinator_of(target), database=target.database, user=target.user) as connection:
        active = sum(groupid != 0 for _, groupid, _, _ in sql.read_citus_nodes(connection))
        return active + len(unlisted_workers(target, connection))


def coordinator_of(target: ClusterTarget) -> Node:
    """The node that is queried about the others: the coordinator, or the first node."""
    first = next((one for one in target.nodes if one.role == "coordinator"), target.nodes[0])
    return Node(first.name or "0", first.host, first.port, first.role)

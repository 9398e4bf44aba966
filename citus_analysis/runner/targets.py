"""Servers under test: embedded, or an existing cluster."""

from __future__ import annotations

from pathlib import Path

from citus_analysis.errors import UsageError
from citus_analysis.runner.cluster import Cluster
from citus_analysis.runner.embedded import Embedded
from citus_analysis.runner.experiment import ClusterTarget, EmbeddedTarget, Experiment
from citus_analysis.runner.target import Target

__all__ = ["make_target"]


def make_target(experiment: Experiment, private: Path, *, replace_table: bool = False) -> Target:
    """The experiment's target.

    Args:
        experiment: the experiment.
        private: the experiment's own folder, for data of an embedded target, or for the former state of a cluster.
        replace_table: for a cluster: drop a table of the benchmark's name that this tool did not create.

    Raises:
        RunnerError: its servers do not answer, or its programs were not found.
    """
    match experiment.target:
        case EmbeddedTarget() as embedded:
            return Embedded(embedded, private / "servers")
        case ClusterTarget() as cluster:
            return Cluster(cluster, experiment, private, replace_table=replace_table)
        case other:
            raise UsageError(f"a target of kind {other.kind!r} has no servers to launch")

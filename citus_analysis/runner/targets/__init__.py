"""Servers under test: embedded, or a cluster that is there already."""

from __future__ import annotations

from pathlib import Path

from citus_analysis.errors import UsageError
from citus_analysis.runner.experiment import ClusterTarget, EmbeddedTarget, Experiment
from citus_analysis.runner.targets.base import Target
from citus_analysis.runner.targets.cluster import Cluster
from citus_analysis.runner.targets.embedded import Embedded

__all__ = ["make_target"]


def make_target(experiment: Experiment, folder: Path) -> Target:
    """The experiment's target.

    Args:
        experiment: the experiment.
        folder: where an embedded target keeps its data.

    Raises:
        RunnerError: its servers or programs are not there.
    """
    match experiment.target:
        case EmbeddedTarget() as embedded:
            return Embedded(embedded, folder)
        case ClusterTarget() as cluster:
            return Cluster(cluster)
        case other:
            raise UsageError(f"a target of kind {other.kind!r} launches nothing")

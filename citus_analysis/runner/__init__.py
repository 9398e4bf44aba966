"""Run experiments: an experiment file is planned and run as processes, and the artefact tree is read by `ingest`."""

from citus_analysis.core.displays import public
from citus_analysis.runner.execution.execute import RunnerEvent, RunnerSummary, restore_cluster, run_experiment
from citus_analysis.runner.execution.overview import Overview, read_overview
from citus_analysis.runner.experiment_file.experiment import (
    Experiment,
    experiment_schema,
    load_experiment,
    parse_experiment,
)
from citus_analysis.runner.planning.choice import Choice
from citus_analysis.runner.planning.plan import PlannedRun, make_plan

__all__ = [
    "Choice",
    "Experiment",
    "Overview",
    "PlannedRun",
    "RunnerEvent",
    "RunnerSummary",
    "experiment_schema",
    "load_experiment",
    "make_plan",
    "parse_experiment",
    "read_overview",
    "restore_cluster",
    "run_experiment",
]

__dir__ = public(__all__)

"""From an experiment file to launched processes to the artefact tree that ingest reads."""

from citus_analysis.runner.choice import Choice
from citus_analysis.runner.execute import RunnerEvent, RunnerSummary, restore_cluster, run_experiment
from citus_analysis.runner.experiment import Experiment, experiment_schema, load_experiment, parse_experiment
from citus_analysis.runner.overview import Overview, read_overview
from citus_analysis.runner.plan import PlannedRun, make_plan
from citus_analysis.shown import public

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

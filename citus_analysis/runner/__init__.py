"""Run experiments: an experiment file is planned and run as processes, and the artefact tree is read by `ingest`."""

from citus_analysis.public_names import public
from citus_analysis.runner.execution.execute import restore_cluster, run_experiment
from citus_analysis.runner.execution.overview import read_overview
from citus_analysis.runner.experiment_file.experiment import Experiment, load_experiment
from citus_analysis.runner.planning.plan import make_plan

__all__ = ["Experiment", "load_experiment", "make_plan", "read_overview", "restore_cluster", "run_experiment"]

__dir__, __getattr__ = public(__name__, __all__)

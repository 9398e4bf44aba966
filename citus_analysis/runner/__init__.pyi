# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from .execute import restore_cluster as restore_cluster
from .execute import run_experiment as run_experiment
from .experiment import Experiment as Experiment
from .experiment import load_experiment as load_experiment
from .plan import make_plan as make_plan
from .schedule import read_overview as read_overview

__all__: list[str]

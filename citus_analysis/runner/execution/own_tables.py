"""Make the tables of a workload of the experiment's own by its set-up, and keep them while the set-up is unchanged."""

from __future__ import annotations

from pathlib import Path

from citus_analysis.errors import RunnerError
from citus_analysis.runner.drivers.driver import SetUp, launch_here
from citus_analysis.runner.hosts.processes import Processes
from citus_analysis.runner.records.run_results import client_words, last_words


def make_own_tables(set_up: SetUp, processes: Processes, folder: Path, kept: Path, timeout_s: float) -> None:
    """Run the steps of a set-up, unless an equal set-up has made the present tables.

    Args:
        set_up: the steps.
        processes: the processes of the runner.
        folder: private folder for their outputs.
        kept: file that contains the key of the present tables; it does not exist while they are made.
        timeout_s: longest time of a step.

    Raises:
        RunnerError: a step failed; the message contains its own.
    """
    if set_up.key is not None and kept.exists() and kept.read_text(encoding="ascii") == set_up.key:
        return
    kept.unlink(missing_ok=True)
    for number, command in enumerate(set_up.commands, start=1):
        output = folder / f"set-up-{number}.log"
        step = launch_here(processes, f"set-up {number}", command, output)
        ended = processes.wait(step, timeout_s=timeout_s)
        processes.stop(step)
        if not ended or step.exit_code:
            name = Path(command.arguments[0]).name
            how = f"ended with exit code {step.exit_code}" if ended else f"took longer than {timeout_s} s"
            said = client_words(output) or last_words(output)
            problem = f"step {number} of the set-up ({name}) {how}" + (f": {said}" if said else "")
            raise RunnerError(problem, way_out="correct set_up in driver.workloads, and resume")
    if set_up.key is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(set_up.key, encoding="ascii")

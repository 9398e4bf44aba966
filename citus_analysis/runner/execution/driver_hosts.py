"""Load generators on machines of their own, reached by ssh.

Programs are started one by one and begin together: each waits on its machine until all are ready. They end when the
connection ends for any reason, so that a killed runner leaves nothing running.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from citus_analysis.errors import RunnerError
from citus_analysis.runner.drivers.driver import Command
from citus_analysis.runner.experiment_file.driver_fields import DriverHost, YcsbDriver
from citus_analysis.runner.experiment_file.experiment import Experiment
from citus_analysis.runner.hosts.processes import RemoteProgram
from citus_analysis.runner.hosts.shells import Shell, SshShell, open_shell

#: Checks for the Java virtual machine and for the client library of YCSB, whose name it prints.
_LOOK = 'command -v "$1" > /dev/null || exit 3; ls "$2"/lib/ | grep "^core-.*[.]jar$"'
_NO_JAVA = 3


def driver_hosts(experiment: Experiment) -> list[DriverHost]:
    """The machines that an experiment names for its load generators; none: they run on this machine."""
    return experiment.driver.hosts if isinstance(experiment.driver, YcsbDriver) else []


def host_name(number: int) -> str:
    """Name of a machine in the names of its sample files.

    Example:
        >>> host_name(0)
        'driver1'
    """
    return f"driver{number + 1}"


class DriverHosts:
    """The machines of an experiment's load generators, connected when first used."""

    def __init__(self, hosts: Sequence[DriverHost] = ()) -> None:
        self._hosts = hosts
        self._shells: dict[int, SshShell] = {}
        self._waiting: list[RemoteProgram] = []

    def launch(self, name: str, command: Command, output: Path) -> RemoteProgram:
        """Make a program ready on the machine that the command names; it begins at :meth:`release`.

        Raises:
            RunnerError: the machine cannot be reached.
        """
        number = command.host or 0
        arguments = [os.fspath(argument) for argument in command.arguments]
        program = self._shell(number).launch(name, arguments, command.environment, output, command.private)
        self._waiting.append(program)
        return program

    def release(self) -> None:
        """Let all programs that are ready begin.

        Raises:
            RunnerError: a machine was lost.
        """
        waiting, self._waiting = self._waiting, []
        for program in waiting:
            try:
                program.go()
            except OSError as error:
                raise RunnerError(f"{program.name} cannot start: {error}", way_out="check its machine") from error

    def shells(self) -> Mapping[str, Shell]:
        """Name of each machine -> the shell for its samplers."""
        return {host_name(number): self._shell(number) for number in range(len(self._hosts))}

    def close(self) -> None:
        """End the connections, and with them the programs that still run there."""
        for shell in self._shells.values():
            shell.close()
        self._shells.clear()

    def _shell(self, number: int) -> SshShell:
        if number not in self._shells or not self._shells[number].connected:
            self._shells[number] = open_shell(self._hosts[number])
        return self._shells[number]


def host_problem(host: DriverHost, home: Path) -> tuple[str | None, str]:
    """The part of a load generator that a machine lacks (None: it lacks none), and a description of what was found.

    Raises:
        RunnerError: it cannot be reached.
    """
    folder = host.home or os.fspath(home)
    with closing(open_shell(host)) as shell:
        code, said = shell.ask(["/bin/sh", "-c", _LOOK, "look", host.java, folder])
    if code == _NO_JAVA:
        return f"{host.java} is not there", ""
    if code:
        return f"{folder} holds no lib/core-*.jar", ""
    return None, f"{host.java}, and {said.split()[0]} in {folder}"

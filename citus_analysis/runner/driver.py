"""The interface of a driver: it turns the work of one load generator into a command."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from citus_analysis.runner.hosts import Launched, LaunchedHere, Processes
from citus_analysis.runner.plan import PlannedRun
from citus_analysis.runner.system import ConnectionInfo
from citus_analysis.runner.workloads import (
    KeyRange,
    RecordList,
)

#: Name of a file that contains a client's password; the runner removes such files of a killed runner.
LOGIN_FILE: Final = "secret.properties"


@dataclass(frozen=True)
class Work:
    """The work of one load generator process.

    Attributes:
        run: the run that it belongs to.
        part: its number within the run, from 0.
        threads: number of client threads.
        operations: number of operations.
        records: number of records in the table when it begins.
        inserts: record numbers that it may insert; for a load, exactly those that it must insert.
        duration_s: time after which it ends, instead of after its operations.
        rate_ops_s: limit of its rate, evenly paced; None: no limit.
        monitor: whether it is the sampled client.
        limited: the records that it may use, if these are only a part; for a load, instead of `inserts`.
    """

    run: PlannedRun
    part: int
    threads: int
    operations: int
    records: int
    inserts: KeyRange
    duration_s: int | None = None
    rate_ops_s: float | None = None
    monitor: bool = False
    limited: RecordList | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Command:
    """A program call without a shell.

    Attributes:
        folder: working folder on this machine.
        host: number of the driver's host to run on; None = this machine.
        private: whole lines for the standard input of a program on another host.
        heading: text written to its output before the program's own.
    """

    arguments: Sequence[str | Path]
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    host: int | None = None
    private: str = field(default="", repr=False)
    heading: bytes = b""


@dataclass(frozen=True)
class SetUp:
    """The commands that make a workload's own tables.

    Attributes:
        commands: commands to run one after the other.
        key: hash of all that the tables depend on; while it does not change, the tables are kept. None: the tables are
            always made again.
    """

    commands: Sequence[Command] = ()
    key: str | None = None


def launch_here(processes: Processes, name: str, call: Command, output: Path) -> LaunchedHere:
    """Start a program on this machine."""
    return processes.launch(
        name, call.arguments, output=output, environment=call.environment, folder=call.folder, heading=call.heading
    )


def write_private(path: Path, text: str) -> None:
    """Write a file that only the runner's account can read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


class Driver(Protocol):
    """A load generator."""

    def command(self, work: Work, connection: ConnectionInfo, folder: Path) -> Command:
        """The command that does the work.

        Args:
            work: the work.
            connection: the nodes to connect to.
            folder: private folder for files that the command needs; removed after the run.
        """

    def set_up(self, run: PlannedRun, connection: ConnectionInfo, folder: Path) -> SetUp:  # noqa: ARG002 - for drivers that override it
        """The commands that make the tables of a workload of the experiment's own.

        Args:
            run: the run that is about to be measured.
            connection: connection to the coordinator.
            folder: private folder for files that the commands need.
        """
        return SetUp()

    def select_queried(self, run: PlannedRun, connection: ConnectionInfo) -> ConnectionInfo:  # noqa: ARG002 - for drivers that override it
        """The nodes that the run's load generators are to query, of those that they may connect to; default: all."""
        return connection

    def remarks(self, connection: ConnectionInfo, generators: int) -> list[str]:  # noqa: ARG002 - for drivers that override it
        """Remarks on nodes that `generators` load generators do not reach as requested; empty if they reach all."""
        return []

    def finish(self, processes: Processes, monitor: Launched, *, is_timed: bool) -> None:  # noqa: ARG002 - for drivers that override it
        """End a monitor client at once when its main clients are done, with a summary if it can still print one.

        Args:
            processes: the processes of the runner.
            monitor: the client.
            is_timed: it has the main clients' time limit, and will end by itself in a moment.
        """
        processes.stop(monitor)

    def attainable_rate_ops_s(self, rate_ops_s: float, threads: int) -> float:  # noqa: ARG002 - for drivers that override it
        """The rate closest to the requested one that the client can keep with this number of threads."""
        return rate_ops_s

    def current_ops_s(self, output: Path) -> float | None:
        """Throughput in the newest status line of an output that is being written."""

"""Run perf during a run: record all server processes of each machine, then report flat and with call graphs.

Each machine reports its own recording, because only it has the programs whose symbols are reported.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Self

from citus_analysis.errors import RunnerError
from citus_analysis.runner.hosts import Launched, Processes, Shell, SshShell
from citus_analysis.runner.plan import PlannedRun
from citus_analysis.study_tree import build_perf_report_path

_FREQUENCY_HZ: Final = 99  # not a round number, so that sampling does not keep step with timers
_REPORTS: Final = {
    "report-flat": ["--no-children", "-g", "none"],
    "report-graph": ["--no-children", "-g", "folded,0,caller"],  # whole stacks; trees of --children cut them
}
#: Command that discards perf's remarks on missing symbols, which are not part of its report.
_WITHOUT_REMARKS: Final = ("/bin/sh", "-c", 'exec "$@" 2>/dev/null', "quiet")
_TIMEOUT_S: Final = 300
_NOTHING: Final = "perf recorded nothing{place}: perf may require root or a lower kernel.perf_event_paranoid"


@dataclass(frozen=True)
class _Recording:
    """A recording on one machine.

    Attributes:
        suffix: end of the names of its reports; empty for this machine.
        place: name of the machine for messages; empty for this machine.
        data: path of the recording there.
    """

    shell: Shell
    suffix: str
    place: str
    data: str
    recorder: Launched

    def remove(self) -> bool:
        """Remove the recording; return whether there was one."""
        if isinstance(self.shell, SshShell):
            there = self.shell.ask(["test", "-s", self.data])[0] == 0
            self.shell.ask(["rm", "-rf", os.path.dirname(self.data)])  # noqa: PTH120 - of another machine
        else:
            there = Path(self.data).exists()
            Path(self.data).unlink(missing_ok=True)
        return there


@dataclass(frozen=True)
class Perf:
    """Recordings in progress, one for each machine.

    Attributes:
        missing: a sentence for each profile that is not recorded.
    """

    recordings: tuple[_Recording, ...]
    processes: Processes
    folder: Path
    missing: tuple[str, ...] = ()

    @classmethod
    def start(cls, processes: Processes, folder: Path, shells: Mapping[str, Shell]) -> Self:
        """Start recording all CPUs; reports are restricted to the server's processes.

        Args:
            processes: processes of the runner.
            folder: folder for outputs, and for the recording of this machine.
            shells: node name -> shell of its machine; machines without a node are not recorded.
        """
        recordings: list[_Recording] = []
        missing = [] if shells else ["no node has a shell: no profile"]
        for node, shell in shells.items():
            try:
                if not shell.has("perf"):
                    missing.append(f"perf is not installed on node {node}: no profile of it")
                    continue
                recordings.append(_record(processes, node, shell, folder))
            except RunnerError as error:
                missing.append(f"no profile of node {node}: {error.problem}")
        return cls(tuple(recordings), processes, folder, tuple(missing))

    def stop(self) -> None:
        """End the recordings at this moment; `collect` waits for their files."""
        for one in self.recordings:
            one.recorder.send(signal.SIGINT)

    def collect(self, run: PlannedRun, files: dict[PurePosixPath, Path]) -> list[str]:
        """Write the reports of stopped recordings and add them to the run's files; return notes on missing profiles."""
        notes = list(self.missing)
        for one in self.recordings:
            try:
                notes += self._collect_one(one, run, files)
            except RunnerError as error:
                notes.append(f"no profile{one.place}: {error.problem}")
        return notes

    def _collect_one(self, one: _Recording, run: PlannedRun, files: dict[PurePosixPath, Path]) -> list[str]:
        self.processes.wait(one.recorder, timeout_s=_TIMEOUT_S)
        self.processes.stop(one.recorder)
        reports: dict[PurePosixPath, Path] = {}
        for name, options in _REPORTS.items():
            report = self.folder / f"{name}{one.suffix}.txt"
            arguments = [*_WITHOUT_REMARKS, "perf", "report", "--stdio", "--comm", "postgres", *options, "-i", one.data]
            reporter = _launch(self.processes, one.shell, "perf report", arguments, report)
            self.processes.wait(reporter, timeout_s=_TIMEOUT_S)
            self.processes.stop(reporter)
            reports[build_perf_report_path(run.configuration.resource, f"{name}{one.suffix}", run.iteration)] = report
        if not one.remove():
            return [_NOTHING.format(place=one.place)]
        files.update(reports)
        return []


def _record(processes: Processes, node: str, shell: Shell, folder: Path) -> _Recording:
    data, suffix, place = str(folder / "perf.data"), "", ""
    if isinstance(shell, SshShell):
        suffix, place = f"-{node}", f" on node {node}"
        code, output = shell.ask(["mktemp", "-d"])
        if code:
            raise RunnerError(f"mktemp on node {node}: {' '.join(output.split())}")
        data = f"{output.strip()}/perf.data"
    arguments = ["perf", "record", "--all-cpus", "-F", str(_FREQUENCY_HZ), "-g", "-o", data]
    log = folder / f"perf{suffix}.log"
    return _Recording(shell, suffix, place, data, _launch(processes, shell, "perf", arguments, log))


def _launch(processes: Processes, shell: Shell, name: str, arguments: Sequence[str], output: Path) -> Launched:
    """Start perf on the machine of a shell."""
    if not isinstance(shell, SshShell):
        return processes.launch(name, arguments, output=output)
    program = shell.launch(name, arguments, {"LC_ALL": "C"}, output)
    program.go()
    return program

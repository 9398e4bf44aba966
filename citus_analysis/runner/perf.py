"""perf beside a run: records all server processes, then reports flat and with call graphs."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Self

from citus_analysis.runner.artefacts import resource_folder
from citus_analysis.runner.plan import PlannedRun
from citus_analysis.runner.processes import Launched, Processes
from citus_analysis.runner.shells import LocalShell, Shell

__all__ = ["Perf"]

_FREQUENCY_HZ: Final = 99  # not a round number, so that sampling does not keep step with timers
_REPORTS: Final = {
    "report-flat": ["--no-children", "-g", "none"],
    "report-graph": ["--children"],
}
_TIMEOUT_S: Final = 300


@dataclass(frozen=True)
class Perf:
    """A perf recording under way; `recording` is None where perf cannot run.

    Attributes:
        missing: what is not recorded, a sentence each.
    """

    recording: Launched | None
    processes: Processes
    folder: Path
    missing: tuple[str, ...] = ()

    @classmethod
    def start(cls, processes: Processes, folder: Path, shells: Mapping[str, Shell]) -> Self:
        """Start recording; all CPUs, later reported for the server's processes alone.

        Args:
            processes: of the runner.
            folder: where the recording goes.
            shells: node name -> where it runs. Only this machine is recorded, and only if it is a node's.
        """
        elsewhere = [node for node, shell in shells.items() if not isinstance(shell, LocalShell)]
        missing = [f"perf records this machine only: no profile of node {node}" for node in elsewhere]
        if len(elsewhere) == len(shells):
            missing = missing or ["perf records this machine only, and no node has `shell: local`: no profile"]
            return cls(None, processes, folder, tuple(missing))
        if shutil.which("perf") is None:
            return cls(None, processes, folder, ("perf is not installed: no profile", *missing))
        arguments = ["perf", "record", "--all-cpus", "-F", str(_FREQUENCY_HZ), "-g", "-o", str(folder / "perf.data")]
        recording = processes.launch("perf", arguments, output=folder / "perf.log")
        return cls(recording, processes, folder, tuple(missing))

    def stop(self) -> None:
        """End the recording at this moment; `collect` waits for its file."""
        if self.recording is not None:
            self.processes.send(self.recording, signal.SIGINT)

    def collect(self, run: PlannedRun, files: dict[PurePosixPath, Path]) -> list[str]:
        """Write the reports of a stopped recording, add them to the run's files; notes where something is missing."""
        if self.recording is None:
            return list(self.missing)
        self.processes.wait(self.recording, timeout_s=_TIMEOUT_S)
        self.processes.stop(self.recording)
        data = self.folder / "perf.data"
        if not data.exists():
            return ["perf recorded nothing: it may need root or a lower kernel.perf_event_paranoid", *self.missing]
        for name, options in _REPORTS.items():
            report = self.folder / f"{name}.txt"
            with report.open("wb") as sink:
                subprocess.run(
                    ["perf", "report", "--stdio", "--comm", "postgres", *options, "-i", data],
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=subprocess.DEVNULL,
                    check=False,
                    timeout=_TIMEOUT_S,
                )
            files[resource_folder(run) / "perf" / f"{name}-{run.iteration}.txt"] = report
        data.unlink()
        return list(self.missing)

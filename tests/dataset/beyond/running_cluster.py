"""A cluster of Dask for tests: processes that talk over TCP, as those of several machines do."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from citus_analysis.runner.embedded import find_free_port
from tests.documentation.blocks import blocks_run_by, words_of

WORKERS = 3


@dataclass
class RunningCluster:
    """A scheduler and worker processes, each of its own, that talk over TCP."""

    address: str
    processes: list[subprocess.Popen[bytes]]
    log: Path

    def a_worker(self) -> psutil.Process:
        """A process that runs tasks: the child of its nanny, which starts another when it dies."""
        while True:
            nanny = psutil.Process(random.choice(self.processes[1:]).pid)
            with suppress(psutil.Error):
                children = [child for child in nanny.children() if "spawn_main" in " ".join(child.cmdline())]
                if children:
                    return children[0]
            time.sleep(0.05)


def started(folder: Path, environment: dict[str, str] | None = None) -> RunningCluster:
    """The processes that docs/scale.md starts on SLURM, on this machine: `srun` would start them on several."""
    port = find_free_port()
    address = f"tcp://127.0.0.1:{port}"
    log = folder / "cluster.log"
    _, block = blocks_run_by(str(Path(__file__).with_name("test_cluster.py")))
    places = {"$(hostname)": "127.0.0.1", "8786": str(port), "/tmp": str(folder), " &\n": "\n"}
    _, *exports, scheduler, worker, _ = words_of(block, places)
    assert (scheduler[:2], worker[:3]) == (["dask", "scheduler"], ["srun", "dask", "worker"])
    settings = dict(word.split("=") for words in exports for word in words[1:])
    program = [sys.executable, "-m", "dask"]
    with log.open("wb") as output:
        processes = [
            subprocess.Popen(
                [*program, *words, "--no-dashboard"],
                stdout=output,
                stderr=output,
                env={**os.environ, **settings, **(environment or {})},
            )
            for words in (scheduler[1:], *[worker[2:]] * WORKERS)
        ]
    return RunningCluster(address, processes, log)


def ended(running: RunningCluster) -> None:
    """Kill the processes, and those that they started."""
    for process in running.processes:
        for child in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.Error):
                child.kill()
        process.kill()
        process.wait()


def driver(raw: Path, out: Path | str, address: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "citus_analysis", "ingest", str(raw), "--out", str(out), "--cluster", address]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

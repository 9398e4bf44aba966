"""The pgbench driver: YCSB's table and core workloads with the load generator that comes with PostgreSQL."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Final

from citus_analysis.runner.drivers.balancing import spreads_connections
from citus_analysis.runner.drivers.base import Command, Work
from citus_analysis.runner.experiment import PgbenchDriver
from citus_analysis.runner.processes import Launched, Processes
from citus_analysis.runner.status import newest_match
from citus_analysis.runner.targets.base import ConnectionInfo
from citus_analysis.runner.workloads import pgbench_scripts
from citus_analysis.words import listed, noun_for

__all__ = ["Pgbench"]

_PROGRESS: Final = re.compile(rb"^progress: [\d.]+ s, ([\d.]+) tps", re.MULTILINE)
_GRACE_S: Final = 5.0
_OPEN_END_S: Final = 10**6


class Pgbench:
    """Builds pgbench calls.

    Args:
        settings: its part of the experiment file.
        program: path of pgbench.
    """

    def __init__(self, settings: PgbenchDriver, program: Path) -> None:
        self._settings = settings
        self._program = program

    def command(self, work: Work, connection: ConnectionInfo, folder: Path) -> Command:
        """One pgbench process; its scripts are written into `folder`."""
        configuration = work.run.configuration
        arguments: list[str | Path] = [
            self._program,
            "--no-vacuum",
            f"--protocol={configuration.protocol or self._settings.protocol}",
            f"--client={work.threads}",
            f"--jobs={min(work.threads, os.cpu_count() or 1)}",
            "--progress=1",
            "--progress-timestamp",
            *self._variables(work),
            *self._limit(work),
        ]
        if work.rate_ops_s:
            arguments.append(f"--rate={work.rate_ops_s:.6f}")
        if self._settings.log_transactions and not work.monitor:
            arguments += ["--log", f"--log-prefix={folder / f'transactions-{work.part}'}"]
        scripts = pgbench_scripts(
            configuration.workload, phase=configuration.phase, distribution=self._settings.distribution
        )
        for number, script in enumerate(scripts):
            path = folder / f"{number}-{script.operation.lower()}.sql"
            path.write_text(script.text, encoding="ascii")
            arguments += ["--file", f"{path}@{script.weight}"]
        reached = self._reached(connection, work.part)
        arguments.append(reached.conninfo())
        return Command(arguments, {**reached.environment(), "LC_ALL": "C", "TZ": "UTC"}, folder)

    def remarks(self, connection: ConnectionInfo, generators: int) -> list[str]:
        """Where connections are not spread: which nodes get none."""
        nodes = connection.nodes
        if len(nodes) == 1 or self._spreads:
            return []
        left_out = [node.name for node in nodes[generators:]]
        reached = f"no client connects to {noun_for(len(left_out), 'node')} {listed(left_out)}; " if left_out else ""
        return [
            f"{self._program} cannot spread its connections (its libpq is older than 16): each load generator connects "
            f"to one node, the monitor to node {nodes[0].name}; {reached}install a pgbench with libpq 16 or later"
            + (f", or set matrix.drivers: [{len(nodes)}]" if left_out else "")
        ]

    @cached_property
    def _spreads(self) -> bool:
        return spreads_connections(self._program)

    def _reached(self, connection: ConnectionInfo, part: int) -> ConnectionInfo:
        """The nodes that a load generator can choose from: one of its own where its libpq would take the first."""
        if len(connection.nodes) == 1 or self._spreads:
            return connection
        return replace(connection, nodes=[connection.nodes[part % len(connection.nodes)]])

    def finish(self, processes: Processes, monitor: Launched) -> None:
        """SIGALRM is what pgbench sends itself when its time is over: it stops and prints its summary."""
        processes.stop(monitor, first=signal.SIGALRM, grace_s=_GRACE_S)

    def attainable_rate_ops_s(self, rate_ops_s: float, threads: int) -> float:  # noqa: ARG002 (of the protocol)
        """Any: `--rate` is a schedule of the whole process."""
        return rate_ops_s

    def current_ops_s(self, output: Path) -> float | None:
        """Throughput in the newest progress line."""
        return newest_match(_PROGRESS, output)

    def description(self) -> dict[str, str]:
        """What `pgbench --version` says."""
        with suppress(OSError):
            said = subprocess.run([self._program, "--version"], capture_output=True, text=True, check=False)
            return {"driver": said.stdout.strip()}
        return {"driver": "pgbench"}

    def _variables(self, work: Work) -> list[str]:
        values = {
            "records": work.records,
            "insert_start": work.inserts.start,
            "insert_stop": work.inserts.stop,
            "clients": work.threads,
            "done": 0,
        }
        return [f"--define={name}={value}" for name, value in values.items()]

    def _limit(self, work: Work) -> list[str]:
        if work.monitor:
            # It runs until the main clients are done; see finish().
            return [f"--time={_OPEN_END_S}"]
        if work.duration_s:
            return [f"--time={work.duration_s}"]
        return [f"--transactions={-(-work.operations // work.threads)}"]

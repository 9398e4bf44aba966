"""The pgbench driver: YCSB's core workloads, or scripts of your own, with the load generator of PostgreSQL."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Final

from citus_analysis.runner.client_programs import can_spread_connections
from citus_analysis.runner.driver import Command, Driver, SetUp, Work
from citus_analysis.runner.experiment import (
    PgbenchDriver,
    ScriptedWorkload,
    read_file,
)
from citus_analysis.runner.hosts import Launched, Processes
from citus_analysis.runner.placeholders import Toolbox, compute_placeholder_values, make_set_up
from citus_analysis.runner.plan import PlannedRun
from citus_analysis.runner.records import find_newest_match
from citus_analysis.runner.system import ConnectionInfo
from citus_analysis.runner.workloads import (
    build_pgbench_scripts,
    write_choice,
)
from citus_analysis.texts.words import choose_noun_form, join_words

_PROGRESS: Final = re.compile(rb"^progress: [\d.]+ s, ([\d.]+) tps", re.MULTILINE)
_GRACE_S: Final = 5.0
_OPEN_END_S: Final = 10**6


class PgbenchProgram(Driver):
    """Builds pgbench calls.

    Args:
        settings: its part of the experiment file.
        program: path of pgbench.
        toolbox: programs and facts that set-ups may name.
    """

    def __init__(self, settings: PgbenchDriver, program: Path, toolbox: Toolbox | None = None) -> None:
        self._settings = settings
        self._program = program
        known = toolbox or Toolbox()
        self._toolbox = replace(known, programs={**known.programs, "pgbench": program})

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
        own = self._settings.workloads.get(configuration.workload)
        rate = work.rate_ops_s
        if not rate and own and own.rate_ops_s is not None:
            # The rate of all load generators times the share of the threads.
            rate = own.rate_ops_s * work.threads / configuration.threads
        if rate:
            arguments.append(f"--rate={rate:.6f}")
        if self._settings.log_transactions and not work.monitor:
            arguments += ["--log", f"--log-prefix={folder / f'transactions-{work.part}'}"]
        arguments += _own_scripts(own, work, folder) if own else self._core_scripts(work, folder)
        reached = self._find_reached_nodes(connection, work.part)
        arguments.append(reached.conninfo())
        return Command(arguments, {**reached.environment(), "LC_ALL": "C", "TZ": "UTC"}, folder)

    def set_up(self, run: PlannedRun, connection: ConnectionInfo, folder: Path) -> SetUp:
        """The steps of a workload of the experiment's own."""
        workload = self._settings.workloads[run.configuration.workload]
        values = compute_placeholder_values(workload, run, connection, folder, self._toolbox, None)
        return make_set_up(workload, connection, values, self._toolbox, folder, {})

    def _core_scripts(self, work: Work, folder: Path) -> list[str]:
        configuration = work.run.configuration
        scripts = build_pgbench_scripts(
            configuration.workload,
            phase=configuration.phase,
            distribution=self._settings.distribution,
            limited=work.limited,
        )
        arguments = []
        for number, script in enumerate(scripts):
            path = folder / f"{number}-{script.operation.lower()}.sql"
            path.write_text(script.text, encoding="ascii")
            arguments.append(f"--file={path}@{script.weight}")
        return arguments

    def remarks(self, connection: ConnectionInfo, generators: int) -> list[str]:
        """A remark if connections are not spread, with the nodes that get none."""
        nodes = connection.nodes
        if len(nodes) == 1 or self._spreads:
            return []
        left_out = [node.name for node in nodes[generators:]]
        reached = (
            f"no client connects to {choose_noun_form(len(left_out), 'node')} {join_words(left_out)}; "
            if left_out
            else ""
        )
        return [
            f"{self._program} cannot spread its connections (its libpq is older than 16): each load generator connects "
            f"to one node, the monitor to node {nodes[0].name}; {reached}install a pgbench with libpq 16 or later"
            + (f", or set matrix.drivers: [{len(nodes)}]" if left_out else "")
        ]

    @cached_property
    def _spreads(self) -> bool:
        return can_spread_connections(self._program)

    def _find_reached_nodes(self, connection: ConnectionInfo, part: int) -> ConnectionInfo:
        """The nodes of a load generator: all, or a single node if its libpq would always connect to the first."""
        if len(connection.nodes) == 1 or self._spreads:
            return connection
        return replace(connection, nodes=[connection.nodes[part % len(connection.nodes)]])

    def finish(self, processes: Processes, monitor: Launched, *, is_timed: bool) -> None:  # noqa: ARG002 - the signature of `Driver`
        """Send SIGALRM, as pgbench does itself when its time is over: it stops and prints its summary."""
        processes.stop(monitor, first=signal.SIGALRM, grace_s=_GRACE_S)

    def current_ops_s(self, output: Path) -> float | None:
        """Throughput in the newest progress line."""
        return find_newest_match(_PROGRESS, output)

    def _variables(self, work: Work) -> list[str]:
        values: dict[str, str | int | float] = {
            "records": work.records,
            "insert_start": work.inserts.start,
            "insert_stop": work.inserts.stop,
            "clients": work.threads,
            "done": 0,
        }
        own = self._settings.workloads.get(work.run.configuration.workload)
        values |= {"workers": work.run.configuration.workers, **own.variables} if own else {}
        return [f"--define={name}={value}" for name, value in values.items()]

    def _limit(self, work: Work) -> list[str]:
        if work.monitor:
            # It runs until the main clients are done; see finish().
            return [f"--time={_OPEN_END_S}"]
        if work.duration_s:
            return [f"--time={work.duration_s}"]
        return [f"--transactions={-(-work.operations // work.threads)}"]


def _own_scripts(workload: ScriptedWorkload, work: Work, folder: Path) -> list[str]:
    """Options that name the scripts; those of a workload with a key begin with the choice of it."""
    arguments = []
    for number, script in enumerate(workload.scripts):
        path: Path | None = script.file
        if path and workload.key:
            name = workload.key.variable
            choice = write_choice(work.limited, name) if work.limited else rf"\set {name} random(0, {work.records - 1})"
            text = read_file(path, hint="correct driver.workloads")
            path = folder / f"{number}-{path.name}"
            path.write_text(f"{choice}\n{text}", encoding="utf-8")
        arguments.append(f"--file={path}@{script.weight}" if path else f"--builtin={script.builtin}@{script.weight}")
    return arguments

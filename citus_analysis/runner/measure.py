"""One measured run: clients and samplers started together, watched, ended, their files put into the tree.

Everything a run writes goes into a private folder of its attempt first. Only a run that was measured to its end is
published: the list of files is journalled, then each is renamed into the tree. Files of two attempts never mix.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from citus_analysis.errors import RunnerError
from citus_analysis.runner.artefacts import client_log, inside, sampler_output, server_log
from citus_analysis.runner.drivers.base import Driver, Work
from citus_analysis.runner.experiment import Experiment
from citus_analysis.runner.keys import KeyRange, partition, share_threads
from citus_analysis.runner.perf import Perf
from citus_analysis.runner.plan import PlannedRun
from citus_analysis.runner.processes import Launched, Processes
from citus_analysis.runner.results import read_client
from citus_analysis.runner.samplers import start_samplers
from citus_analysis.runner.targets.base import Target

__all__ = ["Measured", "Measurement", "publish"]

_POLL_S: Final = 0.5
_MANY: Final = 10**9  # record numbers
_WARMUP_INSERTS: Final = 10**12  # first of the record numbers that no measured run uses
_PACE_PROBE_S: Final = 1


@dataclass
class Measured:
    """Files of a measured run (place in the tree -> where it is now), and what went wrong."""

    files: dict[PurePosixPath, Path] = field(default_factory=dict)
    client_outputs: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Measurement:
    """How runs of an experiment are measured.

    Attributes:
        watch: called about twice a second with the current throughput (None while unknown).
    """

    experiment: Experiment
    target: Target
    driver: Driver
    processes: Processes
    watch: Callable[[float | None], None]

    def prepare(self, run: PlannedRun) -> None:
        """Servers in the state the configuration asks for."""
        self.target.prepare(run.configuration)

    def load(self, run: PlannedRun, folder: Path) -> float | None:
        """Warm up, then fill the table; the throughput of the warm-up where there was one."""
        configuration = run.configuration
        records = 0 if configuration.phase == "load" else configuration.records
        if configuration.changes_table or not self._is_filled(run):
            self.target.fill(records)
        seconds = max(round(self.experiment.warmup_s), _PACE_PROBE_S if configuration.monitored else 0)
        if not seconds:
            return None
        pace = self._warm_up(run, folder, seconds)
        if configuration.changes_table:
            self.target.fill(records)
        return pace

    def measure(self, run: PlannedRun, folder: Path, pace_ops_s: float | None) -> Measured:
        """Run the load with everything beside it; the files are still in `folder` afterwards."""
        measured = Measured()
        if run.configuration.monitored:
            self.target.set_monitor(self.experiment.monitor)  # here, because the role is granted the table
        marks = self.target.mark_logs()
        samplers, skipped = start_samplers(self.experiment.samplers, self.target.shells(self.processes), folder)
        measured.notes += skipped
        perf = Perf.start(self.processes, folder) if self.experiment.samplers.perf else None
        clients, monitor = self._start_clients(run, folder, pace_ops_s)
        try:
            self._wait(clients, measured)
        finally:
            if monitor:
                self.driver.finish(self.processes, monitor)
            self.processes.stop(*clients)
            for sampled in samplers:
                sampled.sampling.stop()
        if perf:
            measured.notes += perf.collect(run, measured.files)
        self._collect_clients(run, clients, monitor, measured)
        measured.files.update({sampler_output(run, one.sampler, one.node): one.output for one in samplers})
        for node, mark in marks.items():
            log = folder / f"server-{node}.log"
            try:
                self.target.copy_log(node, mark, log)
                measured.files[server_log(run, node)] = log
            except (RunnerError, OSError) as error:
                measured.problems.append(f"server log of node {node} was not collected: {error}")
        return measured

    def works(self, run: PlannedRun) -> list[Work]:
        """What each main load generator is to do; together they insert every record exactly once."""
        configuration = run.configuration
        parts = configuration.drivers
        is_load = configuration.phase == "load"
        # A time limit ends the run, not the keys.
        most = _MANY if self.experiment.limits.duration_s else configuration.operations
        own_inserts = partition(0 if is_load else configuration.records + _MANY, most, parts=parts)
        threads = share_threads(configuration.threads, parts=parts)
        return [
            Work(
                run=run,
                part=part,
                threads=threads[part],
                operations=inserts.count,
                records=configuration.records,
                inserts=inserts,
                duration_s=self.experiment.limits.duration_s,
            )
            for part, inserts in enumerate(own_inserts)
        ]

    def monitor_work(self, run: PlannedRun, pace_ops_s: float | None) -> Work:
        """What the sampled client is to do: its share, paced over the whole run, on keys of its own."""
        configuration, monitor = run.configuration, self.experiment.monitor
        operations = max(1, round(configuration.operations * monitor.share))
        return Work(
            run=run,
            part=0,
            threads=monitor.connections * len(self.target.clients_connect().nodes),
            operations=operations,
            records=configuration.records,
            inserts=KeyRange(self._monitor_start(run), operations if not self.experiment.limits.duration_s else _MANY),
            duration_s=self.experiment.limits.duration_s,
            rate_ops_s=pace_ops_s * monitor.share if pace_ops_s else None,
            monitor=True,
        )

    def _is_filled(self, run: PlannedRun) -> bool:
        """Whether the table holds the records that a reading workload needs, and at most a monitor's beside them."""
        records = run.configuration.records
        try:
            return records <= self.target.count() <= records + self.monitor_work(run, None).operations
        except RunnerError:
            return False  # there is no table yet

    def _monitor_start(self, run: PlannedRun) -> int:
        """First record number of the monitor's own range: behind every one that a main client may insert."""
        return 2 * _MANY if self.experiment.limits.duration_s else run.configuration.records

    def _warm_up(self, run: PlannedRun, folder: Path, seconds: int) -> float | None:
        configuration = run.configuration
        work = Work(
            run=run,
            part=0,
            threads=configuration.threads,
            operations=configuration.operations,
            records=configuration.records,
            inserts=KeyRange(_WARMUP_INSERTS, _MANY),
            duration_s=seconds,
        )
        client = self._launch("warm-up", work, folder)
        if not self.processes.wait(client, timeout_s=self.experiment.limits.timeout_s):
            self.processes.stop(client)
        result = read_client(folder / "warm-up.log")
        return result.throughput_ops_s or None

    def _start_clients(
        self, run: PlannedRun, folder: Path, pace_ops_s: float | None
    ) -> tuple[list[Launched], Launched | None]:
        clients = [self._launch(f"client-{work.part}", work, folder) for work in self.works(run)]
        if not run.configuration.monitored:
            return clients, None
        return clients, self._launch("monitor", self.monitor_work(run, pace_ops_s), folder)

    def _launch(self, name: str, work: Work, folder: Path) -> Launched:
        private = folder / f"{name}.files"
        private.mkdir()
        user = self.experiment.monitor.role if work.monitor else None
        command = self.driver.command(work, self.target.clients_connect(user), private)
        return self.processes.launch(
            name,
            command.arguments,
            output=folder / f"{name}.log",
            environment=command.environment,
            folder=command.folder,
        )

    def _wait(self, clients: Sequence[Launched], measured: Measured) -> None:
        deadline = time.monotonic() + self.experiment.limits.timeout_s
        while any(client.running for client in clients):
            if time.monotonic() > deadline:
                measured.problems.append(f"stopped after limits.timeout_s = {self.experiment.limits.timeout_s} s")
                return
            rates = [self.driver.current_ops_s(client.output) for client in clients if client.output]
            known = [rate for rate in rates if rate is not None]
            self.watch(sum(known) if known else None)
            time.sleep(_POLL_S)

    def _collect_clients(
        self, run: PlannedRun, clients: Sequence[Launched], monitor: Launched | None, measured: Measured
    ) -> None:
        for part, client in enumerate(clients):
            if client.output:
                measured.files[client_log(run, part=part)] = client.output
                measured.client_outputs.append(client.output)
            if client.exit_code:
                measured.problems.append(f"load generator {part} ended with {_ending(client.exit_code)}")
        if monitor and monitor.output:
            measured.files[client_log(run, part=0, monitor=True)] = monitor.output
            if not read_client(monitor.output).operations_done:
                measured.problems.append("the monitor client did nothing: no sampled statements")


def _ending(exit_code: int) -> str:
    return f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"


def publish(files: dict[PurePosixPath, Path], tree: Path) -> None:
    """Rename a run's files into the tree."""
    for place, source in files.items():
        target = inside(tree, place)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(source, target)

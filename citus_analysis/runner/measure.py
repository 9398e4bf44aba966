"""Measure a run: start clients and samplers together, watch and end them, and move their files into the tree.

A run writes all files into a private folder of its attempt first. Only a run that was measured to its end is
published: the list of files is journalled, then each file is renamed into the tree. Files of two attempts never mix.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Final

import numpy as np

from citus_analysis.core.type_aliases import Integers
from citus_analysis.defaults import UNTIL_TIME_IS_UP
from citus_analysis.errors import RunnerError
from citus_analysis.runner.driver import Command, Driver, SetUp, Work, launch_here
from citus_analysis.runner.experiment import (
    CommandWorkload,
    DriverHost,
    Experiment,
    ScriptedWorkload,
    YcsbDriver,
)
from citus_analysis.runner.host_samplers import Sampled, start_samplers
from citus_analysis.runner.hosts import Launched, Processes, RemoteProgram, Shell, SshShell, open_shell
from citus_analysis.runner.key_owners import MOST_KEYS, divide_owned_numbers, find_key_owners
from citus_analysis.runner.perf_recording import Perf
from citus_analysis.runner.plan import PlannedRun, keeps_table
from citus_analysis.runner.plan_recording import record_plans
from citus_analysis.runner.records import (
    build_client_log_path,
    collect_left,
    find_first_error,
    find_last_line,
    join_tree_path,
    read_rates,
)
from citus_analysis.runner.server_snapshots import Reached, ServerRecording
from citus_analysis.runner.system import ConnectionInfo, LogMark
from citus_analysis.runner.target import Target
from citus_analysis.runner.workloads import (
    TABLE,
    KeyRange,
    RecordList,
    build_key_names,
    partition,
    share_threads,
)
from citus_analysis.study_tree import build_sampler_output_path, build_server_log_path, build_snapshot_path, plan_file
from citus_analysis.texts.words import pluralize

# Load generators on machines of their own, reached by ssh.
#
# Programs are started one by one and begin together: each waits on its machine until all are ready. They end when the
# connection ends for any reason, so that a killed runner leaves nothing running.

#: Checks for the Java virtual machine and for the client library of YCSB, whose name it prints.
_LOOK = 'command -v "$1" > /dev/null || exit 3; ls "$2"/lib/ | grep "^core-.*[.]jar$"'
_NO_JAVA = 3


def open_driver_hosts(experiment: Experiment) -> list[DriverHost]:
    """The machines that an experiment names for its load generators; none: they run on this machine."""
    return experiment.driver.hosts if isinstance(experiment.driver, YcsbDriver) else []


def format_host_name(number: int) -> str:
    """Name of a machine in the names of its sample files.

    Example:
        >>> format_host_name(0)
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
                raise RunnerError(f"{program.name} cannot start: {error}", hint="check its machine") from error

    def shells(self) -> Mapping[str, Shell]:
        """Name of each machine -> the shell for its samplers."""
        return {format_host_name(number): self._shell(number) for number in range(len(self._hosts))}

    def close(self) -> None:
        """End the connections, and with them the programs that still run there."""
        for shell in self._shells.values():
            shell.close()
        self._shells.clear()

    def _shell(self, number: int) -> SshShell:
        if number not in self._shells or not self._shells[number].connected:
            self._shells[number] = open_shell(self._hosts[number])
        return self._shells[number]


def find_host_problem(host: DriverHost, home: Path) -> tuple[str | None, str]:
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


# Make the tables of a workload of the experiment's own by its set-up, and keep them while the set-up is unchanged.


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
            said = find_first_error(output) or find_last_line(output)
            problem = f"step {number} of the set-up ({name}) {how}" + (f": {said}" if said else "")
            raise RunnerError(problem, hint="correct set_up in driver.workloads, and resume")
    if set_up.key is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(set_up.key, encoding="ascii")


_POLL_S: Final = 0.05  # so late the end of the main clients may be seen
_PROGRESS_S: Final = 0.5
_WARMUP_INSERTS: Final = 10**12  # first of the record numbers that no measured run uses
#: Exit codes of a client that SIGTERM ended: by itself, or through the Java virtual machine, which handles the signal.
_ENDED_BY_SIGTERM: Final = (-signal.SIGTERM, 128 + signal.SIGTERM)
_LONGEST_PROBE_S: Final = 15  # of the load that measures how fast the monitor must be
_PROBE_INTERVALS: Final = 4
_MOST_GROWTH: Final = 1.2
_SPARE: Final = 10


#: The time in which all main clients of a run ran, by the runner's clock in UTC; None if there was none.
Window = tuple[datetime | None, datetime | None]


@dataclass
class MeasurementResult:
    """Files of a measured run (place in the tree -> present path), and problems.

    Attributes:
        skipped: recordings of the servers that are missing, with the reasons.
        reached: nodes that the main clients queried.
        ended_badly: a main client ended with a non-zero exit code.
    """

    files: dict[PurePosixPath, Path] = field(default_factory=dict)
    client_outputs: list[Path] = field(default_factory=list)
    monitor_outputs: list[Path] = field(default_factory=list)
    server_logs: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    ended_badly: bool = False
    notes: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    reached: Reached = field(default_factory=Reached)
    window: Window = (None, None)


@dataclass(frozen=True)
class Measurement:
    """Measures the runs of an experiment.

    Attributes:
        kept_tables: file that records the tables that a set-up of the experiment's own has made.
        watch: called about twice a second with the current throughput (None while unknown).
        entering: called with the name of each phase that a run enters.
        hosts: machines of the load generators that do not run here.
    """

    experiment: Experiment
    target: Target
    driver: Driver
    processes: Processes
    watch: Callable[[float | None], None]
    kept_tables: Path
    entering: Callable[[str], None]
    hosts: DriverHosts

    def load(self, run: PlannedRun, folder: Path, known_ops_s: float | None = None) -> float | None:
        """Warm up, then fill the table.

        Args:
            run: the run that is about to be measured.
            folder: private folder of the attempt.
            known_ops_s: throughput of earlier runs of the configuration; None if there were none.

        Returns:
            the throughput to pace the monitor by: of earlier runs, or else at the end of the warm-up.
        """
        configuration = run.configuration
        records = 0 if configuration.phase == "load" else configuration.records
        self.entering("filling")
        if configuration.own_tables:
            private = folder / "set-up.files"
            private.mkdir()
            clients = self.target.clients_connect()
            set_up = self.driver.set_up(run, replace(clients, nodes=self.target.nodes()[:1]), private)
            make_own_tables(set_up, self.processes, folder, self.kept_tables, self.experiment.limits.timeout_s)
        elif not keeps_table(self.experiment, configuration) or not self._is_filled(run):
            self.target.fill(records)
        unknown = configuration.monitored and known_ops_s is None and self.experiment.monitor.rate_ops_s is None
        seconds = round(self.experiment.warmup_s)
        if not seconds and not unknown:
            return known_ops_s
        self.entering("warming up")
        steady_ops_s = self._warm_up(run, folder, seconds, until_steady=unknown)
        if configuration.adds_records or not keeps_table(self.experiment, configuration):
            self.entering("filling")
            self.target.fill(records)
        return steady_ops_s if known_ops_s is None else known_ops_s

    def measure(self, run: PlannedRun, folder: Path, pace_ops_s: float | None) -> MeasurementResult:
        """Run the load together with all samplers and recordings; the files remain in `folder`."""
        measured = MeasurementResult()
        if run.configuration.monitored:
            self.target.set_monitor(self.experiment.monitor)  # here, because the role is granted the table
        if self.experiment.between:
            self.entering("preparing")
            self.target.settle(self.experiment.between)
        works, monitor_works = self.works(run), self.monitor_works(run, pace_ops_s)
        if run.configuration.entry == "owner":
            self.entering("assigning keys")
            works, monitor_works = self._limit_to_owners(run, works), self._limit_to_owners(run, monitor_works)
        marks = self.target.mark_logs()
        shells = self.target.shells(self.processes)
        samplers, skipped = start_samplers(
            self.experiment.samplers, {**shells, **self.hosts.shells()}, folder, self.experiment.limits.duration_s
        )
        if not self._takes_nodes_in_turn(run):
            measured.notes += self.driver.remarks(self._connection(run), run.configuration.drivers)
        measured.notes += [*skipped, *self.target.remarks()]
        wanted = self.experiment.samplers.perf
        perf = Perf.start(self.processes, folder, shells) if wanted else Perf((), self.processes, folder)
        recording = ServerRecording.start(self.experiment.samplers, self.target, folder)
        clients: list[Launched] = []
        monitors: list[Launched] = []
        try:
            clients, monitors = self._start_clients(works, monitor_works, folder)
            self.entering("measuring")
            measured.window = datetime.now(UTC), self._wait(clients, measured)
        finally:
            self.entering("collecting")
            measured.notes += self._stop_beside(monitors, samplers, perf)
            recording.stop()
            self.processes.stop(*clients)
        measured.notes += perf.collect(run, measured.files)
        self._collect_clients(run, clients, monitors, measured)
        resource, iteration = run.configuration.resource, run.iteration
        taken = recording.snapshots()
        measured.files |= {
            build_sampler_output_path(resource, one.sampler, one.node, iteration): one.output
            for one in samplers
            if one.output.stat().st_size
        }
        # A sampler that starts Python may print nothing before a very short run ends.
        silent = [one for one in samplers if not one.output.stat().st_size]
        measured.skipped += [f"{one.sampler} of node {one.node} printed nothing during the run" for one in silent]
        measured.files |= {build_snapshot_path(resource, one.view, one.node, iteration): one.output for one in taken}
        measured.skipped += recording.skipped()
        measured.reached = recording.count_reached(self.driver.select_queried(run, self._connection(run)))
        self._collect_logs(run, folder, marks, measured)
        self._collect_plans(run, folder, measured)
        return measured

    def _collect_plans(self, run: PlannedRun, folder: Path, measured: MeasurementResult) -> None:
        """Record plans last, so that neither the counters nor the logs of the run contain their statements."""
        statements, output = self.experiment.samplers.plans, folder / "plans.json"
        if not statements:
            return
        node, timeout_s = self.target.nodes()[0], self.experiment.limits.timeout_s
        measured.skipped += record_plans(statements, node, self.target.connect, output, timeout_s=timeout_s)
        if output.exists():
            measured.files[plan_file(run.configuration.resource, node.name, run.iteration)] = output

    def _collect_logs(
        self, run: PlannedRun, folder: Path, marks: Mapping[str, LogMark], measured: MeasurementResult
    ) -> None:
        for node, mark in marks.items():
            log = folder / f"server-{node}.log"
            try:
                lost = self.target.copy_log(node, mark, log)
                measured.skipped += [f"server log of node {node}: {sentence}" for sentence in lost]
                measured.files[build_server_log_path(run.configuration.resource, node, run.iteration)] = log
                measured.server_logs.append(log)
            except (RunnerError, OSError) as error:
                measured.problems.append(f"server log of node {node} was not collected: {error}")

    def _stop_beside(self, monitors: Sequence[Launched], samplers: Sequence[Sampled], perf: Perf) -> list[str]:
        """End the monitors, then perf and the samplers, because later samples do not belong to the load.

        Returns:
            a sentence for each sampler whose output is not complete.
        """
        for monitor in monitors:  # first, because their statements without the load must not be sampled
            self.driver.finish(self.processes, monitor, is_timed=self.experiment.limits.duration_s is not None)
        perf.stop()
        problems = [(sampled, sampled.sampling.stop()) for sampled in samplers]
        return [f"{one.sampler} of node {one.node} is not complete: {why}" for one, why in problems if why]

    def works(self, run: PlannedRun) -> list[Work]:
        """The work of each main load generator; together they insert every record exactly once."""
        configuration = run.configuration
        parts = configuration.drivers
        is_load = configuration.phase == "load"
        # A run with a time limit must not run out of keys; some commands determine their end themselves.
        most = UNTIL_TIME_IS_UP if self.experiment.limits.duration_s else configuration.operations or UNTIL_TIME_IS_UP
        own_inserts = partition(0 if is_load else configuration.records + UNTIL_TIME_IS_UP, most, parts=parts)
        own_threads = share_threads(configuration.threads, parts=parts)
        shares = enumerate(zip(own_threads, own_inserts, strict=True))
        limit_s = self.experiment.limits.duration_s
        return [
            Work(run, part, threads, inserts.count, configuration.records, inserts, limit_s)
            for part, (threads, inserts) in shares
        ]

    def monitor_works(self, run: PlannedRun, pace_ops_s: float | None) -> list[Work]:
        """The work of the sampled client: its share of the operations, paced, on keys of its own.

        One process, or one for each node where the load generators take the nodes in turn.
        """
        configuration, monitor = run.configuration, self.experiment.monitor
        if not configuration.monitored:
            return []
        nodes = len(self._connection(run).nodes)
        parts = nodes if self._takes_nodes_in_turn(run) else 1
        threads = monitor.connections * nodes // parts
        wanted_ops_s = monitor.rate_ops_s or (pace_ops_s * monitor.share if pace_ops_s else None)
        rate = self.driver.attainable_rate_ops_s(wanted_ops_s / parts, threads) if wanted_ops_s else None
        operations = max(parts, self._monitor_operations(run, is_paced=rate is not None))
        # The monitor's own range of record numbers comes after all numbers that a main client may insert.
        is_whole_load = configuration.phase == "load" and not self.experiment.limits.duration_s
        first = configuration.records + (0 if is_whole_load else 2 * UNTIL_TIME_IS_UP)
        limit_s = self.experiment.limits.duration_s
        return [
            Work(run, part, threads, inserts.count, configuration.records, inserts, limit_s, rate, monitor=True)
            for part, inserts in enumerate(partition(first, operations, parts=parts))
        ]

    def _connection(self, run: PlannedRun, user: str | None = None) -> ConnectionInfo:
        """The nodes that clients of a run connect to."""
        found = self.target.clients_connect(user)
        entry, nodes = run.configuration.entry, self.target.nodes()
        if entry is None:
            return found
        workers = [node for node in nodes if node.role == "worker"]
        return replace(found, nodes=nodes[:1] if entry == "coordinator" else workers)

    def _takes_nodes_in_turn(self, run: PlannedRun) -> bool:
        """Whether each load generator connects to one node, so that all nodes have equally many."""
        entry, nodes = run.configuration.entry, len(self._connection(run).nodes)
        if entry not in ("any-node", "owner"):
            return False
        if run.configuration.drivers % nodes == 0:
            return True
        if entry == "owner":
            hint = f"set matrix.drivers: [{nodes}]"
            problem = f"{pluralize(run.configuration.drivers, 'load generator')} cannot be divided among"
            raise RunnerError(f"{problem} {pluralize(nodes, 'node')}, each with its own keys", hint=hint)
        return False

    def _limit_to_owners(self, run: PlannedRun, works: Sequence[Work]) -> list[Work]:
        """The same work, of each load generator on keys of its node."""
        if not works:
            return []
        configuration, nodes = run.configuration, self._connection(run).nodes
        own = self.experiment.own_workload(configuration.workload)
        key = own.key if isinstance(own, ScriptedWorkload) else None
        is_load, is_endless = configuration.phase == "load", self.experiment.limits.duration_s is not None
        start, count = 0, configuration.records
        if is_load:
            start, count = works[0].inserts.start, sum(work.inserts.count for work in works)
            count = min(count, configuration.records) if is_endless else count
            if works[0].monitor and not is_endless:
                # Its few records are chosen from more, so that each node owns enough of them.
                count = count * _SPARE + _SPARE**2
        if count > MOST_KEYS:
            hint = "use fewer records (matrix.records)"
            raise RunnerError(f"{count:,} keys cannot be given to their owners: at most {MOST_KEYS:,}", hint=hint)
        numbers: Integers = np.arange(start, start + count, dtype=np.int64)
        keys = [str(number) for number in numbers.tolist()] if key else build_key_names(start, start + count)
        with self.target.connect() as connection:
            owners = find_key_owners(connection, key.table if key else TABLE, keys, nodes)
        parts = len(works) if is_load else len(nodes)
        divided = divide_owned_numbers(owners, numbers, nodes=len(nodes), parts=parts)
        if not is_load:
            return [replace(work, limited=RecordList(divided[work.part % parts])) for work in works]
        if works[0].monitor:
            divided = [own[: work.inserts.count] for own, work in zip(divided, works, strict=True)]
        return [
            replace(work, limited=RecordList(own, is_endless=is_endless), operations=len(own))
            for own, work in zip(divided, works, strict=True)
        ]

    def _monitor_operations(self, run: PlannedRun, *, is_paced: bool) -> int:
        """Operations of the monitor. A paced monitor is ended with the main clients; that of a load has its records."""
        if run.configuration.phase == "load":
            return self._monitor_rows(run)
        return UNTIL_TIME_IS_UP if is_paced else self._get_share(run.configuration.operations)

    def _monitor_rows(self, run: PlannedRun) -> int:
        """Records that a load's monitor inserts in addition to the main clients."""
        return UNTIL_TIME_IS_UP if self.experiment.limits.duration_s else self._get_share(run.configuration.records)

    def _get_share(self, number: int) -> int:
        return max(1, round(number * self.experiment.monitor.share))

    def _is_filled(self, run: PlannedRun) -> bool:
        """Whether the table contains the records that a reading workload needs, and at most a monitor's in addition."""
        records = run.configuration.records
        # A monitor that inserts until the time is up has no known number of rows: then none may be left of earlier
        # runs, whose keys a run of D or E would insert again.
        is_counted = run.configuration.monitored and not self.experiment.limits.duration_s
        try:
            return records <= self.target.count() <= records + (self._monitor_rows(run) if is_counted else 0)
        except RunnerError:
            return False  # there is no table yet

    def _warm_up(self, run: PlannedRun, folder: Path, seconds: int, *, until_steady: bool) -> float | None:
        """Load for `seconds`, or longer until the throughput rises no more; return the throughput at the end."""
        configuration = run.configuration
        inserts = KeyRange(_WARMUP_INSERTS, UNTIL_TIME_IS_UP)
        limit_s = max(seconds, _LONGEST_PROBE_S) if until_steady else seconds
        work = Work(run, 0, configuration.threads, inserts.count, configuration.records, inserts, limit_s)
        client, output = self._launch("warm-up", work, folder), folder / "warm-up.log"
        self.hosts.release()
        least = time.monotonic() + seconds
        deadline = time.monotonic() + self.experiment.limits.timeout_s
        while client.running and time.monotonic() < deadline:
            if until_steady and time.monotonic() > least and is_throughput_steady(read_rates(output)):
                break
            time.sleep(_PROGRESS_S)
        self.processes.stop(client)
        return compute_steady_rate(read_rates(output))

    def _start_clients(
        self, works: Sequence[Work], monitor_works: Sequence[Work], folder: Path
    ) -> tuple[list[Launched], list[Launched]]:
        clients = [self._launch(f"client-{work.part}", work, folder) for work in works]
        monitors = [self._launch(f"monitor-{work.part}", work, folder) for work in monitor_works]
        self.hosts.release()
        return clients, monitors

    def _launch(self, name: str, work: Work, folder: Path) -> Launched:
        private = folder / f"{name}.files"
        private.mkdir()
        user = self.experiment.monitor.role if work.monitor else None
        connection = self._connection(work.run, user)
        if name != "warm-up" and self._takes_nodes_in_turn(work.run):
            connection = replace(connection, nodes=[connection.nodes[work.part % len(connection.nodes)]])
        command = self.driver.command(work, connection, private)
        output = folder / f"{name}.log"
        if command.host is not None:
            return self.hosts.launch(name, command, output)
        return launch_here(self.processes, name, command, output)

    def _wait(self, clients: Sequence[Launched], measured: MeasurementResult) -> datetime | None:
        """Watch the main clients until all have ended.

        Returns:
            the time when the first of them had ended.
        """
        deadline = time.monotonic() + self.experiment.limits.timeout_s
        reported_s = 0.0
        ended: datetime | None = None
        while any(running := [client.running for client in clients]):
            if ended is None and not all(running):
                ended = datetime.now(UTC)
            if time.monotonic() > deadline:
                measured.problems.append(f"stopped after limits.timeout_s = {self.experiment.limits.timeout_s} s")
                return ended
            if time.monotonic() - reported_s >= _PROGRESS_S:
                rates = [self.driver.current_ops_s(client.output) for client in clients]
                known = [rate for rate in rates if rate is not None]
                self.watch(sum(known) if known else None)
                reported_s = time.monotonic()
            time.sleep(_POLL_S)
        return ended or datetime.now(UTC)

    def _collect_clients(
        self, run: PlannedRun, clients: Sequence[Launched], monitors: Sequence[Launched], measured: MeasurementResult
    ) -> None:
        own = self.experiment.own_workload(run.configuration.workload)
        for part, client in enumerate(clients):
            measured.files[build_client_log_path(run, part=part)] = client.output
            measured.client_outputs.append(client.output)
            if client.exit_code:
                measured.ended_badly = True
                measured.problems.append(f"load generator {part} ended with {_describe_exit(client.exit_code)}")
            if isinstance(own, CommandWorkload):
                private = client.output.with_suffix(".files")
                measured.problems += collect_left(run, part, private, own.files, measured.files)
        untimed = self.experiment.limits.duration_s is None
        for part, monitor in enumerate(monitors):
            measured.files[build_client_log_path(run, part=part, monitor=True)] = monitor.output
            measured.monitor_outputs.append(monitor.output)
            if monitor.exit_code and not (untimed and monitor.exit_code in _ENDED_BY_SIGTERM):
                how = _describe_exit(monitor.exit_code)
                lacking = f"sampled client {part} ended with {how}, so its latencies may be missing"
                measured.notes.append(f"{run.run_id}: {lacking}")


def _describe_exit(exit_code: int) -> str:
    return f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"


def is_throughput_steady(rates_ops_s: Sequence[float]) -> bool:
    """Whether a client is warm: the throughput of its last two status intervals is hardly above that of the two before.

    Example:
        >>> (
        ...     is_throughput_steady([126.0, 900.0, 1900.0, 2000.0]),
        ...     is_throughput_steady([126.0, 1900.0, 1980.0, 2000.0, 2010.0]),
        ... )
        (False, True)
    """
    before, last = sum(rates_ops_s[-4:-2]), sum(rates_ops_s[-2:])
    return len(rates_ops_s) >= _PROBE_INTERVALS and 0 < last <= before * _MOST_GROWTH


def compute_steady_rate(rates_ops_s: Sequence[float]) -> float | None:
    """The throughput at the end of a warm-up: the mean of its last two status intervals; None without any.

    At its beginning, a client connects and fills caches: the mean over all intervals would be too low.

    Example:
        >>> compute_steady_rate([126.0, 900.0, 1900.0, 2000.0, 2010.0, 2002.0])
        2006.0
    """
    last = rates_ops_s[-2:]
    return sum(last) / len(last) or None if last else None


def publish(files: dict[PurePosixPath, Path], tree: Path) -> None:
    """Rename a run's files into the tree."""
    for place, source in files.items():
        target = join_tree_path(tree, place)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(source, target)

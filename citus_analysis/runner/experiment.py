"""The experiment file: the servers, the load generator, the varied values and the number of runs.

YAML, validated before anything starts; `citus-analysis run --schema` prints its JSON schema for editors. Secrets
have no field here: they come from the environment or from `PGPASSFILE`.

Example:
    >>> experiment = parse_experiment({"name": "demo", "matrix": {"workloads": ["load", "c"], "threads": [1, 4]}})
    >>> experiment.target.kind, experiment.driver.kind, experiment.iterations
    ('embedded', 'pgbench', 3)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from os import PathLike
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from citus_analysis.core.shipped_files import find_shipped_folder
from citus_analysis.defaults import LEVEL
from citus_analysis.errors import FormatError, InputError, UnknownNameError, UsageError
from citus_analysis.formats import format_named
from citus_analysis.formats.command_output import SUMMARY_NAMES, find_pattern_problem
from citus_analysis.redaction import names_secret, redact_values
from citus_analysis.texts.documents import YAML_LIMIT_BYTES, describe_validation_error, parse_yaml
from citus_analysis.texts.names import find_file_name_problem
from citus_analysis.texts.words import pluralize

# Base of the parts of an experiment file: their strictness, and kinds of values.

#: Key of the validation context: the folder of the experiment file.
FOLDER = "folder"

Setting = str | int | float | bool
Positive = Annotated[int, Field(gt=0)]


class ExperimentPart(BaseModel):
    """A part of an experiment file: unknown fields are refused, and its values cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _resolve_experiment_path(path: Path, info: ValidationInfo) -> Path:
    context = info.context if isinstance(info.context, dict) else {}
    folders = [Path(folder) for folder in [context.get(FOLDER)] if folder] + [
        Path(),
        find_shipped_folder("experiments"),
    ]
    places = [folder / path for folder in folders]
    return next((place for place in places if place.is_file()), places[0]).absolute()


#: A path that is made absolute, because programs are launched in folders of their own.
LocalPath = Annotated[Path, AfterValidator(Path.absolute)]
#: A file that belongs to the experiment: beside the experiment file, in the working folder, or a shipped one.
LocalFile = Annotated[Path, AfterValidator(_resolve_experiment_path)]


# Values given on the command line instead of an experiment file's own.

#: Mappings whose keys are names of PostgreSQL or of a load generator, and may contain dots (`citus.shard_count`).
_FREE_NAMES: Final = (("matrix", "settings"), ("target", "settings"), ("driver", "properties"))


def apply_document_changes(document: Mapping[str, object], changes: Mapping[str, str]) -> dict[str, object]:
    """A copy of the document with other values in some places.

    Args:
        document: the parsed YAML of an experiment file.
        changes: place -> value in YAML. A place is a dotted field; entries of lists are numbered from 0.

    Raises:
        UsageError: a place contains a list entry or a field that does not exist, or a value is not YAML.
    """
    changed = dict(document)
    for place, text in changes.items():
        steps = place.split(".")
        free = tuple(steps[:2]) in _FREE_NAMES and len(steps) > 2
        steps = [*steps[:2], ".".join(steps[2:])] if free else steps
        changed = cast("dict[str, object]", _replace_nested_value(changed, steps, text, place))
    return changed


def _replace_nested_value(outer: object, steps: Sequence[str], text: str, place: str) -> object:
    """A copy of a value that has another value after some steps; a field without a value gets a mapping."""
    step, *further = steps
    value = None if further else _parse_changed_value(text, place)
    if isinstance(outer, dict) and step:
        inner = {} if outer.get(step) is None else outer[step]
        return {**outer, step: _replace_nested_value(inner, further, text, place) if further else value}
    if isinstance(outer, list) and step.isdecimal() and int(step) < len(outer):
        before, inner, after = outer[: int(step)], outer[int(step)], outer[int(step) + 1 :]
        return [*before, _replace_nested_value(inner, further, text, place) if further else value, *after]
    hint = "write --set FIELD=VALUE with a dotted field such as matrix.threads or target.nodes.0.host"
    raise UsageError(f"the experiment has no field {place!r}: {step!r} does not exist", hint=hint)


def _parse_changed_value(text: str, place: str) -> object:
    try:
        return parse_yaml(text.encode())
    except FormatError as error:
        raise UsageError(f"the value of {place!r} is not YAML: {error.problem}", hint="quote it") from error


# Workloads that an experiment file defines itself: pgbench scripts, and commands of any other tool.
#
# A workload has a name, which `matrix.workloads` uses, tables of its own, which its set-up makes, and a load: weighted
# pgbench scripts, or a list of arguments. Values are inserted by name: `:records` in SQL files, `{records}` in
# arguments.

#: Names allowed in braces in arguments, templates and values of environment variables.
PLACEHOLDERS: Final[Mapping[str, str]] = {
    "host": "the node that this process connects to; in a set-up the coordinator",
    "port": "its port",
    "hosts": "all nodes that load generators connect to, separated by commas",
    "addresses": "the same with ports: `worker1:5432,worker2:5432`",
    "user": "`target.user`",
    "database": "`target.database`",
    "password": "the password; only in templates, which only the runner's account can read",
    "threads": "client threads of this process",
    "records": "`matrix.records`",
    "operations": "operations of this process",
    "duration_s": "`limits.duration_s`",
    "part": "number of this process within the run, from 0",
    "iteration": "number of the run",
    "workers": "worker nodes",
    "citus": "1 where the servers are Citus, else 0",
    "out": "the folder in which the process works and leaves its files",
    "home": "`driver.home`",
    "psql": "psql as the runner found it",
    "pgbench": "pgbench as the runner found it",
}
_PLACEHOLDER: Final = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_SQL_VARIABLE: Final = re.compile(r"(?<![:\w]):([a-z][a-z0-9_]*)")
_WORKLOAD_NAME: Final = re.compile(r"[a-z][a-z0-9-]*")

Value = str | int | float


def find_placeholders(text: str) -> list[str]:
    """Names in braces; braces around other text are no placeholders.

    Example:
        >>> find_placeholders('--host={host} {"json": 1}')
        ['host']
    """
    return _PLACEHOLDER.findall(text)


def _make_pattern_validator(*groups: str) -> AfterValidator:
    def checked(pattern: str) -> str:
        if problem := find_pattern_problem(pattern, groups):
            raise ValueError(problem)
        return pattern

    return AfterValidator(checked)


def _check_free_names(variables: dict[str, Value]) -> dict[str, Value]:
    for name in variables:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise ValueError(f"{name!r}: only small letters, digits and `_`, beginning with a letter")
        if name in PLACEHOLDERS:
            raise ValueError(f"{name!r} is the name of a value that the runner sets")
    return variables


def _check_known_names(summary: dict[str, str]) -> dict[str, str]:
    if unknown := summary.keys() - SUMMARY_NAMES:
        raise ValueError(f"{min(unknown)!r} is not known; known: {', '.join(SUMMARY_NAMES)}")
    computed = "operations_done" in summary and {"runtime_s", "runtime_ms"} & summary.keys()
    if summary and not computed and not {"throughput_ops_s", "throughput_ops_min"} & summary.keys():
        raise ValueError("contains no throughput: add throughput_ops_s, or operations_done and runtime_s")
    return summary


def _check_known_formats(files: dict[str, str | None]) -> dict[str, str | None]:
    for pattern, name in files.items():
        if pattern.startswith("/") or ".." in pattern.split("/"):
            raise ValueError(f"{pattern!r} is outside the folder of the process")
        if name is not None:
            try:
                known = format_named(name)
            except UnknownNameError as error:
                raise ValueError(str(error)) from error
            if "clients" in known.tables:
                raise ValueError(f"{pattern!r}: a client's report is what the command prints, not a file beside it")
    return files


def _check_environment_names(environment: dict[str, str]) -> dict[str, str]:
    for text in environment.values():
        if unknown := [name for name in find_placeholders(text) if name not in PLACEHOLDERS or name == "password"]:
            raise ValueError(f"{{{unknown[0]}}} cannot be used here")
    return environment


Pattern = Annotated[str, _make_pattern_validator()]


class OwnWorkload(ExperimentPart):
    """A workload's tables, and the steps that make them."""

    set_up: list[LocalFile | Annotated[list[str], Field(min_length=1)]] = Field(
        default_factory=list,
        description="steps that make and fill the tables: an SQL file for psql, or a list of arguments",
    )
    set_up_for: Literal["each_run", "each_size"] = Field(
        "each_run",
        description="`each_size`: only if the tables were made with other workers, records, variables or steps",
    )
    variables: Annotated[dict[str, Value], AfterValidator(_check_free_names)] = Field(
        default_factory=dict, description="values by name for SQL files, scripts and arguments"
    )


class WorkloadScript(ExperimentPart):
    """One script of a pgbench load."""

    file: LocalFile | None = Field(None, description="pgbench script: a path")
    builtin: Literal["tpcb-like", "simple-update", "select-only"] | None = Field(
        None, description="or the name of a built-in script of pgbench"
    )
    weight: Positive = Field(1, description="frequency of its choice, relative to the other scripts")

    @model_validator(mode="after")
    def _one_source(self) -> WorkloadScript:
        if (self.file is None) == (self.builtin is None):
            raise ValueError("needs either file or builtin")
        return self


class ScriptKey(ExperimentPart):
    """A number of 0 to `matrix.records` - 1 that is chosen at random before each transaction of a pgbench load."""

    variable: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")] = Field(description="its name in the scripts")
    table: str = Field(description="table whose distribution column has it, for `matrix.entry: [owner]`")


class ScriptedWorkload(OwnWorkload):
    """A load of weighted pgbench scripts."""

    scripts: Annotated[list[WorkloadScript], Field(min_length=1)] = Field(description="scripts that pgbench runs")
    rate_ops_s: float | None = Field(
        None, gt=0, description="transactions per second over all load generators; default: no limit"
    )
    key: ScriptKey | None = Field(
        None, description="number that the runner chooses before each transaction; required by `matrix.entry: [owner]`"
    )


class OutputMetric(ExperimentPart):
    """A number in a tool's output that is not part of the summary."""

    pattern: Pattern = Field(description="regular expression with one group, the number")
    metric: str = Field(description="name, such as AverageLatency, 95thPercentileLatency or NOPM")
    section: str = Field("OVERALL", description="operation that it belongs to")
    unit: str | None = Field(None, description="us, ms, s, ...")


class CommandWorkload(OwnWorkload):
    """A load of another tool."""

    run: Annotated[list[str], Field(min_length=1)] = Field(
        description="program and arguments, executed without a shell; placeholders such as `{threads}` are replaced"
    )
    templates: dict[str, LocalFile] = Field(
        default_factory=dict,
        description="files in which placeholders are replaced too; `{NAME}` in arguments is the path of the result",
    )
    summary: Annotated[dict[str, Pattern], AfterValidator(_check_known_names)] = Field(
        default_factory=dict,
        description="summary that the tool prints at the end: name -> regular expression with one group; without it, "
        "the output has a format that `ingest` recognises",
    )
    interval: Annotated[str, _make_pattern_validator("elapsed_s", "throughput_ops_s")] | None = Field(
        None, description="its status line: a regular expression with groups `elapsed_s` and `throughput_ops_s`"
    )
    metrics: list[OutputMetric] = Field(default_factory=list, description="further numbers of the output")
    files: Annotated[dict[str, str | None], AfterValidator(_check_known_formats)] = Field(
        default_factory=dict,
        description="files that the tool writes: pattern -> format; null: `ingest` does not read them",
    )

    @model_validator(mode="after")
    def _known_placeholders(self) -> CommandWorkload:
        known = PLACEHOLDERS.keys() | self.variables.keys() | self.templates.keys()
        for text in _iterate_arguments(self):
            for name in find_placeholders(text):
                if name not in known:
                    raise ValueError(f"{{{name}}} in {text!r} is not known; known: {', '.join(sorted(known))}")
                if name == "password":
                    raise ValueError(f"{text!r}: a password must not be an argument, which every user can read")
        return self


_Workload = TypeVar("_Workload", bound="OwnWorkload")


def check_workload_names(workloads: dict[str, _Workload]) -> dict[str, _Workload]:
    """The same workloads, if their names can be part of file names and differ from core workloads.

    Raises:
        ValueError: a name cannot be used.
    """
    for name in workloads:
        if not _WORKLOAD_NAME.fullmatch(name) or len(name) == 1 or name.startswith("load"):
            raise ValueError(f"{name!r}: small letters, digits and `-`, at least two, not beginning with `load`")
    return workloads


class CommandDriver(ExperimentPart):
    """Commands of any tool, each a list of arguments."""

    kind: Literal["command"] = "command"
    tool: str = Field(min_length=1, description="name of the tool in the results")
    home: LocalPath | None = Field(None, description="folder of the tool's installation")
    work_in_home: bool = Field(False, description="whether the tool must run there, instead of in a separate folder")
    workloads: Annotated[dict[str, CommandWorkload], Field(min_length=1), AfterValidator(check_workload_names)] = Field(
        description="loads by name, for matrix.workloads"
    )
    environment: Annotated[dict[str, str], AfterValidator(_check_environment_names)] = Field(
        default_factory=dict, description="further environment variables; libpq's are set"
    )
    login_env: list[str] = Field(
        default_factory=list, description="environment variables that contain the password, in addition to PGPASSWORD"
    )


def collect_used_names(workload: OwnWorkload) -> set[str]:
    """Names that a workload's arguments, templates and SQL files use, including variables of the workload.

    Raises:
        InputError: a file cannot be read.
    """
    names = {name for text in _iterate_arguments(workload) for name in find_placeholders(text)}
    for path in _iterate_local_files(workload):
        text = read_file(path, hint="correct the experiment file")
        names |= {*find_placeholders(text), *_SQL_VARIABLE.findall(text)}
    return names


def read_file(path: Path, *, hint: str) -> str:
    """The text of a file of the experiment.

    Raises:
        InputError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", path=path, hint=hint) from error


def _iterate_arguments(workload: OwnWorkload) -> Iterator[str]:
    for step in workload.set_up:
        if isinstance(step, list):
            yield from step
    if isinstance(workload, CommandWorkload):
        yield from workload.run


def _iterate_local_files(workload: OwnWorkload) -> Iterator[LocalFile]:
    yield from (step for step in workload.set_up if not isinstance(step, list))
    if isinstance(workload, CommandWorkload):
        yield from workload.templates.values()
    if isinstance(workload, ScriptedWorkload):
        yield from (script.file for script in workload.scripts if script.file)


# `driver`: the load generator.


def _reject_secret_properties(properties: dict[str, Setting]) -> dict[str, Setting]:
    if any(names_secret(name) for name in properties):
        raise ValueError("passwords do not belong in this file: set PGPASSWORD or PGPASSFILE")
    return properties


class PgbenchDriver(ExperimentPart):
    """YCSB's table and core workloads as pgbench scripts."""

    kind: Literal["pgbench"] = "pgbench"
    protocol: Literal["simple", "extended", "prepared"] = Field("prepared", description="pgbench's query mode")
    distribution: Literal["uniform", "zipfian", "latest"] | None = Field(
        None, description="key distribution of requests; default: the core workload's own"
    )
    log_transactions: bool = Field(False, description="log every transaction (--log)")
    workloads: Annotated[dict[str, ScriptedWorkload], AfterValidator(check_workload_names)] = Field(
        default_factory=dict, description="own scripts by name, for matrix.workloads"
    )


class DriverHost(ExperimentPart):
    """A machine on which load generators run."""

    host: str = Field(description="name or address")
    ssh_user: str | None = Field(None, description="user for ssh; keys come from the agent or the ssh configuration")
    ssh_port: int = Field(22, gt=0, lt=65536, description="port of sshd")
    home: str | None = Field(None, description="folder of the YCSB installation there; default: `driver.home`")
    java: str = Field("java", description="Java's program there: a name in PATH, or a path")


class YcsbDriver(ExperimentPart):
    """A YCSB installation with the JDBC binding."""

    kind: Literal["ycsb"] = "ycsb"
    home: LocalPath = Field(description="folder of the installation: lib/, jdbc-binding/lib/, workloads/")
    binding: str = Field("site.ycsb.db.JdbcDBClient", description="class of the database binding")
    jdbc: Literal["load_balance_hosts", "even"] = Field(
        "load_balance_hosts",
        description="one URL with all nodes and loadBalanceHosts, or one for each node: keys choose among them",
    )
    properties: Annotated[dict[str, Setting], AfterValidator(_reject_secret_properties)] = Field(
        default_factory=dict, description="further YCSB properties"
    )
    java_options: list[str] = Field(default_factory=list, description="options of the Java machine, such as -Xmx4g")
    hosts: list[DriverHost] = Field(
        default_factory=list,
        description="machines on which the load generators are started by ssh, in turn; default: this machine",
    )


# `matrix`: the varied values.

#: Workloads of every driver except `command`.
CORE_NAMES = ("load", "load-e", "a", "b", "c", "d", "e", "f")

_LIST, _MAPPING = "=list", "=mapping"
#: Tags of the two shapes of numbers; they do not occur in the file, so messages omit them.
TAGS = (_LIST, _MAPPING)
Numbers = Annotated[list[Positive], Field(min_length=1)]
#: Where load generators connect to.
EntryName = Literal["coordinator", "any-node", "owner"]


def _shape(value: object) -> str:
    return _MAPPING if isinstance(value, Mapping) else _LIST


#: Numbers for all workloads, or a mapping from a workload or phase to its numbers.
NumbersByWorkload = Annotated[
    Annotated[Numbers, Tag(_LIST)] | Annotated[dict[str, Numbers], Tag(_MAPPING)], Discriminator(_shape)
]


class Matrix(ExperimentPart):
    """Every combination of these values is a configuration."""

    workloads: Annotated[list[str], Field(min_length=1)] = Field(
        description="`load` (INSERT phase of workload a), `load-e`, a core workload a to f, or one of driver.workloads"
    )
    threads: NumbersByWorkload = Field(
        [1],
        description="client threads, over all load generators; or a list for each workload or phase: "
        "`{load: [990], run: [800], e: [100]}`",
    )
    workers: list[Annotated[int, Field(ge=0)]] = Field(
        [], description="worker nodes; 0 = a single server; default: all workers of a Citus cluster, else 0"
    )
    records: list[Positive] = Field([10_000], description="records in the table; the load phase inserts them")
    operations: list[Positive] = Field([10_000], description="ignored by the load phase, which inserts all records")
    drivers: NumbersByWorkload = Field(
        [1],
        description="load generators that run at the same time; or a list for each workload or phase, like `threads`",
    )
    protocol: list[Literal["simple", "extended", "prepared"]] = Field([], description="pgbench: overrides the driver's")
    entry: list[EntryName] = Field(
        [],
        description="where load generators connect to, instead of `target.connect_to`; any-node, owner: the nodes that "
        "hold shards, in turn; owner: each uses only keys whose shard is on its node",
    )
    monitored: list[bool] = Field([False], description="whether the sampled client runs during the load")
    settings: dict[str, list[Setting]] = Field(default_factory=dict, description="server setting -> values")

    @model_validator(mode="after")
    def _numbers_for_every_workload(self) -> Matrix:
        for name, numbers in (("threads", self.threads), ("drivers", self.drivers)):
            for workload in self.workloads:
                _select_workload_numbers(numbers, workload, name)
        return self

    def get_threads(self, workload: str) -> list[int]:
        """Numbers of client threads of a workload: its own, or else those of its phase.

        Example:
            >>> matrix = Matrix(workloads=["load", "c", "e"], threads={"load": [990], "run": [800], "e": [100]})
            >>> [matrix.get_threads(workload) for workload in matrix.workloads]
            [[990], [800], [100]]
        """
        return _select_workload_numbers(self.threads, workload, "threads")

    def get_drivers(self, workload: str) -> list[int]:
        """Numbers of load generators of a workload: its own, or else those of its phase."""
        return _select_workload_numbers(self.drivers, workload, "drivers")

    @property
    def all_threads(self) -> list[int]:
        """Every number of client threads that a workload has, each once."""
        return list(dict.fromkeys(number for workload in self.workloads for number in self.get_threads(workload)))

    @property
    def all_drivers(self) -> list[int]:
        """Every number of load generators that a workload has, each once."""
        return list(dict.fromkeys(number for workload in self.workloads for number in self.get_drivers(workload)))


def _select_workload_numbers(numbers: list[int] | dict[str, list[int]], workload: str, name: str) -> list[int]:
    if not isinstance(numbers, dict):
        return numbers
    phase = "load" if workload.startswith("load") else "run"
    for place in (workload, phase):
        if place in numbers:
            return numbers[place]
    raise ValueError(f"{name}: no value for workload {workload}; add {workload}: or {phase}:")


# Fields that determine how runs are measured: `monitor`, `samplers`, `limits`, `stop`.


class Monitor(ExperimentPart):
    """The sampled client: its statements are logged by every node, the main client's are not."""

    role: str = Field("monitor", description="database role; created with logging if the runner has the right")
    login_env: str | None = Field(
        None, min_length=1, description="environment variable with the role's password; default: libpq's rules"
    )
    login_file: LocalPath | None = Field(None, description="file whose first line is the role's password")
    log_min_messages: Literal["auto", "debug1", "debug2", "debug3", "debug4"] = Field(
        "auto",
        description="setting of the role; `auto`: the level at which the cluster reports task times (stock Citus: "
        "debug4; a build for measurements: debug1)",
    )
    share: float = Field(0.001, gt=0, le=0.5, description="share of the operations")
    rate_ops_s: float | None = Field(
        None,
        gt=0,
        description="operations per second; unlike `share`, it requires no previous measurement",
    )
    connections: Positive = Field(1, description="connections to every node")


class Samplers(ExperimentPart):
    """Recordings during the load, on every node with a shell."""

    iostat: bool = Field(True, description="CPU and devices, with times")
    vmstat: bool = Field(True, description="memory and scheduler, with times")
    host: bool = Field(True, description="pressure, network and throttling as the kernel counts them, with times")
    canary: bool = Field(
        True,
        description="a fixed piece of work each second, timed, and the CPU time of programs that are not the run's own "
        "(1 to 2 ms of CPU time; needs python3)",
    )
    backends: bool = Field(
        True,
        description="memory and CPU time of each process of a server, in at most a fiftieth of a processor (needs "
        "python3; memory only as root or the server's user)",
    )
    activity: bool = Field(True, description="sessions and their waits (pg_stat_activity) on every node, each second")
    counters: bool = Field(True, description="cumulative views of every node (pg_stat_...) before and after each run")
    perf: bool = Field(
        False,
        description="perf record of the server processes of every machine with a shell, reported with call graphs",
    )
    plans: tuple[str, ...] = Field(
        (),
        description="statements that are explained on the coordinator once after each run, with ANALYZE and BUFFERS "
        "and all tasks; they are executed, and their changes are rolled back",
    )
    interval_s: Positive = Field(1, description="time between two samples")


class Limits(ExperimentPart):
    """When a measured run ends."""

    duration_s: Positive | None = Field(None, description="time limit; default: when the operations are done")
    timeout_s: Positive = Field(3600, description="a run that takes longer is stopped and marked failed")
    max_failures: Positive = Field(
        5,
        description="the experiment stops if this number of runs of one call fails for the same reason",
    )


class StopRule(ExperimentPart):
    """Rule for the number of iterations."""

    rule: Literal["fixed", "interval"] = Field(
        "fixed", description="`interval`: at least `iterations`, then until the mean's interval is narrow enough"
    )
    relative_half_width: float = Field(
        0.05, gt=0, lt=1, description="half width of the interval over the mean throughput"
    )
    level: float = Field(LEVEL, gt=0, lt=1, description="confidence level of the interval (Student's t)")
    max_iterations: Positive = Field(20, description="the experiment makes no more iterations than this")


# The systems that a cluster target supports, and the capabilities of each.
#
# Aurora and Spanner's PGAdapter grant no superuser: their logs are exported as files, and their roles and settings
# belong to their owners. Steps that need a missing capability are skipped, and `config.yml` records the reason.


@dataclass(frozen=True)
class Capabilities:
    """Operations that a system supports.

    Attributes:
        server_logs: its server logs can be read.
        roles: roles with settings of their own can be created.
        settings: server settings can be read and changed.
        truncate: TRUNCATE and VACUUM are supported.
        locks: advisory locks and comments on tables are supported.

    Example:
        >>> CAPABILITIES["spanner"].missing()[1]
        'the monitor role: the service has no role settings'
    """

    server_logs: bool
    roles: bool
    settings: bool
    truncate: bool
    locks: bool = True

    def missing(self) -> list[str]:
        """A phrase for each missing capability that matters to a reader of the results."""
        supported = {
            "server logs: give exports of the service as files": self.server_logs,
            "the monitor role: the service has no role settings": self.roles,
            "server settings: the service does not let them be changed": self.settings,
        }
        return [phrase for phrase, is_supported in supported.items() if not is_supported]


CAPABILITIES: Final[dict[str, Capabilities]] = {
    "citus": Capabilities(server_logs=True, roles=True, settings=True, truncate=True),
    "postgresql": Capabilities(server_logs=True, roles=True, settings=True, truncate=True),
    "aurora": Capabilities(server_logs=False, roles=True, settings=False, truncate=True),
    "spanner": Capabilities(server_logs=False, roles=False, settings=False, truncate=False, locks=False),
}


def _check_known_system(name: str) -> str:
    if name not in CAPABILITIES:
        raise ValueError(f"is not a system that is known: {', '.join(CAPABILITIES)}")
    return name


#: The name of one of the systems in an experiment file.
SystemName = Annotated[str, AfterValidator(_check_known_system), Field(json_schema_extra={"enum": list(CAPABILITIES)})]

# `target`: the servers under test.

#: The prefix that the study fixed; every server that the runner configures uses it.
LOG_LINE_PREFIX = "%m [%p] [%v] : [%l-1] %q[app=%a] "


def _resolve_postgres_folder(postgres: str) -> str:
    return postgres if postgres in ("wheel", "system") else str(Path(postgres).resolve())


def _check_target_name(name: str) -> str:
    if problem := find_file_name_problem(name):
        raise ValueError(f"becomes part of file names, but {problem}")
    return name


class EmbeddedTarget(ExperimentPart):
    """A server that is made, started, stopped and removed by the runner."""

    kind: Literal["embedded"] = "embedded"
    postgres: Annotated[str, AfterValidator(_resolve_postgres_folder)] = Field(
        "wheel", description="`wheel` (PostgreSQL from the Python package), `system`, or a folder with its programs"
    )
    version: int | None = Field(None, description="major version; default: the newest that is installed")
    settings: dict[str, Setting] = Field(
        default_factory=dict,
        description="server settings, added to the runner's own; fsync is on unless named here",
    )


class NodeAddress(ExperimentPart):
    """Address of a node of a cluster, and access to its machine."""

    host: str = Field(description="name or address")
    port: int = Field(5432, gt=0, lt=65536, description="PostgreSQL's port")
    role: Literal["coordinator", "worker"] = Field("worker", description="role of the node in the cluster")
    name: Annotated[str, AfterValidator(_check_target_name)] | None = Field(
        None, description="name in file names; default: 0 for the coordinator, then 1, 2, ..."
    )
    shell: Literal["none", "local", "ssh"] = Field(
        "none", description="how samplers run and logs are read: no samplers, logs over SQL; on this machine; by ssh"
    )
    ssh_user: str | None = Field(None, description="user for ssh; keys come from the agent or the ssh configuration")
    ssh_port: int = Field(22, gt=0, lt=65536, description="port of sshd")
    log_directory: str | None = Field(None, description="folder of the server logs, for `local` and `ssh`")


class ClusterTarget(ExperimentPart):
    """Servers that are there already."""

    kind: Literal["cluster"] = "cluster"
    system: SystemName = Field(
        "citus", description="determines the queries that the target supports; Spanner is reached through PGAdapter"
    )
    nodes: Annotated[list[NodeAddress], Field(min_length=1)] = Field(
        description="addresses; Citus: the coordinator is enough, workers are listed to give them a shell"
    )
    database: str = Field("postgres", description="database of the table")
    user: str = Field("postgres", description="the password is found by libpq: PGPASSWORD, PGPASSFILE, PGSERVICE")
    discover: bool = Field(True, description="Citus: read the workers from pg_dist_node instead of `nodes`")
    connect_to: Literal["workers", "coordinator", "all"] = Field(
        "workers", description="nodes the load generators connect to (query from any node)"
    )
    hardware: str | None = Field(None, description="machines of the nodes, in words; no query returns them")
    cpu_per_node: float | None = Field(
        None, gt=0, description="cores that each node may use, if they are limited (control groups, containers)"
    )
    collect_logs: bool = Field(True, description="`false`: no server logs, for a user who may not read them")
    shard_count: Positive | None = Field(None, description="Citus: shards of the table; default: the server's setting")
    shards_per_worker: Positive | None = Field(
        None, description="Citus: shards per worker of the run, instead of `shard_count`"
    )
    growth: Literal["refill", "rebalance"] = Field(
        "refill",
        description="Citus: if a run has more workers than the previous run, create the table again, or move shards "
        "to the new workers and measure the duration",
    )
    add_nodes: bool = Field(
        False,
        description="Citus: add workers from `nodes` (citus_add_node) for a run that needs more workers than "
        "pg_dist_node lists; at the end they are removed",
    )
    reload_with: Literal["alter_system", "none"] = Field(
        "none",
        description="`alter_system` lets the runner set server settings of the matrix by ALTER SYSTEM and reload",
    )

    @model_validator(mode="after")
    def _fields_fit(self) -> ClusterTarget:
        if self.shards_per_worker and self.shard_count:
            raise ValueError("shard_count and shards_per_worker exclude each other; leave one of them out")
        if self.shards_per_worker and self.growth == "rebalance":
            raise ValueError("growth: rebalance moves shards and makes no new ones; use shard_count")
        if self.add_nodes and (self.system != "citus" or not self.discover):
            raise ValueError("add_nodes: needs system: citus and discover: true")
        return self


class FilesTarget(ExperimentPart):
    """Nothing is launched: existing files are given an identity and copied into the artefact tree."""

    kind: Literal["files"] = "files"
    files: Annotated[list[dict[str, str]], Field(min_length=1)] = Field(
        description="one mapping per file: `path` and its identity (resource, phase, workload, threads, ...)"
    )


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def _check_file_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError("only letters, digits, `_` and `-`, beginning with a letter or digit")
    return name


class Experiment(ExperimentPart):
    """One experiment file."""

    name: Annotated[str, AfterValidator(_check_file_name)] = Field(
        description="letters, digits, `_` and `-`; begins the names of the resources"
    )
    description: str = Field("", description="for readers; kept with the results")
    set_up: str | None = Field(
        None, min_length=1, description="the set-up in words (`8 shards`), as reports call it; default: the name"
    )
    target: EmbeddedTarget | ClusterTarget | FilesTarget = Field(
        EmbeddedTarget(), discriminator="kind", description="the servers under test"
    )
    driver: PgbenchDriver | YcsbDriver | CommandDriver = Field(
        PgbenchDriver(), discriminator="kind", description="the load generator"
    )
    matrix: Matrix = Field(description="the values that are varied")
    iterations: Positive = Field(3, description="runs of every configuration")
    order: Literal["interleaved", "sequential", "study"] = Field(
        "interleaved",
        description="interleaved: one randomised block per iteration, so that drift affects all equally; study: size "
        "by size, workloads in the order load, a, b, c, f, d, load-e, e, and the table is filled only if necessary",
    )
    between: list[Literal["vacuum", "checkpoint"]] = Field(
        [],
        description="steps before every measured run, in this order: VACUUM of the table, CHECKPOINT of nodes",
    )
    seed: int = Field(1, description="seed of the random order; recorded with the results")
    warmup_s: float = Field(0, ge=0, description="duration of an unrecorded load before every measured run")
    limits: Limits = Field(Limits(), description="conditions for the end of a measured run")
    stop: StopRule = Field(StopRule(), description="the number of iterations that is sufficient")
    monitor: Monitor = Field(Monitor(), description="the sampled client")
    samplers: Samplers = Field(Samplers(), description="the recordings during the load")

    @field_validator("matrix")
    @classmethod
    def _known_workloads(cls, matrix: Matrix, info: ValidationInfo) -> Matrix:
        driver = info.data.get("driver")
        if driver is None:
            return matrix  # refused for another reason
        core = () if isinstance(driver, CommandDriver) else CORE_NAMES
        own = () if isinstance(driver, YcsbDriver) else tuple(driver.workloads)
        for workload in matrix.workloads:
            if workload not in (*core, *own):
                problem = f"{workload!r} is not a workload; known: {', '.join((*core, *own))}"
                raise _make_field_error("workloads", problem, matrix.workloads)
        for name, numbers in (("threads", matrix.threads), ("drivers", matrix.drivers)):
            if isinstance(numbers, dict) and (unknown := numbers.keys() - {*core, *own, "load", "run"}):
                problem = f"{min(unknown)!r} is neither a workload nor one of the phases load and run"
                raise _make_field_error(name, problem, numbers)
        return matrix

    def own_workload(self, name: str) -> OwnWorkload | None:
        """The entry of driver.workloads for a workload; None for a core workload."""
        return None if isinstance(self.driver, YcsbDriver) else self.driver.workloads.get(name)

    @model_validator(mode="after")
    def _commands_can_be_run(self) -> Experiment:
        if not isinstance(self.driver, CommandDriver):
            return self
        if any(self.matrix.monitored):
            raise ValueError("matrix.monitored: the command driver has no sampled client")
        timed = any("duration_s" in " ".join(self.driver.workloads[name].run) for name in self.matrix.workloads)
        if timed and self.limits.duration_s is None:
            raise ValueError("limits.duration_s: required, because a command uses {duration_s}")
        return self

    @model_validator(mode="after")
    def _inserts_of_several_ycsb_clients(self) -> Experiment:
        inserting = [workload for workload in self.matrix.workloads if workload in ("d", "e")]
        several = any(max(self.matrix.get_drivers(workload)) > 1 for workload in inserting)
        if isinstance(self.driver, YcsbDriver) and several:
            # Every YCSB client begins the inserts of its transactions at recordcount: two would insert the same keys.
            hint = "write drivers: {load: [2], run: [2], d: [1], e: [1]}"
            raise ValueError(f"matrix.workloads: with YCSB, workloads d and e insert and need drivers: [1]; {hint}")
        return self

    @model_validator(mode="after")
    def _nodes_can_be_chosen(self) -> Experiment:
        if not self.matrix.entry:
            return self
        is_other = isinstance(self.target, ClusterTarget) and self.target.system != "citus"
        if isinstance(self.target, FilesTarget) or is_other:
            raise ValueError("matrix.entry: only a Citus cluster has several nodes to choose from")
        if 0 in self.matrix.workers or (isinstance(self.target, EmbeddedTarget) and not self.matrix.workers):
            raise ValueError("matrix.entry: a single server has no nodes to choose from; set matrix.workers: [2]")
        if "owner" in self.matrix.entry:
            self._refuse_unowned_keys()
        return self

    def _refuse_unowned_keys(self) -> None:
        """Refuse what load generators cannot do with keys of one node."""
        driver, matrix = self.driver, self.matrix
        if not isinstance(driver, PgbenchDriver):
            problem = (
                "matrix.entry: owner needs driver.kind: pgbench; no property of YCSB's client limits it to keys of a "
                "node (it hashes consecutive numbers), and keys of other tools are not known"
            )
            raise _make_field_error("entry", problem, matrix.entry)
        for name in matrix.workloads:
            own = driver.workloads.get(name)
            if own and own.key is None:
                raise ValueError(f"driver.workloads.{name}.key: required by matrix.entry: [owner]")
            if name in ("d", "e"):
                raise ValueError(
                    f"matrix.workloads: {name!r} asks for records that it inserts, or for several shards; entry owner "
                    "needs load, a, b, c, f, or a workload of driver.workloads with a key"
                )
            if not own and not name.startswith("load") and driver.distribution != "uniform":
                raise ValueError(
                    "driver.distribution: matrix.entry: [owner] needs uniform, because the hottest keys of each node "
                    "are not those of the whole table"
                )
            for drivers, workers in product(matrix.get_drivers(name), matrix.workers):
                if drivers % workers:
                    raise ValueError(
                        "matrix.drivers: entry owner needs a load generator for each node, or a multiple of them: "
                        f"{drivers} is none of {pluralize(workers, 'worker')}"
                    )

    @model_validator(mode="after")
    def _fields_fit(self) -> Experiment:
        matrix = self.matrix
        if "monitor" in self.model_fields_set and "monitored" not in matrix.model_fields_set:
            raise ValueError("monitor: without matrix.monitored no run is sampled; set matrix.monitored: [true]")
        if any(min(matrix.get_threads(one)) < max(matrix.get_drivers(one)) for one in matrix.workloads):
            raise ValueError("matrix.threads: fewer threads than drivers; every load generator needs one")
        grows = isinstance(self.target, ClusterTarget) and self.target.growth == "rebalance"
        if grows and self.order == "interleaved":
            raise ValueError("target.growth: rebalance needs runs ordered by size; set order: study or sequential")
        return self


def _make_field_error(field: str, problem: str, value: object) -> ValidationError:
    """A refusal that names a field inside the one that is validated."""
    error = PydanticCustomError("value_error", "{problem}", {"problem": problem})
    return ValidationError.from_exception_data("Matrix", [InitErrorDetails(type=error, loc=(field,), input=value)])


def parse_experiment(document: Mapping[str, object], *, path: str | PathLike[str] | None = None) -> Experiment:
    """Validate an experiment given as a mapping.

    Raises:
        InputError: a field is unknown, missing or wrong; the message names the field and what is allowed.
    """
    # The description is prose: words in it that look like a secret are redacted when it is stored.
    stated = {name: value for name, value in document.items() if name != "description"}
    if redact_values(stated) != stated:
        raise InputError("holds a secret", path=path, hint="remove it; set PGPASSWORD or PGPASSFILE instead")
    try:
        return Experiment.model_validate(document, context={FOLDER: Path(path).parent} if path else None)
    except ValidationError as error:
        problem, loc = describe_validation_error(error)
        place = ".".join(str(part) for part in loc if part not in TAGS) or "document"
        hint = "see docs/experiment-fields.md for every field"
        raise InputError(problem, path=path, place=f"field '{place}'", hint=hint) from error


def load_experiment(name_or_path: str | PathLike[str], changes: Mapping[str, str] | None = None) -> Experiment:
    """Read an experiment file, or a shipped experiment by its name (`laptop`, `laptop.yml`).

    Args:
        name_or_path: the file, or the name.
        changes: values instead of the file's: dotted field -> value in YAML.

    Raises:
        UsageError: a change names no field of the document.
        UnknownNameError: there is neither a file nor a shipped experiment of that name.
        InputError: the file is not valid.
    """
    path = Path(name_or_path)
    if not path.exists():
        folder = find_shipped_folder("experiments")
        path = folder / f"{path.stem}.yml"
        if not path.exists() or Path(name_or_path).stem != str(name_or_path).removesuffix(".yml").split("/")[-1]:
            raise UnknownNameError("experiment file", str(name_or_path), [file.stem for file in folder.glob("*.yml")])
    try:
        # One byte more than allowed, so that too long files, and endless devices, are refused by their length.
        with path.open("rb") as file:
            document = parse_yaml(file.read(YAML_LIMIT_BYTES + 1))
    except OSError as error:
        raise InputError(f"cannot be read: {error}", path=path) from error
    except FormatError as error:
        hint = "check the indentation"
        raise InputError(error.problem, path=path, place=error.place, hint=hint) from error
    if not isinstance(document, dict):
        raise InputError("is not a mapping of fields", path=path, hint="see docs/experiments.md")
    return parse_experiment(apply_document_changes(document, changes or {}), path=path)


def build_experiment_schema() -> dict[str, object]:
    """The JSON schema of experiment files, for use in editors."""
    return Experiment.model_json_schema()

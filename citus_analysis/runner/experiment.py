"""The experiment file: what to run, on what, with what, how often.

YAML, validated before anything starts; `citus-analysis run --schema` prints its JSON schema for editors. Secrets
have no field here: they come from the environment or from `PGPASSFILE`.

Example:
    >>> experiment = parse_experiment({"name": "demo", "matrix": {"workloads": ["load", "c"], "threads": [1, 4]}})
    >>> experiment.target.kind, experiment.driver.kind, experiment.iterations
    ('embedded', 'pgbench', 3)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from citus_analysis.errors import FormatError, InputError, UnknownNameError
from citus_analysis.names import file_name_problem
from citus_analysis.redaction import names_secret, redact_values
from citus_analysis.runner.changes import changed_document
from citus_analysis.runner.fields import FOLDER, LocalPath, Part, Positive, Setting
from citus_analysis.runner.own_workloads import (
    CommandDriver,
    OwnWorkload,
    ScriptedWorkload,
    check_workload_names,
)
from citus_analysis.shipped import shipped
from citus_analysis.yaml_text import YAML_LIMIT_BYTES, parse_yaml

__all__ = [
    "CORE_NAMES",
    "LOG_LINE_PREFIX",
    "ClusterTarget",
    "CommandDriver",
    "DriverHost",
    "EmbeddedTarget",
    "Experiment",
    "FilesTarget",
    "Matrix",
    "Monitor",
    "NodeAddress",
    "PgbenchDriver",
    "Samplers",
    "Setting",
    "StopRule",
    "YcsbDriver",
    "experiment_schema",
    "load_experiment",
    "parse_experiment",
    "setting_text",
]

#: The prefix the study fixed; every server the runner configures logs with it.
LOG_LINE_PREFIX = "%m [%p] [%v] : [%l-1] %q[app=%a] "

#: Workloads that every driver but `command` brings.
CORE_NAMES = ("load", "load-e", "a", "b", "c", "d", "e", "f")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def setting_text(value: Setting) -> str:
    """A server setting as PostgreSQL writes it.

    Example:
        >>> setting_text(True), setting_text(4)
        ('on', '4')
    """
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


class EmbeddedTarget(Part):
    """A server that is made, started, stopped and removed by the runner."""

    kind: Literal["embedded"] = "embedded"
    postgres: str = Field(
        "wheel", description="`wheel` (PostgreSQL from the Python package), `system`, or a folder with its programs"
    )
    version: int | None = Field(None, description="major version; default: the newest there is")
    settings: dict[str, Setting] = Field(
        default_factory=dict, description="server settings beside the runner's own; fsync stays on unless named here"
    )

    @field_validator("postgres")
    @classmethod
    def _absolute_folder(cls, postgres: str) -> str:
        return postgres if postgres in ("wheel", "system") else str(Path(postgres).resolve())


class NodeAddress(Part):
    """How to reach one node of a cluster."""

    host: str = Field(description="name or address")
    port: int = Field(5432, gt=0, lt=65536, description="PostgreSQL's port")
    role: Literal["coordinator", "worker"] = Field("worker", description="what the node is in the cluster")
    name: str | None = Field(None, description="name in file names; default: 0 for the coordinator, then 1, 2, ...")
    shell: Literal["none", "local", "ssh"] = Field(
        "none", description="how samplers run and logs are read: not at all (logs over SQL), on this machine, by ssh"
    )
    ssh_user: str | None = Field(None, description="user for ssh; keys come from the agent or the ssh configuration")
    ssh_port: int = Field(22, gt=0, lt=65536, description="port of sshd")
    log_directory: str | None = Field(None, description="where the server logs are, for `local` and `ssh`")

    @field_validator("name")
    @classmethod
    def _usable_in_file_names(cls, name: str | None) -> str | None:
        if name is not None and (problem := file_name_problem(name)):
            raise ValueError(f"becomes part of file names, but {problem}")
        return name


class ClusterTarget(Part):
    """Servers that are there already."""

    kind: Literal["cluster"] = "cluster"
    system: Literal["citus", "postgresql", "aurora", "spanner"] = Field(
        "citus", description="decides what can be asked of it; Spanner is reached through PGAdapter"
    )
    nodes: Annotated[list[NodeAddress], Field(min_length=1)] = Field(
        description="addresses; Citus: the coordinator is enough, workers are listed to give them a shell"
    )
    database: str = Field("postgres", description="database that holds the table")
    user: str = Field("postgres", description="the password is found by libpq: PGPASSWORD, PGPASSFILE, PGSERVICE")
    discover: bool = Field(True, description="Citus: read the workers from pg_dist_node instead of `nodes`")
    connect_to: Literal["workers", "coordinator", "all"] = Field(
        "workers", description="nodes the load generators connect to (query from any node)"
    )
    collect_logs: bool = Field(True, description="`false`: no server logs, for a user who may not read them")
    shard_count: Positive | None = Field(None, description="Citus: shards of the table; default: the server's setting")
    shards_per_worker: Positive | None = Field(
        None, description="Citus: instead of `shard_count`, so many shards for every worker of the run"
    )
    growth: Literal["refill", "rebalance"] = Field(
        "refill",
        description="Citus, where a run has more workers than the one before it: make the table anew, or move shards "
        "to the new workers and measure how long that takes",
    )
    reload_with: Literal["alter_system", "none"] = Field(
        "none",
        description="`alter_system` lets the runner set server settings of the matrix by ALTER SYSTEM and reload",
    )

    @model_validator(mode="after")
    def _one_number_of_shards(self) -> ClusterTarget:
        if self.shards_per_worker and self.shard_count:
            raise ValueError("shard_count and shards_per_worker exclude each other; leave one of them out")
        if self.shards_per_worker and self.growth == "rebalance":
            raise ValueError("growth: rebalance moves shards and makes no new ones; use shard_count")
        return self


class FilesTarget(Part):
    """Nothing is launched: existing files are given an identity and copied into the artefact tree."""

    kind: Literal["files"] = "files"
    files: Annotated[list[dict[str, str]], Field(min_length=1)] = Field(
        description="one mapping per file: `path` and its identity (resource, phase, workload, threads, ...)"
    )


class PgbenchDriver(Part):
    """YCSB's table and core workloads as pgbench scripts."""

    kind: Literal["pgbench"] = "pgbench"
    protocol: Literal["simple", "extended", "prepared"] = Field("prepared", description="pgbench's query mode")
    distribution: Literal["uniform", "zipfian", "latest"] | None = Field(
        None, description="key distribution of requests; default: the core workload's own"
    )
    log_transactions: bool = Field(False, description="log every transaction (--log)")
    workloads: dict[str, ScriptedWorkload] = Field(
        default_factory=dict, description="loads of your own scripts by name, for matrix.workloads"
    )

    @field_validator("workloads")
    @classmethod
    def _usable_names(cls, workloads: dict[str, ScriptedWorkload]) -> dict[str, ScriptedWorkload]:
        return check_workload_names(workloads)


class DriverHost(Part):
    """A machine that load generators run on."""

    host: str = Field(description="name or address")
    ssh_user: str | None = Field(None, description="user for ssh; keys come from the agent or the ssh configuration")
    ssh_port: int = Field(22, gt=0, lt=65536, description="port of sshd")
    home: str | None = Field(None, description="folder of the YCSB installation there; default: `driver.home`")
    java: str = Field("java", description="program of the Java machine there, a name in PATH or a path")


class YcsbDriver(Part):
    """A YCSB installation with the JDBC binding."""

    kind: Literal["ycsb"] = "ycsb"
    home: LocalPath = Field(description="folder of the installation: lib/, jdbc-binding/lib/, workloads/")
    binding: str = Field("site.ycsb.db.JdbcDBClient", description="class of the database binding")
    jdbc: Literal["load_balance_hosts", "even"] = Field(
        "load_balance_hosts",
        description="one URL with all nodes and loadBalanceHosts, or nodes assigned evenly over the load generators",
    )
    properties: dict[str, Setting] = Field(default_factory=dict, description="further YCSB properties")
    java_options: list[str] = Field(default_factory=list, description="options of the Java machine, such as -Xmx4g")
    hosts: list[DriverHost] = Field(
        default_factory=list,
        description="machines that the load generators run on, in turns, by ssh; default: this machine",
    )

    @field_validator("properties")
    @classmethod
    def _no_secret(cls, properties: dict[str, Setting]) -> dict[str, Setting]:
        if any(names_secret(name) for name in properties):
            raise ValueError("passwords are not written here: set PGPASSWORD or PGPASSFILE")
        return properties


Numbers = Annotated[list[Positive], Field(min_length=1)]


def _shape(value: object) -> str:
    return _MAPPING if isinstance(value, Mapping) else _LIST


#: Tags of the two shapes; they stand for nothing in the file, so a message leaves them out.
_LIST, _MAPPING = "=list", "=mapping"
#: Numbers of all workloads, or workload or phase -> its numbers.
NumbersByWorkload = Annotated[
    Annotated[Numbers, Tag(_LIST)] | Annotated[dict[str, Numbers], Tag(_MAPPING)], Discriminator(_shape)
]


class Matrix(Part):
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
        [1], description="load generators that run at once; or a list for each workload or phase, like `threads`"
    )
    protocol: list[Literal["simple", "extended", "prepared"]] = Field([], description="pgbench: overrides the driver's")
    monitored: list[bool] = Field([False], description="whether the sampled client runs beside the load")
    settings: dict[str, list[Setting]] = Field(default_factory=dict, description="server setting -> values")

    @model_validator(mode="after")
    def _numbers_for_every_workload(self) -> Matrix:
        for name, numbers in (("threads", self.threads), ("drivers", self.drivers)):
            for workload in self.workloads:
                _numbers_of(numbers, workload, name)
        return self

    def threads_of(self, workload: str) -> list[int]:
        """Numbers of client threads of a workload: its own, or else those of its phase.

        Example:
            >>> matrix = Matrix(workloads=["load", "c", "e"], threads={"load": [990], "run": [800], "e": [100]})
            >>> [matrix.threads_of(workload) for workload in matrix.workloads]
            [[990], [800], [100]]
        """
        return _numbers_of(self.threads, workload, "threads")

    def drivers_of(self, workload: str) -> list[int]:
        """Numbers of load generators of a workload: its own, or else those of its phase."""
        return _numbers_of(self.drivers, workload, "drivers")

    @property
    def all_threads(self) -> list[int]:
        """Every number of client threads that a workload has, each once."""
        return list(dict.fromkeys(number for workload in self.workloads for number in self.threads_of(workload)))

    @property
    def all_drivers(self) -> list[int]:
        """Every number of load generators that a workload has, each once."""
        return list(dict.fromkeys(number for workload in self.workloads for number in self.drivers_of(workload)))


def _numbers_of(numbers: list[int] | dict[str, list[int]], workload: str, name: str) -> list[int]:
    if not isinstance(numbers, dict):
        return numbers
    phase = "load" if workload.startswith("load") else "run"
    for place in (workload, phase):
        if place in numbers:
            return numbers[place]
    raise ValueError(f"{name}: nothing is said of workload {workload}; add {workload}: or {phase}:")


class Monitor(Part):
    """The sampled client: its statements are logged by every node, the main client's are not."""

    role: str = Field("monitor", description="database role; created with logging where the runner may")
    login_env: str | None = Field(
        None, min_length=1, description="environment variable that holds the role's password; default: libpq's rules"
    )
    login_file: LocalPath | None = Field(None, description="file whose first line is the role's password")
    log_min_messages: Literal["auto", "debug1", "debug2", "debug3", "debug4"] = Field(
        "auto",
        description="of the role; `auto` asks the cluster at which level it reports task times: stock Citus does at "
        "debug4, a build for measurements at debug1",
    )
    share: float = Field(0.001, gt=0, le=0.5, description="share of the operations")
    connections: Positive = Field(1, description="connections to every node")


class Samplers(Part):
    """What is recorded beside the load, on every node with a shell."""

    iostat: bool = Field(True, description="CPU and devices, with times")
    vmstat: bool = Field(True, description="memory and scheduler, with times")
    host: bool = Field(True, description="pressure, network and throttling as the kernel counts them, with times")
    activity: bool = Field(True, description="sessions and their waits (pg_stat_activity) on every node, each second")
    counters: bool = Field(True, description="cumulative views of every node (pg_stat_...) before and after each run")
    perf: bool = Field(
        False,
        description="perf record of the server processes of every machine with a shell, reported with call graphs",
    )
    interval_s: Positive = Field(1, description="time between two samples")


class Limits(Part):
    """When a measured run ends."""

    duration_s: Positive | None = Field(None, description="time limit; default: when the operations are done")
    timeout_s: Positive = Field(3600, description="a run that takes longer is stopped and marked failed")
    max_failures: Positive = Field(
        5, description="the experiment stops when so many runs of one call failed of one cause; it can be resumed"
    )


class StopRule(Part):
    """How many iterations are enough."""

    rule: Literal["fixed", "interval"] = Field(
        "fixed", description="`interval`: at least `iterations`, then until the mean's interval is narrow enough"
    )
    relative_half_width: float = Field(0.05, gt=0, lt=1, description="of the mean throughput's interval")
    level: float = Field(0.95, gt=0, lt=1, description="confidence level of the interval (Student's t)")
    max_iterations: Positive = Field(20, description="end in any case")


class Experiment(Part):
    """One experiment file."""

    name: str = Field(description="letters, digits, `_` and `-`; begins the names of the resources")
    description: str = Field("", description="for readers; kept with the results")
    target: EmbeddedTarget | ClusterTarget | FilesTarget = Field(
        EmbeddedTarget(), discriminator="kind", description="the servers under test"
    )
    driver: PgbenchDriver | YcsbDriver | CommandDriver = Field(
        PgbenchDriver(), discriminator="kind", description="the load generator"
    )
    matrix: Matrix = Field(description="what is varied")
    iterations: Positive = Field(3, description="runs of every configuration")
    order: Literal["interleaved", "sequential", "study"] = Field(
        "interleaved",
        description="interleaved: one randomised block per iteration, so that drift meets all alike; study: size by "
        "size, workloads in the order load, a, b, c, f, d, load-e, e, and the table is filled only where it must be",
    )
    between: list[Literal["vacuum", "checkpoint"]] = Field(
        [], description="done right before every measured run, in this order: VACUUM of the table, CHECKPOINT of nodes"
    )
    seed: int = Field(1, description="of the random order; recorded with the results")
    warmup_s: float = Field(0, ge=0, description="load before every measured run, not recorded")
    limits: Limits = Field(Limits(), description="when a measured run ends")
    stop: StopRule = Field(StopRule(), description="how many iterations are enough")
    monitor: Monitor = Field(Monitor(), description="the sampled client")
    samplers: Samplers = Field(Samplers(), description="what is recorded beside the load")

    @field_validator("name")
    @classmethod
    def _usable_in_file_names(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError("only letters, digits, `_` and `-`, beginning with a letter or digit")
        return name

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
                problem = f"{workload!r} is no workload; known: {', '.join((*core, *own))}"
                raise _at("workloads", problem, matrix.workloads)
        for name, numbers in (("threads", matrix.threads), ("drivers", matrix.drivers)):
            if isinstance(numbers, dict) and (unknown := numbers.keys() - {*core, *own, "load", "run"}):
                problem = f"{min(unknown)!r} is neither a workload nor one of the phases load and run"
                raise _at(name, problem, numbers)
        return matrix

    def own_workload(self, name: str) -> OwnWorkload | None:
        """What driver.workloads says of a workload; None of a core workload."""
        return None if isinstance(self.driver, YcsbDriver) else self.driver.workloads.get(name)

    @model_validator(mode="after")
    def _commands_can_be_run(self) -> Experiment:
        if not isinstance(self.driver, CommandDriver):
            return self
        if any(self.matrix.monitored):
            raise ValueError("matrix.monitored: a command has no sampled client")
        timed = any("duration_s" in " ".join(self.driver.workloads[name].run) for name in self.matrix.workloads)
        if timed and self.limits.duration_s is None:
            raise ValueError("limits.duration_s: a command asks for {duration_s}")
        return self

    @model_validator(mode="after")
    def _inserts_of_several_ycsb_clients(self) -> Experiment:
        inserting = [workload for workload in self.matrix.workloads if workload in ("d", "e")]
        several = any(max(self.matrix.drivers_of(workload)) > 1 for workload in inserting)
        if isinstance(self.driver, YcsbDriver) and several:
            # Every YCSB client begins the inserts of its transactions at recordcount: two would insert the same keys.
            way_out = "write drivers: {load: [2], run: [2], d: [1], e: [1]}"
            raise ValueError(f"matrix.workloads: with YCSB, workloads d and e insert and need drivers: [1]; {way_out}")
        return self

    @model_validator(mode="after")
    def _monitor_is_used(self) -> Experiment:
        if "monitor" in self.model_fields_set and "monitored" not in self.matrix.model_fields_set:
            raise ValueError("monitor: without matrix.monitored no run is sampled; set matrix.monitored: [true]")
        return self

    @model_validator(mode="after")
    def _threads_for_every_driver(self) -> Experiment:
        matrix = self.matrix
        if any(min(matrix.threads_of(one)) < max(matrix.drivers_of(one)) for one in matrix.workloads):
            raise ValueError("matrix.threads: fewer threads than drivers; every load generator needs one")
        return self

    @model_validator(mode="after")
    def _grows_in_order(self) -> Experiment:
        grows = isinstance(self.target, ClusterTarget) and self.target.growth == "rebalance"
        if grows and self.order == "interleaved":
            raise ValueError("target.growth: rebalance needs runs ordered by size; set order: study or sequential")
        return self


def _at(field: str, problem: str, value: object) -> ValidationError:
    """A refusal that names a field inside the one that is validated."""
    error = PydanticCustomError("value_error", "Value error, {problem}", {"problem": problem})
    return ValidationError.from_exception_data("Matrix", [InitErrorDetails(type=error, loc=(field,), input=value)])


def parse_experiment(document: Mapping[str, Any], *, path: str | PathLike[str] | None = None) -> Experiment:
    """Validate an experiment given as a mapping.

    Raises:
        InputError: a field is unknown, missing or wrong; the message names the field and what is allowed.
    """
    # The description is prose: what looks like a secret in it is hidden wherever it is kept.
    stated = {name: value for name, value in document.items() if name != "description"}
    if redact_values(stated) != stated:
        raise InputError("holds a secret", path=path, way_out="remove it; set PGPASSWORD or PGPASSFILE instead")
    try:
        return Experiment.model_validate(document, context={FOLDER: Path(path).parent} if path else None)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        steps = [str(part) for part in first["loc"] if part not in (_LIST, _MAPPING)]
        place = ".".join(steps) or "document"
        others = f"; {error.error_count() - 1} more problems" if error.error_count() > 1 else ""
        raise InputError(
            f"{first['msg']}{others}",
            path=path,
            place=f"field '{place}'",
            way_out="see docs/experiments.md for every field",
        ) from error


def load_experiment(name_or_path: str | PathLike[str], changes: Mapping[str, str] | None = None) -> Experiment:
    """Read an experiment file, or a shipped experiment by its name (`laptop`, `laptop.yml`).

    Args:
        name_or_path: the file, or the name.
        changes: values instead of the file's: dotted field -> value as YAML writes it.

    Raises:
        UsageError: a change names no place in the document.
        UnknownNameError: there is neither a file nor a shipped experiment of that name.
        InputError: the file is not valid.
    """
    path = Path(name_or_path)
    if not path.exists():
        folder = shipped("experiments")
        path = folder / f"{path.stem}.yml"
        if not path.exists() or Path(name_or_path).stem != str(name_or_path).removesuffix(".yml").split("/")[-1]:
            raise UnknownNameError("experiment file", str(name_or_path), [file.stem for file in folder.glob("*.yml")])
    try:
        document = parse_yaml(_beginning(path))
    except OSError as error:
        raise InputError(f"cannot be read: {error}", path=path) from error
    except FormatError as error:
        way_out = "check the indentation"
        raise InputError(error.problem, path=path, place=error.place, way_out=way_out) from error
    if not isinstance(document, dict):
        raise InputError("is not a mapping of fields", path=path, way_out="see docs/experiments.md")
    return parse_experiment(changed_document(document, changes or {}), path=path)


def _beginning(path: Path) -> bytes:
    # What is too long for an experiment is refused by its length, and so is a device that never ends.
    with path.open("rb") as file:
        return file.read(YAML_LIMIT_BYTES + 1)


def experiment_schema() -> dict[str, Any]:
    """The JSON schema of experiment files, for editors."""
    return Experiment.model_json_schema()

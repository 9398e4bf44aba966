"""Values of placeholders in workloads of the experiment's own: in arguments, templates and set-ups."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from citus_analysis.errors import InputError, RunnerError
from citus_analysis.runner.driver import LOGIN_FILE, Command, SetUp, Work, write_private
from citus_analysis.runner.experiment import (
    OwnWorkload,
    find_placeholders,
    read_file,
)
from citus_analysis.runner.plan import PlannedRun
from citus_analysis.runner.system import ConnectionInfo

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

r"""Workloads that an experiment file defines itself: pgbench scripts, and commands of any other tool.

A workload has a name, which `matrix.workloads` uses, tables of its own, which its set-up makes, and a load: weighted
pgbench scripts, or a list of arguments. Values are inserted by name: `:records` in SQL files, `{records}` in arguments.

Example:
    >>> workload = CommandWorkload(run=["sysbench", "oltp_read_only", "--threads={threads}", "run"], summary={
    ...     "throughput_ops_s": r"transactions: .*\(([0-9.]+) per sec"})
    >>> sorted(used_names(workload))
    ['threads']
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

from pydantic import AfterValidator, Field, model_validator

from citus_analysis.errors import InputError, UnknownNameError
from citus_analysis.formats import format_named
from citus_analysis.formats.clients.command_output import SUMMARY_NAMES, pattern_problem
from citus_analysis.runner.experiment_file.fields import LocalFile, LocalPath, Part, Positive

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
_NAME: Final = re.compile(r"[a-z][a-z0-9-]*")

Value = str | int | float


def placeholders(text: str) -> list[str]:
    """Names in braces; braces around other text are no placeholders.

    Example:
        >>> placeholders('--host={host} {"json": 1}')
        ['host']
    """
    return _PLACEHOLDER.findall(text)


def _pattern_with(*groups: str) -> AfterValidator:
    def checked(pattern: str) -> str:
        if problem := pattern_problem(pattern, groups):
            raise ValueError(problem)
        return pattern

    return AfterValidator(checked)


def _free_names(variables: dict[str, Value]) -> dict[str, Value]:
    for name in variables:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise ValueError(f"{name!r}: only small letters, digits and `_`, beginning with a letter")
        if name in PLACEHOLDERS:
            raise ValueError(f"{name!r} is the name of a value that the runner sets")
    return variables


def _known_names(summary: dict[str, str]) -> dict[str, str]:
    if unknown := summary.keys() - SUMMARY_NAMES:
        raise ValueError(f"{min(unknown)!r} is not known; known: {', '.join(SUMMARY_NAMES)}")
    computed = "operations_done" in summary and {"runtime_s", "runtime_ms"} & summary.keys()
    if summary and not computed and not {"throughput_ops_s", "throughput_ops_min"} & summary.keys():
        raise ValueError("contains no throughput: add throughput_ops_s, or operations_done and runtime_s")
    return summary


def _known_formats(files: dict[str, str | None]) -> dict[str, str | None]:
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


def _known_in_environment(environment: dict[str, str]) -> dict[str, str]:
    for text in environment.values():
        if unknown := [name for name in placeholders(text) if name not in PLACEHOLDERS or name == "password"]:
            raise ValueError(f"{{{unknown[0]}}} cannot be used here")
    return environment


Pattern = Annotated[str, _pattern_with()]


class OwnWorkload(Part):
    """A workload's tables, and the steps that make them."""

    set_up: list[LocalFile | Annotated[list[str], Field(min_length=1)]] = Field(
        default_factory=list,
        description="steps that make and fill the tables: an SQL file for psql, or a list of arguments",
    )
    set_up_for: Literal["each_run", "each_size"] = Field(
        "each_run",
        description="`each_size`: only if the tables were made with other workers, records, variables or steps",
    )
    variables: Annotated[dict[str, Value], AfterValidator(_free_names)] = Field(
        default_factory=dict, description="values by name for SQL files, scripts and arguments"
    )


class Script(Part):
    """One script of a pgbench load."""

    file: LocalFile | None = Field(None, description="pgbench script: a path")
    builtin: Literal["tpcb-like", "simple-update", "select-only"] | None = Field(
        None, description="or the name of a built-in script of pgbench"
    )
    weight: Positive = Field(1, description="frequency of its choice, relative to the other scripts")

    @model_validator(mode="after")
    def _one_source(self) -> Script:
        if (self.file is None) == (self.builtin is None):
            raise ValueError("needs either file or builtin")
        return self


class ScriptedWorkload(OwnWorkload):
    """A load of weighted pgbench scripts."""

    scripts: Annotated[list[Script], Field(min_length=1)] = Field(description="scripts that pgbench runs")
    rate_ops_s: float | None = Field(
        None, gt=0, description="transactions per second over all load generators; default: no limit"
    )


class Metric(Part):
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
    summary: Annotated[dict[str, Pattern], AfterValidator(_known_names)] = Field(
        default_factory=dict,
        description="summary that the tool prints at the end: name -> regular expression with one group; without it, "
        "the output has a format that `ingest` recognises",
    )
    interval: Annotated[str, _pattern_with("elapsed_s", "throughput_ops_s")] | None = Field(
        None, description="its status line: a regular expression with groups `elapsed_s` and `throughput_ops_s`"
    )
    metrics: list[Metric] = Field(default_factory=list, description="further numbers of the output")
    files: Annotated[dict[str, str | None], AfterValidator(_known_formats)] = Field(
        default_factory=dict,
        description="files that the tool writes: pattern -> format; null: `ingest` does not read them",
    )

    @model_validator(mode="after")
    def _known_placeholders(self) -> CommandWorkload:
        known = PLACEHOLDERS.keys() | self.variables.keys() | self.templates.keys()
        for text in _arguments(self):
            for name in placeholders(text):
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
        if not _NAME.fullmatch(name) or len(name) == 1 or name.startswith("load"):
            raise ValueError(f"{name!r}: small letters, digits and `-`, at least two, not beginning with `load`")
    return workloads


class CommandDriver(Part):
    """Commands of any tool, each a list of arguments."""

    kind: Literal["command"] = "command"
    tool: str = Field(min_length=1, description="name of the tool in the results")
    home: LocalPath | None = Field(None, description="folder of the tool's installation")
    work_in_home: bool = Field(False, description="whether the tool must run there, instead of in a separate folder")
    workloads: Annotated[dict[str, CommandWorkload], Field(min_length=1), AfterValidator(check_workload_names)] = Field(
        description="loads by name, for matrix.workloads"
    )
    environment: Annotated[dict[str, str], AfterValidator(_known_in_environment)] = Field(
        default_factory=dict, description="further environment variables; libpq's are set"
    )
    login_env: list[str] = Field(
        default_factory=list, description="environment variables that contain the password, in addition to PGPASSWORD"
    )


def used_names(workload: OwnWorkload) -> set[str]:
    """Names that a workload's arguments, templates and SQL files use, including variables of the workload.

    Raises:
        InputError: a file cannot be read.
    """
    names = {name for text in _arguments(workload) for name in placeholders(text)}
    for path in _files(workload):
        text = read_file(path, way_out="correct the experiment file")
        names |= {*placeholders(text), *_SQL_VARIABLE.findall(text)}
    return names


def read_file(path: Path, *, way_out: str) -> str:
    """The text of a file of the experiment.

    Raises:
        InputError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", path=path, way_out=way_out) from error


def _arguments(workload: OwnWorkload) -> Iterator[str]:
    for step in workload.set_up:
        if isinstance(step, list):
            yield from step
    if isinstance(workload, CommandWorkload):
        yield from workload.run


def _files(workload: OwnWorkload) -> Iterator[LocalFile]:
    yield from (step for step in workload.set_up if not isinstance(step, list))
    if isinstance(workload, CommandWorkload):
        yield from workload.templates.values()
    if isinstance(workload, ScriptedWorkload):
        yield from (script.file for script in workload.scripts if script.file)

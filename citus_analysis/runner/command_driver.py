"""The command driver: any tool, called with a list of arguments; no shell reads them.

The tool gets libpq's variables, so that it connects without a password on its command line. Its output is stored as
the load generator's output: after a heading that describes the places of its numbers (`summary`), or unchanged if
`ingest` knows the tool's format.
"""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from citus_analysis.errors import FormatError, RunnerError
from citus_analysis.formats.command_output import Heading, NumberPattern
from citus_analysis.redaction import redact
from citus_analysis.runner.driver import Command, Driver, SetUp, Work
from citus_analysis.runner.experiment import (
    CommandDriver,
    CommandWorkload,
    collect_used_names,
    find_placeholders,
)
from citus_analysis.runner.placeholders import (
    Toolbox,
    compute_placeholder_values,
    fill_placeholders,
    make_set_up,
    write_templates,
)
from citus_analysis.runner.plan import PlannedRun
from citus_analysis.runner.records import find_newest_match
from citus_analysis.runner.system import ConnectionInfo
from citus_analysis.texts.words import choose_noun_form, join_words

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
            heading=self._make_heading(workload, work, arguments),
        )

    def set_up(self, run: PlannedRun, connection: ConnectionInfo, folder: Path) -> SetUp:
        """The workload's steps."""
        workload = self._workload(run)
        values = self._values(run, connection, folder)
        environment = self._environment(values, connection)
        return make_set_up(workload, connection, values, self._toolbox, self._place(folder), environment)

    def select_queried(self, run: PlannedRun, connection: ConnectionInfo) -> ConnectionInfo:
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

    def _make_heading(self, workload: CommandWorkload, work: Work, arguments: list[str]) -> bytes:
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

"""The interface of a target: servers that are prepared for a configuration and described, and whose logs are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from citus_analysis.runner import connections as sql
from citus_analysis.runner.experiment import Monitor
from citus_analysis.runner.hosts import Processes, Shell
from citus_analysis.runner.plan import Configuration
from citus_analysis.runner.system import ConnectionInfo, Description, LogMark, ServerNode


class Target(Protocol):
    """Servers under test. All methods may raise `RunnerError` with the server's own message."""

    @property
    def system(self) -> str:
        """citus, postgresql, aurora or spanner."""

    def prepare(self, configuration: Configuration) -> None:
        """Bring servers and table into the state that the configuration requires: size, settings, shards; verify it."""

    def nodes(self) -> list[ServerNode]:
        """All nodes, the coordinator first."""

    def clients_connect(self, user: str | None = None) -> ConnectionInfo:
        """The connection of load generators."""

    def connect(self, node: ServerNode | None = None) -> sql.Connecting:
        """A session of the runner's own on a node; default: the first."""

    def describe(self) -> Description:
        """Versions, settings, hardware."""

    def settle(self, steps: Sequence[str]) -> None:
        """Perform steps before a run, in their order: `vacuum` of the table, `checkpoint` of every node in use."""
        nodes = self.nodes()
        for step in steps:
            for node in nodes if step == "checkpoint" else nodes[:1]:
                with self.connect(node) as connection:
                    if step == "vacuum":
                        sql.vacuum(connection)
                    else:
                        sql.query(connection, "CHECKPOINT")

    def fill(self, records: int) -> None:
        """Fill the table with exactly the records 0..records-1; with 0 it is empty."""

    def remarks(self) -> list[str]:
        """Remarks on the last fill for readers of the results; empty if it was done as usual."""
        return []

    def count(self) -> int:
        """Rows of the table."""
        with self.connect() as connection:
            return sql.count_rows(connection)

    def mark_logs(self) -> dict[str, LogMark]:
        """Node name -> current end of its server log; nodes without readable logs are absent."""

    def copy_log(self, node: str, mark: LogMark, destination: Path) -> list[str]:
        """Copy the log lines of a node since the mark; return a sentence for each part that is lost."""

    def shells(self, processes: Processes) -> Mapping[str, Shell]:
        """Node name -> shell for its samplers; a machine with several nodes appears once."""

    def set_monitor(self, monitor: Monitor) -> None:
        """Make sure that the monitor's role exists and logs its statements."""

    def stop(self) -> list[str]:
        """Stop and remove started servers, and restore changes; return a sentence for each that was not restored."""

"""The server logs of a cluster's nodes: checked for readability, marked before a run and copied after it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from citus_analysis.errors import RunnerError
from citus_analysis.runner.experiment_file.target_fields import ClusterTarget
from citus_analysis.runner.systems.cluster_nodes import address_of
from citus_analysis.runner.systems.log_readers import LogReader, make_log_reader
from citus_analysis.runner.systems.system import LogMark, Node

_WAY_OUT: Final = (
    "a monitored run needs the server logs: GRANT pg_monitor and pg_read_server_files TO target.user and EXECUTE ON "
    "FUNCTION pg_current_logfile and pg_read_binary_file, or read them from a folder with "
    "nodes[].log_directory, or set target.collect_logs: false and add the logs by hand"
)


class ClusterLogs:
    """Readers of the server logs of a cluster's nodes.

    Args:
        target: the cluster's part of the experiment file.
        is_readable: whether the system lets its logs be read at all.
    """

    def __init__(self, target: ClusterTarget, *, is_readable: bool) -> None:
        self._target = target
        self._is_collected = is_readable and target.collect_logs
        self._readers: dict[str, LogReader] = {}
        self._unreadable: dict[str, str] = {}

    def add(self, nodes: Sequence[Node]) -> None:
        """Make readers for the nodes that have none yet."""
        if self._is_collected:
            for node in nodes:
                if node.name not in self._readers:
                    self._readers[node.name] = make_log_reader(node, address_of(node, self._target), self._target)

    def check(self, nodes: Sequence[Node], *, monitored: bool) -> None:
        """Check that the logs of these nodes can be read.

        Raises:
            RunnerError: a log cannot be read and the run is monitored. Other runs continue without it, with a note.
        """
        self._unreadable = {}
        for name, reader in self._of(nodes).items():
            try:
                reader.mark()
            except RunnerError as error:
                if monitored:
                    raise RunnerError(error.problem, path=error.path, way_out=_WAY_OUT) from error
                self._unreadable[name] = error.problem

    def mark(self, nodes: Sequence[Node]) -> dict[str, LogMark]:
        """Node name -> current end of its log, for the readable logs of these nodes."""
        return {name: reader.mark() for name, reader in self._of(nodes).items() if name not in self._unreadable}

    def copy_since(self, node: str, mark: LogMark, destination: Path) -> None:
        """Copy the lines that a node logged after the mark."""
        self._readers[node].copy_since(mark, destination)

    def skipped(self) -> list[str]:
        """A sentence for each log that cannot be read."""
        return [f"the server log of node {name} is not collected: {why}" for name, why in self._unreadable.items()]

    def close(self) -> None:
        """Close the readers' connections."""
        for reader in self._readers.values():
            reader.close()

    def _of(self, nodes: Collection[Node]) -> dict[str, LogReader]:
        names = {node.name for node in nodes}
        return {name: reader for name, reader in self._readers.items() if name in names}

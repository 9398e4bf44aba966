"""Recordings of a run over SQL: sessions during it, cumulative counters before and after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from citus_analysis.runner.experiment_file.measuring import Samplers
from citus_analysis.runner.observe.reached_nodes import Reached, count_sessions
from citus_analysis.runner.observe.snapshots import ActivitySampling, Counters, Snapshot, start_activity
from citus_analysis.runner.systems.system import ConnectionInfo
from citus_analysis.runner.systems.target import Target


@dataclass
class ServerRecording:
    """A recording in progress.

    Attributes:
        activity: sessions of each node; empty if they are not requested.
        counters: cumulative views; None if they are not requested.
    """

    activity: Sequence[ActivitySampling]
    counters: Counters | None

    @classmethod
    def start(cls, samplers: Samplers, target: Target, folder: Path) -> Self:
        """Read the counters and start to record the sessions."""
        nodes = target.nodes()
        counters = Counters(nodes, target.connect, folder) if samplers.counters else None
        if counters:
            counters.take()
        return cls(start_activity(nodes, target.connect, folder) if samplers.activity else (), counters)

    def stop(self) -> None:
        """End the recording of sessions, and read the counters again."""
        for one in self.activity:
            one.stop()
        if self.counters:
            self.counters.take()

    def snapshots(self) -> Iterator[Snapshot]:
        """The files that are not empty."""
        found = [one.snapshot for one in self.activity if one.taken]
        yield from (*found, *(self.counters.snapshots.values() if self.counters else ()))

    def skipped(self) -> list[str]:
        """A sentence for each missing recording, with the reason."""
        early = [one.problem for one in self.activity if one.problem]
        return [*early, *sorted(self.counters.skipped if self.counters else ())]

    def reached(self, connection: ConnectionInfo) -> Reached:
        """The nodes that the clients of a connection reached."""
        seen = [one.snapshot for one in self.activity if one.taken]
        executed = self.counters.executed() if self.counters else {}
        asked = tuple(node.name for node in connection.nodes)
        return Reached(
            asked,
            count_sessions(seen, connection.user),
            executed if executed.keys() >= set(asked) else {},
            {
                one.snapshot.node: f"{one.taken} snapshots, {1000 * one.spent_s / one.taken:.1f} ms each"
                for one in self.activity
                if one.taken
            },
        )

"""Recordings of a run over SQL: sessions during it, cumulative counters before and after it."""

from __future__ import annotations

from collections.abc import Sequence
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
        counters: cumulative views; of no node if they are not requested.
    """

    activity: Sequence[ActivitySampling]
    counters: Counters

    @classmethod
    def start(cls, samplers: Samplers, target: Target, folder: Path) -> Self:
        """Read the counters and start to record the sessions."""
        nodes = target.nodes()
        counters = Counters(nodes if samplers.counters else (), target.connect, folder)
        counters.take()
        return cls(start_activity(nodes if samplers.activity else (), target.connect, folder), counters)

    def stop(self) -> None:
        """End the recording of sessions, and read the counters again."""
        for one in self.activity:
            one.stop()
        self.counters.take()

    def snapshots(self) -> list[Snapshot]:
        """The files that are not empty."""
        return [*(one.snapshot for one in self.activity if one.taken), *self.counters.snapshots.values()]

    def skipped(self) -> list[str]:
        """A sentence for each missing recording, with the reason."""
        return [*(one.problem for one in self.activity if one.problem), *sorted(self.counters.skipped)]

    def reached(self, connection: ConnectionInfo) -> Reached:
        """The nodes that the clients of a connection reached."""
        taken = [one for one in self.activity if one.taken]
        sessions = count_sessions([one.snapshot for one in taken], connection.user)
        executed = self.counters.executed()
        asked = tuple(node.name for node in connection.nodes)
        cost = {one.node.name: f"{one.taken} snapshots, {1000 * one.spent_s / one.taken:.1f} ms each" for one in taken}
        return Reached(asked, sessions, executed if executed.keys() >= set(asked) else {}, cost)

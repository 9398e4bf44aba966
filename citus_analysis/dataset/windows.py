"""Which run the rows of a node's file belong to.

A file that names its run keeps it. Server logs, samplers and profiles of the study name only node and
iteration: they belong to the run of that iteration where there is one; where several runs share it (several
thread counts in one resource, say), each row belongs to the run during which it was logged, by the window from
the first to the last status line of the run's clients; rows outside all windows, or inside two, to none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.dataset.identity import Identity
from citus_analysis.schema import PARTITION_KEY, TABLES

__all__ = ["KnownRun", "Tagger", "assign"]

#: Column by which a row of a table is placed in time.
_TIME_COLUMN: Final = {
    "log_events": "log_time",
    "checkpoints": "end_time",
    "cpu_samples": "sample_time",
    "device_samples": "sample_time",
    "vm_samples": "sample_time",
}

#: Clients connect shortly before their first status line and leave shortly after the last.
_MARGIN_MS: Final = 2_000


@dataclass(frozen=True)
class KnownRun:
    """A run of a resource and when its clients ran (milliseconds since 1970, UTC; None where unknown)."""

    run_id: str
    iteration: int | None
    start_ms: int | None = None
    end_ms: int | None = None


@dataclass(frozen=True)
class Tagger:
    """Fills in the identity columns of a source's rows.

    Attributes:
        run_id: the run of all rows; None where `windows` decide or where no run is known.
        windows: runs that share the source, in order of time; empty where `run_id` decides.
    """

    source_id: str
    identity: Identity
    run_id: str | None = None
    windows: tuple[KnownRun, ...] = ()

    def tag(self, name: str, frame: pl.DataFrame) -> pl.DataFrame:
        """A frame of a table's parsed columns with the identity columns added."""
        facts = self.identity.to_dict() | {"source_id": self.source_id, "run_id": self.run_id}
        table = TABLES[name]
        own = set(table.parsed().names()) | {PARTITION_KEY}
        added = [pl.lit(facts.get(c.name), c.dtype).alias(c.name) for c in table if c.name not in own]
        time = _TIME_COLUMN.get(name)
        if not self.windows or time is None or time not in frame.columns:
            return frame.with_columns(added)
        index = _window_of(frame[time], self.windows)
        by_window = [pl.Series("run_id", [run.run_id for run in self.windows], pl.String).gather(index)]
        if self.identity.iteration is None:
            iterations = pl.Series("iteration", [run.iteration for run in self.windows], pl.Int32)
            by_window.append(iterations.gather(index))
        return frame.with_columns(added).with_columns(by_window)


def assign(source_id: str, identity: Identity, runs: Sequence[KnownRun]) -> Tagger:
    """How the rows of a source find their run among the runs of its resource."""
    if identity.run_id is not None:
        return Tagger(source_id, identity, identity.run_id)
    shared = [run for run in runs if None in (run.iteration, identity.iteration) or run.iteration == identity.iteration]
    if len(shared) == 1:
        return Tagger(source_id, identity, shared[0].run_id)
    timed = [run for run in shared if run.start_ms is not None and run.end_ms is not None]
    return Tagger(source_id, identity, None, tuple(sorted(timed, key=lambda run: (run.start_ms, run.run_id))))


def _window_of(times: pl.Series, windows: Sequence[KnownRun]) -> pl.Series:
    """For each time the index of the window it lies in; null for none or several."""
    at = times.dt.epoch("ms").to_numpy(allow_copy=True).astype(np.float64)
    starts = np.array([run.start_ms for run in windows], dtype=np.float64)
    ends = np.array([run.end_ms for run in windows], dtype=np.float64)
    # The margin ends half way to the neighbour, so that it never makes two windows overlap.
    gaps = np.maximum(starts[1:] - ends[:-1], 0.0) / 2
    before, after = np.full(len(windows), float(_MARGIN_MS)), np.full(len(windows), float(_MARGIN_MS))
    before[1:], after[:-1] = np.minimum(before[1:], gaps), np.minimum(after[:-1], gaps)
    count, found = np.zeros(len(at), dtype=np.int32), np.zeros(len(at), dtype=np.int64)
    for index, (low, high) in enumerate(zip(starts - before, ends + after, strict=True)):
        inside = (at >= low) & (at <= high)
        count += inside
        found[inside] = index
    return pl.select(pl.when(pl.lit(pl.Series(count)) == 1).then(pl.lit(pl.Series(found)))).to_series()

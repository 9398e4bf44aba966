"""Assign the rows of a node's file to runs.

A file that names its run keeps it. Server logs, samplers and profiles of the study name only node and iteration. If the
iteration has one run, all rows belong to it. If several runs share the iteration (such as several thread counts in one
resource), each row belongs to the run during which it was logged: the window of a run extends from the first to the
last status line of its clients. Rows outside all windows, or inside two, belong to no run. The growth of a counter
between two snapshots belongs to the run in which the middle of that time lies, unless the time is longer than the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

import numpy as np

from citus_analysis.core.arrow_arrays import (
    fill_null_integers,
    make_integer_array,
    make_null_array,
    make_word_array,
    repeat_text,
)
from citus_analysis.core.type_aliases import Floats, Integers
from citus_analysis.dataset.identity import FACTS, Identity
from citus_analysis.schema import PARTITION_KEY, TABLES, Column

if TYPE_CHECKING:
    import pyarrow as pa

    from citus_analysis.formats import Parsed

#: Column by which a row of a table is placed in time.
_TIME_COLUMN: Final = {
    **{name: "sample_time" for name, table in TABLES.items() if "sample_time" in table},
    "log_events": "log_time",
    "pooler_events": "log_time",
    "checkpoints": "end_time",
}

#: Clients connect shortly before their first status line and leave shortly after the last.
_MARGIN_MS: Final = 2_000
#: Before all runs.
_NEVER_MS: Final = -(2**62)


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

    def tag_piece(self, piece: Parsed) -> dict[str, pa.RecordBatch]:
        """The rows of a piece and its rejects, with the identity columns added.

        A piece that states its run, one of several in the source, belongs to that run. For the facts that it does not
        state, those of the source hold.
        """
        tables = {**piece.tables, "rejects": piece.rejects}
        own, stated = self, tables.get("stated_runs")
        if stated is not None and len(stated):
            run = stated.to_pylist()[0]
            facts = {name: run[name] for name in FACTS if run.get(name) is not None}
            own = replace(self, identity=replace(self.identity, **facts), run_id=f"{self.run_id}#{run['line']}")
            kept = [name for name in stated.schema.names if name not in FACTS or name in facts]
            tables["stated_runs"] = stated.select(kept)
        tagged = {name: own.tag(name, rows) for name, rows in tables.items() if len(rows)}
        return tagged if own is self else {name: _convert_run_to_text(rows) for name, rows in tagged.items()}

    def tag(self, name: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of a table's parsed columns with the identity columns added."""
        import pyarrow as pa

        table = TABLES[name]
        if name == "clients":
            batch = _fill_stated_times(batch, self.identity)
        facts = self.identity.to_dict() | {"source_id": self.source_id, "run_id": self.run_id}
        own = {*batch.schema.names, PARTITION_KEY}
        added = {c.name: _repeat_value(c, facts.get(c.name), len(batch)) for c in table if c.name not in own}
        time = _TIME_COLUMN.get(name)
        if self.windows and time is not None:
            at = _convert_to_epoch_ms(batch.column(time))
            began = _convert_to_epoch_ms(batch.column("from_time")) if name == "server_counters" else at
            index = _find_window_of_interval(began, at, self.windows)
            added["run_id"] = _pick_values(table["run_id"], [run.run_id for run in self.windows], index)
            if self.identity.iteration is None:
                iterations = [run.iteration for run in self.windows]
                added["iteration"] = _pick_values(table["iteration"], iterations, index)
        return pa.RecordBatch.from_arrays([*batch.columns, *added.values()], names=[*batch.schema.names, *added])


def assign(source_id: str, identity: Identity, runs: Iterable[KnownRun]) -> Tagger:
    """The tagger that assigns the rows of a source to the runs of its resource."""
    if identity.run_id is not None:
        return Tagger(source_id, identity, identity.run_id)
    # All runs where either does not name its iteration.
    shared = [run for run in runs if identity.iteration is None or run.iteration in (None, identity.iteration)]
    if len(shared) == 1:
        return Tagger(source_id, identity, shared[0].run_id)
    timed = [run for run in shared if run.start_ms is not None and run.end_ms is not None]
    return Tagger(source_id, identity, None, tuple(sorted(timed, key=lambda run: (run.start_ms, run.run_id))))


def _convert_run_to_text(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows with the run as a plain text: hundreds of runs are more words than a dictionary of the writer holds."""
    at = rows.schema.get_field_index("run_id")
    return rows if at < 0 else rows.set_column(at, "run_id", rows.column(at).dictionary_decode())


def _fill_stated_times(clients: pa.RecordBatch, identity: Identity) -> pa.RecordBatch:
    """Clients that print no times, with those that are stated; of begin and end, one follows from the run time."""
    import pyarrow as pa
    from pyarrow import compute

    def make_time_scalar(time: str | None) -> pa.Scalar:
        return pa.scalar(None if time is None else datetime.fromisoformat(time), kind)

    if identity.start_time is None and identity.end_time is None:
        return clients
    kind = TABLES["clients"]["start_time"].type.arrow
    us = compute.round(compute.multiply(clients.column("runtime_ms"), 1000.0)).cast(pa.int64()).cast(pa.duration("us"))
    start = compute.coalesce(
        clients.column("start_time"),
        make_time_scalar(identity.start_time),
        compute.subtract(make_time_scalar(identity.end_time), us).cast(kind),
    )
    end = compute.coalesce(
        clients.column("end_time"), make_time_scalar(identity.end_time), compute.add(start, us).cast(kind)
    )
    for name, values in {"start_time": start, "end_time": end}.items():
        clients = clients.set_column(clients.schema.get_field_index(name), clients.schema.field(name), values)
    return clients


def _repeat_value(column: Column, value: object, rows: int) -> pa.Array:
    """The same value in every row."""
    if value is None:
        return make_null_array(column.type.arrow, rows)
    if column.type.is_integer:
        return make_integer_array(np.full(rows, value)).cast(column.type.arrow)
    return repeat_text(str(value), rows)


def _pick_values(column: Column, values: Sequence[object], index: Integers) -> pa.Array:
    """For each row the value of that number; null for -1."""
    kind, places = column.type.arrow, make_integer_array(np.maximum(index, 0), valid=index >= 0)
    if not column.type.is_integer:
        return make_word_array(map(str, values)).cast(kind).take(places)
    known = np.array([value is not None for value in values])
    return make_integer_array(np.array([value or 0 for value in values]), valid=known).cast(kind).take(places)


def _convert_to_epoch_ms(times: pa.Array) -> Floats:
    """Milliseconds since 1970; nan for null."""
    import pyarrow as pa

    at_ms = times.cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())  # snapshots have microseconds
    at = fill_null_integers(at_ms, _NEVER_MS).astype(np.float64)
    return np.where(at == _NEVER_MS, np.nan, at)


def _find_window_of_interval(begin: Floats, end: Floats, windows: Sequence[KnownRun]) -> Integers:
    """For each interval the index of the window that its middle lies in; -1 for none, or if the interval is longer."""
    length = np.nan_to_num(end - begin)
    starts, ends = np.array([(run.start_ms, run.end_ms) for run in windows], dtype=np.float64).T
    index = _find_window_of_time(end - length / 2, starts, ends)
    return np.where(length > (ends - starts + 2 * _MARGIN_MS)[index], -1, index)


def _find_window_of_time(at: Floats, starts: Floats, ends: Floats) -> Integers:
    """For each time the index of the window it lies in; -1 for none or several."""
    # The margin ends half way to the neighbour, so that it never makes two windows overlap.
    gaps = np.maximum(starts[1:] - ends[:-1], 0.0) / 2
    before, after = np.full((2, len(starts)), float(_MARGIN_MS))
    before[1:], after[:-1] = np.minimum(before[1:], gaps), np.minimum(after[:-1], gaps)
    count, found = np.zeros(len(at), dtype=np.int32), np.full(len(at), -1, dtype=np.int64)
    for index, (low, high) in enumerate(zip(starts - before, ends + after, strict=True)):
        inside = (at >= low) & (at <= high)
        count += inside
        found[inside] = index
    found[count != 1] = -1
    return found

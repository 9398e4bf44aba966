"""Server logs read in stretches, by several processes.

A log is cut where a record begins. Three kinds of rows need more than one stretch:

- A detail may be after the cut and its record before it, if other processes wrote between them. The records just before
  a stretch are therefore read again; a log with a detail whose record remains unknown is read in one piece.
- A checkpoint begins and ends in records that are minutes apart. These few records are combined after all stretches
  are read.
- Plans are numbered throughout the log. Stretches with plans are read again once the number of plans before them is
  known.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Final

import numpy as np

from citus_analysis.core.array_types import Integers
from citus_analysis.core.arrow_arrays import filled
from citus_analysis.formats.api.cuttable import LOOK_BACK_BYTES, CuttableFormat, Seam
from citus_analysis.formats.api.format import Hints, Parsed
from citus_analysis.formats.serverlog.pglog._checkpoints import Checkpoints
from citus_analysis.formats.serverlog.pglog._ordered_tables import ChunkTables, LogTables, ordered_tables, plan_tables
from citus_analysis.formats.serverlog.pglog._prefix import Heads
from citus_analysis.formats.serverlog.pglog._records import FIRST_DETAIL, RECORD
from citus_analysis.formats.serverlog.pglog._two_servers import of_one_server
from citus_analysis.formats.serverlog.pglog.fallback.chosen_reader import new_links
from citus_analysis.formats.sources.content import Content
from citus_analysis.schema import Rows

if TYPE_CHECKING:
    import pyarrow as pa

#: Bytes searched for the beginning of a record; a longer line is skipped.
_WINDOW: Final = 64 * 2**10


class ServerLog(CuttableFormat):
    """A log of PostgreSQL, in any of its forms.

    Attributes:
        looks_back: whether details are separate lines, to be linked to records before them.
    """

    looks_back: ClassVar[bool] = False

    @abstractmethod
    def chunk_tables(self, content: Content, hints: Hints) -> Iterator[ChunkTables]:
        """The chunks of a log or a stretch of it, in order."""

    @abstractmethod
    def heads(self, content: Content, hints: Hints) -> Heads | None:
        """Patterns of the beginning of records; None if each line is one record."""

    @abstractmethod
    def is_cuttable(self, content: Content, hints: Hints) -> bool:
        """Whether stretches of a log can be read alone."""

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece per chunk."""
        again = partial(self.chunk_tables, content, hints)
        yield from ordered_tables(of_one_server(again(), again), LogTables().tables)

    def cuts(self, content: Content, hints: Hints, stretch_bytes: int) -> list[int]:
        """The beginnings of the first records after places at equal distances."""
        size = content.path.stat().st_size
        number = size // stretch_bytes
        if number < 2 or content.compression != "none" or not self.is_cuttable(content, hints):
            return []
        heads = self.heads(content, hints)
        with closing(content.open()) as stream:
            found = [_record_after(stream, size * one // number, heads) for one in range(1, number)]
        return sorted({place for place in found if place is not None})

    def parse_stretch(self, content: Content, hints: Hints, seam: Seam) -> Iterator[Parsed]:
        """One piece per chunk, without the tables that need all stretches."""
        look = self._look_back(content, hints)
        before = replace(content, begin=look, end=content.begin)
        maker = _StretchTables(
            seam, self.chunk_tables(before, hints) if look < content.begin else (), from_start=not look
        )
        for piece in ordered_tables(self.chunk_tables(content, hints), maker.tables):
            # A reject at the very beginning may continue one at the end of the stretch before.
            if content.begin and len(piece.rejects) and piece.rejects.column("byte_offset")[0].as_py() == content.begin:
                seam.alone = False
            yield piece

    def _look_back(self, content: Content, hints: Hints) -> int:
        """The beginning of the records that may have details in a stretch."""
        place = content.begin - LOOK_BACK_BYTES
        if not self.looks_back:
            return content.begin
        if place <= 0:
            return 0
        with closing(content.open()) as stream:
            return _record_after(stream, place, self.heads(content, hints)) or content.begin

    def parse_numbered(self, content: Content, hints: Hints, first: int) -> Iterator[Parsed]:
        """The plans of a stretch."""
        for chunk in self.chunk_tables(content, hints):
            scanned = chunk.scanned
            rejected = sum(reject.byte_length for reject in scanned.rejects)
            yield Parsed(plan_tables(chunk.plans, first), scanned.parsed_bytes, scanned.noise_bytes + rejected)
            first += len(chunk.plans)

    def parse_together(self, seams: Sequence[Seam]) -> Iterator[Parsed]:
        """The checkpoints of a log."""
        records = [batch for seam in seams for stored in seam.laid_aside for batch in _restored(stored)]
        yield Parsed({"checkpoints": Checkpoints().collect(records)}, 0)


class _StretchTables:
    """The tables that need the chunks of one stretch alone; `LogTables` makes the tables of a whole log."""

    def __init__(self, seam: Seam, before: Iterable[ChunkTables], *, from_start: bool) -> None:
        self._seam, self._from_start = seam, from_start
        self._links, self._known = new_links(), np.empty(0, np.int64)
        for chunk in before:
            self._are_linked(self._links.link(chunk.rows))

    def tables(self, chunk: ChunkTables) -> dict[str, Rows]:
        """The rows of the next chunk."""
        if chunk.checkpoints:
            self._seam.laid_aside.append(_stored(chunk.checkpoints))
        self._seam.numbered += len(chunk.plans)
        if chunk.linked:
            return {"log_events": chunk.rows}
        rows = self._links.link(chunk.rows)
        # No record is unknown if the stretch was read from the beginning of the log.
        self._seam.alone &= self._from_start or self._are_linked(rows)
        return {"log_events": rows}

    def _are_linked(self, rows: pa.RecordBatch) -> bool:
        """Whether each process had a record before its first detail; adds the processes of this chunk to the known."""
        pids = _numbers(rows.column("pid"))
        details = _numbers(rows.column("severity").indices) >= FIRST_DETAIL
        unlinked = np.flatnonzero(details & (_numbers(rows.column("record_byte_offset")) < 0))
        unlinked = unlinked[~np.isin(pids[unlinked], self._known)]
        processes, first = np.unique(pids[~details], return_index=True)
        first = np.flatnonzero(~details)[first]
        self._known = np.union1d(self._known, processes)
        if not len(unlinked) or not len(processes):
            return not len(unlinked)
        place = np.minimum(np.searchsorted(processes, pids[unlinked]), len(processes) - 1)
        return bool(((processes[place] == pids[unlinked]) & (first[place] < unlinked)).all())


def _record_after(stream: BinaryIO, place: int, heads: Heads | None) -> int | None:
    """The first record that begins at a place or after it; None if there is none."""
    from citus_analysis.formats.serverlog.pglog._scan import find_openers

    begin = _line_after(stream, place)
    while begin is not None:
        stream.seek(begin)
        data = stream.read(_WINDOW)
        whole = data[: data.rfind(b"\n") + 1]
        if whole and heads is None:
            return begin
        if whole and heads is not None:
            lines = find_openers(whole, heads)
            records = np.flatnonzero(lines.roles == RECORD)
            if len(records):
                return begin + int(lines.starts[records[0]])
        begin = begin + len(whole) if whole else _line_after(stream, begin + 1)
    return None


def _line_after(stream: BinaryIO, place: int) -> int | None:
    """The first line that begins at a place or after it; None if there is none."""
    stream.seek(place - 1)
    while data := stream.read(_WINDOW):
        found = data.find(b"\n")
        if found >= 0:
            return place + found
        place += len(data)
    return None


def _numbers(values: pa.Array) -> Integers:
    """Numbers with -1 for nulls."""
    if values.null_count == len(values):
        return np.full(len(values), -1)
    return filled(values, -1).astype(np.int64)


def _stored(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Rows as bytes of their own: a slice of a chunk would keep the whole chunk in memory."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def _restored(stored: bytes) -> list[pa.RecordBatch]:
    import pyarrow as pa

    with pa.ipc.open_stream(stored) as reader:
        return list(reader)

"""A source cut into chunks of whole records.

A record belongs to the chunk that contains its prefix, independently of its length and the end of the block: the last
record of a block is held back for the next block, since its continuation lines may follow. The held part is bounded:
only the beginning and the length of a record longer than the cap are kept. In syslog more is held back, so that no
message continues after the end of its chunk.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Final

import numpy as np

from citus_analysis.core.arrow_arrays import fill_null_integers
from citus_analysis.core.type_aliases import Integers
from citus_analysis.formats.deliveries.content import (
    EXCERPT_BYTES,
    LINE_CAP,
    Block,
    Content,
    Unread,
    find_last_line_end,
)
from citus_analysis.formats.parsing.cuttable import LOOK_BACK_BYTES, CuttableFormat, Seam
from citus_analysis.formats.parsing.format import Hints, Parsed
from citus_analysis.formats.pglog import compiled
from citus_analysis.formats.pglog.detail_links import DetailLinks
from citus_analysis.formats.pglog.detection import refuse_several_servers
from citus_analysis.formats.pglog.prefix import Heads, Prefix
from citus_analysis.formats.pglog.records import CONTINUED, FIRST_DETAIL, RECORD, Chunk
from citus_analysis.formats.pglog.tables import Checkpoints, ChunkTables, LogTables, iterate_ordered_tables, plan_tables
from citus_analysis.schema import Rows

if TYPE_CHECKING:
    import pyarrow as pa

_WINDOWS: Final = (16 * 2**10, 2**20)


@dataclass(frozen=True)
class _HeldChunk:
    """Bytes of the source, and the number of bytes after them that belong to their only record (or stray line)."""

    offset: int
    data: bytes
    tail: int = 0


_NOTHING: Final = _HeldChunk(0, b"")


def split_into_record_chunks(content: Content, prefix: Heads, block_bytes: int) -> Iterator[Chunk]:
    """The source as chunks of about `block_bytes`; the first ones are smaller."""
    held, fresh = _NOTHING, not content.begin
    for piece in content.pieces(block_bytes, partial(_cut_chunk, prefix=prefix), first_bytes=block_bytes // 4):
        if isinstance(piece, Unread) and not held.data:
            # A record begins after the piece, so the piece is complete, and no blank lines follow it.
            yield Chunk(piece.offset, piece, fresh=fresh)
            fresh = False
            continue
        ready, held = _split_off_complete(held, piece.read() if isinstance(piece, Unread) else piece, prefix)
        for one in ready:
            yield Chunk(one.offset, one.data, one.tail, fresh)
            fresh = fresh and not one.data.strip() and not one.tail
    if held.data:
        yield Chunk(held.offset, held.data, held.tail, fresh)


def _split_off_complete(held: _HeldChunk, block: Block, prefix: Heads) -> tuple[list[_HeldChunk], _HeldChunk]:
    """The complete part of the held bytes followed by a block, and the part to hold back."""
    if block.oversized or held.tail:
        return _extend_long_record(held, block, prefix)
    whole = _HeldChunk(held.offset if held.data else block.offset, held.data + block.data)
    return _split(whole, prefix) if block.unfinished else ([whole], _NOTHING)


def _cut_chunk(data: bytes, *, lines_only: bool, prefix: Heads) -> int:
    """The beginning of the last record, which may continue after `data`; everything before it is complete."""
    end = find_last_line_end(data)
    begin = _find_last_record(data, end, prefix) if end else 0
    if begin is None:
        # Either the last opener is not a record, or there is none in these lines.
        return 0 if lines_only else end
    return begin


def _split(chunk: _HeldChunk, prefix: Heads) -> tuple[list[_HeldChunk], _HeldChunk]:
    """The complete part of a chunk, and the record at its end, which may continue."""
    begin = _find_last_record(chunk.data, len(chunk.data), prefix)
    if begin is None:
        return [chunk], _NOTHING
    held = _HeldChunk(chunk.offset + begin, chunk.data[begin:])
    if len(held.data) > LINE_CAP:
        held = _HeldChunk(held.offset, held.data[:EXCERPT_BYTES], len(held.data) - EXCERPT_BYTES)
    return [_HeldChunk(chunk.offset, chunk.data[:begin])] if begin else [], held


def _extend_long_record(held: _HeldChunk, block: Block, prefix: Heads) -> tuple[list[_HeldChunk], _HeldChunk]:
    """Append a block to a record that is longer than the cap, or becomes so."""
    from citus_analysis.formats.pglog.regular_expressions import find_openers

    data = block.data
    lines = find_openers(data, prefix, complete=not block.oversized)
    openers = np.flatnonzero(lines.roles != CONTINUED)
    if held.data and not len(openers):
        kept = b"" if held.tail else data
        return [], _HeldChunk(held.offset, held.data + kept, held.tail + block.length - len(kept))
    begin = int(lines.starts[openers[0]]) if len(openers) else 0
    ready = [_HeldChunk(held.offset, held.data, held.tail + begin)] if held.data else []
    rest = _HeldChunk(block.offset + begin, data[begin:], block.length - len(data))
    if not block.oversized:
        more, held = _split(rest, prefix)
        return ready + more, held
    if lines.roles[0] == RECORD:
        return ready, rest
    return [*ready, rest], _NOTHING


def _find_last_record(data: bytes, size: int, prefix: Heads) -> int | None:
    """The beginning of the last record in the first `size` bytes; None if the last opener is not a record."""
    if isinstance(prefix, Prefix) and prefix.language:
        from citus_analysis.formats.pglog.translation import place_in_log, translate_to_english

        english = translate_to_english(data[:size], prefix.language)
        place = _find_last_record(english, len(english), replace(prefix, language=""))
        return None if place is None else place_in_log(data[:size], english, place)
    if isinstance(prefix, Prefix):
        return compiled.find_last_record(data, size, prefix)
    from citus_analysis.formats.pglog.regular_expressions import find_openers

    for window in (*_WINDOWS, size):
        begin = data.rfind(b"\n", 0, max(size - window, 0)) + 1
        lines = find_openers(data[begin:size], prefix)
        openers = np.flatnonzero(lines.roles != CONTINUED)
        if len(openers):
            last = openers[-1]
            return begin + int(lines.starts[last]) if lines.roles[last] == RECORD else None
        if begin == 0:
            break
    return None


# Server logs read in splits, by several processes.
#
# A log is cut where a record begins. Three kinds of rows need more than one split:
#
# - A detail may be after the cut and its record before it, if other processes wrote between them. The records just
#   before a split are therefore read again; a log with a detail whose record remains unknown is read in one piece.
# - A checkpoint begins and ends in records that are minutes apart. These few records are combined after all splits
#   are read.
# - Plans are numbered throughout the log. Splits with plans are read again once the number of plans before them is
#   known.

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
        """The chunks of a log or a split of it, in order."""

    @abstractmethod
    def heads(self, content: Content, hints: Hints) -> Heads | None:
        """Patterns of the beginning of records; None if each line is one record."""

    @abstractmethod
    def is_cuttable(self, content: Content, hints: Hints) -> bool:
        """Whether splits of a log can be read alone."""

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece per chunk."""
        again = partial(self.chunk_tables, content, hints)
        yield from iterate_ordered_tables(refuse_several_servers(again(), again), LogTables().tables)

    def cuts(self, content: Content, hints: Hints, split_bytes: int) -> list[int]:
        """The beginnings of the first records after places at equal distances."""
        size = content.path.stat().st_size
        number = size // split_bytes
        if number < 2 or content.compression != "none" or not self.is_cuttable(content, hints):
            return []
        heads = self.heads(content, hints)
        with closing(content.open()) as stream:
            found = [_record_after(stream, size * one // number, heads) for one in range(1, number)]
        return sorted({place for place in found if place is not None})

    def parse_split(self, content: Content, hints: Hints, seam: Seam) -> Iterator[Parsed]:
        """One piece per chunk, without the tables that need all splits."""
        look = self._look_back(content, hints)
        before = replace(content, begin=look, end=content.begin)
        maker = _SplitTables(
            seam, self.chunk_tables(before, hints) if look < content.begin else (), from_start=not look
        )
        for piece in iterate_ordered_tables(self.chunk_tables(content, hints), maker.tables):
            # A reject at the very beginning may continue one at the end of the split before.
            if content.begin and len(piece.rejects) and piece.rejects.column("byte_offset")[0].as_py() == content.begin:
                seam.alone = False
            yield piece

    def _look_back(self, content: Content, hints: Hints) -> int:
        """The beginning of the records that may have details in a split."""
        place = content.begin - LOOK_BACK_BYTES
        if not self.looks_back:
            return content.begin
        if place <= 0:
            return 0
        with closing(content.open()) as stream:
            return _record_after(stream, place, self.heads(content, hints)) or content.begin

    def parse_numbered(self, content: Content, hints: Hints, first: int) -> Iterator[Parsed]:
        """The plans of a split."""
        for chunk in self.chunk_tables(content, hints):
            scanned = chunk.scanned
            rejected = sum(reject.byte_length for reject in scanned.rejects)
            yield Parsed(plan_tables(chunk.plans, first), scanned.parsed_bytes, scanned.noise_bytes + rejected)
            first += len(chunk.plans)

    def parse_together(self, seams: Sequence[Seam]) -> Iterator[Parsed]:
        """The checkpoints of a log."""
        records = [batch for seam in seams for stored in seam.laid_aside for batch in _deserialise_batches(stored)]
        yield Parsed({"checkpoints": Checkpoints().collect(records)}, 0)


class _SplitTables:
    """The tables that need the chunks of one split alone; `LogTables` makes the tables of a whole log."""

    def __init__(self, seam: Seam, before: Iterable[ChunkTables], *, from_start: bool) -> None:
        self._seam, self._from_start = seam, from_start
        self._links, self._known = DetailLinks(), np.empty(0, np.int64)
        for chunk in before:
            self._are_linked(self._links.link(chunk.rows))

    def tables(self, chunk: ChunkTables) -> dict[str, Rows]:
        """The rows of the next chunk."""
        if chunk.checkpoints:
            self._seam.laid_aside.append(_serialise_batches(chunk.checkpoints))
        self._seam.numbered += len(chunk.plans)
        if chunk.linked:
            return {"log_events": chunk.rows}
        rows = self._links.link(chunk.rows)
        # No record is unknown if the split was read from the beginning of the log.
        self._seam.alone &= self._from_start or self._are_linked(rows)
        return {"log_events": rows}

    def _are_linked(self, rows: pa.RecordBatch) -> bool:
        """Whether each process had a record before its first detail; adds the processes of this chunk to the known."""
        pids = _fill_null_numbers(rows.column("pid"))
        details = _fill_null_numbers(rows.column("severity").indices) >= FIRST_DETAIL
        unlinked = np.flatnonzero(details & (_fill_null_numbers(rows.column("record_byte_offset")) < 0))
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
    from citus_analysis.formats.pglog.regular_expressions import find_openers

    begin = _find_line_after(stream, place)
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
        begin = begin + len(whole) if whole else _find_line_after(stream, begin + 1)
    return None


def _find_line_after(stream: BinaryIO, place: int) -> int | None:
    """The first line that begins at a place or after it; None if there is none."""
    stream.seek(place - 1)
    while data := stream.read(_WINDOW):
        found = data.find(b"\n")
        if found >= 0:
            return place + found
        place += len(data)
    return None


def _fill_null_numbers(values: pa.Array) -> Integers:
    """Numbers with -1 for nulls."""
    if values.null_count == len(values):
        return np.full(len(values), -1)
    return fill_null_integers(values, -1).astype(np.int64)


def _serialise_batches(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Rows as bytes of their own: a slice of a chunk would keep the whole chunk in memory."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def _deserialise_batches(stored: bytes) -> list[pa.RecordBatch]:
    import pyarrow as pa

    with pa.ipc.open_stream(stored) as reader:
        return list(reader)

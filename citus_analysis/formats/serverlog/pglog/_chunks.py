"""A source cut into chunks of whole records.

A record belongs to the chunk that contains its prefix, independently of its length and the end of the block: the last
record of a block is held back for the next block, since its continuation lines may follow. The held part is bounded:
only the beginning and the length of a record longer than the cap are kept. In syslog more is held back, so that no
message continues after the end of its chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from citus_analysis.formats.serverlog.pglog._prefix import Heads, Prefix
from citus_analysis.formats.serverlog.pglog._records import CONTINUED, RECORD, Chunk
from citus_analysis.formats.serverlog.pglog.compiled import library as native
from citus_analysis.formats.serverlog.pglog.fallback.chosen_reader import is_compiled
from citus_analysis.formats.sources.content import EXCERPT_BYTES, LINE_CAP, Block, Content, Unread, line_cut

_WINDOWS: Final = (16 * 2**10, 2**20)


@dataclass(frozen=True)
class _Stretch:
    """Bytes of the source, and the number of bytes after them that belong to their only record (or stray line)."""

    offset: int
    data: bytes
    tail: int = 0


_NOTHING: Final = _Stretch(0, b"")


def chunks(content: Content, prefix: Heads, block_bytes: int) -> Iterator[Chunk]:
    """The source as chunks of about `block_bytes`; the first ones are smaller."""
    held, fresh = _NOTHING, not content.begin
    for piece in content.pieces(block_bytes, partial(_cut, prefix=prefix), first_bytes=block_bytes // 4):
        if isinstance(piece, Unread) and not held.data:
            # A record begins after the piece, so the piece is complete, and no blank lines follow it.
            yield Chunk(piece.offset, piece, fresh=fresh)
            fresh = False
            continue
        ready, held = _ready(held, piece.read() if isinstance(piece, Unread) else piece, prefix)
        for one in ready:
            yield Chunk(one.offset, one.data, one.tail, fresh)
            fresh = fresh and not one.data.strip() and not one.tail
    if held.data:
        yield Chunk(held.offset, held.data, held.tail, fresh)


def _ready(held: _Stretch, block: Block, prefix: Heads) -> tuple[list[_Stretch], _Stretch]:
    """The complete part of the held bytes followed by a block, and the part to hold back."""
    if block.oversized or held.tail:
        return _grow(held, block, prefix)
    whole = _Stretch(held.offset if held.data else block.offset, held.data + block.data)
    return _split(whole, prefix) if block.unfinished else ([whole], _NOTHING)


def _cut(data: bytes, *, lines_only: bool, prefix: Heads) -> int:
    """The beginning of the last record, which may continue after `data`; everything before it is complete."""
    end = line_cut(data)
    begin = _last_record(data, end, prefix) if end else 0
    if begin is None:
        # Either the last opener is not a record, or there is none in these lines.
        return 0 if lines_only else end
    return begin


def _split(stretch: _Stretch, prefix: Heads) -> tuple[list[_Stretch], _Stretch]:
    """The complete part of a stretch, and the record at its end, which may continue."""
    begin = _last_record(stretch.data, len(stretch.data), prefix)
    if begin is None:
        return [stretch], _NOTHING
    held = _Stretch(stretch.offset + begin, stretch.data[begin:])
    if len(held.data) > LINE_CAP:
        held = _Stretch(held.offset, held.data[:EXCERPT_BYTES], len(held.data) - EXCERPT_BYTES)
    return [_Stretch(stretch.offset, stretch.data[:begin])] if begin else [], held


def _grow(held: _Stretch, block: Block, prefix: Heads) -> tuple[list[_Stretch], _Stretch]:
    """Append a block to a record that is longer than the cap, or becomes so."""
    from citus_analysis.formats.serverlog.pglog._scan import find_openers

    data = block.data
    lines = find_openers(data, prefix, complete=not block.oversized)
    openers = np.flatnonzero(lines.roles != CONTINUED)
    if held.data and not len(openers):
        kept = b"" if held.tail else data
        return [], _Stretch(held.offset, held.data + kept, held.tail + block.length - len(kept))
    begin = int(lines.starts[openers[0]]) if len(openers) else 0
    ready = [_Stretch(held.offset, held.data, held.tail + begin)] if held.data else []
    rest = _Stretch(block.offset + begin, data[begin:], block.length - len(data))
    if not block.oversized:
        more, held = _split(rest, prefix)
        return ready + more, held
    if lines.roles[0] == RECORD:
        return ready, rest
    return [*ready, rest], _NOTHING


def _last_record(data: bytes, size: int, prefix: Heads) -> int | None:
    """The beginning of the last record in the first `size` bytes; None if the last opener is not a record."""
    if isinstance(prefix, Prefix) and prefix.language:
        from citus_analysis.formats.serverlog.pglog.languages.translation import in_english, place_in_log

        english = in_english(data[:size], prefix.language)
        place = _last_record(english, len(english), replace(prefix, language=""))
        return None if place is None else place_in_log(data[:size], english, place)
    if isinstance(prefix, Prefix) and is_compiled():
        return native.last_record(data, size, prefix)
    if isinstance(prefix, Prefix) and prefix.syslog:
        from citus_analysis.formats.serverlog.pglog.fallback.syslog_messages import last_between_messages

        return last_between_messages(data[:size], prefix)
    from citus_analysis.formats.serverlog.pglog._scan import find_openers

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

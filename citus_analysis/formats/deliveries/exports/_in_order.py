"""Order of records: pieces of one text put together, records sorted by time, and what is known of both beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from citus_analysis.core.array_types import Integers
from citus_analysis.errors import InputError
from citus_analysis.formats.deliveries.exports._columns import Records, bounds_of, joined_records
from citus_analysis.formats.deliveries.line_order import carried_on, rows_by_time
from citus_analysis.formats.deliveries.placed_lines import NO_TIME

#: Text that may be held in memory to be sorted.
HELD_BYTES: Final = 2**30
#: A text that never ends is handed on in parts of this size.
_TEXT_CAP: Final = 10 * 2**20


def in_time_order(pieces: Iterator[Records], late_ns: int, *, newest_first: bool) -> Iterator[Records]:
    """The records sorted by time, those of one time in the order of the file (from its end if it is newest first).

    A record without a time stays after the one before it. A record is held until none can come that is earlier.

    Args:
        pieces: the records in the order of the file.
        late_ns: how much earlier than one before it a record is at most.
        newest_first: the file lists the newest record first.

    Raises:
        InputError: more than 1 GiB of text would have to be held.
    """
    held: list[_Keyed] = []
    size, last, latest = 0, NO_TIME, NO_TIME
    for piece in pieces:
        keys = carried_on(piece.times, last)
        last, latest = int(keys[-1]), max(latest, int(keys.max()))
        held.append(_Keyed(piece, keys))
        size += piece.texts.nbytes
        sure = max(latest - late_ns, NO_TIME)
        done = 0 if newest_first else sum(int((one.keys <= sure).sum()) for one in held)
        if 2 * done >= sum(len(one.keys) for one in held):
            together = _sorted(held, newest_first=newest_first)
            yield together.records.take(np.arange(done))
            rest = np.arange(done, len(together.keys))
            held = [_Keyed(together.records.take(rest), together.keys[rest])] if len(rest) else []
            size = sum(one.records.texts.nbytes for one in held)
        if size > HELD_BYTES:
            raise InputError(
                f"records are so far out of order that more than {HELD_BYTES >> 30} GiB would be held to sort them",
                way_out="sort the file by the time of its records, or export shorter times",
            )
    if held:
        yield _sorted(held, newest_first=newest_first).records


@dataclass(frozen=True)
class _Keyed:
    """Records and the times that they are sorted by."""

    records: Records
    keys: Integers


def _sorted(held: list[_Keyed], *, newest_first: bool) -> _Keyed:
    records = joined_records([one.records for one in held])
    keys = np.concatenate([one.keys for one in held])
    order = rows_by_time(keys, newest_first=newest_first)
    return _Keyed(records.take(order), keys[order])


def put_together(pieces: Iterator[Records]) -> Iterator[Records]:
    """The records with the pieces of one text as one record, where its last piece stands."""
    pending: Records | None = None
    for piece in pieces:
        if pending is None and not piece.open.any():
            yield piece
            continue
        whole, pending = _put_together(joined_records([pending, piece] if pending else [piece]))
        if len(whole):
            yield whole
    if pending is not None:
        # A piece without bytes, after which nothing came, is no line.
        yield pending.take(np.flatnonzero(np.diff(bounds_of(pending.texts)[1]) > 0))


def _put_together(records: Records) -> tuple[Records, Records | None]:
    """Whole records, and those of which more pieces may follow."""
    key = records.names * (int(records.parts.max()) + 1) + records.parts
    order = np.argsort(key, kind="stable")
    keys, is_open = key[order], records.open[order]
    # What could not be parsed is no piece of anything, and of its own name.
    new = np.concatenate([[True], ~is_open[:-1] | (keys[1:] != keys[:-1])])
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(order)) - 1
    texts = records.texts.take(pa.array(order))
    values, offsets = bounds_of(texts)
    bounds = np.append(offsets[first], offsets[-1])
    buffers = [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(values)]
    joined = Records(
        pa.Array.from_buffers(pa.binary(), len(first), buffers),
        records.begins[order[first]],
        records.ends[order[last]],
        records.times[order[first]],
        records.names[order[first]],
        records.parts[order[first]],
        is_open[last] & (np.diff(bounds) < _TEXT_CAP),
    )
    by_end = np.argsort(order[last], kind="stable")
    joined = joined.take(by_end)
    rest = np.flatnonzero(joined.open)
    return joined.take(np.flatnonzero(~joined.open)), joined.take(rest) if len(rest) else None

"""Records of an export as columns: the text of each, where it stands in the file, its time, and whose it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from citus_analysis.core.array_types import Bools, Integers
from citus_analysis.formats.deliveries.placed_lines import Lines, starts_of

Bytes: TypeAlias = npt.NDArray[np.uint8]
_NEWLINE = ord("\n")


@dataclass(frozen=True)
class Records:
    """Some records, one row each.

    Attributes:
        texts: the tool's text; of a record without one, the record as it stands in the file.
        begins: where the record begins in the file.
        ends: where it ends.
        times: ns since 1970 UTC; `NO_TIME` where none is stated.
        names: number of its name in a :class:`Vocabulary`; -1 for what could not be parsed.
        parts: number of the stream of which its text may be a piece.
        open: its text continues in the next one of the same name and stream.
    """

    texts: pa.Array
    begins: Integers
    ends: Integers
    times: Integers
    names: Integers
    parts: Integers
    open: Bools

    def __len__(self) -> int:
        """Number of records."""
        return len(self.begins)

    def take(self, rows: Integers) -> Records:
        """These rows, in this order."""
        columns = (self.begins, self.ends, self.times, self.names, self.parts)
        begins, ends, times, names, parts = (column[rows] for column in columns)
        return Records(self.texts.take(pa.array(rows)), begins, ends, times, names, parts, self.open[rows])

    def lines(self, *, timed: bool) -> Lines:
        """Their lines; a text without a line end at its end is given one."""
        texts = self.texts
        last = ended_by_newline(texts)
        if not last.all():
            added = pc.binary_join_element_wise(texts, b"", b"\n")
            texts = added if not last.any() else pc.if_else(pa.array(last), texts, added)
        values, offsets = bounds_of(texts)
        data = values[offsets[0] : offsets[-1]].tobytes()
        starts = starts_of(data)
        begins, ends, times = self.begins, self.ends, self.times
        if len(starts) - 1 != len(self):
            # Each text has at least its line end, so that no two begin at the same place.
            rows = np.searchsorted(offsets - offsets[0], starts[:-1], side="right") - 1
            begins, ends, times = begins[rows], ends[rows], times[rows]
        micros = np.where(times == np.iinfo(np.int64).min, times, times // 1000) if timed else None
        return Lines(data, starts, begins, ends, micros)


@dataclass
class Vocabulary:
    """Names in order of their first appearance."""

    numbers: dict[tuple[bytes, ...], int] = field(default_factory=dict)

    def codes(self, labels: Sequence[pa.Array], count: int) -> Integers:
        """For each of `count` records the number of its name: the values of `labels`, empty where there is none."""
        codes, words = np.zeros(count, np.int64), [()]  # type: tuple[Integers, list[tuple[bytes, ...]]]
        for label in labels:
            coded = pc.fill_null(label, b"").dictionary_encode()
            own = coded.dictionary.to_pylist()
            pairs = codes * len(own) + coded.indices.to_numpy(zero_copy_only=False)
            found, codes = np.unique(pairs, return_inverse=True)
            words = [(*words[pair // len(own)], own[pair % len(own)]) for pair in found.tolist()]
        _, first = np.unique(codes, return_index=True)
        numbers = np.zeros(len(words), np.int64)
        for number in np.argsort(first).tolist():
            numbers[number] = self.numbers.setdefault(words[number], len(self.numbers))
        return numbers[codes]


def bounds_of(values: pa.Array) -> tuple[Bytes, Integers]:
    """The bytes of an array of bytes, and in them the offset of each value and the end of the last one."""
    _, offsets, data = values.buffers()
    found = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    return np.frombuffer(data if data is not None else b"", np.uint8), found.astype(np.int64)


def binary_of(data: bytes, offsets: Integers) -> pa.Array:
    """The stretches of `data` between these offsets as an array of bytes, without a copy."""
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def ended_by_newline(texts: pa.Array) -> Bools:
    """Whether a text ends with a line end."""
    data, offsets = bounds_of(texts)
    if not len(data):
        return np.zeros(len(texts), np.bool_)
    ended: Bools = (np.diff(offsets) > 0) & (data[np.maximum(offsets[1:] - 1, 0)] == _NEWLINE)
    return ended


def joined_records(pieces: Sequence[Records]) -> Records:
    """Several stretches of records as one."""
    if len(pieces) == 1:
        return pieces[0]
    return Records(
        pa.concat_arrays([piece.texts for piece in pieces]),
        *(
            np.concatenate([getattr(piece, name) for piece in pieces])
            for name in ("begins", "ends", "times", "names", "parts", "open")
        ),
    )

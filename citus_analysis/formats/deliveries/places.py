r"""Where the lines of an undone text stand in the file.

Example:
    >>> import tempfile
    >>> step_lines = Lines(b"one\ntwo\n", np.array([0, 4, 8]), np.array([7, 18]), np.array([18, 29]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     places = write_undone(iter([step_lines]), Path(folder) / "x.log")
    ...     found = places.of(np.array([4]), np.array([4]))
    >>> [part.tolist() for part in found]
    [[18], [11]]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from citus_analysis.core.array_types import Integers
from citus_analysis.formats.deliveries.placed_lines import NO_TIME, Lines

_ARRAYS: Final = ("starts", "begins", "ends", "times")
#: Bounds of a text that is written as a whole.
WHOLE: Final = (0, 0, sys.maxsize, sys.maxsize)


@dataclass(frozen=True)
class Places:
    """The place in the file of each line of a text.

    Attributes:
        starts: offset of each line in the text, then the length of the text.
        begins: offset in the file where each line begins.
        ends: offset in the file where each line ends.
        in_order: whether the lines stand in the file in the order of the text.
        file_bytes: bytes of the file that the lines, and the transcript around them, were made of.
        times: the time that the delivery gave each line, as :attr:`Lines.times`; None if it gave none.
    """

    starts: Integers
    begins: Integers
    ends: Integers
    in_order: bool
    file_bytes: int
    times: Integers | None = None

    @property
    def text_bytes(self) -> int:
        """Length of the text."""
        return int(self.starts[-1])

    def of(self, offsets: Integers, lengths: Integers) -> tuple[Integers, Integers]:
        """Offsets and lengths in the file of stretches of the text.

        Where several lines of the text share a place in the file (a record of an export with several lines), their
        offsets stay apart and in order. If the records of the file are not in the order of the text, both are returned
        as they are: many results depend on the order of offsets.
        """
        if not self.in_order or not len(self.begins):
            return offsets, lengths
        most = len(self.begins) - 1
        first = np.clip(np.searchsorted(self.starts, offsets, side="right") - 1, 0, most)
        last = np.clip(np.searchsorted(self.starts, offsets + lengths, side="left") - 1, first, most)
        begins = self.begins[first]
        shared = np.searchsorted(self.begins, begins, side="left")
        apart = np.where(shared < first, offsets - self.starts[shared], 0)
        own = self._own_bytes
        return np.minimum(begins + apart, self.ends[first] - 1), own[last + 1] - own[first]

    @cached_property
    def _own_bytes(self) -> Integers:
        """Bytes of the file before each line that are of the lines before it; those of a shared place count once."""
        first = np.diff(self.begins, prepend=-1) != 0
        return np.concatenate([[0], np.cumsum(np.where(first, self.ends - self.begins, 0))])

    def times_of(self, offsets: Integers) -> Integers:
        """The times that the delivery gave the lines at offsets of the text; `NO_TIME` for lines without one."""
        if self.times is None or not len(self.times):
            return np.full(len(offsets), NO_TIME)
        line = np.searchsorted(self.starts, offsets, side="right") - 1
        return self.times[np.clip(line, 0, len(self.times) - 1)]

    def back(self, offsets: Integers, lengths: Integers) -> tuple[Integers, Integers]:
        """The stretches of the text, as beginnings and ends, of offsets and lengths that :meth:`of` gave."""
        if not self.in_order or not len(self.begins):
            return offsets, offsets + lengths
        line = np.clip(np.searchsorted(self.begins, offsets, side="right") - 1, 0, len(self.begins) - 1)
        first = np.searchsorted(self.begins, self.begins[line], side="left")
        begins = np.where(first < line, self.starts[first] + offsets - self.begins[first], self.starts[line])
        own = self._own_bytes
        last = np.searchsorted(own, own[first] + lengths, side="left")
        return begins, np.maximum(self.starts[np.clip(last, first + 1, len(self.begins))], begins)


def write_undone(texts: Iterator[Lines], path: Path, bounds: tuple[int, int, int, int] = WHOLE) -> Places:
    """Write lines to a file, and the places of their originals beside it.

    Args:
        texts: the lines.
        path: the new file; the places are in files of the same name with an ending of their own.
        bounds: offsets in the text: the beginning of a part of it, the beginning and end of what is written of the
            part, and the end of the part. What stands around what is written is a transcript.
    """
    offset, latest, file_bytes, in_order, timed = 0, 0, 0, True, False
    files = [path.with_name(f"{path.name}.{name}") for name in _ARRAYS]
    with ExitStack() as stack:
        text_file, *arrays = (stack.enter_context(file.open("wb")) for file in (path, *files))
        for text in texts:
            starts = offset + text.starts
            offset += len(text.data)
            known = [offset if bound == WHOLE[-1] else bound for bound in bounds]
            first, begin, end, last = np.searchsorted(starts[:-1], known).tolist()
            if first < last:
                begins = text.begins[first:last]
                own = np.diff(begins, prepend=latest - 1) != 0
                file_bytes += int((text.ends[first:last] - begins)[own].sum())
                in_order = in_order and bool((np.diff(begins, prepend=latest) >= 0).all())
                latest = int(begins[-1])
            if begin < end:
                times = np.full(len(text), NO_TIME) if text.times is None else text.times
                timed = timed or text.times is not None
                for file, values in zip(arrays, (starts - bounds[1], text.begins, text.ends, times), strict=True):
                    file.write(np.ascontiguousarray(values[begin:end], np.int64).data)
                text_file.write(memoryview(text.data)[text.starts[begin] : text.starts[end]])
        arrays[0].write(np.array([text_file.tell()], np.int64).data)
    starts, begins, ends, times = map(_mapped, files)
    return Places(starts, begins, ends, in_order, file_bytes, times if timed else None)


def _mapped(path: Path) -> Integers:
    """An array in a file, of which only what is used is in memory."""
    return np.memmap(path, np.int64, "r") if path.stat().st_size else np.zeros(0, np.int64)

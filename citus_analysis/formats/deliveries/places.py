r"""Where the lines of an undone text stand in the file.

Example:
    >>> import tempfile
    >>> step_lines = Lines(b"one\ntwo\n", np.array([0, 4, 8]), np.array([7, 18]), np.array([18, 29]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     places = write_undone(iter([step_lines]), Path(folder) / "x.log", Stretch())
    ...     found = places.of(np.array([4]), np.array([4]))
    >>> [part.tolist() for part in found]
    [[18], [11]]
"""

from __future__ import annotations

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


@dataclass(frozen=True)
class Stretch:
    """A part of an undone text: from an offset to another, with a transcript at its beginning and at its end.

    Attributes:
        begin: offset of its first line.
        end: offset after its last line; None: the end of the text.
        before: bytes of the transcript at its beginning.
        after: bytes of the transcript at its end, which must be stated.
    """

    begin: int = 0
    end: int | None = None
    before: int = 0
    after: int = 0

    def rows(self, starts: Integers, size: int) -> tuple[slice, slice]:
        """Numbers of the lines of the part, and of those that are no transcript, where `size` is the text so far."""
        end = size if self.end is None else self.end
        bounds = (self.begin, self.begin + self.before, end - self.after, end)
        first, text, after, last = np.searchsorted(starts[:-1], bounds).tolist()
        return slice(first, last), slice(text, after)


@dataclass
class _Counted:
    """What was written so far."""

    in_order: bool = True
    latest: int = 0
    file_bytes: int = 0
    timed: bool = False

    def add(self, begins: Integers, ends: Integers) -> None:
        own = np.flatnonzero(np.diff(begins, prepend=self.latest - 1))
        self.file_bytes += int((ends[own] - begins[own]).sum())
        self.in_order = self.in_order and bool((np.diff(begins, prepend=self.latest) >= 0).all())
        self.latest = int(begins[-1])


def write_undone(texts: Iterator[Lines], path: Path, stretch: Stretch) -> Places:
    """Write lines to a file, and the places of their originals beside it.

    Args:
        texts: the lines.
        path: the new file; the places are in files of the same name with an ending of their own.
        stretch: the part of the text that is written, without its transcript.
    """
    offset, counted = 0, _Counted()
    files = [path.with_name(f"{path.name}.{name}") for name in _ARRAYS]
    with ExitStack() as stack:
        text_file, *arrays = (stack.enter_context(file.open("wb")) for file in (path, *files))
        for text in texts:
            starts = offset + text.starts
            offset += len(text.data)
            part, kept = stretch.rows(starts, offset)
            if part.start < part.stop:
                counted.add(text.begins[part], text.ends[part])
            if kept.start < kept.stop:
                bounds = text.starts[[kept.start, kept.stop]]
                begin = stretch.begin + stretch.before
                times = np.full(len(text), NO_TIME) if text.times is None else text.times
                counted.timed = counted.timed or text.times is not None
                columns = (starts[kept] - begin, text.begins[kept], text.ends[kept], times[kept])
                for file, values in zip(arrays, columns, strict=True):
                    file.write(np.ascontiguousarray(values, np.int64).data)
                text_file.write(memoryview(text.data)[bounds[0] : bounds[1]])
        arrays[0].write(np.array([text_file.tell()], np.int64).data)
    starts, begins, ends, times = map(_mapped, files)
    return Places(starts, begins, ends, counted.in_order, counted.file_bytes, times if counted.timed else None)


def _mapped(path: Path) -> Integers:
    """An array in a file, of which only what is used is in memory."""
    return np.memmap(path, np.int64, "r") if path.stat().st_size else np.zeros(0, np.int64)

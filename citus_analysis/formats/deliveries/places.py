r"""Where the lines of an undone text stand in the file.

Example:
    >>> import tempfile
    >>> step_lines = Lines(b"one\ntwo\n", np.array([0, 4, 8]), np.array([7, 18]), np.array([18, 29]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path, places = write_undone(iter([step_lines]), Path(folder) / "x.log")
    ...     found = places.of(np.array([4]), np.array([4]))
    >>> [part.tolist() for part in found]
    [[18], [11]]
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from citus_analysis.core.array_types import Integers
from citus_analysis.formats.deliveries.lines import Lines

__all__ = ["Places", "write_undone"]

_ARRAYS: Final = ("starts", "begins", "ends")


@dataclass(frozen=True)
class Places:
    """The place in the file of each line of a text.

    Attributes:
        starts: offset of each line in the text, then the length of the text.
        begins: offset in the file where each line begins.
        ends: offset in the file where each line ends.
        in_order: whether the lines stand in the file in the order of the text.
    """

    starts: Integers
    begins: Integers
    ends: Integers
    in_order: bool

    @property
    def text_bytes(self) -> int:
        """Length of the text."""
        return int(self.starts[-1])

    @property
    def file_bytes(self) -> int:
        """Bytes of the file that the lines were made of; lines of one record share theirs."""
        if not len(self.begins):
            return 0
        own = np.concatenate([[True], self.begins[1:] != self.begins[:-1]])
        return int((self.ends[own] - self.begins[own]).sum())

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
        begins, ends = self.begins[first], self.ends[last]
        shared = np.searchsorted(self.begins, begins, side="left")
        apart = np.where(shared < first, offsets - self.starts[shared], 0)
        moved = np.minimum(begins + apart, ends - 1)
        return moved, np.maximum(ends - moved, 1)

    def back(self, offsets: Integers) -> Integers:
        """The offsets in the text of offsets that :meth:`of` gave."""
        if not self.in_order or not len(self.begins):
            return offsets
        line = np.clip(np.searchsorted(self.begins, offsets, side="right") - 1, 0, len(self.begins) - 1)
        first = np.searchsorted(self.begins, self.begins[line], side="left")
        return np.where(first < line, self.starts[first] + offsets - self.begins[first], self.starts[line])


def write_undone(texts: Iterator[Lines], path: Path, begin: int = 0, end: int | None = None) -> tuple[Path, Places]:
    """Write lines to a file, and the places of their originals beside it.

    Args:
        texts: the lines.
        path: the new file; the places are in files of the same name with an ending of their own.
        begin: lines that begin before this offset of the text are left out.
        end: so are lines that begin at it or after it; None: no line is.
    """
    offset = count = 0
    in_order, latest = True, 0
    files = [path.with_name(f"{path.name}.{name}") for name in _ARRAYS]
    with ExitStack() as stack:
        text_file, *arrays = (stack.enter_context(file.open("wb")) for file in (path, *files))
        for text in texts:
            starts = offset + text.starts
            offset += len(text.data)
            kept = slice(*np.searchsorted(starts[:-1], [begin, offset if end is None else end]))
            begins, ends, starts = text.begins[kept], text.ends[kept], starts[kept.start : kept.stop + 1]
            if not len(begins):
                continue
            first = int(starts[0]) - (offset - len(text.data))
            text_file.write(memoryview(text.data)[first : first + int(starts[-1] - starts[0])])
            for file, values in zip(arrays, (starts[:-1] - begin, begins, ends), strict=True):
                file.write(np.ascontiguousarray(values, np.int64).data)
            in_order = in_order and begins[0] >= latest and bool((np.diff(begins) >= 0).all())
            latest = int(begins[-1])
            count += len(begins)
        arrays[0].write(np.array([text_file.tell()], np.int64).data)
    starts, begins, ends = (_mapped(file) for file in files)
    return path, Places(starts, begins, ends, in_order)


def _mapped(path: Path) -> Integers:
    """An array in a file, of which only what is used is in memory."""
    return np.memmap(path, np.int64, "r") if path.stat().st_size else np.zeros(0, np.int64)

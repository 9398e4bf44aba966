r"""Stretches of whole lines that know where each of their lines stands in the file that they came from.

Example:
    >>> text = Lines.of_file(b"one\ntwo\n", offset=10)
    >>> text.starts.tolist(), text.begins.tolist(), text.ends.tolist()
    ([0, 4, 8], [10, 14], [14, 18])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from citus_analysis.core.array_types import Integers
from citus_analysis.formats.sources.content import Block

#: In place of a time that is not known.
NO_TIME: Final = int(np.iinfo(np.int64).min)


@dataclass(frozen=True)
class Lines:
    """Some whole lines of a text (the last line of a text may lack its line end).

    Attributes:
        data: the lines, one after the other.
        starts: offset of each line in `data`, and after them the length of `data`: one more than there are lines.
        begins: for each line, the offset in the file where what it was made of begins (of compressed files and members
            of archives: in the decompressed bytes).
        ends: for each line, the offset in the file where what it was made of ends.
        times: for each line, the time that its delivery gave it, in µs since 1970-01-01 UTC; :data:`NO_TIME` for lines
            without; None where the delivery gave no times.
    """

    data: bytes
    starts: Integers
    begins: Integers
    ends: Integers
    times: Integers | None = None

    @classmethod
    def of_file(cls, data: bytes, offset: int) -> Lines:
        """Lines as they stand in the file.

        Args:
            data: whole lines.
            offset: their place in the file.
        """
        starts = starts_of(data)
        return cls(data, starts, offset + starts[:-1], offset + starts[1:])

    def __len__(self) -> int:
        """Number of lines."""
        return len(self.begins)


def starts_of(data: bytes) -> Integers:
    r"""Offset of each line, and after them the length of `data`.

    Example:
        >>> starts_of(b"a\nb").tolist(), starts_of(b"").tolist()
        ([0, 2, 3], [0])
    """
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10) + 1
    whole = len(ends) > 0 and ends[-1] == len(data)
    last = [] if whole or not data else [len(data)]
    return np.concatenate([[0], ends, last]).astype(np.int64)


def lines_of_blocks(blocks: Iterable[Block]) -> Iterator[Lines]:
    """The lines of a file; of a line longer than the cap only its beginning, with its true place."""
    for block in blocks:
        if block.oversized:
            bounds = np.array([block.offset, block.offset + block.length], np.int64)
            yield Lines(block.data + b"\n", np.array([0, len(block.data) + 1]), bounds[:1], bounds[1:])
        else:
            yield Lines.of_file(block.data, block.offset)

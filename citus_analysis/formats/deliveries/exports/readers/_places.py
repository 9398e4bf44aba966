"""Lines put one after the other, of which each position is known in the file."""

from __future__ import annotations

import numpy as np

from citus_analysis.core.array_types import Integers
from citus_analysis.formats.deliveries.placed_lines import Lines


class Stretch:
    """A text that grows at its end and is taken away from its beginning.

    Attributes:
        data: the text.
    """

    def __init__(self) -> None:
        self.data = b""
        self._lines = Lines.of_file(b"", 0)

    def add(self, lines: Lines) -> None:
        """Append lines."""
        old, size = self._lines, len(self.data)
        starts = np.concatenate([old.starts[: len(old)], lines.starts + size])
        self.data += lines.data
        begins, ends = np.concatenate([old.begins, lines.begins]), np.concatenate([old.ends, lines.ends])
        self._lines = Lines(b"", starts, begins, ends)

    def drop(self, count: int) -> None:
        """Take away the first `count` bytes."""
        old = self._lines
        first = int(np.searchsorted(old.starts, count, side="right")) - 1
        first = min(max(first, 0), len(old))
        self.data = self.data[count:]
        self._lines = Lines(b"", old.starts[first:] - count, old.begins[first:], old.ends[first:])

    def begins_of(self, positions: Integers) -> Integers:
        """Where in the file the bytes at these positions are."""
        line, within, linear = self._found(positions)
        return self._lines.begins[line] + np.where(linear, within, 0)

    def ends_of(self, positions: Integers) -> Integers:
        """Where in the file the bytes before these positions end."""
        line, within, linear = self._found(positions - 1)
        return np.where(linear, self._lines.begins[line] + within + 1, self._lines.ends[line])

    def _found(self, positions: Integers) -> tuple[Integers, Integers, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
        """The line of each position, the offset in it, and whether the line stands in the file as it is."""
        lines = self._lines
        line = np.clip(np.searchsorted(lines.starts, positions, side="right") - 1, 0, max(len(lines) - 1, 0))
        linear = lines.ends[line] - lines.begins[line] == lines.starts[line + 1] - lines.starts[line]
        return line, positions - lines.starts[line], linear

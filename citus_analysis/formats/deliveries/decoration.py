r"""Lines that something wrote more before: a stamp, the name of a container, a host or a file, a counter, a quote.

Example:
    >>> step = Decoration(pattern=r"(?P<name>\S+) +\| ", kind="Docker Compose", only="db-1", others=("web-1",))
    >>> text = Lines.of_file(b"db-1  | LOG:  ready\nweb-1 | GET /\ndb-1  | \tmore\n", 0)
    >>> [undone.data for undone in step.undo(iter([text]))], [view.only for view in step.views(iter([text]))]
    ([b'LOG:  ready\n\tmore\n'], ['db-1', 'web-1'])
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from citus_analysis.core.array_types import Integers
from citus_analysis.formats.deliveries.lines import Lines
from citus_analysis.formats.deliveries.steps import Step

if TYPE_CHECKING:
    import polars as pl

__all__ = ["ANSI", "Decoration"]

#: Sequences that colour a text on a terminal, or move the cursor.
ANSI: Final = r"\x1b\[[0-9;?]*[A-Za-z]"
#: rsyslog's escape of a tab.
_ESCAPED_TAB: Final = "#011"


@dataclass(frozen=True)
class Decoration(Step):
    """What stands before each line.

    Attributes:
        pattern: regular expression of it (in the syntax that Python and Rust share). The group `name` is the name of
            the container or host, `part` is `P` in a piece of a line that the next line continues.
        kind: what people call it.
        only: the name whose lines are kept; None: all lines are.
        first: lines without the decoration, or with a name that is not in `others`, are kept too.
        others: the other names in the file.
        coloured: sequences that colour a text are removed, wherever they are.
        escaped: `#011` stands for a tab.
        noise: regular expression of whole lines without the decoration that its program writes about itself. So are
            all lines before the first with the decoration.
    """

    pattern: str
    kind: str
    only: str | None = None
    first: bool = True
    others: tuple[str, ...] = ()
    coloured: bool = False
    escaped: bool = False
    noise: str = ""

    @property
    def words(self) -> str:
        """Its kind, and the name that was chosen."""
        return self.kind if self.only is None else f"{self.kind} of {self.only}"

    def undo(self, texts: Iterator[Lines]) -> Iterator[Lines]:
        """The lines without it."""
        held: Lines | None = None
        for text in texts:
            undone, held = self._undone(text if held is None else _joined(held, text))
            if len(undone):
                yield undone
        if held is not None and len(held):
            undone, _ = self._undone(held, last=True)
            yield undone

    @property
    def of_name(self) -> str | None:
        """The name whose lines are kept; None if all lines are."""
        return self.only

    def views(self, texts: Iterator[Lines]) -> list[Decoration]:
        """One step for each name in a text."""
        names = self._names(texts) if "(?P<name>" in self.pattern else []
        return [
            replace(self, only=name, first=number == 0, others=tuple(other for other in names if other != name))
            for number, name in enumerate(names)
        ] or [self]

    def _names(self, texts: Iterator[Lines]) -> list[str]:
        import polars as pl

        found: dict[str, None] = {}
        for text in texts:
            lines = self._uncoloured(_lines(text))
            names = lines.str.extract(self._anchored, _group(self.pattern, "name"))
            found |= dict.fromkeys(names.unique(maintain_order=True).drop_nulls().cast(pl.String).to_list())
        return list(found)

    @property
    def _anchored(self) -> str:
        return f"(?m)^(?:{self.pattern})"

    def _undone(self, text: Lines, *, last: bool = False) -> tuple[Lines, Lines | None]:
        """The lines without the decoration, and lines to be read again with those after them."""
        lines, rows = self._uncoloured(_lines(text)), np.arange(len(text))
        if self.only is not None:
            kept = self._kept(lines)
            lines, rows = lines.filter(kept), rows[kept.to_numpy()]
        begins, ends = text.begins[rows], text.ends[rows]
        if "(?P<part>" in self.pattern:
            goes_on = lines.str.extract(self._anchored, _group(self.pattern, "part")).eq("P").fill_null(value=False)
            whole = len(lines) if last else len(lines) - _open_at_end(goes_on)
            held = _picked(text, rows[whole:]) if whole < len(lines) else None
            lines, goes_on = lines.head(whole), goes_on.head(whole)
            lines = self._stripped(lines)
            # A piece lacks the line end, so that the next one continues it.
            pieces = lines.to_frame("line").select(_without_line_end(goes_on)).to_series()
            first = np.flatnonzero(~np.concatenate([[False], goes_on.to_numpy()[:-1]])) if whole else np.array([], int)
            final = np.append(first[1:], whole)[: len(first)] - 1
            data, starts = _bytes_of(pieces)
            return Lines(data, starts[np.append(first, whole)], begins[first], ends[final]), held
        stripped = self._stripped(lines)
        if (own := self._own_lines(lines, at_start=text.begins[0] == 0)) is not None:
            # An empty text keeps the place of the line.
            stripped = stripped.zip_with(~own, stripped.clear(len(stripped)).fill_null(""))
        data, starts = _bytes_of(stripped)
        return Lines(data, starts, begins, ends), None

    def _own_lines(self, lines: pl.Series, *, at_start: bool) -> pl.Series | None:
        """Which lines the program of the decoration wrote about itself; None if none of them."""
        import polars as pl

        if not len(lines) or not (at_start or self.noise):
            return None
        decorated = lines.str.contains(self._anchored).to_numpy()
        own = (
            lines.str.contains(f"^(?:{self.noise})").to_numpy() & ~decorated if self.noise else np.zeros_like(decorated)
        )
        if at_start and decorated.any():
            own |= np.arange(len(lines)) < decorated.argmax()
        return pl.Series(own) if own.any() else None

    def _uncoloured(self, lines: pl.Series) -> pl.Series:
        return lines.str.replace_all(ANSI, "") if self.coloured else lines

    def _kept(self, lines: pl.Series) -> pl.Series:
        name = lines.str.extract(self._anchored, _group(self.pattern, "name"))
        if self.first:
            return ~name.is_in(list(self.others)).fill_null(value=False)
        return name.eq(self.only).fill_null(value=False)

    def _stripped(self, lines: pl.Series) -> pl.Series:
        stripped = lines.str.replace(self._anchored, "")
        if self.escaped:
            stripped = stripped.str.replace_all(_ESCAPED_TAB, "\t", literal=True)
        return stripped


def _group(pattern: str, name: str) -> int:
    """Number of a named group: all groups of these patterns have names."""
    return pattern[: pattern.index(f"(?P<{name}>")].count("(?P<") + 1


def _without_line_end(goes_on: pl.Series) -> pl.Expr:
    import polars as pl

    return pl.when(goes_on).then(pl.col("line").str.strip_chars_end("\r\n")).otherwise(pl.col("line"))


def _open_at_end(goes_on: pl.Series) -> int:
    """Number of the last lines that a later line continues."""
    closed = np.flatnonzero(~goes_on.to_numpy())
    return len(goes_on) - (int(closed[-1]) + 1 if len(closed) else 0)


def _lines(text: Lines) -> pl.Series:
    """The lines, each with its line end; bytes that are not UTF-8 become question marks of the same number."""
    import polars as pl
    import pyarrow as pa

    data = text.data
    try:
        data.decode()
    except UnicodeDecodeError:
        data = data.decode("utf-8", "surrogateescape").encode("utf-8", "replace")
    array = pa.Array.from_buffers(
        pa.large_string(), len(text), [None, pa.py_buffer(text.starts.astype(np.int64)), pa.py_buffer(data)]
    )
    return pl.Series("line", array)


def _bytes_of(lines: pl.Series) -> tuple[bytes, Integers]:
    """The lines one after the other, and their starts with the length at the end."""
    import pyarrow as pa

    array = lines.rechunk().to_arrow()
    array = array if pa.types.is_large_string(array.type) else array.cast(pa.large_string())
    if len(array) == 0:
        return b"", np.zeros(1, np.int64)
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    data = memoryview(array.buffers()[2])[int(offsets[0]) : int(offsets[-1])] if array.buffers()[2] else b""
    return bytes(data), offsets - offsets[0]


def _picked(text: Lines, rows: Integers) -> Lines:
    """Some of the lines."""
    data = b"".join(text.data[text.starts[row] : text.starts[row + 1]] for row in rows.tolist())
    sizes = text.starts[rows + 1] - text.starts[rows]
    return Lines(data, np.concatenate([[0], np.cumsum(sizes)]), text.begins[rows], text.ends[rows])


def _joined(before: Lines, after: Lines) -> Lines:
    return Lines(
        before.data + after.data,
        np.concatenate([before.starts[:-1], len(before.data) + after.starts]),
        np.concatenate([before.begins, after.begins]),
        np.concatenate([before.ends, after.ends]),
    )

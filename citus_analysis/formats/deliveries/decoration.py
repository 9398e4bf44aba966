r"""Lines that something wrote more before: a stamp, the name of a container, a host or a file, a counter, a quote.

Example:
    >>> step = Decoration(pattern=r"(?P<name>\S+) +\| ", kind="Docker Compose", only="db-1", others=("web-1",))
    >>> text = Lines.of_file(b"db-1  | LOG:  ready\nweb-1 | GET /\ndb-1  | \tmore\n", 0)
    >>> [undone.data for undone in step.undo(iter([text]))], [view.only for view in step.views(iter([text]))]
    ([b'LOG:  ready\n\tmore\n'], ['db-1', 'web-1'])
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from citus_analysis.core.array_types import Bools, Integers
from citus_analysis.core.threads import in_order
from citus_analysis.formats.deliveries.exports import nanoseconds
from citus_analysis.formats.deliveries.line_order import Order, joined_lines, seen_in_order, sorted_by_time
from citus_analysis.formats.deliveries.placed_lines import NO_TIME, Lines
from citus_analysis.formats.deliveries.stamps import has_date, time_of_stamp
from citus_analysis.formats.deliveries.steps import Step

if TYPE_CHECKING:
    import polars as pl

#: Sequences that colour a text on a terminal, or move the cursor.
ANSI: Final = r"\x1b\[[0-9;?]*[A-Za-z]"
#: Lines that show what the stamps look like.
_FIRST: Final = 100
_NS_PER_US: Final = 1000
#: rsyslog's escape of a tab.
_ESCAPED_TAB: Final = "#011"


@dataclass(frozen=True)
class Decoration(Step):
    """What stands before each line.

    Attributes:
        pattern: regular expression of it (in the syntax that Python and Rust share). The group `name` is the name of
            the container or host, `part` is `P` in a piece of a line that the next line continues, and `joins`
            occurs in a piece that continues the line before; a pattern with pieces has no names.
        kind: what people call it.
        only: the name whose lines are kept; None: all lines are.
        first: lines without the decoration, or with a name that is not in `others`, are kept too.
        others: the other names in the file.
        coloured: sequences that colour a text are removed, wherever they are.
        escaped: `#011` stands for a tab.
        timed: lines keep the times of their stamps (:attr:`Lines.times`) if these state their zone.
        unordered: the lines are not in the order of their stamps, and are sorted by them.
        newest_first: the newest line comes first.
        believed: the lines are believed to be in the order of their stamps.
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
    timed: bool = False
    unordered: bool = False
    newest_first: bool = False
    believed: bool = False

    @property
    def words(self) -> str:
        """Its kind, and the name that was chosen."""
        return self.kind if self.only is None else f"{self.kind} of {self.only}"

    def undo(self, texts: Iterator[Lines], jobs: int = 1) -> Iterator[Lines]:
        """The lines without it.

        Raises:
            InputError: the lines are not in order, and too many to be sorted in memory.
            OutOfOrderError: their order was believed, and a line is earlier than the one before it.
        """
        whole = self._of_whole_lines(texts) if self._continuing else texts
        undone = (text for text in in_order(whole, self._undone, jobs, "undoing") if len(text))
        if self.unordered:
            return sorted_by_time(undone, newest_first=self.newest_first)
        return seen_in_order(undone, timed=self.timed) if self.believed else undone

    def _of_whole_lines(self, texts: Iterator[Lines]) -> Iterator[Lines]:
        """The texts, cut so that no line at the end of one goes on in the next one."""
        held: list[Lines] = []
        for text in texts:
            whole = len(text)
            while whole and self._may_go_on(text.line(whole - 1)):
                whole -= 1
            if whole and self._continuing == "joins":
                # Only the line after it would show that this one goes on.
                whole -= 1
            if whole:
                yield joined_lines([*held, text[:whole]])
                held = []
            if whole < len(text):
                held.append(text[whole:])
        if held:
            yield joined_lines(held)

    def _may_go_on(self, line: bytes) -> bool:
        """Whether a line is a piece that the next line continues, or that continues the line before."""
        shown = line.decode("utf-8", "replace")
        found = re.match(self._anchored, re.sub(ANSI, "", shown) if self.coloured else shown)
        return found is not None and found[self._continuing] in ("P", "+")

    @property
    def is_named(self) -> bool:
        """Whether names stand before the lines."""
        return "(?P<name>" in self.pattern

    @property
    def of_node(self) -> str | None:
        """The name whose lines are kept; None if all lines are."""
        return self.only

    def views(self, texts: Iterator[Lines], jobs: int = 1) -> list[Decoration]:
        """One step for each name in a text, which knows whether to sort."""
        order: dict[str | None, Order] = {}
        for names_of_text in in_order(texts, self._times_of_names, jobs, "names"):
            for name, times in names_of_text:
                order.setdefault(name, Order()).add(times)
        names = [name for name in order if name is not None]
        found = [
            replace(self, only=name, first=number == 0, others=tuple(other for other in names if other != name))
            for number, name in enumerate(names)
        ] or [self]
        orders = [order[name] for name in names] or list(order.values()) or [Order()]
        return [
            replace(view, unordered=own.is_broken, newest_first=own.is_descending)
            for view, own in zip(found, orders, strict=False)
        ]

    def _times_of_names(self, text: Lines) -> list[tuple[str | None, Integers | None]]:
        """The names in a text, and the times of the lines of each; None if the stamps have no dates."""
        import polars as pl

        lines = self._uncoloured(_lines(text))
        times = self._times(lines) if has_date(self._shown_stamp(lines)) else None
        if not self.is_named:
            return [(None, times)]
        names = lines.str.extract(self._anchored, _group(self.pattern, "name")).alias("name")
        if times is None:
            return [(name, None) for name in names.drop_nulls().unique(maintain_order=True)]
        timed = pl.DataFrame([names, pl.Series("time", times)]).drop_nulls()
        return [(str(name), rows["time"].to_numpy()) for (name,), rows in timed.group_by("name", maintain_order=True)]

    def _shown_stamp(self, lines: pl.Series) -> str:
        """The first stamp of some lines; empty if they have none."""
        if "(?P<stamp>" not in self.pattern:
            return ""
        stamps = lines.head(_FIRST).str.extract(self._anchored, _group(self.pattern, "stamp")).drop_nulls()
        return str(stamps[0]) if len(stamps) else ""

    def _times(self, lines: pl.Series) -> Integers:
        """The times of the stamps in µs since 1970-01-01 UTC."""
        import pyarrow as pa

        stamps = lines.str.extract(self._anchored, _group(self.pattern, "stamp")).to_arrow()
        times = nanoseconds(stamps.cast(pa.binary()))
        return np.where(times == NO_TIME, times, times // _NS_PER_US)

    @property
    def _anchored(self) -> str:
        return rf"(?m)\A(?:{self.pattern})"

    @property
    def _continuing(self) -> str:
        """The group that tells pieces of lines; empty if there are none."""
        return next((name for name in ("part", "joins") if f"(?P<{name}>" in self.pattern), "")

    def _undone(self, text: Lines) -> Lines:
        """The lines without the decoration."""
        lines, rows = self._uncoloured(_lines(text)), np.arange(len(text))
        if self.only is not None:
            kept = self._kept(lines)
            lines, rows = lines.filter(kept), rows[kept.to_numpy()]
        begins, ends, times = text.begins[rows], text.ends[rows], self._needed_times(lines)
        stripped = self._stripped(lines)
        if self._continuing:
            return _with_whole_lines(stripped, self._goes_on(lines), begins, ends, times)
        if (own := self._own_lines(lines, at_start=text.begins[0] == 0)) is not None:
            # An empty text keeps the place of the line.
            stripped = stripped.zip_with(~own, stripped.clear(len(stripped)).fill_null(""))
        data, starts = _bytes_of(stripped)
        return Lines(data, starts, begins, ends, times)

    def _needed_times(self, lines: pl.Series) -> Integers | None:
        """The times of the stamps, if they decide about the order or are kept."""
        shown = self._shown_stamp(lines)
        needed = self.unordered or (self.believed and has_date(shown)) or (self.timed and time_of_stamp(shown))
        return self._times(lines) if needed else None

    def _goes_on(self, lines: pl.Series) -> Bools:
        """Which lines the next one continues."""
        found = lines.str.extract(self._anchored, _group(self.pattern, self._continuing))
        if self._continuing == "part":
            return found.eq("P").fill_null(value=False).to_numpy()
        return np.append(found.is_not_null().to_numpy()[1:], [False])

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


def _with_whole_lines(
    lines: pl.Series, goes_on: Bools, begins: Integers, ends: Integers, times: Integers | None
) -> Lines:
    """Lines of which some are pieces that the next one continues, put together."""
    import polars as pl

    # A piece lacks the line end, so that the next one continues it.
    pieces = lines.zip_with(~pl.Series(goes_on), lines.str.strip_chars_end("\r\n")) if goes_on.any() else lines
    first = np.flatnonzero(~np.append([False], goes_on[:-1]))
    after = np.append(first[1:], len(lines))
    data, starts = _bytes_of(pieces)
    return Lines(
        data,
        starts[np.append(first, len(lines))],
        begins[first],
        ends[after - 1],
        None if times is None else times[first],
    )


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

r"""Lines that something wrote more before: a stamp, the name of a container, a host or a file, a counter, a quote.

Example:
    >>> step = Decoration(pattern=r"(?P<name>\S+) +\| ", kind="Docker Compose", only="db-1", others=("web-1",))
    >>> text = Lines.of_file(b"db-1  | LOG:  ready\nweb-1 | GET /\ndb-1  | \tmore\n", 0)
    >>> [undone.data for undone in step.undo(iter([text]))], [view.only for view in step.views(iter([text]))]
    ([b'LOG:  ready\n\tmore\n'], ['db-1', 'web-1'])
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from citus_analysis.core.threads import in_order
from citus_analysis.errors import InputError
from citus_analysis.formats.deliveries.exports import nanoseconds
from citus_analysis.formats.deliveries.line_order import Order, in_time_order, orders_of_names, seen_in_order
from citus_analysis.formats.deliveries.line_rows import lines_of_rows, put_together, rows_of
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
        rows: Iterator[pl.DataFrame] = (one for one in in_order(texts, self._undone, jobs, "undoing") if one.height)
        if self._continuing:
            rows = put_together(rows)
        if self.unordered:
            problem = "the lines are not in the order of their stamps, and more than 1 GiB"
            refusal = InputError(problem, way_out="sort the file by its stamps, or divide it")
            rows = in_time_order(rows, sys.maxsize, refusal, newest_first=self.newest_first)
        elif self.believed:
            rows = seen_in_order(rows)
        yield from (lines_of_rows(one, timed=self.timed or self.unordered) for one in rows)

    @property
    def is_named(self) -> bool:
        """Whether names stand before the lines."""
        return "(?P<name>" in self.pattern

    def views(self, texts: Iterator[Lines], jobs: int = 1) -> list[Decoration]:
        """One step for each name in a text, which knows whether to sort."""
        found = orders_of_names(in_order(texts, self._names_and_times, jobs, "names"))
        orders = cast("dict[str | None, Order]", found) or {None: Order()}
        return [
            replace(
                self,
                only=name,
                first=number == 0,
                others=tuple(other for other in orders if other not in (name, None)),
                unordered=order.is_broken,
                newest_first=order.is_descending,
            )
            for number, (name, order) in enumerate(orders.items())
        ]

    def _names_and_times(self, text: Lines) -> pl.DataFrame:
        """Names in a text and the times of their lines; without times if the stamps have no dates."""
        lines = self._uncoloured(rows_of(text)["text"])
        times = self._times(lines) if has_date(self._shown_stamp(lines)) else NO_TIME
        rows = self._said(lines, "name").alias("name").to_frame().with_columns(time=times)
        return rows.drop_nulls("name") if self.is_named else rows

    def _said(self, lines: pl.Series, group: str) -> pl.Series:
        """What a group of the pattern, in which all groups have names, says of each line; null where it is silent."""
        before, found, _ = self.pattern.partition(f"(?P<{group}>")
        return lines.str.extract(self._anchored, before.count("(?P<") + 1) if found else lines.clear(len(lines))

    def _shown_stamp(self, lines: pl.Series) -> str:
        """The first stamp of some lines; empty if they have none."""
        stamps = self._said(lines.head(_FIRST), "stamp").drop_nulls()
        return str(stamps[0]) if len(stamps) else ""

    def _times(self, lines: pl.Series) -> pl.Series:
        """The times of the stamps in µs since 1970-01-01 UTC."""
        import polars as pl

        times = nanoseconds(self._said(lines, "stamp").cast(pl.Binary).to_arrow())
        return pl.Series(np.where(times == NO_TIME, times, times // _NS_PER_US))

    @property
    def _anchored(self) -> str:
        return rf"(?m)\A(?:{self.pattern})"

    @property
    def _continuing(self) -> str:
        """The group that tells pieces of lines; empty if there are none."""
        return next((name for name in ("part", "joins") if f"(?P<{name}>" in self.pattern), "")

    def _undone(self, text: Lines) -> pl.DataFrame:
        """The lines without the decoration."""
        import polars as pl

        rows = rows_of(text)
        rows = rows.with_columns(self._uncoloured(rows["text"]))
        if self.only is not None:
            rows = rows.filter(self._kept(rows["text"]))
        lines = rows["text"]
        rows = rows.with_columns(self._stripped(lines), time=self._needed_times(lines))
        bare = pl.col("text").str.strip_chars_end("\r\n")
        if self._continuing == "part":
            rows = rows.with_columns(open=self._said(lines, "part").eq("P").fill_null(value=False))
            # A piece lacks the line end, so that the next one continues it.
            return rows.with_columns(pl.when("open").then(bare).otherwise("text"))
        if self._continuing:
            return rows.with_columns(open=True, joins=self._said(lines, "joins").is_not_null())
        return self._without_own_lines(rows, lines, at_start=text.begins[0] == 0)

    def _needed_times(self, lines: pl.Series) -> pl.Series | pl.Expr:
        """The times of the stamps, if they decide about the order or are kept."""
        import polars as pl

        shown = self._shown_stamp(lines)
        needed = self.unordered or (self.believed and has_date(shown)) or (self.timed and time_of_stamp(shown))
        return self._times(lines) if needed else pl.lit(None, pl.Int64)

    def _without_own_lines(self, rows: pl.DataFrame, lines: pl.Series, *, at_start: bool) -> pl.DataFrame:
        """Rows of which those that the program of the decoration wrote about itself have no text, but keep their place.

        Args:
            rows: the undone lines.
            lines: the lines before.
            at_start: they are the first of the file.
        """
        import polars as pl

        if not (at_start or self.noise):
            return rows
        decorated = lines.str.contains(self._anchored).to_numpy()
        own = ~decorated & (lines.str.contains(f"^(?:{self.noise})").to_numpy() if self.noise else False)
        if at_start and decorated.any():
            own |= np.arange(len(lines)) < decorated.argmax()
        return rows.with_columns(text=pl.when(pl.Series(own)).then(pl.lit("")).otherwise("text"))

    def _uncoloured(self, lines: pl.Series) -> pl.Series:
        return lines.str.replace_all(ANSI, "") if self.coloured else lines

    def _kept(self, lines: pl.Series) -> pl.Series:
        name = self._said(lines, "name")
        if self.first:
            return ~name.is_in(list(self.others)).fill_null(value=False)
        return name.eq(self.only).fill_null(value=False)

    def _stripped(self, lines: pl.Series) -> pl.Series:
        stripped = lines.str.replace(self._anchored, "")
        if self.escaped:
            stripped = stripped.str.replace_all(_ESCAPED_TAB, "\t", literal=True)
        return stripped

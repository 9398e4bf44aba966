r"""The step that undoes an export, as log services and container runtimes write it: a text in a field of records.

Example:
    >>> docker = Shape("lines", text=("log",), time=("time",), utc=True, stream=("stream",), newline=True)
    >>> record = b'{"log":"one\\n","stream":"stderr","time":"1970-01-01T00:00:01Z"}\n'
    >>> (lines,) = Export.of(docker).undo(iter([Lines.of_file(record, offset=100)]))
    >>> lines.data, lines.begins.tolist(), lines.ends.tolist(), lines.times.tolist()
    (b'one\n', [100], [164], [1000000])
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Final, cast
from urllib.parse import quote, unquote

import numpy as np
import polars as pl

from citus_analysis.core.threads import work_ahead
from citus_analysis.errors import InputError
from citus_analysis.formats.deliveries.exports._rows import UNSEEN, Rows
from citus_analysis.formats.deliveries.exports._shape import Shape
from citus_analysis.formats.deliveries.exports._words import words_of
from citus_analysis.formats.deliveries.exports.readers._csv import of_csv
from citus_analysis.formats.deliveries.exports.readers._documents import of_documents
from citus_analysis.formats.deliveries.exports.readers._journal import of_journal
from citus_analysis.formats.deliveries.exports.readers._lines import of_lines
from citus_analysis.formats.deliveries.line_order import Order, in_time_order, orders_of_names, seen_in_order
from citus_analysis.formats.deliveries.line_rows import bytes_of, put_together
from citus_analysis.formats.deliveries.placed_lines import NO_TIME, Lines, starts_of
from citus_analysis.formats.deliveries.steps import Step

_READERS: Final = MappingProxyType({"lines": of_lines, "document": of_documents, "csv": of_csv, "journal": of_journal})


def any_cut(data: bytes, *, lines_only: bool) -> int:
    """A :class:`~citus_analysis.formats.sources.content.Cut` for documents, whose lines may be of any length."""
    return 0 if lines_only else len(data)


@dataclass(frozen=True)
class Export(Shape, Step):
    """An export, and what is read of it.

    Attributes:
        only: records of this name (see :meth:`views`) are read; None for all.
        strays: records that cannot be parsed, and so have no name, are handed on too.
        late_ns: how much earlier than one before it a record is at most; 0 if they are in order.
        newest_first: the newest record comes first.
        believed: the records are believed to be in order.
    """

    only: str | None = None
    strays: bool = True
    late_ns: int = 0
    newest_first: bool = False
    believed: bool = False

    @classmethod
    def of(cls, shape: Shape) -> Export:
        """All records of an export of this shape, which is in order."""
        return cls(**{one.name: getattr(shape, one.name) for one in fields(Shape)})

    @property
    def words(self) -> str:
        """`Docker JSON`, `JSON export, field textPayload`, `CSV export, column @message of pg-1`."""
        known = words_of(self)
        return known if self.only is None else f"{known} of {self.only or 'no name'}"

    @property
    def any_line(self) -> bool:
        """A record has no relation to lines, so that content may be cut anywhere (:func:`any_cut`)."""
        return self.container == "document"

    def undo(self, texts: Iterator[Lines], jobs: int = 1) -> Iterator[Lines]:
        r"""The lines of the tool, in order of time.

        Each has the place of its record. A record without a text, or one that cannot be parsed, is handed on as it
        stands. What stands between records (brackets, commas, blank lines, a header) gives no lines.

        Args:
            texts: stretches of the file, of whole lines unless it is a document.
            jobs: with more than one, a thread decodes records in advance.

        Raises:
            InputError: records are too far out of order to be sorted in memory.
            OutOfOrderError: their order was believed, and a record is earlier than the one before it.
            FormatError: of a document, too much stands before its records.
        """
        rows = Rows(self)
        records = self._selected(rows, work_ahead(_READERS[self.container](rows, texts), "decoding", jobs - 1))
        if self.believed:
            records = seen_in_order(records)
        if self.late_ns:
            problem = "records are so far out of order that more than 1 GiB would be held to sort them"
            refusal = InputError(problem, way_out="sort the file by the time of its records, or export shorter times")
            records = in_time_order(records, self.late_ns, refusal, newest_first=self.newest_first)
        if self.newline or self.part:
            # A piece without bytes, after which nothing came, is no line.
            lined = pl.col("text").bin.size() > 0
            records = (found.filter(lined | ~pl.col("open")) for found in put_together(records, ("name", "part")))
        for found in records:
            yield _lines_of(found, timed=bool(self.time) and self.utc)

    def views(self, texts: Iterator[Lines], jobs: int = 1) -> list[Export]:
        """What is in a text: one step for each name in it, in order of appearance, which knows whether to sort.

        Reads the text once, in bounded memory. Records that cannot be parsed go to the first one.

        Args:
            texts: stretches of the whole file.
            jobs: with more than one, a thread decodes records in advance.
        """
        rows = Rows(self)
        pieces = work_ahead(_READERS[self.container](rows, texts), "decoding", jobs - 1)
        named = (piece.select("name", "time").filter(pl.col("name") >= 0) for piece in pieces)
        late = cast("dict[int, Order]", orders_of_names(named))
        names = [self._name(values) for values in rows.names.numbers]
        views = [
            replace(self, strays=number == min(late), late_ns=found.late, newest_first=found.is_descending)
            for number, found in sorted(late.items())
        ]
        if not self.naming or not views:
            return views or [self]
        return [replace(view, only=name) for view, name in zip(views, names, strict=True)]

    @property
    def is_named(self) -> bool:
        """Whether its records have names."""
        return bool(self.naming)

    @property
    def of_node(self) -> str | None:
        """The pod, host or container that the records are of; None if their name is of something else."""
        known = self.facts
        return next((known[kind] for kind in ("pod", "host", "container") if kind in known), None)

    @property
    def facts(self) -> Mapping[str, str]:
        """What the name of the records says: values of `host`, `pod`, `container` ..., as far as it has them."""
        if self.only is None:
            return {}
        values = [self.only] if len(self.naming) == 1 else [unquote(value) for value in self.only.split("/")]
        return {kind: value for (kind, _), value in zip(self.naming, values, strict=True) if value}

    def _name(self, values: tuple[bytes, ...]) -> str:
        texts = [value.decode("utf-8", "replace") for value in values]
        return texts[0] if len(texts) == 1 else "/".join(quote(text, safe=" :@+,=") for text in texts)

    def _selected(self, rows: Rows, pieces: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        for piece in pieces:
            # Of a record looked up alone, what stood around it and names it is not at hand.
            kept = [
                number
                for values, number in rows.names.numbers.items()
                if self.only is None or UNSEEN in values or self._name(values) == self.only
            ]
            chosen = pl.col("name").is_in([*kept, *([-1] if self.strays else [])])
            found = piece if self.only is None and self.strays else piece.filter(chosen)
            if found.height:
                yield found


def _lines_of(rows: pl.DataFrame, *, timed: bool) -> Lines:
    """Their lines; a text without a line end at its end is given one, and each line has the place of its text."""
    text = pl.col("text")
    ended = rows.select(pl.when(text.bin.ends_with(b"\n")).then(text).otherwise(text + pl.lit(b"\n")))
    data, bounds = bytes_of(ended.to_series())
    starts = starts_of(data)
    # Each text has at least its line end, so that no two begin at the same place.
    own = rows[np.searchsorted(bounds, starts[:-1], side="right") - 1]
    times = own["time"].to_numpy()
    micros = np.where(times == NO_TIME, times, times // 1000) if timed else None
    return Lines(data, starts, own["begin"].to_numpy(), own["end"].to_numpy(), micros)

"""What a format rejects of an output, by reading it: how transcripts and mingled lines are found."""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import polars as pl

from citus_analysis.errors import CitusAnalysisError
from citus_analysis.formats.api.format import Format, Hints, Parsed
from citus_analysis.formats.reading.lines import UNTERMINATED
from citus_analysis.formats.sources.content import Content

_NAME: Final = "output"


@dataclass(frozen=True)
class Trial:
    """How a format reads a text.

    Attributes:
        parsed_bytes: bytes that end as rows.
        rows: number of rows, but not of errors, to which lines of any form may belong.
        returns: number of times of a load generator's series that do not come after the time before.
        spans: begin and end of each rejected stretch of lines, in order; a line without its end is not counted.
    """

    parsed_bytes: int = 0
    rows: int = 0
    returns: int = 0
    spans: tuple[tuple[int, int], ...] = ()

    def rejects(self, offset: int) -> bool:
        """Whether the line at an offset is rejected."""
        place = bisect_right(self.spans, (offset, offset)) - 1
        spans = self.spans[max(place, 0) : place + 2]
        return any(begin <= offset < end for begin, end in spans)

    def moved(self, by: int) -> Trial:
        """The same of a text that begins so many bytes later."""
        return replace(self, spans=tuple((begin + by, end + by) for begin, end in self.spans))


def pieces_of(one: Format, data: bytes, name: str = _NAME) -> list[Parsed] | None:
    """The pieces that a format makes of a text in a file of a name; None if it cannot read it at all."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        try:
            return list(one.parse(Content(path), Hints(name)))
        except CitusAnalysisError:
            return None


def trial_of(one: Format, data: bytes) -> Trial | None:
    """How a format reads a text; None if it cannot read it at all."""
    pieces = pieces_of(one, data)
    if pieces is None:
        return None
    spans = [
        (begin, begin + length)
        for piece in pieces
        for begin, length, reason in piece.frame("rejects").select("byte_offset", "byte_length", "reason").iter_rows()
        if reason != UNTERMINATED
    ]
    rows = sum(len(batch) for piece in pieces for table, batch in piece.tables.items() if table != "client_errors")
    returns = sum(_returns(piece.frame("client_series")) for piece in pieces if "client_series" in piece.tables)
    return Trial(sum(piece.parsed_bytes for piece in pieces), rows, returns, tuple(sorted(spans)))


def _returns(series: pl.DataFrame) -> int:
    before = pl.col("elapsed_s").shift().over("section")
    return int(series.select((pl.col("elapsed_s") <= before).sum()).item())


def document_end(data: bytes) -> int:
    r"""Length of the JSON document at the beginning of a text, with the end of its last line; 0 if it is cut.

    Example:
        >>> document_end(b'{"a": 1}\nreal 0m1s\n'), document_end(b'{"a": ')
        (9, 0)
    """
    try:
        _, end = json.JSONDecoder().raw_decode(data.decode("latin-1"))
    except (ValueError, RecursionError):
        return 0
    line = data.find(b"\n", end) + 1 or len(data)
    return line if not data[end:line].strip() else end

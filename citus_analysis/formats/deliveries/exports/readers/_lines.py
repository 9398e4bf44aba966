"""Records of an export with one JSON object per line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.core.array_types import Bools, Integers
from citus_analysis.formats.deliveries.exports._rows import Rows
from citus_analysis.formats.deliveries.exports.readers._json_tables import Decoder
from citus_analysis.formats.deliveries.placed_lines import Lines

#: Larger stretches do not fit into the caches, smaller ones take more calls.
_STRETCH: Final = 4 * 2**20
_BLANKS: Final = b" \t\r\n"


def of_lines(rows: Rows, texts: Iterator[Lines]) -> Iterator[pl.DataFrame]:
    """The records, in stretches of bounded size."""
    decoder = Decoder(rows.shape)
    for lines in texts:
        goals = np.arange(_STRETCH, len(lines.data), _STRETCH)
        bounds = np.unique([0, *np.searchsorted(lines.starts, goals).tolist(), len(lines)])
        for first, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            records = _records(decoder, lines, first, end)
            if records.height:
                yield rows.of(records)


def _records(decoder: Decoder, lines: Lines, first: int, end: int) -> pl.DataFrame:
    starts = lines.starts[first : end + 1]
    data = lines.data[starts[0] : starts[-1]]
    plain, blank = _plain_and_blank(data, starts - starts[0])
    records = decoder.records(data, starts - starts[0], plain)
    placed = records.with_columns(begin=lines.begins[first:end], end=lines.ends[first:end])
    return placed.filter(~blank) if blank.any() else placed


def _plain_and_blank(data: bytes, starts: Integers) -> tuple[Bools, Bools]:
    """Whether a line begins and ends with braces, and whether it is blank.

    Blanks around braces are rare and looked for one by one.
    """
    text = np.frombuffer(data, np.uint8)
    last = starts[1:] - 1
    last = last - (text[last] == ord("\n"))
    last = np.maximum(last - (text[np.maximum(last, 0)] == ord("\r")), 0)
    plain: Bools = (text[starts[:-1]] == ord("{")) & (text[last] == ord("}"))
    blank = np.zeros_like(plain)
    for row in np.flatnonzero(~plain).tolist():
        line = data[starts[row] : starts[row + 1]].strip(_BLANKS)
        plain[row], blank[row] = line.startswith(b"{") and line.endswith(b"}"), not line
    return plain, blank

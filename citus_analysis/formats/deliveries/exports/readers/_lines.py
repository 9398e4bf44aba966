"""Records of an export with one JSON object per line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from citus_analysis.core.array_types import Bools, Integers
from citus_analysis.formats.deliveries.exports._columns import Records, binary_of
from citus_analysis.formats.deliveries.exports._rows import Rows, Table
from citus_analysis.formats.deliveries.exports.readers._json_tables import Decoder
from citus_analysis.formats.deliveries.placed_lines import Lines

#: Larger stretches do not fit into the caches, smaller ones take more calls.
_STRETCH: Final = 4 * 2**20
_BLANKS: Final = b" \t\r\n"


def of_lines(rows: Rows, texts: Iterator[Lines]) -> Iterator[Records]:
    """The records, in stretches of bounded size."""
    decoder = Decoder(rows.shape)
    for lines in texts:
        goals = np.arange(_STRETCH, len(lines.data), _STRETCH)
        bounds = np.unique([0, *np.searchsorted(lines.starts, goals).tolist(), len(lines)])
        for first, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            table = _table(decoder, lines, first, end)
            if len(table.begins):
                yield rows.records(table)


def _table(decoder: Decoder, lines: Lines, first: int, end: int) -> Table:
    starts = lines.starts[first : end + 1]
    data = lines.data[starts[0] : starts[-1]]
    starts = starts - starts[0]
    begins, ends = lines.begins[first:end], lines.ends[first:end]
    plain = _plain(data, starts)
    raws = binary_of(data, starts)
    columns, parsed = decoder.columns(data, starts, plain)
    blank = [row for row in np.flatnonzero(~plain).tolist() if not data[starts[row] : starts[row + 1]].strip(_BLANKS)]
    if not blank:
        return Table(raws, begins, ends, columns, parsed)
    kept = np.setdiff1d(np.arange(end - first), np.array(blank, np.int64))
    fields = {path: column.take(kept) for path, column in columns.items()}
    return Table(raws.take(kept), begins[kept], ends[kept], fields, parsed[kept])


def _plain(data: bytes, starts: Integers) -> Bools:
    """Whether a line begins and ends with braces; blanks around them are rare and looked for one by one."""
    text = np.frombuffer(data, np.uint8)
    last = starts[1:] - 1
    last = last - (text[last] == ord("\n"))
    last = np.maximum(last - (text[np.maximum(last, 0)] == ord("\r")), 0)
    plain: Bools = (text[starts[:-1]] == ord("{")) & (text[last] == ord("}"))
    for row in np.flatnonzero(~plain).tolist():
        line = data[starts[row] : starts[row + 1]].strip(_BLANKS)
        plain[row] = line.startswith(b"{") and line.endswith(b"}")
    return plain

"""Records of journald's export format (`journalctl -o export`).

An entry is a run of lines `FIELD=value` up to a blank line. A value with line ends is written after a line with the
field's name alone: its size as 64 bits, least byte first, the value, and a line end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.formats.deliveries.export_rows import ExportShape, GrowingText, Rows
from citus_analysis.formats.deliveries.placed_lines import PlacedLines

Entry = dict[bytes, bytes]
_SIZE: Final = 8
#: An entry that does not end within so many bytes is taken for damage.
_ENTRY_CAP: Final = 64 * 2**20


def read_journal_records(rows: Rows, texts: Iterator[PlacedLines]) -> Iterator[pl.DataFrame]:
    """The records, chunk by chunk."""
    text = GrowingText()
    for lines in texts:
        text.add(lines)
        found, end = parse_journal_entries(text.data, last=len(text.data) > _ENTRY_CAP)
        if found:
            yield rows.of(_build_journal_records(rows.shape, text, found))
            text.drop(end)
    found, _ = parse_journal_entries(text.data, last=True)
    if found:
        yield rows.of(_build_journal_records(rows.shape, text, found))


def parse_journal_entries(data: bytes, *, last: bool) -> tuple[list[tuple[int, int, Entry | None]], int]:
    r"""The entries of a text with their places, and where the last whole one ends; None for one that is damaged.

    Args:
        data: the text, from the beginning of an entry.
        last: nothing follows, so that an entry may end with the text.

    Example:
        >>> parse_journal_entries(b"A=1\nB\n\3\0\0\0\0\0\0\0x\ny\n\nA=2\n", last=False)
        ([(0, 18, {b'A': b'1', b'B': b'x\ny'})], 19)
    """
    found: list[tuple[int, int, Entry | None]] = []
    place = begin = 0
    entry: Entry | None = {}
    while (end := data.find(b"\n", place)) >= 0 or (last and place < len(data)):
        end = end if end >= 0 else len(data)
        line = data[place:end].removesuffix(b"\r")
        if not line:
            if place > begin:
                found.append((begin, place, entry))
            place = begin = end + 1
            entry = {}
            continue
        key, equals, value = line.partition(b"=")
        following = end + 1
        if not equals:
            size = int.from_bytes(data[following : following + _SIZE], "little")
            value_at = following + _SIZE
            following = value_at + size + 1
            if following > len(data):
                if not last:
                    break
                # No value of that size: the line is damaged, and what follows it may be whole.
                entry, following = None, end + 1
            value = data[value_at : value_at + size]
        if entry is not None:
            entry[key] = entry[key] + b"\n" + value if key in entry else value
        place = following
    if last and min(place, len(data)) > begin:
        found.append((begin, min(place, len(data)), entry))
        begin = len(data)
    return found, begin


def _build_journal_records(
    shape: ExportShape, text: GrowingText, found: list[tuple[int, int, Entry | None]]
) -> pl.DataFrame:
    fields = {
        str(path): pl.Series([entry and entry.get(path[0].encode()) for _, _, entry in found], dtype=pl.Binary)
        for path in shape.wanted()
    }
    return pl.DataFrame(fields).with_columns(
        raw=pl.Series([text.data[begin:end] for begin, end, _ in found], dtype=pl.Binary),
        begin=text.get_begins(np.array([begin for begin, _, _ in found], np.int64)),
        end=text.get_ends(np.array([end for _, end, _ in found], np.int64)),
        parsed=pl.Series([entry is not None for _, _, entry in found]),
    )

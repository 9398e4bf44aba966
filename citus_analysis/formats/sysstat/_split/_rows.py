"""Columns of plain rows of sysstat's texts under one header, from the fields of their block."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from citus_analysis.core.array_types import Integers
from citus_analysis.formats.reading.text_fields import NUMBER, Fields
from citus_analysis.formats.sysstat._reports import Report
from citus_analysis.formats.sysstat._rows import COMMAND, OPTIONAL_KEYS, TOPOLOGY, naming
from citus_analysis.formats.sysstat._tables import PLACE, judged

_ABSENT: Final = ord("-")


def split_rows(report: Report, rows: pl.DataFrame, fields: Fields | None) -> pl.DataFrame | None:
    """The rows of :func:`citus_analysis.formats.sysstat._rows.read_rows`; None if only that function can read them.

    Args:
        report: the place of the columns.
        rows: lines with `field` and `fields` as :func:`citus_analysis.formats.sysstat._split._lines.split_lines` gives
            them, `offset`, `sample`, `sample_time` and `since_boot`.
        fields: fields of the block.
    """
    names = report.names
    last = names[-1] == COMMAND
    # Commands contain blanks; those outside ASCII are part of a field.
    if fields is None or set(TOPOLOGY) <= set(names) or (last and not fields.data.isascii()):
        return None
    first, count, most = rows["field"].to_numpy(), len(names) - last, rows["fields"].to_numpy()
    if (first < 0).any() or (most < count).any() or (not last and (most > count).any()):
        return None
    values = _values(report, first, fields)
    if values is None:
        return None
    texts = {name: fields.texts(first + index) for name, index in naming(report).items()}
    if last:
        command = _commands(first + count, first + most, fields)
        if command is None:
            return None
        texts["command"] = command
    return judged(rows.select(PLACE).with_columns(**texts, **values), report)


def _values(report: Report, first: Integers, fields: Fields) -> dict[str, pl.Series] | None:
    """The report's numbers under their columns' names; None if one of them is not a plain number."""
    found: dict[str, pl.Series] = {}
    for index, (column, factor) in report.numbers.items():
        places = first + index
        plain = fields.kind[places] == NUMBER
        values = fields.number[places]
        if not plain.all():
            strange = places[~plain]
            if report.names[index] not in OPTIONAL_KEYS or not _are_absent(fields, strange):
                return None
            values[~plain] = np.nan
        scaled = values if factor == 1.0 else values * factor
        found[column] = pl.Series(scaled, nan_to_null=report.names[index] in OPTIONAL_KEYS)
    return found


def _are_absent(fields: Fields, places: Integers) -> bool:
    begin = np.frombuffer(fields.data, np.uint8)[fields.begin[places]]
    return bool(((fields.length[places] == 1) & (begin == _ABSENT)).all())


def _commands(first: Integers, after: Integers, fields: Fields) -> pl.Series | None:
    """The rest of each line; None if more than one blank separates its words."""
    present = after > first
    last = np.maximum(after - 1, 0)
    begin = fields.begin[np.minimum(first, len(fields.begin) - 1)]
    length = np.where(present, fields.begin[last] + fields.length[last] - begin, 0)
    ends = np.append(0, np.cumsum(fields.length, dtype=np.int64))
    words = ends[after] - ends[first]
    if (length > words + np.maximum(after - first - 1, 0)).any():
        return None
    texts = fields.stretches(begin, length).str.strip_prefix("|__")
    if (after - first > 1).any() and texts.str.contains(r"[\t\r\x0b\x0c]").any():
        return None
    return texts if present.all() else texts.to_frame().select(pl.when(pl.Series(present)).then("text")).to_series()

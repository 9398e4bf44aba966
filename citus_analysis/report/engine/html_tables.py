"""Frames as HTML tables a person can read: units in the header, sensible digits, intervals beside their estimates.

Example:
    >>> import polars as pl
    >>> frame = pl.DataFrame({"resource": ["<b>"], "throughput_ops_s": [4321.987]})
    >>> html_table(frame, "Runs").count("<td>&lt;b&gt;</td>")
    1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import Final

import polars as pl

from citus_analysis.texts.number_text import MISSING, THIN_SPACE, aligned, with_interval
from citus_analysis.units import label

__all__ = ["html_table"]

#: Columns with texts longer than this many characters get room, or they become towers of single words.
_LONG: Final = 36
#: Tables of more columns are printed across the sheet.
_WIDE: Final = 9
#: Names of an estimate whose interval stands in the plain columns `low` and `high`.
_ESTIMATES: Final = ("mean", "estimate", "ratio", "speedup", "value")


@dataclass(frozen=True)
class _Column:
    """A column as shown: its heading, class, and one text per row."""

    heading: str
    kind: str
    cells: Sequence[str]


def html_table(frame: pl.DataFrame, caption: str) -> str:
    """A frame as an HTML table with a caption; all text is escaped.

    An estimate with its interval in two more columns (`x`, `x_low`, `x_high`, or `mean`, `low`, `high`) becomes one
    column of `0.64 [0.51, 0.79]`.
    """
    if frame.is_empty():
        return f'<p class="none"><b>{escape(caption.rstrip("."))}</b>: none.</p>'
    columns = _columns(frame)
    head = "".join(f'<th scope="col"{one.kind}>{escape(one.heading)}</th>' for one in columns)
    kinds = [one.kind for one in columns]
    rows = zip(*(one.cells for one in columns), strict=True)
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{text}</td>" for text, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in rows
    )
    wide = " wide" if len(columns) > _WIDE else ""
    return (
        f'<div class="scroll{wide}" role="region" tabindex="0" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _columns(frame: pl.DataFrame) -> list[_Column]:
    intervals = _intervals(frame)
    ends = {end for pair in intervals.values() for end in pair}
    shown = []
    for name in (name for name in frame.columns if name not in ends):
        if name in intervals:
            rows = frame.select(name, *intervals[name]).iter_rows()
            shown.append(_Column(label(name), ' class="number"', [with_interval(*row) for row in rows]))
        else:
            column = frame[name]
            shown.append(_Column(label(name), _class(column), [_cell(value) for value in column]))
    return shown


def _intervals(frame: pl.DataFrame) -> dict[str, tuple[str, str]]:
    """Estimate -> its two ends, for every estimate whose ends are columns of the same frame."""
    named = {name: _ends_of(name) for name in frame.columns if set(_ends_of(name)) <= set(frame.columns)}
    plain = next((name for name in _ESTIMATES if name in frame.columns and name not in named), None)
    if plain and {"low", "high"} <= set(frame.columns):
        named[plain] = ("low", "high")
    return {name: ends for name, ends in named.items() if all(frame[one].dtype.is_numeric() for one in (name, *ends))}


def _ends_of(name: str) -> tuple[str, str]:
    """Names of the columns with the ends of an estimate's interval."""
    return f"{name}_low", f"{name}_high"


def _cell(value: object) -> str:
    match value:
        case None:
            return MISSING
        case bool():
            return "yes" if value else "no"
        case float():
            return aligned(value)
        case int():
            return f"{value:,}".replace(",", THIN_SPACE).replace("-", "−")
        case datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S")
        case list() | pl.Series():
            return escape(", ".join(map(str, value)))
        case _:
            return escape(str(value))


def _class(column: pl.Series) -> str:
    if column.dtype.is_numeric():
        return ' class="number"'
    longest = column.str.len_chars().max() if column.dtype == pl.String else 0
    return ' class="long"' if isinstance(longest, int) and longest > _LONG else ""

"""Frames as HTML tables a person can read: units in the header, sensible digits, numbers to the right.

Example:
    >>> import polars as pl
    >>> frame = pl.DataFrame({"resource": ["<b>"], "throughput_ops_s": [4321.987]})
    >>> html_table(frame, "Runs").count("<td>&lt;b&gt;</td>")
    1
"""

from __future__ import annotations

from datetime import datetime
from html import escape
from typing import Final

import polars as pl

from citus_analysis.texts.number_text import MISSING, THIN_SPACE, aligned
from citus_analysis.units import label

__all__ = ["html_table"]

#: Columns with texts longer than this many characters get room, or they become towers of single words.
_LONG: Final = 36


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
        case list():
            return escape(", ".join(map(str, value)))
        case _:
            return escape(str(value))


def _class(column: pl.Series) -> str:
    if column.dtype.is_numeric():
        return ' class="number"'
    longest = column.str.len_chars().max() if column.dtype == pl.String else 0
    return ' class="long"' if isinstance(longest, int) and longest > _LONG else ""


def html_table(frame: pl.DataFrame, caption: str) -> str:
    """A frame as an HTML table with a caption; all text is escaped."""
    kinds = [_class(column) for column in frame]
    head = "".join(
        f'<th scope="col"{kind}>{escape(label(n))}</th>' for n, kind in zip(frame.columns, kinds, strict=True)
    )
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{_cell(v)}</td>" for v, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in frame.iter_rows()
    )
    if not body:
        body = f'<tr><td colspan="{max(1, frame.width)}">nothing to show</td></tr>'
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )

"""Frames as HTML tables a person can read: units in the header, sensible digits, intervals beside their estimates.

great-tables is not used: it writes 15 kB for a table of 20 rows, because each of its tables has its own style sheet,
against 3 kB here, where the page has one for all; its import takes 0.7 s.

Example:
    >>> import polars as pl
    >>> frame = pl.DataFrame({"resource": ["<b>"], "throughput_ops_s": [4321.987]})
    >>> html_table(frame, "Runs").count("&lt;b&gt;</td>")
    1
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from html import escape
from typing import Final

import polars as pl

from citus_analysis.runs.setups import CONFIGURATION
from citus_analysis.texts.number_text import (
    MISSING,
    aligned,
    in_column,
    p_text,
    with_interval,
    with_readable_times,
)
from citus_analysis.units import label

#: Columns with texts longer than this many characters get a minimal width, so that several words fit on a line.
_LONG: Final = 36
#: Texts of at most this many characters, such as a ratio with its interval, stay on one line.
_SHORT: Final = 22
#: The same limit for names without a space.
_NAME: Final = 40
#: Cell of a cluster without workers.
_SINGLE: Final = "one server"
#: In tables with at least this many rows, a text that all rows share is stated once.
_SEVERAL: Final = 3
#: Up to this many rows too many are shown rather than left out.
_SPARED: Final = 5
#: Tables with more columns are printed in landscape format.
_WIDE: Final = 11
#: Tables with more columns are printed in smaller letters.
_MANY: Final = 7
#: Names of columns -> their headings for readers.
_HEADINGS: Final = {
    "cliffs_delta": "Cliff's delta",
    "cpu_per_node": "cores per node",
    "drivers": "load generators",
    "family": "set-up",
    "jain_index": "Jain's index",
    "ops_s_per_vcpu": "throughput per vCPU [operations/s]",
    "resource": "system measured",
    "run_id": "run",
    "sd": "standard deviation",
    "sd_ops_s": "standard deviation [operations/s]",
    "sd_percent": "standard deviation [%]",
    "set_up": "set-up",
    "statement_kind": "statement",
    "threads": "client threads",
    "variant": "set-up",
    "vcpus": "vCPUs",
}
#: Columns of a configuration that follow from the name of the system; they are left to the CSV file.
_IMPLIED: Final = frozenset(CONFIGURATION) - {"operation", "workers", "threads"}
#: Columns of whole numbers that are identifiers, written without thousands separators.
_NUMBERS_OF_THINGS: Final = frozenset({"least_used", "most_used", "pid", "shard", "shard_id"})
#: Columns whose values are written in words of their own.
_WORDS: Final[dict[str, Callable[[object], object]]] = {
    "workers": lambda workers: _SINGLE if workers == 0 else workers,
    "statement_kind": lambda kind: str(kind).upper(),
    "level": "{:g}".format,
}
_INTERVAL: Final = re.compile(r"\[([^\s\]]+), ([^\s\]]+)\]")
#: Names of an estimate whose interval is in the columns `low` and `high`, with its unit.
_ESTIMATES: Final = ("mean", "estimate", "ratio", "speedup", "value")


def html_table(frame: pl.DataFrame, caption: str, rows: int = 20) -> str:
    """The first rows of a frame as an HTML table with a caption; all text is escaped.

    An estimate with its interval in two more columns (`x`, `x_low`, `x_high`, or `mean`, `low`, `high`) becomes one
    column of `0.64 [0.51, 0.79]`. Times of five digits in microseconds are in milliseconds. A text or a whole number
    that all rows of the frame share, such as the method or the number of runs, moves into the caption; a column without
    any value in the rows shown is left out, and so are columns that follow from the name of the measured system.

    Args:
        frame: the table.
        caption: description of its content; the number of rows left out is added.
        rows: number of rows to show; a few more are shown rather than left out.
    """
    if frame.is_empty():
        return f'<p class="none"><b>{escape(caption.rstrip("."))}</b>: none.</p>'
    same = _same_throughout(frame)
    implied = [name for name in _implied_by_system(frame) if name not in same]
    few = frame.height <= rows + _SPARED
    shown = with_readable_times(frame.drop(same, implied, *_without_values(frame)))
    shown = shown if few else shown.head(rows)
    absent = [] if few else _without_values(shown)
    caption += _remarks(caption, frame, 0 if few else rows, same, more_columns=bool(implied or absent))
    columns = _columns(shown.drop(absent))
    head = "".join(f'<th scope="col"{kind}>{escape(heading)}</th>' for heading, kind, _ in columns)
    cells = ([f"<td{kind}>{_unbroken(text)}</td>" for text in texts] for _, kind, texts in columns)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in zip(*cells, strict=True))
    wide = " wide" if len(columns) > _WIDE else " many" if len(columns) > _MANY else ""
    return (
        f'<div class="table{wide}"><p class="caption">{escape(caption)}</p>'
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></div>"
    )


def _unbroken(text: str) -> str:
    """A cell whose interval stays on one line, below its estimate in a narrow column."""
    return _INTERVAL.sub(r"[\1,&nbsp;\2]", text)


def _remarks(caption: str, frame: pl.DataFrame, rows: int, same: Sequence[str], *, more_columns: bool) -> str:
    """Remarks after a caption: the rows shown (0: all), the values that all rows share, and the place of the rest."""
    shared = ", ".join(f"{_heading(name)} {_cells(frame[name].head(1))[0]}" for name in same)
    remarks = [
        f"{rows} of {frame.height:,} rows; all are in the CSV file." if rows else "",
        f"In all rows: {shared}." if shared else "",
        "The CSV file has more columns." if more_columns else "",
    ]
    said = " ".join(filter(None, remarks))
    return f"{'' if caption.endswith('.') else '.'} {said}" if said else ""


def _columns(frame: pl.DataFrame) -> list[tuple[str, str, list[str]]]:
    """Each column as shown: its heading, class, and one text per row."""
    intervals = _intervals(frame)
    ends = {end for pair in intervals.values() for end in pair}
    shown = []
    for name in (name for name in frame.columns if name not in ends):
        kind, cells = _class(frame[name]), _cells(frame[name])
        if name in intervals:
            cells = [with_interval(*row) for row in frame.select(name, *intervals[name]).iter_rows()]
        shown.append((_heading(name), kind, cells))
    return shown


def _cells(column: pl.Series) -> list[str]:
    """The texts of a column, by its name and type."""
    name, is_float = column.name, column.dtype.is_float()
    if name in ("p_value", "p_adjusted") and is_float:
        return [escape(p_text(value)) for value in column]
    words = str if name in _NUMBERS_OF_THINGS or name.endswith("_id") else _WORDS.get(name)
    if words is None:
        return in_column(column) if is_float else [_cell(value) for value in column]
    return [_cell(value if value is None else words(value)) for value in column]


def _implied_by_system(frame: pl.DataFrame) -> list[str]:
    """Columns of a configuration that have one value for each system that was measured."""
    columns = [name for name in frame.columns if name in _IMPLIED]
    if "resource" not in frame.columns or not columns:
        return []
    values = frame.group_by("resource").agg(pl.col(columns).n_unique())
    return [name for name in columns if (values[name] == 1).all()]


def _heading(name: str) -> str:
    return _HEADINGS.get(name) or label(name)


def _same_throughout(frame: pl.DataFrame) -> list[str]:
    """Columns that have one value in several rows: texts, whole numbers, the level; never the first column."""
    if frame.height < _SEVERAL:
        return []
    kinds = list(frame.schema.items())[1:]
    named = [name for name, kind in kinds if kind == pl.String or kind.is_integer() or name == "level"]
    return [name for name in named if frame[name].n_unique() == 1 and frame[name][0] not in (None, "")]


def _without_values(frame: pl.DataFrame) -> list[str]:
    """Columns in which no row has a value; never the first column."""
    empty = [name for name in frame.columns[1:] if frame[name].null_count() == frame.height]
    texts = [name for name in frame.columns[1:] if frame[name].dtype == pl.String and name not in empty]
    return [*empty, *(name for name in texts if frame[name].is_in(["", None], nulls_equal=True).all())]


def _intervals(frame: pl.DataFrame) -> dict[str, tuple[str, str]]:
    """Estimate -> its two ends, for every estimate whose ends are columns of the same frame."""
    named = {name: _ends_of(name) for name in frame.columns if set(_ends_of(name)) <= set(frame.columns)}
    # Ends without the estimate's name have its unit: `estimate_ms`, `low_ms`, `high_ms`.
    for unit in (name.removeprefix("low") for name in frame.columns if re.fullmatch("low(_ms|_us|_s|_percent)?", name)):
        plain = next((f"{one}{unit}" for one in _ESTIMATES if f"{one}{unit}" in frame.columns), None)
        if plain and plain not in named and f"high{unit}" in frame.columns:
            named[plain] = (f"low{unit}", f"high{unit}")
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
            return f"{value:,}".replace("-", "−")
        case datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S")
        case list() | pl.Series():
            return escape(", ".join(map(str, value)))
        case _:
            return escape(str(value))


def _class(column: pl.Series) -> str:
    if column.dtype.is_numeric():
        return ' class="number"'
    if column.dtype.is_temporal():
        return ' class="short"'
    longest = column.str.len_chars().max() if column.dtype == pl.String else None
    if not isinstance(longest, int):
        return ""
    words = column.str.contains(" ").any()
    kept = longest <= (_SHORT if words else _NAME)
    return ' class="short"' if kept else ' class="long"' if longest > _LONG else ""

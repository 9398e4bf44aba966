"""The two sides of a difference: runs that a text names, or a window of time of logs without runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import polars as pl

from citus_analysis.errors import InsufficientDataError, UnknownNameError, UsageError
from citus_analysis.runs.run_selection import matching
from citus_analysis.runs.setups import CONFIGURATION, LOAD
from citus_analysis.texts.counted_words import listed

#: Columns whose values name a side, in the order in which they are looked up.
NAMING: Final = ("resource", "set_up", "variant", "family", "settings", "system", "run_id", "workload", "operation")
_ALONE: Final = ("workers", *LOAD)
_BETWEEN: Final = ".."
_OR: Final = "|"


@dataclass(frozen=True)
class Window:
    """A stretch of time, in UTC.

    Attributes:
        begin: the first moment.
        end: the first moment after it.
    """

    begin: datetime
    end: datetime


def window_of(text: str) -> Window | None:
    """The stretch of time that a text names, such as `2026-03-01T10:00..2026-03-01T10:05`; None if it names none.

    Raises:
        UsageError: the end is not after the begin, or one of them is no time.

    Example:
        >>> window_of("2026-03-01T10:00..2026-03-01T10:05:30").end.minute
        5
        >>> window_of("binary") is None
        True
    """
    first, dots, last = text.partition(_BETWEEN)
    if not dots or not re.match(r"\s*\d{4}-", first):
        return None
    try:
        begin, end = (datetime.fromisoformat(part.strip()) for part in (first, last))
    except ValueError as error:
        raise UsageError(
            f"{text!r} is no window of time ({error})", way_out="write FROM..UNTIL, such as 2026-03-01T10:00..10:05"
        ) from error
    begin, end = (one.replace(tzinfo=one.tzinfo or UTC).astimezone(UTC) for one in (begin, end))
    if end <= begin:
        raise UsageError(f"the window {text} ends before it begins")
    return Window(begin, end)


def side_label(text: str) -> str:
    """The name of a side in sentences: the value alone where the column is one of :data:`NAMING`.

    Example:
        >>> side_label("set_up=base|again"), side_label("workers=8")
        ('base or again', 'workers=8')
    """
    column, equals, value = text.partition("=")
    named = value if equals and column.strip() in NAMING and "," not in value else text
    return named.replace(_OR, " or ")


def chosen_runs(runs: pl.DataFrame, text: str) -> pl.DataFrame:
    """The runs that a text names.

    Args:
        runs: described runs.
        text: `column=value` (or `column=value|value`), several split by commas, or a value of one of :data:`NAMING`;
            resources may be patterns.

    Raises:
        UnknownNameError: no run has this value, or there is no such column.

    Example:
        >>> runs = pl.DataFrame({"resource": ["a", "b"], "workers": [1, 8], "set_up": ["x", "y"]})
        >>> chosen_runs(runs, "workers=8")["resource"].item(), chosen_runs(runs, "x")["resource"].item()
        ('b', 'a')
    """
    if "=" in text and "/" not in text.partition("=")[0]:
        return _with_values(runs, dict([side.strip() for side in part.partition("=")[::2]] for part in text.split(",")))
    if matching(runs, text).height:
        return matching(runs, text)
    for column in [name for name in NAMING if name in runs.columns]:
        found = runs.filter(pl.col(column).cast(pl.String) == text)
        if found.height:
            return found
    known = [
        runs[name].drop_nulls().cast(pl.String).unique() for name in ("resource", "set_up") if name in runs.columns
    ]
    raise UnknownNameError("side", text, sorted({str(value) for values in known for value in values if value}))


def _with_values(runs: pl.DataFrame, wanted: Mapping[str, str]) -> pl.DataFrame:
    found = runs
    for column, value in wanted.items():
        if column not in runs.columns:
            known = dict.fromkeys(name for name in (*NAMING, *CONFIGURATION) if name in runs.columns)
            raise UnknownNameError("column", column, known)
        found = found.filter(pl.col(column).cast(pl.String).is_in(value.split(_OR)))
        if found.is_empty():
            values = runs[column].drop_nulls().unique().sort().cast(pl.String).to_list()
            raise UnknownNameError(column, value, values)
    return found


def one_load(sides: Sequence[tuple[str, pl.DataFrame]]) -> None:
    """Check that the runs of a side did the same.

    Raises:
        InsufficientDataError: a side has no run.
        UsageError: runs of a side differ in their load or size.
    """
    for name, runs in sides:
        if runs.is_empty():
            raise InsufficientDataError(f"no run of {name} is left")
        for column in [one for one in _ALONE if one in runs.columns]:
            values = runs[column].unique().sort().cast(pl.String).to_list()
            if len(values) > 1:
                shown = listed([str(value) for value in values], most=4)
                way_out = f"choose one: --only {column}={values[-1]}"
                raise UsageError(f"the runs of {name} differ in {column} ({shown})", way_out=way_out)

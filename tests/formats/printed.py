"""A number that a tool printed of its own run, beside the one that is computed from the rows of its file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

Rows = Mapping[str, pl.DataFrame]


@dataclass(frozen=True)
class Printed:
    """What a tool printed, and what the rows give for it; `within` is how far apart they may be."""

    what: str
    printed: float
    found: float
    within: float = 0.0

    @property
    def differs(self) -> bool:
        # The last bits of a sum depend on its order.
        return not abs(self.printed - self.found) <= self.within + 1e-9 * abs(self.printed)


def decimal(text: str) -> float:
    """A number with a decimal point or comma."""
    return float(text.replace(",", "."))


def half_a_unit(text: str) -> float:
    """Half a unit of the last digit of a number that was printed."""
    return 0.5 * 10.0 ** -len(re.sub(r"^[^.,]*[.,]?", "", text))


def rounded(what: str, text: str, found: float, scale: float = 1.0) -> Printed:
    """A printed number that was rounded; `found` is in units of `scale`."""
    return Printed(what, decimal(text) * scale, found, half_a_unit(text) * scale)


def only(rows: Rows, table: str, column: str) -> float:
    """The value of a table that has one row; NaN, which equals nothing, where it is missing."""
    frame = rows[table]
    value = frame[column].item() if frame.height == 1 else None
    return float("nan") if value is None else float(value)


def metric(rows: Rows, section: str, name: str) -> float:
    """A value of `client_metrics`, which must be there once."""
    values = rows["client_metrics"].filter(pl.col("section") == section, pl.col("metric") == name)["value"]
    return float(values.item()) if len(values) == 1 else float("nan")


def added(rows: Rows, table: str, column: str) -> float:
    """The sum of a column."""
    return float(rows[table][column].sum())

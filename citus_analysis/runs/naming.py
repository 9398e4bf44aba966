"""Short names of series, from the columns in which their set-ups differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from citus_analysis.runs.setups import monitored_text, repeats_system, setting_text
from citus_analysis.texts.counted_words import counted, size_text

__all__ = ["series_names"]

#: Columns that a series' name can contain, in this order.
_NAMING: Final = (
    "system",
    "family",
    "settings",
    "workload",
    "query_mode",
    "limit",
    "threads",
    "workers",
    "drivers",
    "records",
    "scale_factor",
    "operations",
    "monitored",
)
#: Columns of numbers -> the noun for one.
_COUNTED: Final = {"threads": "thread", "drivers": "load generator", "records": "record", "operations": "operation"}


def series_names(series: pl.DataFrame, ignore: Sequence[str] = (), always: Sequence[str] = ()) -> pl.Series:
    """A short name per row from the set-up columns in which the rows differ.

    Args:
        series: one row per series, with (some of) the columns of a configuration.
        ignore: columns that are stated elsewhere, such as in a figure's title.
        always: columns that are named even if the rows do not differ in them.
    """
    possible = [name for name in _NAMING if name in series.columns and name not in ignore]
    words = [name for name in possible if name in always or series[name].n_unique() > 1]
    names = []
    for row in series.iter_rows(named=True):
        repeated = "system" if "family" in words and repeats_system(row.get("system"), row["family"]) else ""
        parts = [_word(name, row[name]) for name in words if name != repeated]
        names.append(", ".join(part for part in parts if part) or str(row.get("family") or row.get("system") or "runs"))
    return pl.Series("series", names, dtype=pl.String)


def _word(name: str, value: object) -> str:
    if name == "family":
        return setting_text(name, value)
    if name == "workers" and isinstance(value, int):
        return size_text(value)
    if name in _COUNTED and isinstance(value, int):
        return counted(value, _COUNTED[name])
    if name == "monitored":
        return monitored_text(None if value is None else bool(value))
    if name == "scale_factor":
        return f"scale {value}" if value is not None else ""
    return f"workload {value}" if name == "workload" else str(value or "")

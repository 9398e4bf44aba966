"""Short names of series and of systems, from the columns in which their set-ups differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from citus_analysis.runs.setups import (
    described,
    monitored_text,
    repeats_protocol,
    repeats_system,
    setting_text,
    with_operations,
)
from citus_analysis.texts.counted_words import counted, size_text

#: Columns that a series' name can contain, in this order.
_NAMING: Final = (
    *("system", "family", "settings", "workload", "query_mode", "limit", "threads"),
    *("workers", "drivers", "records", "scale_factor", "operations", "monitored"),
)
#: Columns that tell a system from others, besides its operation and its threads.
_OF_SYSTEM: Final = (
    "workers",
    *(name for name in _NAMING if name not in ("workers", "workload", "threads", "operations")),
)
_SIZED: Final = ("operation", "workers")
#: Fewest systems that words tell apart: a single one differs from nothing.
_FEWEST_NAMED: Final = 2
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
        repeated = _repeated(row) if "family" in words else set()
        parts = [_word(name, row[name]) for name in words if name not in repeated]
        names.append(", ".join(part for part in parts if part) or str(row.get("family") or row.get("system") or "runs"))
    return pl.Series("series", names, dtype=pl.String)


def system_names(runs: pl.DataFrame, settings: pl.DataFrame) -> dict[str, str]:
    """What each resource that the runner named is, in words: `SELECT on 4 workers, 16 threads, binary protocol`.

    The runner builds names of folders (`citus-binary-w4-t16-c`); other resources were named by people. What most of
    them have in common is not said. A resource whose runs differ in what would name it, or whose words are those of
    another, is left out.

    Args:
        runs: the table `runs`.
        settings: the table `settings`.
    """
    made = settings.filter(pl.col("name") == "experiment")["resource"].unique()
    every = with_operations(described(runs.filter(pl.col("resource").is_in(made.implode())), settings))
    columns = [name for name in ("operation", *_OF_SYSTEM) if name in every.columns]
    distinct = every.select("resource", "threads", *columns).unique().sort("resource")
    own = distinct.filter(pl.len().over("resource") == 1)
    if own.height < _FEWEST_NAMED:
        return {}
    usual = {name: own[name].mode().sort().first() for name in columns}
    words = {}
    for row in own.iter_rows(named=True):
        size = f"{row['operation']} on {size_text(row['workers'])}" if row["workers"] is not None else row["operation"]
        unusual = [name for name in columns if name not in _SIZED and row[name] and row[name] != usual[name]]
        others = [_word(name, row[name]) for name in unusual if name not in _repeated(row)]
        threads = [_word("threads", row["threads"])] if own["threads"].n_unique() > 1 else []
        words[row["resource"]] = ", ".join(part for part in (size, *threads, *dict.fromkeys(others)) if part)
    counts = Counter(words.values())
    return {resource: text for resource, text in words.items() if counts[text] == 1}


def _repeated(row: Mapping[str, str | None]) -> set[str]:
    """The columns whose value the name of the set-up contains."""
    family = row.get("family")
    system = {"system"} if repeats_system(row.get("system"), family) else set()
    return system | ({"query_mode"} if repeats_protocol(row.get("query_mode"), family) else set())


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

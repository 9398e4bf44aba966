"""The measured systems and times: the line under a report's title, and its table of the set-up."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from html import escape
from typing import Final

import polars as pl

from citus_analysis.redaction import redact
from citus_analysis.texts.counted_words import counted, listed
from citus_analysis.texts.natural_order import natural_key

#: Entries of a description that repeat columns of the runs, or the cluster's addresses.
_OF_RUNS: Final = (
    r"^(?:resource|note|system|phase|workloads?|threads|records|operations|iterations|workers|drivers|scale|monitored)$"
    r"|^(?:facts)\."
)
_OF_NODES: Final = r"^(?:nodes|role_settings|settings_by_node|monitor_operations|protocol)\b"
#: Entries that the runner writes about every single run: its course, not its set-up.
_OF_SINGLE_RUNS: Final = r"^measured\."
_SETTING: Final = "settings."
#: Columns of `runs` -> their names in the table.
_AXES: Final = {
    "system": "System",
    "workload": "Workload",
    "workers": "Workers",
    "threads": "Client threads",
    "records": "Records",
    "drivers": "Load generators",
}
#: Entries of descriptions whose names would read like variables -> their names in the table.
_NAMES: Final = {
    "cpu_per_node": "CPU per node [cores]",
    "order": "Order of runs",
    "postgres_version": "PostgreSQL version",
    "seed": "Seed of the order",
    "task_level": "Level of sampled logs",
}
#: More different values than this are counted, not listed.
_MOST: Final = 8


def measured_line(runs: pl.DataFrame) -> str:
    """The number of runs and their dates.

    Example:
        >>> time = datetime(2026, 11, 20, 21, 30)
        >>> measured_line(pl.DataFrame({"resource": ["a", "b"], "start_time": [time, time], "end_time": [time, time]}))
        '2 runs, measured on 20 November 2026'
    """
    if runs.is_empty():
        return "no runs"
    words = counted(runs.height, "run")
    first, last = runs["start_time"].min(), runs["end_time"].max()
    if not isinstance(first, datetime) or not isinstance(last, datetime):
        return words
    if first.date() == last.date():
        return f"{words}, measured on {_day(last)}"
    return f"{words}, measured from {_day(first)} to {_day(last)}"


def _day(time: datetime) -> str:
    return f"{time.day} {time:%B %Y}"


def set_up_rows(runs: pl.DataFrame, settings: pl.DataFrame) -> pl.DataFrame:
    """The set-up of runs: one row per property, with its values and the number of systems with each value.

    Args:
        runs: the table `runs`.
        settings: the table `settings`.

    Returns:
        Columns `property`, `value`, and `kind` (`runs`, `machine` or `server`).
    """
    rows = [*_of_runs(runs), *_of_settings(settings)]
    return pl.DataFrame(rows, schema={"kind": pl.String, "property": pl.String, "value": pl.String}, orient="row")


def _of_runs(runs: pl.DataFrame) -> Iterator[tuple[str, str, str]]:
    if runs.is_empty():
        return
    yield "runs", "Measured", measured_line(runs)
    states = runs["status"].cast(pl.String).value_counts(sort=True)
    yield "runs", "Status", listed([f"{count} {status}" for status, count in states.iter_rows()])
    for column, name in _AXES.items():
        values = sorted(runs[column].drop_nulls().unique(), key=lambda value: natural_key(str(value)))
        if values:
            yield "runs", name, ", ".join(_axis_text(column, value) for value in values)
    if sampled := int(runs["monitored"].sum()):
        yield "runs", "Sampled client", f"beside the main ones in {counted(sampled, 'run')}"
    if len(facts := runs["inferred"].drop_nulls()):
        names = listed(sorted(set(", ".join(facts).split(", "))))
        yield "runs", "Read off names and times", f"{names} (why: citus-analysis inspect, with the files)"


def _axis_text(column: str, value: object) -> str:
    """A value of an axis; a cluster without workers is one server."""
    if column == "workers" and value == 0:
        return "none (one server)"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _of_settings(settings: pl.DataFrame) -> Iterator[tuple[str, str, str]]:
    name = pl.col("name")
    other = "|".join((_OF_RUNS, _OF_NODES, _OF_SINGLE_RUNS))
    stated = settings.filter(~name.str.contains(other), pl.col("value") != "")
    systems = stated["resource"].n_unique()
    server = name.str.starts_with(_SETTING)
    for kind, part in (("machine", stated.filter(~server)), ("server", stated.filter(server))):
        for (key,), rows in part.sort("name").group_by("name", maintain_order=True):
            shown = str(key).removeprefix(_SETTING)
            words = _NAMES.get(shown, shown.replace("_", " ").capitalize())
            yield kind, shown if kind == "server" else words, _values(rows, systems)


def _values(rows: pl.DataFrame, systems: int) -> str:
    """The values of one property, the most frequent first; of several values, with the number of systems."""
    counts = rows.with_columns(pl.col("value").map_elements(_short, pl.String))["value"].value_counts(sort=True)
    if counts.height > _MOST:
        return f"{counts.height} different values"
    if counts.height == 1 and counts["count"][0] == systems:
        return str(counts["value"][0])
    ordered = sorted(counts.iter_rows(), key=lambda one: (-one[1], natural_key(one[0])))
    return "; ".join(f"{value} (in {count} of {systems} systems)" for value, count in ordered)


def _short(value: str) -> str:
    """A server's version without the platform and the compiler it was built with; without secrets."""
    return redact(value.partition(" on x86_64")[0].partition(" on aarch64")[0])


def set_up_block(rows: pl.DataFrame) -> str:
    """HTML of the set-up: the measured runs and machines, and, folded, the settings of the servers."""
    server = rows.filter(kind="server")
    shown = _table(rows.filter(pl.col("kind") != "server"))
    if server.height:
        shown += f"<details><summary>{counted(server.height, 'server setting')}</summary>{_table(server)}</details>"
    return f'<div class="set-up">{shown}</div>'


def _table(rows: pl.DataFrame) -> str:
    cells = rows.select("property", "value").iter_rows()
    return f"<dl>{''.join(f'<dt>{escape(key)}</dt><dd>{escape(value)}</dd>' for key, value in cells)}</dl>"

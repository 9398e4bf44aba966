"""Means over the iterations of each configuration, and the list of the configurations."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import polars as pl

from citus_analysis.core.frames import (
    Frame,
    TableSource,
    return_callers_frame_kind,
)
from citus_analysis.defaults import LEVEL, METRIC
from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.runs.set_ups import CONFIGURATION, format_configuration, format_setup_value
from citus_analysis.runs.status import list_included_statuses
from citus_analysis.schema import STATUSES
from citus_analysis.stats.intervals import MeanMethod, choose_mean_method, mean_interval
from citus_analysis.stats.studied_runs import (
    check_columns,
    get_metric_values,
    iterate_groups,
    read_runs_with_metric,
    select_runs_with_metric,
)
from citus_analysis.texts.numbers import format_number
from citus_analysis.texts.tables import render_grouped_table
from citus_analysis.texts.words import make_printable, pluralize


@return_callers_frame_kind
def summarise_runs(
    source: TableSource | Frame,
    metric: str = METRIC,
    by: Sequence[str] = ("phase", "workload", "threads", "workers"),
    *,
    level: float = LEVEL,
    method: MeanMethod | None = None,
    include_status: str | Collection[str] = (),
) -> pl.DataFrame:
    """Mean over iterations with its interval, per configuration.

    Columns: those of `by`, then n, mean, sd, low, high, level, method, warnings; low and high are null for a single
    run. By default the interval is on the log scale unless a value is negative, because rates and times are positive
    (:func:`citus_analysis.stats.intervals.choose_mean_method`). `include_status="degraded"` takes degraded runs in.

    Raises:
        UnknownNameError: no such column or metric.
        UsageError: runs of several systems would become one mean.
        InsufficientDataError: no run is left.

    Example:
        >>> runs = pl.DataFrame({"workers": [1, 1, 2, 2], "throughput_ops_s": [10.0, 12.0, 20.0, 22.0]})
        >>> summarise_runs(runs, by=["workers"])["mean"].to_list()
        [11.0, 21.0]
    """
    runs, _ = select_runs_with_metric(source, metric, include_status)
    check_columns(runs, by)
    rows = []
    refuse_mixed_systems(runs, by)
    for key, part in iterate_groups(runs, by):
        values = get_metric_values(part, metric)
        interval = mean_interval(values, level, method or choose_mean_method(values))
        rows.append(
            {
                **key,
                "n": interval.n,
                "mean": interval.estimate,
                "sd": float(values.std(ddof=1)) if values.size > 1 else None,
                **dict(zip(("low", "high"), interval.ends, strict=True)),
                "level": level,
                "method": interval.method,
                "warnings": "; ".join(interval.warnings),
            }
        )
    kinds = {name: runs.schema[name] for name in by} | dict.fromkeys(("sd", "low", "high"), pl.Float64())
    return pl.DataFrame(rows, schema_overrides=kinds, infer_schema_length=None)


def refuse_mixed_systems(runs: pl.DataFrame, by: Sequence[str]) -> None:
    """Refuse means over runs of several systems."""
    if "system" not in runs.columns:
        return
    for key, part in iterate_groups(runs, by):
        if (systems := part["system"].drop_nulls().unique().sort().to_list())[1:]:
            where = ", ".join(f"{name} {value}" for name, value in key.items())
            raise UsageError(
                f"runs of several systems ({', '.join(map(str, systems))}) would become one mean"
                + (f" at {where}" if where else ""),
                hint=f"add it to the columns of a configuration: by={['system', *by]}",
            )


# The configurations of a dataset, one row each, with the number of its runs, their statuses and their throughput.

_INTERVAL: Final = ("low", "high")


@return_callers_frame_kind
def list_configurations(
    source: TableSource | Frame, *, level: float = LEVEL, include_status: str | Collection[str] = ()
) -> pl.DataFrame:
    """The configurations of a dataset, in order of their columns.

    Columns: those of :data:`citus_analysis.runs.CONFIGURATION` that are known of any run, then `runs`, the number of
    runs with each status, and `throughput_ops_s` with `low` and `high`: the mean of the runs that are ok (or allowed)
    and its interval, null if there is no such run; one run has no interval.

    Args:
        source: a dataset, or rows of the table `runs`.
        level: confidence level of the intervals.
        include_status: `degraded` to let degraded runs enter the means.

    Raises:
        UsageError: another status cannot be allowed.
        InsufficientDataError: there is no run.
    """
    runs = read_runs_with_metric(source, METRIC)
    if runs.is_empty():
        raise InsufficientDataError("the dataset contains no run")
    columns = [name for name in CONFIGURATION if name in runs.columns and runs[name].null_count() < runs.height]
    statuses = list_included_statuses(include_status)
    rows = [{**key, **_summarise_configuration(part, level, statuses)} for key, part in iterate_groups(runs, columns)]
    kinds = {name: runs.schema[name] for name in columns} | dict.fromkeys((METRIC, *_INTERVAL), pl.Float64())
    return pl.DataFrame(rows, schema_overrides=kinds, infer_schema_length=None)


def _summarise_configuration(runs: pl.DataFrame, level: float, statuses: Collection[str]) -> dict[str, object]:
    status = runs["status"].cast(pl.String)
    counts = {word: int((status == word).sum()) for word in STATUSES}
    values = get_metric_values(runs.filter(status.is_in(list(statuses)), pl.col(METRIC).is_not_null()), METRIC)
    found = {"runs": runs.height, **counts, METRIC: None, **dict.fromkeys(_INTERVAL)}
    if not values.size:
        return found
    interval = mean_interval(values, level, choose_mean_method(values))
    return found | {METRIC: interval.estimate, **dict(zip(_INTERVAL, interval.ends, strict=True))}


def format_configurations(
    configurations: pl.DataFrame, include_status: str | Collection[str] = (), *, width: int | None = None
) -> str:
    """The configurations as text: their common values, then one line each with the columns that differ.

    Args:
        configurations: result of :func:`list_configurations`.
        include_status: as it was given there.
        width: characters of a line: of columns that do not fit, the first stand above the lines that have them in
            common; None: all are columns.
    """
    columns = [name for name in configurations.columns if name in CONFIGURATION]
    common = [name for name in columns if configurations.height > 1 and configurations[name].n_unique() == 1]
    differing = [name for name in columns if name not in common]
    counts = ["runs", *(word for word in STATUSES if word == STATUSES[0] or configurations[word].sum())]
    rows = [
        [
            *(_format_configuration_cell(name, row[name]) for name in differing),
            *(str(row[name]) for name in counts),
            *_format_throughput_cells(row),
        ]
        for row in configurations.iter_rows(named=True)
    ]
    head = [*differing, *counts, "throughput", "interval"]
    kinds = configurations.schema
    numbers = {i for i, name in enumerate(head) if name in counts or (name in kinds and kinds[name].is_numeric())}
    shared = format_configuration(configurations.select(common).row(0, named=True), "  ") if common else ""
    total = (
        f"{pluralize(configurations.height, 'configuration')}, {pluralize(int(configurations['runs'].sum()), 'run')}"
    )
    words = " or ".join(list_included_statuses(include_status))
    end = f"{total}; throughput in operations/s: mean of the runs that are {words}, with its interval"
    right = numbers | {len(head) - 2}
    table = render_grouped_table(head, rows, movable=len(differing), width=width, right=right)
    return "\n".join([*([make_printable(shared)] if shared else []), *table, end])


def _format_configuration_cell(column: str, value: object) -> str:
    return "" if value is None else make_printable(format_setup_value(column, value))


def _format_throughput_cells(row: Mapping[str, float | None]) -> list[str]:
    mean, low, high = (row[name] for name in (METRIC, *_INTERVAL))
    interval = "" if low is None or high is None else f"[{format_number(low)}, {format_number(high)}]"
    return ["" if mean is None else format_number(mean), interval]

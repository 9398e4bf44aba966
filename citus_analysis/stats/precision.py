"""Precision of the mean of each configuration, with remarks on its runs: a table for a report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.core.frames import Frame, as_polars, in_callers_kind
from citus_analysis.defaults import LEVEL, METRIC
from citus_analysis.stats.planning import enough_runs, influence
from citus_analysis.stats.run_means import refuse_mixed_systems, strata_of, times_of, values_of
from citus_analysis.stats.series.independence import check_independence
from citus_analysis.stats.series.sequences import effective_sample_size

#: Half-width of a mean's interval, relative to the mean, that the table plans for.
WANTED: Final = 0.05
#: Smallest number of a client's status lines from which a correlation is estimated.
_FEWEST_LINES: Final = 20
_ADDED: Final = {
    "n": pl.Int64(),
    **dict.fromkeys(("mean", "half_width_percent"), pl.Float64()),
    "more_runs": pl.Int64(),
    **dict.fromkeys(("intervals", "worth"), pl.Float64()),
    "remarks": pl.String(),
}


@in_callers_kind
def run_precision(
    runs: Frame,
    by: Sequence[str],
    metric: str = METRIC,
    *,
    series: Frame | None = None,
    level: float = LEVEL,
    wanted: float = WANTED,
) -> pl.DataFrame:
    """Precision of each configuration's mean, with the further runs needed and remarks.

    Args:
        runs: one row per run.
        by: columns that define a configuration.
        metric: column of the metric.
        series: rows of `client_series`, for the number of independent values in a run's status lines.
        level: confidence level.
        wanted: wanted relative half-width.

    Returns:
        The `by` columns; n, mean, half_width_percent (null for one run), more_runs (until the wanted half-width, with
        80 % assurance; 0: enough), intervals and worth (medians over the runs: status lines, and the number of
        independent ones that they are worth; null without a series), remarks (outlying runs, two modes, dependence).

    Raises:
        UsageError: runs of several systems would become one mean.

    Example:
        >>> runs = pl.DataFrame({"workers": [1] * 5, "throughput_ops_s": [100.0, 101, 99, 100, 60]})
        >>> table = run_precision(runs, ["workers"])
        >>> table["more_runs"][0], table["remarks"][0]
        (137, 'run 5 (60) lies 44 standard deviations from the others and moves the mean by 8.7 %')
    """
    frame = as_polars(runs)
    refuse_mixed_systems(frame, by)
    worth = _worth(as_polars(series)) if series is not None else {}
    rows = [{**key, **_row(part, metric, level, wanted, worth)} for key, part in strata_of(frame, by)]
    return pl.DataFrame(rows, schema={**{name: frame.schema[name] for name in by}, **_ADDED})


def _row(
    part: pl.DataFrame, metric: str, level: float, wanted: float, worth: dict[tuple[object, object], tuple[int, float]]
) -> dict[str, object]:
    values, times = values_of(part, metric), times_of(part)
    rule = enough_runs(values, wanted, level)
    checked = check_independence(values, times, ordered=times is not None)
    remarks = [*(influence(values).warnings if values.size > 2 else ()), *(checked.warnings if checked.checked else ())]
    keys = zip(part["resource"], part["run_id"], strict=True) if worth else ()
    known = [worth[key] for key in keys if key in worth]
    return {
        "n": values.size,
        "mean": float(values.mean()),
        "half_width_percent": rule.reached * 100 if rule.interval.exists else None,
        "more_runs": rule.more,
        "intervals": float(np.median([lines for lines, _ in known])) if known else None,
        "worth": float(np.median([effective for _, effective in known])) if known else None,
        "remarks": "; ".join(remarks),
    }


def _worth(series: pl.DataFrame) -> dict[tuple[object, object], tuple[int, float]]:
    """Status lines of each run's first main client, and the independent values that they are worth."""
    lines = series.filter(pl.col("section").is_null() & (pl.col("role").cast(pl.String) == "main"))
    lines = lines.drop_nulls(["throughput_ops_s", "elapsed_s"])
    found: dict[tuple[object, object], tuple[int, float]] = {}
    for key, part in lines.group_by("resource", "run_id", "part", maintain_order=True):
        values = values_of(part.sort("elapsed_s"), "throughput_ops_s")
        if values.size >= _FEWEST_LINES:
            found.setdefault((key[0], key[1]), (values.size, effective_sample_size(values).effective))
    return found

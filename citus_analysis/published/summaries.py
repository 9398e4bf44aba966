"""Means, spreads and repetitions of a published table, as input of statistics and models."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import special

from citus_analysis.core.frames import Frame, convert_to_polars, return_callers_frame_kind
from citus_analysis.defaults import LEVEL
from citus_analysis.errors import InsufficientDataError
from citus_analysis.published.checks import get_stated_interval, infer_repetitions, iterate_table_rows
from citus_analysis.published.rows import Row, group_result_tables
from citus_analysis.stats.intervals import estimate_mean_from_summary

_SCHEMA: Final = {
    "row": pl.String(),
    **dict.fromkeys(("mean", "sd"), pl.Float64()),
    "n": pl.Int64(),
    "n_from": pl.String(),
    **dict.fromkeys(("stated_low", "stated_high", "low", "high"), pl.Float64()),
}


@return_callers_frame_kind
def summarise_published_rows(rows: Frame, size: str = "workers", level: float = LEVEL) -> pl.DataFrame:
    """Each row of published tables that states a mean and a standard deviation, with a Student's t interval.

    Args:
        rows: frame of ``schema.TABLES["published"]``.
        size: the quantity that grows from row to row, such as `workers` or `connections`.
        level: confidence level of `low` and `high`.

    Returns:
        Columns `row`, the size, `mean` and `sd` in base units (operations/s, s), `n` and its origin (`n_from`: stated,
        or implied by the stated interval under the normal quantile), the stated interval and the t interval; in the
        order of size. Rows without n are left out.

    Example:
        >>> from citus_analysis.published import published
        >>> summarise_published_rows(published("thesis", "5.7"))["n"].to_list()
        [5, 5, 3, 4, 4]
    """
    stating = [
        row for row in iterate_table_rows(group_result_tables(convert_to_polars(rows))) if row.states("sigma", size)
    ]
    known = [cells for row in stating if (cells := _summarise_published_row(row, size, level)) is not None]
    frame = pl.DataFrame(known, schema={size: pl.Float64(), **_SCHEMA})
    whole = bool((frame[size] % 1 == 0).all())
    sized = pl.col(size).cast(pl.Int64) if whole else pl.col(size)
    return frame.select("row", sized, *list(_SCHEMA)[1:]).sort(size, maintain_order=True)


def _summarise_published_row(row: Row, size: str, level: float) -> dict[str, object] | None:
    (sigma, mean), stated = row.sigma_and_mean, get_stated_interval(row)
    implied = infer_repetitions(stated, "normal") if stated and row.n is None else []
    n = row.n or (implied[0] if len(implied) == 1 else None)
    if sigma is None or mean is None or n is None:
        return None
    interval = estimate_mean_from_summary(mean.value, sigma.value, n, level)
    return {
        "row": row.label,
        size: row[size].value,
        "mean": mean.value,
        "sd": sigma.value,
        "n": n,
        "n_from": "interval" if row.n is None else "stated",
        "stated_low": stated.low.value if stated else None,
        "stated_high": stated.high.value if stated else None,
        **dict(zip(("low", "high"), interval.ends, strict=True)),
    }


def count_interval_origins(rows: Frame) -> dict[str, int]:
    """How many stated intervals follow from the deviation of their row, at some number of runs, and by which quantile.

    Args:
        rows: frame of ``schema.TABLES["published"]``; rows without a deviation or an interval are left out.

    Returns:
        Numbers of intervals by the `normal` quantile, by Student's `t` only, and by `neither`.

    Example:
        >>> from citus_analysis.published import published
        >>> count_interval_origins(published("thesis", "5.7"))
        {'normal': 5, 't': 0, 'neither': 0}
    """
    origins = dict.fromkeys(("normal", "t", "neither"), 0)
    for row in iterate_table_rows(group_result_tables(convert_to_polars(rows))):
        stated = get_stated_interval(row)
        if stated is None or not row.states("sigma"):
            continue
        if infer_repetitions(stated, "normal"):
            origins["normal"] += 1
        else:
            origins["t" if infer_repetitions(stated, "t") else "neither"] += 1
    return origins


def make_runs_with_moments(mean: float, sd: float, n: int) -> NDArray[np.float64]:
    """Values with exactly this mean and standard deviation, for a fit to summaries.

    They are normal scores (Blom's), shifted and scaled; they were not measured.

    Raises:
        InsufficientDataError: fewer than two values have no standard deviation.

    Example:
        >>> values = make_runs_with_moments(62_479, 2_374.32, 5)
        >>> round(float(values.mean()), 6), round(float(values.std(ddof=1)), 6)
        (62479.0, 2374.32)
    """
    if n < 2:
        raise InsufficientDataError("one run has no spread", hint="take rows with n of 2 or more")
    scores = special.ndtri((np.arange(1, n + 1) - 0.375) / (n + 0.25))
    values: NDArray[np.float64] = mean + sd * (scores - scores.mean()) / scores.std(ddof=1)
    return values

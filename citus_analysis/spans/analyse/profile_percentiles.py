"""Percentiles of a profile with intervals: of statements' times on the server, and of clients' latencies.

Statements of one run share its conditions, so intervals are computed from one percentile per run. If there is a single
run, they are computed from its effective number of independent statements
(:func:`citus_analysis.stats.run_percentile_interval`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from citus_analysis.core.frames import Frame, as_polars
from citus_analysis.defaults import LEVEL
from citus_analysis.errors import InsufficientDataError
from citus_analysis.spans.analyse.coarse import QUANTITIES, after_warm_up
from citus_analysis.stats import Interval, mean_interval
from citus_analysis.stats.estimate.intervals import mean_method
from citus_analysis.stats.estimate.run_percentiles import RunValues, run_percentile_interval
from citus_analysis.stats.run_means import strata_of, values_of

PERCENTILES: Final = (50.0, 95.0, 99.0)
_RUN: Final = ("resource", "run_id")
#: The order of time; `byte_offset` orders records of one source that have no time, or the same.
IN_ORDER: Final = ("start_time", "source_id", "byte_offset")
#: Columns of a percentile with its interval.
ESTIMATES: Final[dict[str, pl.DataType]] = {
    **dict.fromkeys(("estimate_us", "low_us", "high_us"), pl.Float64()),
    **dict.fromkeys(("runs", "n"), pl.Int64()),
    **dict.fromkeys(("method", "warnings"), pl.String()),
}


def profile_percentiles(
    statements: Frame,
    *,
    by: Sequence[str] = ("statement_kind", "executed"),
    quantities: Sequence[str] = tuple(QUANTITIES),
    level: float = LEVEL,
) -> pl.DataFrame:
    """Percentiles of T, P, W, C and L with intervals, of the statements that :func:`coarse_profile` averages.

    Args:
        statements: rows of table `statements`.
        by: columns of `statements` to group by.
        quantities: symbols of the times.
        percentiles: in per cent.
        skip_first: statements left out at the beginning of each session.
        level: confidence level.

    Returns:
        Per group, quantity and percentile: `estimate_us`, `low_us` and `high_us` (null if there are too few data;
        `warnings` gives the reason), `runs`, `n` statements, `method`, `warnings`.
    """
    given = as_polars(statements)
    in_order = [name for name in IN_ORDER if name in given.columns]
    kept = after_warm_up(given, 0, [*by, *_RUN, *in_order, *(QUANTITIES[symbol] for symbol in quantities)])
    rows: list[dict[str, object]] = []
    # Only places are sorted and divided: copies of all columns would be most of the memory of a report.
    places = kept.select(*by, place=pl.int_range(pl.len(), dtype=pl.UInt32))
    if in_order:
        places = places[kept.select(pl.arg_sort_by(in_order, nulls_last=True)).to_series()]
    for key, part in strata_of(places, by):
        for symbol in quantities:
            values = kept.select(*_RUN, QUANTITIES[symbol])[part["place"]].drop_nulls(QUANTITIES[symbol])
            of_runs = (one for _, one in values.group_by(_RUN, maintain_order=True))
            runs = [RunValues(values_of(one, QUANTITIES[symbol])) for one in of_runs]
            rows += [{**key, "quantity": symbol, **percentile_columns(runs, q, level)} for q in PERCENTILES if runs]
    names = {name: kept.schema[name] for name in by}
    schema = {**names, "quantity": pl.Enum(list(QUANTITIES)), "percentile": pl.Float64(), **ESTIMATES}
    return pl.DataFrame(rows, schema=schema)


def percentile_columns(runs: Sequence[RunValues], q: float, level: float) -> dict[str, object]:
    """A percentile of the values of runs as columns of :data:`ESTIMATES`."""
    counts = {"percentile": q, "runs": len(runs), "n": sum(run.values.size for run in runs)}
    try:
        return {**counts, **_columns(run_percentile_interval(runs, q, level=level))}
    except InsufficientDataError as refusal:
        return {**counts, "method": "", "warnings": f"{refusal}"}


def _columns(interval: Interval) -> dict[str, object]:
    ends = dict(zip(("low_us", "high_us"), interval.ends, strict=True))
    worth = f" (worth n = {interval.n})" if "order statistics" in interval.method else ""
    return {
        "estimate_us": interval.estimate,
        **ends,
        "method": f"{interval.level * 100:g} %, {interval.method}{worth}",
        "warnings": "; ".join(interval.warnings),
    }


def client_percentiles(latencies: pl.DataFrame, by: Sequence[str], *, level: float = LEVEL) -> pl.DataFrame:
    """Means of the percentiles that clients report for each run, with intervals over the runs.

    Args:
        latencies: rows of table `operation_latencies`, one per run.
        by: columns to group by.
        percentiles: in per cent, of those that the table has (`p50_us` ...).
        level: confidence level.

    Returns:
        Per group and percentile: the columns of :func:`profile_percentiles`, where `n` is the number of operations.
    """
    rows: list[dict[str, object]] = []
    for key, part in strata_of(latencies, by):
        for q in PERCENTILES:
            known = part.drop_nulls(f"p{q:g}_us")
            if known.height:
                values = values_of(known, f"p{q:g}_us")
                counts = {"percentile": q, "runs": known.height, "n": int(known["operations"].sum())}
                rows.append({**key, **counts, **_columns(mean_interval(values, level, mean_method(values)))})
    schema = {**{name: latencies.schema[name] for name in by}, "percentile": pl.Float64(), **ESTIMATES}
    return pl.DataFrame(rows, schema=schema)

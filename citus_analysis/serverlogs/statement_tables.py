"""Tables of statement executions: by any column, over time, and the slowest."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import polars as pl

from citus_analysis.defaults import LEVEL
from citus_analysis.spans.analyse.profile_percentiles import ESTIMATES, percentile_columns
from citus_analysis.stats.estimate.run_percentiles import RunValues
from citus_analysis.units import US_PER_MS, US_PER_S

#: Percentiles of tables; a percentile is shown if at least one value is expected beyond it.
PERCENTILES: Final = (50, 95, 99)
#: Lengths of intervals over time, in seconds, and their names to polars.
INTERVALS: Final = {
    1: "1s", 10: "10s", 60: "1m", 600: "10m", 3_600: "1h", 21_600: "6h", 86_400: "1d", 604_800: "7d", 2_592_000: "30d",
}  # fmt: skip
#: Most statements from which the interval of a percentile is computed; of more, every second, third ... is used.
_MOST_FOR_INTERVAL: Final = 200_000
#: Most intervals that are distinguishable in a figure over time.
_MOST_INTERVALS: Final = 150


def summarise_statements(
    statements: pl.DataFrame, by: Sequence[str], percentiles: Sequence[int] = PERCENTILES
) -> pl.DataFrame:
    """Count, total and mean time, share and percentiles of each group, the largest total time first.

    Args:
        statements: result of :func:`read_statements`.
        by: columns to group by.
        percentiles: in per cent; each costs a sort.

    Returns:
        The `by` columns, `statements`, `timed` (statements with a duration), `failed`, `total_s`, `share_percent` (of
        the total time of all groups with the same `sent_by`, or of all), `mean_ms`, `min_ms`, `p50_ms`, `p95_ms`,
        `p99_ms` (null if the group is too small), `max_ms`, `first_time` and `last_time`.

    Example:
        >>> frame = pl.DataFrame({"user": ["a", "a", "b"], "duration_us": [1e3, 3e3, 4e3], "failed": [False] * 3})
        >>> frame = frame.with_columns(end_time=pl.lit(None, pl.Datetime("us", "UTC")))
        >>> summarise_statements(frame, ["user"]).select("user", "statements", "mean_ms", "share_percent").rows()
        [('a', 2, 2.0, 50.0), ('b', 1, 4.0, 50.0)]
    """
    time = pl.col("duration_us")
    table = statements.group_by(list(by), maintain_order=True).agg(
        pl.len().alias("statements"),
        time.count().alias("timed"),
        pl.col("failed").sum(),
        (time.sum() / US_PER_S).alias("total_s"),
        (time.mean() / US_PER_MS).alias("mean_ms"),
        (time.min() / US_PER_MS).alias("min_ms"),
        *(_percentile(time, percent) for percent in percentiles),
        (time.max() / US_PER_MS).alias("max_ms"),
        pl.col("end_time").min().alias("first_time"),
        pl.col("end_time").max().alias("last_time"),
    )
    whole = pl.col("total_s").sum().over("sent_by") if "sent_by" in by else pl.col("total_s").sum()
    share = pl.when(whole > 0).then(100 * pl.col("total_s") / whole)
    table = table.with_columns(pl.col(pl.Categorical).cast(pl.String), share_percent=share)
    place = table.columns.index("total_s") + 1
    columns = [*table.columns[:place], "share_percent", *table.columns[place:-1]]
    order = ["total_s", "statements", *by]
    return table.select(columns).sort(order, descending=[True, True, *[False] * len(by)], nulls_last=True)


def _percentile(time: pl.Expr, percent: int) -> pl.Expr:
    value = time.quantile(percent / 100, "linear") / US_PER_MS
    return pl.when(time.count() * (100 - percent) >= 100).then(value).alias(f"p{percent}_ms")


def percentile_intervals(
    statements: pl.DataFrame, groups: pl.DataFrame, *, percentiles: Sequence[float] = PERCENTILES, level: float = LEVEL
) -> pl.DataFrame:
    """Percentiles of groups of statements with intervals: order statistics at the effective sample size.

    Statements that follow each other are correlated, so the effective sample size is smaller than their number;
    `method` states it (:func:`citus_analysis.stats.run_percentile_interval`).

    Args:
        statements: result of :func:`read_statements`.
        groups: one row per wanted group, with the columns to group by.
        percentiles: in per cent.
        level: confidence level.

    Returns:
        The columns of `groups`, `percentile`, `estimate_us` (interpolated between order statistics), `low_us` and
        `high_us` (null if there are too few data; `warnings` gives the reason), `runs` (1: the window), `n`, `method`,
        `warnings`.
    """
    by = groups.columns
    rows: list[dict[str, object]] = []
    order = [name for name in ("end_time", "source_id", "byte_offset") if name in statements.columns]
    wanted = groups.unique(maintain_order=True).with_row_index("_group")
    timed = statements.drop_nulls("duration_us").select(*by, *order, "duration_us")
    placed = timed.join(wanted, on=by, nulls_equal=True).sort("_group", *order, nulls_last=True)
    for _, part in placed.group_by("_group", maintain_order=True):
        step = -(-part.height // _MOST_FOR_INTERVAL)
        run = RunValues(part["duration_us"].cast(pl.Float64).gather_every(step).to_numpy())
        key = part.select(by).row(0, named=True)
        for q in percentiles:
            found = percentile_columns([run], float(q), level)
            # The same estimate as in the other tables of the profile, so that percentiles agree.
            known = {"estimate_us": part["duration_us"].quantile(q / 100, "linear")} if "estimate_us" in found else {}
            rows.append({**key, **found, **known, "method": _thinned(str(found["method"]), step)})
    schema = {**{name: groups.schema[name] for name in by}, "percentile": pl.Float64(), **ESTIMATES}
    return pl.DataFrame(rows, schema=schema)


def _thinned(method: str, step: int) -> str:
    return method if step == 1 or not method else f"{method}; one of {step} statements"


def interval_of(times: pl.Series) -> int:
    """The shortest of :data:`INTERVALS` (seconds) that divides the time covered into a readable number of parts."""
    first, last = times.min(), times.max()
    covered = (last - first).total_seconds() if isinstance(first, datetime) and isinstance(last, datetime) else 0.0
    return next((length for length in INTERVALS if covered / length <= _MOST_INTERVALS), max(INTERVALS))


def over_time(statements: pl.DataFrame, interval_s: int) -> pl.DataFrame:
    """Statements per interval of time and sender.

    Args:
        statements: result of :func:`read_statements`.
        interval_s: length of the intervals, one of :data:`INTERVALS`.

    Returns:
        `time` (begin of the interval), `sent_by`, `statements`, `statements_per_s`, `failed`, `total_s`, `mean_ms`,
        `p95_ms`, `max_ms`; intervals without statements have no row.
    """
    timed = statements.drop_nulls("end_time")
    parts = timed.with_columns(time=pl.col("end_time").dt.truncate(INTERVALS[interval_s]))
    table = summarise_statements(parts, ["time", "sent_by"], (95,)).sort("time", "sent_by")
    rate = pl.col("statements") / interval_s
    of_times = ("failed", "total_s", "mean_ms", "p95_ms", "max_ms")
    return table.select("time", "sent_by", "statements", rate.alias("statements_per_s"), *of_times)


def slowest(statements: pl.DataFrame, most: int) -> pl.DataFrame:
    """The `most` statements of the longest duration, the longest first."""
    longest = statements.drop_nulls("duration_us").top_k(most, by="duration_us")
    texts = pl.col("source_id", "user", "database", "application", "client_host").cast(pl.String)
    return longest.with_columns(texts).sort("duration_us", "source_id", "byte_offset", descending=[True, False, False])

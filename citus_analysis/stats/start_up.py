"""Start-up of runs: how much of their beginning differs from their second half, found from their own intervals.

A run's first seconds, in which sessions open and caches fill, may have another throughput than the rest. Repeated runs
of one configuration start alike, so that they are judged together (Welch's procedure): their intervals, each over the
mean of its run's second half, are averaged.

1. *Test.* The means of the first 1, 2, 3, 5, 8 ... intervals are compared with the second half by t tests. Intervals of
   a run depend on each other; the variance is that of an AR(1) whose autocorrelation is estimated from all second
   halves, with Kendall's correction for bias, and the degrees of freedom are those of the independent intervals to
   which they are equivalent. The smallest p-value is multiplied by the number of tests.
2. *Place.* If a test rejects, intervals are cut up to the first that lies on the inner side of the second half's
   quartile; the rest is tested again. If more than half would have to be cut, or the intervals rise or fall from the
   first to the last, the runs did not settle.
3. *Material.* A start-up that changes the mean by less than 1 % is left in.

`benchmarks/start_up.py` measures the errors on simulated and on labelled series; `docs/statistics.md` states them.

References:
    Welch, P. D. (1983). The statistical analysis of simulation results. The Computer Performance Modeling Handbook.
    Kendall, M. G. (1954). Note on bias in the estimation of autocorrelation. Biometrika 41.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.frames import Frame, convert_to_polars
from citus_analysis.core.type_aliases import Floats
from citus_analysis.errors import InsufficientDataError
from citus_analysis.stats._validate import validate_sample
from citus_analysis.stats.distributions import compute_t_tail

#: Level of the test for a start-up, and the least relative change of the mean for which it is cut.
START_UP_ALPHA: Final = 0.05
MATERIAL: Final = 0.01
#: Fewest intervals that are judged.
FEWEST_INTERVALS: Final = 12
#: Quantile of the second half at which a series has arrived.
_ARRIVED: Final = 0.25
#: Each head that is tested is longer than the one before by this factor.
_LONGER: Final = 1.5
#: Intervals from which on single outliers are limited to four deviations from their neighbours before the search.
_LONG: Final = 100
_BESIDE: Final = 5
_OUTLYING: Final = 4.0
#: Trailing intervals with less than this share of the median rate belong to the end of the run, as clients finish.
_ENDING: Final = 0.5
#: Bounds of the estimated autocorrelation and of the degrees of freedom. Without them a drift of the second half, which
#: looks like dependence, would hide any start-up; simulated false alarms stay below 8 %.
_HIGHEST: Final = 0.9
_FEWEST_DF: Final = 3.0
#: Kendall's tau of the averaged intervals with time from which on a series drifts from its first to its last interval.
_DRIFTS: Final = 0.8
_MOST_STEPS: Final = 60


@dataclass(frozen=True, repr=False)
class StartUp(DisplayMixin):
    """The start-up of one run, or of repeated runs of one configuration.

    Attributes:
        cut: intervals before the steady part; 0: there is no start-up, or none that matters.
        intervals: intervals of the shortest run.
        runs: number of runs.
        share: by how much the mean of all intervals differs from that of the steady part, relative to it (-0.12: the
            start-up lowers the mean by 12 %).
        p_value: that the beginning does not differ from the second half.
        settled: whether the steady part begins in the first half.
    """

    cut: int
    intervals: int
    runs: int
    share: float
    p_value: float
    settled: bool

    def summary_lines(self) -> list[str]:
        """What is cut, and what it changes."""
        if not self.settled:
            return [f"the runs did not settle within half of their {self.intervals} intervals"]
        if not self.cut:
            return [f"no start-up in {self.intervals} intervals (p = {self.p_value:.2g})"]
        return [f"the first {self.cut} of {self.intervals} intervals change the mean by {100 * self.share:.1f} %"]


def find_start_up(series: ArrayLike | Sequence[ArrayLike], *, alpha: float = START_UP_ALPHA) -> StartUp:
    """The start-up of a run, or of repeated runs that are judged together.

    Args:
        series: throughput (or time) of the intervals of a run, or of each of several runs.
        alpha: level of the tests.

    Raises:
        InsufficientDataError: fewer than 12 intervals.

    Example:
        >>> ramp = [100, 400, 700, 900] + [1_000, 1_010, 990, 1_005, 995] * 6
        >>> find_start_up(ramp).cut, find_start_up([ramp[4:], ramp[4:][::-1]]).cut
        (4, 0)
    """
    nested = isinstance(series, Sequence) and bool(series) and not np.isscalar(series[0])
    each = cast("Sequence[ArrayLike]", series if nested else [series])
    several = [validate_sample(one, 0, "the intervals") for one in each]
    n = min(one.size for one in several)
    if n < FEWEST_INTERVALS:
        raise InsufficientDataError(f"{n} intervals: too few to find a start-up (at least {FEWEST_INTERVALS})")
    rows = np.stack([one[:n] for one in several])
    levels = rows[:, n // 2 :].mean(axis=1)
    if not (levels > 0).all():
        return StartUp(0, n, len(several), 0.0, math.nan, settled=True)
    rows = rows / levels[:, None]
    smooth = np.stack([_without_outliers(row) for row in rows]) if n >= _LONG else rows
    first_p, place = math.nan, 0
    for _ in range(_MOST_STEPS):
        rest = smooth[:, place:]
        p = _head_p(rest)
        first_p = p if math.isnan(first_p) else first_p
        if p >= alpha or place > n // 2 or rest.shape[1] < FEWEST_INTERVALS // 2:
            break
        place += _arrival(rest.mean(axis=0))
    settled = place <= n // 2 and abs(_tau(rows.mean(axis=0))) < _DRIFTS
    steady = rows[:, min(place, n // 2) :].mean()
    share = float(rows.mean() / steady - 1)
    if settled and abs(share) < MATERIAL:
        place, share = 0, 0.0
    return StartUp(place if settled else 0, n, len(several), share if settled else 0.0, first_p, settled)


def _tau(values: Floats) -> float:
    """Kendall's tau of values with their places; 0 if all are equal."""
    from scipy.stats import kendalltau

    found = float(kendalltau(np.arange(values.size), values).statistic)
    return found if math.isfinite(found) else 0.0


def _head_p(rows: Floats) -> float:
    """P-value that the beginning of the rows has the mean of their second halves."""
    runs, n = rows.shape
    half = rows[:, n // 2 :]
    long = half.shape[1]
    off = half - half.mean(axis=1, keepdims=True)
    squares = float((off**2).sum())
    heads = np.unique(np.round(_LONGER ** np.arange(math.log(max(n // 2, 1)) / math.log(_LONGER))).astype(int))
    contrast = rows[:, : n // 2].mean(axis=0).cumsum()[heads - 1] / heads - half.mean()
    if squares <= 1e-24 * runs:
        return 0.0 if bool((np.abs(contrast) > 1e-9).any()) else 1.0
    rho = float((off[:, 1:] * off[:, :-1]).sum()) / squares
    rho = float(np.clip(rho + (1 + 4 * rho) / long, 0.0, _HIGHEST))
    variance = squares / (runs * (long - 1))
    error = np.sqrt((_mean_variance(heads, rho) + _mean_variance(np.array([long]), rho)) * variance / runs)
    df = max(runs * (long * (1 - rho) / (1 + rho) - 1), _FEWEST_DF)
    smallest = min(compute_t_tail(abs(float(value)), df) for value in contrast / error)
    return min(1.0, 2 * smallest * heads.size)


def _mean_variance(count: Floats, rho: float) -> Floats:
    """Variance of the mean of neighbouring values of an AR(1) with variance 1."""
    k = np.asarray(count, dtype=np.float64)
    return np.asarray((1 + 2 * rho / (1 - rho) * (1 - (1 - rho**k) / (k * (1 - rho)))) / k, dtype=np.float64)


def _arrival(mean: Floats) -> int:
    """Intervals until the series first reaches the inner side of its second half's quartile; at least one."""
    half = mean[mean.size // 2 :]
    rising = mean[0] < half.mean()
    reached = mean >= np.quantile(half, _ARRIVED) if rising else mean <= np.quantile(half, 1 - _ARRIVED)
    places = np.flatnonzero(reached[1:])
    return int(places[0]) + 1 if places.size else mean.size


def _without_outliers(row: Floats) -> Floats:
    """A long series whose single outliers are limited to four deviations from the median of their neighbours."""
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(row, _BESIDE, mode="reflect"), 2 * _BESIDE + 1)
    middle = np.median(windows, axis=1)
    spread = 1.4826 * float(np.median(np.abs(row - middle))) or float(np.std(row - middle))
    return np.clip(row, middle - _OUTLYING * spread, middle + _OUTLYING * spread)


def interval_rates(series: Frame) -> pl.DataFrame:
    """Throughput of all main clients of a run in each interval of their status lines, without the end of the run.

    Short intervals (of the last line) are left out, and trailing ones in which clients finish.

    Args:
        series: rows of `client_series`.

    Returns:
        resource, run_id, interval (from 0), from_s, until_s, throughput_ops_s (summed over clients).

    Example:
        >>> lines = pl.DataFrame({"resource": ["r"] * 4, "run_id": ["a"] * 4, "role": ["main"] * 4, "part": [0] * 4,
        ...     "section": [None] * 4, "elapsed_s": [0.0, 1.0, 2.0, 2.1], "operations_total": [0, 50, 150, 151],
        ...     "throughput_ops_s": [None, 50.0, 100.0, 10.0]})
        >>> interval_rates(lines)["throughput_ops_s"].to_list()
        [50.0, 100.0]
    """
    run, client = ["resource", "run_id"], ["resource", "run_id", "part"]
    lines = convert_to_polars(series).filter(pl.col("section").is_null() & (pl.col("role").cast(pl.String) == "main"))
    lines = lines.drop_nulls("elapsed_s").sort(*client, "elapsed_s", maintain_order=True)
    counted = pl.col("operations_total").diff().over(client) / pl.col("elapsed_s").diff().over(client)
    lines = lines.select(
        *client,
        from_s=pl.col("elapsed_s").shift(1).over(client),
        until_s="elapsed_s",
        rate=pl.coalesce(counted, "throughput_ops_s"),
    )
    lines = lines.drop_nulls(["from_s", "rate"]).with_columns(step=pl.col("until_s") - pl.col("from_s"))
    lines = lines.filter(pl.col("step") >= 0.5 * pl.col("step").median().over(client))
    lines = lines.with_columns(
        interval=pl.int_range(pl.len()).over(client), clients=pl.col("part").n_unique().over(run)
    )
    whole = lines.group_by(*run, "interval", maintain_order=True).agg(
        pl.col("from_s").min(),
        pl.col("until_s").max(),
        pl.col("rate").sum().alias("throughput_ops_s"),
        pl.len().alias("found"),
        pl.col("clients").first(),
    )
    whole = whole.filter(pl.col("found") == pl.col("clients")).drop("found", "clients").sort(*run, "interval")
    busy = pl.col("throughput_ops_s") >= _ENDING * pl.col("throughput_ops_s").median().over(run)
    last = pl.col("interval").filter(busy).max().over(run)
    return whole.filter(pl.col("interval") <= last)


def steady_runs(runs: Frame, series: Frame, by: Sequence[str]) -> pl.DataFrame:
    """Throughput of the steady part of each run; repeated runs of one configuration have one start-up.

    Args:
        runs: rows of `runs`.
        series: rows of `client_series`.
        by: columns whose values name a configuration.

    Returns:
        The runs with status lines: `resource`, `run_id`, `cut_s` (seconds that are left out), `cut_share` (by how much
        the start-up changes the mean of the intervals), `settled`, `steady_ops_s` (mean of the other intervals).

    Example:
        >>> ramp = [100.0, 400, 700, 900] + [1_000.0, 1_010, 990, 1_005, 995] * 6
        >>> lines = pl.DataFrame({"resource": "r", "run_id": "a", "role": "main", "part": 0, "section": None,
        ...     "elapsed_s": [float(s) for s in range(35)], "throughput_ops_s": [None, *ramp],
        ...     "operations_total": None}, schema_overrides={"operations_total": pl.Int64})
        >>> runs = pl.DataFrame({"resource": ["r"], "run_id": ["a"], "threads": [4]})
        >>> steady_runs(runs, lines, ["threads"]).select("cut_s", "steady_ops_s").row(0)
        (4.0, 1000.0)
    """
    rates = interval_rates(series)
    keys = convert_to_polars(runs).select(*dict.fromkeys(["resource", "run_id", *by]))
    parts = {(r, i): part for (r, i), part in rates.group_by("resource", "run_id", maintain_order=True)}
    rows: list[dict[str, object]] = []
    for _, group in keys.group_by(*dict.fromkeys(by), maintain_order=True):
        known = [
            key for key in group.select("resource", "run_id").unique(maintain_order=True).iter_rows() if key in parts
        ]
        known = [key for key in known if parts[key].height >= FEWEST_INTERVALS]
        if not known:
            continue
        found = find_start_up([parts[key]["throughput_ops_s"].to_numpy() for key in known])
        for resource, run_id in known:
            part = parts[resource, run_id]
            rows.append(
                {
                    "resource": resource,
                    "run_id": run_id,
                    "cut_s": float(part["from_s"][found.cut]) if found.cut else 0.0,
                    "cut_share": found.share,
                    "settled": found.settled,
                    "steady_ops_s": float(part["throughput_ops_s"].to_numpy()[found.cut :].mean()),
                }
            )
    numbers = {"cut_s": pl.Float64(), "cut_share": pl.Float64(), "settled": pl.Boolean(), "steady_ops_s": pl.Float64()}
    return pl.DataFrame(rows, schema={"resource": pl.String(), "run_id": pl.String(), **numbers})

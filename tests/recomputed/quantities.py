"""What a headline may ask of a recording, one function for each question, with plain textbook methods.

Runs are compared within the blocks in which they were made (iteration n of every configuration is of block n), on the
scale of logarithms: the interval of a ratio is Student's t over the blocks. No function pools runs of several
configurations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import optimize, stats

Array = npt.NDArray[np.float64]

#: Columns whose values make a configuration; runs that agree in them are repeats of one another.
CONFIGURATION: Final = [
    "operation", "system", "set_up", "workers", "threads", "records", "drivers", "monitored", "experiment", "resource",
]  # fmt: skip


@dataclass(frozen=True)
class Ratio:
    """A ratio of two configurations, with its interval, the blocks that were compared and the p of no difference."""

    value: float
    low: float
    high: float
    n: int
    p: float


def select(runs: pd.DataFrame, resource: str) -> pd.Series[float]:
    """The throughputs of a configuration by block."""
    rows = runs[runs["resource"] == resource]
    if rows.empty:
        raise LookupError(f"no runs of {resource}")
    return rows.set_index("iteration")["throughput"]


def mean_on_logs(values: Sequence[float] | Array, level: float = 0.95) -> tuple[float, float, float]:
    """The arithmetic mean and Student's interval on the scale of logarithms: mean times or over exp(t s / sqrt(n))."""
    x = np.asarray(values, float)
    if len(x) < 2:
        return float(x.mean()), float("nan"), float("nan")
    half = stats.t.ppf((1 + level) / 2, len(x) - 1) * np.log(x).std(ddof=1) / np.sqrt(len(x))
    return float(x.mean()), float(x.mean() * np.exp(-half)), float(x.mean() * np.exp(half))


def paired_ratio(a: pd.Series[float], b: pd.Series[float], level: float = 0.95, family: int = 1) -> Ratio:
    """a over b, block by block: the geometric mean of the ratios with Student's interval of their logarithms.

    With a family of several comparisons the interval is Bonferroni's; p is that of the one comparison.
    """
    blocks = a.index.intersection(b.index)
    logs = np.log((a[blocks] / b[blocks]).to_numpy(float))
    n, error = len(logs), float(logs.std(ddof=1)) / np.sqrt(len(logs))
    half = stats.t.ppf(1 - (1 - level) / family / 2, n - 1) * error
    p = 2 * stats.t.sf(abs(logs.mean()) / error, n - 1)
    low, high = np.exp(logs.mean() - half), np.exp(logs.mean() + half)
    return Ratio(float(np.exp(logs.mean())), float(low), float(high), n, float(p))


def welch_ratio(a: Array, b: Array, level: float = 0.95, family: int = 1) -> Ratio:
    """mean(a) over mean(b), of sets that share no blocks: Welch's t on the logarithm of the ratio (delta method)."""
    va, vb = np.log(a).var(ddof=1) / len(a), np.log(b).var(ddof=1) / len(b)
    error = np.sqrt(va + vb)
    degrees = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    estimate = np.log(a.mean() / b.mean())
    half = stats.t.ppf(1 - (1 - level) / family / 2, degrees) * error
    p = 2 * stats.t.sf(abs(estimate) / error, degrees)
    low, high = np.exp(estimate - half), np.exp(estimate + half)
    return Ratio(float(np.exp(estimate)), float(low), float(high), min(len(a), len(b)), float(p))


def adjust_by_holm(p: Sequence[float]) -> Array:
    """Holm's adjusted p-values, in the order of the given ones."""
    x = np.asarray(p, float)
    order = np.argsort(x)
    adjusted = np.empty(len(x))
    adjusted[order] = np.minimum(1, np.maximum.accumulate((len(x) - np.arange(len(x))) * x[order]))
    return adjusted


def rate_after(runs: pd.DataFrame, resource: str, seconds: int) -> pd.Series[float]:
    """The mean rate of each run of a configuration from a second on, until its clients begin to stop."""
    rows = runs[runs["resource"] == resource]
    lasts = [int(np.flatnonzero(one >= 0.5 * np.median(one))[-1]) for one in rows["series"]]
    means = [float(one[seconds : last + 1].mean()) for one, last in zip(rows["series"], lasts, strict=True)]
    return pd.Series(means, index=rows["iteration"])


def measure_blocks(runs: pd.DataFrame) -> dict[str, float]:
    """The effect of the blocks on the logarithm of throughput, beside that of the configurations (two-way, additive).

    Only configurations that were measured once in every block enter.
    """
    wide = runs.pivot_table(index="resource", columns="iteration", values="throughput").dropna()
    logs = np.log(wide.to_numpy(float))
    residual = logs - logs.mean(axis=1, keepdims=True)
    block = residual.mean(axis=0)
    configurations, blocks = logs.shape
    between = configurations * float((block**2).sum())
    within = float(((residual - block) ** 2).sum())
    df = (blocks - 1, (configurations - 1) * (blocks - 1))
    f = between / df[0] / (within / df[1])
    return {
        "f": f,
        "df1": df[0],
        "df2": df[1],
        "p": float(stats.f.sf(f, *df)),
        "share": between / (between + within),
        "configurations": configurations,
    } | {f"block_{name}": float(np.exp(value)) for name, value in zip(wide.columns, block, strict=True)}


MODELS: Final[dict[str, tuple[Callable[..., Array], int]]] = {
    "linear": (lambda n, g: g * n, 1),
    "amdahl": (lambda n, g, a: g * n / (1 + a * (n - 1)), 2),
    "gustafson": (lambda n, g, a: g * (n - a * (n - 1)), 2),
    "usl": (lambda n, g, a, b: g * n / (1 + a * (n - 1) + b * n * (n - 1)), 3),
}


@dataclass(frozen=True)
class Fit:
    """A model of growth that was fitted to the logarithms of all runs, and its lack of fit."""

    parameters: tuple[float, ...]
    residual: float
    f: float
    p: float
    aicc: float


def fit_models(size: Array, rate: Array) -> dict[str, Fit]:
    """The four models, fitted by least squares of logarithms, with the F test of lack of fit against pure error."""
    logs = np.log(rate)
    levels = np.unique(size)
    pure = sum(float(((logs[size == k] - logs[size == k].mean()) ** 2).sum()) for k in levels)
    pure_df = len(rate) - len(levels)
    found = {}
    for name, (curve, count) in MODELS.items():
        start = [float((rate / size).mean()), 0.05, 0.001][:count]
        bounds = ([1e-12, 0.0, 0.0][:count], [np.inf, 1.0, np.inf][:count])
        done = [
            optimize.least_squares(
                _misfit,
                args=(curve, size, logs),
                x0=[start[0], *(factor * one for one in start[1:])],
                bounds=bounds,
                x_scale=[start[0], 0.1, 0.01][:count],
                xtol=1e-14,
                ftol=1e-14,
            )
            for factor in (1.0, 0.01, 5.0)
        ]
        best = min(done, key=lambda one: one.cost)
        residual = 2 * float(best.cost)
        df = len(levels) - count
        f = (residual - pure) / df / (pure / pure_df) if df > 0 else float("nan")
        k = count + 1
        aicc = len(rate) * np.log(residual / len(rate)) + 2 * k + 2 * k * (k + 1) / (len(rate) - k - 1)
        p = float(stats.f.sf(f, df, pure_df)) if df > 0 else float("nan")
        found[name] = Fit(tuple(map(float, best.x)), residual, float(f), p, float(aicc))
    return found


def _misfit(theta: Array, curve: Callable[..., Array], size: Array, logs: Array) -> Array:
    return np.asarray(np.log(np.maximum(curve(size, *theta), 1e-12)) - logs)


def fit_power(size: Array, rate: Array, level: float = 0.95) -> dict[str, float]:
    """The exponent of a power law: the slope of log rate over log size, with its interval and the p of 1."""
    line = stats.linregress(np.log(size), np.log(rate))
    half = stats.t.ppf((1 + level) / 2, len(size) - 2) * line.stderr
    p = 2 * stats.t.sf(abs(line.slope - 1) / line.stderr, len(size) - 2)
    return {"exponent": line.slope, "low": line.slope - half, "high": line.slope + half, "p": float(p)}


def profile(statements: pd.DataFrame) -> dict[str, float]:
    """Mean time of statements in ms, and the shares of parent, child and what lies between them in per cent."""
    means = statements[["total_us", "parent_us", "child_us", "between_us"]].mean()
    shares = 100 * means / means["total_us"]
    return {
        "n": len(statements),
        "total_ms": means["total_us"] / 1000,
        "parent": shares["parent_us"],
        "child": shares["child_us"],
        "between": shares["between_us"],
    }


def machine_use(seconds: pd.DataFrame) -> pd.DataFrame:
    """User and system CPU of the machine by run, as a share of all its CPUs, without the first three seconds."""
    later = seconds[seconds["time"] >= seconds["measured_from"] + pd.Timedelta(seconds=3)]
    keys = ["resource", "iteration", "operation", "set_up", "workers", "threads"]
    return later.groupby(keys, dropna=False)[["us", "sy", "id", "st"]].mean().reset_index()


def find_foreign_work(runs: pd.DataFrame, seconds: pd.DataFrame, least: float = 10.0) -> pd.DataFrame:
    """Runs during which the machine worked far more than the others did at the same throughput.

    The usual user CPU of a run (in per cent of all CPUs of the machine) grows with throughput: a line for each system,
    operation and quota of nodes, through medians (Theil and Sen), which a few disturbed runs do not move.

    Args:
        runs: all runs.
        seconds: the machine's seconds.
        least: user CPU above the line from which a run was not alone.
    """
    used = runs.merge(machine_use(seconds)[["resource", "iteration", "us"]], on=["resource", "iteration"])
    excess = pd.Series(0.0, index=used.index)
    for _, rows in used.groupby(["system", "operation", "cpu_per_node"]):
        slope, intercept, *_ = stats.theilslopes(rows["us"], rows["throughput"])
        excess[rows.index] = rows["us"] - intercept - slope * rows["throughput"]
    return used.assign(excess=excess)[excess > least]


def throttled_share(throttling: pd.DataFrame) -> pd.DataFrame:
    """The share of periods in which the quota stopped each control group, by run."""
    ordered = throttling.sort_values("time").groupby(["resource", "iteration", "group"])
    first, last = ordered.first(), ordered.last()
    change = (
        last[["nr_periods", "nr_throttled", "throttled_time"]] - first[["nr_periods", "nr_throttled", "throttled_time"]]
    )
    return change.assign(share=100 * change["nr_throttled"] / change["nr_periods"]).reset_index()


def compare_family(
    pairs: dict[str, tuple[pd.Series[float], pd.Series[float]]], level: float = 0.95
) -> dict[str, Ratio]:
    """Ratios that are tested together: p adjusted by Holm's procedure, intervals simultaneous (Bonferroni).

    Where the procedure decides at a later step than the first, so that the simultaneous interval may hold 1, the
    interval is that of the step.
    """
    single = {name: paired_ratio(a, b, level) for name, (a, b) in pairs.items()}
    adjusted = dict(zip(single, adjust_by_holm([one.p for one in single.values()]), strict=True))
    found = {}
    for name, (a, b) in pairs.items():
        ratio = paired_ratio(a, b, level, len(pairs))
        if adjusted[name] <= 1 - level and ratio.low <= 1 <= ratio.high:
            ratio = paired_ratio(a, b, level, round(adjusted[name] / single[name].p))
        found[name] = replace(ratio, p=float(adjusted[name]))
    return found

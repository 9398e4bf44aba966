"""Throughput, speedup and efficiency along workers and threads, and latency against load.

Speedup, efficiency and psi are those of :func:`citus_analysis.scaling.relative_scaling`. Whether throughput
changed is decided by :func:`citus_analysis.stats.runs.compare_levels`, as the commands `compare` and `scale` decide it:
adjusted by Holm's procedure over all comparisons of the same operation along the axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import polars as pl

from citus_analysis.defaults import LEVEL, MARGIN
from citus_analysis.errors import UnknownNameError
from citus_analysis.operations import is_operation
from citus_analysis.report.series import Selection, series_names
from citus_analysis.runs import comparability
from citus_analysis.scaling import ScalePoint, relative_scaling
from citus_analysis.stats import Comparison, summarise_runs
from citus_analysis.stats.intervals import MeanMethod
from citus_analysis.stats.runs import Question, compare_levels

__all__ = ["Axis", "ScalabilityStudy", "check_base", "latency_by_load", "outside_series", "study_scalability"]

Axis = Literal["workers", "threads"]

_METRIC: Final = "throughput_ops_s"
_OTHER: Final[dict[Axis, Axis]] = {"workers": "threads", "threads": "workers"}
_MEANS: Final = {
    "operation": pl.String(),
    "series": pl.String(),
    **dict.fromkeys(("mean", "sd", "low", "high", "level"), pl.Float64()),
    "n": pl.Int64(),
    "method": pl.String(),
    "warnings": pl.String(),
}


@dataclass(frozen=True)
class ScalabilityStudy:
    """Throughput along one axis.

    Attributes:
        axis: `workers` or `threads`.
        base: value of the axis that speedup and efficiency of most series refer to; 0 where there is no series.
        runs: single runs that stand in a series, with `operation` and `series`.
        means: per operation, series and value: n, mean, sd, low, high, level, method, warnings.
        relative: per operation, series and value: speedup, efficiency, psi, each with its interval, and the
            verdict of the comparison with the base and its p-value, raw and adjusted.
        comparisons: what the verdicts rest on; their stratum names operation, series and value.
        order: names of all series, so that each keeps its colour over several figures.
    """

    axis: Axis
    base: int
    runs: pl.DataFrame
    means: pl.DataFrame
    relative: pl.DataFrame
    comparisons: tuple[Comparison, ...]
    order: tuple[str, ...]

    def operations(self) -> list[str]:
        """Names of the operations that have a series."""
        return self.means["operation"].unique(maintain_order=True).to_list()

    def panel(self, operation: str, table: Literal["means", "runs", "relative"]) -> pl.DataFrame:
        """The rows of one operation."""
        rows: pl.DataFrame = getattr(self, table)
        return rows.filter(pl.col("operation") == operation)

    def quantity(self, operation: str, name: Literal["speedup", "efficiency"]) -> pl.DataFrame:
        """Speedup or efficiency of one operation as mean, low and high, for a figure."""
        rows = self.panel(operation, "relative")
        return rows.select("series", self.axis, mean=name, low=f"{name}_low", high=f"{name}_high")


def study_scalability(
    selection: Selection,
    axis: Axis = "workers",
    *,
    base: int = 0,
    level: float = LEVEL,
    method: MeanMethod = "log-t",
    margin: float = MARGIN,
) -> ScalabilityStudy:
    """Means, speedup and efficiency of every set-up that was measured at two or more values of an axis.

    Raises:
        UnknownNameError: nothing was measured at the base.

    Args:
        selection: runs with their set-up.
        axis: what grows along a series.
        base: value that speedup refers to; 0: the smallest of each series.
        level: confidence level of every interval and test.
        method: of the intervals of means (`log-t`, which stays positive, `t`, or the study's `normal`).
        margin: relative difference that counts as none.
    """
    check_base(selection, axis, base)
    # A single server is no cluster of 0 workers, but another system.
    runs = _placed(selection.runs).drop_nulls("operation").filter(pl.col(axis) > 0)
    strata = comparability(runs, axis).strata
    question = Question(_METRIC, axis, base or None, strata, margin=margin, level=level)
    compared = compare_levels(runs, question)
    keys = _keys(strata, axis)
    inside = _in_series(axis, keys) & ((pl.col(axis) == base).any().over(keys) if base else pl.lit(value=True))
    runs = _with_series(runs.filter(inside), keys).sort("operation", _OTHER[axis], "series", axis)
    comparisons = tuple(_in_figures(compared, runs, strata, axis))
    return ScalabilityStudy(
        axis,
        base if base and compared else _usual_base(comparisons),
        runs.select("operation", "series", axis, _METRIC, "iteration", "run_id", "resource"),
        _means(runs, axis, level, method),
        _relative(runs, comparisons, axis, base or None, level),
        comparisons,
        tuple(runs["series"].unique(maintain_order=True)),
    )


def check_base(selection: Selection, axis: Axis, base: int) -> None:
    """Refuse a base that nothing was measured at.

    Raises:
        UnknownNameError: no run has that number of workers or threads; 0 stands for none.
    """
    measured = selection.runs[axis].drop_nulls().unique().sort()
    if base and base not in measured:
        raise UnknownNameError(f"number of {axis} in these runs", str(base), map(str, measured))


def outside_series(selection: Selection, studies: Sequence[ScalabilityStudy]) -> pl.DataFrame:
    """Configurations that stand in no series, because nothing with the same set-up was measured beside them."""
    inside = pl.concat([study.runs.select("run_id", "resource") for study in studies])
    return (
        _placed(selection.runs)
        .join(inside, on=["run_id", "resource"], how="anti")
        .group_by("resource", "operation", "limit", "threads", "workers", "records", maintain_order=True)
        .agg(pl.len().alias("runs"), pl.col(_METRIC).mean())
        .sort("resource", "operation", "threads")
    )


def latency_by_load(
    selection: Selection, latencies: pl.DataFrame, metric: str = "p99_us", *, level: float = LEVEL
) -> pl.DataFrame:
    """Latency and throughput per set-up and number of threads: means over runs of each run's own value.

    Columns: operation, series, threads, throughput_ops_s, n, mean, sd, low, high (of `metric`).
    """
    own = latencies.filter((pl.col("role").cast(pl.String) == "main") & is_operation("operation")).select(
        "run_id", "resource", pl.col("operation").alias("section"), metric
    )
    runs = _placed(selection.runs).drop_nulls("operation")
    keys = _keys(comparability(runs, "threads").strata, "threads")
    runs = runs.filter(_in_series("threads", keys))
    joined = runs.join(own, on=["run_id", "resource"]).drop_nulls(metric).sort("workers", "threads", "section")
    if joined.is_empty():
        return pl.DataFrame(schema=_MEANS | {"threads": pl.Int32(), _METRIC: pl.Float64()})
    several = joined["section"].n_unique() > joined["operation"].n_unique()
    section = pl.format(", {}", "section") if several else pl.lit("")
    joined = _with_series(joined, keys).with_columns(pl.col("series") + section)
    by = ["operation", "series", "threads"]
    means = summarise_runs(joined, metric, by=by, level=level)
    return means.join(joined.group_by(by).agg(pl.col(_METRIC).mean()), on=by, maintain_order="left")


def _keys(strata: Sequence[str], axis: Axis) -> list[str]:
    """Columns whose values make a series; the other axis stands last and is always among them."""
    return [*(name for name in strata if name != _OTHER[axis]), _OTHER[axis]]


def _in_series(axis: Axis, keys: Sequence[str]) -> pl.Expr:
    return pl.col(axis).n_unique().over(keys) > 1


def _placed(runs: pl.DataFrame) -> pl.DataFrame:
    """Runs whose place on both axes is known."""
    return runs.drop_nulls(["workers", "threads"])


def _usual_base(comparisons: Sequence[Comparison]) -> int:
    bases = pl.Series([int(one.label_b) for one in comparisons], dtype=pl.Int64)
    return int(bases.mode().sort()[0]) if len(bases) else 0


def _with_series(runs: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Names are made per operation: what the panel's title says (operation, one size) is no part of them."""
    parts = []
    for _, part in runs.group_by("operation", maintain_order=True):
        names = series_names(part.select(*keys), ignore=["workload"], always=[keys[-1]])
        parts.append(part.with_columns(names))
    return pl.concat(parts) if parts else runs.with_columns(series=pl.lit(None, pl.String))


def _means(runs: pl.DataFrame, axis: Axis, level: float, method: MeanMethod) -> pl.DataFrame:
    if runs.is_empty():
        return pl.DataFrame(schema=_MEANS | {axis: pl.Int32()})
    means = summarise_runs(runs, _METRIC, by=["operation", "series", axis], level=level, method=method)
    order = runs.select("operation", "series").unique(maintain_order=True)
    return order.join(means, on=["operation", "series"], how="left", maintain_order="left_right")


def _parts(runs: pl.DataFrame) -> Iterator[tuple[dict[str, object], pl.DataFrame]]:
    for (operation, series), part in runs.group_by("operation", "series", maintain_order=True):
        yield {"operation": operation, "series": series}, part


def _in_figures(
    comparisons: Sequence[Comparison], runs: pl.DataFrame, strata: Sequence[str], axis: Axis
) -> Iterator[Comparison]:
    """Comparisons that say by `stratum` where in the figures they belong: operation, series and value of the axis."""
    places = {
        tuple(row[name] for name in strata): (row["operation"], row["series"])
        for row in runs.select({"operation", "series", *strata}).unique().iter_rows(named=True)
    }
    for one in comparisons:
        operation, series = places[tuple(one.stratum[name] for name in strata)]
        yield replace(one, stratum={"operation": operation, "series": series, axis: int(one.label_a)})


def _relative(
    runs: pl.DataFrame, comparisons: Sequence[Comparison], axis: Axis, base: int | None, level: float
) -> pl.DataFrame:
    compared = {(c.stratum["operation"], c.stratum["series"], c.stratum[axis]): c for c in comparisons}
    rows = []
    for stratum, part in _parts(runs):
        for point in relative_scaling(part[axis].to_numpy(), part[_METRIC].to_numpy(), base, level=level):
            one = compared.get((stratum["operation"], stratum["series"], int(point.size)))
            rows.append({**stratum, axis: int(point.size), **_point(point), **_decision(one), "n": point.throughput.n})
    numbers = dict.fromkeys((f"{q}{end}" for q in ("speedup", "efficiency", "psi") for end in _ENDS), pl.Float64())
    schema = {"operation": pl.String(), "series": pl.String(), axis: pl.Int32(), **numbers}
    decision = {"verdict": pl.String(), "p_difference": pl.Float64(), "p_difference_adjusted": pl.Float64()}
    return pl.DataFrame(rows, schema=schema | decision | {"n": pl.Int64()})


def _decision(one: Comparison | None) -> dict[str, object]:
    if one is None:
        return {"verdict": "base", "p_difference": None, "p_difference_adjusted": None}
    tested = one.ratio.exists
    return {
        "verdict": one.verdict,
        "p_difference": one.p_difference if tested else None,
        "p_difference_adjusted": one.p_difference_adjusted if tested else None,
    }


_ENDS: Final = ("", "_low", "_high")


def _point(point: ScalePoint) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name, interval in (("speedup", point.speedup), ("efficiency", point.efficiency), ("psi", point.psi)):
        ends = (interval.estimate, *interval.ends) if interval else (None, None, None)
        found |= {f"{name}{end}": value for end, value in zip(_ENDS, ends, strict=True)}
    return found

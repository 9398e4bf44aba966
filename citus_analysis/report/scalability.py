"""What the scalability report states: throughput, speedup and efficiency along workers and threads.

Every comparison is one of :func:`citus_analysis.stats.compare`, adjusted by Holm's procedure over all series of
the report; a sentence says that throughput grows only where the verdict says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal

import polars as pl

from citus_analysis.report.series import SETUP, Selection, caveats, operation_name, series_names
from citus_analysis.report.words import counted, interval_text, listed
from citus_analysis.stats import Comparison, compare, compare_many, summarise_runs
from citus_analysis.stats.intervals import MeanMethod

__all__ = ["ScalabilityStudy", "latency_by_load", "study_scalability"]

_METRIC: Final = "throughput_ops_s"
_OTHER: Final = {"workers": "threads", "threads": "workers"}
_WORDS: Final = {"faster": "higher", "slower": "lower", "equivalent": "equivalent", "inconclusive": "inconclusive"}


@dataclass(frozen=True)
class ScalabilityStudy:
    """Throughput along one axis.

    Attributes:
        x: `workers` or `threads`.
        base: value of x that speedup and efficiency refer to.
        runs: single runs that stand in a series: `operation`, `series`, x, `throughput_ops_s`, `iteration`, `run_id`.
        means: per operation, series and x: n, mean, sd, low, high, level, method, warnings.
        relative: per operation, series and x: `speedup`, `speedup_low`, `speedup_high`, `efficiency` (same), `verdict`.
        single: configurations that were measured at one value of x only, with the reason why they form no series.
        order: names of all series.
        comparisons: what `relative` rests on, one per row whose x is not the base.
    """

    x: str
    base: int
    runs: pl.DataFrame
    means: pl.DataFrame
    relative: pl.DataFrame
    single: pl.DataFrame
    order: tuple[str, ...]
    comparisons: tuple[Comparison, ...]

    def panels(self) -> Iterator[tuple[str, pl.DataFrame, pl.DataFrame, pl.DataFrame]]:
        """Per operation: its name, and its rows of `means`, `runs` and `relative`."""
        for operation in self.means["operation"].unique(maintain_order=True) if self.means.height else ():
            mine = pl.col("operation") == operation
            yield operation, self.means.filter(mine), self.runs.filter(mine), self.relative.filter(mine)

    def quantity(self, rows: pl.DataFrame, name: Literal["speedup", "efficiency"]) -> pl.DataFrame:
        """Rows of `relative` as mean, low and high of one quantity, for a figure."""
        return rows.select("series", self.x, mean=name, low=f"{name}_low", high=f"{name}_high")

    def sentences(self) -> list[str]:
        """One sentence per operation: whether throughput grows with x, series by series."""
        if not self.means.height:
            return [f"No set-up was measured at more than one number of {self.x}, so no speedup along {self.x} is stated."]
        ordered = sorted(self.comparisons, key=lambda c: str(c.stratum["operation"]))
        return [
            _growth_sentence(operation, self.x, self.base, list(group))
            for operation, group in groupby(ordered, key=lambda c: str(c.stratum["operation"]))
        ]


def study_scalability(
    selection: Selection,
    x: Literal["workers", "threads"] = "workers",
    *,
    base: int = 0,
    level: float = 0.95,
    method: MeanMethod = "t",
    margin: float = 0.05,
) -> ScalabilityStudy:
    """Means, speedup and efficiency of every set-up that was measured at two or more values of x.

    Args:
        selection: runs with their set-up.
        x: the axis.
        base: value of x that speedup refers to; 0: the smallest that each series has in common.
        level: confidence level of every interval and test.
        method: of the intervals of means.
        margin: relative difference that counts as none.
    """
    other = _OTHER[x]
    keys = [*SETUP, other]
    runs = _named(selection.runs.filter(pl.col(x).is_not_null()), keys)
    spread = pl.col(x).n_unique().over(keys)
    in_series = runs.filter(spread > 1)
    start = base or _common_base(in_series, keys, x)
    has_base = (pl.col(x) == start).any().over(keys)
    single = _singles(runs.filter(spread == 1), x, f"measured at one number of {x} only")
    without = _singles(in_series.filter(~has_base), x, f"not measured at {start} {x}")
    in_series = in_series.filter(has_base)
    in_series = in_series.with_columns(_series_of(in_series, keys))
    means = _means(in_series, x, level, method)
    comparisons = _comparisons(in_series, x, start, level, margin)
    return ScalabilityStudy(
        x,
        start,
        in_series.select("operation", "series", x, _METRIC, "iteration", "run_id", "resource"),
        means,
        _relative(means, comparisons, x, start),
        pl.concat([single, without]),
        tuple(_order(in_series, other)),
        comparisons,
    )


def _named(runs: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    names = [operation_name(phase, workload) for phase, workload in runs.select("phase", "workload").iter_rows()]
    return runs.with_columns(pl.Series("operation", names, dtype=pl.String)).sort("operation", *keys, nulls_last=True)


def _common_base(runs: pl.DataFrame, keys: Sequence[str], x: str) -> int:
    """The smallest x of most series."""
    if runs.is_empty():
        return 0
    smallest = runs.group_by(keys).agg(pl.col(x).min())[x]
    return int(smallest.mode().sort()[0])


def _series_of(runs: pl.DataFrame, keys: Sequence[str]) -> pl.Series:
    """Names are made over distinct set-ups, apart from phase, workload and size where the panel says them."""
    told_by_panel = ["workload"]
    for size in ("records", "operations"):
        if runs.height and runs.group_by("operation").agg(pl.col(size).n_unique())[size].max() == 1:
            told_by_panel.append(size)
    return series_names(runs.select(*keys), ignore=told_by_panel)


def _order(runs: pl.DataFrame, other: str) -> list[str]:
    return runs.sort(other, "series")["series"].unique(maintain_order=True).to_list()


def _singles(runs: pl.DataFrame, x: str, reason: str) -> pl.DataFrame:
    found = runs.group_by("resource", "operation", "threads", "workers", maintain_order=True).agg(pl.len().alias("runs"))
    return found.with_columns(pl.lit(reason).alias("reason")).sort("resource", "operation", "threads", x)


def _means(runs: pl.DataFrame, x: str, level: float, method: MeanMethod) -> pl.DataFrame:
    if runs.is_empty():
        columns = {"operation": pl.String, "series": pl.String, x: pl.Int32, "n": pl.Int64}
        floats = dict.fromkeys(("mean", "sd", "low", "high"), pl.Float64)
        return pl.DataFrame(schema={**columns, **floats})
    return summarise_runs(runs, _METRIC, by=["operation", "series", x], level=level, method=method)


def _comparisons(runs: pl.DataFrame, x: str, base: int, level: float, margin: float) -> tuple[Comparison, ...]:
    found = []
    for (operation, series), part in runs.group_by("operation", "series", maintain_order=True):
        values = {key[0]: rows[_METRIC].to_numpy() for key, rows in part.sort(x).group_by(x, maintain_order=True)}
        for value in values:
            if value != base:
                labels = {"label_a": f"{value} {x}", "label_b": f"{base} {x}"}
                one = compare(values[value], values[base], margin, level=level, metric=_METRIC, **labels)
                one.stratum.update({"operation": operation, "series": series, x: value})
                found.append(one)
    return compare_many(found, level=level)


def _relative(means: pl.DataFrame, comparisons: Sequence[Comparison], x: str, base: int) -> pl.DataFrame:
    """Speedup S(k) = X(k)/X(k0) and efficiency E(k) = S(k) k0/k; at the base both are 1 by definition."""
    compared = [
        {**c.stratum, "speedup": c.ratio.estimate, "speedup_low": c.ratio.low, "speedup_high": c.ratio.high}
        | {"verdict": _WORDS[c.verdict], "n": c.ratio.n}
        for c in comparisons
    ]
    schema = {"operation": pl.String, "series": pl.String, x: means.schema[x], "speedup": pl.Float64}
    schema |= {"speedup_low": pl.Float64, "speedup_high": pl.Float64, "verdict": pl.String, "n": pl.Int64}
    at_base = means.filter(pl.col(x) == base).select(
        "operation", "series", x, speedup=1.0, speedup_low=1.0, speedup_high=1.0, verdict=pl.lit("base"), n="n"
    )
    rows = pl.concat([at_base, pl.DataFrame(compared, schema=schema)], how="vertical_relaxed")
    share = pl.lit(base) / pl.col(x)
    return rows.with_columns(
        (pl.col("speedup") * share).alias("efficiency"),
        (pl.col("speedup_low") * share).alias("efficiency_low"),
        (pl.col("speedup_high") * share).alias("efficiency_high"),
    ).sort("operation", "series", x)


def _growth_sentence(operation: str, x: str, base: int, comparisons: list[Comparison]) -> str:
    """Judged at the largest x of each series."""
    by_series = {str(c.stratum["series"]): c for c in sorted(comparisons, key=lambda c: c.stratum[x])}  # type: ignore[arg-type, return-value] # x is an integer
    last = list(by_series.values())
    grows = sum(c.verdict == "faster" for c in last)
    falls = sum(c.verdict == "slower" for c in last)
    same = sum(c.verdict == "equivalent" for c in last)
    everywhere = "in every series" if len(last) > 1 else ""
    if grows == len(last):
        claim = f"grows with {x} {everywhere}"
    elif falls == len(last):
        claim = f"falls with more {x} {everywhere}"
    elif same == len(last):
        claim = f"stays the same with more {x} {everywhere}"
    elif not grows and not falls:
        claim = f"shows no detectable change with {x}"
    else:
        parts = [f"is higher in {grows}", f"lower in {falls}", f"undecided or the same in {len(last) - grows - falls}"]
        claim = f"with more {x} {listed([p for p in parts if not p.endswith(' 0')])} of {len(last)} series"
    ratios = "; ".join(f"{name}: {interval_text(c.ratio)} at {c.stratum[x]} {x}" for name, c in by_series.items())
    return f"{operation}: throughput {claim.strip()}. Relative to {base} {_unit(x, base)}: {ratios}."


def _unit(x: str, value: int) -> str:
    return x.removesuffix("s") if value == 1 else x


def opening(selection: Selection, studies: Sequence[ScalabilityStudy]) -> list[str]:
    """The report's first sentences: what entered, how throughput changes, where it is highest."""
    runs, left = selection.runs, selection.left_out
    first = f"{counted(runs.height, 'run')} of {counted(runs['resource'].n_unique(), 'resource')} enter"
    if left.height:
        names = left["resource"].unique(maintain_order=True).to_list()
        first += f"; {counted(left.height, 'run')} failed or lost operations and are left out ({listed(names, most=6)})"
    sentences = [f"{first}."]
    for study in studies:
        sentences += study.sentences()
    return [*sentences, *_highest(studies)]


def _highest(studies: Sequence[ScalabilityStudy]) -> list[str]:
    means = next((s.means for s in studies if s.means.height), None)
    if means is None:
        return []
    best = means.sort("mean", descending=True).group_by("operation", maintain_order=True).first().sort("operation")
    x = next(s.x for s in studies if s.means.height)
    places = [
        f"{row['operation']} {row['mean']:,.0f} operations/s ({row['series']}, {row[x]} {_unit(x, row[x])}, n = {row['n']})"
        for row in best.iter_rows(named=True)
    ]
    return [f"The highest mean throughput of a set-up in these series: {listed(places)}.".replace(",", ",")]


def warnings_of(selection: Selection, studies: Sequence[ScalabilityStudy]) -> list[str]:
    """What a reader must know before believing the figures."""
    notes = [note for study in studies for note in caveats(selection.runs, study.x) if study.means.height]
    thin = {c.label_a for s in studies for c in s.comparisons if c.ratio.n < 3}
    if thin:
        notes.append(f"Fewer than 3 runs stand behind some points ({listed(sorted(thin), most=4)}): intervals are wide or absent.")
    return [*[f"Measured on: {text}." for text in selection.hardware], *dict.fromkeys(notes)]


def latency_by_load(
    selection: Selection, latencies: pl.DataFrame, metric: str = "p99_us", *, level: float = 0.95
) -> pl.DataFrame:
    """Latency and throughput per set-up, workers and threads: means over runs of each run's own value.

    Columns: operation, series, threads, throughput_ops_s, n, mean, sd, low, high (of `metric`).
    """
    keys = [*SETUP, "workers"]
    runs = _named(selection.runs, keys)
    runs = runs.filter(pl.col("threads").n_unique().over(keys) > 1)
    own = latencies.filter(pl.col("role").cast(pl.String) == "main").select(
        "run_id", "resource", pl.col("operation").alias("section"), metric
    )
    joined = runs.join(own, on=["run_id", "resource"]).drop_nulls(metric)
    # Cleanup lines and the like carry latencies too; a run's operation is the one that it did most often.
    if joined.is_empty():
        return pl.DataFrame(schema={"operation": pl.String, "series": pl.String, "threads": pl.Int32, "mean": pl.Float64})
    joined = joined.with_columns(_series_of(joined, keys))
    by = ["operation", "series", "threads"]
    means = summarise_runs(joined, metric, by=by, level=level)
    load = joined.group_by(by).agg(pl.col(_METRIC).mean())
    return means.join(load, on=by, maintain_order="left")

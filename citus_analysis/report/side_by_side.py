"""Absolute throughput side by side: systems by workload, hardware by size, with and without monitoring, by intensity.

Bars show means with their intervals. Ratios and verdicts of set-ups with the same size and load are in
:mod:`citus_analysis.report.comparison_text`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import plotly.graph_objects as go
import polars as pl

from citus_analysis.core.frames import TableSource, as_polars
from citus_analysis.defaults import LEVEL, MARGIN, METRIC, UNTIL_TIME_IS_UP
from citus_analysis.errors import InsufficientDataError
from citus_analysis.operations import is_operation
from citus_analysis.plots.comparison_figures import plot_bars
from citus_analysis.report.sentence_parts import at_load, interval_cells, range_of, times_of
from citus_analysis.runs.naming import series_names
from citus_analysis.runs.run_selection import Selection
from citus_analysis.runs.run_status import AS_SELECTED
from citus_analysis.runs.setups import CONFIGURATION, LOAD, VARIANT
from citus_analysis.spans.analyse.coarse import coarse_profile
from citus_analysis.spans.analyse.selected_statements import select_statements
from citus_analysis.stats import Comparison, compare_runs, summarise_runs
from citus_analysis.stats.compare.run_tables import RunComparison
from citus_analysis.stats.estimate.intervals import MeanMethod
from citus_analysis.texts.counted_words import listed, load_text, size_expr, size_text
from citus_analysis.texts.number_text import with_readable_times

_SIZE: Final = ("workers", "threads")
_MEANS: Final = ("n", "mean", "sd", "low", "high", "level", "method")
#: The columns that make a workload more or less intense.
_INTENSITY: Final = ("records", "operations")


@dataclass(frozen=True)
class SideBySide:
    """Means of throughput for bars: groups of bars along x, one colour each.

    Attributes:
        means: `panel`, `x`, `group`, workers, threads, n, mean, sd, low, high, level, method; one row a bar. Where
            a bar is the best of several set-ups, `variant` names it.
        x: the meaning of `x`, in words.
        what: the kind of the groups, in words.
        unequal: in what bars that stand side by side differ besides, in a sentence; empty if in nothing that is known.
    """

    means: pl.DataFrame
    x: str
    what: str
    unequal: str = ""

    def plot(self, *, most: int = 12) -> list[go.Figure]:
        """One figure of bars for each panel; none if there is nothing to compare."""
        parts = list(self.means.group_by("panel", maintain_order=True))[:most]
        order = list(dict.fromkeys(self.means["group"]))
        titles = {name: f"{name}: throughput by {self.x}" for (name,), _ in parts if name}
        titles[""] = f"Throughput by {self.x}" + (" (unequal CPU, see the table)" if self.unequal else "")
        return [plot_bars(rows, x_title=self.x, title=titles[name], order=order) for (name,), rows in parts]

    def table(self) -> pl.DataFrame:
        """One row per bar, with the interval in a cell."""
        if self.means.is_empty():
            return self.means
        names = {"panel": "set-up", "x": self.x, "group": self.what, "variant": "set-up"}
        places = [name for name in ("panel", "x", "group") if self.means[name].n_unique() > 1 or name == "group"]
        places += ["variant"] if "variant" in self.means.columns else []
        known = [name for name in ("cpu_per_node",) if name in self.means.columns]
        sizes = [size_expr().alias("size") if name == "workers" else name for name in _SIZE if name != self.x]
        cells = interval_cells(self.means, "mean")
        shown = self.means.select(*places, *sizes, *known, "n", sd_ops_s="sd", throughput_ops_s=cells)
        return shown.rename({name: names[name] for name in places} | dict.fromkeys(known, "cores of each node"))


def _nothing(x: str, what: str) -> SideBySide:
    texts = dict.fromkeys(("panel", "x", "group"), pl.String())
    numbers = dict.fromkeys(("mean", "sd", "low", "high", "level"), pl.Float64())
    sizes = dict.fromkeys((*_SIZE, "n"), pl.Int64())
    return SideBySide(pl.DataFrame(schema=texts | sizes | numbers | {"method": pl.String()}), x, what)


def systems_by_workload(selection: Selection, *, level: float = LEVEL) -> SideBySide:
    """Throughput of each system for each operation, at the size and load at which its mean is largest.

    Systems are often measured at different loads; the table names the load of each bar. The largest of several means is
    a little too large, so small differences between bars mean nothing.

    Args:
        selection: runs with their set-up.
        level: confidence level.

    Returns:
        Bars by operation, grouped by system; none for a single system.
    """
    runs = selection.runs
    if runs["system"].n_unique() < 2:
        return _nothing("operation", "system")
    keys = [name for name in CONFIGURATION if name in runs.columns] + ["operation"]
    means = summarise_runs(
        runs, METRIC, by=list(dict.fromkeys(["system", "variant", *keys])), level=level, allow=AS_SELECTED
    )
    best = means.sort("mean", descending=True).group_by("operation", "system", maintain_order=True).first()
    bars = best.filter(pl.col("system").n_unique().over("operation") > 1).sort("operation", "system")
    named = bars.with_columns(panel=pl.lit(""), x="operation", group="system")
    known = (
        ["cpu_per_node"] if "cpu_per_node" in bars.columns and bars["cpu_per_node"].null_count() < bars.height else []
    )
    shown = named.select("panel", "x", "group", "variant", *_SIZE, *known, *_MEANS)
    return SideBySide(shown, "operation", "system", _unequal_cpu(shown) if known else "")


def _unequal_cpu(bars: pl.DataFrame) -> str:
    """The CPU that the nodes of systems side by side may use, if it differs; empty if it is equal."""
    if not (bars.group_by("x").agg(pl.struct("cpu_per_node", "workers").n_unique()).to_series(1) > 1).any():
        return ""
    rows = bars.select("group", "cpu_per_node", "workers").unique(maintain_order=True).iter_rows()
    words = dict.fromkeys(
        f"{system} {f'{cores} cores for each node' if cores else 'an amount that is not known'}"
        f" ({size_text(workers) if workers is not None else 'of unknown size'})"
        for system, cores, workers in rows
    )
    return f"The systems side by side may use unequal amounts of CPU: {listed([*words])}."


def configuration_table(selection: Selection, *, level: float = LEVEL, method: MeanMethod = "log-t") -> pl.DataFrame:
    """Mean, standard deviation, n and interval of the throughput of every configuration, one row each.

    A configuration is named by its operation, set-up (`variant`), workers, threads, and other parts of the load that
    differ; `operations` is null if the run was limited by time.

    Args:
        selection: runs with their set-up.
        level: confidence level.
        method: of the intervals of means.
    """
    runs = selection.runs
    named_elsewhere = ("operation", "phase", "workload", *_SIZE, *VARIANT)
    first = ["operation", "variant", *_SIZE]
    others = [name for name in CONFIGURATION if name in runs.columns and name not in named_elsewhere]
    rest = [name for name in others if runs[name].n_unique() > 1]
    means = summarise_runs(runs, METRIC, by=[*first, *rest], level=level, method=method, allow=AS_SELECTED)
    ordered = means.select(*first, "n", "mean", "low", "high", "sd", *rest).sort(*first, *rest)
    bounded = pl.when(pl.col("operations") < UNTIL_TIME_IS_UP).then("operations")
    return ordered.with_columns(operations=bounded) if "operations" in rest else ordered


def hardware_by_size(selection: Selection, *, level: float = LEVEL) -> SideBySide:
    """Throughput by cluster size on each kind of hardware that the descriptions of the systems state.

    On the hardware with the most runs, only the set-up with the most runs is included, so that a bar's colour means the
    hardware alone; on other hardware every set-up is included, with its name. Bars share a panel only if they have the
    same load.

    Args:
        selection: runs with their set-up.
        level: confidence level.

    Returns:
        Bars by workers, grouped by hardware, one panel per operation and load with several kinds of hardware.
    """
    runs = selection.runs.drop_nulls(["operation", "hardware", *_SIZE]).filter(pl.col("workers") > 0)
    usual = runs["hardware"].mode().sort()
    if runs["hardware"].n_unique() < 2:
        return _nothing("workers", "hardware")
    main = runs.filter(pl.col("hardware") == usual[0])["variant"].mode().sort()[0]
    kept = runs.filter((pl.col("hardware") != usual[0]) | (pl.col("variant") == main))
    names = distinct_parts(kept["hardware"].unique().sort().to_list())
    several = kept.group_by("hardware").agg(pl.col("variant").n_unique()).filter(pl.col("variant") > 1)["hardware"]
    variant = pl.when(pl.col("hardware").is_in(several.implode())).then(pl.format(", {}", "variant"))
    kept = kept.with_columns(group=pl.col("hardware").replace(names) + variant.otherwise(pl.lit("")))
    load = [name for name in LOAD if name in kept.columns and name != "operation"]
    means = summarise_runs(kept, METRIC, by=["operation", "workers", *load, "group"], level=level, allow=AS_SELECTED)
    met = means.filter(pl.col("group").n_unique().over("operation", "workers", *load) > 1)
    if met.is_empty():
        return _nothing("workers", "hardware")
    loads = series_names(met.select(load), ignore=["workload"], always=["threads"])
    shown = met.with_columns(
        panel=pl.format("{} with {}", "operation", loads),
        x=pl.col("workers").map_elements(size_text, return_dtype=pl.String),
    )
    shown = shown.sort("operation", *load, "workers", "group", nulls_last=True)
    return SideBySide(shown.select("panel", "x", "group", *_SIZE, *_MEANS), "workers", "hardware")


def distinct_parts(texts: Sequence[str]) -> dict[str, str]:
    """Texts -> their parts, split at commas and semicolons, without the parts that all texts share.

    Example:
        >>> distinct_parts(["2 cores; each node 10 %", "2 cores; each node 20 %"])
        {'2 cores; each node 10 %': 'each node 10 %', '2 cores; each node 20 %': 'each node 20 %'}
    """
    parts = {one: [part.strip() for part in one.replace(";", ",").split(",")] for one in texts}
    shared = set.intersection(*(set(found) for found in parts.values())) if parts else set()
    return {one: ", ".join(part for part in found if part not in shared) or one for one, found in parts.items()}


def monitoring_overhead(selection: Selection, *, level: float = LEVEL, margin: float = MARGIN) -> RunComparison | None:
    """Throughput without the sampled client compared with that with it; None if no set-up was run both ways.

    Args:
        selection: runs with their set-up.
        level: confidence level.
        margin: relative difference that counts as none.
    """
    runs = selection.runs.drop_nulls("monitored")
    if runs["monitored"].n_unique() < 2:
        return None
    try:
        found = compare_runs(runs, METRIC, "monitored", base=True, level=level, margin=margin, allow=AS_SELECTED)
    except InsufficientDataError:
        return None
    return found if found.comparisons else None


def overhead_sentences(found: RunComparison | None) -> list[str]:
    """The cost of monitoring in words: one sentence per operation and size."""
    if found is None:
        return []
    words = {
        "equivalent": "is as fast without monitoring as with it, within {margin:g} % ({range} times)",
        "inconclusive": "is {times} times as fast without monitoring as with it ({range}), which decides nothing",
    }
    decided = "is {times} times as fast without monitoring as with it ({range})"
    return [
        f"{_place(c)} {words.get(c.verdict, decided)}.".format(
            times=times_of(c), range=range_of(c), margin=100 * c.margin
        )
        for c in found
    ]


def overhead_table(found: RunComparison | None) -> pl.DataFrame:
    """Mean, standard deviation, n and interval without and with monitoring; two rows per operation and size."""
    if found is None:
        return pl.DataFrame(schema={"measured": pl.String(), "monitored": pl.Boolean(), "n": pl.Int64()})
    rows = [
        {
            "measured": _place(c),
            "monitored": monitored,
            "n": len(values),
            **mean.record("mean_ops_s"),
            "sd_ops_s": float(np.std(values, ddof=1)) if len(values) > 1 else None,
            "verdict": "" if monitored else c.verdict,
        }
        for c in found
        for monitored, mean, side in zip((False, True), (c.mean_a, c.mean_b), c.sides or (), strict=True)
        for values in (side[METRIC].to_numpy(),)
    ]
    return pl.DataFrame(rows)


def _place(c: Comparison) -> str:
    return at_load((c.sides or (pl.DataFrame(),))[0].row(0, named=True))


def intensity_table(
    selection: Selection, dataset: TableSource, *, level: float = LEVEL, skip_first: int = 0
) -> pl.DataFrame:
    """Throughput, the servers' times and the clients' latency for set-ups that were run at several intensities.

    The intensity is the number of records and of operations; runs that ended before all operations were done, because
    their time was up, have none. The servers' times are those of sampled statements of the steady state within the
    measured windows of the runs, over all places of execution.

    Args:
        selection: runs with their set-up.
        dataset: gives `statements` and `operation_latencies`.
        level: confidence level.
        skip_first: statements at the beginning of each session that the servers' times leave out.

    Returns:
        operation, series, records, operations, n, throughput (with its interval), server_mean_us, server_p99_us,
        client_mean_us; long times in ms. One row per intensity.
    """
    done = pl.col("operations_done") + pl.col("failed_operations").fill_null(0)
    runs = selection.runs.filter((done >= pl.col("operations")).fill_null(value=True))
    keys = [name for name in CONFIGURATION if name in runs.columns and name not in _INTENSITY]
    runs = runs.filter(pl.struct(_INTENSITY).n_unique().over(keys) > 1)
    if runs.is_empty():
        return pl.DataFrame(schema={"operation": pl.String()})
    means = summarise_runs(runs, METRIC, by=[*keys, *_INTENSITY], level=level, allow=AS_SELECTED).with_row_index("cell")
    cells = runs.join(means.select("cell", *keys, *_INTENSITY), on=[*keys, *_INTENSITY], nulls_equal=True)
    where = cells.select("run_id", "resource", "cell")
    found = means.join(_server(selection, dataset, where, skip_first), on="cell", how="left")
    found = found.join(_client(dataset, where), on="cell", how="left").sort("operation", *keys, *_INTENSITY)
    series = [load_text(w, t).replace(" and ", ", ") for w, t in found.select(_SIZE).iter_rows()]
    names = [name for name in ("system", "family", "settings") if found[name].n_unique() > 1]
    shown = found.select("operation", *names, pl.Series("series", series), *_INTENSITY, "n")
    times = found.select("server_mean_us", "server_p99_us", "client_mean_us")
    return with_readable_times(shown.with_columns(interval_cells(found, "mean").alias("throughput_ops_s"), *times))


def _server(selection: Selection, dataset: TableSource, where: pl.DataFrame, skip_first: int) -> pl.DataFrame:
    empty = {"cell": where.schema["cell"], "server_mean_us": pl.Float64(), "server_p99_us": pl.Float64()}
    try:
        selected = select_statements(selection, dataset, skip_first=skip_first)
        placed = selected.steady.join(where, on=["run_id", "resource"])
    except InsufficientDataError:
        placed = pl.DataFrame()
    if placed.is_empty():
        return pl.DataFrame(schema=empty)
    profile = coarse_profile(placed, by=["cell"], quantities=["T"])
    return profile.select("cell", server_mean_us="mean_us", server_p99_us="p99_us")


def _client(dataset: TableSource, where: pl.DataFrame) -> pl.DataFrame:
    """Mean latency of the main clients over all operations."""
    latencies = as_polars(dataset.table("operation_latencies"))
    main = latencies.filter((pl.col("role").cast(pl.String) == "main") & is_operation("operation"))
    weighted = (pl.col("mean_us") * pl.col("operations")).sum() / pl.col("operations").sum()
    placed = main.join(where, on=["run_id", "resource"]).drop_nulls("mean_us")
    return placed.group_by("cell").agg(weighted.alias("client_mean_us"))

"""The figure of a result, which its method `plot` draws."""

from __future__ import annotations

from functools import singledispatch

import plotly.graph_objects as go
import polars as pl

from citus_analysis.attribution import Explanation
from citus_analysis.attribution.sentences import tabulate_causes
from citus_analysis.bottleneck import BottleneckStudy
from citus_analysis.bottleneck.run_variance import RunVariance
from citus_analysis.core.frames import convert_to_polars
from citus_analysis.errors import UsageError
from citus_analysis.plots.bottleneck_figures import plot_percentages, plot_predicted_ratios, plot_variance
from citus_analysis.plots.comparison_figures import plot_account, plot_ratios
from citus_analysis.plots.published_figures import plot_fits
from citus_analysis.plots.scalability_figures import plot_series
from citus_analysis.plots.server_figures import plot_shares, plot_track
from citus_analysis.plots.theme import get_style, new_figure
from citus_analysis.plots.trace_figures import plot_profile, plot_tail
from citus_analysis.runs.set_ups import name_configurations
from citus_analysis.scaling.curves import ScalingCurve, ScalingStudy
from citus_analysis.scaling.fitting import ModelFit, ScalingFit
from citus_analysis.scaling.queueing import NetworkSolution
from citus_analysis.scaling.what_if import WhatIf, WhatIfStudy
from citus_analysis.serverlogs.profile import ServerProfile
from citus_analysis.spans.profile import ProfileStudy
from citus_analysis.spans.tail import TailProfile
from citus_analysis.stats import Comparison
from citus_analysis.stats.run_comparisons import RunComparison
from citus_analysis.tracking import TrackedSeries
from citus_analysis.units import label


@singledispatch
def draw_result(result: object) -> go.Figure:
    """The figure that shows a result best.

    Args:
        result: a comparison, a curve, study or fit of scaling, a profile of statements or of server logs, a study of
            bottlenecks or of run-to-run variance, a prediction, a solved queueing network, a series over time.

    Raises:
        UsageError: results of this kind have no figure.

    Example:
        >>> import citus_analysis as ca
        >>> runs = pl.DataFrame({"workers": [1, 1, 2, 2], "throughput_ops_s": [10.0, 11.0, 20.0, 21.0]})
        >>> len(ca.compare(runs, by="workers").plot().data) > 0
        True
    """
    raise UsageError(f"a result of kind {type(result).__name__} has no figure", hint="its rows: .table()")


draw_result.register(
    RunComparison, lambda result: _plot_comparison_ratios(result.comparisons, f"{label(result.metric)} by {result.by}")
)
draw_result.register(Comparison, lambda result: _plot_comparison_ratios((result,), ""))
draw_result.register(ScalingStudy, lambda result: _plot_curve_series(result.curves, result.x, result.metric))
draw_result.register(ScalingCurve, lambda result: _plot_curve_series((result,), result.x, "throughput_ops_s"))
draw_result.register(TailProfile, plot_tail)
draw_result.register(
    ProfileStudy,
    lambda result: plot_profile(result.statements, by=["workers", "threads", "statement_kind", "executed"]),
)
draw_result.register(ServerProfile, lambda result: plot_shares(result.by_fingerprint))
draw_result.register(BottleneckStudy, lambda result: plot_percentages(result.matrix))
draw_result.register(WhatIf, lambda result: plot_predicted_ratios(result.to_study().table()))
draw_result.register(WhatIfStudy, lambda result: plot_predicted_ratios(result.table()))
draw_result.register(
    TrackedSeries,
    lambda result: plot_track(result.runs, metric=result.metric, points=result.found.points, title=result.name),
)
draw_result.register(
    Explanation, lambda result: plot_account(tabulate_causes(result), title=f"{result.other} against {result.base}")
)


@draw_result.register
def _(result: ScalingFit) -> go.Figure:
    one = next(iter(result.fits.values()))
    runs = pl.DataFrame({"size": one.sizes, "mean": one.throughputs})
    points = runs.with_columns(low=pl.lit(None, pl.Float64), high=pl.lit(None, pl.Float64))
    return plot_fits(points, result, x="size", points="run", title="Models fitted to the runs")


@draw_result.register
def _(result: ModelFit) -> go.Figure:
    rejected = {result.model: "lack of fit"} if result.rejected else {}
    return draw_result(ScalingFit({result.model: result}, {result.model: 1.0}, rejected))


@draw_result.register
def _(result: RunVariance) -> go.Figure:
    rows = convert_to_polars(result.sources).select(term="source", share="share")
    named = rows.with_columns(resource=pl.lit("runs of one"), statement_kind=pl.lit("configuration"))
    return plot_variance(named, title="Run-to-run variance by source")


@draw_result.register
def _(result: NetworkSolution) -> go.Figure:
    figure = new_figure("Time at each resource", y="residence time")
    figure.add_bar(x=list(result.resources), y=result.residence_time.tolist(), marker={"color": get_style(0)[0]})
    return figure


def _plot_comparison_ratios(comparisons: tuple[Comparison, ...], title: str) -> go.Figure:
    bases = {one.label_b for one in comparisons}
    rows = [
        (
            ", ".join(filter(None, (one.label_a if len(bases) == 1 else f"{one.label_a} / {one.label_b}", name))),
            *(one.ratio.estimate, *one.ratio.ends, str(one.verdict)),
        )
        for one, name in zip(comparisons, name_configurations([one.stratum for one in comparisons]), strict=True)
    ]
    kinds = {"name": pl.String(), **dict.fromkeys(("ratio", "low", "high"), pl.Float64()), "verdict": pl.String()}
    table = pl.DataFrame(rows, schema=kinds, orient="row")
    return plot_ratios(table, base=bases.pop() if len(bases) == 1 else "the base", title=title)


def _plot_curve_series(curves: tuple[ScalingCurve, ...], x: str, metric: str) -> go.Figure:
    rows = [
        (name or "runs", point.size, point.throughput.estimate, *point.throughput.ends)
        for curve, name in zip(curves, name_configurations([one.stratum for one in curves]), strict=True)
        for point in curve.points
    ]
    kinds = {"series": pl.String(), **dict.fromkeys((x, "mean", "low", "high"), pl.Float64())}
    return plot_series(pl.DataFrame(rows, schema=kinds, orient="row"), x=x, metric=metric, ideal=True)

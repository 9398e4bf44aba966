"""Every figure says which column its table lacks, and which it has."""

from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from pkgutil import iter_modules

import plotly.graph_objects as go
import polars as pl
import pytest

from citus_analysis import plots
from citus_analysis.errors import UsageError
from citus_analysis.plans.study import measure_nodes, measure_tasks
from citus_analysis.plots import (
    plot_connections,
    plot_device,
    plot_fits,
    plot_flame_graph,
    plot_histograms,
    plot_nodes,
    plot_profile,
    plot_ratios,
    plot_series,
    plot_spans,
    plot_waterfall,
)
from citus_analysis.plots.bottleneck_figures import plot_percentages, plot_predicted_ratios, plot_variance, plot_waits
from citus_analysis.plots.comparison_figures import plot_account, plot_bars
from citus_analysis.plots.node_figures import plot_node_heat_map
from citus_analysis.plots.perf_figures import plot_stack_changes, plot_symbols
from citus_analysis.plots.profile_figures import plot_distribution, plot_plan, plot_tasks
from citus_analysis.plots.published_figures import plot_measured_rates, plot_stated_intervals
from citus_analysis.plots.resource_figures import plot_cpu, plot_foreign_work
from citus_analysis.plots.scalability_figures import plot_latency_load, plot_relative
from citus_analysis.plots.server_figures import plot_counts_over_time, plot_measure_over_time, plot_shares, plot_track
from citus_analysis.plots.trace_figures import plot_flame, plot_heat_map, plot_percentile_profile
from citus_analysis.scaling import fit
from citus_analysis.spans import time_histogram
from citus_analysis.spans.composition import compute_percentile_profile
from tests.formats.plan_files import table_of
from tests.spans.recordings import traces_of

RESOURCE = "w2-t4-insert"
MEANS = pl.DataFrame(
    {"series": ["a", "a"], "workers": [1, 2], "threads": [1, 2], "throughput_ops_s": [1.0, 2.0]}
    | {"mean": [1.0, 2.0], "low": [0.5, 1.5], "high": [1.5, 2.5], "n": [3, 3], "run_id": ["r", "s"]}
)
STATED = MEANS.with_columns(stated_low="low", stated_high="high")
SECONDS = pl.DataFrame(
    {
        "run_id": ["a", "a"],
        "sample_time": [datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC) for second in (1, 2)],
        "busy_percent": [20.0, 60.0],
        "other_percent": [20.0, 60.0],
        "expected_percent": [20.0, 20.0],
        "foreign_percent": [None, 40.0],
    }
)
SAMPLES = pl.DataFrame(
    {"elapsed_s": [1.0], "series": ["a"], "await_ms": [1.0], "start_s": [0.5], "end_s": [1.5]}
    | {f"{share}_percent": [1.0] for share in ("user", "system", "iowait", "steal")}
)
PREDICTIONS = pl.DataFrame(
    {"base": ["a"], "change": ["threads=8"], "ratio": [1.0], "ratio_low": [0.8], "ratio_high": [1.2]}
    | {"measured_ratio": [1.1]}
)
RATIOS = pl.DataFrame({"name": ["a"], "ratio": [1.0], "low": [0.9], "high": [1.1], "verdict": ["equivalent"]})
SPANS = pl.DataFrame({"name": ["r"], "quantity": ["T"], "mean_us": [1.0]})
SYMBOLS = pl.DataFrame(
    {"symbol": ["f"], "module": ["postgres"], "recordings": [2]}
    | {f"{name}_percent": [value] for name, value in (("mean", 2.0), ("lowest", 1.0), ("highest", 3.0))}
)
FRAMES = pl.DataFrame(
    {"frame_id": [0, 1], "caller_id": [None, 0], "depth": [0, 1], "frame": ["main", "f"]}
    | {"module": ["postgres", "kernel"], "percent": [100.0, 40.0], "self_percent": [60.0, 40.0]}
)
CHANGES = FRAMES.select("frame_id", "caller_id", "depth", "frame", base="percent", other="percent").with_columns(
    base_self=pl.col("base"), other_self=pl.col("other")
)
NODES = pl.DataFrame({"elapsed_s": [1.0, 2.0], "node": ["1", "2"], "busy_percent": [10.0, 20.0]})
CONNECTIONS = NODES.select("elapsed_s", "node", client=1, internal=2)
TIMES = pl.DataFrame({"series": ["a"], "total_us": [1.0]})
FIT = fit([1, 1, 1, 2, 2, 2, 4, 4, 4], [99, 100, 101, 190, 195, 199, 360, 370, 380], models=["linear"])


def _statements() -> pl.DataFrame:
    return traces_of(RESOURCE).statements


def _spans() -> pl.DataFrame:
    return traces_of(RESOURCE).spans


Draw = Callable[[pl.DataFrame], go.Figure]
#: Function -> argument -> how it is called with that table, and a table that it can draw.
CAUSES = pl.DataFrame(
    {"part": ["in the child"], "estimate_ms": [1.4], "low_ms": [1.2], "high_ms": [1.6], "decided": [True]}
)
BARS = pl.DataFrame({"x": ["A"], "group": ["citus"], "mean": [2.0], "low": [1.0], "high": [3.0]})
SENT = pl.DataFrame(
    {"time": [datetime(2026, 1, 1, tzinfo=UTC)], "sent_by": ["clients"], "mean_ms": [1.5], "n": [3]}
    | {"text": ["SELECT 1"], "statement_kind": ["select"], "total_s": [2.0], "share_percent": [100.0]}
)
LIMITS = pl.DataFrame(
    {"resource": ["a"], "run_id": ["r"], "part": ["CPU"], "metric": ["busy"], "value": [50.0], "unit": ["%"]}
    | {"role": ["parent"], "doing": ["waits"], "event": ["IO"], "average_sessions": [2.5]}
    | {"statement_kind": ["select"], "term": ["parent"], "share": [0.5]}
)
TRACKED = pl.DataFrame({"place": [0, 1], "dataset": ["a", "b"], "value": [1.0, 2.0], "level": [1.5, 1.5]})
RATES = pl.DataFrame({"system": ["citus"], "source": ["thesis"], "table": ["4.2"], "label": ["A"], "value": [9043.0]})
CASES: dict[str, dict[str, tuple[Draw, Callable[[], pl.DataFrame]]]] = {
    "plot_series": {
        "means": (lambda t: plot_series(t, x="workers"), lambda: MEANS),
        "runs": (lambda t: plot_series(MEANS, t, x="workers"), lambda: MEANS),
    },
    "plot_relative": {"relative": (lambda t: plot_relative(t, x="workers", quantity="speedup", base=1), lambda: MEANS)},
    "plot_latency_load": {"latency": (plot_latency_load, lambda: MEANS)},
    "plot_ratios": {"ratios": (plot_ratios, lambda: RATIOS)},
    "plot_spans": {"profile": (plot_spans, lambda: SPANS)},
    "plot_distribution": {"times": (plot_distribution, lambda: TIMES)},
    "plot_cpu": {"samples": (plot_cpu, lambda: SAMPLES)},
    "plot_foreign_work": {"samples": (plot_foreign_work, lambda: SECONDS)},
    "plot_device": {
        "samples": (plot_device, lambda: SAMPLES),
        "checkpoints": (lambda t: plot_device(SAMPLES, t), lambda: SAMPLES),
    },
    "plot_measure_over_time": {"intervals": (lambda t: plot_measure_over_time(t, ["mean_ms"]), lambda: SENT)},
    "plot_counts_over_time": {"counts": (lambda t: plot_counts_over_time(t, "n", by="sent_by"), lambda: SENT)},
    "plot_shares": {"statements": (plot_shares, lambda: SENT)},
    "plot_measured_rates": {"rates": (plot_measured_rates, lambda: RATES)},
    "plot_percentages": {"matrix": (plot_percentages, lambda: LIMITS)},
    "plot_waits": {
        "waits": (plot_waits, lambda: LIMITS),
        "matrix": (lambda t: plot_waits(LIMITS, t), lambda: LIMITS),
    },
    "plot_variance": {"variance": (plot_variance, lambda: LIMITS)},
    "plot_predicted_ratios": {"predictions": (plot_predicted_ratios, lambda: PREDICTIONS)},
    "plot_track": {"runs": (lambda t: plot_track(t), lambda: TRACKED)},
    "plot_account": {"causes": (plot_account, lambda: CAUSES)},
    "plot_bars": {"bars": (plot_bars, lambda: BARS)},
    "plot_nodes": {
        "samples": (plot_nodes, lambda: NODES),
        "checkpoints": (lambda t: plot_nodes(NODES, checkpoints=t), lambda: SAMPLES),
    },
    "plot_node_heat_map": {"samples": (plot_node_heat_map, lambda: NODES)},
    "plot_connections": {"samples": (plot_connections, lambda: CONNECTIONS)},
    "plot_histograms": {"histograms": (plot_histograms, lambda: time_histogram(TIMES))},
    "plot_flame_graph": {"tree": (plot_flame_graph, lambda: FRAMES)},
    "plot_stack_changes": {"tree": (plot_stack_changes, lambda: CHANGES)},
    "plot_symbols": {"symbols": (plot_symbols, lambda: SYMBOLS)},
    "plot_stated_intervals": {"summaries": (plot_stated_intervals, lambda: STATED)},
    "plot_fits": {"summaries": (lambda t: plot_fits(t, FIT), lambda: STATED)},
    "plot_waterfall": {"spans": (lambda t: plot_waterfall(t, _spans()["trace_id"][0]), _spans)},
    "plot_flame": {"statements": (plot_flame, _statements)},
    "plot_heat_map": {"statements": (plot_heat_map, _statements)},
    "plot_plan": {"nodes": (plot_plan, lambda: measure_nodes(table_of("scan.txt")))},
    "plot_tasks": {"tasks": (plot_tasks, lambda: measure_tasks(table_of("scan.txt")))},
    "plot_profile": {"statements": (plot_profile, _statements)},
    "plot_percentile_profile": {
        "profile": (
            plot_percentile_profile,
            lambda: compute_percentile_profile(_statements()).filter(executed="remote"),
        )
    },
}
#: Takes a result, not a table.
RESULTS = {"plot_tail"}


def test_every_figure_is_tried() -> None:
    modules = [import_module(f"{plots.__name__}.{found.name}") for found in iter_modules(plots.__path__)]
    figures = {name for module in modules for name in vars(module) if name.startswith("plot_")}
    assert set(CASES) | RESULTS == figures


@pytest.mark.parametrize(("function", "argument"), [(f, a) for f, arguments in CASES.items() for a in arguments])
def test_a_missing_column_is_named(function: str, argument: str) -> None:
    draw, table = CASES[function][argument]
    frame = table()
    assert isinstance(draw(frame), go.Figure)
    with pytest.raises(UsageError, match=rf"^the table `{argument}` lacks \S.* \(it has: other\)$"):
        draw(pl.DataFrame({"other": [1]}))
    for column in frame.columns:
        try:
            draw(frame.drop(column))
        except UsageError as error:
            assert f"the table `{argument}` lacks {column} (it has: " in str(error)  # noqa: PT017 - or none is raised

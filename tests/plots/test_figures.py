"""Figures of comparisons, profiles and machines draw the numbers of their tables."""

import numpy as np
import polars as pl

from citus_analysis.plots import plot_device, plot_ratios, plot_spans
from citus_analysis.plots.perf_figures import plot_symbols
from citus_analysis.plots.profile_figures import plot_distribution
from citus_analysis.plots.published_figures import plot_measured_rates
from citus_analysis.plots.resource_figures import plot_cpu
from citus_analysis.published import audit, published
from citus_analysis.published.study import select_measured_rates


def test_ratios_without_interval_are_hollow() -> None:
    ratios = pl.DataFrame(
        {
            "name": ["<a>", "b"],
            "ratio": [1.2, 0.8],
            "low": [1.1, 0.0],
            "high": [1.3, float("inf")],
            "verdict": ["faster", "inconclusive"],
        }
    )
    figure = plot_ratios(ratios, base="text")
    faster, open_ = figure.data
    assert (faster.name, list(faster.x), list(faster.marker.color)) == ("faster", [1.2], ["#009E73"])
    assert (open_.name, list(open_.marker.color), list(open_.customdata)) == (
        "inconclusive",
        ["white"],
        ["(one run: no interval)"],
    )
    assert not np.isfinite([*open_.error_x.array, *open_.error_x.arrayminus]).any()
    assert list(figure.layout.yaxis.ticktext) == ["&lt;a&gt;", "b"]


def test_long_names_of_ratios_break_into_lines_and_nothing_is_left_out() -> None:
    name = "citus-binary, citus.enable_binary_protocol=on"
    ratios = pl.DataFrame({"name": [name], "ratio": [1.0], "low": [0.9], "high": [1.1], "verdict": ["inconclusive"]})
    (shown,) = plot_ratios(ratios).layout.yaxis.ticktext
    assert shown == "citus-binary,<br>citus.enable_binary_<br>protocol=on"


def test_what_publications_only_claim_is_not_drawn() -> None:
    rates = select_measured_rates(published(), audit().findings.filter(severity="red"))
    figure = plot_measured_rates(rates)
    drawn = np.concatenate([trace.x for trace in figure.data])
    assert drawn.size == rates.height
    assert not set(drawn) & {11_200_000.0, 1_100_000.0}
    assert all("INSERT" in name or "SELECT" in name or "UPDATE" in name or "DBT-1" in name for name in rates["label"])


def test_spans_are_stacked() -> None:
    profile = pl.DataFrame(
        {"name": ["r", "r", "r", "l"], "quantity": ["P", "C", "L", "T"], "mean_us": [1e3, 2e3, 3e3, 4e3]}
    )
    figure = plot_spans(profile)
    assert figure.layout.barmode == "stack"
    assert [(bar.name, list(bar.x)) for bar in figure.data] == [
        ("parent (P)", [1]),
        ("child (C)", [2]),
        ("between (L)", [3]),
        ("local (T)", [4]),
    ]


def test_a_distribution_runs_from_the_smallest_to_the_largest() -> None:
    times = pl.DataFrame({"series": ["a"] * 1000, "total_us": [1000.0 * i for i in range(1, 1001)]})
    (line,) = plot_distribution(times).data
    assert (line.x[0], line.x[-1], line.y[-1]) == (1, 1000, 100)
    assert len(line.x) <= 400
    assert line.name == "a (n = 1,000)"


def test_cpu_shares_are_stacked_and_nice_is_user() -> None:
    samples = pl.DataFrame(
        {"elapsed_s": [1.0], "user_percent": [50.0], "nice_percent": [5.0], "system_percent": [20.0]}
        | {"iowait_percent": [1.0], "steal_percent": [None]},
        schema_overrides={"steal_percent": pl.Float64},
    )
    figure = plot_cpu(samples)
    assert [trace.y[0] for trace in figure.data] == [55, 20, 1, 0]
    assert {trace.stackgroup for trace in figure.data} == {"cpu"}


def test_checkpoints_are_shaded() -> None:
    samples = pl.DataFrame({"series": ["vda"] * 2, "elapsed_s": [1.0, 2.0], "await_ms": [1.0, 3.0]})
    marks = pl.DataFrame({"start_s": [0.5, None], "end_s": [1.5, 1.8], "node": ["1", "2"]})
    figure = plot_device(samples, marks)
    assert [(shape.x0, shape.x1) for shape in figure.layout.shapes] == [(0.5, 1.5), (1.8, 1.8)]
    assert [trace.name for trace in figure.data] == ["checkpoint under way", "vda"]
    zoomed = plot_device(samples, marks, window=(1.7, 2.0))
    assert [(shape.x0, shape.x1) for shape in zoomed.layout.shapes] == [(1.8, 1.8)]
    assert list(zoomed.data[-1].x) == [2.0]
    assert not plot_device(samples).layout.shapes


def test_functions_of_one_name_in_two_objects_stay_apart() -> None:
    symbols = pl.DataFrame(
        {"symbol": ["f", "f"], "module": ["citus", "kernel"], "recordings": [3, 3]}
        | {"mean_percent": [1.0, 2.0], "lowest_percent": [0.0, 1.5], "highest_percent": [1.5, 2.25]}
    )
    figure = plot_symbols(symbols)
    assert [(bar.name, list(bar.x), list(bar.y)) for bar in figure.data] == [("kernel", [2], [0]), ("citus", [1], [1])]
    assert [(list(bar.error_x.arrayminus), list(bar.error_x.array)) for bar in figure.data] == [
        ([0.5], [0.25]),
        ([1.0], [0.5]),
    ]
    assert list(figure.layout.yaxis.ticktext) == ["f", "f"]
    assert plot_symbols(symbols.with_columns(recordings=1)).data[0].error_x.array is None, "one recording: no spread"

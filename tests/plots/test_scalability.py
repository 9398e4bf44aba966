"""Figures of means along an axis: what is drawn is what the table says."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from citus_analysis.plots import plot_series
from citus_analysis.plots.scalability_figures import plot_latency_load, plot_relative

MEANS = pl.DataFrame(
    {
        "series": ["a", "a", "<b>", "<b>"],
        "workers": [1, 4, 1, 4],
        "mean": [10.0, 30.0, 9.0, 8.0],
        "low": [9.0, 28.0, 8.0, None],
        "high": [11.0, 32.0, 10.0, None],
        "n": [3, 3, 3, 1],
    }
)
RUNS = pl.DataFrame(
    {"series": ["a", "<b>"], "workers": [1, 4], "throughput_ops_s": [10.5, 8.0], "run_id": ["<r>", "s"]}
)


@pytest.mark.parametrize("kind", [lambda f: f, pl.DataFrame.lazy, pl.DataFrame.to_pandas, pl.DataFrame.to_arrow])
def test_any_frame_gives_the_same_figure(kind: Any) -> None:
    frame = kind(MEANS)
    assert isinstance(frame, pl.DataFrame | pl.LazyFrame | pd.DataFrame | pa.Table)
    assert plot_series(frame, x="workers").to_json() == plot_series(MEANS, x="workers").to_json()


def test_lines_intervals_and_runs() -> None:
    figure = plot_series(MEANS, RUNS, x="workers")
    lines = [trace for trace in figure.data if trace.showlegend]
    assert [(t.name, list(t.y)) for t in lines] == [("a", [10, 30]), ("&lt;b&gt;", [9, 8])]
    assert not [trace for trace in figure.data if trace.fill]
    assert list(lines[0].error_y.array) == [1, 2]
    assert list(lines[0].error_y.arrayminus) == [1, 2]
    assert np.isnan(lines[1].error_y.array[1])
    assert "no interval" in lines[1].customdata[1]
    points = [trace for trace in figure.data if trace.mode == "markers"]
    assert [list(p.y) for p in points] == [[10.5], [8]]
    assert points[0].text[0] == "&lt;r&gt;"
    assert figure.layout.yaxis.title.text == "throughput [operations/s]"
    assert list(figure.layout.xaxis.tickvals) == [1, 4]


def test_wide_axes_are_logarithmic() -> None:
    wide = MEANS.with_columns(pl.col("workers").replace(4, 64))
    assert plot_series(wide, x="workers").layout.xaxis.type == "log"
    assert plot_series(MEANS, x="workers").layout.xaxis.type == "linear"


def test_intervals_of_several_series_stand_side_by_side() -> None:
    for sizes in ([1, 4], [1, 64]):
        frame = MEANS.with_columns(workers=pl.Series([*sizes, *sizes]))
        first, second = plot_series(frame, x="workers").data
        assert (np.array(first.x) < np.array(second.x)).all()
        assert np.array(first.x) == pytest.approx(sizes, rel=0.05)


def test_colours_stay_with_their_series_over_panels() -> None:
    alone = plot_series(MEANS.filter(pl.col("series") != "a"), x="workers", order=["a", "<b>"])
    both = plot_series(MEANS, x="workers", order=["a", "<b>"])
    assert alone.data[-1].line.color == both.data[-1].line.color


@pytest.mark.parametrize(("quantity", "ideal"), [("speedup", [1, 4]), ("efficiency", [1, 1])])
def test_the_ideal_is_drawn(quantity: str, ideal: list[float]) -> None:
    figure = plot_relative(MEANS, x="workers", quantity=quantity, base=1)
    assert list(figure.data[0].y) == ideal


def test_speedup_uses_its_space_and_begins_at_1_without_an_interval() -> None:
    ratios = pl.DataFrame({"series": ["a"], "workers": [8], "mean": [3.0], "low": [2.5], "high": [500.0]})
    figure = plot_relative(ratios, x="workers", quantity="speedup", base=1)
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")
    low, high = 10 ** np.array(figure.layout.yaxis.range)
    assert 0.9 < low < 1 < 8 < high < 20
    assert list(figure.data[1].y) == [1, 3]
    assert np.isnan(figure.data[1].error_y.array[0])
    assert list(
        plot_relative(ratios.with_columns(low=pl.lit(None, pl.Float64)), x="workers", quantity="efficiency", base=1)
        .data[1]
        .y
    ) == [1, 3]


def test_latency_against_load_has_bars_where_there_are_intervals() -> None:
    frame = MEANS.rename({"workers": "threads"}).with_columns(throughput_ops_s=pl.Series([1.0, 2, 3, 4]))
    figure = plot_latency_load(frame, metric="p99_us")
    assert figure.layout.yaxis.title.text == "p99 latency [µs]"
    assert list(figure.data[0].x) == [1, 2]
    assert list(figure.data[0].error_y.array) == [1, 2]


def test_long_latencies_are_in_milliseconds() -> None:
    frame = MEANS.rename({"workers": "threads"}).with_columns(
        pl.col("mean", "low", "high") * 1000, throughput_ops_s=pl.Series([1.0, 2, 3, 4])
    )
    figure = plot_latency_load(frame, metric="p99_us")
    assert figure.layout.yaxis.title.text == "p99 latency [ms]"
    assert list(figure.data[0].y) == [10, 30]


def test_no_axis_follows_an_interval_that_runs_away() -> None:
    wide = MEANS.with_columns(low=pl.lit(0.01), high=pl.lit(5_000.0))
    for figure in (
        plot_series(wide, RUNS, x="workers"),
        plot_relative(wide, x="workers", quantity="efficiency", base=1),
    ):
        low, high = figure.layout.yaxis.range
        assert (low, 30 <= high <= 70) == (0, True)
    assert plot_series(MEANS, x="workers").layout.yaxis.range[1] == pytest.approx(32 * 1.05)


def test_one_run_a_point_is_a_line_without_any_interval() -> None:
    single = MEANS.with_columns(low=pl.lit(None, pl.Float64), high=pl.lit(None, pl.Float64))
    figure = plot_series(single, x="workers")
    assert len(figure.data) == 2
    assert all(trace.error_y.array is None for trace in figure.data)
    assert {words for trace in figure.data for words in trace.customdata} == {"(one run: no interval)"}
    latency = single.rename({"workers": "threads"}).with_columns(throughput_ops_s=pl.Series([1.0, 2, 3, 4]))
    for trace in plot_latency_load(latency).data:
        assert np.isnan([*trace.error_y.array, *trace.error_y.arrayminus]).all()


def test_nothing_to_draw_is_an_empty_figure() -> None:
    assert not plot_series(MEANS.clear(), x="workers").data

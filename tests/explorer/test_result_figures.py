"""Results draw themselves and give themselves as tables; a dataset shows what it holds."""

import re

import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis.bottleneck.run_variance import split_run_variance
from citus_analysis.dataset import Dataset
from citus_analysis.errors import UsageError
from citus_analysis.tracking import TrackedSeries

RUNS = pl.DataFrame(
    {
        "workers": [1, 1, 1, 2, 2, 2, 4, 4, 4, 8, 8, 8],
        "throughput_ops_s": [100.0, 101, 99, 180, 182, 181, 300, 303, 301, 420, 418, 421],
    }
)


def test_comparisons_draw_one_ratio_each() -> None:
    compared = ca.compare(RUNS, by="workers")
    drawn = [x for trace in compared.plot().data if trace.x is not None for x in trace.x]
    assert sorted(drawn) == pytest.approx(sorted(one.ratio.estimate for one in compared))
    assert compared.table().height == len(compared) == 3
    assert compared.comparisons[0].plot().layout.xaxis.title.text == "ratio to 1"


def test_curves_draw_the_means_and_fits_the_runs_with_their_models() -> None:
    study = ca.scaling.scale_runs(RUNS, resamples=50)
    ideal, line = [trace for trace in study.plot().data if trace.showlegend]
    assert ideal.y[-1] / ideal.y[0] == pytest.approx(8)
    assert list(line.y) == pytest.approx([100, 181, 301.333, 419.667], abs=0.001)
    assert study.table().height == 4
    curve = study.curves[0]
    assert [list(trace.y) for trace in curve.plot().data if trace.showlegend][1:] == [list(line.y)]
    assert curve.fits is not None
    names = [trace.name for trace in curve.fits.plot().data]
    assert {"USL", "run"} <= {name.partition(",")[0] for name in names if name}
    assert list(curve.fits.plot().data[-1].y) == RUNS["throughput_ops_s"].to_list()
    assert "USL" in curve.fits["usl"].plot().data[-2].name


def test_profiles_draw_the_parts_of_t(recorded_dataset: Dataset) -> None:
    selection = ca.runs.select_runs(recorded_dataset, resources="w2-t16-insert")
    profile = ca.spans.study_profile(selection, recorded_dataset)
    assert "child" in {trace.name for trace in profile.plot().data}
    assert profile.table().equals(profile.profile)
    assert "profile:" in str(profile)


def test_a_result_without_a_figure_says_what_there_is_instead() -> None:
    interval = ca.stats.mean_interval([1.0, 2.0, 3.0])
    with pytest.raises(UsageError, match=r"a result of kind Interval has no figure.*\.table\(\)"):
        interval.plot()
    assert interval.table()["n"].to_list() == [3]


def test_a_dataset_shows_its_tables(recorded_dataset: Dataset) -> None:
    shown = recorded_dataset._repr_html_()
    assert re.search(
        r"<td[^>]*>statements</td><td>[0-9]+</td><td[^>]*>One row per statement execution seen by a parent", shown
    )
    assert "more rows" not in shown
    assert "<script" not in shown


def test_studies_of_servers_draw_what_they_found(recorded_dataset: Dataset) -> None:
    profile = ca.server_profile(recorded_dataset, resources="w2-t4-insert")
    drawn = [seconds for trace in profile.plot().data for seconds in trace.x]
    assert max(drawn) == pytest.approx(profile.by_fingerprint["total_s"].max())
    study = ca.bottleneck.study_bottleneck(recorded_dataset, "w2-t4-insert")
    (heat,) = study.plot().data
    assert list(heat.y) == ["w2-t4-insert"]
    assert study.table().height == len(study.verdicts) == 1


def test_run_to_run_variance_draws_its_sources() -> None:
    sizes = [1, 2, 3, 4, 5, 6]
    varied = split_run_variance([100.0 + 3 * one + one % 2 for one in sizes], ["a"] * 6, {"size": sizes}, wanted=0.05)
    drawn = {trace.name: trace.x[0] / 100 for trace in varied.plot().data}
    assert drawn == pytest.approx(dict(varied.table().select("source", "share").iter_rows()))


def test_a_queueing_network_draws_the_time_at_each_resource() -> None:
    solved = ca.scaling.mva({"cpu": 2.0, "disk": 3.0}, 20, think=4.0)
    (bars,) = solved.plot().data
    assert dict(zip(bars.x, bars.y, strict=True)) == pytest.approx(
        dict(zip(("cpu", "disk"), solved.residence_time, strict=True))
    )
    assert solved.table()["resource"].to_list() == ["cpu", "disk"]


def test_a_series_over_time_draws_its_runs_and_changes() -> None:
    values = [100.0 + number % 3 for number in range(15)] + [90.0 + number % 3 for number in range(15)]
    found = ca.stats.find_changes(values)
    runs = pl.DataFrame({"place": range(30), "dataset": "main", "value": values, "level": 95.0})
    drawn = TrackedSeries("throughput_ops_s", {}, runs, found).plot()
    assert list(drawn.data[0].y) == values
    assert len(found.places) == 1

"""Results draw themselves and give themselves as tables; a dataset shows what it holds."""

import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis.dataset import Dataset
from citus_analysis.errors import UsageError

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
    (line,) = [trace for trace in study.plot().data if trace.showlegend]
    assert list(line.y) == pytest.approx([100, 181, 301.333, 419.667], abs=0.001)
    assert study.table().height == 4
    curve = study.curves[0]
    assert [list(trace.y) for trace in curve.plot().data if trace.showlegend] == [list(line.y)]
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
    assert interval.table().filter(attribute="n")["value"].to_list() == ["3"]


def test_a_dataset_shows_its_tables(recorded_dataset: Dataset) -> None:
    shown = recorded_dataset._repr_html_()
    assert "<td>statements</td><td>55221</td><td>One row per statement execution seen by a parent" in shown
    assert "<script" not in shown

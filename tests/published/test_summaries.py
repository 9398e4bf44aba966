"""Published means as samples for statistics and models."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from citus_analysis.errors import InsufficientDataError
from citus_analysis.published import published, read_published
from citus_analysis.published.summaries import (
    count_interval_origins,
    make_runs_with_moments,
    summarise_published_rows,
)
from citus_analysis.report.study_figures import describe_stated_intervals


def test_table_5_7_with_the_n_its_intervals_imply() -> None:
    frame = summarise_published_rows(published("thesis", "5.7"))
    assert frame["workers"].to_list() == [2, 4, 8, 16, 32]
    assert frame["n"].to_list() == [5, 5, 3, 4, 4]
    assert set(frame["n_from"]) == {"interval"}
    assert frame.row(0, named=True)["stated_low"] == 60_398.15
    # 62479 - t(0.975; 4) 2374.32 / sqrt(5), t = 2.776445
    assert frame.row(0, named=True)["low"] == pytest.approx(62_479 - 2.776445 * 2_374.32 / 5**0.5)


def test_intervals_are_said_to_follow_from_what_they_follow_from() -> None:
    assert count_interval_origins(published("thesis", "5.6")) == {"normal": 0, "t": 0, "neither": 4}
    assert "5 follow from the deviation beside them by the normal quantile" in describe_stated_intervals("5.7")
    assert "4 follow from the deviation beside them at no number of runs" in describe_stated_intervals("5.6")
    assert describe_stated_intervals("5.5") == ""


def test_a_stated_n_goes_before_an_implied_one() -> None:
    frame = summarise_published_rows(published("thesis", "5.3"))
    assert frame.select("n", "n_from").unique().rows() == [(4, "stated")]


def test_rows_without_any_n_are_left_out() -> None:
    assert summarise_published_rows(published("thesis", "5.6"), "connections").is_empty()


def test_times_come_in_seconds(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("workers,latency_ms,latency_sd_ms,n\n2,10.0,1.0,5\n", encoding="utf-8")
    assert summarise_published_rows(read_published(path)).select("mean", "sd").row(0) == pytest.approx((0.01, 0.001))


@pytest.mark.parametrize("n", [2, 3, 5, 40])
def test_values_have_the_mean_and_the_standard_deviation(n: int) -> None:
    values = make_runs_with_moments(250.0, 31.0, n)
    assert len(values) == n
    assert np.mean(values) == pytest.approx(250.0)
    assert np.std(values, ddof=1) == pytest.approx(31.0)


def test_one_run_has_no_spread() -> None:
    with pytest.raises(InsufficientDataError):
        make_runs_with_moments(250.0, 31.0, 1)


def test_summaries_of_all_sources_keep_one_schema() -> None:
    assert summarise_published_rows(published()).schema["n"] == pl.Int64

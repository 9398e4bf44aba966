"""Histograms, and the tables of a profile with one row per configuration."""

import numpy as np
import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis.dataset import Dataset
from citus_analysis.plots import plot_histograms
from citus_analysis.spans import compare_with_clients, time_histogram
from citus_analysis.spans.profile import ProfileStudy, compute_parts_by_configuration, compute_sampled_percent

RESOURCES = "w1-t16-insert,w2-t16-insert,w2-binary-t16-insert"


@pytest.fixture(scope="module")
def study(recorded_dataset: Dataset) -> ProfileStudy:
    return ca.spans.study_profile(ca.runs.select_runs(recorded_dataset, resources=RESOURCES), recorded_dataset)


def test_histograms_end_where_few_statements_are_left() -> None:
    times = pl.DataFrame({"series": ["a"] * 100, "total_us": [1000.0 * i for i in range(99)] + [1e6]})
    histogram = time_histogram(times, bins=10)
    assert histogram.select("low_ms", "high_ms", "count").rows()[:2] == [(0.0, 10.0, 10), (10.0, 20.0, 10)]
    assert histogram["high_ms"].max() == 100.0
    assert histogram.select("n", "beyond", "largest_ms").unique().rows() == [(100, 1, 1000.0)]
    assert histogram["share_percent"].sum() == pytest.approx(99.0)


def test_histograms_of_several_groups_have_the_same_bins(study: ProfileStudy) -> None:
    times = study.get_times("insert")
    histogram = time_histogram(times)
    counts = histogram.group_by("series").agg(pl.col("count").sum() + pl.col("beyond").first(), pl.col("n").first())
    assert (counts["count"] == counts["n"]).all()
    assert histogram.group_by("series").agg(pl.len())["len"].n_unique() == 1
    figure = plot_histograms(histogram)
    assert len(figure.data) == times["series"].n_unique()
    assert all(annotation.text.count("n = ") == 1 for annotation in figure.layout.annotations)


def test_parts_add_up_to_the_whole(study: ProfileStudy) -> None:
    table = compute_parts_by_configuration(study)
    remote = table.filter(pl.col("executed").cast(pl.String) == "remote")
    assert remote.height == 3
    whole = remote["parent_ms"] + remote["child_ms"] + remote["between_ms"]
    assert whole.to_list() == pytest.approx(remote["whole_ms"].to_list())
    local = table.filter(pl.col("executed").cast(pl.String) == "local")
    assert local["parent_ms"].null_count() == local.height
    assert set(local["commit"]) == {"not in T"}
    assert remote.filter(pl.col("set_up") == "binary")["commit"].to_list() == ["not in C"]


def test_percentiles_stand_beside_the_main_clients_latency(recorded_dataset: Dataset, study: ProfileStudy) -> None:
    table = compare_with_clients(study, recorded_dataset)
    assert table.select("workers", "sampled_percent", "runs").rows() == [(1, 1.0, 3), (2, 3.0, 3), (2, 3.0, 1)]
    for row in table.iter_rows(named=True):
        assert row["p50_ms_low"] <= row["p50_ms"] <= row["p50_ms_high"] <= row["p99_ms"]
    latencies = recorded_dataset.table("operation_latencies").filter(pl.col("role") == "main", resource="w1-t16-insert")
    mean = np.average(latencies["mean_us"].to_numpy(), weights=latencies["operations"].to_numpy()) / 1000
    assert table.filter(workers=1)["client_mean_ms"].to_list() == [pytest.approx(mean)]


def test_the_share_of_sampling_is_a_dimension(recorded_dataset: Dataset, study: ProfileStudy) -> None:
    more = recorded_dataset.table("runs").with_columns(
        monitor_operations=pl.when(pl.col("iteration") == 1).then(30_000).otherwise(pl.col("monitor_operations"))
    )

    class More:
        def table(self, name: str, /) -> pl.DataFrame:
            return more if name == "runs" else recorded_dataset.table(name)

    shares = compare_with_clients(study, More()).filter(workers=1)["sampled_percent"].to_list()
    assert shares == [1.0, 30.0]
    assert (
        compute_sampled_percent(more.with_columns(monitor_operations=None))["sampled_percent"].null_count()
        == more.height
    )

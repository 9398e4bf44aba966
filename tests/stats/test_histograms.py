import math

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.stats.percentiles import compute_histogram_percentiles, find_overlapping_buckets, merge_histograms
from tests.shards import count_examples

LATENCIES = st.lists(st.integers(0, 12_000), min_size=1, max_size=200)


def histogram(latencies: list[int], width: int = 1000, **names: str) -> pl.DataFrame:
    """Buckets of equal width with an overflow bucket from 10 ms on."""
    low = (pl.col("latency_us") // width * width).clip(upper_bound=10_000).cast(pl.Float64)
    edges = pl.DataFrame({"latency_us": latencies}).select(bucket_low_us=low)
    counted = edges.group_by("bucket_low_us").agg(count=pl.len().cast(pl.Int64))
    high = pl.when(pl.col("bucket_low_us") < 10_000).then(pl.col("bucket_low_us") + width).otherwise(float("inf"))
    return counted.with_columns(bucket_high_us=high, **{name: pl.lit(value) for name, value in names.items()})


@settings(max_examples=count_examples(50), deadline=None)
@given(LATENCIES, LATENCIES, st.floats(0.001, 1))
def test_percentile_of_merged_clients_is_bracketed_by_its_bucket(one: list[int], two: list[int], q: float) -> None:
    buckets = pl.concat([histogram(one, section="READ"), histogram(two, section="READ")])
    assert merge_histograms(buckets)["count"].sum() == len(one) + len(two)
    row = compute_histogram_percentiles(buckets, [q]).row(0, named=True)
    pooled = sorted(one + two)
    rank = max(1, math.ceil(round(q * len(pooled), 6)))
    assert row["low_us"] <= pooled[rank - 1] < row["high_us"]
    assert row["operations"] == len(pooled)
    assert (row["value_us"] is None) == math.isinf(row["high_us"])


@settings(max_examples=count_examples(25), deadline=None)
@given(LATENCIES, LATENCIES)
def test_merging_equals_recording_together(one: list[int], two: list[int]) -> None:
    apart = merge_histograms(pl.concat([histogram(one, section="READ"), histogram(two, section="READ")]))
    together = merge_histograms(histogram(one + two, section="READ"))
    assert apart.equals(together)


def test_histograms_of_different_groups_stay_apart() -> None:
    buckets = pl.concat([histogram([500, 1500], section="READ"), histogram([2500], section="UPDATE")])
    table = compute_histogram_percentiles(buckets, [0.5, 1.0])
    assert table.select("section", "quantile", "low_us", "high_us", "value_us", "operations").rows() == [
        ("READ", 0.5, 0.0, 1000.0, 500.0, 2),
        ("READ", 1.0, 1000.0, 2000.0, 1500.0, 2),
        ("UPDATE", 0.5, 2000.0, 3000.0, 2500.0, 1),
        ("UPDATE", 1.0, 2000.0, 3000.0, 2500.0, 1),
    ]
    assert compute_histogram_percentiles(buckets, [1.0], by=())["low_us"].to_list() == [2000]


def test_rank_is_not_moved_by_floating_point() -> None:
    buckets = histogram([0] * 95 + [5000] * 5, section="READ")
    assert compute_histogram_percentiles(buckets, [0.95])["low_us"].item() == 0
    assert compute_histogram_percentiles(buckets, [0.951])["low_us"].item() == 5000


def test_clients_with_different_edges_are_refused() -> None:
    buckets = pl.concat(
        [histogram([1500], section="READ"), histogram([1700], 100, section="READ"), histogram([1], section="SCAN")]
    )
    message = r"section 'READ': buckets \[1000, 2000\) µs and the one from 1700 µs overlap, .*same measurement type"
    with pytest.raises(InsufficientDataError, match=message):
        compute_histogram_percentiles(buckets, [0.5])
    assert find_overlapping_buckets(buckets)["section"].to_list() == ["READ"]


def test_tables_of_other_libraries_are_taken() -> None:
    buckets = histogram([500, 1500], section="READ")
    for table in (buckets.to_pandas(), buckets.to_arrow(), buckets.lazy()):
        assert compute_histogram_percentiles(table, [0.5]).equals(compute_histogram_percentiles(buckets, [0.5]))


def test_empty_histograms_have_no_percentiles() -> None:
    empty = histogram([1], section="READ").clear()
    assert compute_histogram_percentiles(empty, [0.5]).is_empty()
    unused = histogram([1], section="READ").with_columns(count=pl.lit(0, pl.Int64))
    assert compute_histogram_percentiles(unused, [0.5]).is_empty()


@pytest.mark.parametrize("quantile", [0.0, 1.01, 95.0, float("nan")])
def test_quantiles_are_fractions(quantile: float) -> None:
    with pytest.raises(UsageError, match="pass fractions"):
        compute_histogram_percentiles(histogram([1], section="READ"), [quantile])

"""Percentiles of recorded and of merged histograms, with intervals."""

import numpy as np
import polars as pl
import pytest

from citus_analysis import stats
from citus_analysis.errors import InsufficientDataError


def histogram(values: "np.ndarray[tuple[int], np.dtype[np.float64]]", section: str, part: int) -> pl.DataFrame:
    edges = np.arange(0, 20_001, 100.0)
    counts, _ = np.histogram(values, edges)
    frame = pl.DataFrame({"bucket_low_us": edges[:-1], "bucket_high_us": edges[1:], "count": counts})
    return frame.filter(pl.col("count") > 0).with_columns(
        section=pl.lit(section), part=pl.lit(part), run_id=pl.lit("r")
    )


def test_percentiles_of_two_load_generators_are_those_of_all_operations() -> None:
    rng = np.random.default_rng(1)
    fast, slow = rng.gamma(2, 500, 40_000), rng.gamma(4, 900, 10_000)
    buckets = pl.concat([histogram(fast, "READ", 0), histogram(slow, "READ", 1)])
    table = stats.latency_percentiles(buckets, [50, 95, 99])
    pooled = np.concatenate([fast, slow])
    for row in table.iter_rows(named=True):
        truth = float(np.percentile(pooled, row["percentile"]))
        assert row["low_us"] <= truth <= row["high_us"]
        assert row["estimate_us"] == pytest.approx(truth, abs=100)
        assert row["high_us"] - row["low_us"] <= 500
    assert table["n"].to_list() == [50_000] * 3
    assert table["warnings"].str.contains("correlated").all()


def test_what_the_operations_cannot_support_is_null_and_says_so() -> None:
    few = histogram(np.full(50, 1_000.0), "READ", 0)
    table = stats.latency_percentiles(few, [50, 99])
    assert table["estimate_us"].to_list() == [1_050.0, None]
    assert "at least 368 are needed" in table["warnings"][1]


def test_buckets_that_cannot_be_added_are_refused() -> None:
    one = histogram(np.full(50, 1_000.0), "READ", 0)
    other = one.with_columns(pl.col("bucket_low_us") - 30, pl.col("bucket_high_us") - 30)
    with pytest.raises(InsufficientDataError, match="overlap"):
        stats.latency_percentiles(pl.concat([one, other]))

"""Autocorrelation, effective sample size, warm-up and drift."""

import math

import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray
from statsmodels.tsa.stattools import acf

from citus_analysis import stats
from citus_analysis.errors import InsufficientDataError, UnknownNameError, UsageError
from citus_analysis.stats.drift import is_interleaved
from citus_analysis.stats.warmup import (
    DEFAULT_SKIP,
    compute_autocorrelation,
    compute_first_autocorrelations,
    cut_by_mser5,
    cut_first_k,
    estimate_effective_sample_size,
)

#: NIST StRD Michelso: Michelson's 100 measurements of the speed of light, in order (299.xx km/s × 1000).
MICHELSON = [
    299.85, 299.74, 299.90, 300.07, 299.93, 299.85, 299.95, 299.98, 299.98, 299.88,
    300.00, 299.98, 299.93, 299.65, 299.76, 299.81, 300.00, 300.00, 299.96, 299.96,
    299.96, 299.94, 299.96, 299.94, 299.88, 299.80, 299.85, 299.88, 299.90, 299.84,
    299.83, 299.79, 299.81, 299.88, 299.88, 299.83, 299.80, 299.79, 299.76, 299.80,
    299.88, 299.88, 299.88, 299.86, 299.72, 299.72, 299.62, 299.86, 299.97, 299.95,
    299.88, 299.91, 299.85, 299.87, 299.84, 299.84, 299.85, 299.84, 299.84, 299.84,
    299.89, 299.81, 299.81, 299.82, 299.80, 299.77, 299.76, 299.74, 299.75, 299.76,
    299.91, 299.92, 299.89, 299.86, 299.88, 299.72, 299.84, 299.85, 299.85, 299.78,
    299.89, 299.84, 299.78, 299.81, 299.76, 299.81, 299.79, 299.81, 299.82, 299.85,
    299.87, 299.87, 299.81, 299.74, 299.81, 299.94, 299.95, 299.80, 299.81, 299.87,
]  # fmt: skip


def ar1(phi: float, n: int, seed: int) -> NDArray[np.float64]:
    noise = np.random.default_rng(seed).normal(size=n)
    values = np.empty(n)
    values[0] = noise[0] / math.sqrt(1 - phi**2)
    for i in range(1, n):
        values[i] = phi * values[i - 1] + noise[i]
    return values


def test_michelson_is_as_certified_by_nist() -> None:
    interval = stats.mean_interval(MICHELSON)
    assert interval.estimate == pytest.approx(299.852400000000, rel=1e-14)
    assert interval.half_width * 10 / scipy.stats.t.ppf(0.975, 99) == pytest.approx(0.0790105478190518, rel=1e-10)
    assert compute_autocorrelation(MICHELSON)[1] == pytest.approx(0.535199668621283, rel=1e-9)


def test_autocorrelation_is_statsmodels() -> None:
    values = ar1(0.7, 500, 1)
    np.testing.assert_allclose(compute_autocorrelation(values)[:20], acf(values, nlags=19), atol=1e-12)


@pytest.mark.parametrize("lags", [2, 64, 500, 1_024])
def test_first_autocorrelations_are_those_of_the_whole_sequence(lags: int) -> None:
    values = ar1(0.9, 2_000, 2) + 100
    found = compute_first_autocorrelations(values, lags)
    np.testing.assert_allclose(found, compute_autocorrelation(values)[:lags], rtol=0, atol=1e-12)


@pytest.mark.parametrize("period", [3, 5_000, 40_000])
def test_effective_size_of_a_long_sequence_needs_only_its_first_autocorrelations(period: int) -> None:
    values = np.sin(np.arange(70_000) * 2 * math.pi / period) + np.random.default_rng(3).normal(size=70_000)
    pairs = compute_autocorrelation(values).reshape(-1, 2).sum(axis=1)
    time = 2 * np.minimum.accumulate(pairs[: np.argmax(pairs <= 0)]).sum() - 1
    found = estimate_effective_sample_size(values)
    assert found.autocorrelation_time == pytest.approx(max(1.0, time), rel=1e-10)
    assert found.lag1 == pytest.approx(compute_autocorrelation(values)[1], rel=1e-10)


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_effective_size_of_an_autoregressive_sequence(phi: float) -> None:
    n = 20_000
    effective = np.mean([estimate_effective_sample_size(ar1(phi, n, seed)).effective for seed in range(8)])
    assert effective == pytest.approx(n * (1 - phi) / (1 + phi), rel=0.1)


def test_anticorrelation_is_not_counted_as_a_gain() -> None:
    assert estimate_effective_sample_size(np.tile([1.0, -1.0], 100)).effective == 200


def test_few_effective_values_and_no_spread_are_warned_about() -> None:
    assert "measure longer" in estimate_effective_sample_size(np.linspace(0, 1, 200)).warnings[0]
    assert "all values are equal" in estimate_effective_sample_size([1.0] * 9).warnings[0]
    assert float(estimate_effective_sample_size([1.0] * 9)) == 9


def test_mser5_finds_a_known_transient() -> None:
    rng = np.random.default_rng(3)
    settled = rng.normal(100, 2, 1_000)
    settled[:150] -= 60 * np.exp(-np.arange(150) / 40)
    warm_up = cut_by_mser5(settled)
    assert 60 <= warm_up.cut <= 250
    assert warm_up.kept.mean() == pytest.approx(100, abs=0.5)
    assert warm_up.kept.size + warm_up.cut == 1_000
    assert warm_up.warnings == ()


def test_mser5_is_the_definition() -> None:
    values = np.random.default_rng(4).lognormal(size=400)
    batches = values.reshape(-1, 5).mean(axis=1)
    scores = [batches[d:].var() / (batches.size - d) for d in range(batches.size // 2 + 1)]
    warm_up = cut_by_mser5(values)
    assert warm_up.cut == 5 * int(np.argmin(scores))
    assert warm_up.statistic == pytest.approx(min(scores))


def test_mser5_says_when_nothing_settles() -> None:
    assert "not settled" in cut_by_mser5(np.linspace(0, 100, 500) ** 2).warnings[0]


def test_mser5_says_that_short_sequences_cannot_be_told() -> None:
    trend = np.linspace(0, 100, 60)
    assert cut_by_mser5(trend).warnings == (
        "60 values: too few for MSER-5 to show whether the sequence has settled (at least 65)",
    )
    assert "not settled" in cut_by_mser5(np.linspace(0, 100, 65)).warnings[0]
    assert cut_by_mser5(np.tile([1.0, 2, 3, 2, 1], 13)).warnings == ()


def test_rules_by_name_report_what_they_cut() -> None:
    values = np.arange(60.0)
    assert (stats.cut_warm_up(values).rule, stats.cut_warm_up(values).cut) == ("first 5", DEFAULT_SKIP)
    assert stats.cut_warm_up(values, "none").kept.size == 60
    assert stats.cut_warm_up(values, "mser-5").rule == "MSER-5"
    with pytest.raises(UnknownNameError, match="did you mean 'mser-5'"):
        stats.cut_warm_up(values, "mser5")  # type: ignore[arg-type]  # a wrong name on purpose
    with pytest.raises(InsufficientDataError, match="leaves none"):
        cut_first_k([1, 2], 2)
    with pytest.raises(UsageError, match="cannot skip -1"):
        cut_first_k([1, 2], -1)
    with pytest.raises(InsufficientDataError, match="at least 50"):
        cut_by_mser5([1.0] * 49)


def test_drift_is_kendalls_test() -> None:
    values = [100, 99, 99.5, 97, 98, 95, 94]
    drift = stats.detect_drift(values)
    assert drift.p_value == scipy.stats.kendalltau(range(7), values).pvalue
    assert drift.detected is True
    assert drift.warnings[0].startswith("the metric falls by")
    assert stats.detect_drift(values[::-1]).change_percent == pytest.approx(-drift.change_percent)


def test_no_drift_states_what_it_could_have_seen() -> None:
    rng = np.random.default_rng(5)
    found = stats.detect_drift(rng.normal(100, 2, 12))
    assert not found.detected
    assert found.warnings == (
        f"no drift detected; 12 runs show one of {found.detectable_percent:.1f} % in 80 % of cases",
    )


@pytest.mark.slow
@pytest.mark.parametrize("n", [5, 8, 12, 20])
def test_the_power_of_a_drift_is_what_it_states(n: int) -> None:
    rng = np.random.default_rng(n)
    known = np.median([stats.detect_drift(rng.normal(100, 1, n)).detectable_percent for _ in range(300)])
    drifted = rng.normal(100, 1, (600, n)) + np.linspace(0, float(known), n)
    shown = np.mean([stats.detect_drift(row).detected for row in drifted])
    # The spread that scales it is that about the line, which few runs underestimate.
    assert 0.70 < shown < 0.88


def test_drift_follows_the_order_that_is_given() -> None:
    assert stats.detect_drift([5, 3, 1, 2, 4, 6], [5, 3, 1, 2, 4, 6]).tau == pytest.approx(1)
    assert stats.detect_drift([1, 1, 1, 1, 1]).detected is False
    assert stats.detect_drift([1, 2, 3]).detected is None
    with pytest.raises(UsageError, match="3 values, but 2 places"):
        stats.detect_drift([1, 2, 3], [1, 2])


def test_interleaving() -> None:
    assert is_interleaved([[1, 4], [2, 5], [3, 6]])
    assert not is_interleaved([[1, 2], [3, 4]])

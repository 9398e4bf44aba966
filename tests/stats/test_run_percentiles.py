"""Percentiles over runs: known answers, refusals, and simulated coverage over runs and within one."""

import numpy as np
import pytest
import scipy.signal
import scipy.stats

from citus_analysis import stats
from citus_analysis.core.type_aliases import Floats
from citus_analysis.errors import InsufficientDataError
from citus_analysis.stats.percentiles import compute_percentile_ranks
from citus_analysis.stats.run_percentiles import run_percentile_interval


def lognormal_truth(q: float, between: float = 0.0) -> float:
    """Percentile of exp(0.5 z), times the mean of the runs' levels exp(between z)."""
    return float(np.exp(between**2 / 2 + 0.5 * scipy.stats.norm.ppf(q / 100)))


def sequence(rng: np.random.Generator, n: int, phi: float) -> Floats:
    """Lognormal values with sigma 0.5, the logs of which are an AR(1)."""
    noise = rng.normal(size=n + 100)
    return np.asarray(np.exp(0.5 * scipy.signal.lfilter([np.sqrt(1 - phi**2)], [1, -phi], noise)[100:]))


def test_several_runs_are_one_value_each() -> None:
    rng = np.random.default_rng(1)
    runs = [rng.lognormal(7, 0.5, 150) for _ in range(4)]
    ours = run_percentile_interval(runs, 95)
    theirs = stats.mean_interval([np.quantile(run, 0.95, method="median_unbiased") for run in runs], method="log-t")
    assert (ours.estimate, ours.low, ours.high) == (theirs.estimate, theirs.low, theirs.high)
    assert (ours.n, ours.method) == (4, "Student t on the log scale over runs")


def test_one_run_has_the_ranks_of_the_independent_values_that_it_is_worth() -> None:
    run = np.random.default_rng(3).permutation(np.arange(1.0, 1001.0))
    ours = run_percentile_interval([run], 50)
    # The values are their own ranks; the shares of 744 at which rank 345 begins and 400 ends are those of 1,000.
    assert (ours.n, compute_percentile_ranks(744, 50)) == (744, (345, 400))
    assert (ours.low, ours.high) == (np.floor(344 / 0.744) + 1, np.ceil(400 / 0.744))
    assert ours.warnings == ("one run: the interval is valid for its conditions, not for other runs",)


def test_a_correlated_run_has_a_wider_interval() -> None:
    run = sequence(np.random.default_rng(5), 2_000, 0.8)
    ours, plain = run_percentile_interval([run], 50), stats.percentile_interval(run, 50)
    assert ours.n < 500
    assert ours.high - ours.low > 1.5 * (plain.high - plain.low)


def test_what_the_values_cannot_support_is_refused_with_the_number_needed() -> None:
    rng = np.random.default_rng(6)
    with pytest.raises(InsufficientDataError, match=r"a run of 60 values has no 99th percentile") as refused:
        run_percentile_interval([rng.lognormal(7, 0.5, 60), rng.lognormal(7, 0.5, 50)], 99)
    assert "at least 100 values are needed" in str(refused.value.hint)
    with pytest.raises(InsufficientDataError, match="a run of 0 values"):
        run_percentile_interval([], 50)
    alone = run_percentile_interval([rng.lognormal(7, 0.5, 150)], 99)
    assert not alone.exists
    assert "an interval of the 99th percentile at 95 % needs 368, or a second run" in alone.warnings[0]


def test_runs_too_small_for_the_percentile_are_left_out_and_said() -> None:
    rng = np.random.default_rng(7)
    runs = [rng.lognormal(7, 0.5, n) for n in (40, 40, 10)]
    found = run_percentile_interval([*runs, []], 95)
    assert found.n == 2
    assert found.estimate == run_percentile_interval(runs[:2], 95).estimate
    assert found.warnings[-1] == "1 run of fewer than 20 values left out"


def covered_over_runs(runs: int, size: int, q: float, repeats: int) -> float:
    rng, truth = np.random.default_rng(8), lognormal_truth(q, 0.05)
    drawn = np.exp(0.05 * rng.normal(size=(repeats, runs, 1)) + 0.5 * rng.normal(size=(repeats, runs, size)))
    return float(np.mean([truth in run_percentile_interval(list(one), q) for one in drawn]))


@pytest.mark.parametrize(("size", "q"), [(20, 50), (40, 95), (100, 99)])
def test_five_runs_cover_as_stated(size: int, q: float) -> None:
    assert 0.92 < covered_over_runs(5, size, q, 600) < 0.975


@pytest.mark.slow
@pytest.mark.parametrize("runs", [2, 3, 5, 10])
@pytest.mark.parametrize(("size", "q"), [(20, 50), (40, 95), (200, 99)])
def test_runs_cover_as_stated_over_3000_repeats(runs: int, size: int, q: float) -> None:
    assert 0.93 < covered_over_runs(runs, size, q, 3_000) < 0.967


@pytest.mark.slow
@pytest.mark.parametrize("phi", [0.0, 0.3, 0.6, 0.8])
@pytest.mark.parametrize(("size", "q"), [(100, 50), (400, 50), (400, 95), (2_000, 95), (2_000, 99)])
def test_one_run_covers_at_least_as_stated_or_has_no_interval(phi: float, size: int, q: float) -> None:
    rng, truth = np.random.default_rng(9), lognormal_truth(q)
    found = [run_percentile_interval([sequence(rng, size, phi)], q) for _ in range(400)]
    given = [one for one in found if one.exists]
    # 95 % less three standard errors.
    assert not given or np.mean([truth in one for one in given]) > 0.95 - 3 * (0.95 * 0.05 / len(given)) ** 0.5

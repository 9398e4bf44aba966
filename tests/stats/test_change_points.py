"""Change points: critical values, ties, and the stated rates of false alarms and of changes found."""

import numpy as np
import pytest
from numpy.typing import NDArray

from citus_analysis.defaults import CHANGE_ALPHA
from citus_analysis.errors import UsageError
from citus_analysis.stats import find_changes
from citus_analysis.stats.series.change_points import cusum_p_value, rank_cusum
from citus_analysis.stats.series.newest_runs import newest_shift

Rows = NDArray[np.float64]

#: Upper quantiles of the limiting distribution, simulated apart from the package (`limiting`): 100,000 Brownian paths
#: of 2,000 steps. Standard errors are 0.15, 0.3, 0.4, 0.7, 1.1 and 2.6; with 500 and 8,000 steps they lie within 3 %.
CRITICAL = {0.10: 29.7, 0.05: 41.4, 0.025: 53.9, 0.01: 72.8, 0.005: 87.4, 0.001: 128.3}
QUIET = [100.2, 99.8, 100.1, 99.7, 100.4, 99.9, 100.3, 99.6, 100.0, 100.5]


#: What follows `log-normal` is the standard deviation of the logarithms.
KINDS = ("normal", "log-normal 0.02", "log-normal 0.1", "log-normal 0.5", "outliers")
DEPENDENT = ("AR(1) 0.6", "AR(1) 0.6 log-normal 0.02", "AR(1) 0.6 log-normal 0.1", "AR(1) 0.6 log-normal 0.5")


def noise(kind: str, rows: int, n: int, seed: int = 1) -> Rows:
    """Quiet sequences in standard deviations of their ordinary values; each kind has random numbers of its own."""
    rng = np.random.default_rng([seed, *kind.encode()])
    normal = rng.normal(size=(rows, n + 50))
    if "AR(1) 0.6" in kind:
        for place in range(1, n + 50):
            normal[:, place] = 0.6 * normal[:, place - 1] + 0.8 * normal[:, place]
    if "log-normal" in kind:
        sigma = float(kind.rpartition(" ")[2])
        return np.asarray(np.exp(sigma * normal[:, 50:]) / np.sqrt(np.exp(sigma**2) * np.expm1(sigma**2)))
    if kind == "outliers":
        return np.where(rng.random((rows, n)) < 0.05, 10 * normal[:, 50:], normal[:, 50:])
    return normal[:, 50:]


@pytest.mark.parametrize(("share", "critical"), CRITICAL.items())
def test_long_sequences_have_the_limiting_distribution(share: float, critical: float) -> None:
    # 20,000 simulated sequences of 200 values: the smallest share is known to 22 % (one standard error).
    assert cusum_p_value(critical, 200) == pytest.approx(share, rel=0.25)


def limiting(paths: int, steps: int, seed: int) -> NDArray[np.float64]:
    """The statistic of Brownian paths W: sup of (W(r) - r W(1))^2 / V(r), its integrals by the trapezoid rule.

    V(r) is the integral over s of (W(s) - s/r W(r))^2 from 0 to r, and of the same of the path backwards from r to 1.
    """
    places = np.arange(1, steps + 1) / steps
    path = np.cumsum(np.random.default_rng(seed).standard_normal((paths, steps)), axis=1) / np.sqrt(steps)
    backwards = path[:, -1:] - np.hstack([path[:, -2::-1], np.zeros((paths, 1))])

    def integral(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        whole = np.hstack([np.zeros((len(rows), 1)), rows])
        return np.asarray(np.cumsum((whole[:, 1:] + whole[:, :-1]) / 2, axis=1) / steps)

    def noise_to(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        slope = rows / places
        both = integral(rows**2) - 2 * slope * integral(rows * places)
        return np.asarray(both + slope**2 * integral(places[np.newaxis] ** 2))

    bridge = (path - places * path[:, -1:])[:, :-1]
    noise = noise_to(path)[:, :-1] + noise_to(backwards)[:, -2::-1]
    return np.asarray((bridge**2 / noise).max(axis=1))


@pytest.mark.slow
def test_the_limiting_distribution_simulated_as_brownian_paths() -> None:
    drawn = np.concatenate([limiting(1_000, 1_000, seed) for seed in range(40)])
    for share, critical in CRITICAL.items():
        # Three standard errors of 40,000 draws, and 4 % of the share for the steps.
        allowed = 3 * np.sqrt(share / drawn.size) + 0.04 * share
        assert np.mean(drawn >= critical) == pytest.approx(share, abs=allowed), share


def test_the_statistic_is_that_of_the_definition() -> None:
    """The double sums of Shao and Zhang, equation 4, written out."""
    values = np.array([3.1, 2.9, 3.4, 1.2, 1.1, 1.5, 1.3, 0.9])
    x, n = values.argsort().argsort() - (values.size - 1) / 2, values.size
    found = []
    for k in range(1, n):
        whole = x[:k].sum() / np.sqrt(n)
        left = sum((x[:t].sum() - t / k * x[:k].sum()) ** 2 for t in range(1, k + 1))
        right = sum((x[t - 1 :].sum() - (n - t + 1) / (n - k) * x[k:].sum()) ** 2 for t in range(k + 1, n + 1))
        found.append(whole**2 / ((left + right) / n**2))
    assert rank_cusum(values) == pytest.approx(max(found))


def test_a_step_is_found_where_it_is_and_nothing_else() -> None:
    found = find_changes([*QUIET, *(0.95 * value for value in QUIET)])
    assert found.places == (10,)
    assert found.segments() == [(0, 10), (10, 20)]
    assert found.p_value <= CHANGE_ALPHA
    assert "below 30" in found.warnings[0]


def test_two_steps_are_found_one_in_the_part_of_the_other() -> None:
    steps = [scale * value for scale in (1.0, 0.9, 0.8) for value in (*QUIET, *QUIET[::-1])]
    assert find_changes(steps).places == (20, 40)


def test_a_change_that_is_taken_back_is_found_on_both_sides() -> None:
    dip = [scale * value for scale in (1.0, 0.9, 1.0) for value in (*QUIET, *QUIET[::-1])]
    assert find_changes(dip).places == (20, 40)


def test_one_outlier_is_no_change() -> None:
    assert find_changes([*QUIET, 10.0, *QUIET, *QUIET]).places == ()


def test_equal_values_are_quiet_whatever_their_number() -> None:
    assert find_changes([100.0] * 40).places == ()
    # Whole numbers that hardly vary: ties are broken at random, not in the order of time.
    assert find_changes([100.0, 101.0] * 20).places == ()


def test_ranks_decide_so_units_and_logarithms_do_not_matter() -> None:
    step = np.array([*QUIET, *(0.95 * value for value in QUIET)])
    assert rank_cusum(step) == rank_cusum(1000 * step) == rank_cusum(np.log(step))


def test_few_values_are_not_judged() -> None:
    found = find_changes([1.0] * 5 + [2.0] * 5)
    assert (found.places, found.judged) == ((), False)
    assert "too few" in found.warnings[0]


@pytest.mark.parametrize("alpha", [0.0, 1.0, 5.0])
def test_a_level_is_a_probability(alpha: float) -> None:
    with pytest.raises(UsageError, match="not between 0 and 1"):
        find_changes(QUIET, alpha)


@pytest.mark.parametrize("sigma", [0.02, 0.1, 0.5])
def test_log_normal_noise_is_judged_as_the_normal_noise_of_its_logarithms(sigma: float) -> None:
    alarms = 0
    for row in np.concatenate([noise("normal", 40, 50), noise("AR(1) 0.6", 40, 50)]):
        found, newest = find_changes(row), newest_shift(row, alpha=0.1)
        skewed = 100 * np.exp(sigma * row)
        assert find_changes(skewed).p_value == found.p_value
        assert (newest_shift(skewed, alpha=0.1) is None) is (newest is None)
        alarms += newest is not None
    assert alarms


def false_alarms(kind: str, n: int, rows: int) -> float:
    """Share of quiet sequences with a change, or whose two newest values stand out."""
    return float(
        np.mean([bool(find_changes(row).points) or newest_shift(row) is not None for row in noise(kind, rows, n)])
    )


def seen_in_the_two_newest(kind: str, n: int, rows: int, spread_percent: float) -> float:
    """Share of sequences whose last two values are 5 % lower in which that is seen."""
    values = 100 + spread_percent * noise(kind, rows, n, seed=4)
    values[:, -2:] -= 5
    return float(np.mean([(found := newest_shift(row)) is not None and found.lower for row in values]))


def found_within_two_runs(kind: str, n: int, rows: int, spread_percent: float = 1.5) -> float:
    """Share of sequences whose level falls by 5 % in the middle in which a change is found there."""
    values = 100 + spread_percent * noise(kind, rows, n, seed=2)
    values[:, n // 2 :] -= 5
    return float(np.mean([any(abs(place - n // 2) <= 2 for place in find_changes(row).places) for row in values]))


def test_false_alarms_are_rare_in_a_small_simulation() -> None:
    assert false_alarms("normal", 30, 300) <= 0.02


@pytest.mark.slow
@pytest.mark.parametrize("n", [30, 45, 60, 100])
@pytest.mark.parametrize(("kind", "most"), [*((kind, 0.02) for kind in KINDS), *((kind, 0.05) for kind in DEPENDENT)])
def test_false_alarms_are_as_rare_as_stated(kind: str, most: float, n: int) -> None:
    assert false_alarms(kind, n, 8_000) <= most


@pytest.mark.slow
@pytest.mark.parametrize("n", [30, 100])
@pytest.mark.parametrize("kind", KINDS)
def test_a_fall_by_five_per_cent_is_found_within_two_runs(kind: str, n: int) -> None:
    assert found_within_two_runs(kind, n, 1_000) >= 0.8


@pytest.mark.parametrize("n", [30, 60, 100])
@pytest.mark.parametrize(
    ("kind", "spread_percent"),
    [("normal", 1.0), ("log-normal 0.02", 1.0), ("log-normal 0.5", 1.0), ("outliers", 1.0), ("normal", 1.5)],
)
def test_a_fall_by_five_per_cent_is_seen_in_the_two_newest_runs(kind: str, n: int, spread_percent: float) -> None:
    assert seen_in_the_two_newest(kind, n, 1_000, spread_percent) >= 0.8


def test_two_newest_values_at_one_end_are_named() -> None:
    long = [*QUIET, *QUIET[::-1]]
    found = newest_shift([*long, 105.0, 105.2])
    assert found is not None
    assert (found.lower, found.among, found.n) == (False, 2, 22)
    # 2 * 2 * 1 / (22 * 21)
    assert found.chance == pytest.approx(4 / 462)
    assert found.ratio == pytest.approx(105.1 / 100.05)
    assert found.sentence() == (
        "the two newest runs are among the 2 highest of 22 (+5.0 %; chance 0.9 % if nothing changed)"
    )


@pytest.mark.parametrize(
    "values",
    [
        [*QUIET, 95.0, 95.0],
        [*QUIET, *QUIET, 95.0, 100.0],
        [*QUIET, *QUIET, 95.0, 106.0],
        [100.0] * 30,
        [*sorted([*QUIET, *QUIET]), 95.0, 95.1],
    ],
    ids=["too few", "one of two", "at both ends", "equal", "successive runs depend on one another"],
)
def test_otherwise_nothing_is_said_of_them(values: list[float]) -> None:
    assert newest_shift(values) is None


@pytest.mark.slow
@pytest.mark.parametrize("before", [12, 20, 40, 60, 100, 150])
def test_a_large_change_shows_once_twelve_to_fourteen_runs_follow_it(before: int) -> None:
    def seen(runs: int) -> float:
        values = noise("normal", 500, before + runs, seed=3)
        values[:, before:] -= 10
        return float(np.mean([bool(find_changes(row).points) for row in values]))

    assert seen(12) >= 0.7
    assert seen(14) >= 0.85
    assert seen(4) < 0.5

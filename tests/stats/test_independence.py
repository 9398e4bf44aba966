"""Dependence of successive runs and two modes: found where there are enough runs, said where there are not."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from citus_analysis import stats

Floats = NDArray[np.float64]


def ar1(rng: np.random.Generator, n: int, phi: float = 0.7) -> Floats:
    """Successive runs that hang together, mean 100, spread 5 %."""
    values = np.empty(n)
    values[0] = rng.normal()
    for i in range(1, n):
        values[i] = phi * values[i - 1] + math.sqrt(1 - phi**2) * rng.normal()
    return 100 + 5 * values


def bimodal(rng: np.random.Generator, n: int) -> Floats:
    """One run in five is 30 % slower; mean 94."""
    return np.asarray(np.where(rng.random(n) < 0.2, 70.0, 100.0) + 2 * rng.normal(size=n))


def test_dependence_is_found_and_costs_runs() -> None:
    found = stats.check_independence(ar1(np.random.default_rng(3), 30))
    assert found.p_dependence <= 0.01
    assert 2 <= found.effective < 15
    assert found.warnings[0].startswith("successive runs depend on each other (lag-1 correlation 0.")


def test_the_order_is_that_of_the_times() -> None:
    values = ar1(np.random.default_rng(3), 30)
    shuffled = np.random.default_rng(1).permutation(30)
    assert stats.check_independence(values[shuffled], shuffled) == stats.check_independence(values)
    assert stats.check_independence(values, ordered=False).p_dependence == 1


def test_two_modes_are_found_whatever_the_unit() -> None:
    values = bimodal(np.random.default_rng(2), 20)
    found, scaled = stats.check_independence(values), stats.check_independence(values * 1e6)
    assert found.p_modes == scaled.p_modes <= 0.01
    assert "two groups of runs (" in found.warnings[-1]


def test_few_runs_exclude_nothing() -> None:
    found = stats.check_independence([100.0, 60, 101, 99])
    assert not found.checked
    assert found.warnings == ("4 runs: neither two modes nor dependence of successive runs can be excluded",)


def test_runs_that_depend_are_worth_fewer_in_a_comparison() -> None:
    rng = np.random.default_rng(3)
    a, b = ar1(rng, 30), ar1(rng, 30) + 2
    effective = (stats.check_independence(a).effective, 30.0)
    plain, corrected = stats.compare(a, b), stats.compare(a, b, effective=effective)
    assert corrected.ratio.half_width > 1.2 * plain.ratio.half_width


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "dependence", "modes"), [(8, 0.12, 0.4), (10, 0.2, 0.5), (20, 0.6, 0.85), (30, 0.8, 0.95)]
)
def test_how_often_they_are_found(n: int, dependence: float, modes: float) -> None:
    rng = np.random.default_rng(n)
    nothing = [stats.check_independence(rng.normal(100, 5, n)) for _ in range(500)]
    assert np.mean([one.p_dependence <= 0.01 for one in nothing]) < 0.03
    assert np.mean([one.p_modes <= 0.01 for one in nothing]) < 0.03
    assert np.mean([stats.check_independence(ar1(rng, n)).p_dependence <= 0.01 for _ in range(300)]) > dependence
    assert np.mean([stats.check_independence(bimodal(rng, n)).p_modes <= 0.01 for _ in range(300)]) > modes

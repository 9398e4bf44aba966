"""Changes of kind: p-values by counting all orders, and segments of known sequences."""

from itertools import combinations
from math import comb

import numpy as np
import pytest

from citus_analysis.stats.kind_changes import (
    _compute_runs_p_value,
    _compute_step_p_value,
    compute_order_p_value,
    count_missing_values,
    find_segments,
)


def list_orders(n: int, m: int) -> list[np.ndarray]:
    return [np.isin(np.arange(n), places) for places in combinations(range(n), m)]


def measure_step(marked: np.ndarray) -> float:
    n, m = marked.size, marked.sum()
    places = np.arange(1, n)
    return float(((np.cumsum(marked)[:-1] - places * m / n) ** 2 / (places * (n - places))).max())


def count_runs(marked: np.ndarray) -> int:
    return 1 + int((marked[1:] != marked[:-1]).sum())


@pytest.mark.parametrize("marked", [[1, 1, 1, 0, 0, 0, 0], [1, 0, 1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 0, 0], [1, 0] * 4])
def test_p_values_are_shares_of_all_orders(marked: list[int]) -> None:
    one = np.array(marked, dtype=bool)
    orders = list_orders(one.size, int(one.sum()))
    steps = sum(measure_step(order) >= measure_step(one) - 1e-9 for order in orders)
    runs = sum(count_runs(order) <= count_runs(one) for order in orders)
    assert _compute_step_p_value(one) == pytest.approx(steps / len(orders))
    assert _compute_runs_p_value(one) == pytest.approx(runs / len(orders))


def test_a_clean_step_has_the_chance_of_its_two_orders() -> None:
    assert compute_order_p_value([0] * 12 + [1] * 9) == pytest.approx(2 * 2 / comb(21, 9))
    assert compute_order_p_value([0] * 30 + [1] * 500) < 1e-40


def test_chance_raises_no_more_alarms_than_it_may() -> None:
    rng = np.random.default_rng(3)
    p = [compute_order_p_value(rng.choice(3, size=30, p=[0.6, 0.3, 0.1]).tolist()) for _ in range(300)]
    assert np.mean(np.array(p) <= 0.05) <= 0.05


@pytest.mark.parametrize(
    ("kinds", "segments"),
    [
        ([0] * 10 + [1] * 10 + [0] * 10, [(0, 10), (10, 20), (20, 30)]),
        ([0, 1] * 10 + [2] * 10, [(0, 20), (20, 30)]),
        ([0] * 10 + [1] + [0] * 10, [(0, 21)]),
        ([0] * 20, [(0, 20)]),
        # Short phases that return again and again are no change, however orderly.
        (([0] * 12 + [1] * 14) * 40, [(0, 1040)]),
        ([0] * 4000 + [1] * 20 + [0] * 4000, [(0, 4000), (4000, 4020), (4020, 8020)]),
    ],
)
def test_segments(kinds: list[int], segments: list[tuple[int, int]]) -> None:
    assert find_segments(kinds) == segments


def test_long_sequences_are_found_as_well() -> None:
    rng = np.random.default_rng(1)
    mixed = [*(rng.random(6000) < 0.2).astype(int).tolist(), *(rng.random(5000) < 0.8).astype(int).tolist()]
    assert compute_order_p_value(mixed) < 1e-9
    (_, first), _ = find_segments(mixed)
    assert abs(first - 6000) < 30


def test_what_is_missing_suffices() -> None:
    more = count_missing_values(7, 2, 0.001)
    assert (
        compute_order_p_value([0] * 7 + [1] * (2 + more)) <= 0.001 < compute_order_p_value([0] * 7 + [1] * (1 + more))
    )

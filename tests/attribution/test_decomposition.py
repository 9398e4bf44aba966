"""Terms of a difference add up to it, whatever the data, and do not depend on the sides' order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from citus_analysis.attribution.decomposition import decompose
from tests.shards import count_examples

SIZE = st.integers(1, 12)
PER_OPERATION = st.floats(0, 5, allow_subnormal=False).map(lambda value: value if value > 1e-6 else 0.0)
TIME_US = st.floats(0, 1e7, allow_subnormal=False)


@st.composite
def two_sides(draw: st.DrawFn) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    cells, segments = draw(SIZE), draw(st.integers(1, 8))
    kinds = np.array(draw(st.lists(st.integers(0, 3), min_size=cells, max_size=cells)), dtype=np.int64)
    sides = []
    for _ in range(2):
        counts = draw(arrays.arrays(np.float64, cells, elements=PER_OPERATION))
        means = draw(arrays.arrays(np.float64, (cells, segments), elements=TIME_US))
        sides.append((counts, counts[:, None] * means))
    return kinds, sides


@given(two_sides())
@settings(max_examples=count_examples(300), deadline=None)
def test_terms_add_up_and_change_their_signs_with_the_sides(
    drawn: tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]],
) -> None:
    kinds, (base, other) = drawn
    found, mirrored = decompose(kinds, base, other), decompose(kinds, other, base)
    difference = other[1].sum() - base[1].sum()
    size = max(1.0, base[1].sum(), other[1].sum())
    assert found.total == pytest.approx(difference, abs=1e-9 * size)
    np.testing.assert_allclose(found.times, -mirrored.times, atol=1e-9 * size)
    np.testing.assert_allclose(found.mix, -mirrored.mix, atol=1e-9 * size)
    np.testing.assert_allclose(found.place, -mirrored.place, atol=1e-9 * size)


@given(two_sides(), st.randoms(use_true_random=False))
@settings(max_examples=count_examples(100), deadline=None)
def test_the_order_of_cells_does_not_matter(
    drawn: tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]], random: object
) -> None:
    kinds, (base, other) = drawn
    order = np.random.default_rng(3).permutation(kinds.size)
    found = decompose(kinds, base, other)
    shuffled = decompose(kinds[order], (base[0][order], base[1][order]), (other[0][order], other[1][order]))
    np.testing.assert_allclose(shuffled.times, found.times[order], rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(shuffled.mix[: found.mix.size].sum(), found.mix.sum(), rtol=1e-9, atol=1e-6)


def test_two_factors_are_divided_as_by_kitagawa() -> None:
    """Rates 2 and 10 with equal shares, against 3 and 12 with 0.2 and 0.8."""
    kinds = np.array([0, 1])
    base, other = np.array([0.5, 0.5]), np.array([0.2, 0.8])
    rates = np.array([[2.0], [10.0]]), np.array([[3.0], [12.0]])
    found = decompose(kinds, (base, base[:, None] * rates[0]), (other, other[:, None] * rates[1]))
    assert found.mix.sum() == pytest.approx(-0.3 * 2.5 + 0.3 * 11)
    assert found.times.ravel().tolist() == pytest.approx([0.35 * 1, 0.65 * 2])
    assert found.place.tolist() == pytest.approx([0, 0])


def test_a_place_that_one_side_lacks_is_an_effect_of_the_place() -> None:
    kinds = np.array([0, 0])
    local, both = np.array([1.0, 0.0]), np.array([0.25, 0.75])
    times = np.array([[1.0], [3.0]])
    found = decompose(kinds, (local, local[:, None] * times), (both, both[:, None] * times))
    assert found.place.tolist() == pytest.approx([1.5])
    assert found.times.ravel().tolist() == [0, 0]
    assert found.mix.tolist() == [0]


def test_a_kind_that_one_side_lacks_is_an_effect_of_the_mix() -> None:
    kinds = np.array([0, 1])
    without, with_counts = np.array([1.0, 0.0]), np.array([0.5, 0.5])
    times = np.array([[1.0], [9.0]])
    found = decompose(kinds, (without, without[:, None] * times), (with_counts, with_counts[:, None] * times))
    assert found.mix.tolist() == pytest.approx([-0.5, 4.5])
    assert found.times.sum() == 0

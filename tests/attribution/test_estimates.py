"""Intervals of terms cover what is true, alone and together."""

import numpy as np
import pytest

from citus_analysis.attribution.decomposition import decompose, estimate_jackknife_spread

KINDS = np.array([0, 0, 1])
Sides = tuple[tuple[np.ndarray, np.ndarray], ...]
SHIFT_US = np.array([0.0, 400.0, 0.0])


def _side(random: np.random.Generator, runs: int, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Statements and times per operation of runs whose means differ by 10 %, of 300 statements each."""
    counts = random.multinomial(300, [0.3, 0.5, 0.2], size=runs) / 300
    means = np.array([300.0, 1200.0, 4000.0]) + shift
    times = counts * means * random.normal(1.0, 0.1, size=(runs, 3))
    return counts, times[:, :, None]


def _terms(sides: Sides, base: np.ndarray, other: np.ndarray) -> np.ndarray:
    first, second = ((w @ n, np.tensordot(w, t, 1)) for w, (n, t) in zip((base, other), sides, strict=True))
    effects = decompose(KINDS, first, second)
    return np.concatenate([effects.mix, effects.place, effects.times.ravel()])


def _truth() -> np.ndarray:
    shares = np.array([0.3, 0.5, 0.2])
    return np.concatenate([np.zeros(4), shares * SHIFT_US])


@pytest.mark.sharded(2)
@pytest.mark.parametrize("runs", [4, 8])
def test_intervals_cover_known_shifts(runs: int) -> None:
    random = np.random.default_rng(11)
    rounds = 1200
    alone, together = np.zeros((rounds, 3)), np.zeros(rounds)
    for i in range(rounds):
        sides = (_side(random, runs, np.zeros(3)), _side(random, runs, SHIFT_US))

        def terms(base: np.ndarray, other: np.ndarray, sides: Sides = sides) -> np.ndarray:
            return _terms(sides, base, other)

        whole = terms(np.full(runs, 1 / runs), np.full(runs, 1 / runs))
        spread = estimate_jackknife_spread(terms, (runs, runs), paired=False)
        half, _, _ = spread.intervals(whole, 0.95)
        wide, _, _ = spread.intervals(whole, 0.95, together=whole.size)
        inside = np.abs(whole - _truth()) <= half
        alone[i] = inside[4:]
        together[i] = np.all(np.abs(whole - _truth()) <= wide)
    assert alone.mean(axis=0) == pytest.approx(0.95, abs=0.02)
    assert alone.mean() == pytest.approx(0.95, abs=0.015)
    assert together.mean() >= 0.95 - 0.01


def test_pairs_take_out_what_both_sides_share() -> None:
    random = np.random.default_rng(4)
    blocks = random.normal(1.0, 0.3, size=(6, 1))
    counts = np.ones((6, 1))
    sides = (counts, (1000 * blocks)[:, :, None]), (counts, (1000 * blocks + 100)[:, :, None])

    def terms(base: np.ndarray, other: np.ndarray) -> np.ndarray:
        first, second = ((w @ c, np.tensordot(w, t, 1)) for w, (c, t) in zip((base, other), sides, strict=True))
        return decompose(np.array([0]), first, second).times.ravel()

    whole = terms(np.full(6, 1 / 6), np.full(6, 1 / 6))
    paired = estimate_jackknife_spread(terms, (6, 6), paired=True).intervals(whole, 0.95)[0]
    unpaired = estimate_jackknife_spread(terms, (6, 6), paired=False).intervals(whole, 0.95)[0]
    assert whole == pytest.approx([100.0])
    assert paired[0] < 1e-6 < unpaired[0]

"""Changes of a sequence: known answers, looks at a growing sequence, and the stated rates in a small simulation."""

import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from citus_analysis.errors import UsageError
from citus_analysis.stats import find_changes
from citus_analysis.stats.change_points import CALIBRATED_FROM, follow_changes, newest_shift, rank_sum_score, threshold

Rows = NDArray[np.float64]

QUIET = [100.2, 99.8, 100.1, 99.7, 100.4, 99.9, 100.3, 99.6, 100.0, 100.5]
#: Throughput of TigerBeetle by commit; Otava, whose tests contain it, reports 15 and 71.
TIGERBEETLE = np.array(
    json.loads((Path(__file__).parents[1] / "data" / "series" / "tigerbeetle.json").read_text(encoding="utf-8"))[
        "values"
    ],
    np.float64,
)


def levels(*parts: tuple[float, int], spread: float = 1.0, seed: int = 1) -> Rows:
    """Values around levels, each for a number of runs."""
    level = np.concatenate([np.full(runs, value) for value, runs in parts])
    return np.asarray(level + spread * np.random.default_rng(seed).standard_normal(level.size))


@pytest.mark.parametrize(("before", "after"), [(5, 5), (8, 20), (20, 5), (12, 12)])
def test_the_score_is_the_normal_quantile_of_the_exact_rank_sum_test(before: int, after: int) -> None:
    values = np.random.default_rng(before).standard_normal(before + after) + np.repeat([0.0, 2.0], [before, after])
    exact = stats.mannwhitneyu(values[:before], values[before:], alternative="less", method="exact").pvalue
    assert rank_sum_score(values, before) == pytest.approx(-stats.norm.ppf(exact), rel=1e-9)


def test_long_sides_are_scored_as_the_normal_approximation_or_more() -> None:
    values = np.random.default_rng(3).standard_normal(80) + np.repeat([0.0, 0.8], 40)
    plain = stats.mannwhitneyu(values[:40], values[40:], alternative="less", method="asymptotic").pvalue
    assert rank_sum_score(values, 40) == pytest.approx(-stats.norm.ppf(plain), rel=0.03)


def test_a_step_is_found_with_its_size_and_place() -> None:
    found = find_changes([*QUIET, *(0.95 * value for value in QUIET)])
    (point,) = found.points
    assert (found.places, point.between, point.gradual) == ((10,), (10, 10), False)
    assert [point.before, point.after] == pytest.approx([100.05, 95.0475])
    assert point.ratio.low < 0.95 < point.ratio.high
    assert point.ratio.high - point.ratio.low < 0.02
    assert found.segments() == [(0, 10), (10, 20)]
    assert point.p_value <= found.alpha
    assert f"below {CALIBRATED_FROM}" in found.warnings[0]


@pytest.mark.parametrize(
    ("parts", "places"),
    [
        (((100, 30), (80, 30), (60, 30), (40, 30)), (30, 60, 90)),
        (((100, 30), (97, 30), (94, 30), (91, 30)), (30, 60, 90)),
        (((100, 30), (88, 30), (94, 30), (100, 30)), (30, 60, 90)),
        (((100, 12), (88, 100)), (12,)),
        (((100, 100), (88, 6)), (100,)),
        (((100, 60), (90, 5), (100, 60)), (60, 65)),
    ],
    ids=["stairs", "small stairs", "down and up", "short at the begin", "short at the end", "short between"],
)
def test_changes_do_not_hide_each_other(parts: tuple[tuple[float, int], ...], places: tuple[int, ...]) -> None:
    found = find_changes(levels(*parts))
    assert len(found.places) == len(places)
    assert all(abs(one - place) <= 2 for one, place in zip(found.places, places, strict=True))
    for point, ((before, _), (after, _)) in zip(found.points, pairwise(parts), strict=True):
        assert point.ratio.low <= after / before <= point.ratio.high


def test_a_slow_fall_is_one_gradual_change_with_its_slope() -> None:
    level = np.concatenate([np.full(60, 100.0), np.linspace(100, 90, 80), np.full(60, 90.0)])
    (point,) = find_changes(level + np.random.default_rng(2).standard_normal(200)).points
    assert point.slope is not None
    assert point.slope.low < -10 / 80 < point.slope.high < 0
    assert [point.index, point.end] == pytest.approx([60, 140], abs=10)
    assert point.ratio.low < 0.9 < point.ratio.high
    assert "gradually" in point.summary_lines()[0]


def test_spread_and_level_change_apart() -> None:
    random = np.random.default_rng(5)
    found = find_changes(100 + np.concatenate([random.standard_normal(60), 4 * random.standard_normal(60)]))
    (spread,) = found.spreads
    assert found.places == ()
    assert spread.index == pytest.approx(60, abs=8)
    assert spread.after > 2.5 * spread.before


def test_an_outlier_is_named_and_no_change() -> None:
    found = find_changes([*QUIET, 10.0, *QUIET, *QUIET])
    assert (found.places, found.outliers) == ((), (10,))


def test_equal_values_are_quiet_and_whole_numbers_can_change() -> None:
    assert find_changes([100.0] * 40).places == ()
    assert find_changes([100.0, 101.0] * 20).places == ()
    assert find_changes([100.0] * 20 + [101.0] * 20).places == (20,)
    assert find_changes([-1.0, 1.0, 0.0] * 7 + [9.0, 11.0, 10.0] * 7).places == (21,)


def test_a_level_that_may_be_zero_has_no_ratio() -> None:
    random = np.random.default_rng(31_337)
    noise = random.standard_normal(20)
    # The level before is 1e-9, far inside its own error.
    (point,) = find_changes([*(noise - noise.mean() + 1e-9), *(5 + random.standard_normal(20))]).points
    assert not point.ratio.exists
    assert "the levels have no ratio" in point.ratio.warnings
    assert point.after == pytest.approx(5, abs=0.5)


@pytest.mark.parametrize("level", [0.9, 0.7, 1.1, 3.3])
def test_levels_without_any_spread_have_a_ratio_without_width(level: float) -> None:
    (point,) = find_changes([1.0] * 10 + [level] * 10).points
    assert point.ratio.low == pytest.approx(level)
    assert point.ratio.low <= point.ratio.estimate <= point.ratio.high == pytest.approx(level)


def test_few_values_are_not_judged() -> None:
    found = find_changes([1.0] * 5 + [2.0] * 5)
    assert (found.places, found.judged) == ((), False)
    assert "too few" in found.warnings[0]


@pytest.mark.parametrize("alpha", [0.0, 1.0, 5.0])
def test_a_level_is_a_probability(alpha: float) -> None:
    with pytest.raises(UsageError, match="not between 0 and 1"):
        find_changes(QUIET, alpha)


def test_long_sequences_are_examined_in_segments() -> None:
    found = find_changes(levels((100, 1900), (97, 600), (100, 2000)))
    assert list(found.places) == pytest.approx([1900, 2500], abs=3)


def test_tigerbeetle_has_the_changes_that_otava_reports_at_every_length() -> None:
    assert {15, 71} <= set(find_changes(TIGERBEETLE).places)
    assert [n for n in range(30, TIGERBEETLE.size, 12) if 15 not in find_changes(TIGERBEETLE[:n]).places] == []
    first = find_changes(TIGERBEETLE).points[0]
    assert first.ratio.low < 0.887 < first.ratio.high


def test_alarms_of_earlier_looks_are_what_was_found_then() -> None:
    looks = range(30, 200, 10)
    followed = follow_changes(TIGERBEETLE[:200], looks)
    seen = {place for look in looks for place in find_changes(TIGERBEETLE[:look]).places}
    for place in seen:
        assert any(abs(place - one.place) <= 12 or abs(place - one.first_place) <= 12 for one in followed.alarms), place
    first = followed.alarms[0]
    assert (first.state, first.place, first.seen_after) == ("confirmed", 15, 30)
    assert first.sentence() == "confirmed: first seen after 30 runs, from run 16 on"
    assert [one.point for one in followed.alarms if one.point] == list(followed.found.points)


def test_all_alarms_of_a_single_look_are_new() -> None:
    """As of one dataset whose runs have no times."""
    followed = follow_changes(TIGERBEETLE[:60], looks=[])
    assert [(one.state, one.place) for one in followed.alarms] == [("new", one) for one in followed.found.places]
    assert followed.alarms


def test_a_withdrawn_alarm_says_why() -> None:
    random = np.random.default_rng(1)
    # A level that comes back slowly, among runs that turn out to depend on each other.
    wander = np.zeros(400)
    for place in range(1, 400):
        wander[place] = 0.85 * wander[place - 1] + random.standard_normal()
    values = np.concatenate([100 + random.standard_normal(20), 95 + random.standard_normal(14), 100 + wander])
    followed = follow_changes(values, range(25, values.size, 5))
    assert find_changes(values[:34]).places
    gone = [one for one in followed.alarms if one.state == "withdrawn"]
    assert all(one.point is None and "withdrawn after" in one.sentence() for one in gone)
    assert any(abs(one.place - 20) <= 12 or abs(one.first_place - 20) <= 12 for one in followed.alarms)


def alarms(rows: Rows) -> float:
    return float(np.mean([bool(find_changes(row).places) for row in rows]))


def dependent(rows: int, n: int, phi: float) -> Rows:
    values = np.random.default_rng(n).standard_normal((rows, n + 50))
    for place in range(1, n + 50):
        values[:, place] = phi * values[:, place - 1] + math.sqrt(1 - phi**2) * values[:, place]
    return values[:, 50:]


def test_a_step_in_few_runs_is_not_taken_for_dependence() -> None:
    # 15 and 15 runs: more than half of the blocks of twelve contain the step.
    found = [find_changes(levels((100, 15), (95, 15), spread=1.5, seed=seed)) for seed in range(40)]
    assert np.mean([any(abs(place - 15) <= 2 for place in one.places) for one in found]) >= 0.9
    assert np.mean([one.autocorrelation for one in found]) < 0.1


def test_false_alarms_are_rare_in_a_small_simulation() -> None:
    assert alarms(np.random.default_rng(1).standard_normal((200, 30))) <= 0.02
    assert alarms(dependent(80, 60, 0.6)) <= 0.1


@pytest.mark.slow
@pytest.mark.parametrize("n", [30, 100])
def test_false_alarms_are_as_rare_as_stated(n: int) -> None:
    random = np.random.default_rng(n)
    normal = random.standard_normal((4_000, n))
    assert alarms(normal) <= 0.006
    assert alarms(np.exp(0.5 * normal)) <= 0.006
    assert alarms(normal + 10.0 * (random.random(normal.shape) < 0.3)) <= 0.006
    assert alarms(dependent(2_000, n, 0.6)) <= 0.05


def test_the_threshold_rises_with_the_number_of_values_and_falls_with_the_level() -> None:
    assert threshold(30) < threshold(100) < threshold(365) < threshold(3_650)
    assert threshold(100, 0.05) < threshold(100, 0.001)


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

"""Pairs that are judged after every pair: false alarms at any look, intervals, sentences, refusals."""

import math

import numpy as np
import pytest

from benchmarks import pairs as benchmark
from citus_analysis.errors import UsageError
from citus_analysis.stats.paired_looks import estimate_anytime_interval, judge_pairs, log_evidence


@pytest.mark.parametrize("kind", ["normal", "log-normal", "two modes", "autocorrelation 0.6", "drift"])
def test_at_most_five_percent_of_equal_sides_are_told_apart_at_any_of_60_looks(kind: str) -> None:
    assert benchmark.false_alarms_percent(kind, np.random.default_rng(7)) <= 5


def test_a_change_of_five_percent_is_found() -> None:
    found = benchmark.first_found(
        np.random.default_rng(8).normal(math.log(1.05), 0.03 * math.sqrt(2), (benchmark.SERIES, benchmark.PAIRS))
    )
    assert np.quantile(found, 0.8) <= 15
    assert benchmark.fixed_pairs() == 9


def test_the_interval_contains_the_effect_at_any_look() -> None:
    random = np.random.default_rng(9)
    missed = 0
    for _ in range(80):
        differences = 0.04 + 0.03 * random.standard_t(3, 14)
        ends = [estimate_anytime_interval(differences[:pairs]) for pairs in (6, 10, 14)]
        missed += not all(low <= 0.04 <= high for low, high in ends)
    assert missed <= 0.05 * 80


def test_nothing_is_excluded_before_six_pairs_and_the_stake_follows_the_interval() -> None:
    clear = np.array([0.05, 0.06, 0.04, 0.05, 0.055, 0.045])
    assert estimate_anytime_interval(clear[:5]) == (-math.inf, math.inf)
    low, high = estimate_anytime_interval(clear)
    assert 0 < low < 0.05 < high < math.inf
    assert log_evidence(clear - low + 1e-4)[-1] > math.log(20) * 0.9


def test_a_verdict_is_a_sentence() -> None:
    base = [100.0] * 8
    slower = judge_pairs(base, [95, 95, 94, 96, 95, 94, 96, 95], [(100, 101), (100, 99.5), (100, 100)])
    assert (slower.verdict, slower.exit_code) == ("slower", 1)
    assert slower.sentence().startswith("slower, 5.0 % [")
    assert slower.sentence().endswith("8 pairs; base against itself 0.2 % [-1.7, 2.1], 3 pairs")
    assert judge_pairs(base, [100.1, 99.9] * 4).verdict == "equivalent"
    assert judge_pairs(base[:3], [90] * 3).sentence() == "undecided, -10.0 % [no limits yet], 3 pairs"
    assert judge_pairs(base, [300.0, 310] * 4).sentence().startswith("faster, 3.0 times [")
    assert judge_pairs([], []).sentence() == "undecided, no pair was measured"


def test_what_cannot_be_judged_is_refused() -> None:
    with pytest.raises(UsageError, match="different numbers of runs"):
        judge_pairs([1.0], [])
    with pytest.raises(UsageError, match="not a positive number"):
        judge_pairs([1.0], [0.0])
    with pytest.raises(UsageError):
        judge_pairs([1.0], [1.0], level=2)

"""Pairs of runs that are judged after every pair: evidence and an interval that hold at any look.

Base and change are measured in pairs, and a coin decides which is measured first. If the change has no effect, the
coin alone decides the sign of each pair's difference, whatever the distribution of the runs, their outliers, their
drift or their autocorrelation. A bet on that sign is then fair: a stake that grows by 2 / (1 + exp(-2 b x)) with the
difference x, in units of the root mean square of the differences so far, keeps its expected value of 1 for each
strength b. By Ville's inequality, a stake that starts at 1 ever reaches 20 with a probability of at most 5 %, so one
may look after every pair and stop when it pleases. The stake is spread over both directions and the strengths in
:data:`STRENGTHS`. The interval contains the effects (on the logarithm) that are not refuted in this way.

References:
    de la Pena, V. H. (1999). A general class of exponential inequalities for martingales and ratios. Annals of
        Probability 27.
    Howard, S. R., Ramdas, A., McAuliffe, J., Sekhon, J. (2021). Time-uniform, nonparametric, nonasymptotic confidence
        sequences. Annals of Statistics 49.
    Ville, J. (1939). Etude critique de la notion de collectif.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.type_aliases import Floats
from citus_analysis.defaults import LEVEL, MARGIN
from citus_analysis.errors import UsageError
from citus_analysis.stats._validate import check_level
from citus_analysis.stats.intervals import mean_interval
from citus_analysis.texts.words import choose_noun_form, pluralize

PairVerdict = Literal["faster", "slower", "equivalent", "undecided"]

#: Strengths of the bets, in root mean squares of the differences: small effects are found by the first, clear ones,
#: after the smallest number of pairs that can refute anything (6 at 95 %), by the second.
STRENGTHS: Final = (1.0, 2.0)
#: Effects that are tried for the interval, and their reach in largest deviations from the median difference.
_EFFECTS: Final = 2_001
_REACH: Final = 12.0
#: Pairs of the base with itself from which their ratio gets an interval; that of two excludes nothing.
_FEWEST: Final = 3


@dataclass(frozen=True, repr=False)
class PairsResult(DisplayMixin):
    """The change against the base after some pairs.

    Attributes:
        verdict: ``faster`` or ``slower`` (the interval excludes 1), ``equivalent`` (it lies within the margin) or
            ``undecided``.
        ratio: change over base, the exponential of the mean log ratio.
        low: lower end of the interval, valid at any look; 0 if nothing is excluded yet.
        high: upper end; infinite if nothing is excluded yet.
        pairs: number of pairs.
        margin: relative difference that counts as none.
        level: confidence level.
        again: ratio of base to base, its ends (Student's t on the logarithm, nan for fewer
            than three pairs) and its pairs; None without any.
    """

    verdict: PairVerdict
    ratio: float
    low: float
    high: float
    pairs: int
    margin: float
    level: float
    again: tuple[float, float, float, int] | None = None

    @property
    def exit_code(self) -> int:
        """0 equivalent or better, 1 worse, 4 undecided."""
        return {"slower": 1, "undecided": 4}.get(self.verdict, 0)

    def summary_lines(self) -> list[str]:
        """The verdict in one line, for example `slower, 3.1 % [1.2, 5.0], 9 pairs; ...`."""
        return [self.sentence()]

    def sentence(self) -> str:
        """The verdict with its numbers: how much slower or faster the change is, and how far the base varies."""
        if self.pairs == 0:
            return "undecided, no pair was measured"
        change = _format_change_percent(self.ratio, self.low, self.high, inverse=self.verdict == "slower")
        parts = [f"{self.verdict}, {change}, {pluralize(self.pairs, 'pair')}"]
        if self.again is not None:
            ratio, low, high, pairs = self.again
            parts.append(
                f"base against itself {_format_change_percent(ratio, low, high)}, {pairs} "
                f"{choose_noun_form(pairs, 'pair')}"
            )
        return "; ".join(parts)


def judge_pairs(
    base: Sequence[float],
    change: Sequence[float],
    again: Sequence[tuple[float, float]] = (),
    *,
    margin: float = MARGIN,
    level: float = LEVEL,
) -> PairsResult:
    """Judge a change by pairs of runs in random order within each pair; valid however often it is called.

    Args:
        base: throughput of the base in each pair, in any unit.
        change: throughput of the change in the same pairs.
        again: pairs of the base with itself, first and second.
        margin: relative difference that counts as none (0.05 = 5 %, from 1/1.05 to 1.05).
        level: confidence level, over all looks together.

    Raises:
        UsageError: the sides have different lengths, or a value is not positive.

    Example:
        >>> judge_pairs([100, 101, 99, 100, 102, 98, 100, 99], [95, 95, 94, 96, 97, 93, 95, 93])
        slower, 5.1 % [4.3, 6.0], 8 pairs
    """
    check_level(level)
    differences = _log_ratios(base, change)
    low, high = estimate_anytime_interval(differences, level)
    return PairsResult(
        _decide_pair_verdict(low, high, math.log1p(margin)),
        math.exp(differences.mean()) if len(differences) else math.nan,
        math.exp(low),
        math.exp(high),
        len(differences),
        margin,
        level,
        _estimate_base_ratio(again, level),
    )


def log_evidence(differences: Floats) -> Floats:
    """Logarithm of the stake against "no effect" after each difference of the last axis.

    Example:
        >>> bool((log_evidence(np.ones(6)) >= math.log(20))[-1]), bool((log_evidence(np.ones(5)) >= math.log(20))[-1])
        (True, False)
    """
    counts = np.arange(1, differences.shape[-1] + 1)
    scale = np.sqrt(np.cumsum(differences**2, axis=-1) / counts)
    relative = np.divide(differences, scale, out=np.zeros_like(differences), where=scale > 0)
    bets = [
        np.cumsum(math.log(2) - np.logaddexp(0, -2 * direction * strength * relative), axis=-1)
        for strength in STRENGTHS
        for direction in (1, -1)
    ]
    return np.asarray(np.logaddexp.reduce(bets) - math.log(len(bets)))


def estimate_anytime_interval(differences: Floats, level: float = LEVEL) -> tuple[float, float]:
    """The smallest and the largest effect that the differences do not refute; infinite ends while there is none.

    Args:
        differences: logarithms of change over base, one a pair.
        level: confidence level, over all looks together.
    """
    if not len(differences):
        return -math.inf, math.inf
    centre = float(np.median(differences))
    reach = _REACH * max(float(np.abs(differences - centre).max()), 1e-12)
    effects = centre + np.linspace(-reach, reach, _EFFECTS)
    stake = log_evidence(differences[None, :] - effects[:, None])[:, -1]
    kept = np.flatnonzero(stake < max(-math.log(1 - level), float(stake.min()) + 1e-9))
    first, last = int(kept[0]), int(kept[-1])
    step = effects[1] - effects[0]
    return (
        float(effects[first] - step) if first > 0 else -math.inf,
        float(effects[last] + step) if last < _EFFECTS - 1 else math.inf,
    )


def _log_ratios(base: Sequence[float], change: Sequence[float]) -> Floats:
    sides = (np.asarray(base, dtype=np.float64), np.asarray(change, dtype=np.float64))
    if sides[0].shape != sides[1].shape:
        raise UsageError("base and change have different numbers of runs", hint="give both of each pair")
    if any((side <= 0).any() or not np.isfinite(side).all() for side in sides):
        raise UsageError("a throughput is not a positive number", hint="leave out pairs with a failed run")
    return np.log(sides[1] / sides[0])


def _decide_pair_verdict(low: float, high: float, margin: float) -> PairVerdict:
    if -margin <= low and high <= margin:
        return "equivalent"
    if low > 0 or high < 0:
        return "faster" if low > 0 else "slower"
    return "undecided"


def _estimate_base_ratio(again: Sequence[tuple[float, float]], level: float) -> tuple[float, float, float, int] | None:
    if not again:
        return None
    logs = _log_ratios([first for first, _ in again], [second for _, second in again])
    if len(logs) < _FEWEST:
        return math.exp(logs.mean()), math.nan, math.nan, len(logs)
    found = mean_interval(logs, level=level)
    return math.exp(found.estimate), math.exp(found.low), math.exp(found.high), len(logs)


def _format_change_percent(ratio: float, low: float, high: float, *, inverse: bool = False) -> str:
    """A ratio as a change in per cent with its ends, `inverse` for "slower by"; from twice on as a factor."""
    as_factor = ratio >= 2
    change, *ends = (value if as_factor else (value - 1) * (-100 if inverse else 100) for value in (ratio, low, high))
    unit = "times" if as_factor else "%"
    if math.isinf(high):
        return f"{change:z.1f} {unit} [no limits yet]"
    return f"{change:z.1f} {unit}" + ("" if math.isnan(low) else f" [{min(ends):z.1f}, {max(ends):z.1f}]")

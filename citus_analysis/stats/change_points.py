"""Changes of a sequence of runs: of its level (at once or gradually) and of its spread, with places and sizes.

**Whether.** Every place is tested in windows of many lengths on both sides (3 to 128 values), by the rank sum of the
values after it among those of the window (Wilcoxon, exact for short sides). A window that contains one change only is
not affected by the others, so the changes are taken from narrow windows first, and each rules out the windows that
contain it (narrowest over threshold). Ranks make the chance of a false alarm the same for all independent runs without
ties, whatever their distribution; the threshold was simulated for it. Runs that depend on their predecessors raise
rank sums. So the means of both sides must differ, too, for an AR(1) of the estimated autocorrelation. A change looks
like dependence, so it is estimated in two ways of which the smaller counts: from ranks within blocks of twelve values
(of many values, few blocks contain a change), and from ranks around the best single step (which is right for few values
and one change).

**Where and how much.** A place is that of the least squares of both sides, with outliers limited. Its interval is the
set of places whose likelihood is not much lower (Siegmund). The interval of a size is conditional on the alarm (normal
distribution truncated at the threshold), at all places of that set. Steps that a straight ramp describes better
(Bayesian information criterion, with a margin) are one gradual change with a slope.

**When.** :func:`follow_changes` repeats this for the beginnings of a sequence: when each change was first seen, and
which alarms were moved or withdrawn later. :func:`newest_shift` says whether the two newest values stand out, which is
a hint before a change can be found.

References:
    Baranowski, R., Chen, Y. and Fryzlewicz, P. (2019). Narrowest-over-threshold detection of multiple change points.
    JRSS B 81.
    Siegmund, D. (1988). Confidence sets in change-point problems. International Statistical Review 56.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.type_aliases import Floats
from citus_analysis.defaults import CHANGE_ALPHA, LEVEL
from citus_analysis.errors import UsageError
from citus_analysis.stats._validate import validate_sample
from citus_analysis.stats.results import Interval
from citus_analysis.texts.words import pluralize

#: With fewer runs hardly any change is found.
FEWEST_TO_TRACK: Final = 12
#: From this many runs on, runs with an autocorrelation of 0.6 raise a false alarm in at most 5 % of sequences.
CALIBRATED_FROM: Final = 30
#: Numbers of values on each side of a place.
_SIDES: Final = (3, 4, 5, 6, 7, 8, 10, 12, 15, 18, 22, 27, 33, 40, 50, 64, 90, 128)
_SPREAD_SIDES: Final = (6, 8, 12, 18, 27, 40, 64, 128)
#: Sides for which the distribution of the rank sum is computed exactly; beyond, with its fourth cumulant.
_EXACT: Final = 16
#: Scores below this are never significant, so they are not computed.
_LOWEST: Final = 3.0
#: Sequences longer than this are examined in overlapping chunks, which bounds the memory.
_CHUNK: Final = 2_048
#: Number of values -> number of independent tests that raise as many false alarms as all windows
#: (`python -m benchmarks.changes --calibrate`).
_TESTS: Final = ((12, 1.0), (20, 7.0), (30, 52.0), (60, 420.0), (100, 1_200.0), (365, 8_200.0))
#: Values of a block in which autocorrelation is estimated; mean estimate for independent values, and its slope.
_BLOCK: Final = 12
_BIAS: Final = -0.08
_SLOPE: Final = 0.62
#: The same of the autocorrelation of ranks around the best single step of n values: the mean is the first over n, the
#: slope is 1 less the second over n.
_STEP_BIAS: Final = -3.2
_STEP_SLOPE: Final = 9.0
#: Standard errors by which the autocorrelation must exceed 0: within blocks, and around a step. The factor of the score
#: of means.
_CLEARLY: Final = 1.0
_CLEARLY_AROUND: Final = 0.5
#: Autocorrelation beyond which more is movement of the level rather than noise, so that no more is charged; and from
#: which a warning says so.
_MOST_CHARGED: Final = 0.8
_STRONG: Final = 0.7
_MEANS: Final = 1.0
#: Neighbours on each side from whose median a value is limited.
_BESIDE: Final = 4
#: Values beyond this many standard deviations are limited for means, and beyond the second named as outliers.
_LIMIT_SD: Final = 2.5
_OUTLIER_SD: Final = 5.0
#: Twice the logarithm of the likelihood ratio that holds the place of a change in 95 % of cases:
#: (1 - exp(-x / 2))^2 = 0.95.
_PLACE_RATIO: Final = 7.35
#: Fewest runs of a gradual change.
_GRADUAL: Final = 8
#: Evidence, as twice a logarithm of a likelihood ratio less the price of parameters, from which a ramp replaces one
#: step, or several.
_FOR_A_RAMP: Final = (15.0, 0.0)
#: Places between which ramps are tried, and most steps that one ramp may replace.
_RAMP_PLACES: Final = 17
_MOST_STEPS: Final = 8
#: Probability that the two newest values of an independent sequence are named, and the autocorrelation of the ranks of
#: earlier values above which they are not.
NEWEST_ALPHA: Final = 0.014
_DEPENDENT: Final = 0.25
_NEWEST: Final = 2
#: Windows this near to a change show it; alarms this near to each other at successive looks are the same one.
_SAME: Final = 3
_NEAR: Final = 12

Places = NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class ChangePoint(DisplayMixin):
    """One change of level.

    Attributes:
        index: place of the first value after it, from 0; of a gradual change, of the first value that it affects.
        end: place from which the new level holds; `index` if the change is not gradual.
        between: first and last place of the 95 % interval for `index`.
        before: level before it; outliers are limited.
        after: level after it.
        ratio: `after` over `before`, with a 95 % interval that is honest although the change was selected.
        slope: of a gradual change, difference from run to run; None if the level changed at once.
        p_value: chance that any window of a sequence of this length without a change has such a score.
        score: the largest score (standard normal for one test) of the windows at this place.
        n: number of values from the last change to the next one.
    """

    index: int
    end: int
    between: tuple[int, int]
    before: float
    after: float
    ratio: Interval
    slope: Interval | None
    p_value: float
    score: float
    n: int

    @property
    def gradual(self) -> bool:
        """Whether the level changed over many values."""
        return self.slope is not None

    def summary_lines(self) -> list[str]:
        """Place, size and their intervals in words."""
        low, high = (place + 1 for place in self.between)
        where = f"from value {self.index + 1} on" if low == high else f"from value {self.index + 1} on [{low}, {high}]"
        ends = f" [{(self.ratio.low - 1) * 100:+.1f}, {(self.ratio.high - 1) * 100:+.1f}]" if self.ratio.exists else ""
        size = f"{self.before:.5g} -> {self.after:.5g}, {(self.ratio.estimate - 1) * 100:+.1f} %{ends}"
        if self.slope is None:
            return [f"{where}: {size}, p = {self.p_value:.2g}"]
        ends = f" [{self.slope.low:.3g}, {self.slope.high:.3g}]"
        return [f"{where}, gradually up to value {self.end}: {size}, {self.slope.estimate:.3g}{ends} a run"]


@dataclass(frozen=True)
class SpreadChange:
    """One change of the spread around the level.

    Attributes:
        index: place of the first value after it, from 0.
        before: robust standard deviation before it.
        after: robust standard deviation after it.
        p_value: as of a change of level.
    """

    index: int
    before: float
    after: float
    p_value: float

    def sentence(self) -> str:
        """The change in words."""
        return f"spread changed from value {self.index + 1} on: {self.before:.3g} -> {self.after:.3g}"


@dataclass(frozen=True, repr=False)
class ChangePoints(DisplayMixin):
    """The changes of a sequence.

    Attributes:
        points: the changes of level, in their order.
        p_value: chance of the largest score of all in a sequence without a change; nan if the sequence is too short.
        n: number of values.
        alpha: probability of a false alarm in a sequence of independent values.
        autocorrelation: of successive values, as charged; 0 if it is not clearly positive.
        levels: level at each value.
        spreads: the changes of spread.
        outliers: places of values far from their level.
        warnings: caveats.
    """

    points: tuple[ChangePoint, ...]
    p_value: float
    n: int
    alpha: float
    autocorrelation: float = 0.0
    levels: tuple[float, ...] = ()
    spreads: tuple[SpreadChange, ...] = ()
    outliers: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def judged(self) -> bool:
        """Whether there were enough values for a test."""
        return math.isfinite(self.p_value)

    @property
    def places(self) -> tuple[int, ...]:
        """The first place after each change of level."""
        return tuple(point.index for point in self.points)

    def segments(self) -> list[tuple[int, int]]:
        """First place of each part between two changes, and the place after its last one."""
        return list(pairwise([0, *self.places, self.n]))

    def summary_lines(self) -> list[str]:
        """The changes in words, with the warnings."""
        found = [f"  {one.summary_lines()[0]}" for one in self.points]
        found += [f"  {one.sentence()}" for one in self.spreads]
        first = f"{pluralize(len(self.points), 'change')} in {pluralize(self.n, 'value')} (level {self.alpha:g})"
        return [first, *found, *(f"  note: {note}" for note in self.warnings)]


def find_changes(values: ArrayLike, alpha: float = CHANGE_ALPHA) -> ChangePoints:
    """The changes of level of a sequence, each with its place, size and intervals; and the changes of its spread.

    Args:
        values: values in the order of time.
        alpha: probability of a false alarm in a sequence of independent values without a change.

    Raises:
        UsageError: an alpha that is not between 0 and 1.

    Example:
        >>> quiet = [100.2, 99.8, 100.1, 99.7, 100.4, 99.9, 100.3, 99.6, 100.0, 100.5]
        >>> found = find_changes(quiet + [0.95 * value for value in quiet])
        >>> found.places, round(found.points[0].ratio.estimate, 3)
        ((10,), 0.95)
        >>> find_changes(quiet + quiet[::-1]).places
        ()
    """
    sample = validate_sample(values, 0, "the sequence")
    _check_alpha(alpha)
    n = sample.size
    if n < FEWEST_TO_TRACK:
        note = f"{pluralize(n, 'run')}: too few to see a change (at least {FEWEST_TO_TRACK})"
        return ChangePoints((), float("nan"), n, alpha, levels=(_location(sample)[0],) * n, warnings=(note,))
    windows = _list_test_windows(sample)
    phi = _charged_autocorrelation(sample)
    scores = windows.scores(phi)
    steps = _narrowest_first(sample, windows, scores, threshold(n, alpha))
    described, levels = _describe(sample, steps, phi, threshold(n, alpha))
    residuals = sample - levels
    spread = _robust_sd(residuals)
    spreads = tuple(_spread_changes(residuals, alpha, phi)) if spread else ()
    outliers = np.flatnonzero(np.abs(residuals) > _OUTLIER_SD * spread) if spread else ()
    notes = []
    if n < CALIBRATED_FROM:
        notes.append(
            f"{pluralize(n, 'run')}: below {CALIBRATED_FROM}, dependent runs raise more false alarms than stated"
        )
    if phi >= _STRONG:
        about = f"at least {phi:.1f}" if phi >= _MOST_CHARGED else f"{phi:.1f}"
        notes.append(
            f"successive runs depend on each other (autocorrelation {about}): changes may be a wandering level"
        )
    return ChangePoints(
        points=described,
        p_value=_p_value(float(scores.max(initial=0.0)), n),
        n=n,
        alpha=alpha,
        autocorrelation=phi,
        levels=tuple(levels.tolist()),
        spreads=spreads,
        outliers=tuple(map(int, outliers)),
        warnings=tuple(notes),
    )


def _check_alpha(alpha: float) -> None:
    if not 0 < alpha < 1:
        raise UsageError(f"a level of {alpha:g} is not between 0 and 1", hint="pass 0.002 for 0.2 %")


def threshold(n: int, alpha: float = CHANGE_ALPHA) -> float:
    """Score that a window of a sequence of n independent values exceeds with probability alpha.

    Example:
        >>> 3.5 < threshold(30) < threshold(365) < 6
        True
    """
    from scipy import special

    return -float(special.ndtri(min(alpha / (2 * _tests(n)), 0.5)))


def _p_value(score: float, n: int) -> float:
    from scipy import special

    return min(1.0, 2 * _tests(n) * float(special.ndtr(-score)))


def _tests(n: int) -> float:
    """Equivalent number of independent tests; beyond the table it grows as the number of places."""
    lengths, tests = zip(*_TESTS, strict=True)
    inside = float(np.exp(np.interp(math.log(n), np.log(lengths), np.log(tests))))
    return inside * max(1.0, n / float(lengths[-1]))


# Looks at a growing sequence


@dataclass(frozen=True)
class Alarm:
    """A change that was reported at some look at a growing sequence, and what has become of it.

    Attributes:
        state: `new` (first seen at the last look), `confirmed` (seen before, at this place), `revised` (seen before,
            elsewhere or in another form) or `withdrawn` (seen before, not any more).
        place: where it is now; where it was last, if it was withdrawn.
        first_place: where it was seen first.
        seen_after: number of values at the look that saw it first.
        point: the change; None if it was withdrawn.
        reason: why it was revised or withdrawn; empty otherwise.
    """

    state: Literal["new", "confirmed", "revised", "withdrawn"]
    place: int
    first_place: int
    seen_after: int
    point: ChangePoint | None
    reason: str = ""

    def sentence(self) -> str:
        """The state in words."""
        if self.state == "new":
            return f"new: first seen after {pluralize(self.seen_after, 'run')}"
        seen = f"first seen after {pluralize(self.seen_after, 'run')}, from run {self.first_place + 1} on"
        return f"{self.state}: {seen}{'; ' if self.reason else ''}{self.reason}"


@dataclass(frozen=True)
class FollowedChanges:
    """The changes of a sequence, and the alarms of all looks at its beginnings.

    Attributes:
        found: the changes of the whole sequence.
        alarms: one for each change, and those that were withdrawn, by place.
    """

    found: ChangePoints
    alarms: tuple[Alarm, ...]


def follow_changes(values: ArrayLike, looks: Sequence[int], alpha: float = CHANGE_ALPHA) -> FollowedChanges:
    """The changes of a sequence, and what :func:`find_changes` said of its beginnings.

    Nothing is stored: each look is repeated on the values that it had, from window scores that are computed once.

    Args:
        values: values in the order of time.
        looks: numbers of values that there were at earlier looks; the whole sequence is the last look.
        alpha: probability of a false alarm, at one look, in a sequence without a change.

    Raises:
        UsageError: an alpha that is not between 0 and 1.

    Example:
        >>> quiet = [100.2, 99.8, 100.1, 99.7, 100.4, 99.9, 100.3, 99.6, 100.0, 100.5]
        >>> followed = follow_changes(quiet * 3 + [0.95 * value for value in quiet * 2], looks=[30, 40])
        >>> [(alarm.state, alarm.place, alarm.seen_after) for alarm in followed.alarms]
        [('confirmed', 30, 40)]
    """
    sample = validate_sample(values, 0, "the sequence")
    found = find_changes(sample, alpha)
    if not found.judged:
        return FollowedChanges(found, ())
    traces = _traces(sample, sorted({look for look in looks if FEWEST_TO_TRACK <= look < sample.size}), alpha)
    alarms: list[Alarm] = []
    for point in found.points:
        last = point.end if point.gradual else point.index
        own = [one for one in traces if point.index - _NEAR <= one.place <= last + _NEAR]
        if not point.gradual:
            own = sorted(own, key=lambda one: abs(one.place - point.index))[:1]
        traces = [one for one in traces if one not in own]
        alarms.append(_alarm(point, own, sample.size))
    alarms += [
        Alarm("withdrawn", one.place, one.first_place, one.seen_after, None, one.reason or _last_reason(one, found))
        for one in traces
    ]
    return FollowedChanges(found, tuple(sorted(alarms, key=lambda one: one.place)))


def _alarm(point: ChangePoint, own: Sequence[_Trace], n: int) -> Alarm:
    if not own:
        return Alarm("new", point.index, point.index, n, point)
    first = min(own, key=lambda one: (one.seen_after, one.place))
    seen = point.index, first.first_place, first.seen_after, point
    if point.gradual:
        words = "; it is gradual" if len(own) == 1 else f"; {len(own)} steps are one gradual change"
        return Alarm("revised", *seen, f"now from run {point.index + 1} to {point.end}{words}")
    if abs(point.index - first.first_place) > 2:
        return Alarm("revised", *seen, f"with {n} runs the level changes at run {point.index + 1}")
    return Alarm("confirmed", *seen, first.reason and f"{first.reason}; seen again later")


@dataclass
class _Trace:
    """An alarm while looks are repeated."""

    place: int
    first_place: int
    seen_after: int
    reason: str = ""


def _traces(sample: Floats, looks: Sequence[int], alpha: float) -> list[_Trace]:
    """The alarms of looks at beginnings of a sequence."""
    if not looks:
        return []
    windows = _list_test_windows(sample[: looks[-1]])
    autocorrelations = np.cumsum(_block_autocorrelations(sample))
    scores: dict[float, Floats] = {}
    places: dict[tuple[int, int, int], int] = {}
    traces: list[_Trace] = []
    for look in looks:
        phi = _charged_autocorrelation(sample[:look], float(autocorrelations[look - _BLOCK]) / (look - _BLOCK + 1))
        if phi not in scores:
            scores[phi] = windows.scores(phi)
        limit = threshold(look, alpha)
        possible = np.where(windows.stop <= look, scores[phi], 0.0)
        seen = [step.place for step in _narrowest_first(sample[:look], windows, possible, limit, places)]
        pairs = sorted(
            (abs(trace.place - place), number, place) for number, trace in enumerate(traces) for place in seen
        )
        matched: dict[int, int] = {}
        for distance, number, place in pairs:
            if distance <= _NEAR and number not in matched and place not in matched.values():
                matched[number] = place
        for number, trace in enumerate(traces):
            if number in matched:
                trace.place = matched[number]
            elif not trace.reason:
                here = np.abs(windows.place - trace.place) <= _SAME
                score = float(possible[here].max(initial=0.0))
                trace.reason = f"withdrawn after {look} runs: {_why_withdrawn(score, limit, phi, trace.place, seen)}"
        traces += [_Trace(place, place, look) for place in seen if place not in matched.values()]
    return traces


def _why_withdrawn(score: float, limit: float, phi: float, place: int, seen: Sequence[int]) -> str:
    if score > limit and seen:
        nearest = min(seen, key=lambda one: abs(one - place))
        return f"the change at run {nearest + 1} explains it"
    depends = f" (autocorrelation {phi:.2f})" if phi else ""
    return f"its score{depends} is {score:.1f}, below the threshold of {limit:.1f}"


def _last_reason(trace: _Trace, found: ChangePoints) -> str:
    beside = min(found.places, key=lambda place: abs(place - trace.place), default=None)
    if beside is not None and abs(beside - trace.place) <= 2 * _NEAR:
        return f"withdrawn after {found.n} runs: the change at run {beside + 1} explains it"
    return f"withdrawn after {found.n} runs: its score is below the threshold of {threshold(found.n, found.alpha):.1f}"


# Windows and their scores


@dataclass(frozen=True, eq=False)
class _Windows:
    """Windows with a rank score of at least :data:`_LOWEST`, narrow ones first.

    Attributes:
        place: first value after the place that is tested.
        before: number of values before it.
        after: number of values from it on.
        rank_score: normal score of the rank sum, at least 0.
        difference: of the means of both sides, outliers limited.
        squares: sum of squares around both means.
    """

    place: Places
    before: Places
    after: Places
    rank_score: Floats
    difference: Floats
    squares: Floats

    @property
    def start(self) -> Places:
        return self.place - self.before

    @property
    def stop(self) -> Places:
        return self.place + self.after

    def scores(self, phi: float) -> Floats:
        """The smaller of the score of the rank sum and that of the means of an AR(1) of this autocorrelation."""
        return np.minimum(self.rank_score, _MEANS * self._mean_scores(phi))

    def _mean_scores(self, phi: float) -> Floats:
        first, second = self.before.astype(np.float64), self.after.astype(np.float64)
        inflations = _mean_inflation(first, phi), _mean_inflation(second, phi)
        common = phi * (1 - phi**first) * (1 - phi**second) / ((1 - phi) ** 2 * first * second)
        # Squares around means of dependent values are too small.
        variance = self.squares / np.maximum(first + second - inflations[0] - inflations[1], 1.0)
        error = variance * (inflations[0] / first + inflations[1] / second - 2 * common)
        free = np.maximum((first + second) * (1 - phi) / (1 + phi) - 2, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            squared = np.where(self.difference == 0, 0.0, self.difference**2 / error)
        return np.asarray(np.sqrt(free * np.log1p(squared / free)))


def _list_test_windows(sample: Floats, sides: Sequence[int] = _SIDES) -> _Windows:
    """The windows of a sequence, of these numbers of values on each side."""
    fresh = _CHUNK - 2 * sides[-1]
    found = []
    for start in range(0, max(1, sample.size - 2 * sides[-1]), fresh):
        place, before, after, score = _chunk(sample[start : start + _CHUNK], sides)
        # A window belongs to the chunk in whose first part it begins.
        own = (place - before < fresh) | (start + _CHUNK >= sample.size)
        found.append((place[own] + start, before[own], after[own], score[own]))
    whole = [np.concatenate(parts) for parts in zip(*found, strict=True)]
    order = np.lexsort((-whole[3], whole[1] + whole[2]))
    place, before, after, score = (part[order] for part in whole)
    limited = _limit_sample(sample)
    sums, squares = (np.concatenate([[0.0], np.cumsum(values)]) for values in (limited, limited**2))
    begin, end = place - before, place + after
    first, second = sums[place] - sums[begin], sums[end] - sums[place]
    around = squares[end] - squares[begin] - first**2 / before - second**2 / after
    return _Windows(place, before, after, score, second / after - first / before, np.maximum(around, 0.0))


def _limit_sample(sample: Floats) -> Floats:
    """Values, or their logarithms if all are positive, limited to some deviations from the median of neighbours."""
    if (sample > 0).all():
        sample = np.log(sample)
    padded = np.pad(sample, _BESIDE, mode="symmetric")
    medians = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * _BESIDE + 1), axis=1)
    residuals = sample - medians
    beyond = _OUTLIER_SD * _robust_sd(residuals)
    limited = medians + np.clip(residuals, -beyond, beyond)
    return np.asarray(limited - limited.mean())


def _chunk(sample: Floats, sides: Sequence[int]) -> tuple[Places, Places, Places, Floats]:
    """Place, sides and rank score of the windows of at most 2,048 values whose score is not small."""
    n = sample.size
    pairs = np.zeros((n + 1, n + 1), np.int32)
    # sums[i, j]: over all pairs of one of the first i and one of the first j values, the sign of their difference.
    np.sign(sample[np.newaxis, :] - sample[:, np.newaxis], out=pairs[1:, 1:], casting="unsafe")
    np.cumsum(pairs, axis=0, out=pairs)
    sums = np.cumsum(pairs, axis=1, out=pairs).ravel()

    def diagonal(row: int, column: int, count: int) -> NDArray[np.int32]:
        first = row * (n + 1) + column
        return sums[first : first + (count - 1) * (n + 2) + 1 : n + 2]

    places: list[Places] = [np.empty(0, np.int64)]
    scores: list[Floats] = [np.empty(0)]
    sizes: list[tuple[int, int, int]] = []
    for before in sides:
        for after in sides:
            count = n - before - after + 1
            least = _least_difference(min(before, after), max(before, after))
            if count <= 0 or math.isinf(least):
                continue
            difference = diagonal(before, before + after, count) - diagonal(0, before + after, count)
            difference += diagonal(0, before, count)
            difference -= diagonal(before, before, count)
            np.abs(difference, out=difference)
            kept = np.flatnonzero(difference >= least)
            if kept.size:
                places.append(kept + before)
                scores.append(np.interp(difference[kept], *_rank_scores(min(before, after), max(before, after))))
                sizes.append((before, after, kept.size))
    befores, afters, counts = np.array(sizes, np.int64).reshape(-1, 3).T
    return np.concatenate(places), befores.repeat(counts), afters.repeat(counts), np.concatenate(scores)


def rank_sum_score(values: ArrayLike, before: int) -> float:
    """Standard normal score of the rank sum of the values from a place on; of a tie, half a pair.

    Raises:
        InsufficientDataError: fewer than 2 values.

    Example:
        >>> round(rank_sum_score([3, 1, 2, 6, 5, 4], 3), 2)  # one of 20 orders: 5 %
        1.64
    """
    sample = validate_sample(values, 2, "the sequence")
    pairs = np.sign(sample[before:] - sample[:before, np.newaxis]).sum()
    fewer, more = sorted((before, sample.size - before))
    return float(np.interp(abs(pairs), *_rank_scores(fewer, more)))


@lru_cache(maxsize=1024)
def _least_difference(fewer: int, more: int) -> float:
    """Difference of pairs from which the score is not small; infinite if it always is."""
    differences, scores = _rank_scores(fewer, more)
    return float(np.interp(_LOWEST, scores, differences)) if scores[-1] > _LOWEST else math.inf


@lru_cache(maxsize=1024)
def _rank_scores(fewer: int, more: int) -> tuple[Floats, Floats]:
    """Differences of pairs (of all `fewer * more`, those that rise less those that fall), and their normal scores.

    Example:
        >>> differences, scores = _rank_scores(5, 5)
        >>> float(differences[-1]), round(float(scores[-1]), 2)  # one of 252 orders: 0.4 %
        (25.0, 2.65)
    """
    from scipy import special

    differences: Floats
    pairs = fewer * more
    if fewer > _EXACT:
        variance = pairs * (fewer + more + 1) / 12
        cumulant = -1.2 * (fewer**2 + more**2 + pairs + fewer + more) / (pairs * (fewer + more + 1))
        differences = np.linspace(0.0, float(pairs), 257).astype(np.float64)
        plain = (differences / 2 - 0.5) / math.sqrt(variance)
        scores = np.maximum(plain - cumulant * (plain**3 - 3 * plain) / 24, 0.0)
        return differences, np.asarray(scores, np.float64)
    # Numbers of orders by number of falling pairs: the coefficients of a Gaussian binomial, up to the middle.
    orders = np.zeros(pairs // 2 + 1)
    orders[0] = 1
    for number in range(1, fewer + 1):
        if more + number < orders.size:
            orders[more + number :] = orders[more + number :] - orders[: -(more + number)]
        padded = np.zeros(-(-orders.size // number) * number)
        padded[: orders.size] = orders
        orders = padded.reshape(-1, number).cumsum(axis=0).ravel()[: orders.size]
    shares = orders.cumsum() / math.comb(fewer + more, fewer)
    falling = np.arange(orders.size)
    differences = (pairs - 2.0 * falling.astype(np.float64))[::-1]
    return differences, np.asarray(-special.ndtri(np.clip(shares, 1e-300, 0.5))[::-1])


def _charged_autocorrelation(sample: Floats, within_blocks: float | None = None) -> float:
    """Autocorrelation of successive values, less what chance explains; the mean of its blocks, if that is known."""
    n = sample.size
    mean = float(_block_autocorrelations(sample).mean()) if within_blocks is None else within_blocks
    around = (_autocorrelation_around_step(sample) - _STEP_BIAS / n) / (1 - _STEP_SLOPE / n)
    root = math.sqrt(n)
    return _round_autocorrelation(min(_correct_for_blocks(mean) - _CLEARLY / root, around - _CLEARLY_AROUND / root))


def _estimated_autocorrelation(sample: Floats) -> float:
    """Autocorrelation of successive values within blocks, whether or not chance explains it."""
    return _round_autocorrelation(_correct_for_blocks(float(_block_autocorrelations(sample).mean())))


def _block_autocorrelations(sample: Floats) -> Floats:
    """Autocorrelation of the ranks of each block of successive values."""
    blocks = np.lib.stride_tricks.sliding_window_view(sample, _BLOCK)
    ranks = blocks.argsort(axis=1, kind="stable").argsort(axis=1) - (_BLOCK - 1) / 2
    return np.asarray((ranks[:, 1:] * ranks[:, :-1]).sum(axis=1) / (_BLOCK * (_BLOCK**2 - 1) / 12))


def _correct_for_blocks(mean: float) -> float:
    """Autocorrelation of values whose ranks have this mean autocorrelation within blocks."""
    return (mean - _BIAS) / _SLOPE


def _autocorrelation_around_step(sample: Floats) -> float:
    """Autocorrelation of ranks around the levels before and after the best single step."""
    ordered = np.sort(sample)
    # Equal values have their mean rank.
    ranks = (np.searchsorted(ordered, sample, "left") + np.searchsorted(ordered, sample, "right")) / 2
    place = int(np.argmin(_squares(ranks))) + 1
    around = np.concatenate([part - part.mean() for part in (ranks[:place], ranks[place:])])
    whole = float((around * around).sum())
    return float((around[1:] * around[:-1]).sum()) / whole if whole else 0.0


def _round_autocorrelation(phi: float) -> float:
    """What is charged, in steps of 0.02."""
    return round(min(max(phi, 0.0), _MOST_CHARGED) * 50) / 50


def _mean_inflation(n: Floats, phi: float) -> Floats:
    return np.asarray((1 + phi) / (1 - phi) - 2 * phi * (1 - phi**n) / (n * (1 - phi) ** 2))


# Places


@dataclass(frozen=True)
class _LevelStep:
    place: int
    score: float


def _narrowest_first(
    sample: Floats,
    windows: _Windows,
    scores: Floats,
    limit: float,
    known: dict[tuple[int, int, int], int] | None = None,
) -> list[_LevelStep]:
    """Places of the changes, taken from the narrowest significant windows first; `known` are places found before."""
    known = {} if known is None else known

    def best_place(first: int, last: int, guess: int) -> int:
        key = first, last, guess
        if key not in known:
            known[key] = first + _best_place(sample[first:last], guess - first)
        return known[key]

    left = np.flatnonzero(scores > limit)
    start, stop, width = windows.start, windows.stop, windows.before + windows.after
    places: list[int] = []
    clearest: list[float] = []
    while left.size:
        same = left[width[left] == width[left[0]]]
        best = same[np.argmax(scores[same])]
        first, last = int(start[best]), int(stop[best])
        place = best_place(first, last, int(windows.place[best]))
        places.append(place)
        clearest.append(float(scores[best]))
        left = left[((start[left] >= place) | (place >= stop[left])) & (left != best)]
    # Each at the best place between its neighbours, with the largest score of windows between these.
    found = sorted(zip(places, clearest, strict=True))
    ends = [0, *(place for place, _ in found), sample.size]
    for _ in range(2 if found else 0):
        former = list(ends)
        for number in range(1, len(ends) - 1):
            first, last = ends[number - 1], ends[number + 1]
            ends[number] = best_place(first, last, ends[number])
        if ends == former:
            break
    steps = []
    for number, (_, score) in enumerate(found, 1):
        first, place, last = ends[number - 1 : number + 2]
        here = (np.abs(windows.place - place) <= _SAME) & (windows.start >= first) & (windows.stop <= last)
        steps.append(_LevelStep(place, float(scores[here].max(initial=score))))
    return steps


def _best_place(values: Floats, guess: int) -> int:
    """The division with the least squares of both parts, whose outliers from both levels are limited."""
    limited, _ = _limited_to_levels(values, guess)
    return int(np.argmin(_squares(limited))) + 1


def _limited_to_levels(values: Floats, place: int) -> tuple[Floats, float]:
    """Values limited to the range of both levels and some standard deviations beyond; and the standard deviation."""
    medians = sorted((float(np.median(values[:place])), float(np.median(values[place:]))))
    spread = _robust_sd(
        np.concatenate([values[:place] - np.median(values[:place]), values[place:] - np.median(values[place:])])
    )
    beyond = _LIMIT_SD * spread
    return np.clip(values, medians[0] - beyond, medians[1] + beyond), spread


def _squares(values: Floats) -> Floats:
    """Sum of squares around the means of both parts, for each division into parts of at least one value."""
    n = values.size
    first = np.arange(1, n)
    sums = np.cumsum(values - values.mean())[:-1]
    whole = float(((values - values.mean()) ** 2).sum())
    return np.asarray(whole - sums**2 * (1 / first + 1 / (n - first)))


def _robust_sd(residuals: Floats) -> float:
    """Median absolute deviation from 0 in standard deviations; of many equal values, their mean absolute deviation."""
    if not residuals.size:
        return 0.0
    sizes = np.abs(residuals)
    return float(1.4826 * np.median(sizes)) or float(1.2533 * sizes.mean())


def _location(values: Floats) -> tuple[float, float]:
    """Mean with outliers limited, and the variance of the limited values."""
    if not values.size:
        return float("nan"), 0.0
    median = float(np.median(values))
    beyond = _LIMIT_SD * _robust_sd(values - median)
    limited = np.clip(values, median - beyond, median + beyond)
    return float(limited.mean()), float(limited.var())


# Sizes


def _describe(
    sample: Floats, steps: Sequence[_LevelStep], phi: float, limit: float
) -> tuple[tuple[ChangePoint, ...], Floats]:
    """The changes with their sizes and intervals, and the level at each value."""
    n = sample.size
    ramps = _ramps(sample, [step.place for step in steps], phi) if steps else []
    # Intervals are wider for any estimated dependence, a test for changes only for a clear one.
    estimated = _estimated_autocorrelation(sample) if steps else phi
    levels = np.empty(n)
    ends = [0, *(step.place for step in steps), n]
    for first, last in pairwise(ends):
        levels[first:last] = _location(sample[first:last])[0]
    points: list[ChangePoint] = []
    replaced: set[int] = set()
    for ramp in ramps:
        levels[ramp.first : ramp.last] = ramp.levels
        score = max(step.score for step in steps[ramp.step : ramp.step + ramp.steps])
        points.append(ramp.point(_p_value(score, n), score))
        replaced |= set(range(ramp.step, ramp.step + ramp.steps))
    points += [
        _size_change(sample, ends[number], step, ends[number + 2], estimated, limit, ramps)
        for number, step in enumerate(steps)
        if number not in replaced
    ]
    return tuple(sorted(points, key=lambda one: one.index)), levels


def _size_change(
    sample: Floats, first: int, step: _LevelStep, last: int, phi: float, limit: float, ramps: Sequence[_Ramp]
) -> ChangePoint:
    """A step with its size between the changes beside it."""
    # Values of a ramp beside it do not belong to its level.
    first = max([first, *(ramp.end for ramp in ramps if ramp.end <= step.place - _SIDES[0])])
    last = min([last, *(ramp.index for ramp in ramps if ramp.index >= step.place + _SIDES[0])])
    values, place = sample[first:last], step.place - first
    limited, _ = _limited_to_levels(values, place)
    squares = _squares(limited)
    parts = values[:place], values[place:]
    (before, _), (after, _) = (_location(part) for part in parts)
    # Squares around means of dependent values are too small.
    inflations = _mean_inflation(np.array([place, values.size - place], np.float64), phi)
    variance = max(float(squares[place - 1]) / max(values.size - float(inflations.sum()), 1.0), 0.0)
    run_on = (1 + phi) / (1 - phi)
    near = np.flatnonzero(squares - squares[place - 1] <= _PLACE_RATIO * variance * run_on) + 1
    near = near[(near >= 2) & (near <= values.size - 2)] if values.size > 4 else near
    ratio = _ratio(values, np.union1d(near, [place]), place, variance, phi, limit / step.score)
    return ChangePoint(
        index=step.place,
        end=step.place,
        between=(first + int(near.min(initial=place)), first + int(near.max(initial=place))),
        before=before,
        after=after,
        ratio=ratio,
        slope=None,
        p_value=_p_value(step.score, sample.size),
        score=step.score,
        n=values.size,
    )


def _ratio(values: Floats, near: Places, place: int, variance: float, phi: float, least: float) -> Interval:
    """Ratio of the levels, with an interval that covers those at all places near; `least`: threshold over score."""
    from scipy import special

    method = "conditional on the alarm, over the interval of the place"
    before, after = _location(values[:place])[0], _location(values[place:])[0]
    absent = Interval.absent(
        after / before if before else float("nan"), LEVEL, values.size, method, "the levels have no ratio"
    )
    if before * after <= 0:
        return absent
    free = max(values.size * (1 - phi) / (1 + phi) - 2, 1.0)
    quantile = -float(special.stdtrit(free, (1 - LEVEL) / 2))
    ends: list[float] = []
    for one in near if near.size <= 16 else near[np.linspace(0, near.size - 1, 16).astype(int)]:
        levels = _location(values[:one])[0], _location(values[one:])[0]
        if levels[0] * levels[1] <= 0:
            return absent
        sizes = np.array([one, values.size - one])
        # Standard error of the logarithm of the ratio, unless 0 is in the interval of a level.
        relative = variance * _mean_inflation(sizes.astype(np.float64), phi) / sizes / np.square(levels)
        if (relative * quantile**2 >= 1).any():
            return absent
        error = math.sqrt(float(relative.sum()))
        change = math.log(levels[1] / levels[0])
        ends += _conditional_ends(change, error, least, quantile)
    ratio = after / before
    # Without any variance, rounding alone would put the ratio outside.
    low, high = min(ratio, math.exp(min(ends))), max(ratio, math.exp(max(ends)))
    return Interval(ratio, low, high, LEVEL, values.size, method)


def _conditional_ends(change: float, error: float, least: float, quantile: float) -> tuple[float, float]:
    """Interval of a change that was reported because it exceeded a share `least` of its size.

    The estimate is normal with mean d and this standard error, given that its size exceeds the threshold; the ends
    are those d for which the estimate is at a quantile of that distribution.
    """
    from scipy import special

    if error == 0:
        return change, change
    size, scale = abs(change) / error, quantile / 1.96
    limit = size * min(least, 1.0)
    ends = change - quantile * error, change + quantile * error
    if size - limit > 4 * scale:
        return ends
    means = np.linspace(size - 8 * scale, size + 4 * scale, 481)
    above, below = special.ndtr((means - limit) / scale), special.ndtr((-limit - means) / scale)
    share = special.ndtr((means - size) / scale) / np.maximum(above + below, 1e-300)
    low, high = (float(np.interp(tail, share, means)) for tail in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    signed = sorted(math.copysign(1, change) * error * mean for mean in (low, high))
    # Selection can only have made the size larger: the far end stays.
    return min(signed[0], ends[0]), max(signed[1], ends[1])


# Gradual changes


@dataclass(frozen=True, eq=False)
class _Ramp:
    """A straight ramp between two levels, in the place of one or several steps."""

    step: int
    steps: int
    first: int
    last: int
    index: int
    end: int
    levels: Floats
    gain: float
    between: tuple[int, int]
    ratio: Interval
    slope: Interval

    def point(self, p_value: float, score: float) -> ChangePoint:
        """The ramp as a change."""
        before, after = float(self.levels[0]), float(self.levels[-1])
        n = self.last - self.first
        where = max(1, self.index)
        return ChangePoint(where, self.end, self.between, before, after, self.ratio, self.slope, p_value, score, n)


def _ramps(sample: Floats, places: Sequence[int], phi: float) -> list[_Ramp]:
    """The ramps that describe successive steps in one direction better than these, the best ones first."""
    ends = [0, *places, sample.size]
    levels = [_location(sample[first:last])[0] for first, last in pairwise(ends)]
    rises = np.sign(np.diff(levels))
    candidates: list[_Ramp] = []
    for first in range(len(places)):
        for last in range(first, min(len(places), first + _MOST_STEPS)):
            if (rises[first : last + 1] != rises[first]).any():
                break
            candidates += _best_ramp(sample, ends[first : last + 3], first, phi)
    chosen: list[_Ramp] = []
    for ramp in sorted(candidates, key=lambda one: -one.gain):
        taken = {number for one in chosen for number in range(one.step, one.step + one.steps)}
        if not taken & set(range(ramp.step, ramp.step + ramp.steps)):
            chosen.append(ramp)
    # Of two neighbours the later one begins where the earlier one ends.
    return sorted(chosen, key=lambda one: one.step)


def _best_ramp(sample: Floats, ends: Sequence[int], step: int, phi: float) -> list[_Ramp]:
    """The ramp that replaces the steps at all inner ends, if it describes the values better."""
    first, last = ends[0], ends[-1]
    values, steps = sample[first:last], len(ends) - 2
    if values.size < _GRADUAL:
        return []
    fitted = np.concatenate([np.full(b - a, _location(sample[a:b])[0]) for a, b in pairwise(ends)])
    residuals = values - fitted
    beyond = 3 * _robust_sd(residuals)
    limited = fitted + np.clip(residuals, -beyond, beyond)
    from_steps = float(((limited - fitted) ** 2).sum())
    worth = values.size * (1 - phi) / (1 + phi)
    grid = np.unique(np.linspace(0, values.size, _RAMP_PLACES).astype(int))
    starts, stops = _ramp_places(grid, grid)
    if not starts.size:
        return []
    best = int(np.argmin(_ramp_fits(limited, starts, stops)[0]))
    # Again with places nearer to each other.
    beside = np.unique(np.linspace(-grid[1], grid[1], _RAMP_PLACES).astype(int))
    finer = (np.unique(np.clip(one[best] + beside, 0, values.size)) for one in (starts, stops))
    starts, stops = map(np.concatenate, zip((starts, stops), _ramp_places(*finer), strict=True))
    squares, base, rise, moment = _ramp_fits(limited, starts, stops)
    best = int(np.argmin(squares))
    # Parameters: two a step, two places and the rise of a ramp.
    saved = (2 * steps - 3) * math.log(max(worth, 2.0))
    gain = worth * math.log(max(from_steps, 1e-300) / max(float(squares[best]), 1e-300)) + saved
    if gain <= (_FOR_A_RAMP[0] if steps == 1 else _FOR_A_RAMP[1]):
        return []
    variance = float(squares[best]) / max(values.size - 4, 1)
    near = worth * np.log(np.maximum(squares, 1e-300) / max(float(squares[best]), 1e-300)) <= _PLACE_RATIO
    errors = 1.96 * np.sqrt(variance * (1 + phi) / (1 - phi) / moment)
    runs = stops - starts
    method = "all ramps of a likelihood near the largest"
    slope = Interval(
        float(rise[best] / runs[best]),
        float(((rise - errors) / runs)[near].min()),
        float(((rise + errors) / runs)[near].max()),
        LEVEL,
        values.size,
        method,
    )
    low, high = ((rise + sign * errors) / base + 1 for sign in (-1, 1))
    estimate = float(rise[best] / base[best] + 1)
    if (base[near] > 0).all():
        ratio = Interval(estimate, float(low[near].min()), float(high[near].max()), LEVEL, values.size, method)
    else:
        ratio = Interval.absent(estimate, LEVEL, values.size, method, "the levels have no ratio")
    shape = np.clip((np.arange(values.size) - starts[best] + 1) / runs[best], 0, 1)
    ramp = _Ramp(
        step=step,
        steps=steps,
        first=first,
        last=last,
        index=first + int(starts[best]),
        end=first + int(stops[best]),
        levels=base[best] + rise[best] * shape,
        gain=gain,
        between=(first + int(starts[near].min()), first + int(starts[near].max())),
        ratio=ratio,
        slope=slope,
    )
    return [ramp]


def _ramp_places(starts: Places, stops: Places) -> tuple[Places, Places]:
    """All pairs of a start and a stop between which a ramp is not too short."""
    first, last = (grid.ravel() for grid in np.meshgrid(starts, stops, indexing="ij"))
    return first[last - first >= _GRADUAL], last[last - first >= _GRADUAL]


def _ramp_fits(values: Floats, starts: Places, stops: Places) -> tuple[Floats, Floats, Floats, Floats]:
    """Least squares of ramps: what is left, the level before, the rise, and the squares of the centred ramp."""
    places = np.arange(values.size)
    shapes = np.clip((places - starts[:, np.newaxis] + 1) / (stops - starts)[:, np.newaxis], 0, 1)
    means = shapes.mean(axis=1)
    centred = values - values.mean()
    moment = (shapes**2).sum(axis=1) - values.size * means**2
    products = shapes @ centred
    rise = products / moment
    squares = np.maximum(float((centred**2).sum()) - products * rise, 0.0)
    return squares, values.mean() - rise * means, rise, moment


# Spread


def _spread_changes(residuals: Floats, alpha: float, phi: float) -> Iterator[SpreadChange]:
    sizes = np.abs(residuals)
    windows = _list_test_windows(sizes, _SPREAD_SIDES)
    steps = _narrowest_first(sizes, windows, windows.scores(phi), threshold(sizes.size, alpha))
    ends = [0, *(step.place for step in steps), sizes.size]
    for step, first, last in zip(steps, ends, ends[2:], strict=False):
        before, after = _robust_sd(residuals[first : step.place]), _robust_sd(residuals[step.place : last])
        yield SpreadChange(step.place, before, after, _p_value(step.score, sizes.size))


# The two newest values


@dataclass(frozen=True)
class NewestShift:
    """Finding that the two newest runs are both at one end of all runs.

    Attributes:
        lower: whether they are at the lower end.
        ratio: mean of the two over the median of the runs before them.
        among: number of lowest, or highest, runs that they are among.
        n: number of all runs.
        chance: probability of this, at either end, for independent runs of one level.
    """

    lower: bool
    ratio: float
    among: int
    n: int
    chance: float

    def sentence(self) -> str:
        """The finding in words."""
        end = "lowest" if self.lower else "highest"
        return (
            f"the two newest runs are among the {self.among} {end} of {self.n} ({(self.ratio - 1) * 100:+.1f} %; "
            f"chance {self.chance * 100:.1f} % if nothing changed)"
        )


def newest_shift(values: ArrayLike, alpha: float = NEWEST_ALPHA) -> NewestShift | None:
    """Whether the two newest values are both among the lowest, or both among the highest.

    At the default level, 18 values are needed. docs/ci.md lists the changes that are found at each spread.

    Args:
        values: values in the order of time.
        alpha: probability of a false alarm for independent values of one level.

    Returns:
        The finding; None if they are not, if there are too few values, or if the values before the two are correlated.

    Example:
        >>> quiet = [100.2, 99.8, 100.1, 99.7, 100.4, 99.9, 100.3, 99.6, 100.0, 100.5] * 2
        >>> found = newest_shift([*quiet, 95.1, 94.8])
        >>> found.lower, found.among, found.n
        (True, 2, 22)
        >>> newest_shift([*quiet, 95.1, 99.9]) is None
        True
    """
    sample = validate_sample(values, 0, "the sequence")
    n = sample.size
    # The largest k with 2 k (k - 1) / (n (n - 1)) <= alpha.
    among = int((1 + np.sqrt(1 + 2 * alpha * n * (n - 1))) / 2) if n > _NEWEST else 0
    if among < _NEWEST:
        return None
    before, newest = sample[:-_NEWEST], sample[-_NEWEST:]
    # Equal values count against the finding.
    lower = int((before <= newest.max()).sum()) <= among - _NEWEST
    higher = int((before >= newest.min()).sum()) <= among - _NEWEST
    if lower == higher or _rank_autocorrelation(before) > _DEPENDENT:
        return None
    chance = 2 * among * (among - 1) / (n * (n - 1))
    return NewestShift(lower, float(newest.mean() / np.median(before)), among, n, chance)


def _rank_autocorrelation(values: Floats) -> float:
    """Autocorrelation of the ranks of successive values; 0 if all are equal."""
    ranks = values.argsort().argsort() - (values.size - 1) / 2
    whole = float((ranks * ranks).sum())
    return float((ranks[1:] * ranks[:-1]).sum()) / whole if whole else 0.0

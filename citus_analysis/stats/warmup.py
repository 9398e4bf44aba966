"""Samples in the order of time: autocorrelation, effective sample size, and the end of the warm-up.

References:
    Geyer, C. J. (1992). Practical Markov chain Monte Carlo. Statistical Science 7 (initial monotone sequence).
    White, K. P. (1997). An effective truncation heuristic for bias reduction in simulation output. Simulation 69;
    Spratt, S. C. (1998). Heuristics for the startup problem (MSER-5). M.S. thesis, University of Virginia.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.type_aliases import Floats
from citus_analysis.defaults import SKIP_FIRST
from citus_analysis.errors import InsufficientDataError, UnknownNameError, UsageError
from citus_analysis.stats._validate import validate_sample
from citus_analysis.texts.words import pluralize

#: Statements at the beginning of each session that are skipped by default: connection set-up and cold caches.
DEFAULT_SKIP: Final = SKIP_FIRST
_BATCH: Final = 5
#: The last five batches are no candidates for the cut; from this number on, a minimum can be in the second half.
_FEWEST_BATCHES: Final = 13
#: Numbers of lags of which autocorrelations are computed first; an even number, so that all pairs are complete. One
#: transform of a long sequence is much slower than many of short segments, whose data remain in the processor's cache.
_FIRST_LAGS: Final = (1_024, 16_384)


@dataclass(frozen=True, repr=False)
class EffectiveSampleSize(DisplayMixin):
    """The number of independent values that have the information of a correlated sequence about its mean.

    Attributes:
        n: values in the sequence.
        effective: n over the autocorrelation time; at most n.
        autocorrelation_time: 1 + twice the sum of the autocorrelations.
        lag1: autocorrelation at lag 1.
        warnings: caveats.
    """

    n: int
    effective: float
    autocorrelation_time: float
    lag1: float
    warnings: tuple[str, ...] = ()

    def __float__(self) -> float:
        return self.effective


@dataclass(frozen=True, eq=False, repr=False)
class WarmUp(DisplayMixin):
    """A sequence without its warm-up.

    Attributes:
        rule: name of the rule.
        cut: number of values cut from the start.
        kept: the other values.
        statistic: value of the rule's criterion at the cut; nan for a fixed count.
        warnings: caveats.
    """

    rule: str
    cut: int
    kept: Floats
    statistic: float
    warnings: tuple[str, ...] = ()


def compute_autocorrelation(x: ArrayLike) -> Floats:
    """Autocorrelations at the lags 0 .. n-1 (divisor n), by fast Fourier transform.

    Example:
        >>> compute_autocorrelation([1, 2, 3, 4, 5]).round(3).tolist()
        [1.0, 0.4, -0.1, -0.4, -0.4]
    """
    from scipy import fft

    sample = validate_sample(x, 2, "the sequence")
    size = fft.next_fast_len(2 * sample.size, real=True)
    spectrum = fft.rfft(sample - sample.mean(), size)
    # In place, because a sequence may be millions of values long.
    np.multiply(spectrum, np.conj(spectrum), out=spectrum)
    covariance = np.asarray(fft.irfft(spectrum, size, overwrite_x=True)[: sample.size], dtype=np.float64)
    if covariance[0] > 0:
        return np.asarray(covariance / covariance[0], dtype=np.float64)
    rho = np.zeros(sample.size)
    rho[0] = 1.0
    return rho


def estimate_effective_sample_size(x: ArrayLike) -> EffectiveSampleSize:
    """Effective size of a sequence in the order of time, for intervals of its mean.

    The autocorrelation time sums pairs of neighbouring autocorrelations while they are positive and falling
    (Geyer's initial monotone sequence). It is at least 1: anticorrelation does not count as a gain.

    Raises:
        InsufficientDataError: fewer than 4 values.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> estimate_effective_sample_size(rng.normal(size=1000)).effective > 800
        True
    """
    sample = validate_sample(x, 4, "the sequence")
    if np.ptp(sample) == 0:
        note = "all values are equal: they have no correlation"
        return EffectiveSampleSize(sample.size, float(sample.size), 1.0, 0.0, (note,))
    positive, lag1 = _sum_positive_pairs(sample)
    time = max(1.0, 2 * float(np.minimum.accumulate(positive).sum()) - 1)
    effective = sample.size / time
    notes = []
    if effective < 20:
        notes.append(f"{pluralize(sample.size, 'value')}, worth only {effective:.0f} independent: measure longer")
    return EffectiveSampleSize(sample.size, effective, time, lag1, tuple(notes))


def _sum_positive_pairs(sample: Floats) -> tuple[Floats, float]:
    """Sums of pairs of neighbouring autocorrelations before the first that is not positive; and the one at lag 1."""
    for lags in (*(lags for lags in _FIRST_LAGS if 4 * lags <= sample.size), 0):
        rho = compute_first_autocorrelations(sample, lags) if lags else compute_autocorrelation(sample)
        pairs = rho[: rho.size // 2 * 2].reshape(-1, 2).sum(axis=1)
        if (pairs <= 0).any():
            return pairs[: np.argmax(pairs <= 0)], float(rho[1])
    return pairs, float(rho[1])


def compute_first_autocorrelations(sample: Floats, lags: int) -> Floats:
    """Autocorrelations, as :func:`compute_autocorrelation` has them, of values not all equal at the lags 0 .. lags-1.

    The sequence is cut into segments of `lags` values. The products of a segment's values with those up to `lags` - 1
    places later are between it and itself, or between it and the next segment. The transform of the next segment,
    moved by `lags` of `2 lags` places, is its own with the sign of every second frequency changed.

    Example:
        >>> compute_first_autocorrelations(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), 2).round(3).tolist()
        [1.0, 0.4]
    """
    from scipy import fft

    segments = -(-sample.size // lags)
    values = np.zeros(segments * lags)
    np.subtract(sample, sample.mean(), out=values[: sample.size])
    spectra = fft.rfft(values.reshape(segments, lags), 2 * lags, axis=1)
    own = np.einsum("sf,sf->f", spectra.conj(), spectra)
    next_one = np.einsum("sf,sf->f", spectra[:-1].conj(), spectra[1:])
    next_one[1::2] *= -1
    covariance = fft.irfft(own + next_one, 2 * lags)[:lags]
    return np.asarray(covariance / covariance[0], dtype=np.float64)


def cut_first_k(x: ArrayLike, k: int = DEFAULT_SKIP) -> WarmUp:
    """Cut the first k values, the study's rule.

    Raises:
        UsageError: k is negative.
        InsufficientDataError: nothing would be left.

    Example:
        >>> cut_first_k([9, 8, 1, 1, 1], 2).kept.tolist()
        [1.0, 1.0, 1.0]
    """
    if k < 0:
        raise UsageError(f"cannot skip {k} values")
    sample = validate_sample(x, 1, "the sequence")
    if k >= sample.size:
        raise InsufficientDataError(f"skipping the first {k} of {sample.size} values leaves none")
    return WarmUp(f"first {k}", k, sample[k:], float("nan"))


def cut_by_mser5(x: ArrayLike) -> WarmUp:
    """Cut where the rest has the smallest squared standard error of its mean, over means of 5 values (MSER-5).

    A minimum in the second half means that the sequence has not settled; then at most half is cut, with a warning.

    With fewer than 65 values (13 batches) the minimum cannot be in the second half, so a sequence that has not settled
    cannot be recognised; a warning says so.

    Raises:
        InsufficientDataError: fewer than 10 batches of 5 values.

    Example:
        >>> import numpy as np
        >>> series = np.r_[np.linspace(50, 100, 40), 100 + np.tile([-1.0, 1, 0, 0.5, -0.5, 0.3], 60)]
        >>> cut_by_mser5(series).cut
        40
    """
    sample = validate_sample(x, 10 * _BATCH, "the sequence")
    batches = sample[: sample.size // _BATCH * _BATCH].reshape(-1, _BATCH).mean(axis=1)
    left = np.arange(batches.size, 0, -1)
    # Sums from the end; centring first avoids cancellation.
    centred = batches - batches[-1]
    sums = np.cumsum(centred[::-1])[::-1]
    squares = np.cumsum(centred[::-1] ** 2)[::-1]
    criterion = (squares - sums**2 / left) / left**2
    whole = int(np.argmin(criterion[:-_BATCH]))
    half = batches.size // 2
    best = int(np.argmin(criterion[: half + 1]))
    notes = ("the sequence has not settled in its first half: the cut is unreliable",) if whole > half else ()
    if batches.size < _FEWEST_BATCHES:
        short = f"{pluralize(sample.size, 'value')}: too few for MSER-5 to show whether the sequence has settled"
        notes = (f"{short} (at least {_FEWEST_BATCHES * _BATCH})",)
    return WarmUp("MSER-5", best * _BATCH, sample[best * _BATCH :], float(criterion[best]), notes)


def cut_warm_up(x: ArrayLike, rule: Literal["first-k", "mser-5", "none"] = "first-k", k: int = DEFAULT_SKIP) -> WarmUp:
    """Cut the warm-up by a named rule; the number of values cut is part of the result.

    Args:
        x: values in the order of time.
        rule: ``first-k`` (the study's rule and the default, with k = 5), ``mser-5`` or ``none``.
        k: number of values to cut, for ``first-k``.

    Raises:
        UnknownNameError: no such rule.
        InsufficientDataError: too few values for the rule.

    Example:
        >>> cut_warm_up(range(10)).rule, cut_warm_up(range(10)).cut
        ('first 5', 5)
    """
    if rule == "first-k":
        return cut_first_k(x, k)
    if rule == "mser-5":
        return cut_by_mser5(x)
    if rule == "none":
        return WarmUp("none", 0, validate_sample(x, 0, "the sequence"), float("nan"))
    raise UnknownNameError("warm-up rule", rule, ["first-k", "mser-5", "none"])

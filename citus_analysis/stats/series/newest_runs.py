"""The two newest runs of a sequence: whether both lie at one end of all runs so far.

A change of level is found after about twelve further runs (`change_points.py`). Two runs are enough only if the change
is large relative to the spread; this test uses their ranks. If all orders of n runs are equally likely, the last two
are both among the k lowest, or both among the k highest, with probability 2 k (k - 1) / (n (n - 1)) for any
distribution; k is the largest number for which this is at most the level. Correlated runs violate the assumption: if
the earlier runs are, there is no result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from citus_analysis.core.array_types import Floats
from citus_analysis.stats._validate import as_sample

#: Probability of a false alarm; together with that of `find_changes` at most 2 % (docs/ci.md).
NEWEST_ALPHA: Final = 0.014
#: Autocorrelation of the ranks of successive runs above which there is no result.
_DEPENDENT: Final = 0.25
_NEWEST: Final = 2


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
    sample = as_sample(values, 0, "the sequence")
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

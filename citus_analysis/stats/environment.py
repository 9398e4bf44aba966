"""Whether the machines were slower during the runs of one side of a comparison: the change, or its surroundings?

The speed of the machines is `runs.machine_speed`, by the fixed work of the runner's canary beside each run. Where it
differs between the sides of a comparison, in the direction of the difference and by half of it or more, the difference
is not decided for the change, whatever its own verdict.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.stats.verdicts import Comparison, compare

__all__ = ["Environment", "judge_environment"]

#: Column of the runs with the speed of their machines.
MACHINE_SPEED: Final = "machine_speed"
#: A machine is said to be slower or faster from this difference on.
_LEAST_CHANGE: Final = 0.005
#: From this part of a difference on, unequal machines may explain it.
_MAY_EXPLAIN: Final = 0.5


@dataclass(frozen=True)
class Environment:
    """The machines during the runs of one side of a comparison, against those of the other.

    Attributes:
        speed: the speed of the machines of both sides.
        difference_percent: of the compared metric.
        may_explain: whether the difference of the speeds is in the direction of that of the runs, and at least half of
            it.
    """

    speed: Comparison
    difference_percent: float
    may_explain: bool

    def sentence(self) -> str:
        """What the machines were, and whether the difference of the runs is decided for the change."""
        ratio = self.speed.ratio
        word = "slower" if ratio.estimate < 1 else "faster"
        difference = f"the difference of {abs(self.difference_percent):.1f} %"
        judged = (
            f": {difference} is not decided for the change"
            if self.may_explain
            else f", which does not explain {difference}"
        )
        return (
            f"the machines were {abs(100 * (ratio.estimate - 1)):.1f} % {word} during the runs of {self.speed.label_a} "
            f"(canary {ratio.estimate:.3f}, {ratio.low:.3f} to {ratio.high:.3f}){judged}"
        )


def judge_environment(plain: Comparison, sides: tuple[pl.DataFrame, pl.DataFrame], level: float) -> Environment | None:
    """The speed of the machines of both sides; None where it is not known of all runs, or does not differ.

    Args:
        plain: the comparison.
        sides: the runs of `a` and of `b`, with `machine_speed`.
        level: confidence level.

    Example:
        >>> plain = compare([94.0, 93, 93.5], [100.0, 101, 99.5])
        >>> sides = [pl.DataFrame({"machine_speed": values}) for values in ([0.93, 0.94, 0.92], [1.0, 1.01, 1.0])]
        >>> print(judge_environment(plain, (sides[0], sides[1]), 0.95).sentence())
        the machines were 7.3 % slower during the runs of a (canary 0.927, 0.907 to 0.948): the difference of 6.7 % is \
not decided for the change
    """
    if not plain.ratio.exists or any(MACHINE_SPEED not in side.columns for side in sides):
        return None
    a, b = (np.asarray(side[MACHINE_SPEED].cast(pl.Float64).fill_null(np.nan).to_numpy()) for side in sides)
    if min(a.size, b.size) < 2 or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return None
    speed = compare(a, b, level=level, label_a=plain.label_a, label_b=plain.label_b, metric=MACHINE_SPEED)
    change = math.log(speed.ratio.estimate)
    if not speed.p_difference <= 1 - level or abs(change) < _LEAST_CHANGE:
        return None
    gain = math.log(plain.ratio.estimate) * (-1 if plain.higher_is_better is False else 1)
    return Environment(speed, plain.change_percent, gain * change > 0 and abs(change) >= _MAY_EXPLAIN * abs(gain))

"""Changes of kind in a sequence: executions of which each has one kind, such as the shape of its plan.

**Whether.** If nothing but chance decides the kind, every order of the sequence is equally likely. Two statistics look
for orders that are not: the largest standardised difference between what precedes a place and the whole (a step), and
the number of runs of equal kinds (kinds that come together, as of a change that was reverted). Both have exact
distributions over all orders; the smaller of their p-values is doubled. Alternating kinds are no change. With several
kinds, each of the frequent ones is tested against all others, by Bonferroni.

**Where.** The segments whose kinds have the highest likelihood, with a price for each segment (Bayesian information
criterion).

References:
    Wald, A. and Wolfowitz, J. (1940). On a test whether two samples are from the same population. Annals of
    Mathematical Statistics 11.
    Pettitt, A. N. (1980). A simple cumulative sum type statistic for the change-point problem with zero-one
    observations. Biometrika 67.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from citus_analysis.core.type_aliases import Bools, Floats, Integers

#: Kinds that are tested, the most frequent ones.
_MOST_KINDS: Final = 8
#: Of longer sequences every other, third ... value is tested, and segments begin at every other, third ... run.
_MOST_TESTED: Final = 4_000
_MOST_RUNS: Final = 1_500


def compute_order_p_value(kinds: Sequence[int]) -> float:
    """Probability that kinds in an order of chance are as far apart in time as these; 1 for fewer than two kinds.

    Args:
        kinds: kind of each value in the order of time, as numbers.

    Example:
        >>> round(compute_order_p_value([0, 0, 0, 0, 0, 1, 1, 1, 1, 1]), 4), compute_order_p_value([0, 1] * 5)
        (0.0159, 1.0)
    """
    values = np.asarray(kinds)[:: -(-len(kinds) // _MOST_TESTED) or 1]
    counts = Counter(values.tolist())
    if len(counts) < 2:
        return 1.0
    # With two kinds, both have the same p-value.
    tested = [kind for kind, _ in counts.most_common(_MOST_KINDS)][: None if len(counts) > 2 else 1]
    single = [min(_compute_step_p_value(values == kind), _compute_runs_p_value(values == kind)) for kind in tested]
    return min(1.0, 2 * len(tested) * min(single))


def _compute_step_p_value(marked: Bools) -> float:
    """Probability over all orders that the largest standardised difference before a place is at least the observed."""
    n, m = marked.size, int(marked.sum())
    places = np.arange(1, n)
    scale = places * (n - places)
    observed = float((((np.cumsum(marked)[:-1] - places * m / n) ** 2) / scale).max()) * (1 - 1e-9)
    counts = np.arange(m + 1)
    # Probability of each number of marked values so far, of the orders that have not reached the observed value.
    chance: Floats = np.zeros(m + 1)
    chance[0] = 1.0
    reached = 0.0
    for place in range(1, n):
        left = n - place + 1
        marked_next = chance * (m - counts) / left
        chance = chance * np.clip(n - m - (place - 1 - counts), 0, None) / left
        chance[1:] += marked_next[:-1]
        far = (counts - place * m / n) ** 2 >= observed * place * (n - place)
        reached += float(chance[far].sum())
        chance[far] = 0.0
    return min(reached, 1.0)


def _compute_runs_p_value(marked: Bools) -> float:
    """Probability over all orders of at most as many runs (Wald and Wolfowitz)."""
    n, m = marked.size, int(marked.sum())
    runs = 1 + int((marked[1:] != marked[:-1]).sum())
    whole = _log_choose(n, m)
    total = 0.0
    for r in range(2, runs + 1):
        half = r // 2
        pairs = [(half - 1, half - 1)] * 2 if r % 2 == 0 else [(half, half - 1), (half - 1, half)]
        total += sum(math.exp(_log_choose(m - 1, a) + _log_choose(n - m - 1, b) - whole) for a, b in pairs)
    return min(total, 1.0)


def _log_choose(n: int, k: int) -> float:
    if not 0 <= k <= n:
        return -math.inf
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def find_segments(kinds: Sequence[int]) -> list[tuple[int, int]]:
    """Segments of a sequence in which kinds are mixed alike: first place and the place after the last, from 0.

    Args:
        kinds: kind of each value in the order of time, as numbers from 0.

    Example:
        >>> find_segments([0] * 9 + [1] * 8), find_segments([0, 1] * 8)
        ([(0, 9), (9, 17)], [(0, 16)])
    """
    values = np.asarray(kinds, dtype=np.int64)
    n, number = values.size, len(set(values.tolist()))
    starts = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist()]
    starts = starts[:: -(-len(starts) // _MOST_RUNS)]
    edges = np.array([*starts, n])
    counts = np.stack([np.concatenate([[0], np.cumsum(values == kind)])[edges] for kind in np.unique(values)], axis=1)
    price = (0.5 * (number - 1) + 1) * math.log(n)
    best: Floats = np.zeros(edges.size)
    previous = np.zeros(edges.size, dtype=np.int64)
    for end in range(1, edges.size):
        costs = best[:end] + _compute_entropies(counts[end] - counts[:end]) + price
        previous[end] = int(costs.argmin())
        best[end] = costs[previous[end]]
    found: list[tuple[int, int]] = []
    end = edges.size - 1
    while end:
        found.append((int(edges[previous[end]]), int(edges[end])))
        end = int(previous[end])
    return found[::-1]


def _compute_entropies(counts: Integers) -> Floats:
    """Minus the largest log-likelihood of each row of counts."""
    totals = counts.sum(axis=1, keepdims=True)
    shares = counts / totals
    logs: Floats = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    found: Floats = -(logs * counts).sum(axis=1)
    return found


def count_missing_values(before: int, after: int, alpha: float) -> int:
    """Values that are still to come, all of the new kind, until a change of kind is more than chance.

    Args:
        before: values of the old kind.
        after: values of the new kind so far.
        alpha: p-value that is to be reached.

    Example:
        >>> count_missing_values(5, 3, 0.05)
        1
    """
    more = 0
    while 4 / math.comb(before + after + more, before) > alpha and more < _MOST_TESTED:
        more += 1
    return more

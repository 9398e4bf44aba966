"""Balance of load over nodes: Jain's index, and a multinomial test against an even split.

References:
    Jain, R., Chiu, D. and Hawe, W. (1984). A quantitative measure of fairness and discrimination. DEC-TR-301.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from citus_analysis.errors import UsageError
from citus_analysis.stats.estimate._student import chi2_tail

#: Most ways to divide the counts for which the test enumerates all of them.
_EXACT_UP_TO: Final = 20_000


@dataclass(frozen=True)
class Balance:
    """The balance of counts over nodes.

    Attributes:
        nodes: names of the nodes.
        counts: count of each node.
        jain: Jain's index, from 1/k (one of k nodes has all) to 1 (even).
        p_value: p-value of the multinomial test against an even split.
        n: sum of the counts.
        method: method of the p-value.
    """

    nodes: tuple[str, ...]
    counts: tuple[int, ...]
    jain: float
    p_value: float
    n: int
    method: str

    def __str__(self) -> str:
        shares = ", ".join(f"{count} on node {node}" for node, count in zip(self.nodes, self.counts, strict=True))
        return f"{shares} (Jain's index {self.jain:.2f}, p = {self.p_value:.2g}, {self.method})"


def jain_index(loads: ArrayLike) -> float:
    """Jain's index of fairness: (sum x)^2 / (k sum x^2).

    Raises:
        UsageError: no load is positive, or one is negative.

    Example:
        >>> jain_index([5, 5, 5]), round(jain_index([9, 0, 0]), 3)
        (1.0, 0.333)
    """
    values = np.asarray(loads, float)
    if values.size == 0 or values.min() < 0 or values.max() <= 0:
        raise UsageError("Jain's index needs loads that are not negative, and one that is positive")
    return float(values.sum() ** 2 / (values.size * (values**2).sum()))


def balance(counts: Sequence[int], nodes: Sequence[str]) -> Balance:
    """The balance of counts of independent items (sessions, statements) over nodes.

    The test is exact if the counts can be divided in at most 20,000 ways, otherwise Pearson's chi-squared test.

    Raises:
        UsageError: fewer than two nodes, or no count.

    Example:
        Eight sessions are all on the first of three nodes; two other outcomes are equally unlikely.

        >>> one_sided = balance([8, 0, 0], ["0", "1", "2"])
        >>> one_sided.p_value == 3 / 3**8
        True
        >>> print(one_sided)
        8 on node 0, 0 on node 1, 0 on node 2 (Jain's index 0.33, p = 0.00046, exact multinomial)
    """
    if len(counts) < 2 or len(counts) != len(nodes):
        raise UsageError("balance needs the counts of at least two nodes")
    total, k = sum(counts), len(counts)
    if math.comb(total + k - 1, k - 1) <= _EXACT_UP_TO:
        p_value, method = _exact(counts), "exact multinomial"
    else:
        expected = total / k
        statistic = sum((count - expected) ** 2 for count in counts) / expected
        p_value, method = chi2_tail(statistic, k - 1), "chi-squared"
    return Balance(tuple(nodes), tuple(counts), jain_index(counts), p_value, total, method)


def _exact(counts: Sequence[int]) -> float:
    """Summed probability of all divisions that are at most as likely as the observed one."""
    seen, total, parts = _ways(counts), sum(counts), len(counts)
    likely = 0
    for shares in _divisions(total, parts, total):
        ways = _ways(shares)
        if ways <= seen:
            # The number of orders in which the nodes can have these shares.
            likely += ways * math.factorial(parts) // math.prod(map(math.factorial, Counter(shares).values()))
    return float(likely / parts**total)


def _ways(counts: Sequence[int]) -> int:
    return math.factorial(sum(counts)) // math.prod(map(math.factorial, counts))


def _divisions(total: int, parts: int, most: int) -> Iterator[tuple[int, ...]]:
    """All divisions of a total into parts in descending order, none above `most`."""
    if parts == 1:
        yield (total,)
        return
    for first in range(min(total, most), -(-total // parts) - 1, -1):
        for rest in _divisions(total - first, parts - 1, first):
            yield (first, *rest)

"""Totals that a load generator prints, recomputed from the parts that it prints as well.

A contradiction becomes a sentence of `clients.notes`; which of the numbers is wrong is not known.

Example:
    >>> contradictions([("committed", 100, [60, 39], 0.5), ("tpmC", 10.0, [10.04], 0.05)])
    'committed: 100 printed, but its parts add up to 99'
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from citus_analysis.texts.number_text import readable

__all__ = ["Total", "contradictions"]

#: What is printed, its value, the values of its parts, and the difference that rounding explains.
Total = tuple[str, float | None, Iterable[float | None], float]


def contradictions(totals: Iterable[Total]) -> str | None:
    """The totals that are not the sums of their parts, in words; None if all are, or if a number is not known."""
    said = []
    for what, total, values, tolerance in totals:
        parts = list(values)
        if total is None or not parts or any(part is None for part in parts):
            continue
        added = math.fsum(part for part in parts if part is not None)
        # A total that is not a number (NaN) contradicts, too.
        if not abs(total - added) <= tolerance:
            said.append(f"{what}: {_exact(total)} printed, but its parts add up to {_exact(added)}")
    return "; ".join(said) or None


def _exact(value: float) -> str:
    """All digits of a count; digits that matter of another number."""
    return f"{value:.0f}" if float(value).is_integer() else readable(value)

"""Numbers as people read them."""

from __future__ import annotations

import math

__all__ = ["readable"]


def readable(value: float) -> str:
    """About four significant digits, thousands separated, no exponent where it can be avoided.

    Example:
        >>> [readable(v) for v in (62741.3, 1234.56, 98.7654, 0.0277285, 0.0001044, float("inf"))]
        ['62,741', '1,235', '98.77', '0.02773', '0.0001044', 'inf']
    """
    if not math.isfinite(value):
        return f"{value}"
    if abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.4g}"

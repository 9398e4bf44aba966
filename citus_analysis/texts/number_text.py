"""Numbers for readers: in sentences and text tables, in columns of HTML tables, in frames on a terminal.

Example:
    >>> readable(62741.3), aligned(62741.3), in_full(62741.3)
    ('62,741', '62\u202f741', '62741.3')
"""

from __future__ import annotations

import math
from typing import Final

__all__ = ["MISSING", "THIN_SPACE", "aligned", "in_full", "readable"]

#: Cell of an HTML table without a value.
MISSING: Final = "–"
THIN_SPACE: Final = "\u202f"
_DIGITS: Final = 4


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
    return f"{value:.{_DIGITS}g}"


def aligned(value: float) -> str:
    """Four significant digits with trailing zeros, thousands set apart by thin spaces: for columns of HTML tables.

    Example:
        >>> [aligned(v) for v in (0.012345, 12.3, 1234567.0, -2.0, float("nan"))]
        ['0.01235', '12.30', '1\u202f234\u202f567', '−2.000', '–']
    """
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size and (size < 1e-4 or size >= 1e12):
        return f"{value:.{_DIGITS - 1}e}"
    decimals = 0 if size == 0 else max(0, _DIGITS - 1 - math.floor(math.log10(size)))
    return f"{value:,.{decimals}f}".replace(",", THIN_SPACE).replace("-", "−")


def in_full(value: float) -> str:
    """Six significant digits, one decimal from a million on; without separators, so that programs can read it too.

    Example:
        >>> [in_full(v) for v in (0.1 + 0.2, 62741.3, 12345678.25)]
        ['0.3', '62741.3', '12345678.2']
    """
    return f"{value:.6g}" if abs(value) < 1e6 or not math.isfinite(value) else f"{value:.1f}"

"""Units as they appear in column names, and conversions between them.

A quantity's unit is the last part of its name (``duration_us``, ``throughput_ops_s``, ``read_kb_s``).
This module is the only place that knows which suffix means what.

Example:
    >>> unit_of("duration_us")
    'µs'
    >>> unit_of("throughput_ops_s")
    'operations/s'
    >>> unit_of("node") is None
    True
"""

from __future__ import annotations

from typing import Final

from citus_analysis.shown import public

__all__ = ["SUFFIX_UNITS", "US_PER_MS", "US_PER_S", "label", "unit_of"]

__dir__ = public(__all__)

US_PER_MS: Final = 1_000
US_PER_S: Final = 1_000_000

#: Name suffix -> printable unit. Longest suffix wins.
SUFFIX_UNITS: Final[dict[str, str]] = {
    "_ops_s": "operations/s",
    "_per_s": "1/s",
    "_kb_s": "kB/s",
    "_us": "µs",
    "_ms": "ms",
    "_s": "s",
    "_percent": "%",
    "_bytes": "B",
    "_kb": "kB",
    "_ppm": "ppm",
}
_BY_LENGTH: Final = sorted(SUFFIX_UNITS, key=len, reverse=True)


def unit_of(column: str) -> str | None:
    """The printable unit that a column's name ends in, or None for a unitless column."""
    return next((SUFFIX_UNITS[s] for s in _BY_LENGTH if column.endswith(s)), None)


def label(column: str) -> str:
    """A readable axis or header label for a column.

    Example:
        >>> label("latency_us")
        'latency [µs]'
        >>> label("throughput_ops_s")
        'throughput [operations/s]'
    """
    suffix = next((s for s in _BY_LENGTH if column.endswith(s)), None)
    if suffix is None:
        return column.replace("_", " ")
    return f"{column.removesuffix(suffix).replace('_', ' ')} [{SUFFIX_UNITS[suffix]}]"

"""What a printed number allows: the range of values that could stand behind its digits.

A paper that prints 2.3 says that the value lies between 2.25 and 2.4 (rounded or cut off). Every check of the
audit computes with such ranges, so that it never calls a rounding an error.

Example:
    >>> stated_range(2.3, "2.3")
    Range(low=2.25, high=2.4)
    >>> stated_range(1.75e6, "1.75M+")
    Range(low=1745000.0, high=1760000.0)
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

__all__ = ["APPROXIMATE", "Range", "resolution", "show", "stated_range"]

#: Mark in front of a stated number that the publication itself calls an approximation.
APPROXIMATE: Final = "~"

_DIGITS: Final = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][+-]?\d+)?")
#: Digits that count even where they are zeros: nobody prints 1000 for 800.
_SURE_DIGITS: Final = 2


@dataclass(frozen=True)
class Range:
    """An interval of positive values that a statement allows; arithmetic widens it."""

    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> Range:
        """The range of a counted number."""
        return cls(value, value)

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Range) -> Range:
        return Range(self.low - other.high, self.high - other.low)

    def __mul__(self, other: Range) -> Range:
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Range(min(ends), max(ends))

    def __truediv__(self, other: Range) -> Range:
        if other.low <= 0 <= other.high:
            return Range(-math.inf, math.inf)
        return self * Range(1 / other.high, 1 / other.low)

    def scaled(self, factor: float) -> Range:
        """The range in another unit."""
        return self * Range.exact(factor)

    def overlaps(self, other: Range) -> bool:
        """Some value satisfies both statements."""
        slack = 1e-9 * max(abs(self.high), abs(other.high))
        return self.low <= other.high + slack and other.low <= self.high + slack


def resolution(value: float, stated: str) -> float:
    """The step between two neighbouring numbers of the printed precision, in the unit of `value`.

    Zeros at the end of a whole number are taken for rounding, but two digits always count. An approximation
    (``~`` in front) has only the digits before its zeros.

    Example:
        >>> resolution(16_600, "16,600"), resolution(9_000, "9,000"), resolution(9_000, "~9,000")
        (100.0, 100.0, 1000.0)
        >>> resolution(93_519, "93.519")
        1.0
    """
    found = _DIGITS.search(stated)
    if found is None:
        return 10.0 ** math.floor(math.log10(abs(value))) if value and APPROXIMATE in stated else 0.0
    text = found[0].replace(",", "").lower()
    mantissa, _, exponent = text.partition("e")
    whole, _, decimals = mantissa.partition(".")
    if not float(text) or not value:
        return 10.0 ** -len(decimals)
    scale = float(f"{abs(value) / float(text):.9g}") * 10.0 ** int(exponent or 0)
    if decimals:
        return scale * 10.0 ** -len(decimals)
    zeros = len(whole) - len(whole.rstrip("0"))
    if APPROXIMATE not in stated:
        zeros = min(zeros, max(len(whole) - _SURE_DIGITS, 0))
    return scale * 10.0**zeros


def stated_range(value: float, stated: str, step: float | None = None) -> Range:
    """The values that print as `stated`, whether the publication rounds or cuts off.

    Args:
        value: the number.
        stated: its text.
        step: printed precision where it is known better than from this text alone (from the column it stands in).
    """
    step = resolution(value, stated) if step is None else step
    away = math.copysign(1, value)
    ends = value - away * step / 2, value + away * step
    return Range(min(ends), max(ends))


def show(value: float) -> str:
    """A number for a sentence: thousands grouped, four digits where it is small.

    Example:
        >>> show(72_727.3), show(0.76), show(5.0)
        ('72,727', '0.76', '5')
    """
    if not math.isfinite(value):
        return "unbounded"
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"

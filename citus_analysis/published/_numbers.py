"""The range of values that a printed number can represent.

A printed 2.3 means a value between 2.25 and 2.4 (rounded or truncated). All checks of the audit compute with such
ranges, so that rounding is never reported as an error.

Example:
    >>> stated_range(2.3, "2.3")
    Range(low=2.25, high=2.4)
    >>> stated_range(1.75e6, "1.75M+")
    Range(low=1745000.0, high=1760000.0)
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

#: Mark in front of a stated number that the publication itself calls an approximation.
APPROXIMATE: Final = "~"

_DIGITS: Final = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][+-]?\d+)?")
#: Leading digits that count even if they are zeros: 800 is not printed as 1000.
_SURE_DIGITS: Final = 2


@dataclass(frozen=True)
class Range:
    """An interval of positive values that a statement allows; arithmetic widens it.

    Attributes:
        low: the smallest value.
        high: the largest value.
        printed: what the numbers give as they are printed. It is not the middle of the ends, because a number may be
            cut off as well as rounded.

    Example:
        >>> two, one = stated_range(275_000, "~275000"), stated_range(250_000, "~250000")
        >>> round((two / one).printed, 6), round((two / one).low, 3), round((two / one).high, 3)
        (1.1, 1.056, 1.127)
    """

    low: float
    high: float
    printed: float = field(default=math.nan, repr=False, compare=False)

    def __post_init__(self) -> None:
        if math.isnan(self.printed):
            object.__setattr__(self, "printed", (self.low + self.high) / 2)

    @classmethod
    def exact(cls, value: float) -> Range:
        """The range of a counted number."""
        return cls(value, value, value)

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high, self.printed + other.printed)

    def __sub__(self, other: Range) -> Range:
        return Range(self.low - other.high, self.high - other.low, self.printed - other.printed)

    def __mul__(self, other: Range) -> Range:
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Range(min(ends), max(ends), self.printed * other.printed)

    def __truediv__(self, other: Range) -> Range:
        if other.low <= 0 <= other.high:
            return Range(-math.inf, math.inf)
        return self * Range(1 / other.high, 1 / other.low, 1 / other.printed)

    def __neg__(self) -> Range:
        return Range(-self.high, -self.low, -self.printed)

    def scaled(self, factor: float) -> Range:
        """The range in another unit."""
        return self * Range.exact(factor)

    def overlaps(self, other: Range) -> bool:
        """Whether a value satisfies both statements."""
        slack = 1e-9 * max(abs(self.high), abs(other.high))
        return self.low <= other.high + slack and other.low <= self.high + slack


def significant_digits(stated: str) -> int:
    """Digits of a printed number, from the first to the last that is not zero.

    Example:
        >>> significant_digits("12,300"), significant_digits("0.0450"), significant_digits("12300.0")
        (3, 2, 3)
    """
    found = _DIGITS.search(stated)
    if found is None:
        return 0
    mantissa = re.split("[eE]", found[0])[0]
    return len(re.sub(r"[,.]", "", mantissa).strip("0"))


def column_resolution(values: Sequence[float], stated: Sequence[str]) -> list[float]:
    """The step of the last printed digit of each number of a column.

    Numbers of a column are rounded to the same step (2,500 beside 5,568 is not rounded to hundreds), or to the same
    number of significant digits (12,300 beside 456 may be). Zeros at the end count as rounding if both rules allow it.

    Args:
        values: the numbers.
        stated: their texts.

    Example:
        >>> column_resolution([2_500, 5_568], ["2,500", "5,568"])
        [1.0, 1.0]
        >>> column_resolution([12_300, 9_870, 456], ["12300", "9870", "456"])
        [100.0, 10.0, 1.0]
    """
    most = max(_SURE_DIGITS, *(significant_digits(text) for text in stated), 0)
    padded = _zeros_are_printed(stated)
    texts = [text if padded else _TRAILING.sub("", text) for text in stated]
    own = [resolution(value, text) for value, text in zip(values, texts, strict=True)]
    finest = min((step for step in own if step), default=0.0)
    # A number printed with an exponent lacks the zeros at its end, which may have been significant.
    last = [
        0.0 if "e" in text.lower() else resolution(value, text, zeros=True)
        for value, text in zip(values, texts, strict=True)
    ]
    return [
        step if APPROXIMATE in text else min(step, max(finest, _step_at(value, most), digit))
        for value, text, step, digit in zip(values, texts, own, last, strict=True)
    ]


def _step_at(value: float, digits: int) -> float:
    """The step of the last of `digits` significant digits of a number."""
    return 10.0 ** (math.floor(math.log10(abs(value))) + 1 - digits) if value else 0.0


#: `.0` at the end, as in whole numbers of floating-point columns; `.00` is printed with two decimals.
_TRAILING: Final = re.compile(r"(?<=\d)[.]0(?![\deE])")


def _zeros_are_printed(stated: Sequence[str]) -> bool:
    """Whether zeros after the point are significant: all numbers of the column have the same number of decimals."""
    decimals = {len(text.partition(".")[2]) for text in stated}
    return len(decimals) == 1 and not all(_TRAILING.search(text) for text in stated)


def resolution(value: float, stated: str, *, zeros: bool = False) -> float:
    """The step between two neighbouring numbers of the printed precision, in the unit of `value`.

    Zeros at the end of a whole number count as rounding, but two digits are always significant. An approximation
    (``~`` in front) has only the digits before its zeros.

    Args:
        value: the number.
        stated: its text.
        zeros: whether zeros at the end are significant.

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
    if decimals or zeros:
        return scale * 10.0 ** -len(decimals)
    rounded = len(whole) - len(whole.rstrip("0"))
    if APPROXIMATE not in stated:
        rounded = min(rounded, max(len(whole) - _SURE_DIGITS, 0))
    return scale * 10.0**rounded


def stated_range(value: float, stated: str, step: float | None = None) -> Range:
    """The values that print as `stated`, by rounding or truncation.

    Args:
        value: the number.
        stated: its text.
        step: printed precision, if the number's column shows it better than this text alone.
    """
    step = resolution(value, stated) if step is None else step
    away = math.copysign(1, value)
    ends = value - away * step / 2, value + away * step
    return Range(min(ends), max(ends), value)

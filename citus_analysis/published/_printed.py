"""Numbers as they are printed, and the values that they may stand for, in exact arithmetic."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

from citus_analysis.published._rows import Number
from citus_analysis.texts.metric_names import Metric

_DIGITS: Final = re.compile(r"-?\d+(?:[ ,]\d{3})*(?:\.\d+)?(?:[eE][+-]?\d+)?")


def decimal_of(text: str | None) -> Decimal | None:
    """The first number of a text, with the digits that it has; None if there is none.

    Example:
        >>> decimal_of("12,300.50 ops/s"), decimal_of("none")
        (Decimal('12300.50'), None)
    """
    found = _DIGITS.search(text or "")
    return Decimal(re.sub("[ ,]", "", found[0])) if found else None


def unit_of(metric: Metric) -> Fraction:
    """The unit of a metric in base units, exactly.

    Example:
        >>> from citus_analysis.texts.metric_names import metric_of
        >>> unit_of(metric_of("latency_ms"))
        Fraction(1, 1000)
    """
    return Fraction(repr(metric.factor))


@dataclass(frozen=True)
class Printed:
    """A printed number.

    Attributes:
        text: as it is printed.
        value: the number.
        low: the smallest value that is printed so: rounded, half a unit of the last digit below.
        high: the largest: truncated, a whole unit above. A number may be rounded or truncated.
    """

    text: str
    value: Fraction
    low: Fraction
    high: Fraction

    @classmethod
    def of(cls, number: Number, mean: Number, *, is_decimal: bool = False) -> Printed:
        """A number of a table, in the unit of the mean.

        Trailing zeros of 270000 are no digits if its column is printed in thousands.

        Args:
            number: the number.
            mean: the mean that it belongs to, or the mean itself.
            is_decimal: whether the zero of `12.0` is a digit; a whole number of a floating-point column has one too.
        """
        written = decimal_of(number.stated)
        # A zero is a number, too.
        written = Decimal(repr(number.value / number.metric.factor)) if written is None else written
        exponent = written.as_tuple().exponent
        unit = Fraction(10) ** (exponent if isinstance(exponent, int) else 0)
        width = Fraction(number.range.high - number.range.low) / Fraction(number.metric.factor) * Fraction(2, 3)
        # A multiple such as 1.6M, and zeros that are no digits, make the unit larger than the text's last digit.
        times = number.value / number.metric.factor / float(written) if written else 1.0
        # A power of ten, exactly: 0.38 is no sum of powers of two.
        scale = Fraction(f"{times:.9g}")
        own = unit * abs(scale)
        unit = own if is_decimal and unit < 1 else max(own, width.limit_denominator(10**9))
        value = Fraction(written) * scale
        # A deviation without a unit is printed in that of the mean.
        to_mean = unit_of(number.metric) / unit_of(mean.metric) if number.metric.dimension else Fraction(1)
        ends = (value, value - unit / 2, value + unit)
        return cls(number.stated, *(end * to_mean for end in ends))

    @property
    def width(self) -> float:
        """Width of the range of values."""
        return float(self.high - self.low)

    def allows(self, value: Fraction) -> bool:
        """Whether a value may be printed so.

        Example:
            >>> ten = Printed("10", Fraction(10), Fraction(19, 2), Fraction(11))
            >>> ten.allows(Fraction(19, 2)), ten.allows(Fraction(11))
            (True, False)
        """
        return self.low <= value < self.high

    def allows_root(self, square: Fraction) -> bool:
        """Whether the root of a value may be printed so."""
        return square >= 0 and max(self.low, Fraction(0)) ** 2 <= square < self.high**2

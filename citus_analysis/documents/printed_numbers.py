"""Numbers as documents print them: read exactly, compared with a value, and written in the same style.

A printed number states a value, how far it is rounded, and often a unit. It is right if the value, rounded to the last
printed digit, gives it; of a value exactly between two such numbers, both are right, because people and programs round
it differently.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Final

from citus_analysis.errors import FormatError
from citus_analysis.units import Unit, printed_unit

#: What stands between thousands: in plain text, in LaTeX, in HTML.
_SEPARATOR: Final = r"(?:,|\{,\}|\\,|\\ |&nbsp;|&thinsp;|&#160;|&#8239;|[\u00a0\u2009\u202f '’])"
_MINUS: Final = r"(?:-|−|–|&minus;|&#8722;|\\textminus\s?)"
_DIGITS: Final = rf"(?:\d{{1,3}}(?:(?P<separator>{_SEPARATOR})\d{{3}})(?:(?P=separator)\d{{3}})*(?!\d)|\d+)"
_NUMBER: Final = re.compile(
    rf"(?P<sign>{_MINUS}|\+)?(?P<whole>{_DIGITS})(?:\.(?P<decimals>\d+))?(?:[eE](?P<power>[-+]?\d{{1,3}}))?"
)
#: What may be around a number without being read: emphasis, mathematics, \num{...}.
_BEFORE: Final = re.compile(r"(?:\s|[*_`$~≈(]|\\num\{|\\SI\{|\\qty\{|\\ensuremath\{|\\textbf\{)*")
_AROUND_UNIT: Final = re.compile(
    r"&nbsp;|&thinsp;|&#160;|&#8239;|\\[,; ]|\\text|\\mathrm|\\si|[\s*_`$~{}()\u00a0\u2009\u202f]"
)
_MULTIPLES: Final = {
    **dict.fromkeys(("k", "thousand"), Decimal(1_000)),
    **dict.fromkeys(("M", "million"), Decimal(1_000_000)),
    **dict.fromkeys(("G", "B", "billion"), Decimal(1_000_000_000)),
}
_TIMES: Final = frozenset({"", "times", "×", "x", "-fold", "fold", "&times;", "\\times"})
_PERCENT: Final = frozenset({"%", "\\%", "percent", "per cent"})
_BYTES: Final = {
    **{f"{prefix}B": 1000.0**power for power, prefix in enumerate(("", "k", "M", "G", "T"))},
    **{f"{prefix}iB": 1024.0**power for power, prefix in enumerate(("", "K", "M", "G", "T"))},
    "bytes": 1.0,
}
#: A unit right after a bound number.
_UNIT_FOLLOWING: Final = re.compile(
    r"(?:&nbsp;|&thinsp;|\\[,; ]|[ ~\u00a0\u2009\u202f-])?"
    # 8 × 2 is a product, 8 × is a ratio.
    r"(?P<unit>\\?%|per cent|(?:×|&times;|x\b)(?!\s*\d)"
    r"|(?!x\b)[A-Za-zµμ]+ per s(?:econd)?\b|(?!x\b)[A-Za-zµμ]+(?:/[A-Za-z]+)?(?![A-Za-z/]))"
)
#: Significant digits of a value without an interval.
_DIGITS_FILLED: Final = 4


def find_unit(text: str) -> Unit | None:
    """The meaning of a unit in a document: as :func:`citus_analysis.units.printed_unit`, and shares, ratios and bytes.

    Ratios have the dimension `ratio`, of which a percent is a hundredth; counts have it too.

    Example:
        >>> find_unit("%"), find_unit("times"), find_unit("MiB").dimension, find_unit("parsec")
        (Unit(dimension='ratio', factor=0.01), Unit(dimension='ratio', factor=1.0), 'bytes', None)
    """
    spelt = " ".join(text.split())
    if spelt in _TIMES:
        return Unit("ratio", 1.0)
    if spelt in _PERCENT:
        return Unit("ratio", 0.01)
    if spelt == "ppm":
        return Unit("ratio", 1e-6)
    if spelt in _BYTES:
        return Unit("bytes", _BYTES[spelt])
    return printed_unit(spelt)


def find_following_unit(text: str) -> str:
    """The unit that a text begins with, as after the mark that ends a bound number; empty if there is none.

    Example:
        >>> find_following_unit(" ms more"), find_following_unit(" operations/s."), find_following_unit(" runs of it")
        ('ms', 'operations/s', '')
    """
    found = _UNIT_FOLLOWING.match(text)
    unit = found["unit"].replace("\\", "").replace("&times;", "×") if found else ""
    return unit if unit and find_unit(unit) is not None else ""


@dataclass(frozen=True)
class PrintedNumber:
    """A number of a document.

    Attributes:
        value: as printed, in its unit, without its multiple.
        quantum: the place of its last printed digit: 0.1 for `8.0`, 1 for `1,500`.
        zeros: zeros at the end of a whole number, which may be digits or only mark the place.
        unit: its printed unit; empty if there is none.
        multiple: what the number is multiplied with: 1,000,000 for `1.2 million`.
        start: where the number begins in its text.
        end: where it ends.
        sign: its printed sign.
        separator: what is between its thousands.
        power: whether it is printed with a power of ten (`1.2e5`).
    """

    value: Decimal
    quantum: Decimal
    zeros: int
    unit: str
    multiple: Decimal
    start: int
    end: int
    sign: str
    separator: str
    power: bool

    @property
    def coarsest(self) -> Decimal:
        """The largest place that the last digit can have: 100 for `1,500`."""
        return self.quantum.scaleb(self.zeros)


def parse_printed_number(text: str) -> PrintedNumber:
    """The number in a text that consists of one, with its unit.

    Raises:
        FormatError: there is none, there is more than a number and its unit, or the number has two readings (`2,5`).

    Example:
        >>> parse_printed_number("−1,234.50 ms").value, parse_printed_number("8.0 times").unit
        (Decimal('-1234.50'), 'times')
    """
    before = _BEFORE.match(text)
    start = before.end() if before else 0
    found = _NUMBER.match(text, start)
    if found is None:
        raise FormatError(
            f"{text!r} is no number", hint="between the marks stands one number, with or without its unit"
        )
    rest = text[found.end() :]
    if re.match(r"[.,'’]?\d", rest):
        raise FormatError(
            f"{text!r} cannot be read as one number",
            hint="write a decimal point, and between all thousands the same separator: 1,234.5",
        )
    multiple, unit = _split_multiple(_AROUND_UNIT.sub(" ", rest).strip(), text)
    whole, decimals, power = (
        re.sub(r"\D", "", _remove_entities(found["whole"])),
        found["decimals"] or "",
        found["power"],
    )
    value = Decimal(f"{whole}.{decimals}e{power or 0}")
    zeros = 0 if decimals or power else len(whole) - len(whole.rstrip("0")) if whole.strip("0") else 0
    sign = found["sign"] or ""
    return PrintedNumber(
        value=value if sign in ("", "+") else -value,
        quantum=Decimal(1).scaleb(int(power or 0) - len(decimals)),
        zeros=zeros,
        unit=unit,
        multiple=multiple,
        start=found.start(),
        end=found.end(),
        sign=sign,
        separator=found["separator"] or "",
        power=power is not None,
    )


def _remove_entities(text: str) -> str:
    # &#160; and &#8239; have digits of their own.
    return re.sub(r"&#?\w+;", "", text)


def _split_multiple(rest: str, text: str) -> tuple[Decimal, str]:
    rest = " ".join(rest.split()).replace("\\%", "%").replace("\\times", "×").replace("&times;", "×")
    rest = rest.replace("&micro;", "µ")
    if find_unit(rest) is not None:
        return Decimal(1), rest
    word, _, unit = rest.partition(" ")
    if word in _MULTIPLES and find_unit(unit) is not None:
        return _MULTIPLES[word], unit
    raise FormatError(
        f"{text!r} has more than a number and a unit that is known: {rest!r}",
        hint="close the mark after the number, or after its unit",
    )


def choose_supported_quantum(low: float, high: float) -> Decimal | None:
    """The last place that an interval supports: that of the second digit of its half width; None if it has none.

    Source: the rounding of uncertainties to two digits, and of values to the same place, in JCGM 100:2008, 7.2.6.

    Example:
        >>> choose_supported_quantum(2.2, 3.2), choose_supported_quantum(1480, 4259)
        (Decimal('0.01'), Decimal('1E+2'))
    """
    half = (high - low) / 2
    if not math.isfinite(half) or half <= 0:
        return None
    # To twelve digits: 0.99999999999 is 1 with the error of floating point.
    power = math.floor(math.log10(float(f"{half:.12g}")))
    return Decimal(1).scaleb(power - 1)


def convert_to_decimal(value: float) -> Decimal:
    """A value without the error of floating point, to 15 digits.

    Example:
        >>> convert_to_decimal(0.1 * 3)
        Decimal('0.3')
    """
    return Decimal(f"{value:.15g}")


def is_rounded_to(printed: Decimal, value: Decimal, quantum: Decimal) -> bool:
    """Whether a printed number is a value rounded to a place; of two equally near numbers, both are.

    Example:
        >>> [is_rounded_to(Decimal(one), Decimal("2.25"), Decimal("0.1")) for one in ("2.2", "2.3", "2.4")]
        [True, True, False]
    """
    return abs(printed - value) <= quantum / 2 and printed % quantum == 0


def round_to(value: Decimal, quantum: Decimal) -> Decimal:
    """A value rounded to a multiple of a quantum, a half to the even one.

    Example:
        >>> round_to(Decimal("1234.5"), Decimal(50)), round_to(Decimal("2.25"), Decimal("0.1"))
        (Decimal('1250'), Decimal('2.2'))
    """
    return (value / quantum).to_integral_value(ROUND_HALF_EVEN) * quantum


def choose_quantum(value: Decimal, supported: Decimal | None) -> Decimal:
    """The last place of a number that is not yet printed: as its interval supports, or four digits.

    Example:
        >>> choose_quantum(Decimal("62741.3"), None), choose_quantum(Decimal("2.634"), Decimal("0.1"))
        (Decimal('1'), Decimal('0.1'))
    """
    if supported is not None:
        return supported
    if not value or value == value.to_integral_value():
        return Decimal(1)
    return Decimal(1).scaleb(min(0, value.adjusted() - _DIGITS_FILLED + 1))


def format_like(value: Decimal, quantum: Decimal, like: PrintedNumber | None) -> str:
    """A value rounded to a place, with sign, separators and power of ten as in a printed number.

    Example:
        >>> format_like(Decimal("-2192.4"), Decimal(1), parse_printed_number("−1'234"))
        "−2'192"
        >>> format_like(Decimal("2192.4"), Decimal("0.1"), None), format_like(Decimal("-0.04"), Decimal("0.1"), None)
        ('2,192.4', '-0.04')
    """
    rounded = round_to(value, quantum)
    while value and not rounded:
        quantum = quantum.scaleb(-1)
        rounded = round_to(value, quantum)
    if like is not None and like.power and rounded:
        mantissa, _, power = f"{rounded:e}".partition("e")
        digits = max(0, rounded.adjusted() - quantum.adjusted())
        text = f"{Decimal(mantissa).copy_abs():.{digits}f}e{int(power)}"
    else:
        exponent = quantum.normalize().as_tuple().exponent
        decimals = max(0, -exponent) if isinstance(exponent, int) else 0
        text = f"{rounded.copy_abs():,.{decimals}f}"
        plain = like is not None and not like.separator and abs(like.value) >= 1_000
        text = text.replace(",", "" if plain else (like.separator if like else "") or ",")
    sign = "" if like is None else like.sign
    if rounded < 0:
        return f"{sign if sign not in ('', '+') else '-'}{text}"
    return f"+{text}" if sign == "+" else text

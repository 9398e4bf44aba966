"""Numbers for readers: in sentences and text tables, in columns of HTML tables, in frames on a terminal.

Example:
    >>> format_number(62741.3), format_aligned_number(62741.3), format_full_number(62741.3)
    ('62,741', '62,741', '62741.3')
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars as pl

#: Cell of an HTML table without a value.
MISSING: Final = "–"
_DIGITS: Final = 4
#: Digits of the median value of a column, and the fewest of any value.
_COLUMN_DIGITS: Final = 3
_FEWEST_DIGITS: Final = 2
#: Numbers below the first limit, and from the second on, are written with an exponent.
_SMALL: Final = 1e-4
_LARGE: Final = 1e12
#: Differences below this are rounding errors of floating point.
_ROUNDING: Final = 1e-9
#: From this number of microseconds on, times are given in milliseconds.
_LONG_TIME_US: Final = 10_000.0
#: p-values below this are not distinguished.
_SMALLEST_P: Final = 0.001
_US_PER_MS: Final = 1_000.0


def format_number(value: float) -> str:
    """About four significant digits, thousands separated, no exponent if it can be avoided.

    Example:
        >>> [format_number(v) for v in (62741.3, 1234.56, 98.7654, 0.0277285, 0.0001044, float("inf"))]
        ['62,741', '1,235', '98.77', '0.02773', '0.0001044', 'inf']
    """
    if not math.isfinite(value):
        return f"{value}"
    if abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.{_DIGITS}g}"


def format_aligned_number(value: float) -> str:
    """Four significant digits with trailing zeros, thousands separated: for columns of HTML tables.

    Example:
        >>> [format_aligned_number(v) for v in (0.012345, 12.3, 1234567.0, -2.0, float("nan"))]
        ['0.01235', '12.30', '1,234,567', '−2.000', '–']
    """
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size and not _SMALL <= size < _LARGE:
        return f"{value:.{_DIGITS - 1}e}"
    return _format_fixed_decimals(value, 0 if size == 0 else _count_decimals(size, _DIGITS))


def format_number_column(values: Iterable[float | None]) -> list[str]:
    """The cells of a column of an HTML table: the same decimals throughout, three digits of the median value.

    A value that would show fewer than two digits has more decimals; a value of more than four digits has fewer.

    Example:
        >>> format_number_column([93.69, 86.08, 100.0, None]), format_number_column([12.97, 1161.355, 0.072, 0.0])
        (['93.7', '86.1', '100.0', '–'], ['13.0', '1,161', '0.072', '0'])
    """
    given = list(values)
    known = [value for value in given if value is not None and math.isfinite(value)]
    sizes = [abs(value) for value in known if value]
    decimals = _count_decimals(statistics.median_low(sizes), _COLUMN_DIGITS) if sizes else 0
    while decimals and all(_is_exact(value, decimals - 1) for value in known):
        decimals -= 1
    return [MISSING if value is None else _format_column_number(value, decimals) for value in given]


def _format_column_number(value: float, decimals: int) -> str:
    size = abs(value)
    if not _SMALL <= size < _LARGE:
        return format_aligned_number(value)
    shown = min(decimals, _count_decimals(size, _DIGITS))
    return _format_fixed_decimals(
        value, shown if _is_exact(value, shown) else max(shown, _count_decimals(size, _FEWEST_DIGITS))
    )


def _is_exact(value: float, decimals: int) -> bool:
    return abs(round(value, decimals) - value) < _ROUNDING


def _count_decimals(size: float, digits: int) -> int:
    """Number of decimals with which a positive number shows the given number of digits."""
    return max(0, digits - 1 - math.floor(math.log10(size)))


def format_estimate_with_interval(estimate: float | None, low: float | None, high: float | None) -> str:
    """An estimate with its interval as one cell of a table: the same decimals in all three numbers, two near 1.

    Example:
        >>> (
        ...     format_estimate_with_interval(0.6389, 0.5104, 0.7881),
        ...     format_estimate_with_interval(12068.2, 9871.0, 14265.4),
        ... )
        ('0.64 [0.51, 0.79]', '12,068 [9,871, 14,265]')
        >>> (
        ...     format_estimate_with_interval(3.25, None, None),
        ...     format_estimate_with_interval(None, None, None),
        ...     format_estimate_with_interval(2.0, 1.0, float("inf")),
        ... )
        ('3.25', '–', '2.00 [1.00, ∞]')
    """
    if estimate is None or math.isnan(estimate):
        return MISSING
    size = abs(estimate)
    if size and not _SMALL <= size < _LARGE:
        texts = [format_aligned_number(value) for value in (estimate, low, high) if value is not None]
    else:
        power = 0 if size == 0 else math.floor(math.log10(size))
        decimals = max(0, 2 - power) if power >= 0 else 1 - power
        texts = [_format_fixed_decimals(value, decimals) for value in (estimate, low, high) if value is not None]
    return texts[0] if low is None or high is None else f"{texts[0]} [{texts[1]}, {texts[2]}]"


def _format_fixed_decimals(value: float, decimals: int) -> str:
    if not math.isfinite(value):
        return format_aligned_number(value)
    return f"{value:,.{decimals}f}".replace("-", "−")


def format_full_number(value: float) -> str:
    """Six significant digits, one decimal from a million on; without separators, so that programs can read it too.

    Example:
        >>> [format_full_number(v) for v in (0.1 + 0.2, 62741.3, 12345678.25)]
        ['0.3', '62741.3', '12345678.2']
    """
    return f"{value:.6g}" if abs(value) < 1e6 or not math.isfinite(value) else f"{value:.1f}"


def describe_estimate_with_interval(estimate: float, low: float | None = None, high: float | None = None) -> str:
    """A ratio or rate with its interval, for a sentence; the estimate alone if there is no interval.

    Example:
        >>> (
        ...     describe_estimate_with_interval(3.127, 2.81, 3.44),
        ...     describe_estimate_with_interval(0.691, 0.58, 0.83),
        ...     describe_estimate_with_interval(2.0, None, None),
        ... )
        ('3.1 (2.8 to 3.4)', '0.69 (0.58 to 0.83)', '2.0')
        >>> describe_estimate_with_interval(0.0043, 0.0021, 0.0088)
        '0.0043 (0.0021 to 0.0088)'
    """
    shown = _format_short_number(estimate, estimate)
    if low is None or high is None or not math.isfinite(low) or math.isnan(high):
        return shown
    return f"{shown} ({_format_short_number(low, estimate)} to {_format_short_number(high, estimate)})"


def format_percent(share: float, digits: int = 0) -> str:
    """A share in per cent.

    Example:
        >>> format_percent(0.95), format_percent(0.99573, 2)
        ('95 %', '99.57 %')
    """
    return f"{100 * share:.{digits}f} %"


def add_up(sums: Sequence[tuple[Sequence[float], float]], *, digits: int = 0, more: int = 2) -> int:
    """The number of decimals with which the printed parts of each sum add up to its printed whole.

    If none does it (three thirds), it is the fewest: then the numbers add up within rounding.

    Args:
        sums: parts, with their signs, and their whole.
        digits: the fewest decimals; -1 rounds to tens.
        more: at most this many decimals more.

    Raises:
        UsageError: parts do not make up their whole, so nothing that says so may be printed.

    Example:
        >>> add_up([([10.15, 5.92, 83.93], 100)]), add_up([([33.4, 33.4, 33.2], 100)])
        (0, 1)
        >>> add_up([([12.0, 5.0], 100)])
        Traceback (most recent call last):
        citus_analysis.errors.UsageError: the parts 12 + 5 do not add up to 100 (say them without their whole)
    """
    from citus_analysis.errors import UsageError

    for parts, whole in sums:
        if abs(math.fsum(parts) - whole) > max(0.5 * 10.0**-digits, 1e-6 * max(map(abs, (*parts, whole)))):
            named = " + ".join(f"{part:g}" for part in parts)
            raise UsageError(f"the parts {named} do not add up to {whole:g}", hint="say them without their whole")

    def agree(decimals: int) -> bool:
        pairs = ((math.fsum(round(part, decimals) for part in parts), round(whole, decimals)) for parts, whole in sums)
        return all(math.isclose(total, shown, abs_tol=_ROUNDING) for total, shown in pairs)

    return next((decimals for decimals in range(digits, digits + more + 1) if agree(decimals)), digits)


def format_with_decimals(value: float, decimals: int) -> str:
    """A number with a number of decimals, thousands separated; negative: tens or hundreds. There is no -0.

    Example:
        >>> format_with_decimals(1234.56, 1), format_with_decimals(1234.56, -2), format_with_decimals(-0.04, 1)
        ('1,234.6', '1,200', '0.0')
    """
    return f"{round(value, decimals) + 0.0:,.{max(0, decimals)}f}"


def format_adding_up(parts: Sequence[float], whole: float, *, digits: int = 0, more: int = 2) -> tuple[list[str], str]:
    """Parts and their whole, printed with the decimals of :func:`add_up`.

    Example:
        >>> format_adding_up([10.15, 5.92, 83.93], 100)
        (['10', '6', '84'], '100')
        >>> format_adding_up([156.4, -48.93, -10.67], 96.8)
        (['156.4', '-48.9', '-10.7'], '96.8')
    """
    decimals = add_up([(parts, whole)], digits=digits, more=more)
    return [format_with_decimals(part, decimals) for part in parts], format_with_decimals(whole, decimals)


def format_p_value(p: float | None) -> str:
    """A p-value in a table.

    Example:
        >>> format_p_value(0.0123), format_p_value(3e-7), format_p_value(None)
        ('0.012', '< 0.001', '–')
    """
    if p is None or math.isnan(p):
        return MISSING
    return f"{p:.3f}" if p >= _SMALLEST_P else f"< {_SMALLEST_P:g}"


def _format_short_number(value: float, like: float) -> str:
    """A value with decimals by the size of `like`: two digits below 0.1, two decimals below 2, one below 20."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞"
    size = abs(like)
    decimals = 1 - math.floor(math.log10(size)) if _SMALL <= size < 0.1 else 2 if size < 2 else 1 if size < 20 else 0
    return f"{value:,.{decimals}f}"


def convert_long_times_to_ms(table: pl.DataFrame) -> pl.DataFrame:
    """The table with its times in milliseconds instead of microseconds, if any of them has five digits or more.

    A column's name contains its unit: `mean_us` becomes `mean_ms`, and the end of its interval `mean_us_low` becomes
    `mean_ms_low`.

    Example:
        >>> import polars as pl
        >>> convert_long_times_to_ms(pl.DataFrame({"p50_us": [900.0], "p99_us": [12_500.0]})).to_dicts()
        [{'p50_ms': 0.9, 'p99_ms': 12.5}]
        >>> convert_long_times_to_ms(pl.DataFrame({"p50_us": [900.0], "p99_us": [1_250.0]})).columns
        ['p50_us', 'p99_us']
    """
    import polars as pl

    times = [name for name, kind in table.schema.items() if name.endswith("_us") and kind.is_numeric()]
    longest = table.select(pl.max_horizontal(pl.col(times).cast(pl.Float64).max())).item() if times else None
    if longest is None or longest < _LONG_TIME_US:
        return table
    ends = [f"{name}_{end}" for name in times for end in ("low", "high")]
    names = [*times, *(name for name in ends if name in table.columns)]
    renamed = {name: re.sub("_us(?=$|_low$|_high$)", "_ms", name) for name in names}
    return table.with_columns(pl.col(names) / _US_PER_MS).rename(renamed)


# Numbers as people print them in tables: with thousands' separators, multiples and a spread after ±.

_LONGEST: Final = 100
_MULTIPLES: Final = {
    "": 1.0,
    **dict.fromkeys(("k", "thousand"), 1e3),
    **dict.fromkeys(("m", "mio", "million"), 1e6),
    **dict.fromkeys(("b", "bn", "g", "billion"), 1e9),
}
_PLAIN: Final = r"[+-]?(?:\d+(?:,\d{3})+|\d+|(?=[.]\d))(?:[.]\d+)?(?:[eE][+-]?\d+)?"
_MULTIPLE: Final = r"(?:[kKmMgGB]|bn|[Mm]io|thousand|[Mm]illion|[Bb]illion)"
_CELL: Final = re.compile(
    rf"[~<>≈]?\s*(?P<number>{_PLAIN})\s*(?P<multiple>{_MULTIPLE})?\s*%?\+?"
    rf"(?:\s*(?:±|\+/-|\+-)\s*(?P<spread>{_PLAIN})\s*(?P<spread_multiple>{_MULTIPLE})?\s*%?)?"
)


def parse_stated_numbers(text: str) -> tuple[float, ...]:
    """The number that a cell states, and the number after ± if there is one; empty for other cells.

    Example:
        >>> parse_stated_numbers("12.3k"), parse_stated_numbers("12,345 ± 120"), parse_stated_numbers("12 nodes")
        ((12300.0,), (12345.0, 120.0), ())
    """
    # The pattern takes minutes for thousands of digits.
    found = _CELL.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    if found is None:
        return ()
    multiple = (found["multiple"] or "").lower()
    after = (found["spread_multiple"] or "").lower() or multiple
    parts = [(found["number"], multiple), (found["spread"], after)]
    values = tuple(_scale_number(number, _MULTIPLES[each]) for number, each in parts if number is not None)
    return values if all(math.isfinite(value) for value in values) else ()


def _scale_number(number: str, multiple: float) -> float:
    # 12.3 × 1000 is 12300 and not 12300.000000000002.
    return float(f"{float(number.replace(',', '')) * multiple:.15g}")


def round_to_digits(value: float, digits: int = 2) -> str:
    """A number as a person says it, with two digits.

    Example:
        >>> round_to_digits(1234.5), round_to_digits(0.0123)
        ('1,200', '0.012')
    """
    return f"{float(f'{value:.{digits}g}'):,.10g}"

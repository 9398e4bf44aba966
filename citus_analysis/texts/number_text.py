"""Numbers for readers: in sentences and text tables, in columns of HTML tables, in frames on a terminal.

Example:
    >>> readable(62741.3), aligned(62741.3), in_full(62741.3)
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


def readable(value: float) -> str:
    """About four significant digits, thousands separated, no exponent if it can be avoided.

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
    """Four significant digits with trailing zeros, thousands separated: for columns of HTML tables.

    Example:
        >>> [aligned(v) for v in (0.012345, 12.3, 1234567.0, -2.0, float("nan"))]
        ['0.01235', '12.30', '1,234,567', '−2.000', '–']
    """
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size and not _SMALL <= size < _LARGE:
        return f"{value:.{_DIGITS - 1}e}"
    return _with_decimals(value, 0 if size == 0 else _decimals(size, _DIGITS))


def in_column(values: Iterable[float | None]) -> list[str]:
    """The cells of a column of an HTML table: the same decimals throughout, three digits of the median value.

    A value that would show fewer than two digits has more decimals; a value of more than four digits has fewer.

    Example:
        >>> in_column([93.69, 86.08, 100.0, None]), in_column([12.97, 1161.355, 0.072, 0.0])
        (['93.7', '86.1', '100.0', '–'], ['13.0', '1,161', '0.072', '0'])
    """
    given = list(values)
    known = [value for value in given if value is not None and math.isfinite(value)]
    sizes = [abs(value) for value in known if value]
    decimals = _decimals(statistics.median_low(sizes), _COLUMN_DIGITS) if sizes else 0
    while decimals and all(_exact(value, decimals - 1) for value in known):
        decimals -= 1
    return [MISSING if value is None else _of_column(value, decimals) for value in given]


def _of_column(value: float, decimals: int) -> str:
    size = abs(value)
    if not _SMALL <= size < _LARGE:
        return aligned(value)
    shown = min(decimals, _decimals(size, _DIGITS))
    return _with_decimals(value, shown if _exact(value, shown) else max(shown, _decimals(size, _FEWEST_DIGITS)))


def _exact(value: float, decimals: int) -> bool:
    return abs(round(value, decimals) - value) < _ROUNDING


def _decimals(size: float, digits: int) -> int:
    """Number of decimals with which a positive number shows the given number of digits."""
    return max(0, digits - 1 - math.floor(math.log10(size)))


def with_interval(estimate: float | None, low: float | None, high: float | None) -> str:
    """An estimate with its interval as one cell of a table: the same decimals in all three numbers, two near 1.

    Example:
        >>> with_interval(0.6389, 0.5104, 0.7881), with_interval(12068.2, 9871.0, 14265.4)
        ('0.64 [0.51, 0.79]', '12,068 [9,871, 14,265]')
        >>> with_interval(3.25, None, None), with_interval(None, None, None), with_interval(2.0, 1.0, float("inf"))
        ('3.25', '–', '2.00 [1.00, ∞]')
    """
    if estimate is None or math.isnan(estimate):
        return MISSING
    size = abs(estimate)
    if size and not _SMALL <= size < _LARGE:
        texts = [aligned(value) for value in (estimate, low, high) if value is not None]
    else:
        power = 0 if size == 0 else math.floor(math.log10(size))
        decimals = max(0, 2 - power) if power >= 0 else 1 - power
        texts = [_with_decimals(value, decimals) for value in (estimate, low, high) if value is not None]
    return texts[0] if low is None or high is None else f"{texts[0]} [{texts[1]}, {texts[2]}]"


def _with_decimals(value: float, decimals: int) -> str:
    if not math.isfinite(value):
        return aligned(value)
    return f"{value:,.{decimals}f}".replace("-", "−")


def in_full(value: float) -> str:
    """Six significant digits, one decimal from a million on; without separators, so that programs can read it too.

    Example:
        >>> [in_full(v) for v in (0.1 + 0.2, 62741.3, 12345678.25)]
        ['0.3', '62741.3', '12345678.2']
    """
    return f"{value:.6g}" if abs(value) < 1e6 or not math.isfinite(value) else f"{value:.1f}"


def interval_words(estimate: float, low: float | None = None, high: float | None = None) -> str:
    """A ratio or rate with its interval, for a sentence; the estimate alone if there is no interval.

    Example:
        >>> interval_words(3.127, 2.81, 3.44), interval_words(0.691, 0.58, 0.83), interval_words(2.0, None, None)
        ('3.1 (2.8 to 3.4)', '0.69 (0.58 to 0.83)', '2.0')
        >>> interval_words(0.0043, 0.0021, 0.0088)
        '0.0043 (0.0021 to 0.0088)'
    """
    shown = _short(estimate, estimate)
    if low is None or high is None or not math.isfinite(low) or math.isnan(high):
        return shown
    return f"{shown} ({_short(low, estimate)} to {_short(high, estimate)})"


def percent(share: float, digits: int = 0) -> str:
    """A share in per cent.

    Example:
        >>> percent(0.95), percent(0.99573, 2)
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
            raise UsageError(f"the parts {named} do not add up to {whole:g}", way_out="say them without their whole")

    def agree(decimals: int) -> bool:
        pairs = ((math.fsum(round(part, decimals) for part in parts), round(whole, decimals)) for parts, whole in sums)
        return all(math.isclose(total, shown, abs_tol=_ROUNDING) for total, shown in pairs)

    return next((decimals for decimals in range(digits, digits + more + 1) if agree(decimals)), digits)


def with_decimals(value: float, decimals: int) -> str:
    """A number with a number of decimals, thousands separated; negative: tens or hundreds. There is no -0.

    Example:
        >>> with_decimals(1234.56, 1), with_decimals(1234.56, -2), with_decimals(-0.04, 1)
        ('1,234.6', '1,200', '0.0')
    """
    return f"{round(value, decimals) + 0.0:,.{max(0, decimals)}f}"


def adding_up(parts: Sequence[float], whole: float, *, digits: int = 0, more: int = 2) -> tuple[list[str], str]:
    """Parts and their whole, printed with the decimals of :func:`add_up`.

    Example:
        >>> adding_up([10.15, 5.92, 83.93], 100)
        (['10', '6', '84'], '100')
        >>> adding_up([156.4, -48.93, -10.67], 96.8)
        (['156.4', '-48.9', '-10.7'], '96.8')
    """
    decimals = add_up([(parts, whole)], digits=digits, more=more)
    return [with_decimals(part, decimals) for part in parts], with_decimals(whole, decimals)


def p_text(p: float | None) -> str:
    """A p-value in a table.

    Example:
        >>> p_text(0.0123), p_text(3e-7), p_text(None)
        ('0.012', '< 0.001', '–')
    """
    if p is None or math.isnan(p):
        return MISSING
    return f"{p:.3f}" if p >= _SMALLEST_P else f"< {_SMALLEST_P:g}"


def _short(value: float, like: float) -> str:
    """A value with decimals by the size of `like`: two digits below 0.1, two decimals below 2, one below 20."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞"
    size = abs(like)
    decimals = 1 - math.floor(math.log10(size)) if _SMALL <= size < 0.1 else 2 if size < 2 else 1 if size < 20 else 0
    return f"{value:,.{decimals}f}"


def with_readable_times(table: pl.DataFrame) -> pl.DataFrame:
    """The table with its times in milliseconds instead of microseconds, if any of them has five digits or more.

    A column's name contains its unit: `mean_us` becomes `mean_ms`, and the end of its interval `mean_us_low` becomes
    `mean_ms_low`.

    Example:
        >>> import polars as pl
        >>> with_readable_times(pl.DataFrame({"p50_us": [900.0], "p99_us": [12_500.0]})).to_dicts()
        [{'p50_ms': 0.9, 'p99_ms': 12.5}]
        >>> with_readable_times(pl.DataFrame({"p50_us": [900.0], "p99_us": [1_250.0]})).columns
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

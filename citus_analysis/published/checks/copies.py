"""Checks for the same numbers in two places, and for two numbers in the same place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

from citus_analysis.published._numbers import APPROXIMATE, significant_digits
from citus_analysis.published._rows import Number, ResultTable, Row
from citus_analysis.published.checks._registry import Finding, check, finding, rows_of
from citus_analysis.published.checks.interval_checks import implied_n, stated_interval
from citus_analysis.texts.metric_names import COUNTS, RATIOS

#: Two standard deviations that agree in this many digits are copies.
_TELLING_DIGITS: Final = 4
_TELLING_VALUES: Final = 2


@check("copied_sigma", "Does the same column of standard deviations occur in two tables?", lambda tables: [tables])
def copied_sigma(tables: Sequence[ResultTable]) -> Iterator[Finding]:
    """Standard deviations of two experiments that agree to four digits in two or more rows are copies."""
    columns = [(table, _sigmas(table)) for table in tables]
    for (one, left), (other, right) in combinations([c for c in columns if len(c[1]) >= _TELLING_VALUES], 2):
        shared = [text for text in left if text in right]
        same_means = any(_means(one, text) & _means(other, text) for text in shared)
        if len(shared) < _TELLING_VALUES or same_means:
            continue
        copy, origin = (one, other) if _misfits(one) >= _misfits(other) else (other, one)
        rows = "; ".join(row.label for row in copy.rows if row.states("sigma") and _digits(row["sigma"]) in shared)
        own = "its own intervals need other values" if _misfits(copy) else "one of the two is a copy"
        theirs = _named(origin, copy)
        text = f"{len(shared)} standard deviations agree digit by digit with {theirs}; {own}"
        expected = f"values of its own, not those of {theirs}"
        yield Finding("red", "", copy.source, copy.name, rows, expected, ", ".join(shared), text)


@check("stated_twice", "Does a number that is stated more than once stay the same?", rows_of)
def stated_twice(row: Row) -> Iterator[Finding]:
    """All statements of one quantity must allow a common value."""
    for numbers in row.numbers.values():
        if len(numbers) < 2:
            continue
        differ = any(not a.range.overlaps(b.range) for a, b in combinations(numbers, 2))
        texts = ", ".join(dict.fromkeys(str(number) for number in numbers))
        red, amber = "", ""
        if differ and all(number.transcribed for number in numbers):
            red = f"{numbers[0].metric.stem.replace('_', ' ')} is stated with different values"
        elif differ:
            amber = "the same row and metric occur with different values; give repetitions different names"
        yield finding(row, "one value", texts, "the statements agree", red=red, amber=amber)


#: Independent equal digits of two rows; by chance 4 are equal once in ten thousand, 3 once in a thousand.
_COPIED, _SUSPICIOUS = 4, 3
#: Digits of one number that two rows share by chance once in ten thousand pairs, the first one not counted.
_TELLING_CELL: Final = 5
#: Numbers that determine one another and so agree together; they count once.
_TOGETHER: Final = frozenset({"throughput", "latency", "client_latency", "runtime", "nopm", "base_throughput"})
#: Stems that describe spreads; and stems that an experimenter sets or that are computed from others.
_SPREADS: Final = frozenset({"sigma", "standard_error", "interval_low", "interval_high", "interval_half", "mean"})
_NOT_MEASURED: Final = COUNTS | RATIOS | {"think_time", "target", "warm_up"}


@check("copied_row", "Do two rows of a table have numbers of their own?", iter)
def copied_row(table: ResultTable) -> Iterator[Finding]:
    """Two measurements do not agree in every number digit by digit."""
    for one, other in combinations(table.rows, 2):
        shared = _agreeing(one, other)
        digits = _independent_digits(one, shared)
        if digits < _SUSPICIOUS:
            continue
        stated = ", ".join(f"{stem.replace('_', ' ')} {one[stem]}" for stem in shared)
        text = f"all measured numbers of this row agree digit by digit with those of {one.label}"
        sure = digits >= _COPIED and not _is_same_subject(one, other)
        yield finding(other, "numbers of its own", stated, red=text if sure else "", amber=text)


@check("copied_cell", "Does a number of a row occur again in the same column?", iter)
def copied_cell(table: ResultTable) -> Iterator[Finding]:
    """Two measurements of one quantity do not agree in five digits or more, unless one was copied."""
    known: dict[tuple[str, str], Row] = {}
    for row in table.rows:
        for stem in row.numbers:
            number = row[stem]
            if not _is_measured(number) or significant_digits(number.stated) < _TELLING_CELL:
                continue
            first = known.setdefault((stem, _digits(number)), row)
            if first is not row and not _agreeing(first, row):
                text = f"this number agrees digit by digit with that of {first.label}, while others of the row do not"
                yield finding(row, "a number of its own", f"{stem.replace('_', ' ')} {number}", amber=text)


def _agreeing(one: Row, other: Row) -> list[str]:
    """The measured stems of two rows, if all of them are printed alike; else none."""
    measured = [{stem for stem in row.numbers if _is_measured(row[stem])} for row in (one, other)]
    if measured[0] != measured[1]:
        return []
    alike = all(_digits(one[stem]) == _digits(other[stem]) for stem in measured[0])
    return [stem for stem in one.numbers if stem in measured[0]] if alike else []


def _is_measured(number: Number) -> bool:
    """Whether a number is a rate, a time or a spread; gauges such as memory stay the same from run to run."""
    stem = number.metric.stem
    return stem not in _NOT_MEASURED and (number.metric.dimension in ("rate", "time") or stem in _SPREADS)


def _independent_digits(row: Row, stems: Sequence[str]) -> int:
    """Number of digits after the first, which neighbouring rows often share; zeros and failures (-1) do not count."""
    digits_by_stem = {stem: max(0, significant_digits(row[stem].stated) - 1) for stem in stems if row[stem].value > 0}
    together = max((digits_by_stem[stem] for stem in digits_by_stem if stem in _TOGETHER), default=0)
    return together + sum(digits for stem, digits in digits_by_stem.items() if stem not in _TOGETHER)


def _is_same_subject(one: Row, other: Row) -> bool:
    """Whether the rows have the same settings, so that the same measurement may be listed twice."""
    counts = [{stem: row[stem].value for stem in row.numbers if stem in COUNTS} for row in (one, other)]
    return one.group == other.group and counts[0] == counts[1]


def _digits(number: Number) -> str:
    return number.stated.removeprefix(APPROXIMATE).replace(",", "")


def _sigmas(table: ResultTable) -> list[str]:
    """The standard deviations of a table with enough digits to recognise copies, in order."""
    texts = [_digits(row["sigma"]) for row in table.rows if row.states("sigma")]
    return [text for text in texts if len(text.replace(".", "").strip("0")) >= _TELLING_DIGITS]


def _means(table: ResultTable, sigma: str) -> set[float]:
    """Means with a standard deviation in the same row."""
    rows = [row for row in table.rows if row.states("sigma") and _digits(row["sigma"]) == sigma]
    return {mean.value for row in rows if (mean := row.mean_for(row["sigma"])) is not None}


def _misfits(table: ResultTable) -> int:
    """The number of rows whose standard deviation does not fit their interval at any number of repetitions."""
    intervals = [interval for row in table.rows if row.states("sigma") and (interval := stated_interval(row))]
    return sum(not implied_n(interval, "normal") and not implied_n(interval, "t") for interval in intervals)


def _named(table: ResultTable, beside: ResultTable) -> str:
    return f"table {table.name}" if table.source == beside.source else f"table {table.name} of {table.source}"

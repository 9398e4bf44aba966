"""The same numbers in two places, and two numbers in the same place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

from citus_analysis.published._numbers import APPROXIMATE
from citus_analysis.published._rows import Number, ResultTable
from citus_analysis.published.checks._registry import Finding, check, finding
from citus_analysis.published.checks.intervals import implied_n, stated_interval

__all__: list[str] = []

#: Two standard deviations that agree in so many digits do so by copying.
_TELLING_DIGITS: Final = 4
_TELLING_VALUES: Final = 2


@check("copied_sigma", "Does the same column of standard deviations stand in two tables?")
def copied_sigma(tables: Sequence[ResultTable]) -> Iterator[Finding]:
    """Standard deviations of different experiments do not agree to four digits, twice."""
    columns = [(table, _sigmas(table)) for table in tables]
    for (one, left), (other, right) in combinations([c for c in columns if len(c[1]) >= _TELLING_VALUES], 2):
        shared = [text for text in left if text in right]
        same_means = any(_means(one, text) & _means(other, text) for text in shared)
        if len(shared) < _TELLING_VALUES or same_means:
            continue
        copy, origin = (one, other) if _misfits(one) >= _misfits(other) else (other, one)
        rows = "; ".join(row.label for row in copy.rows if row.states("sigma") and _digits(row["sigma"]) in shared)
        own = "its own intervals need other values" if _misfits(copy) else "one of the two is a copy"
        yield Finding(
            "red",
            "copied_sigma",
            copy.source,
            copy.name,
            rows,
            f"values of its own, not those of {_named(origin, copy)}",
            ", ".join(shared),
            f"{len(shared)} standard deviations agree digit by digit with {_named(origin, copy)}; {own}",
        )


@check("stated_twice", "Does a number that is stated more than once stay the same?")
def stated_twice(tables: Sequence[ResultTable]) -> Iterator[Finding]:
    """All statements of one quantity must allow a common value."""
    for table in tables:
        for row in table.rows:
            for numbers in row.numbers.values():
                if len(numbers) < 2:
                    continue
                differ = any(not a.range.overlaps(b.range) for a, b in combinations(numbers, 2))
                texts = ", ".join(dict.fromkeys(str(number) for number in numbers))
                transcribed = all(number.transcribed for number in numbers)
                if not differ:
                    yield finding("green", "stated_twice", row, "one value", texts, "the statements agree")
                elif transcribed:
                    text = f"{numbers[0].metric.stem.replace('_', ' ')} is stated with different values"
                    yield finding("red", "stated_twice", row, "one value", texts, text)
                else:
                    text = (
                        "the same row and metric stand there with different values; give repetitions names of their own"
                    )
                    yield finding("amber", "stated_twice", row, "one value", texts, text)


def _digits(number: Number) -> str:
    return number.stated.removeprefix(APPROXIMATE).replace(",", "")


def _sigmas(table: ResultTable) -> list[str]:
    """The telling standard deviations of a table, in order."""
    texts = [_digits(row["sigma"]) for row in table.rows if row.states("sigma")]
    return [text for text in texts if len(text.replace(".", "").strip("0")) >= _TELLING_DIGITS]


def _means(table: ResultTable, sigma: str) -> set[float]:
    """Means that stand beside a standard deviation."""
    rows = [row for row in table.rows if row.states("sigma") and _digits(row["sigma"]) == sigma]
    return {mean.value for row in rows if (mean := row.mean_for(row["sigma"])) is not None}


def _misfits(table: ResultTable) -> int:
    """Rows whose standard deviation fits their interval at no number of repetitions."""
    intervals = [interval for row in table.rows if row.states("sigma") and (interval := stated_interval(row))]
    return sum(not implied_n(interval, "normal") and not implied_n(interval, "t") for interval in intervals)


def _named(table: ResultTable, beside: ResultTable) -> str:
    return f"table {table.name}" if table.source == beside.source else f"table {table.name} of {table.source}"

"""Numbers that follow from others: scale factors, changes, totals, rates per day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from citus_analysis.published._numbers import Range, show
from citus_analysis.published._rows import Number, ResultTable, Row
from citus_analysis.published.checks._registry import Finding, check, finding

__all__: list[str] = []

_SECONDS_PER_DAY: Final = Range.exact(86_400)
_HUNDRED: Final = Range.exact(100)
#: What a system is made larger by.
_SIZES: Final = ("workers", "servers", "nodes", "connections", "threads")
_TOTALS: Final = frozenset({"total", "sum", "all", "overall"})


@check("scale_factor", "Are scale factors, speedups and efficiencies the ratios of the throughputs?")
def scale_factor(tables: Sequence[ResultTable]) -> Iterator[Finding]:
    """Recompute them against the row of the same table whose own factor is 1."""
    for table in tables:
        for stem in ("scale_factor", "speedup"):
            for row, base in _against_base(table, stem):
                yield _compare("scale_factor", row, stem, row["throughput"].range / base["throughput"].range)
        for row, base in _against_base(table, "efficiency"):
            size = next((size for size in _SIZES if row.states(size) and base.states(size)), None)
            if size is not None:
                faster = row["throughput"].range / base["throughput"].range
                share = faster * base[size].range / row[size].range
                percent = row["efficiency"].metric.dimension == "percent"
                yield _compare("scale_factor", row, "efficiency", share.scaled(100.0) if percent else share)


def _against_base(table: ResultTable, stem: str) -> Iterator[tuple[Row, Row]]:
    """Rows that state the factor, each with the row whose factor is 1 (or 100 %)."""
    stating = [row for row in table.rows if row.states(stem, "throughput") and not row.states("base_throughput")]
    base = next((row for row in stating if row[stem].value == (100.0 if row[stem].metric.dimension else 1.0)), None)
    if base is not None:
        yield from ((row, base) for row in stating)


@check("ratio", "Do speedups, differences and percentages follow from the throughputs beside them?")
def ratio(tables: Sequence[ResultTable]) -> Iterator[Finding]:
    """Recompute what a row states beside a throughput and its base."""
    for row in _rows(tables):
        if not row.states("throughput", "base_throughput"):
            continue
        new, base = row["throughput"].range, row["base_throughput"].range
        change = (new / base).scaled(100.0) - _HUNDRED
        implied = {
            "speedup": new / base,
            "difference": new - base,
            "change": change,
            "penalty": Range(-change.high, -change.low),
        }
        for stem, expected in implied.items():
            if row.states(stem):
                yield _compare("ratio", row, stem, expected)


@check("product", "Is a quantity per unit times the units the quantity?")
def product(tables: Sequence[ResultTable]) -> Iterator[Finding]:
    """`vcpus_per_worker` × `workers` (+ `coordinator_vcpus`) = `vcpus`, and whatever else is named like this."""
    for row in _rows(tables):
        for stem in list(row.numbers):
            total, _, unit = stem.partition("_per_")
            if unit:
                yield from _product(row, stem, total, unit)
        if row.states("samples", "sampling", "operations"):
            yield _compare("product", row, "samples", (row["operations"].range * row["sampling"].range).scaled(0.01))


def _product(row: Row, stem: str, total: str, unit: str) -> Iterator[Finding]:
    pairs = (
        (total, unit),
        (total, f"{unit}s"),
        (f"{total}_per_s", f"{unit}s_per_s"),
        (total.removesuffix("_bytes"), f"{unit}s_per_s"),
    )
    for whole, count in pairs:
        if not row.states(whole, count):
            continue
        expected = row[stem].range * row[count].range
        apart = row.get(f"coordinator_{total}")
        yield _compare("product", row, whole, expected if apart is None else expected + apart.range)
        return


@check("per_day", "Are operations per day 86,400 times the operations per second?")
def per_day(tables: Sequence[ResultTable]) -> Iterator[Finding]:
    """A day has 86,400 seconds."""
    for row in _rows(tables):
        if row.states("throughput", "operations_per_day"):
            yield _compare("per_day", row, "operations_per_day", row["throughput"].range * _SECONDS_PER_DAY)


@check("parts_add_up", "Is the total's throughput the sum of the parts'?")
def parts_add_up(tables: Sequence[ResultTable]) -> Iterator[Finding]:
    """A row named total, sum, all or overall is compared with the sum of the table's other rows."""
    for table in tables:
        with_rate = [row for row in table.rows if row.states("throughput")]
        totals = [row for row in with_rate if row.label.strip().lower() in _TOTALS]
        parts = [row for row in with_rate if row not in totals]
        if len(parts) < 2:
            continue
        added = sum((row["throughput"].range for row in parts), Range.exact(0))
        for row in totals:
            yield _compare("parts_add_up", row, "throughput", added)


def _rows(tables: Sequence[ResultTable]) -> Iterator[Row]:
    for table in tables:
        yield from table.rows


def _compare(name: str, row: Row, stem: str, expected: Range) -> Finding:
    number = row[stem]
    words = stem.replace("_", " ")
    if number.range.overlaps(expected):
        return finding("green", name, row, _span(number, expected), str(number), f"{words} agrees")
    middle = (expected.low + expected.high) / 2
    if middle:
        off = number.value / middle - 1
        text = f"{words} is {abs(off):.1%} {'above' if off > 0 else 'below'} what the other numbers give{_note(number)}"
    else:
        text = f"{words} is not 0, which the other numbers give{_note(number)}"
    return finding("red", name, row, _span(number, expected), str(number), text)


def _span(number: Number, expected: Range) -> str:
    low, high = (show(end / number.metric.factor) for end in (expected.low, expected.high))
    middle = show((expected.low + expected.high) / 2 / number.metric.factor)
    return (
        f"{middle} {number.unit}".strip() if low == high else f"{middle} {number.unit}".strip() + f" ({low} to {high})"
    )


def _note(number: Number) -> str:
    return f"; {number.note}" if number.note else ""

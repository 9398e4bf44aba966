"""Checks of numbers that follow from others: scale factors, changes, totals, rates per day."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from citus_analysis.published._numbers import Range
from citus_analysis.published._rows import Number, ResultTable, Row
from citus_analysis.published.checks._registry import Finding, check, finding
from citus_analysis.texts.number_text import percent, readable

_SECONDS_PER_DAY: Final = Range.exact(86_400)
_HUNDRED: Final = Range.exact(100)
#: Quantities by which a system grows.
_SIZES: Final = ("workers", "servers", "nodes", "connections", "threads")
_SUMS: Final = frozenset({"total", "sum"})
#: "All" and "overall" may also head a mean.
_TOTALS: Final = _SUMS | {"all", "overall"}


@check("scale_factor", "Are scale factors, speedups and efficiencies the ratios of the throughputs?")
def scale_factor(tables: Sequence[ResultTable]) -> Iterator[Finding]:
    """Recompute them against the row of the same table whose own factor is 1."""
    for table in tables:
        for stem in ("scale_factor", "speedup"):
            for row, bases in _against_bases(table, stem, 1.0):
                yield _closest(row, stem, [row["throughput"].range / base["throughput"].range for base in bases])
        for row, bases in _against_bases(table, "efficiency", 1.0):
            if shares := [share for base in bases for share in _efficiencies(row, base)]:
                yield _closest(row, "efficiency", shares)
        for row, bases in _against_bases(table, "change", 0.0):
            ratios = [row["throughput"].range / base["throughput"].range for base in bases]
            yield _closest(row, "change", [ratio.scaled(100.0) - _HUNDRED for ratio in ratios])


def _against_bases(table: ResultTable, stem: str, own: float) -> Iterator[tuple[Row, list[Row]]]:
    """Rows that state the factor, each with its possible bases: the rows whose own factor is 1.

    The bases are those of the same series (system, workload, words), if it has any; else those of the same workload,
    else all. A table of two systems may have a base for each, or one for both.
    """
    stating = [row for row in table.rows if row.states(stem, "throughput") and not row.states("base_throughput")]
    bases = [row for row in stating if row[stem].value == own * (100.0 if row[stem].metric.dimension else 1.0)]
    for row in stating if len(stating) > 1 else ():
        near = [base for base in bases if base.group == row.group]
        near = near or [base for base in bases if base.workload == row.workload] or bases
        if near:
            yield row, near


def _efficiencies(row: Row, base: Row) -> Iterator[Range]:
    """Speedup over growth, for each size in which the row differs from its base."""
    sizes = [size for size in _SIZES if row.states(size) and base.states(size) and row[size].value > 0]
    grown = [size for size in sizes if row[size].value != base[size].value] or sizes[:1]
    faster = row["throughput"].range / base["throughput"].range
    percent = row["efficiency"].metric.dimension == "percent"
    for size in grown:
        share = faster * base[size].range / row[size].range
        yield share.scaled(100.0) if percent else share


def _closest(row: Row, stem: str, expected: Sequence[Range]) -> Finding:
    """The finding for the first expected value that agrees, or else for the first of all."""
    agreeing = (each for each in expected if row[stem].range.overlaps(each))
    return compare("scale_factor", row, stem, next(agreeing, expected[0]))


@check("ratio", "Do speedups, differences and percentages follow from the throughputs beside them?")
def ratio(tables: Sequence[ResultTable]) -> Iterator[Finding]:
    """Recompute ratios and differences from the throughput and its base in the same row."""
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
                yield compare("ratio", row, stem, expected)


@check("product", "Is a quantity per unit times the units the quantity?")
def product(tables: Sequence[ResultTable]) -> Iterator[Finding]:
    """`vcpus_per_worker` × `workers` (+ `coordinator_vcpus`) = `vcpus`, and other quantities named like this."""
    for row in _rows(tables):
        for stem in list(row.numbers):
            total, _, unit = stem.partition("_per_")
            if unit:
                yield from _product(row, stem, total, unit)
        if row.states("samples", "sampling", "operations"):
            yield compare("product", row, "samples", (row["operations"].range * row["sampling"].range).scaled(0.01))


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
        yield compare("product", row, whole, expected if apart is None else expected + apart.range)
        return


@check("per_day", "Are operations per day 86,400 times the operations per second?")
def per_day(tables: Sequence[ResultTable]) -> Iterator[Finding]:
    """A day has 86,400 seconds."""
    for row in _rows(tables):
        if row.states("throughput", "operations_per_day"):
            yield compare("per_day", row, "operations_per_day", row["throughput"].range * _SECONDS_PER_DAY)


@check("parts_add_up", "Is the total's throughput the sum of the parts'?")
def parts_add_up(tables: Sequence[ResultTable]) -> Iterator[Finding]:
    """A row named total, sum, all or overall is compared with the sum of its parts.

    The parts are the rows of the same system and workload, if the table states them; if there are several totals, the
    rows since the last one.
    """
    for table in tables:
        series: dict[tuple[str | None, str | None], list[Row]] = defaultdict(list)
        for row in table.rows:
            series[row.system, row.workload].append(row)
        for rows in series.values():
            for stem in ("throughput", "operations", "nopm"):
                yield from _added([row for row in rows if row.states(stem)], stem)


def _added(rows: Sequence[Row], stem: str) -> Iterator[Finding]:
    parts: list[Row] = []
    for row in rows:
        if not _is_total(row):
            parts.append(row)
            continue
        if len(parts) > 1:
            added = sum((part[stem].range for part in parts), Range.exact(0))
            mean = added.scaled(1 / len(parts))
            averaged = _words(row) <= _TOTALS - _SUMS and row[stem].range.overlaps(mean)
            yield compare("parts_add_up", row, stem, mean if averaged else added)
        parts = []


def _is_total(row: Row) -> bool:
    return bool(_words(row) & _TOTALS)


def _words(row: Row) -> set[str]:
    return {word.strip() for word in row.label.lower().split(",")}


def _rows(tables: Sequence[ResultTable]) -> Iterator[Row]:
    for table in tables:
        yield from table.rows


def compare(name: str, row: Row, stem: str, expected: Range) -> Finding:
    """A green finding if the stated number allows the expected value, else a red one."""
    number = row[stem]
    words = stem.replace("_", " ")
    if number.range.overlaps(expected):
        return finding("green", name, row, _span(number, expected), str(number), f"{words} agrees")
    middle = (expected.low + expected.high) / 2
    if middle:
        off = number.value / middle - 1
        side = "above" if off > 0 else "below"
        text = f"{words} is {percent(abs(off), 1)} {side} the value that the other numbers give{_note(number)}"
    else:
        text = f"{words} is not 0, the value that the other numbers give{_note(number)}"
    return finding("red", name, row, _span(number, expected), str(number), text)


def _span(number: Number, expected: Range) -> str:
    low, high = (readable(end / number.metric.factor) for end in (expected.low, expected.high))
    middle = readable((expected.low + expected.high) / 2 / number.metric.factor)
    return (
        f"{middle} {number.unit}".strip() if low == high else f"{middle} {number.unit}".strip() + f" ({low} to {high})"
    )


def _note(number: Number) -> str:
    return f"; {number.note}" if number.note else ""

"""Checks of numbers that follow from others: scale factors, changes, totals, rates per day."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from citus_analysis.published._numbers import Range
from citus_analysis.published._rows import ResultTable, Row
from citus_analysis.published.checks._registry import Finding, check, finding, rows_of
from citus_analysis.texts.number_text import percent, readable

_HUNDRED: Final = Range.exact(100)
#: Quantities by which a system grows.
_SIZES: Final = ("workers", "servers", "nodes", "connections", "threads")
_SUMS: Final = frozenset({"total", "sum"})
#: "All" and "overall" may also head a mean.
_TOTALS: Final = _SUMS | {"all", "overall"}


@check("scale_factor", "Are scale factors, speedups and efficiencies the ratios of the throughputs?", iter)
def scale_factor(table: ResultTable) -> Iterator[Finding]:
    """Recompute them against the row of the same table whose own factor is 1."""
    for stem in ("scale_factor", "speedup", "efficiency", "change"):
        for row, bases in _against_bases(table, stem, 0.0 if stem == "change" else 1.0):
            if expected := [value for base in bases for value in _implied(row, base, stem)]:
                # The finding for the first value that agrees, or else for the first of all.
                agreeing = (each for each in expected if row[stem].range.overlaps(each))
                yield compare(row, stem, next(agreeing, expected[0]))


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


def _implied(row: Row, base: Row, stem: str) -> Iterator[Range]:
    """The factor that the throughputs give: an efficiency for each size in which the row differs from its base."""
    faster = row["throughput"].range / base["throughput"].range
    if stem != "efficiency":
        yield faster.scaled(100.0) - _HUNDRED if stem == "change" else faster
        return
    sizes = [size for size in _SIZES if row.states(size) and base.states(size) and row[size].value > 0]
    percent = row["efficiency"].metric.dimension == "percent"
    for size in [size for size in sizes if row[size].value != base[size].value] or sizes[:1]:
        share = faster * base[size].range / row[size].range
        yield share.scaled(100.0) if percent else share


@check("ratio", "Do speedups, differences and percentages follow from the throughputs beside them?", rows_of)
def ratio(row: Row) -> Iterator[Finding]:
    """Recompute ratios and differences from the throughput and its base in the same row."""
    if not row.states("throughput", "base_throughput"):
        return
    new, base = row["throughput"].range, row["base_throughput"].range
    change = (new / base).scaled(100.0) - _HUNDRED
    implied = {"speedup": new / base, "difference": new - base, "change": change, "penalty": -change}
    yield from (compare(row, stem, expected) for stem, expected in implied.items() if row.states(stem))


@check("product", "Is a quantity per unit times the units the quantity?", rows_of)
def product(row: Row) -> Iterator[Finding]:
    """`vcpus_per_worker` × `workers` (+ `coordinator_vcpus`) = `vcpus`, and other quantities named like this."""
    for stem in list(row.numbers):
        total, _, unit = stem.partition("_per_")
        if unit:
            yield from _product(row, stem, total, unit)
    if row.states("samples", "sampling", "operations"):
        yield compare(row, "samples", (row["operations"].range * row["sampling"].range).scaled(0.01))


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
        yield compare(row, whole, expected + apart.range if apart else expected)
        return


@check("per_day", "Are operations per day 86,400 times the operations per second?", rows_of)
def per_day(row: Row) -> Iterator[Finding]:
    """A day has 86,400 seconds."""
    if row.states("throughput", "operations_per_day"):
        yield compare(row, "operations_per_day", row["throughput"].range.scaled(86_400))


@check("parts_add_up", "Is the total's throughput the sum of the parts'?", iter)
def parts_add_up(table: ResultTable) -> Iterator[Finding]:
    """A row named total, sum, all or overall is compared with the sum of its parts.

    The parts are the rows of the same system and workload, if the table states them; if there are several totals, the
    rows since the last one.
    """
    series: dict[tuple[str | None, str | None], list[Row]] = defaultdict(list)
    for row in table.rows:
        series[row.system, row.workload].append(row)
    for rows in series.values():
        for stem in ("throughput", "operations", "nopm"):
            yield from _added([row for row in rows if row.states(stem)], stem)


def _added(rows: Sequence[Row], stem: str) -> Iterator[Finding]:
    parts: list[Row] = []
    for row in rows:
        words = {word.strip() for word in row.label.lower().split(",")}
        if not words & _TOTALS:
            parts.append(row)
            continue
        if len(parts) > 1:
            added = sum((part[stem].range for part in parts), Range.exact(0))
            mean = added.scaled(1 / len(parts))
            averaged = words <= _TOTALS - _SUMS and row[stem].range.overlaps(mean)
            yield compare(row, stem, mean if averaged else added)
        parts = []


def compare(row: Row, stem: str, expected: Range) -> Finding:
    """A green finding if the stated number allows the expected value, else a red one."""
    number, value, words = row[stem], expected.printed, stem.replace("_", " ")
    note = f"the value that the other numbers give{f'; {number.note}' if number.note else ''}"
    low, central, high = (readable(end / number.metric.factor) for end in (expected.low, value, expected.high))
    span = f"{central} {number.unit}".strip() + ("" if low == high else f" (digits allow {low} to {high})")
    red = ""
    if not number.range.overlaps(expected):
        off = number.value / value - 1 if value else 0.0
        side = "above" if off > 0 else "below"
        red = f"{words} is {f'{percent(abs(off), 1)} {side}' if value else 'not 0,'} {note}"
    return finding(row, span, str(number), f"{words} agrees", red=red)

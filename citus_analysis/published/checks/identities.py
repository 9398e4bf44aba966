"""Checks of quantities that define each other: operations, run time and throughput; spreads and their ratios."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from citus_analysis.published._numbers import Range
from citus_analysis.published._rows import Number, ResultTable, Row
from citus_analysis.published.checks._registry import Finding, check, finding, rows_of
from citus_analysis.published.checks.ratios import compare
from citus_analysis.texts.number_text import percent, readable

#: Difference that means of repetitions, or warm-up that one number leaves out, explain.
_CLOSE: Final = 0.02
#: Largest such difference; numbers further apart are not of the same run.
_APART: Final = 0.10


@check("throughput_identity", "Is throughput × run time the number of operations?", rows_of)
def throughput_identity(row: Row) -> Iterator[Finding]:
    """Compare operations over run time with the stated throughput."""
    rate, runtime, done = row.get("throughput"), row.get("runtime"), _operations(row)
    if rate and runtime and done and done.low > 0 and runtime.range.low > 0 and rate.value > 0:
        yield _judge(row, rate, runtime, done)


def _operations(row: Row) -> Range | None:
    """The operations of a run: as stated, or the sum of those that returned OK in each section of YCSB's summary."""
    sections = [row[stem].range for stem in row.numbers if stem.endswith("return_ok")]
    if sections:
        return sum(sections, Range.exact(0))
    return row["operations"].range if row.states("operations") else None


def _judge(row: Row, rate: Number, runtime: Number, done: Range) -> Finding:
    implied = done / runtime.range
    expected = f"{rate.printed(implied.printed)} ({readable(done.printed)} operations in {runtime})"
    off = max(rate.range.low / implied.high - 1, implied.low / rate.range.high - 1)
    red, amber = "", _per_generator(row, rate, implied) if off > _CLOSE else ""
    if off > _APART and not amber:
        red = f"operations, run time and throughput are {percent(off)} apart: they are not of the same run"
    elif off > _CLOSE and not amber:
        amber = f"they are {percent(off)} apart: one of them may leave out warm-up or failed operations"
    return finding(row, expected, str(rate), "they agree", red=red, amber=amber)


def _per_generator(row: Row, rate: Number, implied: Range) -> str:
    """An explanation if operations are counted per load generator while the throughput is that of all, else empty."""
    drivers = row.get("drivers")
    if drivers is None or drivers.value <= 1:
        return ""
    both = implied.scaled(drivers.value)
    near = Range(both.low * (1 - _CLOSE), both.high * (1 + _CLOSE)).overlaps(rate.range)
    return f"the operations seem to be those of one of {readable(drivers.value)} load generators" if near else ""


@check("spread_identity", "Do standard error and coefficient of variation follow from the standard deviation?", rows_of)
def spread_identity(row: Row) -> Iterator[Finding]:
    """Standard error = sigma / √n; coefficient of variation = sigma / mean."""
    sigma, mean = row.sigma_and_mean
    if sigma and row.n is not None and row.states("standard_error"):
        yield compare(row, "standard_error", sigma.range.scaled(1 / math.sqrt(row.n)))
    if sigma and mean and row.states("variation") and mean.range.low > 0:
        share = sigma.range / mean.range
        percent = row["variation"].metric.dimension == "percent" or row["variation"].stated.endswith("%")
        yield compare(row, "variation", share.scaled(100.0) if percent else share)


#: A number this many times away from every other of its column probably has another unit.
_ALONE: Final = 300.0
_FEW: Final = 3
#: Logarithm of the largest factor that is shown.
_LARGEST: Final = 700.0


@check("same_magnitude", "Are the numbers of a column of one order of magnitude?", iter)
def same_magnitude(table: ResultTable) -> Iterator[Finding]:
    """A throughput or latency hundreds of times away from all others of its column may be printed in another unit."""
    for stem in dict.fromkeys(stem for row in table.rows for stem in row.numbers):
        rows = [row for row in table.rows if row.states(stem) and row[stem].value > 0]
        if len(rows) >= _FEW and rows[0][stem].metric.dimension in ("rate", "time"):
            yield from _alone(rows, stem)


def _alone(rows: Sequence[Row], stem: str) -> Iterator[Finding]:
    for row in rows:
        others = [math.log(other[stem].value) for other in rows if other is not row]
        here = math.log(row[stem].value)
        nearest = min(others, key=lambda other: abs(other - here))
        if abs(nearest - here) > math.log(_ALONE):
            factor = math.exp(min(abs(nearest - here), _LARGEST))
            text = f"{readable(factor)} times away from every other of its column: wrong unit?"
            expected = f"about {row[stem].printed(math.exp(nearest))}"
            yield finding(row, expected, f"{stem} {row[stem]}", amber=text)

"""The definition of a check, and the table of all checks.

A check is one function: it takes a row, an interval or a table of results and yields findings, green if the numbers
agree. :func:`check` registers it in :data:`CHECKS`.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, pairwise
from math import inf, isfinite
from typing import Final, Literal, NamedTuple, TypeVar

import polars as pl

from citus_analysis.published.grim import judge_counts, means_of_counts, parse_counted_quantity
from citus_analysis.published.rows import APPROXIMATE, Range, ResultTable, Row, StatedNumber, count_significant_digits
from citus_analysis.published.tables import UNSAID_SPREAD
from citus_analysis.runs.concurrency import TOLERANCE
from citus_analysis.stats.intervals import MeanMethod, estimate_mean_from_summary
from citus_analysis.texts.metric_names import COUNTS, RATIOS, is_understood, parse_confidence_level
from citus_analysis.texts.numbers import format_number, format_percent

Severity = Literal["green", "amber", "red"]
Tables = Sequence[ResultTable]
T = TypeVar("T")


class Finding(NamedTuple):
    """One row of the table `findings`; the fields are its columns."""

    severity: Severity
    check: str
    source: str
    table: str
    row: str
    expected: str
    stated: str
    explanation: str


@dataclass(frozen=True)
class AuditCheck:
    """A named check.

    Attributes:
        name: its name in `findings.check`.
        question: its question in one sentence.
        run: the function over all tables.
    """

    name: str
    question: str
    run: Callable[[Tables], Iterator[Finding]]


#: All checks of result tables, in the order in which findings are listed.
CHECKS: Final[dict[str, AuditCheck]] = {}


def check(
    name: str, question: str, of: Callable[[Tables], Iterable[T]]
) -> Callable[[Callable[[T], Iterator[Finding]]], Callable[[T], Iterator[Finding]]]:
    """Register the decorated function in :data:`CHECKS`; its findings get the name.

    Args:
        name: name of the check.
        question: its question in one sentence.
        of: what of the tables the function checks, one after the other.
    """

    def enter(run: Callable[[T], Iterator[Finding]]) -> Callable[[T], Iterator[Finding]]:
        def name_findings(tables: Tables) -> Iterator[Finding]:
            return (found._replace(check=name) for one in of(tables) for found in run(one))

        CHECKS[name] = AuditCheck(name, question, name_findings)
        return run

    return enter


def iterate_table_rows(tables: Tables) -> Iterator[Row]:
    """The rows of all tables."""
    return (row for table in tables for row in table.rows)


def make_row_finding(
    row: Row, expected: str, stated: str, green: str = "", *, red: str = "", amber: str = "", name: str = ""
) -> Finding:
    """A finding about one row: red or amber if a reason for it is given, else green."""
    return Finding(find_worst_severity(red, amber), name, *row.place, expected, stated, red or amber or green)


def find_worst_severity(red: str, amber: str) -> Severity:
    """The severity that has a reason."""
    return "red" if red else "amber" if amber else "green"


# Checks that mean, standard deviation, number of repetitions and interval agree.

_MOST_REPEATS: Final = 200
#: Allows for 1.96 instead of 1.959964 and rounded input; n and n + 1 differ by more up to n = 500.
_TOLERANCE: Final = 0.001
_DEFAULT_LEVEL: Final = 0.95
#: Smaller values are not confidence levels, and their quantiles vanish.
_LEAST_LEVEL: Final = 0.01
#: Half-widths above this share of the mean hide the differences that papers discuss.
_COARSE: Final = 0.10
_NAMES: Final[dict[MeanMethod, str]] = {"normal": "normal quantile", "t": "Student's t"}


@dataclass(frozen=True)
class StatedInterval:
    """A mean with its interval, as a row states them."""

    row: Row
    mean: StatedNumber
    low: StatedNumber
    high: StatedNumber
    level: float

    @property
    def half_width(self) -> Range:
        """Half the width, as the range that the digits of the ends allow."""
        return (self.high.range - self.low.range).scaled(0.5)

    def __str__(self) -> str:
        return f"± {self.mean.printed(self.half_width.printed)}"


def get_stated_interval(row: Row) -> StatedInterval | None:
    """The interval that a row states, by its ends or by half its width; None if it states none."""
    half, low, high = (row.get(stem) for stem in ("interval_half", "interval_low", "interval_high"))
    spread = low if low is not None and high is not None else half
    mean = None if spread is None else row.mean_for(spread)
    if mean is None:
        return None
    if (low is None or high is None) and half is not None:
        low, high = _ends_about(mean, half)
    if low is None or high is None:
        return None
    stated = (
        row["interval_level"].value
        if row.states("interval_level")
        else parse_confidence_level(low.name) or _DEFAULT_LEVEL
    )
    share = stated / 100 if stated > 1 else stated
    return StatedInterval(row, mean, low, high, share) if _LEAST_LEVEL < share < 1 else None


def _ends_about(mean: StatedNumber, half: StatedNumber) -> tuple[StatedNumber, StatedNumber]:
    """The ends of mean ± half, without the rounding of the mean, which shifts both equally."""
    relative = half.stated.endswith("%") or half.metric.dimension == "percent"
    width = half.range.scaled(mean.value / 100) if relative else half.range
    about = Range.exact(mean.value)
    low, high = (
        replace(half, value=end.printed, range=end, stated=format_number(end.printed))
        for end in (about - width, about + width)
    )
    return low, high


def infer_repetitions(interval: StatedInterval, method: MeanMethod) -> list[int]:
    """Numbers of repetitions at which the row's sigma gives the interval's width."""
    if not interval.row.states("sigma"):
        return []
    sigma, width = interval.row["sigma"].range, interval.half_width
    return [
        n
        for n in range(2, _MOST_REPEATS + 1)
        if _compute_half_width_range(sigma, n, interval.level, method).overlaps(width)
    ]


@cache
def _compute_unit_half_width(n: int, level: float, method: MeanMethod) -> float:
    return estimate_mean_from_summary(0.0, 1.0, n, level, method).half_width


def _compute_half_width_range(sigma: Range, n: int, level: float, method: MeanMethod) -> Range:
    unit = _compute_unit_half_width(n, level, method)
    return Range(unit * (1 - _TOLERANCE), unit * (1 + _TOLERANCE)) * sigma


def _iterate_stated_intervals(tables: Sequence[ResultTable]) -> Iterator[StatedInterval]:
    return (interval for row in iterate_table_rows(tables) if (interval := get_stated_interval(row)))


@check("interval_centre", "Does the mean lie in the middle of its interval?", _iterate_stated_intervals)
def check_interval_centre(interval: StatedInterval) -> Iterator[Finding]:
    """An interval of either formula is symmetric about its mean."""
    mean, low, high = interval.mean, interval.low, interval.high
    centre = (low.range + high.range).scaled(0.5)
    outside = mean.range.high < low.range.low or mean.range.low > high.range.high or low.value > high.value
    red = "the mean lies outside its own interval" if outside else ""
    amber = "" if centre.overlaps(mean.range) else "the interval is not centred on its mean, as mean ± half-width is"
    expected = mean.printed(centre.printed)
    yield make_row_finding(interval.row, expected, str(mean), "mean in the middle", red=red, amber=amber)


@check("interval_n", "For which number of repetitions do sigma and interval agree?", iter)
def check_interval_repetitions(table: ResultTable) -> Iterator[Finding]:
    """Invert half-width = quantile × sigma / √n under the normal quantile and under Student's t."""
    implied: list[list[int]] = []
    for interval in _iterate_stated_intervals([table]):
        if interval.row.states("sigma"):
            fits = {method: infer_repetitions(interval, method) for method in _NAMES}
            if interval.row.n is None:
                implied.append(fits["normal"] or fits["t"])
            yield _judge_n(interval, fits)
    if len(implied) > 1 and all(implied) and not set.intersection(*map(set, implied)):
        stated = "n = " + ", ".join(_format_repetition_range(ns) for ns in implied)
        text = f"the widths of the intervals imply {stated} in the order of the rows"
        yield Finding("amber", "", table.source, table.name, "all rows", "one n", stated, text)


def _judge_n(interval: StatedInterval, fits: dict[MeanMethod, list[int]]) -> Finding:
    row, sigma, n = interval.row, interval.row["sigma"], interval.row.n
    wanted = "; ".join(f"n = {_format_repetition_range(ns)} ({_NAMES[method]})" for method, ns in fits.items() if ns)
    if not wanted:
        text = (
            f"no number of repetitions gives an interval of {interval} from this sigma; "
            "with the normal quantile the interval needs the expected ones"
        )
        return make_row_finding(row, _describe_needed_sigma(interval), f"sigma {sigma}", red=text)
    if n is None:
        text = f"{interval} follows from this sigma at that n; the publication does not state n"
        return make_row_finding(row, wanted, "n not stated", amber=text)
    agree = any(n in ns for ns in fits.values())
    red = "" if agree else f"{interval} does not follow from this sigma at the stated n"
    return make_row_finding(row, wanted, f"n = {n}", "sigma, n and interval agree", red=red)


def _describe_needed_sigma(interval: StatedInterval) -> str:
    factor, half = interval.row["sigma"].metric.factor, interval.half_width.printed
    needed = {k: half / _compute_unit_half_width(k, interval.level, "normal") / factor for k in (3, 4, 5)}
    return "sigma " + ", ".join(f"{format_number(sigma)} at n = {k}" for k, sigma in needed.items())


@check("interval_quantile", "Is the interval as wide as Student's t makes it at that n?", _iterate_stated_intervals)
def check_interval_quantile(interval: StatedInterval) -> Iterator[Finding]:
    """The normal quantile gives an interval that is too narrow for a handful of repetitions."""
    n = _get_repetitions(interval.row)
    if n is None or not interval.row.states("sigma"):
        return
    wide, width = _compute_half_width_range(interval.row["sigma"].range, n, interval.level, "t"), interval.half_width
    narrow = width.high < wide.low
    share = format_percent(width.printed / wide.printed) if narrow else ""
    amber = f"the interval has {share} of the width that Student's t gives {n} repetitions" if narrow else ""
    expected = f"± {interval.mean.printed(wide.printed)} at n = {n}"
    yield make_row_finding(interval.row, expected, str(interval), "wide enough", amber=amber)


@check("interval_resolution", "Which differences can the repetitions with their spread show?", iterate_table_rows)
def check_interval_resolution(row: Row) -> Iterator[Finding]:
    """A mean of few scattered runs cannot support a claim of no difference."""
    sigma, mean = row.sigma_and_mean
    n = _get_repetitions(row)
    if row.n is not None and row.n < 3 and row.states("throughput"):
        text = "too few repetitions to estimate their spread"
        yield make_row_finding(row, "n of 3 or more", f"n = {row.n}", amber=text)
    elif sigma and mean and mean.value and n is not None:
        share = _compute_half_width_range(sigma.range, n, _DEFAULT_LEVEL, "t").printed / abs(mean.value)
        stated = f"sigma {format_percent(sigma.value / abs(mean.value), 1)} of the mean, n = {n}"
        known = f"the mean is known to ± {format_percent(share, 1)}"
        text = f"{known} (Student's t): smaller differences, or their absence, do not show"
        coarse = share > _COARSE
        yield make_row_finding(
            row, f"± {format_percent(_COARSE)} or better", stated, known, amber=text if coarse else ""
        )


def _get_repetitions(row: Row) -> int | None:
    """The stated n, else the one that the row's interval implies."""
    if row.n is None:
        interval = get_stated_interval(row)
        return None if interval is None else next(iter(infer_repetitions(interval, "normal")), None)
    return row.n if row.n > 1 else None


def _format_repetition_range(ns: Sequence[int]) -> str:
    return str(ns[0]) if len(ns) == 1 else f"{ns[0]} to {ns[-1]}"


# Checks for the same numbers in two places, and for two numbers in the same place.

#: Two standard deviations that agree in this many digits are copies.
_TELLING_DIGITS: Final = 4
_TELLING_VALUES: Final = 2


@check("copied_sigma", "Does the same column of standard deviations occur in two tables?", lambda tables: [tables])
def check_copied_sigmas(tables: Sequence[ResultTable]) -> Iterator[Finding]:
    """Standard deviations of two experiments that agree to four digits in two or more rows are copies."""
    columns = [(table, _list_recognisable_sigmas(table)) for table in tables]
    for (one, left), (other, right) in combinations([c for c in columns if len(c[1]) >= _TELLING_VALUES], 2):
        shared = [text for text in left if text in right]
        same_means = any(_means(one, text) & _means(other, text) for text in shared)
        if len(shared) < _TELLING_VALUES or same_means:
            continue
        copy, origin = (one, other) if _count_interval_misfits(one) >= _count_interval_misfits(other) else (other, one)
        rows = "; ".join(
            row.label for row in copy.rows if row.states("sigma") and _extract_digits(row["sigma"]) in shared
        )
        own = "its own intervals need other values" if _count_interval_misfits(copy) else "one of the two is a copy"
        theirs = _format_table_name(origin, copy)
        text = f"{len(shared)} standard deviations agree digit by digit with {theirs}; {own}"
        expected = f"values of its own, not those of {theirs}"
        yield Finding("red", "", copy.source, copy.name, rows, expected, ", ".join(shared), text)


@check("stated_twice", "Does a number that is stated more than once stay the same?", iterate_table_rows)
def check_repeated_statements(row: Row) -> Iterator[Finding]:
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
        yield make_row_finding(row, "one value", texts, "the statements agree", red=red, amber=amber)


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
def check_copied_rows(table: ResultTable) -> Iterator[Finding]:
    """Two measurements do not agree in every number digit by digit."""
    for one, other in combinations(table.rows, 2):
        shared = _find_agreeing_stems(one, other)
        digits = _count_independent_digits(one, shared)
        if digits < _SUSPICIOUS:
            continue
        stated = ", ".join(f"{stem.replace('_', ' ')} {one[stem]}" for stem in shared)
        text = f"all measured numbers of this row agree digit by digit with those of {one.label}"
        sure = digits >= _COPIED and not _is_same_subject(one, other)
        yield make_row_finding(other, "numbers of its own", stated, red=text if sure else "", amber=text)


@check("copied_cell", "Does a number of a row occur again in the same column?", iter)
def check_copied_cells(table: ResultTable) -> Iterator[Finding]:
    """Two measurements of one quantity do not agree in five digits or more, unless one was copied."""
    known: dict[tuple[str, str], Row] = {}
    for row in table.rows:
        for stem in row.numbers:
            number = row[stem]
            if not _is_measured(number) or count_significant_digits(number.stated) < _TELLING_CELL:
                continue
            first = known.setdefault((stem, _extract_digits(number)), row)
            if first is not row and not _find_agreeing_stems(first, row):
                text = f"this number agrees digit by digit with that of {first.label}, while others of the row do not"
                yield make_row_finding(row, "a number of its own", f"{stem.replace('_', ' ')} {number}", amber=text)


def _find_agreeing_stems(one: Row, other: Row) -> list[str]:
    """The measured stems of two rows, if all of them are printed alike; else none."""
    measured = [{stem for stem in row.numbers if _is_measured(row[stem])} for row in (one, other)]
    if measured[0] != measured[1]:
        return []
    alike = all(_extract_digits(one[stem]) == _extract_digits(other[stem]) for stem in measured[0])
    return [stem for stem in one.numbers if stem in measured[0]] if alike else []


def _is_measured(number: StatedNumber) -> bool:
    """Whether a number is a rate, a time or a spread; gauges such as memory stay the same from run to run."""
    stem = number.metric.stem
    return stem not in _NOT_MEASURED and (number.metric.dimension in ("rate", "time") or stem in _SPREADS)


def _count_independent_digits(row: Row, stems: Sequence[str]) -> int:
    """Number of digits after the first, which neighbouring rows often share; zeros and failures (-1) do not count."""
    digits_by_stem = {
        stem: max(0, count_significant_digits(row[stem].stated) - 1) for stem in stems if row[stem].value > 0
    }
    together = max((digits_by_stem[stem] for stem in digits_by_stem if stem in _TOGETHER), default=0)
    return together + sum(digits for stem, digits in digits_by_stem.items() if stem not in _TOGETHER)


def _is_same_subject(one: Row, other: Row) -> bool:
    """Whether the rows have the same settings, so that the same measurement may be listed twice."""
    counts = [{stem: row[stem].value for stem in row.numbers if stem in COUNTS} for row in (one, other)]
    return one.group == other.group and counts[0] == counts[1]


def _extract_digits(number: StatedNumber) -> str:
    return number.stated.removeprefix(APPROXIMATE).replace(",", "")


def _list_recognisable_sigmas(table: ResultTable) -> list[str]:
    """The standard deviations of a table with enough digits to recognise copies, in order."""
    texts = [_extract_digits(row["sigma"]) for row in table.rows if row.states("sigma")]
    return [text for text in texts if len(text.replace(".", "").strip("0")) >= _TELLING_DIGITS]


def _means(table: ResultTable, sigma: str) -> set[float]:
    """Means with a standard deviation in the same row."""
    rows = [row for row in table.rows if row.states("sigma") and _extract_digits(row["sigma"]) == sigma]
    return {mean.value for row in rows if (mean := row.mean_for(row["sigma"])) is not None}


def _count_interval_misfits(table: ResultTable) -> int:
    """The number of rows whose standard deviation does not fit their interval at any number of repetitions."""
    intervals = [interval for row in table.rows if row.states("sigma") and (interval := get_stated_interval(row))]
    return sum(
        not infer_repetitions(interval, "normal") and not infer_repetitions(interval, "t") for interval in intervals
    )


def _format_table_name(table: ResultTable, beside: ResultTable) -> str:
    return f"table {table.name}" if table.source == beside.source else f"table {table.name} of {table.source}"


# Checks of numbers that follow from others: scale factors, changes, totals, rates per day.

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
        for row, bases in _pair_rows_with_bases(table, stem, 0.0 if stem == "change" else 1.0):
            if expected := [value for base in bases for value in _compute_implied_factors(row, base, stem)]:
                # The finding for the first value that agrees, or else for the first of all.
                agreeing = (each for each in expected if row[stem].range.overlaps(each))
                yield compare(row, stem, next(agreeing, expected[0]))


def _pair_rows_with_bases(table: ResultTable, stem: str, own: float) -> Iterator[tuple[Row, list[Row]]]:
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


def _compute_implied_factors(row: Row, base: Row, stem: str) -> Iterator[Range]:
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


@check("ratio", "Do speedups, differences and percentages follow from the throughputs beside them?", iterate_table_rows)
def check_stated_ratios(row: Row) -> Iterator[Finding]:
    """Recompute ratios and differences from the throughput and its base in the same row."""
    if not row.states("throughput", "base_throughput"):
        return
    new, base = row["throughput"].range, row["base_throughput"].range
    change = (new / base).scaled(100.0) - _HUNDRED
    implied = {"speedup": new / base, "difference": new - base, "change": change, "penalty": -change}
    yield from (compare(row, stem, expected) for stem, expected in implied.items() if row.states(stem))


@check("product", "Is a quantity per unit times the units the quantity?", iterate_table_rows)
def check_stated_products(row: Row) -> Iterator[Finding]:
    """`vcpus_per_worker` × `workers` (+ `coordinator_vcpus`) = `vcpus`, and other quantities named like this."""
    for stem in list(row.numbers):
        total, _, unit = stem.partition("_per_")
        if unit:
            yield from _check_product_pairs(row, stem, total, unit)
    if row.states("samples", "sampling", "operations"):
        yield compare(row, "samples", (row["operations"].range * row["sampling"].range).scaled(0.01))


def _check_product_pairs(row: Row, stem: str, total: str, unit: str) -> Iterator[Finding]:
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


@check("per_day", "Are operations per day 86,400 times the operations per second?", iterate_table_rows)
def check_daily_rates(row: Row) -> Iterator[Finding]:
    """A day has 86,400 seconds."""
    if row.states("throughput", "operations_per_day"):
        yield compare(row, "operations_per_day", row["throughput"].range.scaled(86_400))


@check("parts_add_up", "Is the total's throughput the sum of the parts'?", iter)
def check_row_totals(table: ResultTable) -> Iterator[Finding]:
    """A row named total, sum, all or overall is compared with the sum of its parts.

    The parts are the rows of the same system and workload, if the table states them; if there are several totals, the
    rows since the last one.
    """
    series: dict[tuple[str | None, str | None], list[Row]] = defaultdict(list)
    for row in table.rows:
        series[row.system, row.workload].append(row)
    for rows in series.values():
        for stem in ("throughput", "operations", "nopm"):
            yield from _check_added_rows([row for row in rows if row.states(stem)], stem)


def _check_added_rows(rows: Sequence[Row], stem: str) -> Iterator[Finding]:
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
    low, central, high = (format_number(end / number.metric.factor) for end in (expected.low, value, expected.high))
    span = f"{central} {number.unit}".strip() + ("" if low == high else f" (digits allow {low} to {high})")
    red = ""
    if not number.range.overlaps(expected):
        off = number.value / value - 1 if value else 0.0
        side = "above" if off > 0 else "below"
        red = f"{words} is {f'{format_percent(abs(off), 1)} {side}' if value else 'not 0,'} {note}"
    return make_row_finding(row, span, str(number), f"{words} agrees", red=red)


# Checks of quantities that define each other: operations, run time and throughput; spreads and their ratios.

#: Difference that means of repetitions, or warm-up that one number leaves out, explain.
_CLOSE: Final = 0.02
#: Largest such difference; numbers further apart are not of the same run.
_APART: Final = 0.10


@check("throughput_identity", "Is throughput × run time the number of operations?", iterate_table_rows)
def check_throughput_identity(row: Row) -> Iterator[Finding]:
    """Compare operations over run time with the stated throughput."""
    rate, runtime, done = row.get("throughput"), row.get("runtime"), _get_operation_range(row)
    if rate and runtime and done and done.low > 0 and runtime.range.low > 0 and rate.value > 0:
        yield _judge(row, rate, runtime, done)


def _get_operation_range(row: Row) -> Range | None:
    """The operations of a run: as stated, or the sum of those that returned OK in each section of YCSB's summary."""
    sections = [row[stem].range for stem in row.numbers if stem.endswith("return_ok")]
    if sections:
        return sum(sections, Range.exact(0))
    return row["operations"].range if row.states("operations") else None


def _judge(row: Row, rate: StatedNumber, runtime: StatedNumber, done: Range) -> Finding:
    implied = done / runtime.range
    expected = f"{rate.printed(implied.printed)} ({format_number(done.printed)} operations in {runtime})"
    off = max(rate.range.low / implied.high - 1, implied.low / rate.range.high - 1)
    red, amber = "", _explain_per_generator_count(row, rate, implied) if off > _CLOSE else ""
    if off > _APART and not amber:
        red = f"operations, run time and throughput are {format_percent(off)} apart: they are not of the same run"
    elif off > _CLOSE and not amber:
        amber = f"they are {format_percent(off)} apart: one of them may leave out warm-up or failed operations"
    return make_row_finding(row, expected, str(rate), "they agree", red=red, amber=amber)


def _explain_per_generator_count(row: Row, rate: StatedNumber, implied: Range) -> str:
    """An explanation if operations are counted per load generator while the throughput is that of all, else empty."""
    drivers = row.get("drivers")
    if drivers is None or drivers.value <= 1:
        return ""
    both = implied.scaled(drivers.value)
    near = Range(both.low * (1 - _CLOSE), both.high * (1 + _CLOSE)).overlaps(rate.range)
    return f"the operations seem to be those of one of {format_number(drivers.value)} load generators" if near else ""


@check(
    "spread_identity",
    "Do standard error and coefficient of variation follow from the standard deviation?",
    iterate_table_rows,
)
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
def check_same_magnitude(table: ResultTable) -> Iterator[Finding]:
    """A throughput or latency hundreds of times away from all others of its column may be printed in another unit."""
    for stem in dict.fromkeys(stem for row in table.rows for stem in row.numbers):
        rows = [row for row in table.rows if row.states(stem) and row[stem].value > 0]
        if len(rows) >= _FEW and rows[0][stem].metric.dimension in ("rate", "time"):
            yield from _find_magnitude_outliers(rows, stem)


def _find_magnitude_outliers(rows: Sequence[Row], stem: str) -> Iterator[Finding]:
    for row in rows:
        others = [math.log(other[stem].value) for other in rows if other is not row]
        here = math.log(row[stem].value)
        nearest = min(others, key=lambda other: abs(other - here))
        if abs(nearest - here) > math.log(_ALONE):
            factor = math.exp(min(abs(nearest - here), _LARGEST))
            text = f"{format_number(factor)} times away from every other of its column: wrong unit?"
            expected = f"about {row[stem].printed(math.exp(nearest))}"
            yield make_row_finding(row, expected, f"{stem} {row[stem]}", amber=text)


# Checks that percentiles are in order, and that no part of a request is longer than the whole.

#: Histograms of whole milliseconds print percentiles as multiples of it and the mean exactly.
_BUCKET_S: Final = 1e-3
#: High-dynamic-range histograms keep three significant digits.
_RELATIVE: Final = 2e-3


@check(
    "percentiles_ordered", "Do percentiles grow, and is the mean within the bounds that they set?", iterate_table_rows
)
def check_percentile_order(row: Row) -> Iterator[Finding]:
    """Minimum ≤ percentiles in order ≤ maximum, and the mean within the bounds that they set.

    A known share of the values lies between two quantiles, so the mean is at least the sum of share × lower quantile,
    and at most the sum of share × upper quantile if the maximum is known.
    """
    for of, known in row.percentiles().items():
        if len(known) > 1:
            yield _judge_order(row, of, [known[q] for q in sorted(known)])
        mean = row.get(of) or row.get(f"{of}_latency")
        if mean and mean.metric.dimension in ("", *(n.metric.dimension for n in known.values())):
            yield _judge_mean(row, of, mean, known)


def _judge_order(row: Row, of: str, ordered: list[StatedNumber]) -> Finding:
    stated = " ≤ ".join(str(number) for number in ordered)
    wrong = (
        f"{of.replace('_', ' ')}: {a} exceeds {b}, which belongs to a higher percentile"
        for a, b in combinations(ordered, 2)
        if a.range.low > b.range.high + _compute_bucket_tolerance(a, b)
    )
    return make_row_finding(row, "growing percentiles", stated, "percentiles grow", red=next(wrong, ""))


def _compute_bucket_tolerance(a: StatedNumber, b: StatedNumber) -> float:
    """The tolerated difference in the wrong direction between an exact extreme and a percentile that names a bucket."""
    extremes = [number.metric.stem.endswith(("_min", "_max")) for number in (a, b)]
    buckets = [number.metric.dimension == "time" and _is_bucket(number.value) for number in (a, b)]
    return _BUCKET_S if extremes[0] != extremes[1] and any(buckets) and a.metric.factor < _BUCKET_S else 0.0


def _is_bucket(seconds: float) -> bool:
    return abs(seconds / _BUCKET_S - round(seconds / _BUCKET_S)) < 1e-6


def _judge_mean(row: Row, of: str, mean: StatedNumber, known: Mapping[float, StatedNumber]) -> Finding:
    lowest, highest = _compute_mean_bounds(known)
    expected = (
        f"{mean.printed(lowest)} to {mean.printed(highest)}" if isfinite(highest) else f"above {mean.printed(lowest)}"
    )
    words = of.replace("_", " ")
    red, amber = "", ""
    above = [q for q, number in known.items() if _HIGH <= q < 100 and number.range.high < mean.range.low]
    if mean.range.high < lowest * (1 - _RELATIVE):
        red = f"{words}: the percentiles beside it need a larger mean"
    elif mean.range.low > highest * (1 + _RELATIVE):
        red = f"{words}: the percentiles and the maximum beside it need a smaller mean"
    elif above:
        expected = f"below {known[max(above)]}"
        amber = f"{words}: a mean above the {max(above):g}th percentile needs a few extremely long requests"
    return make_row_finding(row, expected, f"mean {mean}", "the mean lies between its bounds", red=red, amber=amber)


#: Percentiles from here on are below the mean only if a few values are extreme.
_HIGH: Final = 95.0


def _compute_mean_bounds(known: Mapping[float, StatedNumber]) -> tuple[float, float]:
    """The smallest and the largest mean that quantiles allow, in the base unit; unbounded above without a maximum."""
    ends = {q: _compute_bucket_range(q, number) for q, number in known.items()}
    below = {0.0: Range.exact(min(0.0, *(r.low for r in ends.values())) if 0.0 not in ends else ends[0.0].low), **ends}
    points = sorted(below)
    shares = [(b - a) / 100 for a, b in pairwise([*points, 100.0])]
    lowest = sum(share * below[q].low for q, share in zip(points, shares, strict=True))
    if 100.0 not in ends:
        return lowest, inf
    above = sum((b - a) / 100 * ends[b].high for a, b in pairwise([0.0, *sorted(q for q in ends if q > 0)]))
    return lowest, above


def _compute_bucket_range(q: float, number: StatedNumber) -> Range:
    allowed = number.range
    whole = 0 < q < 100 and number.metric.dimension == "time" and number.metric.factor < _BUCKET_S
    return Range(allowed.low, allowed.high + _BUCKET_S) if whole and _is_bucket(number.value) else allowed


@check("part_within_whole", "Does the server's time fit into the client's?", iterate_table_rows)
def check_part_within_whole(row: Row) -> Iterator[Finding]:
    """A client waits at least as long as the server works.

    At most the share mean / x of a positive quantity lies above x (Markov), so the q-quantile of the part cannot exceed
    mean of the whole / (1 - q); a median of the part above the mean of the whole is at least doubtful.
    """
    client, part = row.get("client_latency") or row.get("latency"), row.get("server_latency")
    if not client:
        return
    if part:
        longer = part.range.low > client.range.high
        red = "the server's mean exceeds the mean that the client waited" if longer else ""
        yield make_row_finding(row, f"below {client}", str(part), "the server's mean fits", red=red)
    for q, number in row.percentiles().get("server_latency", {}).items():
        if q not in (0.0, 100.0):
            yield _judge_quantile(row, q, number, client)


def _judge_quantile(row: Row, q: float, number: StatedNumber, client: StatedNumber) -> Finding:
    above = 1 - q / 100
    expected = f"p{q:g} below {client.printed(client.value / above)}"
    stated = f"p{q:g} = {number}, client's mean {client}"
    red, amber = "", ""
    if number.range.low > client.range.high / above:
        red = "with such a percentile of the server's time the client's mean would be larger (Markov's inequality)"
    elif q <= 50 and number.range.low > client.range.high:
        expected = f"p{q:g} below {client}"
        amber = (
            "half of the sampled statements took longer in the server than a client waited on average: "
            "the sample does not represent the load"
        )
    return make_row_finding(row, expected, stated, "the percentile fits the client's mean", red=red, amber=amber)


# Little's law: throughput × latency is the number of requests in the system, which no client can exceed.

#: If a smaller share of the connections is in the system, something else delays the clients.
BUSY: Final = 0.8
#: Largest effect of rounding on a share.
_ROUNDING: Final = 0.1
_UNIT_SLIPS: Final = (1e3, 1e6)
#: Latency of a part of the round trip.
_PART: Final = "server_latency"


def _iterate_combined_rows(tables: Sequence[ResultTable]) -> Iterator[Row]:
    """All rows, and rows that combine latencies with the throughput of the same subject in another table."""
    by_subject: dict[tuple[str | Range | None, ...], list[Row]] = defaultdict(list)
    for row in iterate_table_rows(tables):
        yield row
        connections = row.concurrency
        if row.workload and connections is not None:
            by_subject[row.source, row.label, row.system, row.workload, connections.range].append(row)
    for rows in by_subject.values():
        rates = [row for row in rows if row.get("throughput") is not None and row.get("client_latency") is None]
        waits = [row for row in rows if row.get("throughput") is None and row.get("client_latency") is not None]
        for rate, wait in zip(rates, waits, strict=False):
            yield replace(rate, table=f"{wait.table} and {rate.table}", numbers={**wait.numbers, **rate.numbers})


@check("littles_law", "Is throughput × latency the concurrency?", _iterate_combined_rows)
def check_littles_law(row: Row) -> Iterator[Finding]:
    """Compare the stated connections with the number that throughput and latency imply."""
    rate, connections = row.get("throughput"), row.concurrency
    if not rate or not connections or rate.value <= 0 or connections.value <= 0:
        return
    whole, part = row.get("client_latency") or row.get("latency"), row.get(_PART)
    if whole and whole.value > 0:
        yield _judge_concurrency(row, rate, connections, whole)
    elif not whole and part and (judged := _judge_concurrency(row, rate, connections, part)).severity == "red":
        yield judged


def _judge_concurrency(row: Row, rate: StatedNumber, connections: StatedNumber, latency: StatedNumber) -> Finding:
    inside = rate.range * latency.range
    n = connections.range
    busy = rate.value * latency.value / connections.value
    implied = connections.value / latency.value if latency.value else float("inf")
    expected = f"{rate.printed(implied)} ({format_number(connections.value)} / {latency})"
    slip = _describe_unit_slip(busy)
    red, amber = "", ""
    if inside.low > n.high * (1 + TOLERANCE):
        red = (
            f"{rate} × {latency} are {format_number(rate.value * latency.value)} requests at once, but there are only "
            f"{format_number(connections.value)} connections{slip}{f'; {rate.note}' if rate.note else ''}"
        )
    elif inside.high < n.low * BUSY:
        share = format_percent(busy) if busy >= 0.01 else f"{busy:.2g}"
        amber = (
            f"only {share} of the connections were waiting for the system on average: start-up, the client "
            f"itself or another mean{slip}"
        )
        # Clients that think or wait for their schedule are idle on purpose; all others are busy if the unit is right.
        red = amber if slip and not row.states("think_time") and not row.states("target") else ""
    green = f"{format_percent(busy)} of the connections are accounted for"
    return make_row_finding(row, expected, str(rate), green, red=red, amber=amber)


def _describe_unit_slip(busy: float) -> str:
    """A remark on a wrong unit, if a factor of 1000 or 1,000,000 makes the clients busy; else empty."""
    if busy <= 0:
        return ""
    near = next((slip for slip in _UNIT_SLIPS if _is_busy(busy * slip) or _is_busy(busy / slip)), None)
    return f" (off by about {format_number(near)}: wrong unit?)" if near else ""


def _is_busy(share: float) -> bool:
    return BUSY <= share <= 1 + TOLERANCE + _ROUNDING


# Checks that numbers are possible, and that runs were long enough to be sampled.

#: Samplers (iostat, status lines) sample once a second by default.
DEFAULT_SAMPLING_HZ: Final = 1.0
ENOUGH_SAMPLES: Final = 30
#: Dimension -> smallest and largest possible value, in base units, and the reason.
_POSSIBLE: Final[dict[str, tuple[float, float, str]]] = {
    "rate": (0.0, 1e10, "no database does that many operations per second"),
    "time": (0.0, 30 * 86_400.0, "no request or run takes that long"),
    "percent": (0.0, 100.0, "a share lies between 0 and 100 %"),
    "data_rate": (0.0, 1e13, "no machine moves that much data"),
}
#: Words in names of quantities that may be negative or above 100 %: changes, differences, ends of intervals, ratios.
_SIGNED: Final = re.compile(
    "change|diff|delta|overhead|interval|gain|improv|increase|decrease|growth|penalty|speedup|efficiency|relative|scal|"
    "faster|slower|vs|versus|compared|of_base|reduction|variation"
)
#: The shortest round trip over a network that a statement can take.
_SHORTEST_S: Final = 1e-6


@check("units_plausible", "Is each number possible in its unit?", iterate_table_rows)
def check_unit_plausibility(row: Row) -> Iterator[Finding]:
    """Shares within 100 %, counts whole, times positive, no network faster than its link."""
    possible = make_row_finding(row, "possible values", f"{len(row.numbers)} metrics", "they are")
    yield from list(_find_impossible_combinations(row)) or [possible]


def _find_impossible_combinations(row: Row) -> Iterator[Finding]:
    link = row.get("link")
    for stem in row.numbers:
        number = row[stem]
        for expected, why in _find_number_problems(stem, number):
            yield make_row_finding(row, expected, f"{stem} {number}", red=why)
        if link and number.metric.dimension == "data_rate" and number.range.low > link.range.high:
            limit = f"at most {number.printed(link.value)}"
            yield make_row_finding(row, limit, f"{stem} {number}", red="more than the link can carry")
    if row.states("throughput") and row["throughput"].value == 0:
        text = "no operation was done: a failed run is not a measurement"
        yield make_row_finding(row, "more than 0", f"throughput {row['throughput']}", amber=text)
    sigma, mean = row.sigma_and_mean
    if sigma and mean and sigma.range.low > mean.range.high > 0:
        text = "the standard deviation exceeds the mean of a quantity that cannot be negative"
        yield make_row_finding(row, f"below {mean}", str(sigma), amber=text)


def _find_number_problems(stem: str, number: StatedNumber) -> Iterator[tuple[str, str]]:
    low, high, why = _POSSIBLE.get(number.metric.dimension, (-float("inf"), float("inf"), ""))
    if _SIGNED.search(stem):
        low = high = float("nan")
    if number.value < low or number.value > high:
        yield f"{number.printed(low)} to {number.printed(high)}", why
    if stem in COUNTS and number.metric.dimension == "" and stem != "interval_level" and number.value % 1:
        yield "a whole number", "counts are whole numbers"
    if "latency" in stem and "difference" not in stem and 0 <= number.range.high < _SHORTEST_S:
        yield f"at least {number.printed(_SHORTEST_S)}", "no statement is answered so fast: wrong unit?"
    if stem == "interval_level" and not 0 < number.value < 100:
        yield "0.95, or 95 for per cent", "a confidence level is a probability"


@check("whole_numbers", "Can the mean and the deviation of counts be those of n whole numbers?", iterate_table_rows)
def check_whole_numbers(row: Row) -> Iterator[Finding]:
    """Counts are whole in each run, so that only some means and deviations are possible for a stated n."""
    for counts in means_of_counts(row):
        if row.n is not None:
            severity, *texts = judge_counts(row.n, counts)
            yield Finding(severity, "", *row.place, *texts)


@check("run_length", "Did the run last long enough for its sampling rate?", iterate_table_rows)
def run_length(row: Row) -> Iterator[Finding]:
    """Run time × sampling rate is the number of samples; below 30, start-up and chance dominate."""
    seconds = _compute_run_seconds(row)
    if seconds is not None:
        rate = row.get("sampling_hz")
        hertz = rate.value if rate and rate.value > 0 else DEFAULT_SAMPLING_HZ
        samples = seconds * hertz
        expected = f"at least {format_number(ENOUGH_SAMPLES / hertz)} s at {format_number(hertz)} Hz"
        amber = f"about {samples:.0f} samples at {format_number(hertz)} Hz: start-up and chance dominate"
        short = samples < ENOUGH_SAMPLES
        yield make_row_finding(
            row, expected, f"{format_number(seconds)} s", "long enough", amber=amber if short else ""
        )


def _compute_run_seconds(row: Row) -> float | None:
    runtime, operations, rate = row.get("runtime"), row.get("operations"), row.get("throughput")
    if runtime:
        return runtime.value
    return operations.value / rate.value if operations and rate and rate.value else None


# Report numbers that the audit could not read or has no check for, so that they do not pass as agreement.

#: Name of the check.
UNREAD: Final = "unread"
_EXAMPLES: Final = 3


def find_unread_columns(numbers: pl.DataFrame, tables: Sequence[ResultTable]) -> Iterator[Finding]:
    """A finding with the reason for each column of a user's table that no check uses.

    Args:
        numbers: frame of ``schema.TABLES["published"]``. A cell without a value could not be read; transcribed
            publications, in which some cells are words, are skipped.
        tables: the rows that could be read.
    """
    own = numbers.filter(pl.col("seed").is_null(), pl.col("value").is_null(), pl.col("stated").is_not_null())
    cells = own.group_by("source", "table", "metric", maintain_order=True).agg("stated")
    for source, table, metric, texts in cells.iter_rows():
        text = "these cells cannot be read as numbers; they were not checked"
        yield _make_unread_finding(source, table, metric, "a number, such as 16600, 16,600 or 16.6k", texts, text)
    for each in tables:
        found = _find_unchecked_numbers(each)
        for metric in [metric for metric in found if metric.endswith(UNSAID_SPREAD)]:
            text = "the number after ± may be a standard deviation or half an interval"
            shown = [str(number) for number in found.pop(metric)]
            yield _make_unread_finding(each.source, each.name, metric, "± sd or ± ci in the header", shown, text)
        if found:
            shown = [f"{metric} {numbers[0]}" for metric, numbers in found.items()]
            text = "the meaning of these numbers is unknown; they were not checked"
            expected = "a name or a unit of docs/published.md"
            yield _make_unread_finding(each.source, each.name, ", ".join(found), expected, shown, text)


def _find_unchecked_numbers(table: ResultTable) -> dict[str, list[StatedNumber]]:
    found: dict[str, list[StatedNumber]] = defaultdict(list)
    for row in table.rows:
        for numbers in row.numbers.values():
            for number in numbers:
                known = is_understood(number.metric) or parse_counted_quantity(number.name, number.unit) is not None
                if not number.transcribed and (number.name.endswith(UNSAID_SPREAD) or not known):
                    found[number.name].append(number)
    return found


def _make_unread_finding(
    source: str, table: str, metric: str, expected: str, texts: Sequence[str], explanation: str
) -> Finding:
    shown = ", ".join(dict.fromkeys(texts[:_EXAMPLES])) + (" ..." if len(texts) > _EXAMPLES else "")
    return Finding("amber", UNREAD, source, table, f"column {metric}", expected, shown, explanation)

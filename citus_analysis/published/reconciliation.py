"""Reconcile rows of published tables with the single runs behind them."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from os import PathLike
from pathlib import Path
from statistics import mean, median, variance
from typing import Final, Literal, TypeAlias

import polars as pl

from citus_analysis.core.frames import Frame, convert_to_polars
from citus_analysis.errors import PublishedDataError
from citus_analysis.published.checks import Finding, Severity, get_stated_interval, make_row_finding
from citus_analysis.published.grim import CountMean, judge_counts, means_of_counts, parse_counted_quantity
from citus_analysis.published.rows import MEANS, Printed, ResultTable, Row, get_unit, parse_decimal
from citus_analysis.published.tables import MISSING
from citus_analysis.stats.distributions import compute_normal_quantile, compute_t_quantile
from citus_analysis.texts.metric_names import COUNTS, parse_metric
from citus_analysis.texts.words import choose_noun_form, join_words, pluralize

# Hypotheses about the runs behind a row, weighed by the digits that they explain.
#
# Every printed number that a hypothesis reproduces is evidence: its range of values is that much narrower than the
# values that might have been printed. Evidence is counted in bits (log2 of how much narrower). A search over many
# hypotheses finds agreement by chance, so that each costs the bits of its number: log2 of the subsets, the runs or the
# formulas that were tried (the idea of minimum description length, Rissanen 1978). A hypothesis is claimed if it
# explains at least :data:`CLAIM_BITS` more than all runs with the usual formulas do: by chance less often than once in
# a thousand.

Kind = Literal["all", "subset", "one_differs"]
CLAIM_BITS: Final = 10.0
#: Names of formulas of the deviation, of the half width of the interval, and of what is no mean.
FORMULAS: Final = {
    "sample": "the sample's standard deviation (n - 1)",
    "population": "the population's standard deviation (n)",
    "standard error": "the standard error",
    "normal": "the normal quantile",
    "1.96": "1.96",
    "t": "Student's quantile",
    "median": "their median",
}
#: Most runs of which all subsets are tried; of more, those without at most `_LEFT_OUT`.
_ALL_SUBSETS: Final = 12
_LEFT_OUT: Final = 3
_USUAL: Final = ("", "sample", "normal", "1.96")


@dataclass(frozen=True)
class RowStatement:
    """What a row states of its runs.

    Attributes:
        mean: the mean.
        sigma: the standard deviation; None if it is not stated.
        low: lower end of the interval.
        high: upper end.
        level: its level.
        n: number of runs; None if it is not stated.
    """

    mean: Printed
    sigma: Printed | None = None
    low: Printed | None = None
    high: Printed | None = None
    level: float = 0.95
    n: int | None = None

    @property
    def half(self) -> tuple[float, float] | None:
        """The range of half the interval's width."""
        if self.low is None or self.high is None:
            return None
        return float(self.high.low - self.low.high) / 2, float(self.high.high - self.low.low) / 2

    @property
    def stated(self) -> tuple[str, ...]:
        """Names of the numbers that are stated."""
        names = {"mean": self.mean, "sigma": self.sigma, "interval": self.half}
        return tuple(name for name, value in names.items() if value is not None)


@dataclass(frozen=True)
class Hypothesis:
    """A set of runs and formulas, and what it reproduces.

    Attributes:
        kind: all runs; a subset of them; or all, if one value was another.
        used: places of the runs.
        matched: names of the numbers that it reproduces, each with the formula that it needs; empty for the mean's own.
        bits: evidence for it, less what the search costs.
        tried: hypotheses of its kind.
        changed: place of the value that differs.
        needed: what it would have to be.
    """

    kind: Kind
    used: tuple[int, ...]
    matched: Mapping[str, str]
    bits: float
    tried: int
    changed: int | None = None
    needed: Fraction | None = None

    @property
    def formulas(self) -> list[str]:
        """The formulas that it needs."""
        return [name for name in self.matched.values() if name]

    @property
    def is_unusual(self) -> bool:
        """Whether a formula is not the usual one."""
        return not {*self.matched.values()} <= {*_USUAL}


def rank_hypotheses(runs: Sequence[Fraction], stated: RowStatement) -> list[Hypothesis]:
    """Hypotheses that reproduce at least two numbers, the best first, and always that of all runs.

    Nothing else is tried where all runs reproduce every number.
    """
    # What a mean or a deviation may be.
    scale = math.sqrt(float(compute_exact_variance(runs))) or abs(float(runs[0])) * 1e-3 or 1.0
    whole = _weigh_hypothesis("all", tuple(range(len(runs))), runs, stated, scale, 1)
    if set(whole.matched) == set(stated.stated):
        return [whole]
    found = [
        whole,
        *_iterate_subset_hypotheses(runs, stated, scale),
        *_iterate_changed_run_hypotheses(runs, stated, scale),
    ]
    return sorted(found, key=lambda one: (-one.bits, one.kind != "all", len(runs) - len(one.used)))


def compute_exact_variance(runs: Sequence[Fraction]) -> Fraction:
    """The sample's variance, exactly; 0 of one run."""
    return variance(runs) if len(runs) > 1 else Fraction(0)


def _iterate_subset_hypotheses(runs: Sequence[Fraction], stated: RowStatement, scale: float) -> Iterator[Hypothesis]:
    n = len(runs)
    fewest = 2 if n <= _ALL_SUBSETS else n - _LEFT_OUT
    subsets = [used for size in range(fewest, n) for used in combinations(range(n), size)]
    low, high = float(stated.mean.low), float(stated.mean.high)
    values = [float(value) for value in runs]
    # Few subsets come near the mean; these are judged exactly.
    slack = 1e-9 * abs(high)
    near = (used for used in subsets if low - slack <= sum(values[i] for i in used) / len(used) <= high + slack)
    for used in near:
        found = _weigh_hypothesis("subset", used, [runs[i] for i in used], stated, scale, len(subsets))
        if "mean" in found.matched and len(found.matched) > 1:
            yield found


def _iterate_changed_run_hypotheses(
    runs: Sequence[Fraction], stated: RowStatement, scale: float
) -> Iterator[Hypothesis]:
    """All runs, with one value such that the mean is the printed one."""
    n = len(runs)
    if stated.n not in (None, n) or n < 3:
        return
    for i in range(n):
        others = [*runs[:i], *runs[i + 1 :]]
        rest = sum(others, Fraction(0))
        ends = [bound * n - rest for bound in (stated.mean.low, stated.mean.high)]
        # The digits of a deviation may be finer than the range that the mean allows: they choose the value in it.
        fitting = [x for x in _solve_for_deviation(others, stated) if ends[0] <= x < ends[1]]
        values = [*fitting, stated.mean.value * n - rest]
        tried = [_weigh_hypothesis("one_differs", tuple(range(n)), [x, *others], stated, scale, n) for x in values]
        best, needed = max(zip(tried, values, strict=True), key=lambda one: (len(one[0].matched), one[0].bits))
        if len(best.matched) < 2:
            continue
        # The mean is no evidence where the value was chosen for it.
        bits = best.bits - _compute_information_bits(scale, stated.mean.width)
        yield replace(best, bits=bits, changed=i, needed=needed)


def _solve_for_deviation(others: Sequence[Fraction], stated: RowStatement) -> Iterator[Fraction]:
    """Values that, with the others, give a deviation or an interval as it is printed."""
    n = len(others) + 1
    total, squares = sum(others, Fraction(0)), sum((value**2 for value in others), Fraction(0))
    targets = []
    if stated.sigma is not None:
        sigma = float(stated.sigma.low + stated.sigma.high) / 2
        exact = float(stated.sigma.value)
        targets += [sigma, exact, exact * math.sqrt(n / (n - 1)), exact * math.sqrt(n)]
    if stated.half is not None:
        middle = sum(stated.half) / 2
        targets += [middle * math.sqrt(n) / factor for factor in _get_interval_quantiles(stated.level, n).values()]
    for target in targets:
        # (n - 1) variance = squares + x^2 - (total + x)^2 / n, solved for x.
        constant = float(squares - total**2 / n) - (n - 1) * target**2
        root = float(total / n) ** 2 - (1 - 1 / n) * constant
        if root >= 0:
            for sign in (1, -1):
                yield Fraction((float(total) / n + sign * math.sqrt(root)) / (1 - 1 / n))


def _compute_information_bits(scale: float, width: float) -> float:
    return max(0.0, math.log2(4 * scale / width)) if width > 0 else 0.0


def _weigh_hypothesis(
    kind: Kind, used: tuple[int, ...], runs: Sequence[Fraction], stated: RowStatement, scale: float, tried: int
) -> Hypothesis:
    n, spread = len(runs), compute_exact_variance(runs)
    matched: dict[str, str] = {}
    bits = -math.log2(tried)
    is_median = kind == "all" and not stated.mean.allows(mean(runs))
    if stated.mean.allows(median(runs) if is_median else mean(runs)):
        matched["mean"] = "median" if is_median else ""
        bits += _compute_information_bits(scale, stated.mean.width) - (1 if is_median else 0)
    if stated.sigma is not None:
        squares = {"sample": spread, "population": spread * (n - 1) / n, "standard error": spread / n}
        if name := next((name for name, square in squares.items() if stated.sigma.allows_root(square)), ""):
            matched["sigma"] = name
            bits += _compute_information_bits(scale, stated.sigma.width) - (0 if name == "sample" else 1)
    if stated.half is not None and n > 1:
        low, high = stated.half
        error = math.sqrt(float(spread) / n)
        slack = 1e-9 * error
        factors = _get_interval_quantiles(stated.level, n).items()
        if name := next((name for name, q in factors if low - slack <= q * error <= high + slack), ""):
            # A deviation that is printed right gives the interval as well.
            bits += (2.0 if "sigma" in matched else _compute_information_bits(scale, high - low)) - math.log2(3)
            matched["interval"] = name
    return Hypothesis(kind, used, matched, bits, tried)


def _get_interval_quantiles(level: float, n: int) -> dict[str, float]:
    """Formula -> factor of the standard error."""
    probability = 1 - (1 - level) / 2
    factors = {"normal": compute_normal_quantile(probability), "t": compute_t_quantile(probability, n - 1)}
    return factors | ({"1.96": 1.96} if math.isclose(level, 0.95) else {})


# Single runs behind a table: read exactly, with the settings that lead to their row.

_NUMBERING: Final = frozenset({"run", "iteration", "repeat", "repetition", "rep", "trial", "round"})
_PART: Final = re.compile(r"(?:driver|client|generator|part|node)[_ ]?\d+[_ ]?|[_ ]\d+(?=[_ ]|$)", re.IGNORECASE)


@dataclass(frozen=True)
class SingleRun:
    """One run.

    Attributes:
        name: what the table calls it, or its number among those of its row.
        value: its measured value in base units (s, 1/s); of several load generators their sum.
        parts: the values as written, by column.
    """

    name: str
    value: Fraction
    parts: Mapping[str, Decimal]


Line: TypeAlias = tuple[dict[str, float], Mapping[str, SingleRun]]


@dataclass(frozen=True)
class RunTable:
    """Single runs, by the settings that they were made with.

    Attributes:
        source: name of the file.
        keys: stems of the settings that tell rows apart (`connections`, `workers`).
        metrics: stems of the measured values.
        lines: for each line its settings and, by stem, its run.
        whole: stems of the values that are whole numbers in every line, and their unit in base units.
        empty: columns with empty cells, and the lines in which they are: these runs are in no row.
        names: of runs of a dataset, what each line's run is called: column -> text.
    """

    source: str
    keys: tuple[str, ...]
    metrics: tuple[str, ...]
    lines: tuple[Line, ...]
    whole: Mapping[str, Fraction]
    empty: Mapping[str, tuple[int, ...]]
    names: tuple[Mapping[str, str], ...] = ()

    def of(self, row: Row, stem: str) -> list[SingleRun]:
        """The runs of a row of a published table: those whose settings the row states, and no other."""
        if self.keys and not any(row.states(key) for key in self.keys):
            return []
        return [runs[stem] for _, runs in self._list_lines(row) if stem in runs]

    def unsaid(self, row: Row) -> list[str]:
        """Settings in which the runs of a row differ although the row does not state them."""
        mine = self._list_lines(row)
        return [key for key in self.keys if not row.states(key) and len({settings[key] for settings, _ in mine}) > 1]

    def _list_lines(self, row: Row) -> Sequence[Line]:
        """The lines with the settings that a row states."""
        stated = {key: row[key].value for key in self.keys if row.states(key)}
        return [line for line in self.lines if stated.items() <= line[0].items()]

    def copies(self, most: int = 5) -> Iterator[tuple[Decimal, list[str]]]:
        """Values with many digits that occur more than once, and where."""
        places: dict[Decimal, list[str]] = defaultdict(list)
        for settings, runs in self.lines:
            where = ", ".join(f"{key} {value:g}" for key, value in settings.items())
            for run in runs.values():
                for column, value in run.parts.items():
                    places[value].append(f"{where}, run {run.name}, {column}" if where else f"run {run.name}, {column}")
        for value, at in places.items():
            if len(at) > 1 and len(str(value).replace(".", "").strip("0")) > most:
                yield value, at


# Runs of a dataset, which have names besides numbers: a row states its run by any of them.

#: Columns whose words a row may have, and the columns of numbers that it may state, by the stem of the number.
_NAMES: Final = ("system", "set_up", "workload", "phase", "script", "query_mode", "tool", "resource")
_SETTINGS: Final = ("threads", "workers", "drivers", "records", "scale_factor")
#: Stem in a row -> column of a run.
_MEASURED: Final = {
    "throughput": "throughput_ops_s",
    "latency": "mean_us",
    **{f"latency_p{number}": f"p{number}_us" for number in ("50", "90", "95", "99", "999")},
}
#: A printed number that is nearer to its run than this may be another of the numbers that the tool prints.
_NEAR: Final = 0.01


def _read_dataset_runs(table: pl.DataFrame) -> RunTable:
    """The runs of a dataset (its table `runs`, with latencies where it has them)."""
    keys = tuple(name for name in _SETTINGS if name in table.columns and not table[name].null_count())
    measured = {stem: column for stem, column in _MEASURED.items() if column in table.columns}
    lines: list[Line] = []
    names: list[Mapping[str, str]] = []
    for cells in table.iter_rows(named=True):
        name = str(cells.get("iteration") or cells["run_id"])
        found = {
            stem: SingleRun(name, Fraction(number) * get_unit(parse_metric(column)), {column: number})
            for stem, column in measured.items()
            if (number := parse_decimal(cells[column])) is not None
        }
        lines.append(({key: float(cells[key]) for key in keys}, found))
        names.append({column: str(cells[column]) for column in (*_NAMES, "iteration") if cells.get(column)})
    known = {stem for _, found in lines for stem in found}
    metrics = tuple(stem for stem in measured if stem in known)
    if not metrics:
        raise PublishedDataError("no run has a throughput", path="runs", hint="give the outputs of load generators")
    return RunTable("runs", keys, metrics, tuple(lines), {}, {}, tuple(names))


def _squeeze(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "", text.lower())


def _split_words(text: str) -> frozenset[str]:
    """Words and numbers of a text, in which letters and digits that stand together are one."""
    return frozenset(re.findall(r"[a-z0-9]+(?:\.[0-9]+)*", text.lower()))


def _is_named(name: Mapping[str, str], part: str) -> bool:
    """Whether a run is called so: by the whole of a name of it, or by words of its names."""
    texts = [text for column, text in name.items() if column != "iteration"]
    words = _split_words(part)
    return _squeeze(part) in {_squeeze(text) for text in texts} or (
        bool(words) and words <= frozenset[str]().union(*map(_split_words, texts))
    )


@dataclass(frozen=True)
class _RowWords:
    """What a row says in words.

    Attributes:
        parts: its words, without those that name numbers.
        iteration: the number of its run, if it has one.
    """

    parts: tuple[str, ...]
    iteration: str | None

    @classmethod
    def of(cls, row: Row) -> _RowWords:
        """The words of a row's label and of its columns `system` and `workload`."""
        parts, iteration = [], None
        label = re.sub(r" \(line \d+\)$", "", row.label)
        for part in (row.system or "", row.workload or "", *label.split(", ")):
            name, _, number = part.rpartition(" ")
            if name.lower() in _NUMBERING and number.isdecimal():
                iteration = str(int(number))
            elif part and not (parse_decimal(number) is not None and parse_metric(name).stem in row.numbers):
                parts.append(part)
        return cls(tuple(dict.fromkeys(parts)), iteration)


def _reconcile_outputs(tables: Sequence[ResultTable], runs: RunTable) -> Iterator[Finding]:
    """What the outputs of load generators say of each row of a summary of them."""
    for table in tables:
        said = [_RowWords.of(row) for row in table.rows]
        everywhere = set.intersection(*(set(one.parts) for one in said)) if said else set()
        unknown: list[Row] = []
        found = False
        for row, words in zip(table.rows, said, strict=True):
            named = replace(row, label=", ".join(dict.fromkeys(filter(None, (row.system, row.workload, row.label)))))
            mine = _find_runs_of_row(row, words, everywhere, runs)
            # A latency without a unit is none.
            stems = [
                stem
                for stem in runs.metrics
                if row.states(stem) and row[stem].metric.dimension and any(stem in runs.lines[at][1] for at in mine)
            ]
            if not stems:
                unknown.append(named)
                continue
            found = True
            if differ := _find_unsaid_names(row, mine, runs):
                text = f"the runs of this row differ in {join_words(differ)}, which the row does not state"
                stated = pluralize(len(mine), "run")
                yield make_row_finding(named, "runs of one setting", stated, amber=text, name="runs_missing")
                continue
            for stem in stems:
                chosen = [runs.lines[at][1][stem] for at in mine if stem in runs.lines[at][1]]
                alone = named if stem == "throughput" else replace(named, numbers={stem: named.numbers[stem]})
                finding = _soften_near_miss(_judge_row(alone, stem, chosen), alone, stem, chosen)
                what = f"{stem.replace('_', ' ')} {finding.stated.removeprefix('mean ')}"
                yield finding._replace(stated=what) if len(chosen) == 1 else finding
        if unknown and table.rows:
            why = "their words and numbers name no run" if found else _explain_unmatched_table(table, runs)
            yield Finding(
                "amber", "runs_missing", table.source, table.name,
                unknown[0].label if len(unknown) == 1 else f"{len(unknown)} rows such as {unknown[0].label}",
                "runs of a row", f"{len(runs.lines)} runs", why,
            )  # fmt: skip


def _explain_unmatched_table(table: ResultTable, runs: RunTable) -> str:
    stated = dict.fromkeys(stem for row in table.rows for stem in row.numbers)
    return (
        f"no row states settings and a result of these runs: it has {', '.join(stated)}, they "
        f"{', '.join((*runs.keys, *runs.metrics))}"
    )


def _get_row_setting(row: Row, key: str) -> float | None:
    """The number that a row states for a setting; threads may be called clients."""
    number = row.concurrency if key == "threads" and not row.states("threads") else row.get(key)
    return None if number is None else number.value


def _find_runs_of_row(row: Row, words: _RowWords, everywhere: set[str], runs: RunTable) -> list[int]:
    """Places of the runs that a row names by its words and its numbers; none if it has words that name none."""
    stated = {key: value for key in runs.keys if (value := _get_row_setting(row, key)) is not None}
    known = [part for part in words.parts if any(_is_named(name, part) for name in runs.names)]
    if any(part not in known and part not in everywhere for part in words.parts) or not (stated or known):
        return []
    iterations = {name.get("iteration") for name in runs.names} - {None}
    mine = [
        at
        for at, ((settings, _), name) in enumerate(zip(runs.lines, runs.names, strict=True))
        if stated.items() <= settings.items()
        and all(_is_named(name, part) for part in known)
        and (words.iteration is None or not iterations or name.get("iteration") == words.iteration)
    ]
    # A summary is of what was measured, not of the loading before it.
    measured = [at for at in mine if runs.names[at].get("phase") == "run"]
    return measured or mine


def _find_unsaid_names(row: Row, mine: Sequence[int], runs: RunTable) -> list[str]:
    """Names and settings in which the runs of a row differ."""
    keys = [
        key
        for key in runs.keys
        if _get_row_setting(row, key) is None and len({runs.lines[at][0][key] for at in mine}) > 1
    ]
    return keys + [name for name in _NAMES if len({runs.names[at].get(name) for at in mine}) > 1]


def _soften_near_miss(finding: Finding, row: Row, stem: str, runs: Sequence[SingleRun]) -> Finding:
    """A finding in which a number of one run, a near one, or a percentile of several is no contradiction."""
    if finding.severity != "red":
        return finding
    unit = get_unit(row[stem].metric)
    printed = Printed.of(row[stem], row[stem])
    values = [run.value / unit for run in runs]
    one = next((run for run, value in zip(runs, values, strict=True) if printed.allows(value)), None)
    away = abs(float(mean(values)) / float(printed.value) - 1) if printed.value else math.inf
    if one is not None and len(runs) > 1:
        which = "the largest" if one.value == max(run.value for run in runs) else "one"
        return finding._replace(
            severity="amber", explanation=f"it is that of run {one.name} alone, {which} of {len(runs)}"
        )
    if away < _NEAR:
        text = f"it is {away:.2%} away: rounding, or another of the numbers that the tool prints"
        return finding._replace(severity="amber", explanation=text)
    if stem.startswith("latency_p") and len(runs) > 1:
        text = f"the mean over {len(runs)} runs is {away:.2%} away; percentiles of runs may be summarised otherwise"
        return finding._replace(severity="amber", explanation=text)
    return finding


def read_runs(runs: str | PathLike[str] | Frame) -> RunTable:
    """Read single runs: one line each, with settings (`connections`, `workers` ...) and measured values.

    Columns of several load generators (`driver_1_ops_s`, `driver_2_ops_s`) are summed, as they ran at the same time.

    Args:
        runs: a CSV file, or a polars, pandas or Arrow frame such as the table `runs` of a dataset.

    Raises:
        PublishedDataError: no column has measured values.
    """
    if isinstance(runs, str | PathLike):
        # The header of a file is in its first line.
        name, first, table = Path(runs).name, 2, pl.read_csv(Path(runs), infer_schema=False)
    else:
        name, first, table = "runs", 1, convert_to_polars(runs).select(pl.all().cast(pl.String, strict=False))
        if {"run_id", "resource"} <= set(table.columns):
            return _read_dataset_runs(table)
    absent = pl.all().str.strip_chars().str.to_lowercase().is_in(list(MISSING))
    table = table.select(pl.when(~absent).then(pl.all()))
    keys, measured, numbering = _classify_run_columns(table)
    if not measured:
        raise PublishedDataError(
            "no column has measured values", path=name, hint="name one throughput_ops_s, latency_ms or tps"
        )
    lines = []
    seen: dict[tuple[float, ...], int] = defaultdict(int)
    for cells in table.iter_rows(named=True):
        settings = {
            stem: float(number) for stem, column in keys.items() if (number := parse_decimal(cells[column])) is not None
        }
        if len(settings) < len(keys):
            continue
        place = tuple(settings.values())
        seen[place] += 1
        name_of_run = cells[numbering] if numbering and cells[numbering] else str(seen[place])
        found = dict(_parse_measured_runs(cells, measured, name_of_run))
        if found:
            lines.append((settings, found))
    whole = dict(_find_whole_number_stems(table, measured))
    return RunTable(name, tuple(keys), tuple(measured), tuple(lines), whole, _empty_cells(table, keys, measured, first))


def _find_whole_number_stems(
    table: pl.DataFrame, measured: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, Fraction]]:
    """The stems of which every value is a whole number, and their unit."""
    for stem, columns in measured.items():
        values = [number for column in columns for text in table[column] if (number := parse_decimal(text)) is not None]
        units = {get_unit(parse_metric(column)) for column in columns}
        if len(units) == 1 and all(value == int(value) for value in values):
            yield stem, units.pop()


def _empty_cells(
    table: pl.DataFrame, keys: Mapping[str, str], measured: Mapping[str, Sequence[str]], first: int
) -> dict[str, tuple[int, ...]]:
    """Columns of settings and of measured values with empty cells, and the lines in which they are."""
    # Rows of a table state means of such values.
    of_rows = [names for stem, names in measured.items() if stem in MEANS or parse_counted_quantity(stem) is not None]
    columns = [*keys.values(), *(one for names in of_rows for one in names)]
    blank = pl.all_horizontal(pl.col(table.columns).is_null())
    numbered = table.with_row_index("_line", offset=first).remove(blank)
    lines = {name: tuple(numbered.filter(pl.col(name).is_null())["_line"]) for name in columns}
    return {name: found for name, found in lines.items() if found}


def _classify_run_columns(table: pl.DataFrame) -> tuple[dict[str, str], dict[str, list[str]], str | None]:
    keys: dict[str, str] = {}
    measured: dict[str, list[str]] = defaultdict(list)
    numbering = next((name for name in table.columns if name.lower() in _NUMBERING), None)
    for name in [one for one in table.columns if one != numbering]:
        texts = table[name].drop_nulls()
        if texts.is_empty() or any(parse_decimal(text) is None for text in texts):
            continue
        metric = parse_metric(name)
        whole = parse_metric(_PART.sub("", name).strip("_ ") or name)
        if metric.stem in COUNTS:
            keys[metric.stem] = name
        elif counted := parse_counted_quantity(_PART.sub("", name)):
            measured[counted[0]].append(name)
        elif whole.dimension in ("rate", "time", "data_rate"):
            measured[whole.stem].append(name)
    return keys, dict(measured), numbering


def _parse_measured_runs(
    cells: Mapping[str, str | None], measured: Mapping[str, Sequence[str]], name: str
) -> Iterator[tuple[str, SingleRun]]:
    for stem, columns in measured.items():
        parts = {column: number for column in columns if (number := parse_decimal(cells[column])) is not None}
        if len(parts) == len(columns):
            values = (Fraction(number) * get_unit(parse_metric(column)) for column, number in parts.items())
            yield stem, SingleRun(name, sum(values, Fraction(0)), parts)


#: Names of the findings, in the order in which they are listed.
RECONCILED: Final = ("runs_reconciled", "runs_copied_value", "runs_missing")


def reconcile(tables: Sequence[ResultTable], runs: RunTable) -> Iterator[Finding]:
    """What the runs say of each row that states a mean of them.

    Yields:
        Findings: green if all runs give all numbers with the usual formulas; amber if some runs were left out, or a
        formula is unusual; red if a number does not follow, or only if a value was another.
    """
    if runs.names:
        yield from _reconcile_outputs(tables, runs)
        return
    found = False
    for table in tables:
        for row in table.rows:
            for metric, stem, subject in _iterate_stated_means(row, runs):
                chosen = runs.of(row, metric)
                if len(chosen) > 1:
                    found = True
                    yield from _reconcile_row(subject, stem, metric, chosen, runs)
    if not found:
        first = tables[0] if tables else ResultTable("", "")
        text = (
            f"no row of the table states the settings of these runs ({', '.join(runs.keys) or 'none are named'}) and a "
            f"mean of {', '.join(runs.metrics)}"
        )
        yield Finding("amber", "runs_missing", first.source, first.name, "all rows", "runs of a row", runs.source, text)
    yield from _find_unused_runs(runs)
    for value, places in runs.copies():
        text = "two runs do not agree in so many digits, unless one value was copied"
        yield Finding(
            "amber", "runs_copied_value", runs.source, runs.source, places[-1], "a value of its own",
            f"{value} as in {join_words(places[:-1])}", text,
        )  # fmt: skip


def _iterate_stated_means(row: Row, runs: RunTable) -> Iterator[tuple[str, str, Row]]:
    """The means that a row states of its runs: name among the runs, stem in the row, and the row itself."""
    stem = next((name for name in MEANS if name in runs.metrics and row.states(name)), None)
    if stem is not None:
        yield stem, stem, row
    for counts in means_of_counts(row):
        if counts.quantity in runs.metrics:
            numbers = {"mean": counts.mean} | ({"sigma": counts.sigma} if counts.sigma is not None else {})
            yield counts.quantity, "mean", replace(row, numbers={name: [one] for name, one in numbers.items()})


def _reconcile_row(row: Row, stem: str, metric: str, chosen: Sequence[SingleRun], runs: RunTable) -> Iterator[Finding]:
    if differ := runs.unsaid(row):
        text = f"the runs of this row differ in {join_words(differ)}, which the row does not state"
        stated = f"{pluralize(len(chosen), 'run')} of {runs.source}"
        yield make_row_finding(row, "runs of one setting", stated, amber=text, name="runs_missing")
        return
    yield _judge_row(row, stem, chosen)
    if metric in runs.whole and stem == metric and row.n:
        sigma = row.get("sigma")
        counts = CountMean(metric, row[stem], sigma if sigma and row.mean_for(sigma) is row[stem] else None)
        severity, *texts = judge_counts(row.n, counts, runs.whole[metric])
        if severity != "green":
            yield Finding("amber", "whole_numbers", *row.place, *texts)


def _find_unused_runs(runs: RunTable) -> Iterator[Finding]:
    """The lines whose runs are in no row, because a cell is empty."""
    if runs.empty:
        stated = [
            f"no {column} in {choose_noun_form(len(at), 'line')} {_join_line_numbers(at)}"
            for column, at in runs.empty.items()
        ]
        lines = sorted({line for at in runs.empty.values() for line in at})
        text = "the runs of these lines were not used"
        yield Finding(
            "amber", "runs_missing", runs.source, runs.source,
            f"{choose_noun_form(len(lines), 'line')} {_join_line_numbers(lines)}",
            "a value in each cell", "; ".join(stated), text,
        )  # fmt: skip


def _join_line_numbers(numbers: Sequence[int]) -> str:
    return join_words([str(number) for number in numbers])


def _build_row_statement(row: Row, stem: str) -> RowStatement:
    mean, interval, n = row[stem], get_stated_interval(row), row.n
    low, high = (
        (Printed.of(interval.low, mean), Printed.of(interval.high, mean)) if interval is not None else (None, None)
    )
    sigma = Printed.of(row["sigma"], mean) if row.states("sigma") else None
    return RowStatement(Printed.of(mean, mean), sigma, low, high, interval.level if interval else 0.95, n)


def _judge_row(row: Row, stem: str, runs: Sequence[SingleRun]) -> Finding:
    unit = get_unit(row[stem].metric)
    runs = [replace(run, value=run.value / unit) for run in runs]
    values = [run.value for run in runs]
    stated = _build_row_statement(row, stem)
    tried = rank_hypotheses(values, stated)
    whole = next(one for one in tried if one.kind == "all")
    best = whole if tried[0].bits < whole.bits + CLAIM_BITS else tried[0]
    severity, text = _describe_best_hypothesis(best, whole, stated, runs, tried)
    interval = f"{stated.low.text} to {stated.high.text}" if stated.low and stated.high else None
    parts = {"mean": stated.mean.text, "sigma": stated.sigma and stated.sigma.text, "interval": interval}
    printed = ", ".join(f"{name} {value}" for name, value in {**parts, "n =": stated.n}.items() if value is not None)
    return Finding(severity, "runs_reconciled", *row.place, _describe_run_moments(values), printed, text)


def _describe_run_moments(values: Sequence[Fraction]) -> str:
    """Mean, deviation and interval that all runs give."""
    centre, deviation = _compute_moments(values)
    if len(values) == 1:
        return f"{_format_plain_number(centre)} of its run"
    half = compute_normal_quantile(0.975) * deviation / math.sqrt(len(values))
    ends = f"{_format_plain_number(centre - half)} to {_format_plain_number(centre + half)}"
    return (
        f"mean {_format_plain_number(centre)}, sigma {_format_plain_number(deviation)}, interval {ends} from "
        f"{pluralize(len(values), 'run')}"
    )


def _compute_moments(values: Sequence[Fraction]) -> tuple[float, float]:
    return float(mean(values)), math.sqrt(float(compute_exact_variance(values)))


def _format_plain_number(value: float) -> str:
    return f"{value:,.2f}" if abs(value) < 1e6 else f"{value:,.0f}"


def _describe_best_hypothesis(
    best: Hypothesis, whole: Hypothesis, stated: RowStatement, runs: Sequence[SingleRun], tried: Sequence[Hypothesis]
) -> tuple[Severity, str]:
    missing = [name for name in stated.stated if name not in best.matched]
    wrong_n = stated.n is not None and stated.n != len(best.used)
    if not best.matched:
        if len(runs) == 1:
            away = abs(float(runs[0].value / stated.mean.value) - 1) if stated.mean.value else math.inf
            return "red", f"the output of its run says something else: it is {away:.2%} away"
        return "red", f"no number of the row follows from its runs{_describe_nearest_hypothesis(tried, stated, runs)}"
    text = f"{join_words([*best.matched])} {'follows' if len(best.matched) == 1 else 'follow'} from "
    if best.kind == "subset":
        left = [runs[i] for i in range(len(runs)) if i not in best.used]
        names = join_words([f"{run.name} ({_format_plain_number(float(run.value))})" for run in left])
        text += f"{len(best.used)} of the {len(runs)} runs, without {choose_noun_form(len(left), 'run')} {names}"
    elif best.changed is not None and best.needed is not None:
        run = runs[best.changed]
        text += (
            f"all runs if run {run.name} was {_format_plain_number(float(best.needed))} and not "
            f"{_format_plain_number(float(run.value))}"
        )
    else:
        text += f"all {len(runs)} runs" if len(runs) > 1 else "its run"
    text += f" (by {join_words([FORMULAS[name] for name in best.formulas])})" if best.formulas else ""
    text += "" if best.kind == "all" else f"; {_describe_certainty(best, whole)}"
    text += f"; the row states n = {stated.n}" if wrong_n else ""
    if missing:
        text += (
            f"; {join_words(missing)} {'does' if len(missing) == 1 else 'do'} not "
            f"follow{_describe_used_deviation(missing, best, runs)}"
        )
    if missing or best.kind == "one_differs":
        return "red", text
    return "amber" if best.kind == "subset" or best.is_unusual or wrong_n else "green", text


def _describe_used_deviation(missing: Sequence[str], best: Hypothesis, runs: Sequence[SingleRun]) -> str:
    """What the deviation of the used runs is."""
    if "sigma" not in missing or best.kind == "one_differs":
        return ""
    _, deviation = _compute_moments([runs[i].value for i in best.used])
    return f": these runs have a sigma of {_format_plain_number(deviation)}"


def _describe_certainty(best: Hypothesis, whole: Hypothesis) -> str:
    once_in = 2.0 ** (best.bits - whole.bits)
    tried = pluralize(best.tried, "subset" if best.kind == "subset" else "run")
    chance = "less than once in a million" if once_in > 1e6 else f"about once in {once_in:,.0f}"
    return f"of {tried} tried, {chance} by chance"


def _describe_nearest_hypothesis(tried: Sequence[Hypothesis], stated: RowStatement, runs: Sequence[SingleRun]) -> str:
    of_all = float(mean([run.value for run in runs]))
    away = abs(of_all / float(stated.mean.value) - 1) if stated.mean.value else math.inf
    near = [one for one in tried if one.kind != "all"]
    agree = f"; {pluralize(len(near), 'hypothesis')} that would fit may do so by chance" if near else ""
    return f": their mean is {away:.2%} away{agree}"

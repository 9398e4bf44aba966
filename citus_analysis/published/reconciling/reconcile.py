"""Reconcile rows of published tables with the single runs behind them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from statistics import mean
from typing import Final

from citus_analysis.published._printed import Printed, unit_of
from citus_analysis.published._rows import MEANS, ResultTable, Row
from citus_analysis.published.checks._registry import Finding, Severity, finding
from citus_analysis.published.checks.interval_checks import stated_interval
from citus_analysis.published.counts.counted_means import CountMean, means_of_counts
from citus_analysis.published.counts.whole_numbers import judge_counts
from citus_analysis.published.reconciling.hypotheses import (
    CLAIM_BITS,
    FORMULAS,
    Hypothesis,
    Statement,
    hypotheses,
    variance_of,
)
from citus_analysis.published.reconciling.single_runs import Run, RunTable
from citus_analysis.stats.estimate._student import normal_quantile
from citus_analysis.texts.counted_words import counted, listed, noun_for

#: Names of the findings, in the order in which they are listed.
RECONCILED: Final = ("runs_reconciled", "runs_copied_value", "runs_missing")


def reconcile(tables: Sequence[ResultTable], runs: RunTable) -> Iterator[Finding]:
    """What the runs say of each row that states a mean of them.

    Yields:
        Findings: green if all runs give all numbers with the usual formulas; amber if some runs were left out, or a
        formula is unusual; red if a number does not follow, or only if a value was another.
    """
    found = False
    for table in tables:
        for row in table.rows:
            for metric, stem, subject in _subjects(row, runs):
                chosen = runs.of(row, metric)
                if len(chosen) > 1:
                    found = True
                    yield from _of_row(subject, stem, metric, chosen, runs)
    if not found:
        first = tables[0] if tables else ResultTable("", "")
        text = (
            f"no row of the table states the settings of these runs ({', '.join(runs.keys) or 'none are named'}) and a "
            f"mean of {', '.join(runs.metrics)}"
        )
        yield Finding("amber", "runs_missing", first.source, first.name, "all rows", "runs of a row", runs.source, text)
    yield from _unused(runs)
    for value, places in runs.copies():
        text = "two runs do not agree in so many digits, unless one value was copied"
        yield Finding(
            "amber", "runs_copied_value", runs.source, runs.source, places[-1], "a value of its own",
            f"{value} as in {listed(places[:-1])}", text,
        )  # fmt: skip


def _subjects(row: Row, runs: RunTable) -> Iterator[tuple[str, str, Row]]:
    """The means that a row states of its runs: name among the runs, stem in the row, and the row itself."""
    stem = next((name for name in MEANS if name in runs.metrics and row.states(name)), None)
    if stem is not None:
        yield stem, stem, row
    for counts in means_of_counts(row):
        if counts.quantity in runs.metrics:
            numbers = {"mean": counts.mean} | ({"sigma": counts.sigma} if counts.sigma is not None else {})
            yield counts.quantity, "mean", replace(row, numbers={name: [one] for name, one in numbers.items()})


def _of_row(row: Row, stem: str, metric: str, chosen: Sequence[Run], runs: RunTable) -> Iterator[Finding]:
    if differ := runs.unsaid(row):
        text = f"the runs of this row differ in {listed(differ)}, which the row does not state"
        stated = f"{counted(len(chosen), 'run')} of {runs.source}"
        yield finding(row, "runs of one setting", stated, amber=text, name="runs_missing")
        return
    yield _judged(row, stem, chosen)
    if metric in runs.whole and stem == metric and row.n:
        sigma = row.get("sigma")
        counts = CountMean(metric, row[stem], sigma if sigma and row.mean_for(sigma) is row[stem] else None)
        severity, *texts = judge_counts(row.n, counts, runs.whole[metric])
        if severity != "green":
            yield Finding("amber", "whole_numbers", *row.place, *texts)


def _unused(runs: RunTable) -> Iterator[Finding]:
    """The lines whose runs are in no row, because a cell is empty."""
    if runs.empty:
        stated = [f"no {column} in {noun_for(len(at), 'line')} {_lines(at)}" for column, at in runs.empty.items()]
        lines = sorted({line for at in runs.empty.values() for line in at})
        text = "the runs of these lines were not used"
        yield Finding(
            "amber", "runs_missing", runs.source, runs.source, f"{noun_for(len(lines), 'line')} {_lines(lines)}",
            "a value in each cell", "; ".join(stated), text,
        )  # fmt: skip


def _lines(numbers: Sequence[int]) -> str:
    return listed([str(number) for number in numbers])


def _statement(row: Row, stem: str) -> Statement:
    mean, interval, n = row[stem], stated_interval(row), row.n
    low, high = (
        (Printed.of(interval.low, mean), Printed.of(interval.high, mean)) if interval is not None else (None, None)
    )
    sigma = Printed.of(row["sigma"], mean) if row.states("sigma") else None
    return Statement(Printed.of(mean, mean), sigma, low, high, interval.level if interval else 0.95, n)


def _judged(row: Row, stem: str, runs: Sequence[Run]) -> Finding:
    unit = unit_of(row[stem].metric)
    runs = [replace(run, value=run.value / unit) for run in runs]
    values = [run.value for run in runs]
    stated = _statement(row, stem)
    tried = hypotheses(values, stated)
    whole = next(one for one in tried if one.kind == "all")
    best = whole if tried[0].bits < whole.bits + CLAIM_BITS else tried[0]
    severity, text = _words(best, whole, stated, runs, tried)
    interval = f"{stated.low.text} to {stated.high.text}" if stated.low and stated.high else None
    parts = {"mean": stated.mean.text, "sigma": stated.sigma and stated.sigma.text, "interval": interval}
    printed = ", ".join(f"{name} {value}" for name, value in {**parts, "n =": stated.n}.items() if value is not None)
    return Finding(severity, "runs_reconciled", *row.place, _expected(values), printed, text)


def _expected(values: Sequence[Fraction]) -> str:
    """Mean, deviation and interval that all runs give."""
    centre, deviation = _moments(values)
    half = normal_quantile(0.975) * deviation / math.sqrt(len(values))
    ends = f"{_plain(centre - half)} to {_plain(centre + half)}"
    return f"mean {_plain(centre)}, sigma {_plain(deviation)}, interval {ends} from {counted(len(values), 'run')}"


def _moments(values: Sequence[Fraction]) -> tuple[float, float]:
    return float(mean(values)), math.sqrt(float(variance_of(values)))


def _plain(value: float) -> str:
    return f"{value:,.2f}" if abs(value) < 1e6 else f"{value:,.0f}"


def _words(
    best: Hypothesis, whole: Hypothesis, stated: Statement, runs: Sequence[Run], tried: Sequence[Hypothesis]
) -> tuple[Severity, str]:
    missing = [name for name in stated.stated if name not in best.matched]
    wrong_n = stated.n is not None and stated.n != len(best.used)
    if not best.matched:
        return "red", f"no number of the row follows from its runs{_nearest(tried, stated, runs)}"
    text = f"{listed([*best.matched])} {'follows' if len(best.matched) == 1 else 'follow'} from "
    if best.kind == "subset":
        left = [runs[i] for i in range(len(runs)) if i not in best.used]
        names = listed([f"{run.name} ({_plain(float(run.value))})" for run in left])
        text += f"{len(best.used)} of the {len(runs)} runs, without {noun_for(len(left), 'run')} {names}"
    elif best.changed is not None and best.needed is not None:
        run = runs[best.changed]
        text += f"all runs if run {run.name} was {_plain(float(best.needed))} and not {_plain(float(run.value))}"
    else:
        text += f"all {len(runs)} runs"
    text += f" (by {listed([FORMULAS[name] for name in best.formulas])})" if best.formulas else ""
    text += "" if best.kind == "all" else f"; {_certainty(best, whole)}"
    text += f"; the row states n = {stated.n}" if wrong_n else ""
    if missing:
        text += f"; {listed(missing)} {'does' if len(missing) == 1 else 'do'} not follow{_instead(missing, best, runs)}"
    if missing or best.kind == "one_differs":
        return "red", text
    return "amber" if best.kind == "subset" or best.is_unusual or wrong_n else "green", text


def _instead(missing: Sequence[str], best: Hypothesis, runs: Sequence[Run]) -> str:
    """What the deviation of the used runs is."""
    if "sigma" not in missing or best.kind == "one_differs":
        return ""
    _, deviation = _moments([runs[i].value for i in best.used])
    return f": these runs have a sigma of {_plain(deviation)}"


def _certainty(best: Hypothesis, whole: Hypothesis) -> str:
    once_in = 2.0 ** (best.bits - whole.bits)
    tried = counted(best.tried, "subset" if best.kind == "subset" else "run")
    chance = "less than once in a million" if once_in > 1e6 else f"about once in {once_in:,.0f}"
    return f"of {tried} tried, {chance} by chance"


def _nearest(tried: Sequence[Hypothesis], stated: Statement, runs: Sequence[Run]) -> str:
    of_all = float(mean([run.value for run in runs]))
    away = abs(of_all / float(stated.mean.value) - 1) if stated.mean.value else math.inf
    near = [one for one in tried if one.kind != "all"]
    agree = f"; {counted(len(near), 'hypothesis')} that would fit may do so by chance" if near else ""
    return f": their mean is {away:.2%} away{agree}"

"""Comparisons as a text table in the style of benchstat."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import groupby
from typing import Final

from citus_analysis.runs.setups import stratum_text
from citus_analysis.stats._validate import unique
from citus_analysis.stats.compare.run_tables import RunComparison
from citus_analysis.stats.compare.verdicts import PLANNED, Comparison
from citus_analysis.stats.results import Interval
from citus_analysis.texts.counted_words import noun_for
from citus_analysis.texts.number_text import readable
from citus_analysis.texts.text_tables import text_table
from citus_analysis.units import label

#: Explanation of adjusted p-values and intervals, for a legend.
ADJUSTED: Final = (
    "verdicts use p adjusted by Holm over all comparisons of one operation with one base; intervals of their "
    "ratios are simultaneous (Bonferroni), or of the step of Holm's procedure that decided"
)
_HEAD = ("", "n", "mean", "interval", "vs base", "p", "p adjusted", "verdict")


def format_comparison(comparisons: RunComparison | Iterable[Comparison]) -> str:
    """A table per stratum: mean with its interval, change against the base, p-value and verdict.

    `~` means that no difference was detected, `-` that there is no interval. Warnings follow as numbered notes.

    Example:
        >>> from citus_analysis.stats import compare
        >>> text = format_comparison([compare([20.0, 21, 22], [10.0, 11, 12], label_a="y", label_b="x")])
        >>> for line in text.splitlines()[:3]:
        ...     print(line)
                  n  mean  interval        vs base                    p      p adjusted  verdict
        x (base)  3  11    [8.776, 13.79]
        y         3  21    [18.66, 23.64]  +91 % [+58 %, +130 %] [1]  0.002  0.002       faster
    """
    whole = comparisons.warnings if isinstance(comparisons, RunComparison) else ()
    items = list(comparisons)
    notes = unique(note for item in items for note in item.warnings)
    numbers = {note: number for number, note in enumerate(notes, 1)}
    blocks = []
    for key, group in groupby(items, key=lambda item: (item.metric, item.stratum)):
        blocks.append("\n".join([*_title(*key), *_table(list(group), numbers)]))
    remarks = [f"[{number}] {note}" for note, number in numbers.items()] + [f"note: {note}" for note in whole]
    return "\n\n".join([*blocks, "\n".join([*remarks, *_legend(items)])]).strip("\n")


def _legend(items: list[Comparison]) -> list[str]:
    if not items:
        return []
    mean, ratio = items[0].mean_a, items[0].ratio
    level = f"{ratio.level * 100:g} %"
    method = ", or ".join(
        unique(item.ratio.method.partition(", simultaneous")[0].partition(", Holm's")[0] for item in items)
    )
    equivalent = next((item.deciding for item in items if item.verdict == "equivalent"), None)
    tost = f"; of equivalent ones {equivalent.level * 100:g} %, two one-sided tests" if equivalent else ""
    planned = f"; more runs: {_planned(items)}" if any(item.runs_missing for item in items) else ""
    adjusted = f"; {ADJUSTED}" if any(item.family_size > 1 for item in items) else ""
    return [
        f"interval: {level}, of the mean ({mean.method}); vs base: ratio with {level} interval "
        f"({method}){tost}{adjusted}{planned}"
    ]


def _planned(items: list[Comparison]) -> str:
    """The plan of further runs, with the level of one comparison of a family."""
    sizes = {item.family_size for item in items if item.runs_missing}
    return f"{PLANNED}, each at its share of the level (Bonferroni)" if max(sizes) > 1 else PLANNED


def _title(metric: str, stratum: dict[str, object]) -> list[str]:
    line = "  ".join(part for part in (label(metric) if metric else "", stratum_text(stratum, "  ")) if part)
    return [line] if line else []


def _table(group: list[Comparison], numbers: dict[str, int]) -> list[str]:
    rows: list[list[str]] = []
    shown: set[str] = set()
    for item in group:
        if item.label_b not in shown:
            shown.add(item.label_b)
            rows.append([f"{item.label_b} (base)", *_mean(item.mean_b), "", "", "", ""])
        marks = " ".join(f"[{numbers[note]}]" for note in item.warnings)
        change = f"{change_text(item)} {marks}".strip()
        p_values = (p_text(item.p_difference), p_text(item.p_difference_adjusted))
        rows.append([item.label_a, *_mean(item.mean_a), change, *p_values, _verdict(item)])
    return text_table(_HEAD, rows)


def _mean(interval: Interval) -> tuple[str, str, str]:
    return str(interval.n), readable(interval.estimate), interval.ends_text() or "-"


def change_text(item: Comparison) -> str:
    """The change against the base in per cent, with the interval that decided; `~` if none was detected.

    Example:
        >>> from citus_analysis.stats import compare
        >>> change_text(compare([20.0, 21, 22], [10.0, 11, 12]))
        '+91 % [+58 %, +130 %]'
    """
    sign = _percent(item.ratio.estimate) if item.differs else "~"
    ends = (_percent(end) for end in (item.deciding.low, item.deciding.high))
    return f"{sign} [{', '.join(ends)}]" if item.ratio.exists else sign


def _percent(ratio: float) -> str:
    change = (ratio - 1) * 100
    return f"{change:+.0f} %" if abs(change) >= 10 else f"{change:+.1f} %"


def p_text(p: float) -> str:
    """A p-value as text.

    Example:
        >>> p_text(0.01423), p_text(0.00001), p_text(float("nan"))
        ('0.014', '<0.001', '-')
    """
    if math.isnan(p):
        return "-"
    return "<0.001" if p < 0.0005 else f"{p:.3f}"


def p_words(comparison: Comparison) -> str:
    """The p-value of a difference and the adjusted one, for a sentence; empty if the comparison cannot be tested.

    Example:
        >>> from citus_analysis.stats import compare
        >>> p_words(compare([20.0, 21, 22], [10.0, 11, 12]))
        'p = 0.002'
    """
    if math.isnan(comparison.p_difference):
        return ""
    raw = p_text(comparison.p_difference)
    adjusted = f", adjusted {p_text(comparison.p_difference_adjusted)}" if comparison.family_size > 1 else ""
    return f"p {'' if raw.startswith('<') else '= '}{raw}{adjusted}"


def _verdict(item: Comparison) -> str:
    if item.verdict == "equivalent":
        return f"equivalent (±{item.margin * 100:g} %)"
    if item.verdict != "inconclusive" or item.runs_missing is None:
        return item.verdict
    return f"inconclusive (about {item.runs_missing:,} more {noun_for(item.runs_missing, 'run')} each)"

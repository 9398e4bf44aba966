"""Sentences of the scalability report; every claim follows from the verdict of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from citus_analysis.report.scalability import Axis, ScalingPanels
from citus_analysis.report.sentence_parts import decided_text, joint_text
from citus_analysis.runs.run_selection import Selection
from citus_analysis.stats import Comparison
from citus_analysis.stats.compare.verdict_text import p_words
from citus_analysis.stats.compare.verdicts import CHANGE_WORDS
from citus_analysis.texts.counted_words import counted, listed

__all__ = ["IN_OPENING", "caveats", "growth_sentences", "model_sentences", "opening_sentences", "scalability_warnings"]

#: The opening states at most this many operations per axis; the sections state all.
IN_OPENING: Final = 2


def opening_sentences(selection: Selection, studies: Sequence[ScalingPanels]) -> list[str]:
    """The runs analysed, the change of throughput along each axis, and its maximum, in three to six sentences."""
    sentences = [_entered(selection)]
    for study in studies:
        sentences += growth_sentences(study)[:IN_OPENING]
    return sentences + _highest(studies)


def _entered(selection: Selection) -> str:
    runs, left = selection.runs, selection.left_out
    entered = f"{counted(runs.height, 'run')} of {counted(runs['resource'].n_unique(), 'resource')} were analysed"
    if left.is_empty():
        return f"{entered}; no run failed."
    names = left["resource"].unique(maintain_order=True).to_list()
    gone = f"{counted(left.height, 'run')} failed or lost operations and {_are(left.height)} left out"
    return f"{entered}; {gone}: {listed(names)}."


def growth_sentences(study: ScalingPanels) -> list[str]:
    """One sentence per operation: whether throughput changes from the base to the largest value of each series."""
    if not study.operations():
        return [
            f"No set-up was measured at more than one number of {study.axis}, "
            f"so scaling by {study.axis} is not analysed."
        ]
    return [_growth(operation, study) for operation in study.operations()]


def _growth(operation: str, study: ScalingPanels) -> str:
    axis = study.axis
    largest: dict[str, Comparison] = {}
    for comparison in sorted(study.comparisons, key=lambda c: _value(c, axis)):
        if comparison.stratum["operation"] == operation:
            largest[str(comparison.stratum["series"])] = comparison
    shown = {name: largest[name] for name in study.order if name in largest}
    ends = {_value(c, axis) for c in shown.values()}
    noun = axis.removesuffix("s")
    to = f"to {counted(min(ends), noun)}" if len(ends) == 1 else f"to the most {axis}"
    starts = {c.label_b for c in shown.values()}
    start = min(starts) if len(starts) == 1 else "the fewest"
    at = {name: "" if len(ends) == 1 else f" and {counted(_value(c, axis), noun)}" for name, c in shown.items()}
    ratios = [f"{decided_text(c)} at {name}{at[name]}{_tested(c)}" for name, c in shown.items()]
    claim = _claim([c.verdict for c in shown.values()])
    joint = f" ({words})" if (words := joint_text(list(shown.values()))) else ""
    return f"{operation}: from {start} {to}, throughput {claim}. The ratio{joint} is {listed(ratios)}."


def _tested(comparison: Comparison) -> str:
    return f" ({words})" if (words := p_words(comparison)) else ""


def model_sentences(study: ScalingPanels) -> list[str]:
    """One sentence per operation: the models that its series support, reject, or could not be fitted to."""
    sentences = []
    for operation in study.operations():
        found: dict[str, list[str]] = {}
        for panel in study.panels:
            if panel.operation == operation and (words := panel.curve.models_sentence()):
                found.setdefault(words, []).append(panel.series)
        findings = [f"at {listed(series)}, {words}" for words, series in found.items()]
        if findings:
            sentences.append(f"Models of {operation} by {study.axis}: {'; '.join(findings)}.")
    return sentences


def _claim(verdicts: Sequence[str]) -> str:
    """The verdicts of several series as one predicate."""
    total = len(verdicts)
    counts = {word: sum(verdict == key for verdict in verdicts) for key, word in CHANGE_WORDS.items()}
    present = [(word, count) for word, count in counts.items() if count]
    if len(present) == 1:
        return f"{present[0][0]} in all {total} series" if total > 1 else present[0][0]
    first, *rest = present
    return listed([f"{first[0]} in {first[1]} of {total} series", *(f"{word} in {count}" for word, count in rest)])


def _highest(studies: Sequence[ScalingPanels]) -> list[str]:
    study = next((study for study in studies if study.operations()), None)
    if study is None:
        return []
    best = study.means.sort("mean", descending=True).group_by("operation", maintain_order=True).first()
    places = [
        f"{row['operation']} {row['mean']:,.0f} operations/s at {row['series']} and "
        f"{counted(row[study.axis], study.axis.removesuffix('s'))} (n = {row['n']})"
        for row in best.sort("operation").head(IN_OPENING).iter_rows(named=True)
    ]
    return [f"Highest mean throughput in a series: {listed(places)}."]


def scalability_warnings(selection: Selection, studies: Sequence[ScalingPanels]) -> list[str]:
    """Caveats for the figures: hardware, set-ups that change along an axis, few runs."""
    notes = [f"Measured on: {text}." for text in selection.hardware]
    for study in studies:
        inside = selection.runs.join(study.runs.select("run_id", "resource"), on=["run_id", "resource"], how="semi")
        notes += caveats(inside, study.axis, ["threads" if study.axis == "workers" else "workers"])
    thin = [study.means.filter(pl.col("n") < 3) for study in studies]
    if few := sum(rows.height for rows in thin):
        notes.append(f"{counted(few, 'point')} rest on fewer than 3 runs: their intervals are very wide or absent.")
    return list(dict.fromkeys(notes))


def _value(comparison: Comparison, axis: Axis) -> int:
    value = comparison.stratum[axis]
    return value if isinstance(value, int) else 0


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def caveats(runs: pl.DataFrame, along: str, others: Sequence[str] = ()) -> list[str]:
    """Sentences on other changes along a series than its axis: the node that clients connect to.

    Args:
        runs: runs that belong to series, with `entry` and the columns of the set-up.
        along: the series' axis.
        others: further columns in which series differ.
    """
    keys = ["family", *others]
    known = runs.drop_nulls("entry").group_by(*keys, along).agg(pl.col("entry").unique().sort().str.join(" or the "))
    changing = known.filter(pl.col("entry").n_unique().over(keys) > 1)
    sentences = []
    for (family,), part in changing.sort(along).group_by("family", maintain_order=True):
        places = part.group_by("entry", maintain_order=True).agg(pl.col(along).unique().sort().cast(pl.String))
        words = [f"at {listed(values)} through the {entry}" for entry, values in places.iter_rows()]
        sentences.append(
            f"In {family or 'the main grid'}, clients connect to different nodes as {along} change "
            f"({'; '.join(words)}): {along} are not the only difference between these runs."
        )
    return sentences

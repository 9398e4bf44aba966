"""Sentences of the comparison report: each set-up relative to the base, and caveats."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import polars as pl

from citus_analysis.report.comparison_text import APART, ComparisonPanels, apart_words, base_words, in_order
from citus_analysis.report.sentence_parts import at_load, load_of, range_of, times_of
from citus_analysis.runs.known_facts import stated_at_ingest
from citus_analysis.stats import Comparison
from citus_analysis.texts.counted_words import counted, listed
from citus_analysis.texts.number_text import readable


def comparison_sentences(study: ComparisonPanels) -> list[str]:
    """Each variant compared with the base in three to six sentences, the clearest differences first."""
    total, base = study.ratios.height, base_words(study.base)
    if not (total or study.alone):
        return [f"All runs have the same set-up, {study.base}; there is nothing to compare."]
    if not total:
        return [f"No variant shares an {_common_place(study)} with {base}: nothing can be compared."]
    found = [*_decided(study), *_equivalent(study), *_undecided(study)]
    return [*found, *_unequal(study), *_compared(study, base)]


def _unequal(study: ComparisonPanels) -> list[str]:
    """The number of comparisons in which more than the set-up differs."""
    unequal = study.ratios.filter(pl.col("also_differs") != "").height
    if not unequal:
        return []
    where = "In this comparison" if study.ratios.height == 1 else f"In {unequal} of {study.ratios.height} comparisons"
    return [f"{where} the runs differ in more than the set-up's name; the table lists the differences."]


def _compared(study: ComparisonPanels, base: str) -> list[str]:
    """The number of set-ups compared with the base; for a single comparison also both means."""
    number = study.ratios["variant"].n_unique()
    if study.ratios.height > 1:
        were = "was" if number == 1 else "were"
        total = counted(study.ratios.height, "comparison")
        return [f"{counted(number, 'set-up')} {were} compared with {base}, in {total}."]
    one = study.comparisons[0]
    means = [
        f"{readable(side.estimate)} operations/s for {name} (mean of {counted(side.n, 'run')})"
        for name, side in ((apart_words(one.label_a, study.base)[0], one.mean_a), (base, one.mean_b))
    ]
    return [f"The mean throughputs are {listed(means)}.", f"One set-up was compared with {base}, in one comparison."]


def order_warnings(study: ComparisonPanels) -> list[str]:
    """A warning where runs were made one set after the other; nothing where all were made in turns."""
    apart = study.ratios.filter(pl.col("order") == APART)
    if apart.is_empty():
        return []
    all_of = apart.height == study.ratios.height
    names = [apart_words(name, study.base)[0] for name in in_order(set(apart["variant"]))]
    which = "" if all_of else f" ({listed(names)})"
    share = f"In {apart.height} of {study.ratios.height} comparisons"
    where = share if not all_of else "In this comparison" if apart.height == 1 else "In all comparisons"
    return [
        f"{where}, all runs of one side were made before those of the other"
        f"{which}: a drift of the machine over time would look like a difference, and cannot be excluded."
    ]


def _decided(study: ComparisonPanels, most: int = 3) -> list[str]:
    """The variants with the clearest differences, each with its operations: "1.21 times the throughput of ...".

    If some variants differ from the base only in their set-up, the others, such as those with another number of
    records, are left to the table.
    """
    clear = [c for c in study.comparisons if c.verdict in ("faster", "slower")]
    by_variant: dict[str, list[Comparison]] = {}
    for c in sorted(clear, key=lambda c: abs(math.log(c.ratio.estimate)), reverse=True):
        if not c.stratum["differs"] or all(other.stratum["differs"] for other in clear):
            by_variant.setdefault(c.label_a, []).append(c)
    return [_variant_sentence(name, found, study.base) for name, found in list(by_variant.items())[:most]]


def _variant_sentence(name: str, found: Sequence[Comparison], base: str) -> str:
    first, *others = found
    name, base = apart_words(name, base)
    sizes = {load_of(c.stratum) for c in found}
    size = sizes.pop() if len(found) > 1 and len(sizes) == 1 else ""
    at = f", with {size}" if size else ""
    places = [str(c.stratum["operation"]) if at else at_load(c.stratum) for c in found]
    start = f"{times_of(first)} times the throughput of {base} ({range_of(first)}) for {places[0]}"
    more = [f"{times_of(c)} times ({range_of(c)}) for {place}" for c, place in zip(others, places[1:], strict=True)]
    return f"{name}: {listed([start, *more], most=3)}{at}{_other_differences(found)}."


def _other_differences(found: Sequence[Comparison]) -> str:
    """Other differences from the base in these comparisons, such as the number of records."""
    differences = dict.fromkeys(str(c.stratum["differs"]) for c in found if c.stratum["differs"])
    return f"; other differences: {'; '.join(differences)}" if differences else ""


def _equivalent(study: ComparisonPanels) -> list[str]:
    found = [c for c in study.comparisons if c.verdict == "equivalent"]
    if not found:
        return []
    margin = f"{found[0].margin * 100:g} %"
    names = [f"{apart_words(c.label_a, c.label_b)[0]} ({range_of(c)} times, {at_load(c.stratum)})" for c in found]
    base = apart_words(found[0].label_a, study.base)[1]
    return [f"As fast as {base}, within {margin}: {listed(names, most=3)}."]


def _undecided(study: ComparisonPanels) -> list[str]:
    """The number of inconclusive comparisons, the range of their ratios, and the reason."""
    rows = study.ratios.filter(pl.col("verdict") == "inconclusive").sort("ratio")
    if rows.is_empty():
        return []
    low, high = rows["ratio"][0], rows["ratio"][-1]
    span = f"ratios from {low:.2f} to {high:.2f}" if rows.height > 1 else f"ratio {low:.2f}"
    single = rows.filter((pl.col("n") < 2) | (pl.col("n_base") < 2)).height
    of_them = f" in {single} of them" if rows.height > 1 else ""
    why = f";{of_them} one side has a single run and so no spread" if single else ""
    if study.ratios.height == 1:
        missing = rows["runs_missing"][0]
        more = f"; about {counted(missing, 'more run')} of each would decide" if missing else ""
        return [f"The only comparison is inconclusive ({span}){why or more}."]
    are = "is" if rows.height == 1 else "are"
    return [f"{rows.height} of {study.ratios.height} comparisons {are} inconclusive ({span}){why}."]


def alone_sentences(study: ComparisonPanels, elsewhere: Collection[str] = ()) -> list[str]:
    """One sentence with the set-ups that could not be compared with the base; none if all could.

    Args:
        study: the comparison.
        elsewhere: set-ups that other comparisons of the page contain.
    """
    names = [name for name in study.alone if name not in elsewhere]
    if not names:
        return []
    place = _common_place(study)
    alone = f"Not compared with {base_words(study.base)}, for lack of a common {place}: {', '.join(names)}."
    return [alone, *_unknown_facts(study)]


def _common_place(study: ComparisonPanels) -> str:
    """What compared runs have in common, without sizes that no run states."""
    runs = study.found.runs
    known = [name for name in ("workers", "threads") if runs[name].null_count() < runs.height]
    return listed(["operation", *(f"number of {name}" for name in known)])


def _unknown_facts(study: ComparisonPanels) -> list[str]:
    """Facts that only some of the set-ups state, which therefore meet no other; with the command that states them."""
    runs, sentences = study.found.runs, []
    for name, words in (("workload", "workload"), ("workers", "number of workers"), ("threads", "number of threads")):
        unsaid = runs.group_by("variant").agg(pl.col(name).is_null().all() & (pl.col("phase") != "load").any())
        silent = in_order(set(unsaid.filter(pl.col(name))["variant"]))
        if 0 < len(silent) < unsaid.height:
            sentences.append(f"The {words} of {listed(silent)} is not known; {stated_at_ingest([name])}.")
    return sentences

"""Sentences of the comparison report: each set-up relative to the base, and caveats."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Final

import polars as pl

from citus_analysis.report.comparison_text import ComparisonPanels, apart_words, base_words, in_order
from citus_analysis.report.sentence_parts import range_of, times_of
from citus_analysis.runs.comparable import closest_difference
from citus_analysis.runs.known_facts import stated_at_ingest
from citus_analysis.runs.setups import LOAD
from citus_analysis.stats import Comparison
from citus_analysis.texts.counted_words import counted, listed, size_text
from citus_analysis.texts.number_text import readable


def comparison_sentences(study: ComparisonPanels) -> list[str]:
    """Each variant compared with the base in three to six sentences, the clearest differences first."""
    total, base = study.ratios.height, _quoted(study.base)
    if not (total or study.alone):
        return [f"All runs have the same set-up, {study.base}; there is nothing to compare."]
    if not total:
        if load := _other_load(study, study.alone):
            return [
                f"No variant was measured with the load of {base}: at its size, the closest differ in {listed(load)} "
                f"(-p pool={','.join(load)} compares without {'it' if len(load) == 1 else 'them'})."
            ]
        return [f"No variant shares an {_common_place(study)} with {base}: nothing can be compared."]
    found = [*_decided(study), *_equivalent(study), *_undecided(study)]
    return [*found, *_unequal(study), *_compared(study, base)]


def _quoted(base: str) -> str:
    """A set-up in a sentence; names of several words are quoted."""
    named = base_words(base)
    return f"“{named}”" if " " in base and named == base else named


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
        for name, side in ((_quoted(apart_words(one.label_a, study.base)[0]), one.mean_a), (base, one.mean_b))
    ]
    return [f"The mean throughputs are {listed(means)}.", f"One set-up was compared with {base}, in one comparison."]


def order_warnings(study: ComparisonPanels) -> list[str]:
    """A warning where runs were made one set after the other; nothing where all were made in turns."""
    apart = study.ratios.filter(pl.col("order").is_in(["after the base", "before the base"]))
    if apart.is_empty():
        return []
    names = [f"“{apart_words(name, study.base)[0]}”" for name in in_order(set(apart["variant"]))]
    orders = {order: counted(number, "comparison") for order, number in apart["order"].value_counts().iter_rows()}
    found = [f"in {number}, {_MADE[order]}" for order, number in sorted(orders.items())]
    return [
        f"The runs of both sides were not made in turns everywhere: {listed(found)} ({listed(names)}). A drift of the "
        "machine over time would look like a difference there, and cannot be excluded."
    ]


#: How the runs of a side lie in time -> the same in words.
_MADE: Final = {
    "after the base": "all runs were made after those of the base",
    "before the base": "all runs were made before those of the base",
}


def _decided(study: ComparisonPanels, most: int = 3) -> list[str]:
    """The variants with the clearest differences, each with its operations.

    If some variants differ from the base only in their set-up, the others, such as those whose clients connect to
    another node, are left to the table.
    """
    clear = [c for c in study.comparisons if c.differs]
    by_variant: dict[str, list[Comparison]] = {}
    for c in sorted(clear, key=lambda c: abs(math.log(c.ratio.estimate)), reverse=True):
        if not c.stratum["differs"] or all(other.stratum["differs"] for other in clear):
            by_variant.setdefault(c.label_a, []).append(c)
    return [ratio_sentence(found) for found in list(by_variant.values())[:most]]


def ratio_sentence(found: Sequence[Comparison], most: int = 3) -> str:
    """Comparisons of one set-up with one base, in one sentence with a base: "With X, INSERT is 2.0 times as fast as".

    Args:
        found: comparisons of the same two set-ups; the first gives the base.
        most: number of comparisons that are told; the others are counted.
    """
    first, *others = found
    name, base = as_place(first)
    loads = {_load_words(c) for c in found}
    common = loads.pop() if len(found) > 1 and len(loads) == 1 else ""
    places = [str(c.stratum["operation"]) if common else operation_at(c) for c in found]
    if not common and len({c.stratum["operation"] for c in found}) == 1:
        places[1:] = [_load_words(c) for c in others]
    start = f"{places[0]} is {times_of(first)} times as fast as {base} ({range_of(first)})"
    more = [f"{place} {times_of(c)} times ({range_of(c)})" for c, place in zip(others, places[1:], strict=True)]
    where = f"{name}, {common}" if common else name
    return f"{where}, {listed([start, *more], most=most)}{_other_differences(found)}."


def as_place(one: Comparison) -> tuple[str, str]:
    """Both set-ups of a comparison as places of a sentence: `With “text protocol”` and `with “usual set-up”`.

    Set-ups of several systems are places that something runs on.

    Example:
        >>> from citus_analysis.stats import compare
        >>> as_place(compare([20.0, 21, 22], [10.0, 11, 12], label_a="citus, text", label_b="citus, usual set-up"))
        ('With “text”', 'with the usual set-up')
    """
    sides = one.sides or ()
    systems = {system for side in sides if "system" in side.columns for system in side["system"].unique()}
    name, base = apart_words(one.label_a, one.label_b)
    named = tuple(one if one.startswith("the ") or one in systems else f"“{one}”" for one in (name, base))
    return (f"On {named[0]}", f"on {named[1]}") if len(systems) > 1 else (f"With {named[0]}", f"with {named[1]}")


def _load_words(one: Comparison) -> str:
    """The size and load of a comparison: `on 4 workers with 32 threads`."""
    workers, threads = (
        value if isinstance(value := one.stratum[name], int) else None for name in ("workers", "threads")
    )
    size = "" if workers is None else f"on {size_text(workers)}"
    load = [counted(threads, "thread")] if threads is not None else []
    load += [str(words)] if (words := one.stratum.get("load")) else []
    return " ".join(part for part in (size, f"with {listed(load)}" if load else "") if part)


def operation_at(one: Comparison) -> str:
    """The operation of a placed comparison with its size and load: `INSERT on 4 workers with 32 threads`."""
    return " ".join(part for part in (str(one.stratum["operation"]), _load_words(one)) if part)


def _other_differences(found: Sequence[Comparison]) -> str:
    """Other differences from the base in these comparisons, such as the node that clients connect to."""
    differences = dict.fromkeys(str(c.stratum["differs"]) for c in found if c.stratum.get("differs"))
    return f"; other differences: {'; '.join(differences)}" if differences else ""


def _equivalent(study: ComparisonPanels) -> list[str]:
    found = [c for c in study.comparisons if c.verdict == "equivalent"]
    if not found:
        return []
    words = []
    for c in found:
        name, base = as_place(c)
        words.append(
            f"{name}, {operation_at(c)} is as fast as {base}, within {c.margin * 100:g} % ({range_of(c)} times)"
        )
    return [f"{listed(words, most=3)}."]


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
    it = "it has" if len(names) == 1 else "they have"
    load = _other_load(study, names)
    no_place = f"{it} no {_common_place(study)} in common with it"
    differ = "differs" if len(names) == 1 else "differ"
    parts = listed([part.replace("_", " ") for part in load])
    reason = f"{no_place}, or {differ} there in {parts} or more" if load else no_place
    alone = f"Not compared with {_quoted(study.base)}, because {reason}: {'; '.join(names)}."
    return [alone, *_unknown_facts(study)]


def _other_load(study: ComparisonPanels, names: Collection[str]) -> tuple[str, ...]:
    """The fewest parts of the load in which set-ups with the base's operation and size differ from it; none without."""
    columns, runs = ["operation", "workers", "threads"], study.found.runs
    base = runs.filter(variant=study.base)
    mine = runs.filter(pl.col("variant").is_in(list(names)))
    mine = mine.join(base.select(columns).unique(), on=columns, how="semi", nulls_equal=True)
    if mine.is_empty():
        return ()
    strata = [name for name in study.found.strata if name in LOAD and name != "threads"]
    sides = pl.concat([base.with_columns(_side=pl.lit(0)), mine.with_columns(_side=pl.lit(1))])
    cells = (cell for _, cell in sides.group_by(columns, maintain_order=True) if cell["_side"].n_unique() > 1)
    return min((closest_difference(cell, "_side", strata) for cell in cells), key=len) if strata else ()


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

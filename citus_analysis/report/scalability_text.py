"""Sentences of the scalability report; every claim follows from the verdict of a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from citus_analysis.defaults import METRIC
from citus_analysis.report.scalability import Panel, ScalingPanels
from citus_analysis.report.sentence_parts import range_of, times_of, with_model_names
from citus_analysis.runs.known_facts import stated_at_ingest
from citus_analysis.runs.run_selection import Selection
from citus_analysis.runs.setups import CONFIGURATION, setting_text
from citus_analysis.stats import Comparison
from citus_analysis.texts.counted_words import counted, listed, noun_for, spelled
from citus_analysis.texts.natural_order import natural_key
from citus_analysis.texts.number_text import percent, readable

#: The opening states at most this many operations per axis; the sections state all.
IN_OPENING: Final = 2


def opening_sentences(selection: Selection, studies: Sequence[ScalingPanels]) -> list[str]:
    """The change of throughput along each axis, its maximum, and the runs analysed, in three to six sentences."""
    runs = selection.runs
    known = [study for study in studies if runs[study.axis].null_count() < runs.height]
    # An axis without a series is named last.
    growth, none = (
        [one for study in known if bool(study.panels) == wanted for one in growth_sentences(study)[:IN_OPENING]]
        for wanted in (True, False)
    )
    return [*growth, *_highest(runs), _entered(selection), *none, *_unknown_sizes(runs)]


def _entered(selection: Selection) -> str:
    runs, left = selection.runs, selection.left_out
    known = [name for name in CONFIGURATION if name in runs.columns]
    configurations = runs.select(known).unique().height
    entered = f"{counted(runs.height, 'run')} of {counted(configurations, 'configuration')} were analysed"
    if left.is_empty():
        return f"{entered}; no run failed."
    are = "is" if left.height == 1 else "are"
    disturbed = int((left["status"].cast(pl.String) == "doubtful").sum()) if "status" in left.columns else 0
    why = "failed or lost operations"
    if disturbed:
        during = "made while the machine did other work"
        some = f"{why}, or {'was' if left.height == 1 else 'were'} {during} ({disturbed}),"
        why = f"{'was' if left.height == 1 else 'were'} {during}" if disturbed == left.height else some
    gone = f"{counted(left.height, 'run')} {why} and {are} left out"
    return f"{entered}; {gone}: {_resources(left)}."


def _resources(runs: pl.DataFrame) -> str:
    return listed(sorted(runs["resource"].unique().to_list(), key=natural_key))


def _unknown_sizes(runs: pl.DataFrame) -> list[str]:
    """What some runs do not say of their size although others do, or what none says that a series needs.

    An axis that no run mentions is not mentioned here, if the other axis is known.
    """
    unknown = {name: runs[name].null_count() for name in ("workers", "threads")}
    if all(number == runs.height for number in unknown.values()):
        first = "No run states its number of workers or of threads, so that there is no series"
        return [f"{first}; {stated_at_ingest(list(unknown))}."]
    return [
        f"Of {counted(number, 'run')} ({_resources(runs.filter(pl.col(name).is_null()))}) the number of {name} is not "
        f"known, so that no series shares {'it' if number == 1 else 'them'} with the others; "
        f"{stated_at_ingest([name])}."
        for name, number in unknown.items()
        if 0 < number < runs.height
    ]


def growth_sentences(study: ScalingPanels) -> list[str]:
    """Sentences per operation and set-up on the largest size relative to the smallest, in the words of the verdicts.

    The set-up with the most series comes first.
    """
    if not study.panels:
        axis = study.axis
        return [f"No set-up was measured at more than one number of {axis}, so scaling by {axis} is not analysed."]
    noun = study.axis.removesuffix("s")
    return [sentence for group in study.groups() for sentence in _growth(group, noun)]


def _growth(group: Sequence[Panel], noun: str) -> Iterator[str]:
    """One sentence for all series with the same smallest and largest size."""
    ends: dict[tuple[int, int], list[Panel]] = {}
    for panel in group:
        growth = panel.curve.growth
        ends.setdefault((int(growth.label_b), int(growth.label_a)), []).append(panel)
    for (few, many), panels in ends.items():
        smaller, larger = spelled(few), f"{spelled(many)} {noun_for(many, noun)}"
        equal = [panel for panel in panels if panel.curve.growth.verdict == "equivalent"]
        decided = [panel for panel in panels if panel not in equal and _is_clear(panel.curve.growth)]
        open_ = [panel for panel in panels if panel not in equal and panel not in decided]
        clauses = [_decided(decided, smaller, larger)] if decided else []
        clauses += [_equal(equal)] if equal else []
        if open_ and (decided or equal):
            clauses.append(f"{_places(open_)} these runs do not show whether throughput changes")
        elif open_:
            sizes = f"{larger} do more or less work than {smaller}"
            clauses.append(f"these runs do not show whether {sizes} {_places(open_)}")
        clauses += [words for panel in panels if (words := steady_clause(panel, named=len(panels) > 1))]
        yield f"{group[0].title}: {'; '.join(clauses)}."


def _is_clear(comparison: Comparison) -> bool:
    """Whether a change is decided and the interval that a reader sees beside it excludes 1."""
    ratio = comparison.deciding
    return comparison.verdict in ("faster", "slower") and not (ratio.exists and ratio.low <= 1 <= ratio.high)


def steady_clause(panel: Panel, *, named: bool = True) -> str:
    """Whether the finding on whole runs holds for their steady parts; empty if there is no start-up to leave out."""
    if panel.steady is None:
        return ""
    where = _with(panel) if named else ""
    if not panel.settled:
        return f"some of these runs did not settle{where}, so that no steady part confirms it"
    if not panel.cut_s:
        return ""
    whole, steady = panel.curve.growth, panel.steady
    clear = _is_clear(steady) or steady.verdict == "equivalent"
    agrees = steady.verdict == whole.verdict and clear == (_is_clear(whole) or whole.verdict == "equivalent")
    ratio = f"{times_of(steady)} times, {range_of(steady)}"
    cut = f"without the start-up of up to {panel.cut_s:.0f} s{where}"
    if agrees:
        return f"{cut} this holds ({ratio})" if clear else f"{cut} they do not show it either ({ratio})"
    if not clear:
        return f"{cut} these runs do not show a change ({ratio})"
    finding = "it stays the same" if steady.verdict == "equivalent" else f"the larger size is {steady.verdict}"
    return f"{cut} {finding} ({ratio})"


def _decided(found: Sequence[Panel], smaller: str, larger: str) -> str:
    """Sizes that differ: "four workers do 3.1 times the work of one (2.8 to 3.4) with 64 threads"."""
    first, *others = found
    only = "only " if first.curve.growth.verdict == "slower" else ""
    start = (
        f"{larger} do {only}{times_of(first.curve.growth)} times the work of {smaller} "
        f"({range_of(first.curve.growth)}){_with(first)}"
    )
    more = [f"{times_of(p.curve.growth)} times ({range_of(p.curve.growth)}){_with(p)}" for p in others]
    return listed([start, *more])


def _equal(found: Sequence[Panel]) -> str:
    margin = percent(found[0].curve.growth.margin)
    places = [f"{_with(p).strip() or 'throughout'} ({range_of(p.curve.growth)} times)" for p in found]
    return f"throughput stays the same within {margin} {listed(places)}"


def _places(undecided: Sequence[Panel]) -> str:
    words = [f"{_with(p)} ({times_of(p.curve.growth)} times, {range_of(p.curve.growth)})" for p in undecided]
    return listed([word.strip() for word in words])


def _with(panel: Panel) -> str:
    return f" with {panel.line}" if panel.line else ""


def model_sentences(study: ScalingPanels) -> list[str]:
    """One sentence per operation on the models that its series support, reject, or are too short for."""
    sentences = []
    for operation in study.operations():
        found: dict[str, list[str]] = {}
        for panel in study.panels:
            if panel.operation == operation and (words := panel.curve.models_sentence()):
                found.setdefault(with_model_names(words), []).append(panel.series)
        findings = [f"with {listed(series)}, {words}" for words, series in found.items()]
        if findings:
            sentences.append(f"Models of {operation} by {study.axis}: {'; '.join(findings)}.")
    return sentences


def _highest(runs: pl.DataFrame) -> list[str]:
    """The configuration with the highest mean of each operation, over all runs that were analysed."""
    known = ["operation", "resource", *(name for name in CONFIGURATION if name in runs.columns)]
    means = runs.drop_nulls(["operation", METRIC]).group_by(*dict.fromkeys(known), maintain_order=True)
    found = means.agg(pl.col(METRIC).mean().alias("mean"), pl.len().alias("n")).sort("mean", descending=True)
    best = found.group_by("operation", maintain_order=True).first().sort("operation").head(IN_OPENING)
    places = [
        f"{readable(row['mean'])} operations/s for {row['operation']} ({_words_of(row, runs)}, "
        f"mean of {counted(row['n'], 'run')})"
        for row in best.iter_rows(named=True)
    ]
    return [f"The highest throughput was {listed(places)}."] if places else []


def _words_of(row: dict[str, object], runs: pl.DataFrame) -> str:
    """The resource of a configuration, with its threads if the resource was measured with several numbers of them."""
    numbers = runs.filter(resource=row["resource"], operation=row["operation"])["threads"].n_unique()
    threads = row.get("threads")
    if numbers > 1 and isinstance(threads, int):
        return f"{row['resource']}, {counted(threads, 'thread')}"
    return str(row["resource"])


def hardware_sentence(selection: Selection) -> list[str]:
    """The hardware of the runs in one sentence; none if no description states it."""
    if not selection.hardware:
        return []
    machines, *rests = zip(*(text.partition("; ")[::2] for text in selection.hardware), strict=True)
    if len(set(machines)) > 1 or not all(rests[0]):
        return [f"Measured on {'; and on '.join(selection.hardware)}."]
    return [f"Measured on {machines[0]}: {'; or '.join(rests[0])}."]


def scalability_warnings(selection: Selection, studies: Sequence[ScalingPanels]) -> list[str]:
    """Caveats for the figures: hardware, set-ups that change along an axis, few runs."""
    notes = hardware_sentence(selection)
    for study in studies:
        inside = selection.runs.join(study.runs.select("run_id", "resource"), on=["run_id", "resource"], how="semi")
        notes += caveats(inside, study.axis, ["threads" if study.axis == "workers" else "workers"])
    if few := sum(study.means.filter(pl.col("n") < 3).height for study in studies):
        notes.append(f"{counted(few, 'point')} rest on fewer than 3 runs: their intervals are very wide or absent.")
    return list(dict.fromkeys(notes))


def caveats(runs: pl.DataFrame, along: str, others: Sequence[str] = ()) -> list[str]:
    """Sentences on changes along a series besides its axis: the node that clients connect to.

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
            f"In the {setting_text('family', family)}, clients connect to different nodes as {along} change "
            f"({'; '.join(words)}): {along} are not the only difference between these runs."
        )
    return sentences

"""Set-ups compared with a base, where both ran the same operation at the same size and load.

A *variant* is a set-up apart from its size: system, family of the resource, number of load generators, the client's
protocol, the rate it was limited to, and server settings (:mod:`citus_analysis.runs`). Runs are compared if the rest of
their configuration agrees; nothing is pooled but what a reader names. Differences in the node that clients connect to,
or in the load generator, are stated beside the ratio. The equivalent command is `compare DIR --by variant`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np
import plotly.graph_objects as go
import polars as pl

from citus_analysis.attribution.causes import Explanation
from citus_analysis.attribution.explanation import explain
from citus_analysis.attribution.observed import observe_runs
from citus_analysis.attribution.sentences import state_functions, tabulate_causes
from citus_analysis.core.frames import TableSource, convert_to_polars
from citus_analysis.defaults import LEVEL, MARGIN, METRIC, UNTIL_TIME_IS_UP
from citus_analysis.errors import InsufficientDataError, UnknownNameError, UsageError
from citus_analysis.plots import plot_ratios
from citus_analysis.plots.comparison_figures import plot_bars
from citus_analysis.plots.published_figures import plot_measured_rates
from citus_analysis.published.auditing import audit
from citus_analysis.published.study import combine_new_orders, list_published_numbers, select_measured_rates
from citus_analysis.published.tables import published
from citus_analysis.report.scalability import write_hardware_sentence
from citus_analysis.report.sentences import (
    format_interval_cells,
    format_operation_with_load,
    format_ratio,
    format_ratio_interval,
)
from citus_analysis.runs import comparability
from citus_analysis.runs.selection import (
    Question,
    Selection,
    find_closest_difference,
    select_asked_runs,
    split_names,
)
from citus_analysis.runs.set_ups import (
    CONFIGURATION,
    LOAD,
    build_series_names,
    describe_ingest_option,
    format_setup_value,
)
from citus_analysis.runs.status import AS_SELECTED
from citus_analysis.scaling import configuration_costs
from citus_analysis.stats import Comparison, compare_runs, summarise_runs
from citus_analysis.stats.findings import (
    ReportFinding,
    state,
)
from citus_analysis.stats.run_comparisons import RunComparison, choose_usual_level
from citus_analysis.stats.verdicts import NO_VERDICT
from citus_analysis.texts.numbers import (
    format_estimate_with_interval,
    format_number,
    format_p_value,
)
from citus_analysis.texts.words import (
    format_cluster_size,
    join_words,
    make_natural_key,
    make_size_expr,
    pluralize,
)

_COMPARED_AT: Final = ("operation", "workers", "threads")
#: Columns of a stratum that are shown by operation, size and threads, or by the names of set-ups.
_PLACED: Final = (
    *_COMPARED_AT,
    *("phase", "workload", "system", "family", "settings", "drivers", "monitored", "cpu_per_node"),
)
#: Columns that may differ within a comparison; differences are stated.
_SAID: Final = {
    "records": "records",
    "scale_factor": "scaling factor",
    "operations": "operations",
    "entry": "clients connect to the",
    "tool": "load generator",
}
_RATIOS: Final = {
    "operation": pl.String(),
    "workers": pl.Int32(),
    "threads": pl.Int32(),
    "load": pl.String(),
    "variant": pl.String(),
    **dict.fromkeys(("ratio", "low", "high"), pl.Float64()),
    "n": pl.Int64(),
    "n_base": pl.Int64(),
    "verdict": pl.String(),
    **dict.fromkeys(("p_difference", "p_difference_adjusted"), pl.Float64()),
    "runs_missing": pl.Int64(),
    "order": pl.String(),
    "also_differs": pl.String(),
}


@dataclass(frozen=True)
class ComparisonPanels:
    """A comparison of variants as tables for figures.

    Attributes:
        base: name of the base variant.
        found: the comparisons, configuration by configuration.
        means: per compared configuration and variant, of the runs that were compared: n, mean, sd, low, high; of all
            runs if nothing is compared.
        ratios: per configuration and variant other than the base: ratio with the interval that decided, verdict, runs
            still needed, other differences, and how the runs lie in time to those of the base (`order`). `load` names
            other parts of the load in which these differ.
        alone: variants with no configuration in common with the base.
        margin: relative difference that counts as none.
    """

    base: str
    found: RunComparison
    means: pl.DataFrame
    ratios: pl.DataFrame
    alone: tuple[str, ...] = field(default=())
    margin: float = MARGIN

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The comparisons of `ratios`, each with its place and other differences in `stratum`."""
        return tuple(_add_places(self.found.comparisons))

    def plot(self, *, most: int = 25) -> list[go.Figure]:
        """Ratios to the base with their intervals, one figure for each operation.

        Args:
            most: number of variants per figure; the ratios furthest from 1 are kept.
        """
        figures = []
        for operation in self.operations():
            rows = select_ratio_rows(self, operation)
            clearest = rows.sort(pl.col("ratio").log().abs(), descending=True).head(most)
            cut = f" (the {most} largest differences of {rows.height})" if rows.height > most else ""
            kept = rows.filter(pl.col("name").is_in(clearest["name"].implode()))
            title = f"{operation}: throughput relative to {describe_base(self.base)}{cut}"
            figures.append(plot_ratios(kept, base=describe_base(self.base), margin=self.margin, title=title))
        return figures

    def table(self) -> pl.DataFrame:
        """The ratios for readers: one row per operation, size and variant, with intervals in the cells."""
        shown = self.ratios.with_columns(
            ratio=format_interval_cells(self.ratios, "ratio"),
            p_adjusted=pl.Series(map(format_p_value, self.ratios["p_difference_adjusted"]), dtype=pl.String),
            runs=pl.format("{} and {}", "n", "n_base"),
            verdict=pl.when(pl.col("low").is_not_null()).then("verdict").otherwise(pl.lit(NO_VERDICT)),
        )
        load = ["load"] if shown["load"].n_unique() > 1 else []
        found = ("ratio", "verdict", "p_adjusted", "runs", "order", "also_differs")
        return shown.select(*_COMPARED_AT, *load, "variant", *found)

    def means_table(self) -> pl.DataFrame:
        """The means for readers: n, mean with its interval, and standard deviation of each set-up that is compared."""
        load = ["load"] if self.means["load"].n_unique() > 1 else []
        return self.means.select(*_COMPARED_AT, *load, "variant", "n", "mean", "low", "high", "sd")

    def operations(self) -> list[str]:
        """Names of the operations in which something is compared."""
        return self.ratios["operation"].unique(maintain_order=True).to_list()


def comparison_panels(
    selection: Selection,
    *,
    base: str = "",
    pool: str | Sequence[str] = (),
    level: float = LEVEL,
    margin: float = MARGIN,
) -> ComparisonPanels:
    """Compare every variant with the base, configuration by configuration; verdicts are adjusted per operation (Holm).

    Args:
        selection: runs with their set-up.
        base: name of a variant, or its first part; empty: the one with the most runs.
        pool: columns of the load that need not be equal, as a list or separated by commas; `experiment` to pool runs of
            several experiments.
        level: confidence level.
        margin: relative difference that counts as none.

    Raises:
        UnknownNameError: no variant has the name of the base, or there is no such column.
    """
    question = Question(pool=split_names(pool), level=level, margin=margin)
    runs, start = selection.runs, find_base_variant(selection, base)
    found = _compare_by_variant(runs, start, question)
    placed = tuple(_add_places(found.comparisons))
    ratios = _tabulate_ratios(placed)
    means = _summarise_compared_runs(placed, level) if placed else _summarise_all_runs(runs, found.strata, level)
    met = set(ratios["variant"]) | {start}
    return ComparisonPanels(start, found, means, ratios, sort_naturally(set(runs["variant"]) - met), question.margin)


def _summarise_compared_runs(comparisons: Sequence[Comparison], level: float) -> pl.DataFrame:
    """The mean of each set of runs that was compared, once."""
    sides: dict[tuple[object, ...], pl.DataFrame] = {}
    for one in comparisons:
        place = {**{name: one.stratum[name] for name in _COMPARED_AT}, "load": one.stratum["load"]}
        for name, runs in zip((one.label_a, one.label_b), one.sides or (), strict=True):
            key = (*place.values(), name, tuple(runs["run_id"].sort()) if "run_id" in runs.columns else runs.height)
            sides.setdefault(key, runs.with_columns(load=pl.lit(place["load"])))
    rows = pl.concat([runs.with_columns(_side=pl.lit(i)) for i, runs in enumerate(sides.values())])
    means = summarise_runs(
        rows, METRIC, by=[*_COMPARED_AT, "load", "variant", "_side"], level=level, include_status=AS_SELECTED
    )
    return means.drop("_side")


def _summarise_all_runs(runs: pl.DataFrame, strata: Sequence[str], level: float) -> pl.DataFrame:
    """The means of all configurations, where nothing is compared."""
    groups = list(dict.fromkeys([*_COMPARED_AT, *strata, "variant"]))
    means = summarise_runs(
        runs.sort(*_COMPARED_AT, "variant"), METRIC, by=groups, level=level, include_status=AS_SELECTED
    )
    others = [name for name in strata if name not in (*_COMPARED_AT, "phase", "workload")]
    load = build_series_names(means.select(others)) if others else pl.Series([""] * means.height, dtype=pl.String)
    return means.with_columns(load=load)


def sort_naturally(names: Collection[str]) -> tuple[str, ...]:
    """Names in natural order: w2 before w10."""
    return tuple(sorted(names, key=make_natural_key))


def _compare_by_variant(
    runs: pl.DataFrame, base: str, question: Question, within: Sequence[str] | None = None
) -> RunComparison:
    """The result of `compare DIR --by variant --base BASE`; empty if no configuration has two variants."""
    pool, level, margin = question.pool, question.level, question.margin
    asked = partial(compare_runs, pool=pool, level=level, margin=margin, include_status=AS_SELECTED)
    try:
        return asked(runs, METRIC, "variant", base, within=within)
    except InsufficientDataError:
        return RunComparison((), "variant", METRIC, comparability(runs, "variant", pool).strata, pool, (), runs)


def find_base_variant(selection: Selection, base: str) -> str:
    """The variant named by `base`: its whole name, or its first part (which figures show) if that is unique.

    Args:
        selection: runs with their set-up.
        base: the name; empty: the variant with the most runs.

    Raises:
        UnknownNameError: no variant has that name.
    """
    names = selection.runs["variant"].unique().sort().to_list()
    if base in ("", *names):
        return base or str(choose_usual_level(selection.runs, "variant"))
    short = [str(name) for name in names if name.split(", ")[0] == base]
    if len(short) != 1:
        raise UnknownNameError("variant", base, names)
    return short[0]


def _add_places(comparisons: Sequence[Comparison]) -> Iterator[Comparison]:
    """Comparisons with their place, other parts of the load and other differences in `stratum`."""
    strata = [one.stratum for one in comparisons]
    names = [name for name in dict.fromkeys(name for one in strata for name in one) if name not in _PLACED]
    varying = [name for name in names if len({one.get(name) for one in strata}) > 1]
    for one in comparisons:
        mine, reference = one.sides or (pl.DataFrame(), pl.DataFrame())
        place = {name: mine[name][0] if name in mine.columns else None for name in _COMPARED_AT}
        load = ", ".join(filter(None, (_load_words(name, one.stratum.get(name)) for name in varying)))
        words = {"load": load, "differs": _differs(mine, reference), "n_base": reference.height}
        yield replace(one, stratum={**place, **words})


def _load_words(name: str, value: object) -> str:
    """A part of the load in words; empty if it is not known."""
    if value is None or value == "":
        return ""
    if name in _SAID and isinstance(value, int):
        return f"{_format_size(value)} {_SAID[name]}"
    return f"{name.replace('_', ' ')} {format_setup_value(name, value)}"


def _differs(mine: pl.DataFrame, reference: pl.DataFrame) -> str:
    found = []
    for column, words in _SAID.items():
        a, b = (frame[column].drop_nulls().unique().sort().to_list() for frame in (mine, reference))
        if a != b and a and b:
            left, right = (" or ".join(map(_format_size, values)) for values in (a, b))
            found.append((f"{left} against {right}", words))
    # A load inserts each record once: its records and operations have the same number.
    merged = {values: " and ".join(words for other, words in found if other == values) for values, _ in found}
    return "; ".join(f"{words} {values}" for values, words in merged.items())


def _format_size(value: int | str) -> str:
    if isinstance(value, str):
        return value
    return "as many as time allows" if value >= UNTIL_TIME_IS_UP else f"{value:,}"


def _tabulate_ratios(comparisons: Sequence[Comparison]) -> pl.DataFrame:
    rows = [
        {
            **{name: c.stratum[name] for name in (*_COMPARED_AT, "load")},
            "variant": c.label_a,
            "ratio": c.ratio.estimate,
            **dict(zip(("low", "high"), c.deciding.ends, strict=True)),
            "n": c.mean_a.n,
            "n_base": c.mean_b.n,
            "verdict": c.verdict,
            **c.known_p_values(),
            "runs_missing": c.runs_missing,
            "order": c.order,
            "also_differs": c.stratum["differs"],
        }
        for c in comparisons
    ]
    names = sort_naturally({c.label_a for c in comparisons})
    frame = pl.DataFrame(rows, schema=_RATIOS)
    return frame.sort("operation", pl.col("variant").cast(pl.Enum(names)), "workers", "threads")


def describe_base(base: str) -> str:
    """The base in a sentence.

    Example:
        >>> describe_base("usual set-up"), describe_base("citus, binary")
        ('the usual set-up', 'citus, binary')
    """
    return f"the {base}" if base == format_setup_value("family", "") else base


def strip_shared_prefix(name: str, base: str) -> tuple[str, str]:
    """The names of two variants without the parts that both begin with, such as the system.

    Example:
        >>> strip_shared_prefix("citus, binary", "citus, usual set-up")
        ('binary', 'the usual set-up')
        >>> strip_shared_prefix("postgresql, single", "citus, usual set-up")
        ('postgresql, single', 'citus, usual set-up')
    """
    mine, other = name.split(", "), base.split(", ")
    while min(len(mine), len(other)) > 1 and mine[0] == other[0]:
        mine, other = mine[1:], other[1:]
    return ", ".join(mine), describe_base(", ".join(other))


def select_ratio_rows(study: ComparisonPanels, operation: str) -> pl.DataFrame:
    """The ratios of one operation with a `name` per row, for a figure."""
    rows = study.ratios.filter(pl.col("operation") == operation)
    short = rows["variant"].str.split(", ").list.first()
    unique = short.n_unique() == rows["variant"].n_unique()
    size = pl.when(pl.col("workers") == 0).then(pl.lit("one server")).otherwise(pl.format("{} w", "workers"))
    known = pl.concat_str(size, pl.format("{} t", "threads"), separator=", ", ignore_nulls=True)
    several = rows.select("workers", "threads").unique().height > 1
    sizes = pl.format(" ({})", pl.when(known != "").then(known).otherwise(pl.lit("unknown"))) if several else pl.lit("")
    return rows.with_columns(name=short if unique else rows["variant"]).with_columns(pl.col("name") + sizes)


# Findings of the comparison report: each set-up relative to the base, and caveats.

#: Kind of finding -> its words. Parts of sentences have the name of the sentence and their own.
TEMPLATES: Final = {
    "one set-up": "All runs have the same set-up, {base}; there is nothing to compare.",
    "other load": "No set-up was measured with the load of {base}: at its size, the closest differ in {columns} "
    "(-p pool={pool} compares without {them}).",
    "nothing in common": "No set-up shares an {needed} with {base}: nothing can be compared.",
    "decided": "{place}, {comparisons}{differences}.",
    "decided: first": "{operation} is {ratio} times as fast as {base} ({interval})",
    "decided: others": "{operation} {ratio} times ({interval})",
    "decided: other differences": "; other differences: {differences}",
    "equivalent": "{comparisons}.",
    "equivalent: each": "{place}, {operation} is as fast as {base}, within {margin:g} % ({interval} times)",
    "inconclusive": "{number} of {total} comparisons {are} inconclusive ({span}){why}.",
    "only inconclusive": "The only comparison is inconclusive ({span}){why}.",
    "no verdict": "{number} of {total} comparisons {have} a ratio without a verdict ({span}): one side has a single "
    "run and so no spread.",
    "only no verdict": "The only comparison has a ratio without a verdict ({span}): one side has a single run and so "
    "no spread.",
    "inconclusive: runs needed": "; about {runs} of each would decide",
    "unequal": "{where} the runs differ in more than the set-up's name; the table lists the differences.",
    "means": "The mean throughputs are {means}.",
    "means: each": "{mean} operations/s for {set_up} (mean of {runs})",
    "number compared": "{set_ups} compared with {base}, in {comparisons}.",
    "order": "The runs of both sides were not made in turns everywhere: {orders} ({set_ups}). A drift of the machine "
    "over time would look like a difference there, and cannot be excluded.",
    "order: each": "in {comparisons}, all runs were made {order}",
    "after the base": "after those of the base",
    "before the base": "before those of the base",
    "not compared": "Not compared with {base}, because {reason}: {set_ups}.",
    "not known": "The {fact} of {set_ups} is not known; {hint}.",
    "other pair": "{place}, {operation} is {ratio} times as fast as {base} ({interval}){common}.",
    "equivalent pair": "{place}, {operation} is as fast as {base}, within {margin:g} % ({interval}){common}.",
    "inconclusive pairs": "{number} of the {total} comparisons of other pairs {are} inconclusive.",
    "only inconclusive pair": "The comparison of another pair of set-ups is inconclusive.",
    "monitoring": "{operation} is {ratio} times as fast without monitoring as with it ({interval}).",
    "equivalent monitoring": "{operation} is as fast without monitoring as with it, within {margin:g} % ({interval} "
    "times).",
    "inconclusive monitoring": "{operation} is {ratio} times as fast without monitoring as with it ({interval}), which "
    "decides nothing.",
    "unequal CPU": "The systems side by side may use unequal amounts of CPU: {systems}.",
    "no account": "No account of where the difference of {set_ups} comes from: {reason}.",
}


def state_comparisons(study: ComparisonPanels) -> list[ReportFinding]:
    """Each variant compared with the base in three to six findings, the clearest differences first."""
    total, base = study.ratios.height, _quote_set_up(study.base)
    if not (total or study.alone):
        return [state(TEMPLATES, "one set-up", base=study.base)]
    if not total:
        if load := _describe_other_load(study, study.alone):
            columns, them = join_words(load), "it" if len(load) == 1 else "them"
            return [state(TEMPLATES, "other load", base=base, columns=columns, pool=",".join(load), them=them)]
        return [state(TEMPLATES, "nothing in common", base=base, needed=_describe_common_set_up(study))]
    return [
        *_state_decided_comparisons(study),
        *_state_equivalent_comparisons(study),
        *_state_inconclusive_comparisons(study),
        *_state_unequal_comparisons(study),
        *_state_compared_set_ups(study, base),
    ]


def _quote_set_up(base: str) -> str:
    """A set-up in a sentence; names of several words are quoted."""
    named = describe_base(base)
    return f"“{named}”" if " " in base and named == base else named


def _state_unequal_comparisons(study: ComparisonPanels) -> list[ReportFinding]:
    """The number of comparisons in which more than the set-up differs."""
    unequal, total = study.ratios.filter(pl.col("also_differs") != "").height, study.ratios.height
    where = "In this comparison" if total == 1 else f"In {unequal} of {total} comparisons"
    return [state(TEMPLATES, "unequal", where=where)] if unequal else []


def _state_compared_set_ups(study: ComparisonPanels, base: str) -> list[ReportFinding]:
    """The number of set-ups compared with the base; for a single comparison also both means."""
    number, total = study.ratios["variant"].n_unique(), study.ratios.height
    if total > 1:
        set_ups = f"{pluralize(number, 'set-up')} {'was' if number == 1 else 'were'}"
        comparisons = pluralize(total, "comparison")
        return [state(TEMPLATES, "number compared", set_ups=set_ups, base=base, comparisons=comparisons)]
    one = study.comparisons[0]
    name = _quote_set_up(strip_shared_prefix(one.label_a, study.base)[0])
    means = [
        TEMPLATES["means: each"].format(mean=format_number(side.estimate), set_up=set_up, runs=pluralize(side.n, "run"))
        for set_up, side in ((name, one.mean_a), (base, one.mean_b))
    ]
    return [
        state(TEMPLATES, "means", means=join_words(means)),
        state(TEMPLATES, "number compared", set_ups="One set-up was", base=base, comparisons="one comparison"),
    ]


def warn_of_order(study: ComparisonPanels) -> list[ReportFinding]:
    """A warning where runs were made one set after the other; nothing where all were made in turns."""
    apart = study.ratios.filter(pl.col("order").is_in(["after the base", "before the base"]))
    if apart.is_empty():
        return []
    names = [f"“{strip_shared_prefix(name, study.base)[0]}”" for name in sort_naturally(set(apart["variant"]))]
    orders = {order: pluralize(number, "comparison") for order, number in apart["order"].value_counts().iter_rows()}
    found = [
        TEMPLATES["order: each"].format(comparisons=number, order=TEMPLATES[order])
        for order, number in sorted(orders.items())
    ]
    return [state(TEMPLATES, "order", orders=join_words(found), set_ups=join_words(names))]


def _state_decided_comparisons(study: ComparisonPanels, most: int = 3) -> list[ReportFinding]:
    """The variants with the clearest differences, each with its operations.

    If some variants differ from the base only in their set-up, the others, such as those whose clients connect to
    another node, are left to the table.
    """
    clear = [c for c in study.comparisons if c.differs]
    by_variant: dict[str, list[Comparison]] = {}
    for c in sorted(clear, key=lambda c: abs(math.log(c.ratio.estimate)), reverse=True):
        if not c.stratum["differs"] or all(other.stratum["differs"] for other in clear):
            by_variant.setdefault(c.label_a, []).append(c)
    return [state_ratios(found) for found in list(by_variant.values())[:most]]


def state_ratios(found: Sequence[Comparison], most: int = 3) -> ReportFinding:
    """Comparisons of one set-up with one base, in one sentence with a base: "With X, INSERT is 2.0 times as fast as".

    Args:
        found: comparisons of the same two set-ups; the first gives the base.
        most: number of comparisons that are stated; the others are counted.
    """
    first, *others = found
    name, base = format_as_places(first)
    loads = {_describe_size_and_load(c) for c in found}
    common = loads.pop() if len(found) > 1 and len(loads) == 1 else ""
    places = [str(c.stratum["operation"]) if common else format_operation_at_load(c) for c in found]
    if not common and len({c.stratum["operation"] for c in found}) == 1:
        places[1:] = [_describe_size_and_load(c) for c in others]
    parts = [
        TEMPLATES["decided: others" if number else "decided: first"].format(
            operation=place, ratio=format_ratio(c), base=base, interval=format_ratio_interval(c)
        )
        for number, (c, place) in enumerate(zip(found, places, strict=True))
    ]
    differences = dict.fromkeys(str(c.stratum["differs"]) for c in found if c.stratum.get("differs"))
    besides = TEMPLATES["decided: other differences"].format(differences="; ".join(differences)) if differences else ""
    where = f"{name}, {common}" if common else name
    return state(
        TEMPLATES, "decided", found, place=where, comparisons=join_words(parts, most=most), differences=besides
    )


def format_as_places(one: Comparison) -> tuple[str, str]:
    """Both set-ups of a comparison as places of a sentence: `With “text protocol”` and `with “usual set-up”`.

    Set-ups of several systems are places that something runs on.

    Example:
        >>> from citus_analysis.stats import compare
        >>> names = {"label_a": "citus, text", "label_b": "citus, usual set-up"}
        >>> format_as_places(compare([20.0, 21, 22], [10.0, 11, 12], **names))
        ('With “text”', 'with the usual set-up')
    """
    sides = one.sides or ()
    systems = {system for side in sides if "system" in side.columns for system in side["system"].unique()}
    name, base = strip_shared_prefix(one.label_a, one.label_b)
    named = tuple(one if one.startswith("the ") or one in systems else f"“{one}”" for one in (name, base))
    return (f"On {named[0]}", f"on {named[1]}") if len(systems) > 1 else (f"With {named[0]}", f"with {named[1]}")


def _describe_size_and_load(one: Comparison) -> str:
    """The size and load of a comparison: `on 4 workers with 32 threads`."""
    workers, threads = (
        value if isinstance(value := one.stratum[name], int) else None for name in ("workers", "threads")
    )
    size = "" if workers is None else f"on {format_cluster_size(workers)}"
    load = [pluralize(threads, "thread")] if threads is not None else []
    load += [str(words)] if (words := one.stratum.get("load")) else []
    return " ".join(part for part in (size, f"with {join_words(load)}" if load else "") if part)


def format_operation_at_load(one: Comparison) -> str:
    """The operation of a placed comparison with its size and load: `INSERT on 4 workers with 32 threads`."""
    return " ".join(part for part in (str(one.stratum["operation"]), _describe_size_and_load(one)) if part)


def _state_equivalent_comparisons(study: ComparisonPanels) -> list[ReportFinding]:
    found = [c for c in study.comparisons if c.verdict == "equivalent"]
    if not found:
        return []
    words = [
        TEMPLATES["equivalent: each"].format(
            place=name,
            operation=format_operation_at_load(c),
            base=base,
            margin=c.margin * 100,
            interval=format_ratio_interval(c),
        )
        for c in found
        for name, base in (format_as_places(c),)
    ]
    return [state(TEMPLATES, "equivalent", found, comparisons=join_words(words, most=3))]


def _state_inconclusive_comparisons(study: ComparisonPanels) -> list[ReportFinding]:
    """The number of inconclusive comparisons with the range of their ratios, and that of those without a verdict."""
    rows = study.ratios.filter(pl.col("verdict") == "inconclusive").sort("ratio")
    undecided = [c for c in study.comparisons if c.verdict == "inconclusive"]
    total = study.ratios.height
    single = (pl.col("n") < _FEWEST) | (pl.col("n_base") < _FEWEST)
    stated = []
    for name, mine, found in (
        ("inconclusive", rows.remove(single), [c for c in undecided if c.ratio.exists]),
        ("no verdict", rows.filter(single), [c for c in undecided if not c.ratio.exists]),
    ):
        if mine.is_empty():
            continue
        low, high = mine["ratio"][0], mine["ratio"][-1]
        span = f"ratios from {low:.2f} to {high:.2f}" if mine.height > 1 else f"ratio {low:.2f}"
        words = {"are": "is", "have": "has"} if mine.height == 1 else {"are": "are", "have": "have"}
        missing = mine["runs_missing"][0] if total == 1 else None
        why = TEMPLATES["inconclusive: runs needed"].format(runs=pluralize(missing, "more run")) if missing else ""
        kind = f"only {name}" if total == 1 else name
        stated.append(state(TEMPLATES, kind, found, number=mine.height, total=total, span=span, why=why, **words))
    return stated


#: Runs of a side that have a spread.
_FEWEST: Final = 2


def state_unmatched_set_ups(study: ComparisonPanels, elsewhere: Collection[str] = ()) -> list[ReportFinding]:
    """One finding with the set-ups that could not be compared with the base; none if all could.

    Args:
        study: the comparison.
        elsewhere: set-ups that other comparisons of the page contain.
    """
    names = [name for name in study.alone if name not in elsewhere]
    if not names:
        return []
    it = "it has" if len(names) == 1 else "they have"
    load = _describe_other_load(study, names)
    no_place = f"{it} no {_describe_common_set_up(study)} in common with it"
    differ = "differs" if len(names) == 1 else "differ"
    parts = join_words([part.replace("_", " ") for part in load])
    reason = f"{no_place}, or {differ} there in {parts} or more" if load else no_place
    base = _quote_set_up(study.base)
    alone = state(TEMPLATES, "not compared", base=base, reason=reason, set_ups="; ".join(names))
    return [alone, *_state_unknown_facts(study)]


def _describe_other_load(study: ComparisonPanels, names: Collection[str]) -> tuple[str, ...]:
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
    return min((find_closest_difference(cell, "_side", strata) for cell in cells), key=len) if strata else ()


def _describe_common_set_up(study: ComparisonPanels) -> str:
    """What compared runs have in common, without sizes that no run states."""
    runs = study.found.runs
    known = [name for name in ("workers", "threads") if runs[name].null_count() < runs.height]
    return join_words(["operation", *(f"number of {name}" for name in known)])


def _state_unknown_facts(study: ComparisonPanels) -> list[ReportFinding]:
    """Facts that only some of the set-ups state, which therefore meet no other; with the command that states them."""
    runs, found = study.found.runs, []
    for name, words in (("workload", "workload"), ("workers", "number of workers"), ("threads", "number of threads")):
        unsaid = runs.group_by("variant").agg(pl.col(name).is_null().all() & (pl.col("phase") != "load").any())
        silent = sort_naturally(set(unsaid.filter(pl.col(name))["variant"]))
        if 0 < len(silent) < unsaid.height:
            hint = describe_ingest_option([name])
            found.append(state(TEMPLATES, "not known", fact=words, set_ups=join_words(silent), hint=hint))
    return found


# Comparisons that have no side with the base's set-up and size: within an experiment, and at an equal amount of CPU.
#
# A page compares set-ups with one base at one size. Two questions of a study have no answer there: an experiment that
# varies one thing (a protocol, a setting) asks about its own set-ups, and one server has no number of workers in common
# with a cluster, although both may use the same amount of CPU.

#: What runs of systems with the same amount of CPU share: their load. Protocol, load generators and limit belong to
#: the set-up.
_SAME_LOAD: Final = tuple(name for name in LOAD if name not in ("query_mode", "drivers", "limit"))
#: vCPUs are products of decimal fractions; this many digits make equal ones equal.
_CPU_DIGITS: Final = 6


@dataclass(frozen=True)
class OtherPair:
    """A comparison and what its two sides have in common.

    Attributes:
        common: what both sides share, in words: the experiment, or the amount of CPU.
        comparison: the comparison.
        sizes: the nodes of either side and their quota, where both sides have the same amount of CPU.
    """

    common: str
    comparison: Comparison
    sizes: tuple[str, str] | None = None

    @property
    def names(self) -> tuple[str, str]:
        """The names of both sides."""
        return self.comparison.label_a, self.comparison.label_b


def compare_other_pairs(selection: Selection, dataset: TableSource, base: str, question: Question) -> list[OtherPair]:
    """Compare set-ups of one experiment with one another, and systems whose nodes have the same amount of CPU in all.

    Set-ups of the experiment that the base belongs to are compared with the base elsewhere. The first set-up in the
    order of the alphabet is the base within an experiment; these are the comparisons of `compare DIR --by variant` with
    this base. Systems are compared by their most frequent set-up, at equal load.

    Args:
        selection: runs with their set-up.
        dataset: gives `settings`, which name the experiments, and `nodes`.
        base: the variant that the page compares with.
        question: level and margin of the comparisons; nothing is pooled.

    Returns:
        The comparisons; verdicts are adjusted over all variants that can be compared with the base of an experiment,
        and over all systems.
    """
    runs = selection.runs
    if "experiment" not in runs.columns:
        runs = runs.with_columns(experiment=pl.lit(None, pl.String))
    costs = configuration_costs(runs, convert_to_polars(dataset.table("nodes")))
    vcpus = costs.select("resource", "nodes", vcpus=pl.col("vcpus").round(_CPU_DIGITS)).unique("resource")
    runs = runs.join(vcpus, on="resource", how="left", maintain_order="left")
    alone = replace(question, pool=())
    return [*_compare_within_experiments(runs, base, alone), *_compare_at_equal_cpu(runs, base, alone)]


def _compare_within_experiments(runs: pl.DataFrame, base: str, question: Question) -> list[OtherPair]:
    others = runs.drop_nulls("experiment").filter(~(pl.col("variant") == base).any().over("experiment"))
    first = others.group_by("experiment", maintain_order=True).agg(pl.col("variant").unique().sort())
    pairs = []
    for experiment, (start, *rest) in first.sort("experiment").iter_rows():
        if not rest:
            continue
        for one in _compare_by_variant(runs, start, question):
            made_by = {name for side in one.sides or () for name in side["experiment"].unique()}
            if made_by == {experiment}:
                pairs.append(OtherPair(f"all other settings of {experiment}", one))
    return pairs


def _compare_at_equal_cpu(runs: pl.DataFrame, base: str, question: Question) -> list[OtherPair]:
    systems = runs.drop_nulls("vcpus").filter(pl.col("vcpus") > 0)
    counts = systems.group_by("system", "variant").len()
    usual = counts.sort(pl.col("variant") == base, "len", "variant", descending=[True, True, False])
    usual = usual.unique("system", keep="first", maintain_order=True)
    systems = systems.filter(pl.col("variant").is_in(usual["variant"].implode()))
    if systems["variant"].n_unique() < 2 or base not in systems["variant"]:
        return []
    held = [name for name in ("vcpus", *_SAME_LOAD) if name in systems.columns]
    return [_add_cpu_quotas(one) for one in _compare_by_variant(systems, base, question, held)]


def _add_cpu_quotas(one: Comparison) -> OtherPair:
    """A comparison with the amount of CPU that the nodes of both sides may use."""
    first, second = one.sides or (pl.DataFrame(), pl.DataFrame())
    return OtherPair(
        f"{format_number(first['vcpus'][0])} cores in all",
        one,
        (_describe_cpu_quota(first), _describe_cpu_quota(second)),
    )


def _describe_cpu_quota(runs: pl.DataFrame) -> str:
    nodes, cores = int(runs["nodes"][0]), runs["vcpus"][0] / runs["nodes"][0]
    if nodes == 1:
        return f"one server that may use {format_number(cores)} cores"
    workers = runs["workers"][0]
    coordinator = " and a coordinator" if workers == nodes - 1 else ""
    what = f"{format_cluster_size(workers)}{coordinator}" if coordinator else pluralize(nodes, "node")
    return f"{what} that may use {format_number(cores)} cores each"


def state_other_pairs(pairs: Sequence[OtherPair]) -> list[ReportFinding]:
    """One finding for each decided comparison, and one for the others."""
    found = [_state_pair(one) for one in pairs if one.comparison.verdict != "inconclusive"]
    undecided = [one.comparison for one in pairs if one.comparison.verdict == "inconclusive"]
    if not undecided:
        return found
    if len(pairs) == 1:
        return [state(TEMPLATES, "only inconclusive pair", undecided)]
    number, are = len(undecided), "is" if len(undecided) == 1 else "are"
    return [*found, state(TEMPLATES, "inconclusive pairs", undecided, number=number, total=len(pairs), are=are)]


def _state_pair(pair: OtherPair) -> ReportFinding:
    one = pair.comparison
    name, base = format_as_places(one)
    if pair.sizes is not None:
        name, base = f"{name} ({pair.sizes[0]})", f"{base} ({pair.sizes[1]})"
    threads = _get_pair_threads(one)
    load = "" if threads is None else f" with {pluralize(threads, 'thread')}"
    return state(
        TEMPLATES,
        "equivalent pair" if one.verdict == "equivalent" else "other pair",
        [one],
        place=name,
        operation=f"{_get_pair_operation(one)}{load}",
        ratio=format_ratio(one),
        base=base,
        margin=one.margin * 100,
        interval=format_ratio_interval(one),
        common=f", with {pair.common}" if pair.sizes is None else "",
    )


def _get_pair_threads(one: Comparison) -> int | None:
    side = one.sides[0] if one.sides else pl.DataFrame()
    return side["threads"][0] if "threads" in side.columns else None


def _get_pair_operation(one: Comparison) -> str:
    side = one.sides[0] if one.sides else pl.DataFrame()
    return str(side["operation"][0]) if "operation" in side.columns else one.holm_family


def tabulate_other_pairs(pairs: Sequence[OtherPair]) -> pl.DataFrame:
    """One row per comparison, with intervals in the cells."""
    rows = [
        {
            "operation": _get_pair_operation(one),
            "in_common": pair.common + (f" ({' and '.join(pair.sizes)})" if pair.sizes else ""),
            "set_up": one.label_a,
            "base": one.label_b,
            "threads": _get_pair_threads(one),
            "ratio": format_estimate_with_interval(one.ratio.estimate, *one.deciding.ends),
            "verdict": one.shown_verdict,
            "p_adjusted": format_p_value(one.known_p_values()["p_difference_adjusted"]),
            "runs": f"{one.mean_a.n} and {one.mean_b.n}",
        }
        for pair in pairs
        for one in (pair.comparison,)
    ]
    text = dict.fromkeys(("operation", "in_common", "set_up", "base"), pl.String())
    rest = dict.fromkeys(("ratio", "verdict", "p_adjusted", "runs"), pl.String())
    return pl.DataFrame(rows, schema={**text, "threads": pl.Int64(), **rest})


# Absolute throughput side by side: systems by workload, hardware by size, with and without monitoring, by intensity.
#
# Bars show means with their intervals. Ratios and verdicts of set-ups with the same size and load are in
# :mod:`citus_analysis.report.comparison`.

_SIZE: Final = ("workers", "threads")
_MEANS: Final = ("n", "mean", "sd", "low", "high", "level", "method")


@dataclass(frozen=True)
class SideBySide:
    """Means of throughput for bars: groups of bars along x, one colour each.

    Attributes:
        means: `panel`, `x`, `group`, workers, threads, n, mean, sd, low, high, level, method; one row a bar. Where
            a bar is the best of several set-ups, `variant` names it.
        x: the meaning of `x`, in words.
        what: the kind of the groups, in words.
        unequal: in what bars that stand side by side differ besides, in a sentence; empty if in nothing that is known.
    """

    means: pl.DataFrame
    x: str
    what: str
    unequal: str = ""

    def plot(self, *, most: int = 12) -> list[go.Figure]:
        """One figure of bars for each panel; none if there is nothing to compare."""
        parts = list(self.means.group_by("panel", maintain_order=True))[:most]
        order = list(dict.fromkeys(self.means["group"]))
        titles = {name: f"{name}: throughput by {self.x}" for (name,), _ in parts if name}
        titles[""] = f"Throughput by {self.x}" + (" (unequal CPU, see the table)" if self.unequal else "")
        return [plot_bars(rows, x_title=self.x, title=titles[name], order=order) for (name,), rows in parts]

    def table(self) -> pl.DataFrame:
        """One row per bar, with the interval in a cell."""
        if self.means.is_empty():
            return self.means
        names = {"panel": "set-up", "x": self.x, "group": self.what, "variant": "set-up"}
        places = [name for name in ("panel", "x", "group") if self.means[name].n_unique() > 1 or name == "group"]
        places += ["variant"] if "variant" in self.means.columns else []
        known = [name for name in ("cpu_per_node",) if name in self.means.columns]
        sizes = [make_size_expr().alias("size") if name == "workers" else name for name in _SIZE if name != self.x]
        cells = format_interval_cells(self.means, "mean")
        shown = self.means.select(*places, *sizes, *known, "n", sd_ops_s="sd", throughput_ops_s=cells)
        return shown.rename({name: names[name] for name in places} | dict.fromkeys(known, "cores of each node"))


def _make_empty_bars(x: str, what: str) -> SideBySide:
    texts = dict.fromkeys(("panel", "x", "group"), pl.String())
    numbers = dict.fromkeys(("mean", "sd", "low", "high", "level"), pl.Float64())
    sizes = dict.fromkeys((*_SIZE, "n"), pl.Int64())
    return SideBySide(pl.DataFrame(schema=texts | sizes | numbers | {"method": pl.String()}), x, what)


def systems_by_workload(selection: Selection, *, level: float = LEVEL) -> SideBySide:
    """Throughput of each system for each operation, at the size and load at which its mean is largest.

    Systems are often measured at different loads; the table names the load of each bar. The largest of several means is
    a little too large, so small differences between bars mean nothing.

    Args:
        selection: runs with their set-up.
        level: confidence level.

    Returns:
        Bars by operation, grouped by system; none for a single system.
    """
    runs = selection.runs
    if runs["system"].n_unique() < 2:
        return _make_empty_bars("operation", "system")
    keys = [name for name in CONFIGURATION if name in runs.columns] + ["operation"]
    means = summarise_runs(
        runs, METRIC, by=list(dict.fromkeys(["system", "variant", *keys])), level=level, include_status=AS_SELECTED
    )
    best = means.sort("mean", descending=True).group_by("operation", "system", maintain_order=True).first()
    bars = best.filter(pl.col("system").n_unique().over("operation") > 1).sort("operation", "system")
    named = bars.with_columns(panel=pl.lit(""), x="operation", group="system")
    known = (
        ["cpu_per_node"] if "cpu_per_node" in bars.columns and bars["cpu_per_node"].null_count() < bars.height else []
    )
    shown = named.select("panel", "x", "group", "variant", *_SIZE, *known, *_MEANS)
    return SideBySide(shown, "operation", "system", _describe_unequal_cpu(shown) if known else "")


def _describe_unequal_cpu(bars: pl.DataFrame) -> str:
    """The CPU that the nodes of systems side by side may use, if it differs; empty if it is equal."""
    if not (bars.group_by("x").agg(pl.struct("cpu_per_node", "workers").n_unique()).to_series(1) > 1).any():
        return ""
    rows = bars.select("group", "cpu_per_node", "workers").unique(maintain_order=True).iter_rows()
    words = dict.fromkeys(
        f"{system} {f'{cores} cores for each node' if cores else 'an amount that is not known'}"
        f" ({format_cluster_size(workers) if workers is not None else 'of unknown size'})"
        for system, cores, workers in rows
    )
    return TEMPLATES["unequal CPU"].format(systems=join_words([*words]))


def hardware_by_size(selection: Selection, *, level: float = LEVEL) -> SideBySide:
    """Throughput by cluster size on each kind of hardware that the descriptions of the systems state.

    On the hardware with the most runs, only the set-up with the most runs is included, so that a bar's colour means the
    hardware alone; on other hardware every set-up is included, with its name. Bars share a panel only if they have the
    same load.

    Args:
        selection: runs with their set-up.
        level: confidence level.

    Returns:
        Bars by workers, grouped by hardware, one panel per operation and load with several kinds of hardware.
    """
    runs = selection.runs.drop_nulls(["operation", "hardware", *_SIZE]).filter(pl.col("workers") > 0)
    usual = runs["hardware"].mode().sort()
    if runs["hardware"].n_unique() < 2:
        return _make_empty_bars("workers", "hardware")
    main = runs.filter(pl.col("hardware") == usual[0])["variant"].mode().sort()[0]
    kept = runs.filter((pl.col("hardware") != usual[0]) | (pl.col("variant") == main))
    names = find_distinct_parts(kept["hardware"].unique().sort().to_list())
    several = kept.group_by("hardware").agg(pl.col("variant").n_unique()).filter(pl.col("variant") > 1)["hardware"]
    variant = pl.when(pl.col("hardware").is_in(several.implode())).then(pl.format(", {}", "variant"))
    kept = kept.with_columns(group=pl.col("hardware").replace(names) + variant.otherwise(pl.lit("")))
    load = [name for name in LOAD if name in kept.columns and name != "operation"]
    means = summarise_runs(
        kept, METRIC, by=["operation", "workers", *load, "group"], level=level, include_status=AS_SELECTED
    )
    met = means.filter(pl.col("group").n_unique().over("operation", "workers", *load) > 1)
    if met.is_empty():
        return _make_empty_bars("workers", "hardware")
    loads = build_series_names(met.select(load), ignore=["workload"], always=["threads"])
    shown = met.with_columns(
        panel=pl.format("{} with {}", "operation", loads),
        x=pl.col("workers").map_elements(format_cluster_size, return_dtype=pl.String),
    )
    shown = shown.sort("operation", *load, "workers", "group", nulls_last=True)
    return SideBySide(shown.select("panel", "x", "group", *_SIZE, *_MEANS), "workers", "hardware")


def find_distinct_parts(texts: Sequence[str]) -> dict[str, str]:
    """Texts -> their parts, split at commas and semicolons, without the parts that all texts share.

    Example:
        >>> find_distinct_parts(["2 cores; each node 10 %", "2 cores; each node 20 %"])
        {'2 cores; each node 10 %': 'each node 10 %', '2 cores; each node 20 %': 'each node 20 %'}
    """
    parts = {one: [part.strip() for part in one.replace(";", ",").split(",")] for one in texts}
    shared = set.intersection(*(set(found) for found in parts.values())) if parts else set()
    return {one: ", ".join(part for part in found if part not in shared) or one for one, found in parts.items()}


def monitoring_overhead(selection: Selection, *, level: float = LEVEL, margin: float = MARGIN) -> RunComparison | None:
    """Throughput without the sampled client compared with that with it; None if no set-up was run both ways.

    Args:
        selection: runs with their set-up.
        level: confidence level.
        margin: relative difference that counts as none.
    """
    runs = selection.runs.drop_nulls("monitored")
    if runs["monitored"].n_unique() < 2:
        return None
    try:
        found = compare_runs(
            runs, METRIC, "monitored", base=True, level=level, margin=margin, include_status=AS_SELECTED
        )
    except InsufficientDataError:
        return None
    return found if found.comparisons else None


def state_overhead(found: RunComparison | None) -> list[ReportFinding]:
    """The cost of monitoring in words: one finding per operation and size."""
    if found is None:
        return []
    kinds = {"equivalent": "equivalent monitoring", "inconclusive": "inconclusive monitoring"}
    return [
        state(
            TEMPLATES,
            kinds.get(c.verdict, "monitoring"),
            [c],
            operation=_place(c),
            ratio=format_ratio(c),
            interval=format_ratio_interval(c),
            margin=100 * c.margin,
        )
        for c in found
    ]


def overhead_table(found: RunComparison | None) -> pl.DataFrame:
    """Mean, standard deviation, n and interval without and with monitoring; two rows per operation and size."""
    if found is None:
        return pl.DataFrame(schema={"measured": pl.String(), "monitored": pl.Boolean(), "n": pl.Int64()})
    rows = [
        {
            "measured": _place(c),
            "monitored": monitored,
            "n": len(values),
            **mean.record("mean_ops_s"),
            "sd_ops_s": float(np.std(values, ddof=1)) if len(values) > 1 else None,
            "verdict": "" if monitored else c.shown_verdict,
        }
        for c in found
        for monitored, mean, side in zip((False, True), (c.mean_a, c.mean_b), c.sides or (), strict=True)
        for values in (side[METRIC].to_numpy(),)
    ]
    return pl.DataFrame(rows)


def _place(c: Comparison) -> str:
    return format_operation_with_load((c.sides or (pl.DataFrame(),))[0].row(0, named=True))


# Where the decided differences of a comparison come from, as far as statements of both sides were traced.

_MOST_PARTS: Final = 3
_UNTRACED: Final = "statements were not traced in two or more runs of each side"


def attribute_differences(
    comparisons: Sequence[Comparison], dataset: TableSource, question: Question
) -> tuple[list[tuple[Comparison, Explanation]], list[ReportFinding]]:
    """The accounts of the decided comparisons of variants, and findings on those that have none.

    Args:
        comparisons: comparisons of the column `variant`.
        dataset: gives `statements`, `spans` and what was recorded of the nodes.
        question: level and margin of the accounts.
    """
    found: list[tuple[Comparison, Explanation]] = []
    unexplained: dict[str, list[str]] = {}
    for one in (one for one in comparisons if one.differs):
        other, base = one.sides or (pl.DataFrame(), pl.DataFrame())
        try:
            sides = observe_runs((dataset, dataset), (base, other), (one.label_b, one.label_a))
            found.append((one, explain(sides, question, with_mechanisms=False)))
        except (UsageError, InsufficientDataError) as error:
            reason = error.problem if isinstance(error, UsageError) else _UNTRACED
            unexplained.setdefault(reason, []).append(one.label_a)
    return found, [
        state(TEMPLATES, "no account", set_ups="; ".join(dict.fromkeys(labels)), reason=reason)
        for reason, labels in unexplained.items()
    ]


def write_attribution_sentences(accounts: Sequence[tuple[Comparison, Explanation]]) -> list[str]:
    """The finding and its parts, and the functions in perf's samples, a paragraph for each comparison."""
    decided = (
        (c, one, map(str, state_functions(one.stacks)) if one.stacks else []) for c, one in accounts if one.decided
    )
    return [" ".join([_describe_difference(c, one), *one.sentences[1:2], *stacks]) for c, one, stacks in decided]


def _describe_difference(comparison: Comparison, found: Explanation) -> str:
    """The difference of the mean times; the ratio is the comparison's, which the page states elsewhere."""
    finding = found.sentences[0]
    _, known, difference = finding.partition(f" {found.base}: ")
    change, measured, rest = difference.partition(" (")
    if not (known and measured):
        return finding
    name, base = format_as_places(comparison)
    return f"{name}, {format_operation_at_load(comparison)} takes {change} than {base} ({rest}"


def find_attribution_with_stacks(accounts: Sequence[tuple[Comparison, Explanation]]) -> Explanation | None:
    """The account of the largest difference of which perf sampled both sides; None if there is none."""
    found = [one for _, one in accounts if one.stacks is not None and one.stacks.tree.height]
    return max(found, key=lambda one: abs(one.difference_us), default=None)


def tabulate_attributions(accounts: Sequence[tuple[Comparison, Explanation]]) -> pl.DataFrame:
    """The largest parts of each difference: `set-up`, `operation`, `part`, and `difference_ms` with its interval."""
    rows = [
        (one.label_a, str(one.stratum.get("operation", "")), part, format_estimate_with_interval(size, low, high), sure)
        for one, found in accounts
        for part, size, low, high, _, sure in tabulate_causes(found).head(_MOST_PARTS).iter_rows()
    ]
    names = dict.fromkeys(("set-up", "operation", "part", "difference_ms"), pl.String()) | {"sure": pl.Boolean()}
    return pl.DataFrame(rows, schema=names, orient="row")


# The report: everything that its page shows, by one call.


@dataclass(frozen=True)
class ComparisonReport:
    """What the page of a comparison shows.

    Attributes:
        selection: the runs that enter.
        panels: each variant relative to the base.
        pairs: comparisons beside those with the base.
        systems: systems side by side, by operation.
        hardware: throughput by size on each kind of hardware.
        overhead: throughput without the sampled client compared with that with it; None if no set-up was run both ways.
        attributed: the decided comparisons of which statements were traced, with what their differences consist of.
        unexplained: findings on the other decided comparisons.
        rates: published throughputs by system.
        new_orders: new orders a minute, recorded here and published.
        published: all published rates and latencies as stated.
    """

    selection: Selection
    panels: ComparisonPanels
    pairs: list[OtherPair]
    systems: SideBySide
    hardware: SideBySide
    overhead: RunComparison | None
    attributed: list[tuple[Comparison, Explanation]]
    unexplained: list[ReportFinding]
    rates: pl.DataFrame
    new_orders: pl.DataFrame
    published: pl.DataFrame

    @property
    def findings(self) -> list[ReportFinding]:
        """What the page begins with."""
        return [*state_comparisons(self.panels), *state_other_pairs(self.pairs)]

    @property
    def warnings(self) -> list[str | ReportFinding]:
        """Caveats of all numbers of the page."""
        return [*self.selection.notes, *write_hardware_sentence(self.selection), *warn_of_order(self.panels)]

    @property
    def unmatched_set_ups(self) -> list[ReportFinding]:
        """The set-ups that no comparison of the page contains, and why."""
        return state_unmatched_set_ups(self.panels, {name for one in self.pairs for name in one.names})

    @property
    def attributions(self) -> list[str | ReportFinding]:
        """Where decided differences come from, a paragraph each, and which of them have no account."""
        return [*write_attribution_sentences(self.attributed), *self.unexplained]

    @property
    def monitoring(self) -> list[ReportFinding]:
        """The cost of the sampled client."""
        return state_overhead(self.overhead)

    @property
    def sampled_explanation(self) -> list[Explanation]:
        """The account of the largest difference of which perf sampled both sides; empty if there is none."""
        found = find_attribution_with_stacks(self.attributed)
        return [] if found is None else [found]

    def attribution_table(self) -> pl.DataFrame:
        """The largest parts of each difference."""
        return tabulate_attributions(self.attributed)

    def pairs_table(self) -> pl.DataFrame:
        """The comparisons beside those with the base."""
        return tabulate_other_pairs(self.pairs)

    def plot_published_rates(self) -> go.Figure:
        """Published throughputs by system, workload and size."""
        return plot_measured_rates(self.rates, title="Published throughput by system, workload and size")


def compare_set_ups(dataset: TableSource, question: Question, base: str = "") -> ComparisonReport:
    r"""Compare the set-ups of a dataset in every way that the page of a comparison shows.

    Args:
        dataset: a dataset, or another source of its tables.
        question: the runs that enter, what is pooled, level and margin.
        base: name of the variant that the others are compared with; empty: the one with the most runs.

    Raises:
        UnknownNameError: a name of the question, or the base, is unknown.
        InsufficientDataError: no run enters.

    Example:
        >>> import citus_analysis as ca
        >>> found = compare_set_ups(ca.open_dataset("dataset"), ca.runs.Question(phase="load"))  # doctest: +SKIP
        >>> print(*found.findings, sep="\n")  # doctest: +SKIP
    """
    selection, level = select_asked_runs(dataset, question), question.level
    panels = comparison_panels(selection, base=base, pool=question.pool, level=level, margin=question.margin)
    attributed, unexplained = attribute_differences(panels.comparisons, dataset, question)
    stated = published()
    counted = convert_to_polars(dataset.table("client_metrics")).join(selection.runs, on="run_id", how="semi")
    return ComparisonReport(
        selection,
        panels,
        compare_other_pairs(selection, dataset, panels.base, question),
        systems_by_workload(selection, level=level),
        hardware_by_size(selection, level=level),
        monitoring_overhead(selection, level=level, margin=question.margin),
        attributed,
        unexplained,
        select_measured_rates(stated, audit().findings.filter(severity="red")),
        combine_new_orders(counted, stated),
        list_published_numbers(stated),
    )

"""What the form of a claim selects: runs of a dataset, like with like, or the printed numbers of its publication."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from citus_analysis.core.frames import Frame, TableSource, as_polars
from citus_analysis.defaults import METRIC
from citus_analysis.errors import InsufficientDataError, UnknownNameError
from citus_analysis.published._load import published
from citus_analysis.published._summaries import published_summaries
from citus_analysis.published.claims.claim_estimates import Estimate, Side
from citus_analysis.published.claims.claim_form import Form
from citus_analysis.published.claims.run_measures import is_run_measure, needs_of, with_run_measure
from citus_analysis.runs.comparable import closest_difference
from citus_analysis.runs.setups import CONFIGURATION, setting_text, stratum_text
from citus_analysis.schema import TABLES
from citus_analysis.stats.compare.questions import Question
from citus_analysis.stats.compare.run_tables import ask
from citus_analysis.stats.estimate.intervals import moments
from citus_analysis.stats.run_means import check_columns, measured_runs, runs_of, strata_of, values_of
from citus_analysis.stats.series.blocks import layout_of

_SIDE: Final = "side"
_FIRST: Final = "first"
_SECOND: Final = "second"
_OF_RUNS: Final = frozenset({*CONFIGURATION, *(column.name for column in TABLES["runs"].columns)})
_OF_OPERATIONS: Final = frozenset(column.name for column in TABLES["operation_latencies"].columns) - _OF_RUNS
#: Facts of resources whose names have no dot; all others are those of a section (`settings.shared_buffers`).
_FACTS: Final = ("hardware", "citus_version")
_NAMES: Final = ("table", "row", "system", "workload")


@dataclass(frozen=True)
class Selected:
    """The runs, or the printed numbers, that a form selects in one configuration.

    Attributes:
        configuration: the columns that all runs share, or the printed rows, in words.
        estimate: the estimate; None if there is none.
        reason: why there is none.
        warnings: caveats.
        is_own: whether a printed number is known from the claim's own sentence only.
    """

    configuration: str
    estimate: Estimate | None
    reason: str = ""
    warnings: tuple[str, ...] = ()
    is_own: bool = False


def selected_runs(source: TableSource | Frame, form: Form) -> list[Selected]:
    """The configurations of a dataset that a form selects; one without an estimate if there is none.

    Raises:
        UnknownNameError: there is no such metric or column.
    """
    if not isinstance(source, TableSource) and form.metric in _OF_OPERATIONS:
        return [Selected("", None, f"{form.metric} is in the table operation_latencies: pass a dataset")]
    if is_run_measure(form.metric):
        if not isinstance(source, TableSource):
            return [Selected("", None, f"{form.metric} needs more tables than runs: pass a dataset")]
        measured = with_run_measure(source, runs_of(source, METRIC), form.metric)
        if measured[form.metric].is_null().all():
            return [Selected("", None, f"not covered by this dataset: {form.metric} needs {needs_of(form.metric)}")]
    else:
        measured = runs_of(source, form.metric)
    frame = _with_facts(source, measured, [*form.side(0)])
    if absent := [name for name in form.side(0) if name not in frame.columns and (name in _OF_RUNS or _is_fact(name))]:
        return [Selected("", None, f"not covered by this dataset: no run has a {absent[0]}")]
    check_columns(frame, list(form.side(0)))
    try:
        found = list(_means(frame, form) if form.quantity == "mean" else _pairs(frame, form))
    except InsufficientDataError as error:
        return [Selected("", None, error.problem)]
    return found or [Selected("", None, "no two runs agree in all that the form leaves open")]


def _is_fact(name: str) -> bool:
    """Whether a name is one of the descriptions of resources, and of no column."""
    return "." in name or name in _FACTS


def _with_facts(source: TableSource | Frame, frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """The runs with what the description of their resource states under these names, unless it contradicts itself."""
    if not isinstance(source, TableSource):
        return frame
    wanted = [name for name in names if name not in frame.columns]
    stated = as_polars(source.table("settings")).filter(pl.col("name").is_in(wanted))
    for (name,), rows in stated.group_by("name", maintain_order=True):
        value = pl.when(pl.col("value").n_unique() == 1).then(pl.col("value").first()).alias(str(name))
        frame = frame.join(rows.group_by("resource").agg(value), on="resource", how="left", maintain_order="left")
    return frame


def _having(frame: pl.DataFrame, values: Mapping[str, str]) -> pl.DataFrame:
    """The runs with these values, as they are displayed, in any case; `*` in a fact of a resource is any text."""
    for name, value in values.items():
        wanted = re.escape(value.casefold())
        fits = re.compile(wanted.replace(r"\*", ".*") if _is_fact(name) else wanted, re.DOTALL).fullmatch
        shown = [
            () if one is None and _is_fact(name) else (setting_text(name, one).casefold(), str(one).casefold())
            for one in frame[name]
        ]
        frame = frame.filter(pl.Series([any(map(fits, texts)) for texts in shown], dtype=pl.Boolean))
        if frame.is_empty():
            raise InsufficientDataError(f"not covered by this dataset: no run has {name} {value} as well as the rest")
    return frame


def _means(frame: pl.DataFrame, form: Form) -> Iterator[Selected]:
    runs, notes = measured_runs(_having(frame, form.side(0)), form.metric, ())
    varying = [name for name in CONFIGURATION if name in runs.columns and runs[name].n_unique() > 1]
    for stratum, part in strata_of(runs, varying):
        side = Side(*moments(values_of(part, form.metric)))
        yield Selected(stratum_text(stratum), Estimate.of_mean(side), warnings=notes)


def _pairs(frame: pl.DataFrame, form: Form) -> Iterator[Selected]:
    sides = [
        _having(frame, form.side(which)).with_columns(pl.lit(name).alias(_SIDE))
        for which, name in enumerate((_FIRST, _SECOND))
    ]
    columns = tuple(name for name, _, _ in form.axes)
    question = Question(form.metric, _SIDE, _SECOND, (), columns)
    asked = ask(pl.concat(sides), question)
    strata = asked.question.strata
    parts = [(stratum, part) for stratum, part in strata_of(asked.runs, strata) if part[_SIDE].n_unique() > 1]
    if not parts:
        closest = ", ".join(closest_difference(asked.runs, _SIDE, strata))
        raise InsufficientDataError(
            f"the two sides differ in {closest} as well: state it in the form (COLUMN A over B)"
        )
    for stratum, part in parts:
        comparison = next(asked.question.compare(part, stratum))
        estimate = Estimate.of_ratio(comparison.evidence)
        if form.quantity == "difference":
            estimate = _difference(part, form.metric)
        stated = tuple(f"differs in {name}" for name in columns)
        notes = [note for note in comparison.warnings if not note.startswith(stated)]
        yield Selected(stratum_text(stratum), estimate, warnings=(*asked.notes, *notes))


def _difference(part: pl.DataFrame, metric: str) -> Estimate:
    a, b = (part.filter(pl.col(_SIDE) == name) for name in (_FIRST, _SECOND))
    layout = layout_of(a, b, metric)
    if layout.paired:
        return Estimate.of_difference(Side(*moments(layout.a - layout.b)))
    return Estimate.of_difference(Side(*moments(layout.a)), Side(*moments(layout.b)))


def selected_printed(source: str, form: Form, place: str = "") -> Selected:
    """The printed numbers of a publication that a form selects.

    Args:
        source: key of the publication.
        form: a form over its numbers.
        place: where the claim is stated.

    Raises:
        UnknownNameError: there is no such publication, metric or column.
    """
    numbers = published(source)
    known = numbers["metric"].unique().to_list()
    if form.metric not in known:
        raise UnknownNameError("published metric", form.metric, known)
    for name in form.side(0):
        if name not in (*_NAMES, *known):
            raise UnknownNameError("column or metric", name, [*_NAMES, *known])
    wanted = [form.side(0)] if form.quantity == "mean" else [form.side(0), form.side(1)]
    try:
        rows = [_printed_row(numbers, form.metric, values) for values in wanted]
        estimate = _printed_estimate(form.quantity, [_printed_side(numbers, row, form.metric) for row in rows])
    except InsufficientDataError as error:
        return Selected("", None, error.problem)
    own = any(_is_stated_only_in(numbers, row, form.metric, sentence_lines(place)) for row in rows)
    return Selected(" against ".join(f"{row['table']}, {row['row']}" for row in rows), estimate, is_own=own)


#: Lines in the place of a claim: `line 872`, `lines 121 and 177`, `lines 132 to 135`.
_LINES: Final = re.compile(r"\blines? (?P<first>\d+)(?:(?P<to> to | and )(?P<last>\d+))?")
#: The parts of a place; a part that begins with a table is no sentence.
_PARTS: Final = re.compile(r",? and (?=(?:table|figure|section|chapter)s?\b)")


def sentence_lines(place: str) -> set[int]:
    """The lines of a publication's text that a claim's place names as its sentence; lines of tables are none.

    Example:
        >>> sorted(sentence_lines("section 3, lines 4 to 6, and table 1, line 377"))
        [4, 5, 6]
    """
    found = set[int]()
    for part in _PARTS.split(place):
        for lines in _LINES.finditer(part if not part.startswith("table") else ""):
            first, last = int(lines["first"]), int(lines["last"] or lines["first"])
            found |= set(range(first, last + 1)) if lines["to"] == " to " else {first, last}
    return found


def _is_stated_only_in(numbers: pl.DataFrame, row: Mapping[str, object], metric: str, lines: set[int]) -> bool:
    """Whether a printed number is stated in these lines only, so that it cannot confirm what they say."""
    same = (pl.col("table") == row["table"]) & (pl.col("row") == row["row"]) & (pl.col("metric") == metric)
    places = numbers.filter(same)["location"].str.extract(r"line (\d+)").cast(pl.Int64)
    return bool(lines) and places.is_in(list(lines)).all()


def _printed_estimate(quantity: str, sides: Sequence[Side]) -> Estimate:
    if quantity == "mean":
        return Estimate.of_mean(sides[0])
    return Estimate.of_ratio_of_means(*sides) if quantity == "ratio" else Estimate.of_difference(*sides)


def _printed_row(numbers: pl.DataFrame, metric: str, values: Mapping[str, str]) -> dict[str, object]:
    """The one row of the publication that states the metric and has these values."""
    place = ["table", "row"]
    found = numbers.filter(pl.col("metric") == metric, pl.col("value").is_not_null())
    found = found.unique(place, keep="first", maintain_order=True)
    for name, value in values.items():
        if name in _NAMES:
            found = found.filter(pl.col(name) == value)
        else:
            stated = numbers.filter(pl.col("metric") == name, pl.col("value") == _number(value))
            found = found.join(stated.select(place).unique(), on=place, how="semi", maintain_order="left")
    said = ", ".join(f"{name} {value}" for name, value in values.items())
    if found.height != 1:
        what = "no printed row" if found.is_empty() else f"{found.height} printed rows, not one,"
        raise InsufficientDataError(f"{what} with {said} and a {metric}")
    return found.row(0, named=True)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _printed_side(numbers: pl.DataFrame, row: Mapping[str, object], metric: str) -> Side:
    """A printed value, with standard deviation and n where both are known."""
    value = float(str(row["value"]))
    same = numbers.filter(pl.col("table") == row["table"], pl.col("row") == row["row"])
    if metric == "throughput_ops_s" and same["metric"].is_in(["workers"]).any():
        for found in published_summaries(same).iter_rows(named=True):
            return Side(value, found["sd"], found["n"])
    return Side(value)

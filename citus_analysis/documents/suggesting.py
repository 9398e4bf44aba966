"""Forms proposed for numbers of documents that are bound to nothing and equal a value of the dataset."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.frames import Frame, TableSource
from citus_analysis.defaults import LEVEL
from citus_analysis.documents.checking import judge_text, open_checked_source
from citus_analysis.documents.printed_numbers import find_following_unit, find_unit, parse_printed_number
from citus_analysis.documents.syntax import Document, find_documents, read_document
from citus_analysis.documents.values import BoundValue, ValueReader, parse_bound_form
from citus_analysis.errors import CitusAnalysisError, FormatError
from citus_analysis.published.claims import quote_value
from citus_analysis.runs.set_ups import VARIANT, format_setup_value, list_varying_columns
from citus_analysis.stats.studied_runs import (
    get_metric_values,
    iterate_groups,
    read_runs_with_metric,
    select_measured_runs,
)
from citus_analysis.texts.words import pluralize
from citus_analysis.units import get_unit

#: Metrics whose means, ratios and changes are looked for.
METRICS: Final = ("throughput_ops_s", "mean_us", "p50_us", "p95_us", "p99_us")
_NUMBER: Final = re.compile(r"(?<![\w.,/#:+-])[-−]?\d[\d,\u00a0\u2009\u202f]*(?:\.\d+)?(?![\w/]|[.,]\d|-\d)")
#: Addresses, targets of links and names of files hold numbers that are none.
_NOT_PROSE: Final = re.compile(r"\]\([^)]*\)|https?://\S+|\S*/\S+|\{[^}]*\}")
#: The mean of a ratio is near to the ratio of the means; those that are not cannot be equal to the same number.
_NEAR: Final = 0.05
#: A number has this many significant digits at least, so that it seldom equals a value by chance; more if it is bare.
_FEWEST_DIGITS: Final = 2
_FEWEST_DIGITS_OF_BARE: Final = 3
_MOST_FORMS: Final = 20


class _Candidate(NamedTuple):
    """A value that a number may be, not yet exact."""

    value: float
    unit: str
    metric: str
    quantity: str
    first: Mapping[str, object]
    second: Mapping[str, object] | None
    configurations: Sequence[Mapping[str, object]]


@dataclass(frozen=True, repr=False, eq=False)
class SuggestedBindings(DisplayMixin):
    """Numbers that equal a value of the dataset, with the forms of all values that they equal.

    Attributes:
        suggestions: one row for each number and form: document, line, printed (with its unit), form, marked (the number
            with its mark, as it is put into the document), value, and alternatives (the number of forms that fit).
        documents: the documents that were read.
    """

    suggestions: pl.DataFrame
    documents: tuple[Path, ...]

    def summary_lines(self) -> list[str]:
        """The numbers of numbers and forms."""
        keys = self.suggestions.unique(["document", "line", "printed", "place"])
        clear = int((keys["alternatives"] == 1).sum())
        return [
            f"{pluralize(keys.height, 'number')} in {pluralize(len(self.documents), 'document')} equal values of the "
            f"dataset: {clear} one value, {keys.height - clear} several"
        ]

    def summary_table(self) -> pl.DataFrame | None:
        """All suggestions."""
        return self.suggestions

    def to_dict(self) -> dict[str, object]:
        """The same as plain values, for JSON."""
        return {"documents": [str(path) for path in self.documents], "suggestions": self.suggestions.to_dicts()}


_SCHEMA: Final = {
    "document": pl.String,
    "line": pl.Int64,
    "place": pl.Int64,
    "printed": pl.String,
    "form": pl.String,
    "marked": pl.String,
    "value": pl.Float64,
    "alternatives": pl.Int64,
}


def suggest_bindings(
    documents: str | PathLike[str] | Sequence[str | PathLike[str]],
    dataset: TableSource | Frame | str | PathLike[str],
    *,
    level: float = LEVEL,
) -> SuggestedBindings:
    """Forms for numbers of documents that are bound to nothing and equal a value of the dataset.

    Compared are means of throughput and response times of each configuration, and ratios, changes and differences of
    two configurations that differ in one thing. A number of several values has several forms, all of which are listed:
    whether the number is one of them, only its author knows.

    Args:
        documents: as for :func:`check_documents`.
        dataset: a dataset, a frame of the table `runs`, or the path of a dataset or of raw files.
        level: confidence level of the intervals that limit the digits of numbers.

    Raises:
        InputError: a document cannot be read.

    Example:
        >>> import pathlib, tempfile, polars as pl
        >>> page = pathlib.Path(tempfile.mkdtemp()) / "page.md"
        >>> _ = page.write_text("Two workers reach 2.1 times as much.")
        >>> runs = pl.DataFrame({"workers": [1, 1, 2, 2], "throughput_ops_s": [99.0, 101.0, 215.0, 205.0]})
        >>> suggest_bindings(page, runs).suggestions["marked"].to_list()
        ['<!-- ca: ratio throughput_ops_s, workers 2 over 1 -->2.1<!-- /ca -->']
    """
    source = open_checked_source(dataset)
    assert source is not None  # noqa: S101 - not optional here
    reader = ValueReader(source, level)
    candidates = list(_iterate_candidates(source))
    paths = find_documents(documents)
    rows = [row for path in paths for row in _suggest_for_document(read_document(path), candidates, reader)]
    return SuggestedBindings(pl.DataFrame(rows, schema=_SCHEMA), tuple(paths))


def _iterate_candidates(source: TableSource | Frame) -> Iterator[_Candidate]:
    for metric in METRICS:
        groups = _group_runs(source, metric)
        configurations = [values for values, _ in groups]
        unit = get_unit(metric) or ""
        for place, (values, mean) in enumerate(groups):
            yield _Candidate(mean, unit, metric, "mean", values, None, configurations)
            for others, other in groups[:place]:
                if mean <= 0 or other <= 0 or not _differ_in_one_thing(values, others):
                    continue
                for a, b, first, second in ((mean, other, values, others), (other, mean, others, values)):
                    yield _Candidate(a / b, "", metric, "ratio", first, second, configurations)
                    yield _Candidate(a / b - 1, "", metric, "change", first, second, configurations)
                    yield _Candidate(a - b, unit, metric, "difference", first, second, configurations)


def _group_runs(source: TableSource | Frame, metric: str) -> list[tuple[dict[str, object], float]]:
    """The configurations with what tells them apart, and their means."""
    try:
        runs, _ = select_measured_runs(read_runs_with_metric(source, metric), metric, ())
    except CitusAnalysisError:
        # The dataset does not have this metric.
        return []
    varying = list_varying_columns(runs)
    return [(values, float(np.mean(get_metric_values(part, metric)))) for values, part in iterate_groups(runs, varying)]


def _differ_in_one_thing(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    different = [name for name in one if one[name] != other[name]]
    # Response times of different operations are not compared.
    return different not in ([], ["operation"]) and (len(different) == 1 or all(name in VARIANT for name in different))


def _suggest_for_document(
    document: Document, candidates: Sequence[_Candidate], reader: ValueReader
) -> Iterator[dict[str, object]]:
    for place, text in document.prose:
        masked = _NOT_PROSE.sub(lambda found: " " * len(found[0]), text)
        for found in _NUMBER.finditer(masked):
            following = text[found.end() :]
            printed = found[0].rstrip(", \u00a0\u2009\u202f")
            forms = list(_find_forms(printed, following, candidates, reader, document))
            unit = find_following_unit(following)
            for form, value in forms[:_MOST_FORMS]:
                yield {
                    "document": str(document.path),
                    "line": document.line_at(place),
                    "place": place + found.start(),
                    "printed": f"{printed} {unit}".strip(),
                    "form": form,
                    "marked": document.mark(form, printed),
                    "value": value,
                    "alternatives": len(forms),
                }


def _find_forms(
    printed: str,
    following: str,
    candidates: Sequence[_Candidate],
    reader: ValueReader,
    document: Document,
) -> Iterator[tuple[str, float]]:
    """The forms of the values that a number equals, each once."""
    try:
        number = parse_printed_number(printed)
    except FormatError:
        return
    unit = find_following_unit(following)
    meaning = find_unit(unit)
    digits = len(number.value.as_tuple().digits) - number.zeros
    seen = set()
    for one in candidates:
        own = find_unit(one.unit)
        if own is None or meaning is None or (unit and own.dimension != meaning.dimension):
            continue
        few = _FEWEST_DIGITS if unit or one.quantity == "ratio" else _FEWEST_DIGITS_OF_BARE
        if digits < few or not _is_said_so(one, unit):
            continue
        scale = own.factor / meaning.factor if unit else 1.0
        if abs(one.value * scale - float(number.value)) > _NEAR * abs(one.value * scale) + float(number.coarsest):
            continue
        bare = "" if unit or not one.unit else f", in {one.unit}"
        form = f"{_shorten_form(one)}{bare}"
        if form in seen:
            continue
        seen.add(form)
        value = _read_exactly(form, reader, document)
        if value is not None and judge_text(printed, following, parse_bound_form(form), value) == "right":
            yield form, value.value


def _is_said_so(one: _Candidate, unit: str) -> bool:
    """Whether people state such a value in such a unit: changes in percent, ratios from the larger to the smaller."""
    if one.quantity == "change":
        return unit == "%"
    if one.quantity == "difference":
        return bool(unit) and one.metric in METRICS[:2] and one.value > 0
    return one.quantity == "mean" or (one.value < 1 if unit == "%" else one.value >= 1)


def _read_exactly(form: str, reader: ValueReader, document: Document) -> BoundValue | None:
    try:
        return reader.read(parse_bound_form(form), document.path.parent)
    except CitusAnalysisError:
        return None


def _shorten_form(one: _Candidate) -> str:
    """The form of a candidate with the conditions that it needs, and no others."""
    second = one.second or {}
    axes = [name for name in one.first if one.second is not None and one.first[name] != second[name]]
    conditions = [name for name in one.first if name not in axes]

    def select(
        kept: Sequence[str], values: Mapping[str, object], sides: Mapping[str, object]
    ) -> set[tuple[object, ...]]:
        fits = [group for group in one.configurations if all(group[name] == values[name] for name in kept)]
        fits = [group for group in fits if all(group[name] == sides[name] for name in axes)]
        return {tuple(group[name] for name in conditions) for group in fits}

    kept = list(conditions)
    for name in conditions:
        fewer = [other for other in kept if other != name]
        left = select(fewer, one.first, one.first)
        if one.second is not None:
            left &= select(fewer, one.first, second)
        if len(left) == 1:
            kept = fewer
    parts = [f"{one.quantity} {one.metric}"]
    parts += [f"{name} {_show(name, one.first[name])} over {_show(name, second[name])}" for name in axes]
    return ", ".join([*parts, *(f"{name} {_show(name, one.first[name])}" for name in kept)])


def _show(name: str, value: object) -> str:
    return quote_value(format_setup_value(name, value))

"""What a number of a document is bound to: a form, and the value that it gives.

A form is one line of parts, split by commas, as in claims (docs/documents.md lists them)::

    ratio throughput_ops_s, workers 8 over 1, workload c
    mean latency_ms, row "INSERT, 2 workers", in ms
    json ../benchmarks/results/changes.json, found_percent, "stairs 100, 80, 60, 40", all_found
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from statistics import fmean, stdev
from typing import Final, Literal, NamedTuple, cast

import polars as pl

from citus_analysis.core.frames import Frame, TableSource
from citus_analysis.defaults import LEVEL, METRIC
from citus_analysis.errors import FormatError, InputError, InsufficientDataError, UsageError
from citus_analysis.published.claims import (
    ClaimEstimate,
    ClaimSample,
    RunsQuantity,
    filter_claim_runs,
    parse_quantity,
    select_claim_runs,
    split_form,
)
from citus_analysis.stats.intervals import estimate_mean_from_summary
from citus_analysis.stats.studied_runs import check_columns, read_runs_with_metric
from citus_analysis.texts.documents import parse_json
from citus_analysis.texts.words import join_words, pluralize
from citus_analysis.units import get_unit

_WAY_OUT: Final = "docs/documents.md lists all forms"
#: First word of a form -> what it is bound to.
_KINDS: Final = {
    **dict.fromkeys(("mean", "ratio", "difference", "change"), "runs"),
    **{word: word for word in ("count", "sql", "json", "csv", "sum", "quotient", "share", "figure")},
}
_AGGREGATES: Final[dict[str, Callable[[Sequence[float]], float]]] = {
    "largest": max,
    "smallest": min,
    "mean": fmean,
    "sum": math.fsum,
    "count": len,
    "sd": stdev,
}
#: Last part of a name -> unit of an amount of data.
_SIZES: Final = {"megabytes": "MB", "mb": "MB", "mib": "MiB", "gb": "GB", "gib": "GiB", "kib": "KiB"}
_NAME: Final = r"[A-Za-z_]\w*"
_NUMBER: Final = r"\d+(?:\.\d+)?"
_TERM: Final = re.compile(rf"\s*(?P<sign>[-+−]?)\s*(?P<name>{_NAME})\s*")
_SUM: Final = re.compile(rf"\s*[-+−]?\s*{_NAME}(?:\s*[-+−]\s*{_NAME})+\s*")
#: `or` outside of quotation marks.
_OR: Final = re.compile(r'\s+or\s+(?=(?:[^"]*"[^"]*")*[^"]*$)')
_CONDITION: Final = re.compile(r'(?P<name>"[^"]+"|\S+)\s+(?P<value>.+)', re.DOTALL)
_FILTER: Final = re.compile(r"(?P<name>[\w. ]+)=(?P<value>.*)", re.DOTALL)
_MOST_BYTES: Final = 64 * 1024 * 1024

Comparison = Literal["", "at least", "at most", "about"]


@dataclass(frozen=True)
class BoundForm:
    """A parsed form of a bound number or figure.

    Attributes:
        text: the form as written.
        kind: `runs`, `count`, `sql`, `json`, `csv`, `sum`, `quotient`, `share` or `figure`.
        parts: the parts that say what it is, without those below.
        name: by which other numbers are computed from it; empty if it has none.
        unit: unit of the number where none is printed, or of a value whose name has none.
        has_no_unit: the value is a count, whatever the end of its name says.
        end: `low` or `high`: the number is that end of the interval.
        step: the number is a multiple of it.
        exact: the number describes these values only, so that an interval does not limit its digits.
        unsigned: the number is printed without its sign.
        comparison: how the value compares with the number; empty: it is the value, rounded.
        within_percent: of `about`: how far the value may be from the number.
        aggregate: what is made of several values of a file; empty if there is only one.
        is_normal: the interval is that of the normal quantile.
    """

    text: str
    kind: str
    parts: tuple[str, ...]
    name: str = ""
    unit: str = ""
    has_no_unit: bool = False
    end: Literal["", "low", "high"] = ""
    step: Decimal | None = None
    exact: bool = False
    unsigned: bool = False
    comparison: Comparison = ""
    within_percent: float = 0.0
    aggregate: str = ""
    is_normal: bool = False

    @property
    def used_names(self) -> tuple[tuple[str, int], ...]:
        """The names of the numbers that it is computed from, each with its sign."""
        said = self.parts[0].partition(" ")[2]
        if self.kind == "sum":
            return tuple((found["name"], -1 if found["sign"] in ("-", "−") else 1) for found in _TERM.finditer(said))
        if self.kind in ("quotient", "share"):
            return tuple((name, 1) for name in re.split(r"\s+(?:over|of)\s+", said.strip()))
        return ()


#: A part that says how a number is printed or compared -> the fields of the form.
_SETTINGS: Final[dict[str, Callable[[re.Match[str]], dict[str, object]]]] = {
    rf"as (?P<name>{_NAME})": lambda found: {"name": found["name"]},
    r"in (?P<unit>[^\d\s].*)": lambda found: {"unit": found["unit"].strip()},
    r"no unit": lambda _: {"has_no_unit": True},
    r"(?P<end>low|high) end": lambda found: {"end": found["end"]},
    rf"to (?P<step>{_NUMBER})": lambda found: {"step": Decimal(found["step"])},
    r"exact": lambda _: {"exact": True},
    r"without sign": lambda _: {"unsigned": True},
    r"interval normal": lambda _: {"is_normal": True},
    r"(?P<comparison>at least|at most)": lambda found: {"comparison": found["comparison"]},
    rf"about within (?P<percent>{_NUMBER}) ?%": lambda found: {
        "comparison": "about",
        "within_percent": float(found["percent"]),
    },
    rf"(?P<aggregate>{'|'.join(_AGGREGATES)})": lambda found: {"aggregate": found["aggregate"]},
}


def parse_bound_form(text: str) -> BoundForm:
    """The form in the mark of a number.

    Raises:
        FormatError: it has none; the message names the part that is wrong.

    Example:
        >>> form = parse_bound_form("ratio throughput_ops_s, workers 8 over 1, workload c, as select_8, to 0.5")
        >>> form.kind, form.name, form.step, form.parts
        ('runs', 'select_8', Decimal('0.5'), ('ratio throughput_ops_s', 'workers 8 over 1', 'workload c'))
    """
    try:
        parts = split_form(text)
    except FormatError as error:
        raise FormatError(error.problem, hint=_WAY_OUT) from error
    word = parts[0].partition(" ")[0]
    kind = _KINDS.get(word)
    if kind is None:
        raise FormatError(
            f"{parts[0]!r} does not begin with {join_words([*_KINDS], most=12, word='or')}", hint=_WAY_OUT
        )
    settings: dict[str, object] = {}
    kept = parts[:1]
    for part in parts[1:]:
        # A part of a runs' form is never one of these, because no column is called so; a key of a file is quoted.
        matches = ((re.fullmatch(pattern, part), make) for pattern, make in _SETTINGS.items())
        found = next((make(match) for match, make in matches if match), None)
        if found is None:
            kept.append(part)
        elif found.keys() & settings.keys():
            raise FormatError(f"{part!r} says again what another part said", hint="say it once")
        else:
            settings |= found
    form = BoundForm(text, kind, tuple(kept), **settings)  # type: ignore[arg-type] # each pattern gives its own type
    _check_form(form)
    return form


def _check_form(form: BoundForm) -> None:
    head, _, said = form.parts[0].partition(" ")
    if form.step is not None and not form.step:
        raise FormatError("a number cannot be rounded to 0", hint="write, for example: to 10")
    if form.kind == "runs":
        _parse_runs(form)
    elif form.aggregate and form.kind not in ("json", "csv"):
        raise FormatError(f"a {form.kind} has one value only", hint=f"leave out {form.aggregate!r}")
    elif form.kind == "sum" and not _SUM.fullmatch(said):
        raise FormatError(
            f"{form.parts[0]!r} is no sum", hint="write: sum all - one - other, of names given by 'as NAME'"
        )
    elif form.kind in ("quotient", "share"):
        word = "over" if form.kind == "quotient" else "of"
        if not re.fullmatch(rf"{_NAME}\s+{word}\s+{_NAME}", said.strip()):
            raise FormatError(f"{form.parts[0]!r} is no {form.kind}", hint=f"write: {form.kind} NAME {word} NAME")
    elif form.kind in ("json", "csv") and (not said or len(form.parts) < 2):
        wanted = "json FILE, KEY" if form.kind == "json" else "csv FILE, COLUMN, COLUMN VALUE"
        raise FormatError(f"{form.text!r} does not say which value of the file", hint=f"write: {wanted}")
    elif form.kind in ("sql", "figure", "count") and not said:
        raise FormatError(f"{head!r} does not say of what", hint=_WAY_OUT)


def _parse_runs(form: BoundForm) -> RunsQuantity:
    head, *others = form.parts
    try:
        return parse_quantity([re.sub("^change ", "ratio ", head), *others])
    except FormatError as error:
        hint = error.hint if error.hint and "at least" not in error.hint else _WAY_OUT
        raise FormatError(error.problem, hint=hint) from error


class BoundValue(NamedTuple):
    """The value that a form gives.

    Attributes:
        value: the value, in its unit.
        unit: its unit, as printed; empty for counts and ratios.
        low: lower end of its interval; None if it has none.
        high: upper end.
        n: number of runs of each side, or of values; None if there is only one.
    """

    value: float
    unit: str = ""
    low: float | None = None
    high: float | None = None
    n: int | None = None


class ValueReader:
    """Gives the values of forms; files and answers are kept.

    Args:
        source: a dataset, a frame of the table `runs`, or None.
        level: confidence level of each interval.
    """

    def __init__(self, source: TableSource | Frame | None = None, level: float = LEVEL) -> None:
        self._source = source
        self._level = level
        self._kept: dict[object, object] = {}

    def read(self, form: BoundForm, folder: Path) -> BoundValue:
        """The value of a form that is not computed from other numbers.

        Args:
            form: the form.
            folder: folder of the document, to which paths of files are relative.

        Raises:
            InsufficientDataError: no runs, or no value of the file, are what the form says, or several are.
            CitusAnalysisError: a file, a query or a name is wrong.
        """
        key = form.parts, form.aggregate, form.is_normal, folder if form.kind in ("json", "csv") else None
        if key not in self._kept:
            read = {"runs": self._read_runs, "count": self._count, "sql": self._read_sql}
            files = {"json": self._read_json, "csv": self._read_csv}
            self._kept[key] = read[form.kind](form) if form.kind in read else files[form.kind](form, folder)
        return cast("BoundValue", self._kept[key])

    def read_table(self, form: BoundForm, folder: Path) -> pl.DataFrame:
        """The table that a figure is bound to: `figure sql "SELECT ..."` or `figure csv FILE`."""
        kind, _, said = form.parts[0].removeprefix("figure ").partition(" ")
        if kind == "sql":
            return self._query(_unquote(said))
        if kind == "csv":
            path = self._resolve(said, folder)
            return pl.read_csv(self._read_bytes(path), infer_schema=False)
        raise FormatError(
            f"{form.parts[0]!r} names no table", hint='write: figure sql "SELECT ...", or figure csv FILE'
        )

    @property
    def _dataset(self) -> TableSource | Frame:
        if self._source is None:
            raise InsufficientDataError("no dataset was given", hint="name it or its raw files: --dataset DIR")
        return self._source

    def _read_runs(self, form: BoundForm) -> BoundValue:
        quantity = _parse_runs(form)
        selected = select_claim_runs(self._dataset, quantity)
        found = [one for one in selected if one.estimate is not None]
        if len(found) > 1:
            several = join_words([f"{one.configuration!r}" for one in found], most=4)
            raise InsufficientDataError(
                f"it is about {pluralize(len(found), 'configuration')}: {several}", hint="state what tells them apart"
            )
        if not found:
            raise InsufficientDataError(selected[0].reason)
        estimate = found[0].estimate
        assert estimate is not None  # noqa: S101 - selected above
        less = 1.0 if form.parts[0].startswith("change ") else 0.0
        low, high = estimate.ends((1 - self._level) / 2) or (None, None)
        unit = "" if quantity.quantity == "ratio" else get_unit(quantity.metric) or ""
        return BoundValue(
            estimate.shown - less,
            unit,
            None if low is None else low - less,
            None if high is None else high - less,
            estimate.n,
        )

    def _count(self, form: BoundForm) -> BoundValue:
        """The number of runs, of any status."""
        if form.parts[0] != "count runs":
            raise FormatError(
                f"{form.parts[0]!r} is no count", hint='write: count runs, COLUMN VALUE; or sql "SELECT ..."'
            )
        wanted = parse_quantity(["mean runs", *form.parts[1:]])
        runs = read_runs_with_metric(self._dataset, METRIC)
        check_columns(runs, list(wanted.side(0)))
        return BoundValue(filter_claim_runs(runs, wanted.side(0)).height)

    def _query(self, query: str) -> pl.DataFrame:
        # A frame has a method of this name, too, but no tables.
        ask = getattr(self._dataset, "sql", None) if isinstance(self._dataset, TableSource) else None
        if ask is None:
            raise InsufficientDataError("SQL needs a dataset, not a frame", hint="pass a dataset")
        return cast("pl.DataFrame", ask(query))

    def _read_sql(self, form: BoundForm) -> BoundValue:
        answer = self._query(_unquote(form.parts[0].partition(" ")[2]))
        if answer.shape != (1, 1):
            raise UsageError(f"the query gives {answer.height} rows of {answer.width} columns", hint="select one value")
        (name,) = answer.columns
        return _make_value([answer.item()], form, _infer_unit(name))

    def _resolve(self, said: str, folder: Path) -> Path:
        return folder / _unquote(said.strip())

    def _read_bytes(self, path: Path) -> bytes:
        if path not in self._kept:
            try:
                with path.open("rb") as opened:
                    data = opened.read(_MOST_BYTES + 1)
            except (OSError, ValueError) as error:
                # A path that no system has (a NUL in it) is an error of values.
                reason = getattr(error, "strerror", None) or "no file has such a name"
                raise InputError(
                    f"cannot be read: {reason}", path=path, hint="paths are relative to the document"
                ) from error
            if len(data) > _MOST_BYTES:
                raise InputError("is larger than 64 MiB", path=path, hint="bind to a smaller file")
            self._kept[path] = data
        return cast("bytes", self._kept[path])

    def _read_json(self, form: BoundForm, folder: Path) -> BoundValue:
        path = self._resolve(form.parts[0].partition(" ")[2], folder)
        try:
            key = path, "json"
            if key not in self._kept:
                self._kept[key] = parse_json(self._read_bytes(path))
        except FormatError as error:
            raise InputError(error.problem, path=path, hint="is it JSON?") from error
        nodes: list[object] = [self._kept[key]]
        names: list[str] = []
        for part in form.parts[1:]:
            nodes = [below for node in nodes for below in _step_down(node, part)]
            if not nodes:
                raise InsufficientDataError(
                    f"{path}: no value is at {part!r}", hint=f"known there: {_list_known(form, self._kept[key])}"
                )
            names.append(part)
        if form.aggregate:
            nodes = [below for node in nodes for below in (node if isinstance(node, list) else [node])]
        unit = next(filter(None, map(_infer_unit, reversed(names))), "")
        return _make_value(nodes, form, unit)

    def _read_csv(self, form: BoundForm, folder: Path) -> BoundValue:
        path = self._resolve(form.parts[0].partition(" ")[2], folder)
        key = path, "csv"
        if key not in self._kept:
            text = self._read_bytes(path).decode("utf-8", "replace")
            self._kept[key] = list(csv.DictReader(text.splitlines()))
        rows = cast("list[dict[str, str]]", self._kept[key])
        column, metric = _unquote(form.parts[1]), ""
        for part in form.parts[2:]:
            condition = _CONDITION.fullmatch(part)
            if condition is None:
                raise FormatError(f"{part!r} is not COLUMN VALUE", hint=_WAY_OUT)
            name, value = _unquote(condition["name"]), _unquote(condition["value"])
            if rows and name not in rows[0]:
                raise InsufficientDataError(
                    f"{path}: there is no column {name!r}", hint=f"known: {join_words([*rows[0]])}"
                )
            rows = [row for row in rows if _is_same(row[name], value)]
            metric = value if name == "metric" else metric
        columns = [column] if not rows or column in rows[0] else [_unquote(one.strip()) for one in column.split(" + ")]
        if rows and (missing := [one for one in columns if one not in rows[0]]):
            raise InsufficientDataError(
                f"{path}: there is no column {missing[0]!r}", hint=f"known: {join_words([*rows[0]])}"
            )
        values = [math.fsum(map(_convert_cell, (row[one] for one in columns))) for row in rows]
        return _make_value(values, form, _infer_unit(column) or _infer_unit(metric), self._level)


def _infer_unit(name: str) -> str:
    """The unit that a key or column states: `wall_s`, `peak_mib`, `one of 365, quiet, s`, `megabytes`."""
    words = _unquote(name).replace(",", " ").split()
    for spelt in ("_".join(words), *words[:1]):
        last = spelt.rpartition("_")[2]
        if unit := _SIZES.get(last) or get_unit(spelt):
            return unit
    return ""


def _make_value(found: Sequence[object], form: BoundForm, unit: str, level: float = LEVEL) -> BoundValue:
    """One value of several; the mean of several has an interval."""
    numbers = [float(one) for one in found if isinstance(one, int | float | Decimal) and not isinstance(one, bool)]
    if len(numbers) < len(found):
        raise InsufficientDataError("it is not a number" if len(found) == 1 else "not all values are numbers")
    if not numbers or not all(map(math.isfinite, numbers)):
        raise InsufficientDataError("no value is what the form says" if not numbers else "the value is not finite")
    if not form.aggregate:
        if len(numbers) > 1:
            raise InsufficientDataError(
                f"{len(numbers)} values are what the form says",
                hint=f"state what tells them apart, or one of {', '.join(_AGGREGATES)}",
            )
        return BoundValue(numbers[0], unit)
    if form.aggregate == "sd" and len(numbers) < 2:
        raise InsufficientDataError("one value has no standard deviation")
    value = float(_AGGREGATES[form.aggregate](numbers))
    if form.aggregate == "count":
        return BoundValue(value)
    if form.aggregate != "mean" or len(numbers) < 2:
        return BoundValue(value, unit, n=len(numbers))
    sd = stdev(numbers)
    if form.is_normal:
        interval = estimate_mean_from_summary(value, sd, len(numbers), level, "normal")
        return BoundValue(value, unit, interval.low, interval.high, len(numbers))
    ends = ClaimEstimate.from_mean(ClaimSample(value, sd, len(numbers))).ends((1 - level) / 2)
    low, high = ends or (None, None)
    return BoundValue(value, unit, low, high, len(numbers))


def _step_down(node: object, part: str) -> Iterator[object]:
    """The values at a part of a path: at a key, where `*` is any text, of `A or B` at both, of NAME=VALUE in a list."""
    for wanted in map(_unquote, _OR.split(part)):
        if isinstance(node, Mapping):
            fits = re.compile(re.escape(wanted).replace(r"\*", ".*"), re.DOTALL).fullmatch
            yield from [node[wanted]] if wanted in node else [value for key, value in node.items() if fits(str(key))]
        elif isinstance(node, list):
            objects = [one for one in node if isinstance(one, Mapping)]
            if wanted == "*":
                yield from node
            elif re.fullmatch(r"-?\d+", wanted):
                yield from [node[int(wanted)]] if -len(node) <= int(wanted) < len(node) else []
            elif named := _FILTER.fullmatch(wanted):
                name, value = named["name"], _unquote(named["value"])
                same = [one for one in objects if name in one and _is_same(str(one[name]), value)]
                # What follows narrows several further.
                yield from [same] if len(same) > 1 else same
            else:
                yield from (one[wanted] for one in objects if wanted in one)


def _list_known(form: BoundForm, node: object) -> str:
    nodes = [node]
    for part in form.parts[1:]:
        below = [one for each in nodes for one in _step_down(each, part)]
        if not below:
            break
        nodes = below
    known = [str(key) for each in nodes if isinstance(each, Mapping) for key in each]
    return join_words(known) if known else "a list" if isinstance(nodes[0], list) else "one value"


def _is_same(text: str, wanted: str) -> bool:
    """Whether a cell is a value, as text in any case, or as a number."""
    if text.strip().casefold() == wanted.strip().casefold():
        return True
    try:
        return float(text) == float(wanted)
    except ValueError:
        return False


def _convert_cell(text: str) -> float:
    try:
        return float(text.replace(",", ""))
    except ValueError as error:
        raise InsufficientDataError(f"the cell {text!r} is not a number") from error


def _unquote(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text

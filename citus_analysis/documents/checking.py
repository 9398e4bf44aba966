"""Documents checked: each bound number is right, or it is said what is wrong and what is right."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from os import PathLike, fspath
from pathlib import Path
from typing import Final, Literal

import polars as pl

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.frames import Frame, TableSource
from citus_analysis.core.output_files import open_output
from citus_analysis.defaults import LEVEL
from citus_analysis.documents.figures import digest_table, read_stamp
from citus_analysis.documents.printed_numbers import (
    PrintedNumber,
    choose_quantum,
    choose_supported_quantum,
    convert_to_decimal,
    find_following_unit,
    find_unit,
    format_like,
    is_rounded_to,
    parse_printed_number,
    round_to,
)
from citus_analysis.documents.syntax import Binding, Document, find_documents, parse_document, read_document
from citus_analysis.documents.values import BoundForm, BoundValue, ValueReader, parse_bound_form
from citus_analysis.errors import CitusAnalysisError, FormatError, InsufficientDataError
from citus_analysis.stats._validate import check_level
from citus_analysis.texts.numbers import format_number
from citus_analysis.texts.words import pluralize
from citus_analysis.units import Unit

Status = Literal["right", "stale", "last digit", "digits", "unit", "sign", "sum", "no runs", "unreadable", "empty"]
#: Status -> its meaning.
STATUSES: Final[Mapping[Status, str]] = {
    "right": "the value, rounded to the printed digits, is the number",
    "stale": "the value is another one",
    "last digit": "the last printed digit is wrong by one",
    "digits": "more digits than the interval of the value supports",
    "unit": "the unit is missing, or not one of such a value",
    "sign": "the sign is wrong",
    "sum": "printed numbers do not add up, or a printed ratio or percentage is not theirs",
    "no runs": "no value is there: no runs, several configurations, or no place in a file",
    "unreadable": "the form or the number cannot be read",
    "empty": "no number is there yet",
}
#: How far a number with a wrong last digit is from the value, in units of that digit.
_LAST_DIGIT: Final = Decimal("1.5")
_SCHEMA: Final = {
    "document": pl.String,
    "line": pl.Int64,
    "status": pl.String,
    "printed": pl.String,
    "right": pl.String,
    **dict.fromkeys(("value", "low", "high"), pl.Float64),
    "n": pl.Int64,
    "form": pl.String,
    "explanation": pl.String,
}


@dataclass(frozen=True, repr=False, eq=False)
class CheckedDocuments(DisplayMixin):
    """Bound numbers and figures of documents with what is wrong in them.

    Attributes:
        numbers: one row for each: document, line, status, printed, right (what should stand there), value with low and
            high (in the unit of the printed number), n, form, explanation.
        documents: the documents that were read.
        written: the documents that were changed.
    """

    numbers: pl.DataFrame
    documents: tuple[Path, ...]
    written: tuple[Path, ...] = ()

    @property
    def wrong(self) -> pl.DataFrame:
        """The rows that are not right."""
        return self.numbers.filter(pl.col("status") != "right")

    @property
    def exit_code(self) -> int:
        """0: all numbers are right; 1: one is not."""
        return int(self.wrong.height > 0)

    def summary_lines(self) -> list[str]:
        """The number of bound numbers by status, and those that are wrong."""
        counts = Counter(self.numbers["status"])
        words = ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts[status]) or "none is bound"
        places = f"{pluralize(self.numbers.height, 'bound number')} in {pluralize(len(self.documents), 'document')}"
        return [f"{places}: {words}", *map(describe_row, self.wrong.iter_rows(named=True))]

    def summary_table(self) -> pl.DataFrame | None:
        """The rows that are not right."""
        return self.wrong.select("document", "line", "status", "printed", "right", "explanation")

    def to_dict(self) -> dict[str, object]:
        """The same as plain values, for JSON."""
        return {
            "documents": [str(path) for path in self.documents],
            "written": [str(path) for path in self.written],
            "numbers": self.numbers.to_dicts(),
        }


def describe_row(row: Mapping[str, object]) -> str:
    """What is wrong with a number, in one line that begins with its file and line."""
    right = f", right: {row['right']}" if row["right"] is not None else ""
    printed = (
        f" printed: {row['printed']}{right};" if row["printed"] else f" {right.removeprefix(', ')};" if right else ""
    )
    return f"{row['document']}:{row['line']}: {row['status']}:{printed} {row['explanation']}"


def check_documents(
    documents: str | PathLike[str] | Sequence[str | PathLike[str]],
    dataset: TableSource | Frame | str | PathLike[str] | None = None,
    *,
    write: bool = False,
    level: float = LEVEL,
) -> CheckedDocuments:
    """Check the numbers and figures that documents bind to data.

    Args:
        documents: Markdown, LaTeX, HTML and notebooks, and folders of these.
        dataset: a dataset, a frame of the table `runs`, or the path of a dataset or of raw files; None: only what is
            bound to files is checked, and the rest has no runs.
        write: fill and update the numbers. A document is replaced at once or not at all; nothing but the numbers
            changes. What is returned is about the documents as they are then.
        level: confidence level of the intervals that limit the digits of numbers.

    Returns:
        A row for each bound number, and for each sum of printed numbers that is wrong (docs/documents.md).

    Raises:
        InputError: a document cannot be read, or a mark in it is not closed.

    Example:
        >>> import pathlib, tempfile, polars as pl
        >>> page = pathlib.Path(tempfile.mkdtemp()) / "page.md"
        >>> _ = page.write_text("It is <!-- ca: ratio throughput_ops_s, workers 2 over 1 -->1.9<!-- /ca --> times")
        >>> runs = pl.DataFrame({"workers": [1, 1, 2, 2], "throughput_ops_s": [99.0, 101.0, 215.0, 205.0]})
        >>> check_documents(page, runs).wrong.select("status", "right").rows()
        [('stale', '2.1')]
    """
    check_level(level)
    paths = find_documents(documents)
    source = open_checked_source(dataset)
    reader = ValueReader(source, level)
    checks = [_check_document(read_document(path), reader) for path in paths]
    written = []
    if write:
        for place, check in enumerate(checks):
            content = check.document.replace(check.changes())
            if content != check.document.content:
                mode = check.document.path.stat().st_mode
                with open_output(check.document.path) as out:
                    out.write(content.encode())
                check.document.path.chmod(mode)
                written.append(check.document.path)
                checks[place] = _check_document(read_document(check.document.path), reader)
    rows = [row for check in checks for row in check.make_rows()]
    return CheckedDocuments(pl.DataFrame(rows, schema=_SCHEMA), tuple(paths), tuple(written))


def open_checked_source(dataset: TableSource | Frame | str | PathLike[str] | None) -> TableSource | Frame | None:
    """What was given, or the dataset, or the raw files, at a path."""
    if isinstance(dataset, str | PathLike):
        from citus_analysis.dataset.read_files import open_source

        return open_source(fspath(dataset))
    return dataset


@dataclass
class CheckedNumber:
    """A bound number while its document is checked."""

    binding: Binding
    form: BoundForm | None = None
    printed: PrintedNumber | None = None
    value: BoundValue | None = None
    status: Status = "right"
    explanation: str = ""
    right: Decimal | None = None
    right_text: str | None = None
    #: Value, low and high in the unit of the printed number.
    scaled: tuple[float, float | None, float | None] | None = None

    def fail(self, status: Status, explanation: str) -> None:
        """Say what is wrong with it."""
        self.status, self.explanation = status, explanation


@dataclass(frozen=True)
class DocumentCheck:
    """A document with its judged numbers, and the sums of printed numbers that are wrong: line, text, right, why."""

    document: Document
    numbers: Sequence[CheckedNumber]
    sums: Sequence[tuple[int, str, str, str]] = field(default_factory=list)

    def changes(self) -> Iterator[tuple[Binding, int, int, str]]:
        """What makes its numbers right, for :meth:`Document.replace`."""
        for one in self.numbers:
            if one.status != "right" and one.right_text is not None:
                start, end = (one.printed.start, one.printed.end) if one.printed else (0, len(one.binding.text))
                yield one.binding, start, end, one.right_text

    def make_rows(self) -> Iterator[dict[str, object]]:
        """Its rows of `numbers`."""
        name = str(self.document.path)
        for one in self.numbers:
            value, low, high = one.scaled or (None, None, None)
            yield {
                "document": name,
                "line": one.binding.line,
                "status": one.status,
                "printed": one.binding.image or one.binding.text.strip(),
                "right": None if one.status == "right" else one.right_text,
                "value": value,
                "low": low,
                "high": high,
                "n": None if one.value is None else one.value.n,
                "form": one.binding.form,
                "explanation": one.explanation,
            }
        for line, printed, right, explanation in self.sums:
            yield {
                **dict.fromkeys(_SCHEMA),
                "document": name,
                "line": line,
                "status": "sum",
                "printed": printed,
                "right": right,
                "explanation": explanation,
            }


def check_content(path: Path, content: str, reader: ValueReader) -> DocumentCheck:
    """Check a document that is in memory; its path says its kind and where its files are."""
    return _check_document(parse_document(path, content), reader)


def _check_document(document: Document, reader: ValueReader) -> DocumentCheck:
    numbers = [CheckedNumber(binding) for binding in document.bindings]
    folder = document.path.parent
    for one in numbers:
        try:
            one.form = parse_bound_form(one.binding.form)
            if one.form.kind == "figure":
                _check_figure(one, reader, folder)
                continue
            if one.binding.text.strip():
                one.printed = parse_printed_number(one.binding.text)
        except FormatError as error:
            one.fail("unreadable", str(error))
    read = [one for one in numbers if one.form is not None and one.form.kind != "figure" and one.status == "right"]
    names = _name_numbers(read)
    waiting = [one for one in read if one.status == "right"]
    while waiting:
        ready = [
            one
            for one in waiting
            if not any(name in names and names[name] in waiting for name in _list_used_names(one))
        ]
        for one in ready:
            _check_number(one, reader, folder, names)
        if not ready:
            for one in waiting:
                one.fail("unreadable", f"'{one.binding.form}' is computed from itself")
        waiting = [one for one in waiting if one not in ready] if ready else []
    return DocumentCheck(document, numbers, _check_sums(document))


def _list_used_names(one: CheckedNumber) -> list[str]:
    return [name for name, _ in one.form.used_names] if one.form else []


def _name_numbers(numbers: Sequence[CheckedNumber]) -> dict[str, CheckedNumber]:
    names: dict[str, CheckedNumber] = {}
    for one in numbers:
        name = one.form.name if one.form else ""
        if name and name in names:
            one.fail(
                "unreadable", f"line {names[name].binding.line} has a number named {name!r}, too (name it otherwise)"
            )
        elif name:
            names[name] = one
    return names


def _check_figure(one: CheckedNumber, reader: ValueReader, folder: Path) -> None:
    assert one.form is not None  # noqa: S101 - parsed before
    image = one.binding.image
    if image is None:
        one.fail("unreadable", "there is no image between the marks")
        return
    try:
        digest = digest_table(reader.read_table(one.form, folder))
        stamp = read_stamp(folder / image)
    except InsufficientDataError as error:
        one.fail("no runs", str(error))
    except CitusAnalysisError as error:
        one.fail("unreadable", str(error))
    else:
        if stamp is None:
            one.fail("stale", "the image carries no digest of its table (ca.documents.stamp_image writes it)")
        elif stamp != digest:
            one.fail("stale", "the image was drawn of another table: draw it again")


def _check_number(one: CheckedNumber, reader: ValueReader, folder: Path, names: Mapping[str, CheckedNumber]) -> None:
    form = one.form
    assert form is not None  # noqa: S101 - parsed before
    try:
        one.value = _compute(form, names) if form.used_names else reader.read(form, folder)
        _judge(one, form, one.value)
    except InsufficientDataError as error:
        one.fail("no runs", str(error))
    except CitusAnalysisError as error:
        one.fail("unreadable", str(error))


def _compute(form: BoundForm, names: Mapping[str, CheckedNumber]) -> BoundValue:
    """The value of a number that is computed from others: sums of the numbers as printed, ratios of their values."""
    terms = []
    for name, sign in form.used_names:
        if name not in names:
            raise FormatError(f"no number of this document is named {name!r}", hint=f"give it its name: as {name}")
        number = names[name]
        if number.value is None or number.right is None:
            raise InsufficientDataError(f"{name!r} has no value")
        terms.append((number, sign))
    units = [_choose_units(number, number.value) for number, _ in terms if number.value is not None]
    if form.kind == "sum":
        if len({(one.printed_text, one.multiple) for one in units}) > 1:
            said = " and ".join(dict.fromkeys(one.printed_text or "no unit" for one in units))
            raise FormatError(f"numbers in {said} are not added", hint="print them in one unit")
        total = sum((number.right * sign for number, sign in terms if number.right is not None), Decimal(0))
        return BoundValue(float(total * units[0].multiple), units[0].printed_text)
    if units[0].value.dimension != units[1].value.dimension:
        raise FormatError("numbers of different kinds have no ratio", hint="name two of the same kind")
    (a, b), scales = [number.value for number, _ in terms], [one.value.factor for one in units]
    assert a is not None and b is not None  # noqa: S101, PT018 - checked above
    if not b.value:
        raise InsufficientDataError("the second number is 0")
    return BoundValue(a.value * scales[0] / (b.value * scales[1]))


@dataclass(frozen=True)
class _Units:
    value: Unit
    printed: Unit
    printed_text: str
    multiple: Decimal


def _choose_units(one: CheckedNumber, value: BoundValue) -> _Units:
    """The units of a value and of its number.

    Raises:
        FormatError: the number has no unit or a wrong one.
    """
    form = one.form
    assert form is not None  # noqa: S101 - parsed before
    printed = (one.printed.unit if one.printed else "") or find_following_unit(one.binding.following)
    stated = find_unit(form.unit)
    # A value without a unit is a ratio, also where its number is printed in percent.
    is_ratio = form.has_no_unit or (stated is not None and stated.dimension == "ratio")
    own = ("" if form.has_no_unit else value.unit) or ("" if is_ratio else form.unit)
    said = printed or form.unit or ("" if one.printed else own)
    units = [find_unit(own), find_unit(said)]
    if None in units:
        raise FormatError(
            f"the unit {said if units[0] else own!r} is not known", hint="write ms, s, MB, operations/s, %, times"
        )
    if own and not said:
        raise _UnitError(f"it has no unit: print it, or say it in the form: in {own}")
    in_value, in_print = units
    assert in_value is not None and in_print is not None  # noqa: S101, PT018 - checked above
    if in_value.dimension != in_print.dimension:
        kinds = f"the value is in {own}" if own else "the value has no unit"
        raise _UnitError(
            f"{kinds}, and the number in {said or 'none'}" + ("" if own else f" (if it is right: in {said})")
        )
    return _Units(in_value, in_print, said, one.printed.multiple if one.printed else Decimal(1))


def judge_text(printed: str, following: str, form: BoundForm, value: BoundValue) -> Status:
    """Whether a number with what follows it is right for a value.

    Example:
        >>> judge_text("2.6", " ms", parse_bound_form("mean latency_us, workers 1"), BoundValue(2_633.0, "µs"))
        'right'
    """
    number = CheckedNumber(
        Binding(form.text, printed, (), (), 0, (0, 0), 1, following), form, parse_printed_number(printed)
    )
    _judge(number, form, value)
    return number.status


class _UnitError(FormatError):
    """A number has a wrong unit, or none."""


def _judge(one: CheckedNumber, form: BoundForm, value: BoundValue) -> None:
    try:
        units = _choose_units(one, value)
    except _UnitError as error:
        one.fail("unit", error.problem)
        return
    factor = units.value.factor / units.printed.factor / float(units.multiple)
    wanted = value.value if not form.end else value.low if form.end == "low" else value.high
    if wanted is None:
        raise InsufficientDataError("it has no interval: one run or one value has no spread")
    exact = convert_to_decimal(wanted * factor)
    ends = None if value.low is None or value.high is None else (value.low * factor, value.high * factor)
    one.scaled = (float(exact), *(ends or (None, None)))
    supported = None if ends is None or form.exact else choose_supported_quantum(*ends)
    exact = abs(exact) if form.unsigned else exact
    if form.step is not None:
        quantum = form.step
    elif one.printed is None:
        quantum = choose_quantum(exact, supported)
    else:
        quantum = max(one.printed.quantum, supported or Decimal(0))
    one.right_text = format_like(exact, quantum, one.printed)
    words = _describe_value(exact, ends, value.n)
    if one.printed is None:
        unit = units.printed_text if not find_following_unit(one.binding.following) and not form.unit else ""
        one.right_text += f" {unit}" if unit else ""
        one.right = round_to(exact, quantum)
        one.fail("empty", f"no number is there yet; {words}")
        return
    one.right = one.printed.value
    status = _compare(one.printed, exact, form, supported)
    if status == "right":
        return
    one.right = round_to(exact, quantum)
    if form.comparison:
        one.fail(status, f"it is said to be {form.comparison}; {words}")
    elif status == "digits" and supported is not None:
        place = f"{supported.normalize():f}"
        one.fail(status, f"the interval supports no digit after the place of {place}; {words}")
    else:
        one.fail(status, words)


def _describe_value(value: Decimal, ends: tuple[float, float] | None, n: int | None) -> str:
    interval = f" [{format_number(ends[0])}, {format_number(ends[1])}]" if ends else ""
    return f"the value is {format_number(float(value))}{interval}" + (f", n = {n}" if n else "")


def _compare(printed: PrintedNumber, value: Decimal, form: BoundForm, supported: Decimal | None) -> Status:
    number = printed.value
    match form.comparison:
        case "at least":
            return "right" if value >= number else "stale"
        case "at most":
            return "right" if value <= number else "stale"
        case "about":
            factor = 1 + Decimal(str(form.within_percent)) / 100
            return "right" if number / factor <= value <= number * factor else "stale"
    if form.step is not None:
        quanta = [form.step]
    else:
        # Zeros at the end mark the place only where the interval supports no more digits.
        places = [printed.quantum.scaleb(zeros) for zeros in range(printed.zeros + 1)]
        quanta = [one for one in places if one == printed.quantum or (supported is not None and one <= supported)]
    if any(is_rounded_to(number, value, quantum) for quantum in quanta):
        return "digits" if supported is not None and form.step is None and printed.coarsest < supported else "right"
    if any(is_rounded_to(-number, value, quantum) for quantum in quanta):
        return "sign"
    return "last digit" if abs(number - value) <= _LAST_DIGIT * quanta[0] else "stale"


# Sums, products and percentages of printed numbers in a line, some of which are bound.

_PLAIN: Final = r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?:\.\d+)?|(?<![\w.,])\d+(?:\.\d+)?"
_WORD: Final = r"(?:\s?(?:%|[A-Za-zµ]+(?:/[A-Za-z]+)?))?"
_SIGNED: Final = rf"[-−+]?(?:{_PLAIN})"
_CHAIN: Final = rf"{_SIGNED}{_WORD}(?:\s+[-−–+×*/÷]\s+(?:{_PLAIN}){_WORD})+"
_EQUATION: Final = re.compile(
    rf"(?P<left>{_CHAIN})\s+=\s+(?P<result>{_SIGNED})|(?P<result2>{_SIGNED}){_WORD}\s+=\s+(?P<right>{_CHAIN})"
)
_SHARE: Final = re.compile(
    rf"(?P<part>{_PLAIN}){_WORD} of (?P<whole>{_PLAIN}){_WORD}\s*\((?P<percent>{_PLAIN})\s?%\)"
    rf"|(?P<percent2>{_PLAIN})\s?%\s*\((?P<part2>{_PLAIN}){_WORD} of (?P<whole2>{_PLAIN}){_WORD}\)"
)
_TOKEN: Final = re.compile(rf"\s(?P<operator>[-−–+×*/÷])\s|(?P<number>{_SIGNED})")


def _check_sums(document: Document) -> list[tuple[int, str, str, str]]:
    """Sums and percentages as printed that are wrong: line, text, right result, explanation."""
    found = []
    for line, text, bound in _iterate_shown_lines(document):
        for equation in _EQUATION.finditer(text):
            chain, result = equation["left"] or equation["right"], equation["result"] or equation["result2"]
            if _touches(equation, bound) and (right := _find_right_result(chain, result)) is not None:
                found.append((line, equation[0], right, f"as printed, it is {right}"))
        for share in _SHARE.finditer(text):
            part, whole, percent = (share[name] or share[f"{name}2"] for name in ("part", "whole", "percent"))
            if _touches(share, bound) and (right := _find_right_percentage(part, whole, percent)) is not None:
                found.append((line, share[0], right, f"{part} of {whole} are {right} %"))
    return found


def _touches(found: re.Match[str], bound: Sequence[tuple[int, int]]) -> bool:
    return any(a < found.end() and found.start() < b for a, b in bound)


def _iterate_shown_lines(document: Document) -> Iterator[tuple[int, str, list[tuple[int, int]]]]:
    """Lines with bound numbers as a reader sees them, and where the bound numbers are."""
    content = document.content
    by_line: dict[int, list[Binding]] = {}
    for binding in document.bindings:
        by_line.setdefault(binding.line, []).append(binding)
    for line, bindings in by_line.items():
        start = content.rfind("\n", 0, bindings[0].outer[0]) + 1
        last = bindings[-1].outer[1]
        end = content.find("\n", last)
        text, spans, at = "", [], start
        for binding in bindings:
            text += content[at : binding.outer[0]]
            spans.append((len(text), len(text) + len(binding.text)))
            text, at = text + binding.text, binding.outer[1]
        yield line, text + content[at : end if end >= 0 else len(content)], spans


def _parse(text: str) -> Decimal:
    return Decimal(text.replace(",", "").replace("−", "-"))


def _find_right_result(chain: str, result: str) -> str | None:
    """The result of a sum or product as printed, where it is not the printed one; None if it is, or is none of both."""
    numbers, operators = [], []
    for token in _TOKEN.finditer(f" {chain}"):
        if token["operator"]:
            operators.append(token["operator"])
        else:
            numbers.append(token["number"])
    if len(numbers) != len(operators) + 1:
        return None
    values, printed = [_parse(number) for number in numbers], _parse(result)
    if all(operator in "-−–+" for operator in operators):
        signed = [value if operator == "+" else -value for operator, value in zip(operators, values[1:], strict=True)]
        total = sum(signed, values[0])
        return None if total == printed else _format(total, Decimal(1).scaleb(min(map(_exponent, values))))
    if all(operator in "×*/÷" for operator in operators):
        return _find_right_product(numbers, operators, printed)
    return None


def _find_right_product(numbers: Sequence[str], operators: Sequence[str], printed: Decimal) -> str | None:
    """As for sums; what rounding of the factors can make of it is right."""
    low = high = total = Decimal(1)
    for operator, number in zip(["*", *operators], numbers, strict=True):
        value, half = _parse(number), _get_quantum(number) / 2
        if operator in "/÷":
            if abs(value) <= half:
                return None
            value, ends = 1 / value, (1 / (value + half), 1 / (value - half))
        else:
            ends = (value - half, value + half)
        corners = [one * end for one in (low, high) for end in ends]
        low, high, total = min(corners), max(corners), total * value
    half = Decimal(1).scaleb(_exponent(printed)) / 2
    if low - half <= printed <= high + half:
        return None
    return _format(total, Decimal(1).scaleb(_exponent(printed)))


def _format(value: Decimal, quantum: Decimal) -> str:
    return f"{round_to(value, quantum):,.{max(0, -_exponent(quantum))}f}"


def _exponent(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    return exponent if isinstance(exponent, int) else 0


def _get_quantum(number: str) -> Decimal:
    return Decimal(1).scaleb(_exponent(_parse(number)))


def _find_right_percentage(part: str, whole: str, percent: str) -> str | None:
    if not _parse(whole):
        return None
    right, quantum = 100 * _parse(part) / _parse(whole), _get_quantum(percent)
    return None if is_rounded_to(_parse(percent), right, quantum) else _format(right, quantum)

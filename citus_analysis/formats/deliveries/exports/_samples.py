"""The first records of a text, for each container that it might be: what an export is recognised by."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from citus_analysis.formats.deliveries.exports._shape import ANY, OUTER, Path, Shape
from citus_analysis.formats.deliveries.exports.readers._journal import entries_of
from citus_analysis.formats.deliveries.exports.readers._json_tables import Number, fields_of, parsed_json
from citus_analysis.texts.lone_surrogates import without_lone_surrogates

_MOST_RECORDS: Final = 400
#: Arrays further down are no arrays of records.
_DEEPEST: Final = 6
_BLANKS: Final = b" \t\r\n"
_HEADER: Final = re.compile(r"@?[A-Za-z_][\w .@()/-]{0,60}")
_SEPARATORS: Final = ",;\t"
#: Strings, brackets, and the quote of a string that is cut.
_DELIMITERS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|["\[\]{}]')


@dataclass(frozen=True)
class Sample:
    """Records and the shape that they were found in, of which the fields are yet to be chosen.

    Attributes:
        shape: container and place of the records.
        records: the records, as objects.
        outer: for each record, the object that holds the array it is in, as far as it stands before the array.
    """

    shape: Shape
    records: tuple[Mapping[str, object], ...]
    outer: tuple[Mapping[str, object], ...] = ()


def samples(head: bytes) -> Iterator[Sample]:
    """What the text may be, the likeliest first.

    Args:
        head: its first bytes, which may end inside a record.
    """
    yield from _of_lines(head)
    if head[:1] in (b"{", b"["):
        yield from _of_document(head)
    elif re.match(rb"__CURSOR=|(?:[A-Z_][A-Z0-9_]*=[^\n]*\n)+__REALTIME_TIMESTAMP=", head):
        entries = [entry for _, _, entry in entries_of(head, last=False)[0] if entry]
        words = [
            {key.decode("latin-1"): value.decode("utf-8", "surrogateescape") for key, value in one.items()}
            for one in entries
        ]
        yield Sample(Shape("journal"), tuple(words[:_MOST_RECORDS]))
    else:
        yield from _of_csv(head)


def _of_lines(head: bytes) -> Iterator[Sample]:
    lines = [line for line in head.split(b"\n")[:_MOST_RECORDS] if line.strip(_BLANKS)]
    objects = [found for line in lines if isinstance(found := parsed_json(line), dict)]
    # The last line may be cut.
    if objects and 2 * len(objects) >= len(lines) - 1:
        yield Sample(Shape("lines"), tuple(objects))


def _of_document(head: bytes) -> Iterator[Sample]:
    roots = list(_roots(without_lone_surrogates(head).decode("utf-8", "surrogateescape")))
    if not roots:
        return
    single = isinstance(roots[0], dict)
    if single and len(roots) > 1:
        yield Sample(Shape("document"), tuple(root for root in roots if isinstance(root, dict)))
    # Of one object over several lines, an array of records in it is looked for first.
    yield from _of_arrays(roots)
    if isinstance(roots[0], dict):
        yield Sample(Shape("document"), (roots[0],))


def _of_arrays(roots: list[object]) -> Iterator[Sample]:
    found: dict[tuple[Path, str], list[tuple[Mapping[str, object], Mapping[str, object]]]] = {}
    for root in roots:
        for path, form, record, outer in _records(root, (), {}):
            found.setdefault((path, form), []).append((record, outer))
    for (path, form), pairs in sorted(found.items(), key=lambda item: -len(item[1])):
        first = pairs[:_MOST_RECORDS]
        shape = Shape("document", records=path, form=form)
        yield Sample(shape, tuple(record for record, _ in first), tuple(around for _, around in first))


def _records(
    value: object, path: Path, outer: Mapping[str, object]
) -> Iterator[tuple[Path, str, Mapping[str, object], Mapping[str, object]]]:
    """All elements of arrays that have the form of a record."""
    if len(path) > _DEEPEST:
        return
    if isinstance(value, dict):
        before: dict[str, object] = {}
        for key, inner in value.items():
            if isinstance(inner, dict | list) and key not in (ANY, OUTER):
                yield from _records(inner, (*path, key), dict(before))
            before[key] = inner
    elif isinstance(value, list):
        for element in value:
            form = _form_of(element)
            record = fields_of(element, form)
            if record is not None:
                yield (*path, ANY), form, record, outer
            if form == "object":
                yield from _records(element, (*path, ANY), outer)


def _form_of(element: object) -> str:
    if _is_pair(element):
        return "pair"
    return "fields" if fields_of(element, "fields") else "object"


def _is_pair(element: object) -> bool:
    if not isinstance(element, list) or len(element) < 2:
        return False
    time, text = element[:2]
    return (
        isinstance(text, str) and not isinstance(text, Number) and re.fullmatch(r"[0-9.]{10,20}", str(time)) is not None
    )


def _roots(text: str) -> Iterator[object]:
    """The values of a text that holds one or several; of a cut one what can be completed."""
    decoder = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=Number)
    place = 0
    while place < len(text):
        place += len(text[place:]) - len(text[place:].lstrip(" \t\r\n,"))
        try:
            value, place = decoder.raw_decode(text, place)
            yield value
        except RecursionError:
            return
        except ValueError:
            with suppress(ValueError, RecursionError):
                yield decoder.decode(_completed(text[place:]))
            return


def _completed(text: str) -> str:
    """A cut text up to the last bracket that closes, and then the brackets that are open there."""
    opened: list[str] = []
    end, closing = 0, ""
    for found in _DELIMITERS.finditer(text):
        mark = found[0]
        if mark == '"':
            break
        if mark in "[{":
            opened.append("]" if mark == "[" else "}")
        elif mark in "]}":
            if not opened or opened.pop() != mark:
                break
            if len(opened) <= _DEEPEST:
                end, closing = found.end(), "".join(reversed(opened))
    return text[:end] + closing


def _of_csv(head: bytes) -> Iterator[Sample]:
    text = head.decode("utf-8", "surrogateescape")
    first = text.split("\n", 1)[0]
    for separator in _SEPARATORS:
        names: list[str] = []
        with suppress(csv.Error):
            names = next(csv.reader([first.rstrip("\r")], delimiter=separator), [])
        alone = len(names) == 1 and (separator != "," or not text[len(first) + 1 :].startswith('"'))
        if alone or len(set(names)) < len(names) or not names or not all(map(_HEADER.fullmatch, names)):
            continue
        rows = _csv_rows(text, separator)
        records = [dict(zip(names, row, strict=True)) for row in rows if len(row) == len(names)]
        if 2 * len(records) >= len(rows) > 0:
            yield Sample(Shape("csv", header=tuple(names), separator=separator), tuple(records))


def _csv_rows(text: str, separator: str) -> list[list[str]]:
    lines = text.splitlines(keepends=True)
    # The last row may be cut.
    whole = lines if text.endswith("\n") else lines[:-1]
    rows: list[list[str]] = []
    with suppress(csv.Error):
        rows.extend(row for row in csv.reader(whole, delimiter=separator) if row)
    return rows[1 : _MOST_RECORDS + 1]

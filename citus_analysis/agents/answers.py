"""Answers to programs: one JSON document of at most 2 kB, with further rows on further pages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from citus_analysis.errors import UsageError
from citus_analysis.texts.json_values import convert_to_json_value
from citus_analysis.texts.words import make_printable

#: Bytes of an answer.
MOST_BYTES: Final = 2048
#: Bytes that rows leave for the numbers of pages.
_FOR_PAGES: Final = 60
#: Significant digits of numbers.
_DIGITS: Final = 7
#: Characters of a text in a row, and of a sentence.
_MOST_CHARACTERS: Final = 360
_MOST_SAID: Final = 420
#: Warnings of an answer; further ones are rows of the last page.
_MOST_WARNINGS: Final = 2

Row = Mapping[str, object]


@dataclass(frozen=True)
class Answer:
    """What a tool says.

    Attributes:
        says: the finding in the toolkit's own words; nothing that was read from a log stands in it.
        rows: numbers and texts behind it; each names where it is from. Texts from logs are under keys that end in
            `_from_log`.
        verdict: one of the words of the documentation; `cannot be answered` if the data do not support an answer.
        warnings: limits of the numbers.
        origin: where all rows are from, if that is the same.
        to_decide: what would decide an undecided question.
    """

    says: str
    rows: Sequence[Row] = ()
    verdict: str | None = None
    warnings: Sequence[str] = ()
    origin: Mapping[str, object] = field(default_factory=dict)
    to_decide: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Reply:
    """What a question led to: the answer, or an error in a sentence."""

    text: str
    failed: bool = False


def render_answer(answer: Answer, page: int = 1) -> str:
    """A page of an answer as JSON of at most 2 kB.

    Args:
        answer: the answer.
        page: number of the page, from 1.

    Raises:
        UsageError: there is no such page.

    Example:
        >>> render_answer(Answer("two runs", [{"run": "a", "ops_s": 10.0}]))
        '{"says":"two runs","rows":[{"run":"a","ops_s":10.0}]}'
        >>> many = Answer("many", [{"run": f"run {number}" * 20} for number in range(40)])
        >>> len(render_answer(many, page=2).encode()) <= MOST_BYTES, '"page":2' in render_answer(many, page=2)
        (True, True)
    """
    head: dict[str, object] = {"verdict": answer.verdict} if answer.verdict else {}
    head["says"] = _shorten(answer.says, _MOST_SAID)
    head |= {"to_decide": answer.to_decide} if answer.to_decide else {}
    head |= {"from": answer.origin} if answer.origin else {}
    shown = [_shorten(one, _MOST_CHARACTERS) for one in answer.warnings[:_MOST_WARNINGS]]
    head |= {"warnings": shown} if shown else {}
    more = [{"warning": one} for one in answer.warnings[_MOST_WARNINGS:]]
    rows = [_fit_row(row) for row in [*answer.rows, *more]]
    room = MOST_BYTES - _FOR_PAGES - len(_write(head | {"rows": []}))
    pages = _divide(rows, max(room, 0))
    if not 1 <= page <= len(pages):
        raise UsageError(f"there is no page {page}", hint=f"pages are 1 to {len(pages)}")
    content = head | ({"rows": pages[page - 1]} if rows else {})
    if len(pages) > 1:
        content |= {"page": page, "pages": len(pages), "rows_in_all": len(rows)}
    return _write(content).decode()


def _divide(rows: Sequence[dict[str, object]], room: int) -> list[list[dict[str, object]]]:
    """Rows in pages of some bytes, at least one row each."""
    pages: list[list[dict[str, object]]] = [[]]
    left = room
    for row in rows:
        size = len(_write(row)) + 1
        if size > left and pages[-1]:
            pages.append([])
            left = room
        pages[-1].append(row if size <= left else _cut_row(row, left))
        left -= size
    return pages


def _fit_row(row: Row) -> dict[str, object]:
    """A row without nulls, with texts of limited length that a terminal would not obey."""
    found = convert_to_json_value({name: value for name, value in row.items() if value is not None}, _DIGITS)
    assert isinstance(found, dict)  # noqa: S101 - a mapping becomes one
    return {name: _fit_value(value) for name, value in found.items()}


def _fit_value(value: object) -> object:
    if isinstance(value, str):
        return _shorten(value, _MOST_CHARACTERS)
    if isinstance(value, list):
        return [_fit_value(one) for one in value]
    return {name: _fit_value(one) for name, one in value.items()} if isinstance(value, dict) else value


def _cut_row(row: dict[str, object], room: int) -> dict[str, object]:
    """A row too large for a page, without its longest values; which these are is said."""
    kept, cut = dict(row), list[str]()
    while len(_write(kept | {"left_out": cut})) > room and kept:
        longest = max(kept, key=lambda name: len(_write(kept[name])))
        del kept[longest]
        cut.append(longest[:40])
    return kept | {"left_out": cut[:10]}


def _shorten(text: str, most: int) -> str:
    plain = make_printable(" ".join(text.split()))
    return plain if len(plain) <= most else f"{plain[: most - 1]}\u2026"


def _write(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")

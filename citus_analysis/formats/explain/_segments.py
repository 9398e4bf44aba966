"""Places of plans in a file, as EXPLAIN printed them or in the frames of psql and other clients."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from citus_analysis.formats.explain._documents import plans_of_json, plans_of_yaml
from citus_analysis.formats.explain._items import Plan
from citus_analysis.formats.explain._text import QUERY_TEXT, SUMMARY, WITH_NUMBERS, begins_plan, plan_of_text
from citus_analysis.formats.explain._xml import XML_BEGINS, XML_ENDS, plans_of_xml

_BORDERS: Final = "|\u2502\u2551"
#: The heading of EXPLAIN's only column, in any of psql's borders.
HEADER: Final = re.compile(rf"[\s{_BORDERS}]*QUERY PLAN[\s{_BORDERS}]*$")
_RULE: Final = re.compile(r"\s*[-+|\u2500-\u257f]{3,}\s*$")
_FOOTER: Final = re.compile(r"\([0-9]+ rows?\)$|Time: [0-9.,]+ ms(?: \(.*\))?$")
#: Marks of a cell that continues in the next line.
_CONTINUES: Final = re.compile(r"[ \t]*[+\u21b5]$")
YAML_BEGINS: Final = re.compile(r"\s*- (?:Plan|Query Text|Query Identifier):")
#: Lines of a YAML plan that auto_explain logged: keys of one plan, not a list of plans.
_LOGGED_YAML: Final = re.compile(r"\s|(?!Query Text: )[A-Z][A-Za-z ]*:(?: |$)")
#: Lines with the query, its parameters and its identifier precede the plan.
_LINES_BEFORE_PLAN: Final = 3
_OPENS: Final = {"[": "]", "{": "}"}


@dataclass(frozen=True)
class Segment:
    """Neighbouring lines that are a plan, noise, or cannot be understood.

    Attributes:
        first: number of the first line.
        end: number of the line after the last.
        form: `text`, `json`, `yaml`, `xml`, `noise`, or empty for lines that are outside a plan.
        plans: the plans in it.
        reason: reason to reject the segment; empty if it is not rejected.
    """

    first: int
    end: int
    form: str
    plans: Sequence[Plan] = ()
    reason: str = ""


def segments(lines: Sequence[str]) -> Iterator[Segment]:
    """All lines in order, cut into segments."""
    at = 0
    while at < len(lines):
        if HEADER.match(lines[at]):
            yield from (frame := list(_frame(lines, at)))
            at = frame[-1].end
            continue
        found = _outside(lines, at)
        yield found
        at = found.end


def plans_of_logged(lines: Sequence[str]) -> list[tuple[str, Plan]]:
    """Form and plan in the message of auto_explain, without its first line.

    Raises:
        ValueError: the plan cannot be read.
    """
    if lines and lines[0].startswith(QUERY_TEXT) and not _is_logged_yaml(lines, 0):
        return [("text", plan_of_text(lines).finish())]
    found = list(segments(lines))
    plans = [(one.form, plan) for one in found for plan in one.plans]
    if not plans:
        raise ValueError(next((one.reason for one in found if one.reason), "it contains no plan"))
    return plans


def _is_logged_yaml(lines: Sequence[str], at: int) -> bool:
    following = lines[at + 1 : at + 1 + _LINES_BEFORE_PLAN]
    return lines[at].startswith(f'{QUERY_TEXT}"') and any(line.startswith("Plan:") for line in following)


def _outside(lines: Sequence[str], at: int) -> Segment:
    """The segment that begins in a line outside any frame."""
    text = lines[at]
    if not text.strip() or _RULE.match(text) or _FOOTER.match(text.strip()):
        return Segment(at, at + 1, "noise")
    if text[0] in _OPENS:
        return _document(lines, at, "json", _json_end(lines, at))
    if text.startswith(XML_BEGINS):
        return _document(lines, at, "xml", _xml_end(lines, at))
    if YAML_BEGINS.match(text):
        return _document(lines, at, "yaml", _yaml_end(lines, at))
    if _is_logged_yaml(lines, at):
        return _document(lines, at, "yaml", _logged_yaml_end(lines, at))
    following = lines[at + 1] if at + 1 < len(lines) else ""
    if text.startswith(QUERY_TEXT) or begins_plan(text, following):
        return _document(lines, at, "text", _text_end(lines, at))
    return Segment(at, at + 1, "", reason="outside a plan")


def _frame(lines: Sequence[str], header: int) -> Iterator[Segment]:
    """A heading with the plan below it."""
    at = header + 1
    if at < len(lines) and _RULE.match(lines[at]):
        at += 1
    yield Segment(header, at, "noise")
    end = at
    while end < len(lines) and lines[end].strip() and not _closes(lines[end]):
        end += 1
    if end == at:
        return
    bordered = any(border in lines[header] for border in _BORDERS)
    inside = [_unframed(line, bordered) for line in lines[at:end]]
    start = inside[0].lstrip()
    form = "json" if start[:1] in _OPENS else "xml" if start.startswith(XML_BEGINS) else "yaml"
    if form != "yaml" or YAML_BEGINS.match(start):
        marked = [_CONTINUES.sub("", line) for line in inside]
        found = _document(marked, 0, form, len(marked))
    else:
        found = _document(inside, 0, "text", len(inside))
    yield replace(found, first=at, end=end)


def _closes(line: str) -> bool:
    return bool(_RULE.match(line) or _FOOTER.match(line.strip()) or HEADER.match(line))


def _unframed(line: str, bordered: bool) -> str:
    """The text of a cell, without borders."""
    if not bordered:
        return line
    inside = line.rstrip()
    inside = inside[:-1].rstrip() if inside[-1:] and inside[-1] in _BORDERS else inside
    return inside[1:] if inside[:1] and inside[0] in _BORDERS else inside


def _document(lines: Sequence[str], at: int, form: str, end: int) -> Segment:
    """The plan or plans of some lines, or the reason why there are none."""
    try:
        plans = _READ[form](lines[at:end])
    except ValueError as error:
        return Segment(at, end, form, reason=f"not a plan of EXPLAIN: {error}")
    return Segment(at, end, form, [plan.finish() for plan in plans])


def _yaml(lines: Sequence[str]) -> list[Plan]:
    base = len(lines[0]) - len(lines[0].lstrip())
    return plans_of_yaml("\n".join(line[base:] for line in lines))


_READ: Final[dict[str, Callable[[Sequence[str]], list[Plan]]]] = {
    "json": lambda lines: plans_of_json("\n".join(lines)),
    "yaml": _yaml,
    "xml": lambda lines: plans_of_xml("\n".join(lines)),
    "text": lambda lines: [plan_of_text(lines)],
}


def _json_end(lines: Sequence[str], at: int) -> int:
    """Number of the line after the closing bracket, which is in the column of the opening one or ends its line."""
    closing = _OPENS[lines[at][0]]
    if len(lines[at]) > 2 and lines[at].endswith(closing):
        return at + 1
    return next((line + 1 for line in range(at + 1, len(lines)) if lines[line].startswith(closing)), len(lines))


def _xml_end(lines: Sequence[str], at: int) -> int:
    """Number of the line after the element; Citus puts the documents of tasks into it."""
    opened = accumulate(line.count(XML_BEGINS) - line.count(XML_ENDS) for line in lines[at:])
    return next((at + 1 + number for number, open_ in enumerate(opened) if open_ <= 0), len(lines))


def _yaml_end(lines: Sequence[str], at: int) -> int:
    """Number of the line after the last indented line; Citus leaves an empty line below the plan of a task."""
    known = (" ", "- Plan:", "- Query")
    later = range(at + 1, len(lines))
    end = next((line for line in later if lines[line].strip() and not lines[line].startswith(known)), len(lines))
    while not lines[end - 1].strip():
        end -= 1
    return end


def _logged_yaml_end(lines: Sequence[str], at: int) -> int:
    return next((line for line in range(at + 1, len(lines)) if not _LOGGED_YAML.match(lines[line])), len(lines))


def _text_end(lines: Sequence[str], at: int) -> int:
    """Number of the line after a plan outside any frame, which ends at an empty line or one that is not indented."""
    root = _root(lines, at) if lines[at].startswith(QUERY_TEXT) else at
    base = " " * (len(lines[root]) - len(lines[root].lstrip(" ")))
    end = root + 1
    while end < len(lines) and lines[end].strip():
        line = lines[end]
        indented = line.startswith((base + " ", "\t"))
        if line.startswith(QUERY_TEXT) or not (indented or SUMMARY.match(line.removeprefix(base))):
            break
        end += 1
    return end


def _root(lines: Sequence[str], at: int) -> int:
    """Number of the first line with costs below a query, which ends where the next begins; `at` if there is none."""
    end = next((line for line in range(at + 1, len(lines)) if lines[line].startswith(QUERY_TEXT)), len(lines))
    return next((line for line in range(at + 1, end) if WITH_NUMBERS.match(lines[line])), at)

"""A template: elements of a possible prefix, matched against all records of a sample."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from citus_analysis.formats.serverlog.pglog._prefix import Element

__all__ = ["Matched", "Template", "Values"]

#: Value of a slot in each record; None: the record has none, or it cannot be told where the value ends.
Values = list[str | None]
#: Most elements and characters of literals among which the place of `%q` is searched.
_MOST: Final = 150
#: Provisional escapes of slots that are empty in records of other processes than clients' backends.
_OF_CLIENTS: Final = frozenset({"?", "h", "r"})


@dataclass(frozen=True)
class Template:
    """Elements, of which those that are escapes are slots.

    Attributes:
        elements: with provisional escapes, which say what form a slot has.
        optional_from: first element of the part that `%q` introduces; their number if there is none.
    """

    elements: tuple[Element, ...]
    optional_from: int

    @cached_property
    def slots(self) -> list[int]:
        """Numbers of the elements that are slots."""
        return [number for number, element in enumerate(self.elements) if element.escape]

    def match(self, heads: Sequence[str]) -> Matched:
        """Match the texts before severities."""
        lazy, greedy = (re.compile(self._pattern(greedy=greedy)) for greedy in (False, True))
        unique = sum(self.elements[slot].is_text for slot in self.slots) < 2
        found = [lazy.fullmatch(head) for head in heads]
        columns: list[Values] = [[] for _ in self.slots]
        for head, match in zip(heads, found, strict=True):
            first = match.groups() if match else (None,) * len(self.slots)
            last = first if unique or match is None else _groups(greedy.fullmatch(head), len(self.slots))
            for column, one, other in zip(columns, first, last, strict=True):
                column.append(one if one == other else None)
        return Matched(self, [match is not None for match in found], columns)

    def _pattern(self, *, greedy: bool) -> str:
        parts = [element.pattern(named=False, greedy=greedy, group="(") for element in self.elements]
        tail = "".join(parts[self.optional_from :])
        return "".join(parts[: self.optional_from]) + (f"(?:{tail})?" if tail else "")

    def cut_for(self, heads: Sequence[str]) -> Template | None:
        """The template with a `%q` behind which these texts end; None if they end at different places.

        Processes other than clients' backends have no user, database, application and client.
        """
        elements = [
            piece
            for element in self.elements
            for piece in (element.single_characters() if element.literal else (element,))
        ]
        if len(elements) > _MOST:
            return None
        nested = ""
        for element in reversed(elements):
            value = "" if element.escape in _OF_CLIENTS else element.pattern(named=False)
            nested = f"(?:{value}(){nested})??"
        pattern = re.compile(nested)
        ends = {found.lastindex or 0 for head in heads if (found := pattern.fullmatch(head))}
        if len(ends) != 1 or not all(pattern.fullmatch(head) for head in heads):
            return None
        (end,) = ends
        if not 0 < end < len(elements):
            return None
        before = _joined(elements[:end])
        return Template((*before, *_joined(elements[end:])), len(before))


@dataclass(frozen=True)
class Matched:
    """What a template gives.

    Attributes:
        template: the template.
        fits: whether each text fits it.
        columns: the values of each slot.
    """

    template: Template
    fits: list[bool]
    columns: list[Values]


def _groups(found: re.Match[str] | None, count: int) -> tuple[str | None, ...]:
    return found.groups() if found else (None,) * count


def _joined(elements: Sequence[Element]) -> tuple[Element, ...]:
    """Adjacent literals as one."""
    joined: list[Element] = []
    for element in elements:
        if element.literal and joined and joined[-1].literal:
            joined[-1] = Element(literal=joined[-1].literal + element.literal)
        else:
            joined.append(element)
    return tuple(joined)

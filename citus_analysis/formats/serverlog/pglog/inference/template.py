"""A template: elements of a possible prefix, matched against all records of a sample."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from citus_analysis.formats.serverlog.pglog._prefix import Element

#: Value of a slot in each record; None: the record has none, or it is not known where the value ends.
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
        parts = [element.pattern(named=False, group="(") for element in self.elements]
        always, tail = ("".join(some) for some in (parts[: self.optional_from], parts[self.optional_from :]))
        lazy = re.compile(always + (f"(?:{tail})?" if tail else ""))
        found = [lazy.fullmatch(head) for head in heads]
        columns: list[Values] = [[] for _ in self.slots]
        for head, match in zip(heads, found, strict=True):
            first = _groups(match, len(self.slots))
            last = first if match is None or self._is_unique else self._latest(head)
            for column, one, other in zip(columns, first, last, strict=True):
                column.append(one if one == other else None)
        return Matched(self, [match is not None for match in found], columns)

    @cached_property
    def _is_unique(self) -> bool:
        """Whether there is at most one text, which can only end at the end of what is left."""
        return [self.elements[slot].is_text for slot in self.slots].count(True) < 2

    def _latest(self, head: str) -> tuple[str | None, ...]:
        """The values with texts as long as possible, with the optional part if that fits."""
        for count in dict.fromkeys((len(self.elements), self.optional_from)):
            found = re.fullmatch(self._greedy[count], head)
            if found:
                return _groups(found, len(self.slots))
        return (None,) * len(self.slots)

    @cached_property
    def _greedy(self) -> dict[int, re.Pattern[str]]:
        """Patterns of the first elements, all of them and those that are not optional, with long texts."""
        parts = [element.pattern(named=False, greedy=True, group="(") for element in self.elements]
        return {count: re.compile("".join(parts[:count])) for count in (len(parts), self.optional_from)}

    def cut_for(self, heads: Sequence[str]) -> Template | None:
        """The template with a `%q` after which these texts end; None if they end at different places.

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
        end = max(ends, default=0)
        if len(ends) != 1 or not all(map(pattern.fullmatch, heads)) or not 0 < end < len(elements):
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
    groups = found.groups() if found else ()
    return (*groups, *(None for _ in range(count - len(groups))))


def known_pairs(one: Values, other: Values) -> Iterator[tuple[str, str]]:
    """The values of two slots in the records that have both."""
    return ((a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None)


def add_element(elements: list[Element], element: Element) -> None:
    """Add an element to those before it; adjacent literals become one."""
    if element.literal and elements and elements[-1].literal:
        elements[-1] = Element(literal=elements[-1].literal + element.literal)
    else:
        elements.append(element)


def _joined(elements: Sequence[Element]) -> tuple[Element, ...]:
    joined: list[Element] = []
    for element in elements:
        add_element(joined, element)
    return tuple(joined)

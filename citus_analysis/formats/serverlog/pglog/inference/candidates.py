"""Templates from records whose literals are equal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

from citus_analysis.formats.serverlog.pglog._prefix import MAX_ELEMENTS, Element
from citus_analysis.formats.serverlog.pglog.inference.forms import form_of
from citus_analysis.formats.serverlog.pglog.inference.template import Template, add_element
from citus_analysis.formats.serverlog.pglog.inference.tokens import Token, skeleton, tokens
from citus_analysis.formats.serverlog.pglog.inference.vocabulary import KEYS, key_before

#: Groups of records of which templates are made: the largest, and those with the most slots.
_MOST_GROUPS: Final = 6
#: Escapes of texts: a word that means one of them may be such a text itself.
_OF_TEXTS: Final = frozenset("udah")
Group = list[list[Token]]


def candidates(heads: Sequence[str]) -> Iterator[Template]:
    """Templates, the most likely first.

    Args:
        heads: the different texts before severities.
    """
    seen = set()
    for dashed in (True, False):
        groups = _groups([tokens(head, dashed=dashed) for head in heads])
        for pieces, merged in product((True, False), (False, True)):
            # One text does not show whether a number is always 1.
            for group in groups if pieces else [group for group in groups if len(group) == 1]:
                template = _template(group, merged=merged, pieces=pieces)
                if template is not None and template not in seen:
                    seen.add(template)
                    yield template


def _groups(split: Sequence[list[Token]]) -> list[Group]:
    """Texts whose literals are equal: the largest groups, which decide most, then others."""
    by_literals: dict[tuple[str, ...], Group] = defaultdict(list)
    for one in split:
        by_literals[skeleton(one)].append(one)
    return sorted(by_literals.values(), key=len, reverse=True)[:_MOST_GROUPS]


def _template(group: Group, *, merged: bool, pieces: bool) -> Template | None:
    """The template of texts whose literals are equal.

    Args:
        group: the texts.
        merged: a text may go on over what looks like a separator.
        pieces: a number that is always 1 may be the constant of `%l-1`.
    """
    elements: list[Element] = []
    columns = [[one[place] for one in group] for place in range(len(group[0]))]
    said = _said_words(columns)
    for place, column in enumerate(columns):
        kind, text = column[0]
        if kind == "literal" or place in said or (pieces and _is_piece_number(elements, column)):
            add_element(elements, Element(literal=text.encode()))
            continue
        escape = _form_beside(elements, column)
        # Only a blank separates the slot from a text before it.
        after_text = len(elements) > 1 and elements[-1].literal == b" " and elements[-2].escape == "?"
        if merged and escape == "?" and after_text:
            elements.pop()
        else:
            elements.append(Element(escape))
    return Template(tuple(elements), len(elements)) if len(elements) < MAX_ELEMENTS else None


def _form_beside(elements: list[Element], column: list[Token]) -> str:
    """The form of a slot: any text beside a key that means one, whatever its values look like."""
    key = key_before(elements[-1].literal) if elements else None
    escape = form_of(column)
    return "?" if key in ("u", "d", "a") or (key == "h" and escape not in "hr") else escape


def _is_piece_number(elements: list[Element], column: list[Token]) -> bool:
    """Whether a number is the constant `1` of `%l-1`."""
    return (
        len(elements) > 1
        and elements[-1].literal == b"-"
        and elements[-2].escape == "#"
        and set(column) == {("number", "1")}
    )


def _said_words(columns: list[list[Token]]) -> set[int]:
    """Places of words that stand before a colon as keys, such as `user: `.

    A value can be such a word, too, so there must be several that mean texts.
    """
    found: dict[int, str] = {}
    for place, column in enumerate(columns[:-1]):
        kind, text = column[0]
        following = columns[place + 1][0]
        is_key = kind == "word" and len(text) > 1 and len(set(column)) == 1 and text.lower() in KEYS
        if is_key and following[0] == "literal" and following[1].startswith((":", " :", " = ")):
            found[place] = KEYS[text.lower()]
    several = len(set(found.values())) > 1
    return {place for place, letter in found.items() if several or letter not in _OF_TEXTS}

"""Plans of `EXPLAIN (FORMAT XML)`, by way of the document that JSON would be.

The names of elements are those of JSON with `-` for blanks and slashes; an element of a list is named after its kind
(`explain.c`, `ExplainOpenGroup`, `ExplainXMLTag`).
"""

from __future__ import annotations

from typing import Final
from xml.etree import ElementTree

from citus_analysis.formats.explain._documents import plans_of_document
from citus_analysis.formats.explain._items import Plan

XML_BEGINS: Final = "<explain"
XML_ENDS: Final = "</explain>"
#: Elements that are lists, whatever their number of children; Citus puts the document of a task into `Remote-Plan`.
_LISTS: Final = frozenset(
    {
        *("Plans", "Workers", "Triggers", "Tasks", "Subplans", "PlannedStmt", "Remote-Plan"),
        *("Dependent-Jobs", "Depended-Jobs"),
    }
)
_WORDS: Final = {"true": True, "false": False}
_DEEPEST: Final = 250


def plans_of_xml(text: str) -> list[Plan]:
    """The plans of one XML document.

    Raises:
        ValueError: it is not XML, or contains no plan.
    """
    if "<!" in text:
        # PostgreSQL prints none, and the expansion of entities may take any memory.
        raise ValueError("declarations of XML")
    try:
        document = ElementTree.fromstring(text)  # noqa: S314 - without declarations nothing can be expanded
    except ElementTree.ParseError as error:
        raise ValueError(f"no XML: {error}") from error
    return plans_of_document(_value(document, 0))


def _value(element: ElementTree.Element, depth: int) -> object:
    """An element as JSON would be: a list, a mapping, a text or a truth value."""
    if depth > _DEEPEST:
        raise ValueError("nested too deeply for a plan")
    name, children = _name(element), list(element)
    if name in _LISTS or (children and all(_name(child) in ("Query", "Item") for child in children)):
        return [_value(child, depth + 1) for child in children]
    if children:
        return {_key(_name(child)): _value(child, depth + 1) for child in children}
    text = element.text or ""
    return _WORDS.get(text, text)


def _name(element: ElementTree.Element) -> str:
    """The name without its namespace."""
    return element.tag.rpartition("}")[2]


def _key(name: str) -> str:
    return name.replace("-", " ").replace("I O ", "I/O ")

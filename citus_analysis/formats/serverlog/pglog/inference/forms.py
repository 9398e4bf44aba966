"""The form of a slot: a provisional escape, from the kinds of its values."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from citus_analysis.formats.serverlog.pglog.inference.template import Values
from citus_analysis.formats.serverlog.pglog.inference.tokens import EMPTY, Token, tokens

#: The form of an SQLSTATE.
STATE: Final = re.compile(r"[0-9A-Z]{5}")
#: Kinds of a slot's values -> provisional escape; any other set of kinds is text.
_FORMS: Final[dict[frozenset[str], str]] = {
    **{frozenset({kind}): escape for kind, escape in (("ms", "m"), ("second", "t"), ("epoch", "n"), ("session", "c"))},
    **{frozenset({"vxid", *more}): "v" for more in ((), (EMPTY,))},
    frozenset({"number"}): "#",
    # Of all numbers, only the leader of a parallel group may be absent.
    frozenset({"number", EMPTY}): "P",
    **{frozenset({"remote", *more}): "r" for more in ((), (EMPTY,), ("host",))},
    **{frozenset({"host", *more}): "h" for more in ((), (EMPTY,))},
    **{frozenset({"backend", *more}): "b" for more in ((), ("tag",))},
    **{frozenset({"tag", *more}): "i" for more in ((), (EMPTY,))},
}


def form_of(column: Collection[Token]) -> str:
    """The provisional escape of a slot with these values: `#` is a number, `?` any text.

    Example:
        >>> form_of([("number", "7")]), form_of([("vxid", "3/4"), ("empty", "")]), form_of([("number", "00000")])
        ('#', 'v', 'e')
    """
    texts = {text for _, text in column}
    if "00000" in texts and all(map(STATE.fullmatch, texts)):
        return "e"
    return _FORMS.get(frozenset(kind for kind, _ in column), "?")


def form_of_values(values: Values) -> str:
    """The provisional escape of a slot of text, from what its values in all records look like."""
    found: set[Token] = set()
    for value in {value for value in values if value is not None}:
        parts = tokens(value) or [(EMPTY, "")]
        if len(parts) != 1 or parts[0][0] == "literal":
            return "?"
        found.add(parts[0])
    return form_of(found)

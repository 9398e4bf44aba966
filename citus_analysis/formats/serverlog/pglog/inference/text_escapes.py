"""Which of the escapes of texts a slot is: user, database, application, client."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

from citus_analysis.formats.serverlog.pglog._prefix import ADDRESS_PATTERN
from citus_analysis.formats.serverlog.pglog.inference.session_facts import Facts
from citus_analysis.formats.serverlog.pglog.inference.template import Values
from citus_analysis.formats.serverlog.pglog.inference.tokens import Token, tokens

#: What user, database and application are before they are known.
UNSET: Final = ("[unknown]", "")
_LETTERS: Final = "uda"
_TELLING: Final = frozenset({"ms", "second", "epoch", "session", "remote", "vxid"})
_HALF: Final = 0.5
#: An address beside other text, with which it is two fields; an application may have one after a blank.
_ADDRESS: Final = re.compile(rf"(?<! ){ADDRESS_PATTERN}(?:\([0-9]+\))?")


def escape_of_text(values: Values, facts: Sequence[Facts], key: str | None, *, composite: bool) -> str:
    """`u`, `d`, `a`, `h`, `r`, or `?` if that is not proven.

    Proven is what the word beside it says, if no message contradicts it, or what messages say, if they exclude all
    other escapes.

    Args:
        values: values of the slot.
        facts: what is known of each record.
        key: escape that the word beside the slot means.
        composite: whether the values may be several fields.
    """
    possible = {letter: agreement(values, facts, letter, keyed=letter == key) for letter in _LETTERS}
    if key in ("u", "d", "a"):
        return key if possible[key] or (possible[key] is None and not composite) else "?"
    host = host_escape(values, facts)
    if key == "h":
        return "?" if host is None or (composite and not host) else host or _form(values)
    if key is not None:
        return "?"
    proven = [letter for letter, agrees in possible.items() if agrees]
    others = [letter for letter, agrees in possible.items() if agrees is None]
    if len(proven) == 1 and not others and not host:
        return proven[0]
    return host if host and not proven else "?"


def is_composite(values: Values, separators: Collection[str]) -> bool:
    """Whether values may be several fields: all of them contain what separates fields, or most of them a time or a key.

    A field that is not set shows that there is only one.
    """
    said = {value for value in values if value}
    if not said or UNSET[0] in said:
        return False
    if any(_ADDRESS.search(value) and not _ADDRESS.fullmatch(value) for value in said):
        return True
    if any(all(separator in value for value in said) for separator in separators):
        return True
    several = sum(len(found) > 1 and any(_is_telling(one) for one in found) for found in map(tokens, said))
    return several > _HALF * len(said)


def _is_telling(token: Token) -> bool:
    kind, text = token
    return kind in _TELLING or (kind == "literal" and "=" in text)


def agreement(values: Values, facts: Sequence[Facts], letter: str, *, keyed: bool = False) -> bool | None:
    """Whether messages prove that a slot is this escape (true), exclude it (false), or neither.

    Args:
        values: values of the slot.
        facts: what is known of each record.
        letter: the escape.
        keyed: a word beside the slot means this escape. Then a value that is set too early excludes it only if no
            message states the value: somebody may have edited the log.
    """
    seen = early = False
    for value, known in zip(values, facts, strict=True):
        if value is None:
            continue
        if known.client is False and value:
            return False
        if value not in UNSET and (known.stage == "received" or (letter == "a" and known.stage == "authorized")):
            # Users and databases are known after a connection is received, applications after it is authorized.
            early = True
        elif letter != "a" and known.stage != "received" and letter in known.values:
            if value != known.values[letter]:
                return False
            seen = True
    agreed = _is_set_late(values, facts) if letter == "a" else seen
    return False if early and not (keyed and agreed) else agreed or None


def _is_set_late(values: Values, facts: Sequence[Facts]) -> bool:
    """Whether values are what only an application is: that of the connection, or not yet set when it is authorized."""
    said = [(value, known) for value, known in zip(values, facts, strict=True) if value is not None]
    if any(value not in UNSET and value == known.values.get("a") for value, known in said):
        return True
    late = any(known.stage == "authorized" for _, known in said)
    return late and any(value not in UNSET for value, known in said)


def _form(values: Values) -> str:
    """`r` if clients have ports, else `h`."""
    return "r" if any(value and value.endswith(")") for value in values) else "h"


def host_escape(values: Values, facts: Sequence[Facts]) -> str | None:
    """`h` or `r` if messages name the client so, or an empty text if they name none; None if they name another."""
    found = False
    for value, known in zip(values, facts, strict=True):
        if value is None or "h" not in known.values:
            if value and known.client is False:
                return None
            continue
        host, port = known.values["h"], known.values.get("port")
        if value == f"{host}({port})" or value == host:
            found = True
        elif value:
            return None
    return _form(values) if found else ""

"""The escape of each slot of a template, as far as the records prove it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from citus_analysis.formats.serverlog.pglog._prefix import Element
from citus_analysis.formats.serverlog.pglog.inference.forms import form_of_values
from citus_analysis.formats.serverlog.pglog.inference.number_escapes import (
    find_lines,
    find_process,
    is_state,
    is_virtual_transaction,
)
from citus_analysis.formats.serverlog.pglog.inference.sample import Record
from citus_analysis.formats.serverlog.pglog.inference.session_facts import Facts, facts_of
from citus_analysis.formats.serverlog.pglog.inference.template import Matched, Values
from citus_analysis.formats.serverlog.pglog.inference.text_escapes import (
    UNSET,
    agreement,
    escape_of_text,
    host_escape,
    is_composite,
)
from citus_analysis.formats.serverlog.pglog.inference.time_escapes import second_escapes
from citus_analysis.formats.serverlog.pglog.inference.vocabulary import key_before

_BRACKETS: Final = frozenset({b"[]", b"()", b"{}", b"<>"})
_CLOSING: Final = frozenset({b"]", b")", b"}"})
#: A key with a bracket that is not closed, and what follows.
_OPEN: Final = re.compile(rb"\w=[\[({<]([^\])}>]*)$")
_SEPARATOR: Final = re.compile(rb"[^\w\[\](){}<>'\"]*(?=$|\w)")
_OPENING: Final = frozenset({b"[", b"(", b"{"})
_NAMES: Final = {"u": "user", "d": "database", "a": "application", "h": "client"}
_LARGE: Final = 2**32


@dataclass(frozen=True)
class Fields:
    """The escapes of the slots of a template.

    Attributes:
        escapes: `?` and `#` for texts and numbers whose escape is not known, and which give no column.
        shown: the letters to print; `?` for an unknown one.
        undecided: what each unknown one may be.
        begins_session: whether the first text is a field of sessions, even if it is not known which one.
    """

    escapes: tuple[str, ...]
    shown: tuple[str, ...]
    undecided: tuple[str, ...]
    begins_session: bool = False

    def without_columns(self) -> Fields:
        """The same with times as the only known fields."""
        unknown = {**dict.fromkeys("udahr", "?"), **dict.fromkeys("pl", "#")}
        escapes = tuple(unknown.get(escape, escape) for escape in self.escapes)
        shown = tuple(
            "?" if escape in unknown else letter for escape, letter in zip(self.escapes, self.shown, strict=True)
        )
        doubt = "fields of a prefix that fits less than half of the records"
        return Fields(escapes, shown, (*self.undecided, doubt))


def named_fields(matched: Matched, records: Sequence[Record]) -> Fields:
    """The escape of each slot, as far as it is proven."""
    slots = _Slots(matched, records)
    slots.name_numbers()
    slots.name_times()
    slots.name_texts()
    return slots.result()


class _Slots:
    """The slots of a template, whose escapes are found one kind after the other."""

    def __init__(self, matched: Matched, records: Sequence[Record]) -> None:
        template = matched.template
        self._columns = dict(zip(template.slots, matched.columns, strict=True))
        self._escapes = {slot: template.elements[slot].escape for slot in template.slots}
        self._elements, self._records = template.elements, records
        self._keys = {slot: key for slot in template.slots if (key := self._key(slot)) is not None}
        self._separators = {
            _separator(element.literal)
            for before, element, after in zip(
                template.elements, template.elements[1:], template.elements[2:], strict=False
            )
            if before.escape and after.escape
        } - {""}
        self._processes: Values = [None] * len(records)
        for slot, values in [*self._of("?").items(), *self._of("h").items(), *self._of("r").items()]:
            # Texts fit where some records have no value; numbers and times are never absent.
            self._escapes[slot] = form if (form := form_of_values(values)) in "vhrbi" else "?"
        self._undecided: dict[int, str] = {}
        self._shown: dict[int, str] = {}

    def _key(self, slot: int) -> str | None:
        """The escape that the word beside a slot means; an empty text for an unknown word.

        The `-1` of `%l-1`, which makes lines look like those of syslog, is such a word, too.
        """
        if slot + 1 < len(self._elements) and re.match(rb"-1(?![0-9])", self._elements[slot + 1].literal):
            return "l"
        return key_before(self._elements[slot - 1].literal if slot else b"")

    def _of(self, escape: str) -> dict[int, Values]:
        return {slot: values for slot, values in self._columns.items() if self._escapes[slot] == escape}

    def name_numbers(self) -> None:
        """Process, line, SQLSTATE and virtual transaction."""
        numbers, sessions = self._of("#"), list(self._of("c").values())
        apart = {slot: values for slot, values in numbers.items() if slot in self._keys or not self._is_part(slot)}
        process = find_process(numbers if sessions else apart, self._keys, sessions, self._records)
        if process is not None:
            self._escapes[process] = "p"
            for slot, values in numbers.items():
                if values == self._columns[process] and len(set(values)) > 1:
                    self._escapes[slot] = "p"
            self._processes = self._columns[process]
        elif sessions:
            self._processes = sessions[0]
        lines = find_lines(self._of("#"), self._keys, self._processes)
        # Of two that differ, one is the number that another program gave.
        alike = len({tuple(self._columns[slot]) for slot in lines}) == 1
        for slot in lines if alike else ():
            self._escapes[slot] = "l"
        for slot, values in self._of("#").items():
            self._name_other_number(slot, values)
        self._check_forms(known=process is not None or bool(sessions))

    def _check_forms(self, *, known: bool) -> None:
        """Leave SQLSTATE and virtual transaction undecided where keys or values say otherwise."""
        for slot, values in self._of("e").items():
            if self._keys.get(slot, "e") not in ("e", "") or not is_state(values, self._records):
                self._escapes[slot] = "?"
        for slot, values in self._of("v").items():
            if self._keys.get(slot, "v") not in ("v", "") or not (known or is_virtual_transaction(values)):
                self._escapes[slot] = "?"

    def _is_part(self, slot: int) -> bool:
        """Whether a number is one of several around slashes, which may be a virtual transaction, or a port."""
        elements = self._elements
        if slot > 1 and elements[slot - 1].literal == b"(":
            return True
        return any(
            elements[between].literal == b"/" and elements[other].escape == "#"
            for between, other in ((slot - 1, slot - 2), (slot + 1, slot + 2))
            if 0 <= other < len(elements)
        )

    def _name_other_number(self, slot: int, values: Values) -> None:
        """Transaction, query, leader: they give no column, so it does not matter which of them it is."""
        key = self._keys.get(slot, "")
        said = [int(value) for value in values if value and value != "-"]
        if key in ("x", "Q", "P"):
            self._shown[slot] = key
        elif said and (min(said) < 0 or max(said) > _LARGE):
            self._shown[slot] = "Q"
        elif said and "0" not in values:
            self._undecided[slot] = "process, line, transaction or query"

    def name_times(self) -> None:
        """The time of the record, or the start of its process."""
        milliseconds = [*self._of("m").values(), *self._of("n").values()]
        sessions = list(self._of("c").values())
        for slot, escape in second_escapes(self._of("t"), milliseconds, sessions, self._processes).items():
            self._escapes[slot] = escape
            if escape == "?":
                self._undecided[slot] = "time of the record or start of its process"

    def name_texts(self) -> None:
        """User, database, application, client."""
        facts = facts_of(self._records, self._processes)
        texts = [slot for escape in "?hr" for slot in self._of(escape) if slot not in self._undecided]
        for slot in sorted(texts):
            self._name_text(slot, facts)
        for slot in sorted(texts):
            self._name_pair(slot, facts)
        for slot in sorted(texts):
            self._doubt_interrupted(slot, facts)
            self._doubt_second_client(slot, facts)

    def _name_text(self, slot: int, facts: Sequence[Facts]) -> None:
        values, key, form = self._columns[slot], self._keys.get(slot), self._escapes[slot]
        if all(value is None for value in values) or self._is_cut(slot):
            self._doubt({slot})
            return
        composite = is_composite(values, () if self._is_enclosed(slot) else self._separators)
        escape = escape_of_text(values, facts, key or None, composite=composite)
        known = key in (None, "", "h") and host_escape(values, facts) is not None and not composite
        if escape == "?" and form in "hr" and known:
            # An address at the beginning may be the server's own.
            own = slot > 1 or self._is_of_sessions(slot, facts)
            escape = form if own and not self._ends_bracket(slot) else "?"
        self._escapes[slot] = escape
        if escape == "?" and any(values):
            may = [
                name
                for letter, name in _NAMES.items()
                if letter != "h" and agreement(values, facts, letter) is not False
            ]
            may += [_NAMES["h"]] if host_escape(values, facts) is not None else []
            self._undecided[slot] = " or ".join((*may, "other text"))
        else:
            self._undecided.pop(slot, None)

    def _is_of_sessions(self, slot: int, facts: Sequence[Facts]) -> bool:
        """Whether a text at the beginning is a field of sessions, not the name of a host that wrote the lines.

        Each process has one value, and values alternate, while hosts come in long stretches; or some records have no
        value, which no host would leave out.
        """
        said = [
            (value, process, known.client)
            for value, process, known in zip(self._columns[slot], self._processes, facts, strict=True)
            if value is not None and process is not None
        ]
        of_process: dict[str, set[str]] = {}
        for value, process, _ in said:
            of_process.setdefault(process, set()).update({value}.difference(UNSET))
        own = any(client is False and value.strip() for value, _, client in said)
        values = [value for value, _, _ in said]
        if own or len(set(values)) < 2 or any(len(found) > 1 for found in of_process.values()):
            return False
        if not {*UNSET, "[local]"}.isdisjoint(value.strip() for value in values):
            return True
        following = self._elements[slot + 1].literal if slot + 1 < len(self._elements) else b""
        marked = self._escapes[slot] == "?" and following[:1] in (b":", b"|", b"]", b">")
        stretches = 1 + sum(one != other for one, other in pairwise(values))
        return not marked and stretches > 2 * len(set(values))

    def begins_session(self) -> bool:
        """Whether the first text is a field of sessions."""
        first = min(self._escapes, default=None)
        if first is None or first > 1 or self._escapes[first] not in "?hruda":
            return False
        return self._is_of_sessions(first, facts_of(self._records, self._processes))

    def _is_cut(self, slot: int) -> bool:
        """Whether a slot is one of several in brackets that have one key: their whole text is one value."""
        before = b"\0".join(element.literal for element in self._elements[:slot])
        found = _OPEN.search(before)
        following = self._elements[slot + 1].literal if slot + 1 < len(self._elements) else b""
        return found is not None and (b"\0" in found[1] or following[:1] not in _CLOSING)

    def _ends_bracket(self, slot: int) -> bool:
        """Whether a bracket that began before another text is closed after a slot: it may be part of that text."""
        inside = not self._is_enclosed(slot) or self._elements[slot - 1].literal[-1:] not in _OPENING
        after = self._elements[slot + 1 : slot + 2]
        return slot > 1 and inside and any(element.literal[:1] in _CLOSING for element in after)

    def _is_open(self, slot: int, last: int) -> bool:
        """Whether a bracket before a slot is not closed directly after the last of several."""
        before, after = self._elements[slot - 1].literal, self._elements[last + 1 : last + 2]
        return before[-1:] in _OPENING and not any(element.literal[:1] in _CLOSING for element in after)

    def _is_enclosed(self, slot: int) -> bool:
        """Whether a slot is alone in brackets."""
        sides = self._elements[slot - 1 : slot] + self._elements[slot + 1 : slot + 2]
        ends = [side.literal for side in sides]
        return len(ends) > 1 and (ends[0][-1:] + ends[1][:1] in _BRACKETS or ends[1][:1] in _CLOSING)

    def _doubt_interrupted(self, slot: int, facts: Sequence[Facts]) -> None:
        """A text or an address without a key among fields with keys may be the end of the text before it."""
        before = slot - 2
        between = any(one > slot for one in self._keys) and before in self._keys and slot not in self._keys
        named = self._escapes.get(before, "")
        if not between or self._escapes[slot] not in "?hr" or named not in _NAMES:
            return
        if not host_escape(self._columns[slot], facts) and not agreement(self._columns[before], facts, named):
            self._doubt({slot, before})

    def _doubt_second_client(self, slot: int, facts: Sequence[Facts]) -> None:
        """An address that is not the client that another field names may be the end of the text before it."""
        values = [_without_port(value) for value in self._columns[slot]]
        if self._escapes[slot] not in "hr" or host_escape(self._columns[slot], facts):
            return
        others = [self._columns[one] for one, escape in self._escapes.items() if escape in "hr" and one != slot]
        shown = [(_without_port(one), value) for other in others for one, value in zip(other, values, strict=True)]
        if any(one not in (None, value) for one, value in shown):
            named = {one for one, escape in self._escapes.items() if escape in _NAMES or escape == "r"}
            self._doubt({slot, slot - 2} & named)

    def _doubt(self, slots: set[int]) -> None:
        for slot in slots:
            self._escapes[slot], self._undecided[slot] = "?", "part of a text"

    def _name_pair(self, slot: int, facts: Sequence[Facts]) -> None:
        """Text, `@` and text are user and database, as a key would say, if no message says otherwise.

        Not where there is another user or database, or where a value may be several fields.
        """
        other = slot + 2
        pair = {slot: "u", other: "d"}
        if other not in self._escapes or self._elements[slot + 1].literal != b"@" or slot in self._keys:
            return
        if self._elements[other + 1 : other + 2] == (Element(literal=b"-"),) or self._is_open(slot, other):
            return
        named = [self._escapes[one] for one in self._escapes if one not in pair]
        if any(self._escapes[one] not in ("?", letter) or letter in named for one, letter in pair.items()):
            return
        if any(is_composite(self._columns[one], {"@", *self._separators}) for one in pair):
            return
        if all(agreement(self._columns[one], facts, letter) is not False for one, letter in pair.items()):
            for one, letter in pair.items():
                self._escapes[one] = letter
                self._undecided.pop(one, None)

    def result(self) -> Fields:
        """The escapes."""
        slots = sorted(self._escapes)
        escapes = tuple(self._escapes[slot] for slot in slots)
        unknown = {slot for slot in slots if self._escapes[slot] in "?#" and slot not in self._shown}
        shown = tuple("?" if slot in unknown else self._shown.get(slot, self._escapes[slot]) for slot in slots)
        undecided = tuple(self._undecided[slot] for slot in slots if slot in self._undecided)
        return Fields(escapes, shown, undecided, self.begins_session())


def _separator(literal: bytes) -> str:
    """What separates two fields: a text without words and brackets, or the part of it before a key that is no blank."""
    found = _SEPARATOR.match(literal)
    said = found[0].decode() if found else ""
    return said.strip() or (" " if said and said.encode() == literal else "")


def _without_port(value: str | None) -> str | None:
    return None if value is None else value.partition("(")[0]

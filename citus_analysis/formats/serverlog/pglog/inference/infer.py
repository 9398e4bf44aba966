"""The prefix of a log, inferred from a sample of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Final

from citus_analysis.formats.serverlog.pglog._prefix import Element, Prefix
from citus_analysis.formats.serverlog.pglog.inference.candidates import candidates
from citus_analysis.formats.serverlog.pglog.inference.sample import Record, mark_of, records_of
from citus_analysis.formats.serverlog.pglog.inference.session_facts import own_facts
from citus_analysis.formats.serverlog.pglog.inference.slot_escapes import Fields, named_fields
from citus_analysis.formats.serverlog.pglog.inference.template import Matched, Template

#: Templates that are tried.
_MOST: Final = 14
#: Different texts from which templates are made.
_DIFFERENT: Final = 200
_TIMES: Final = frozenset("mtnc")
_STAMPS: Final = frozenset("mn")
_OF_CLIENTS: Final = frozenset("?udahr")
#: A file that holds itself twice has at least so many records in each half.
_DOUBLED: Final = 5
#: Lines that are searched for the text before records.
_LOOKED_AT: Final = 400
#: Share of the records that a template must fit for its fields to be believed.
_LEAST: Final = 0.5
_BYTES_OF_ADDRESSES: Final = b"0123456789abcdefABCDEF:.("


@dataclass(frozen=True)
class _Assessed:
    """A template with the escapes of its slots."""

    matched: Matched
    fields: Fields

    @property
    def rank(self) -> tuple[bool, int, int, int, int]:
        """Larger is better: with a time, records that fit, whole stamps, few texts not decided, few texts."""
        texts = [escape for escape in self.fields.escapes if escape in "?udahr"]
        timed = bool(_TIMES & set(self.fields.escapes))
        stamps = sum(escape in _STAMPS for escape in self.fields.escapes)
        return timed, sum(self.matched.fits), stamps, -texts.count("?"), -len(texts)


@lru_cache(maxsize=16)
def infer_prefix(sample: str) -> Prefix | None:
    r"""The prefix of the records in a sample; None if they have none that can be distinguished from other text.

    Example:
        >>> inferred = infer_prefix("2026-11-20 21:03:47.877 UTC [7] db=a LOG:  ready\\n")
        >>> inferred.text
        '%m [%p] db=%d '
    """
    # Records that are there twice, one after the other or in a doubled file, say nothing about how numbers behave.
    records = [record for record, _ in groupby(records_of(sample))]
    half = len(records) // 2
    records = records[:half] if half >= _DOUBLED and records[:half] == records[half:] else records
    best = _best(records)
    if best is None:
        return None
    if sum(best.matched.fits) < _LEAST * len(records):
        best = replace(best, fields=best.fields.without_columns())
    prefix = _prefix(best)
    if not any(own_facts(record).client is False for record in records):
        prefix = _with_assumed_part(prefix)
    if (prefix.wrapped or best.fields.begins_session) and _is_before_all_lines(prefix, sample):
        return None
    timed = bool(_TIMES & {element.escape for element in best.matched.template.elements})
    return prefix if timed or _is_prefix(prefix) else None


def _best(records: Sequence[Record]) -> _Assessed | None:
    different = list(dict.fromkeys(record.head for record in records))
    if len(different) > _DIFFERENT:
        different = different[:: len(different) // _DIFFERENT + 1]
    best: _Assessed | None = None
    for number, template in enumerate(candidates(different)):
        found = _assessed(template, records)
        if best is None or found.rank > best.rank:
            best = found
        complete = all(best.matched.fits) and "?" not in best.fields.escapes
        if complete or number == _MOST:
            break
    return best


def _assessed(template: Template, records: Sequence[Record]) -> _Assessed:
    matched = _with_addresses(_with_absent_part(template.match([record.head for record in records]), records), records)
    return _Assessed(matched, named_fields(matched, records))


def _with_absent_part(matched: Matched, records: Sequence[Record]) -> Matched:
    """The template with `%q`, if that explains the records that do not fit, and no client wrote them."""
    others = [record for record, fits in zip(records, matched.fits, strict=True) if not fits]
    heads = list(dict.fromkeys(record.head for record in others))
    if not others or any(own_facts(record).client for record in others):
        others = [record for record in others if not own_facts(record).client]
        heads = list(dict.fromkeys(record.head for record in others))
    if not heads:
        return matched
    cut = matched.template.cut_for(heads[:20])
    if cut is None:
        return matched
    better = cut.match([record.head for record in records])
    return better if sum(better.fits) > sum(matched.fits) else matched


def _with_addresses(matched: Matched, records: Sequence[Record]) -> Matched:
    """The template with clients that are addresses, if that tells where texts end."""
    if _unsure(matched) == 0:
        return matched
    elements = list(matched.template.elements)
    for place, element in enumerate(elements[:-1]):
        following = elements[place + 1].literal
        ends_address = following and following[0] not in _BYTES_OF_ADDRESSES
        if element.escape in ("h", "r") and not element.padding and ends_address:
            elements[place] = replace(element, address=True)
    template = replace(matched.template, elements=tuple(elements))
    if template == matched.template:
        return matched
    other = template.match([record.head for record in records])
    return other if sum(other.fits) == sum(matched.fits) and _unsure(other) < _unsure(matched) else matched


def _unsure(matched: Matched) -> int:
    """Values of which it is not known where they end, or that are absent."""
    return sum(value is None for column in matched.columns for value in column)


def _prefix(best: _Assessed) -> Prefix:
    template, fields = best.matched.template, best.fields
    elements = list(template.elements)
    shown: list[str] = []
    slots = dict(zip(template.slots, zip(fields.escapes, fields.shown, strict=True), strict=True))
    for place, element in enumerate(elements):
        if place == template.optional_from:
            shown.append("%q")
        if place in slots:
            escape, letter = slots[place]
            elements[place] = replace(element, escape=escape, address=element.address and escape in "hr?")
            shown.append(f"%{element.padding or ''}{letter}")
        else:
            shown.append(element.literal.decode().replace("%", "%%"))
    return Prefix(
        "".join(shown),
        tuple(elements),
        template.optional_from,
        inferred=True,
        undecided=fields.undecided,
        wrapped=_is_wrapped(elements, begins_session=fields.begins_session),
    )


#: A key or a bracket before a field.
_OPENING: Final = re.compile(r"[\[({<\"']?(?:[A-Za-z_][\w-]*\s*[=:]\s*)?[\[({<\"']?$")


def _with_assumed_part(prefix: Prefix) -> Prefix:
    """The prefix with a part that may be absent: from the first field on that only clients have.

    In a sample without records of other processes, a `%q` cannot be seen. Without one, these records have all literals.
    """
    elements = prefix.elements
    first = next((place for place, element in enumerate(elements) if place and element.escape in _OF_CLIENTS), 0)
    if not first or prefix.optional_from < len(elements):
        return prefix
    before = elements[first - 1].literal.decode()
    found = _OPENING.search(before)
    at = found.start() if found else len(before)
    split = [Element(literal=part.encode()) for part in (before[:at], before[at:]) if part]
    whole = (*elements[: first - 1], *split, *elements[first:]) if before else elements
    return replace(prefix, elements=whole, optional_from=first - bool(before) + bool(before[:at]))


_FIELDS: Final = frozenset("pludahrve")
_KEY: Final = re.compile(r"[\W_]*(?:[A-Za-z_][\w-]*\W*[=:]\W*)?")


def _is_wrapped(elements: Sequence[Element], *, begins_session: bool) -> bool:
    """Whether records begin with a text that is neither a key nor a field."""
    if not elements:
        return False
    first = elements[0]
    if first.literal and not _KEY.fullmatch(first.literal.decode()):
        return True
    begin = first if first.escape else elements[1] if len(elements) > 1 else first
    return begin.escape == "?" and not begins_session


def _is_before_all_lines(prefix: Prefix, sample: str) -> bool:
    """Whether the text that begins the records is also before lines that continue them, or is part of JSON."""
    times = [place for place, element in enumerate(prefix.elements) if element.escape in _TIMES]
    lead = prefix.elements[: times[0] if times else 0]
    if not lead or any(b'"' in element.literal for element in lead):
        return bool(lead)
    begins = re.compile("".join(element.pattern(named=False) for element in lead) + r"(?=[\t ]|#011)")
    further = (line for line in sample.split("\n")[:_LOOKED_AT] if mark_of(line) is None)
    return any(begins.match(line) for line in further if not line.startswith((" ", "\t")))


def _is_prefix(prefix: Prefix) -> bool:
    """Whether a text before a severity is a server's: none, several fields, or one with a key."""
    fields = [element.escape in _FIELDS for element in prefix.elements]
    keyed = len(fields) > 1 and fields[1] and _KEY.fullmatch(prefix.elements[0].literal.decode()) is not None
    escapes = {element.escape for element in prefix.elements if element.escape}
    return not prefix.elements or len(escapes & _FIELDS) > 1 or (keyed and b"=" in prefix.elements[0].literal)

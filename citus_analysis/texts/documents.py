"""Reading of YAML and JSON that others wrote: the one way to documents of files in this package.

Both take time and memory proportional to the document, which has limits, and one exception says what is wrong.
libyaml builds objects by recursion in C and follows aliases without counting, so a file of a few kilobytes can crash
the process or expand to billions of values. The parser's events show both in advance: they are checked one by one, and
objects are built only from harmless documents.

Example:
    >>> parse_yaml(b"threads: [4, 16]")
    {'threads': [4, 16]}
    >>> parse_yaml(b"[" * 100_000)
    Traceback (most recent call last):
    ...
    citus_analysis.texts.documents.ExcessError: line 1: nested more than 32 levels deep
    >>> parse_json(b'{"threads": [4, 16]}')
    {'threads': [4, 16]}
    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
    ...
    citus_analysis.texts.documents.ExcessError: nested more than 100 levels deep
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import yaml

from citus_analysis.errors import FormatError
from citus_analysis.texts.words import pluralize

if TYPE_CHECKING:
    from pydantic import ValidationError

#: Files written by hand or by the runner have a few kilobytes.
YAML_LIMIT_BYTES: Final = 2**20
_DEEPEST: Final = 32
#: Documents of tools (plans of hundreds of joins are the deepest) are below a tenth of the depth at which Python stops.
_DEEPEST_JSON: Final = 100
#: A value takes up to 100 bytes of memory.
_MOST_JSON_VALUES: Final = 4_000_000
_JSON_LIMIT_BYTES: Final = 256 * 2**20
_MOST_VALUES: Final = 100_000
#: PyYAML multiplies base 60 numbers out digit by digit, and Python prints no integer of more than 4,300 digits.
_LONGEST_NUMBER: Final = 1_000
_NUMBER_STARTS: Final = frozenset("0123456789+-.")

#: libyaml's loader is ten times as fast, but not part of every build of PyYAML.
_LOADER: Final[type[yaml.SafeLoader]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_JSON_TEXT: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_NO_BRACKETS: Final = bytes(code for code in range(256) if code not in b"[]{}")


#: A document whose reader examines its form, with an exception for every form that it does not know.
UncheckedDocument: TypeAlias = Any


class ExcessError(FormatError):
    """A document is too long, too deep or has too many values to be read; it may be correct."""


def parse_json(
    data: bytes | str,
    *,
    deepest: int = _DEEPEST_JSON,
    limit_bytes: int = _JSON_LIMIT_BYTES,
    most_values: int = _MOST_JSON_VALUES,
) -> UncheckedDocument:
    """The one document in `data`, as Python's plain types.

    Args:
        data: the document.
        deepest: number of levels that it may have.
        limit_bytes: its greatest length.
        most_values: number of values that it may have.

    Raises:
        ExcessError: the document exceeds a limit.
        FormatError: it is not JSON.
    """
    if len(data) > limit_bytes:
        raise ExcessError(f"longer than {limit_bytes:,} bytes")
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    levels, values = raw.count(b"[") + raw.count(b"{"), raw.count(b",") + 1
    if levels > deepest or levels + values > most_values:
        # Texts may hold brackets and commas, too.
        bare = _JSON_TEXT.sub(b"", raw)
        if bare.count(b"[") + bare.count(b"{") + bare.count(b",") + 1 > most_values:
            raise ExcessError(f"more than {most_values:,} values")
        if _find_depth(bare.translate(None, _NO_BRACKETS)) > deepest:
            raise ExcessError(f"nested more than {deepest} levels deep")
    try:
        return json.loads(data)  # noqa: TID251 - the one place that may
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not JSON: {error}") from error


def describe_validation_error(error: ValidationError) -> tuple[str, tuple[int | str, ...]]:
    """The first problem of a document that pydantic refuses, with the number of others, and its place."""
    first = error.errors(include_url=False, include_context=False)[0]
    others = f"; {pluralize(error.error_count() - 1, 'further problem')}" if error.error_count() > 1 else ""
    # Pydantic's own words precede those of a validator.
    return first["msg"].removeprefix("Value error, ") + others, first["loc"]


def _find_depth(brackets: bytes) -> int:
    """The number of levels that brackets open."""
    import numpy as np

    opens = np.isin(np.frombuffer(brackets, np.uint8), (*b"[{",))
    return int(np.cumsum(np.where(opens, 1, -1).astype(np.int8), dtype=np.int32).max(initial=0))


def parse_yaml(data: bytes, *, deepest: int = _DEEPEST) -> object:
    """The one document in `data`, as Python's plain types; None if it is empty.

    Args:
        data: the document.
        deepest: number of levels that it may have.

    Raises:
        ExcessError: the document exceeds `YAML_LIMIT_BYTES`, `deepest` levels, or 100,000 values with aliases expanded.
        FormatError: it is not YAML.
    """
    if len(data) > YAML_LIMIT_BYTES:
        raise ExcessError(f"longer than {YAML_LIMIT_BYTES:,} bytes")
    try:
        _refuse_excess(data, deepest)
        loaded: object = yaml.load(data, _LOADER)  # noqa: S506, TID251 - a safe loader
    except (yaml.YAMLError, ValueError, ArithmeticError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise FormatError(f"not YAML: {problem}", place=f"line {mark.line + 1}" if mark else None) from error
    return loaded


@dataclass
class _Extent:
    """Number of values in the document so far, with aliases expanded.

    Attributes:
        deepest: number of levels that it may have.
        open: for each open collection, its anchor and the number of values before it.
        named: number of values of each anchor.
    """

    deepest: int
    values: int = 0
    open: list[tuple[str | None, int]] = field(default_factory=list)
    named: dict[str, int] = field(default_factory=dict)

    def add(self, event: yaml.Event) -> str | None:
        """Count an event; return the reason to reject the document, or None."""
        before = self.values
        if isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in self.open):
                return f"{event.anchor!r} contains itself"
            self.values += self.named.get(event.anchor or "", 1)
        elif isinstance(event, yaml.ScalarEvent):
            self.values += 1
            self._name(event.anchor, before)
            if _is_long_number(event):
                return f"a number of more than {_LONGEST_NUMBER:,} digits"
        elif isinstance(event, yaml.CollectionStartEvent):
            self.values += 1
            self.open.append((event.anchor, before))
        elif isinstance(event, yaml.CollectionEndEvent):
            self._name(*self.open.pop())
        if len(self.open) > self.deepest:
            return f"nested more than {self.deepest} levels deep"
        return f"expands to more than {_MOST_VALUES:,} values" if self.values > _MOST_VALUES else None

    def _name(self, anchor: str | None, before: int) -> None:
        if anchor is not None:
            self.named[anchor] = self.values - before


def _refuse_excess(data: bytes, deepest: int) -> None:
    extent = _Extent(deepest)
    for event in yaml.parse(data, _LOADER):
        problem = extent.add(event)
        if problem is not None:
            mark = event.start_mark
            raise ExcessError(problem, place=f"line {mark.line + 1}" if mark else None)


def _is_long_number(event: yaml.ScalarEvent) -> bool:
    text = event.value
    quoted = event.implicit[1]
    return len(text) > _LONGEST_NUMBER and not quoted and text[0] in _NUMBER_STARTS and len(text.split()) == 1

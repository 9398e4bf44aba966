r"""Hashes of the constants of statements and of the values of parameters, like `native/statement.c`.

A parent's statement and the statement that it sends to a child have the same values, in any order and in other forms:
`WHERE k = $1` with the parameter `'user1'`, and `WHERE (k OPERATOR(pg_catalog.=) 'user1'::text)`. The hash of a
statement is the sum of the hashes of its values without their quotes, so the sums of a statement and of its parameters
add up to that of the child's statement. The hash of a value does not depend on the process or the platform.

Example:
    >>> statement_values("SELECT * FROM public.t_102009 WHERE k = 'user1'::text") == parameter_values("$1 = 'user1'")
    True
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from citus_analysis.formats.serverlog.pglog.fallback.statement_tokens import BLANK, CONSTANT, SEPARATOR

_NAME: Final = r'"(?:[^"\x1f]|"")*"?|[A-Za-z_\x80-\xff][A-Za-z0-9_$\x80-\xff]*'
_TOKEN: Final = re.compile(
    rf"{BLANK}(?:(?P<value>{CONSTANT})|(?P<name>{_NAME})|(?P<other>[^\x00-\x1e\x20\x7f]))".encode("latin-1")
)
_PARAMETER: Final = re.compile(rb"'(?:[^']|'')*'?")
#: Where a token is in a cast, `'a'::character varying(255)`: after the first colon, in the type, in its brackets.
_NO_CAST, _COLON, _TYPE, _LENGTHS = range(4)
_MULTIPLIER: Final = 0x9E3779B97F4A7C15
_WORD: Final = 2**64 - 1


def statement_values(statement: str) -> int:
    """The hash of the constants of a statement, 32 bits with a sign; 0 if it has none."""
    said = statement.encode()
    found, place = 0, 0
    # The token before, if it is an operator or nothing, and whether it is a minus that may belong to a constant.
    operator, minus = True, False
    cast = _NO_CAST
    for token in _TOKEN.finditer(said.replace(SEPARATOR.encode(), b" ") + SEPARATOR.encode()):
        if token["value"] is not None:
            begin, end = token.span("value")
            if cast != _LENGTHS:
                found += _value(said[begin:end], said[begin - (minus and begin == place) : end])
                cast = _NO_CAST
        else:
            cast = _cast_after(
                cast, token["other"], adjoins=token.end() - len(token["name"] or token["other"]) == place
            )
        other = token["other"]
        minus = other == b"-" and operator
        operator = other is not None and other not in b"?)]"
        place = token.end()
    return signed_32_bits(found)


def _cast_after(cast: int, token: bytes | None, *, adjoins: bool) -> int:
    """Where the next token is in a cast, after a name (None) or another token that is no constant."""
    if token is None or token in b",.":
        return cast if cast in (_TYPE, _LENGTHS) else _NO_CAST
    if token == b":":
        return _TYPE if cast == _COLON and adjoins else _COLON
    if token == b"(":
        return _LENGTHS if cast == _TYPE and adjoins else _NO_CAST
    return _TYPE if token == b")" and cast == _LENGTHS else _NO_CAST


def parameter_values(parameters: str) -> int:
    """The hash of the values in a list of parameters (`$1 = 'user7', $2 = NULL`)."""
    return signed_32_bits(sum(_value(value, value) for value in _PARAMETER.findall(parameters.encode())))


def _value(constant: bytes, signed: bytes) -> int:
    """The hash of a constant without its quotes; 0 for parameters and for texts between dollars."""
    if constant[:1] in b"$?":
        return 0
    if constant[:1].isdigit() or constant[:1] == b".":
        return _hash(signed)
    said = constant[1 if constant[:1] == b"'" else 2 :]
    return _hash(said[:-1] if said.endswith(b"'") else said)


@lru_cache(maxsize=65536)
def _hash(text: bytes) -> int:
    found = len(text)
    for place in range(0, len(text), 8):
        found = _mixed(found ^ int.from_bytes(text[place : place + 8], "little"))
    # The lowest five bits of a sum are the number of its texts.
    return (_mixed(_mixed(found)) & ~31) + 1


def _mixed(value: int) -> int:
    value = value * _MULTIPLIER & _WORD
    return value ^ value >> 29


def signed_32_bits(value: int) -> int:
    """A sum of hashes as a signed number of 32 bits.

    Example:
        >>> signed_32_bits(2**31 + 2**32)
        -2147483648
    """
    return (value + 2**31) % 2**32 - 2**31

"""Compiled: fingerprint and shard of a statement, as `_statements` defines them.

Tokens pass three stages that each hold back at most one token until the next is known: signs of constants,
commas between constants, semicolons at the end.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from citus_analysis.formats.pglog._compiled import compiled, inlined
from citus_analysis.formats.pglog._kernel_prefix import digits_end, is_digit, is_letter
from citus_analysis.formats.pglog._views import Bytes

__all__ = ["fingerprint_of", "fnv"]

_OFFSET: Final = np.uint64(0xCBF29CE484222325)
_PRIME: Final = np.uint64(0x100000001B3)
_SEPARATOR: Final = np.uint64(0x1F)

#: Every byte in lower case (ASCII only); the separator counts as a space.
LOWER: Final[Bytes] = np.array(
    [32 if byte == 31 else byte | 32 if 65 <= byte <= 90 else byte for byte in range(256)], np.uint8
)
#: Bytes that names are made of: 1 = may begin one, 2 = may follow only.
NAMING: Final[Bytes] = np.array(
    [
        1
        if (chr(byte).isalpha() and byte < 128) or byte == 95 or byte >= 128
        else 2
        if chr(byte).isdigit() or byte == 36
        else 0
        for byte in range(256)
    ],
    np.uint8,
)
#: What the last token was: nothing yet, a constant, a closing bracket, a word, an operator.
NONE, CONSTANT, CLOSING, WORD, OPERATOR = range(5)
State = npt.NDArray[np.int64]


@inlined
def fnv(value: np.uint64, byte: int) -> np.uint64:
    return (value ^ np.uint64(byte)) * _PRIME


@compiled
def quote_end(buffer: Bytes, begin: int, limit: int, quote: int, escapes: bool) -> int:
    """Behind the quote that closes what began before `begin`; doubled quotes (and escaped ones) do not close."""
    place = begin
    while place < limit:
        byte = buffer[place]
        if escapes and byte == 92:
            place += 2
        elif byte == quote:
            if place + 1 < limit and buffer[place + 1] == quote:
                place += 2
            else:
                return place + 1
        else:
            place += 1
    return limit


@compiled
def dollar_tag_end(buffer: Bytes, begin: int, limit: int) -> int:
    """Behind `$tag$` at `begin`; -1 where none stands."""
    place = begin + 1
    if place < limit and (is_letter(buffer[place]) or buffer[place] == 95):
        while place < limit and (is_letter(buffer[place]) or is_digit(buffer[place]) or buffer[place] == 95):
            place += 1
    return place + 1 if place < limit and buffer[place] == 36 else -1


@compiled
def dollar_end(buffer: Bytes, begin: int, limit: int) -> int:
    """Behind a parameter (`$1`) or a dollar-quoted string; -1 where neither stands at `begin`."""
    end = digits_end(buffer, begin + 1, limit, limit)
    if end > begin + 1:
        return end
    place = dollar_tag_end(buffer, begin, limit)
    if place < 0:
        return -1
    while place < limit:
        if buffer[place] == 36:
            end = dollar_tag_end(buffer, place, limit)
            if end >= 0:
                return end
        place += 1
    return limit


@compiled
def underscored_end(buffer: Bytes, begin: int, limit: int) -> int:
    place = begin
    while place < limit and (is_digit(buffer[place]) or buffer[place] == 95):
        place += 1
    return place


@compiled
def is_hex_letter(byte: int) -> bool:
    return 97 <= byte <= 102 or 65 <= byte <= 70


@compiled
def number_end(buffer: Bytes, begin: int, limit: int) -> int:
    """Behind a number; -1 where none stands at `begin`."""
    byte = buffer[begin]
    following = buffer[begin + 1] if begin + 1 < limit else 0
    lower = following | 32
    if byte == 48 and (lower == 120 or lower == 111 or lower == 98):
        place = begin + 2
        while place < limit and (is_digit(buffer[place]) or buffer[place] == 95 or is_hex_letter(buffer[place])):
            place += 1
        if place > begin + 2:
            return place
    if is_digit(byte):
        place = underscored_end(buffer, begin, limit)
        if place < limit and buffer[place] == 46:
            place = underscored_end(buffer, place + 1, limit)
    elif byte == 46 and is_digit(following):
        place = underscored_end(buffer, begin + 1, limit)
    else:
        return -1
    if place < limit and buffer[place] | 32 == 101:
        sign = place + 1
        if sign < limit and (buffer[sign] == 43 or buffer[sign] == 45):
            sign += 1
        end = digits_end(buffer, sign, limit, limit)
        if end > sign:
            return end
    return place


@compiled
def blanks_end(buffer: Bytes, begin: int, limit: int) -> int:
    """Behind white space and comments."""
    place = begin
    while place < limit:
        byte = buffer[place]
        following = buffer[place + 1] if place + 1 < limit else 0
        if byte <= 32 or byte == 127:
            place += 1
        elif byte == 45 and following == 45:
            while place < limit and buffer[place] != 10:
                place += 1
        elif byte == 47 and following == 42:
            place += 2
            while place < limit and not (buffer[place] == 42 and place + 1 < limit and buffer[place + 1] == 47):
                place += 1
            place = min(place + 2, limit)
        else:
            break
    return place


@compiled
def constant_end(buffer: Bytes, begin: int, limit: int) -> int:
    """Behind a constant or parameter; -1 where none stands at `begin`."""
    byte = buffer[begin]
    if byte == 39:
        return quote_end(buffer, begin + 1, limit, 39, False)
    if byte == 36:
        return dollar_end(buffer, begin, limit)
    if is_letter(byte):
        if begin + 1 < limit and buffer[begin + 1] == 39:
            lower = byte | 32
            if lower == 101:
                return quote_end(buffer, begin + 2, limit, 39, True)
            if lower == 98 or lower == 120 or lower == 110:
                return quote_end(buffer, begin + 2, limit, 39, False)
        return -1
    if byte == 46 or is_digit(byte):
        return number_end(buffer, begin, limit)
    return -1


@inlined
def shard_begin(buffer: Bytes, begin: int, end: int) -> int:
    """Where the digits of a shard's number begin at the end of a name; -1 where it has none."""
    place = end
    while place > begin and is_digit(buffer[place - 1]):
        place -= 1
    if 6 <= end - place <= 18 and place - 1 > begin and buffer[place - 1] == 95:
        return place
    return -1


@inlined
def hash_bytes(value: np.uint64, buffer: Bytes, begin: int, end: int) -> np.uint64:
    """Lower case, ASCII only; the separator counts as a space."""
    for place in range(begin, end):
        value = (value ^ np.uint64(LOWER[buffer[place]])) * _PRIME
    return value


@inlined
def put(value: np.uint64, byte: int) -> np.uint64:
    """A token of one byte."""
    return fnv(fnv(value, byte), 31)


@compiled
def emit(value: np.uint64, state: State, token: int) -> np.uint64:
    """Make room for the next token, given by its byte (0 for a word): stages two and three.

    The state holds: 0 kind of the last token as it stood, 1 held sign, 2 whether the last token that was let
    through is a constant, 3 whether a comma is held, 4 semicolons held.
    """
    if state[3]:
        state[3] = 0
        if token == 63:
            return value
        value = put(value, 44)
        state[2] = 0
    if token == 44 and state[2]:
        state[3] = 1
        return value
    if token == 59:
        state[4] += 1
        state[2] = 0
        return value
    while state[4]:
        value = put(value, 59)
        state[4] -= 1
    state[2] = token == 63
    return put(value, token) if token else value


@inlined
def release_sign(value: np.uint64, state: State) -> np.uint64:
    if state[1]:
        sign = state[1]
        state[1] = 0
        value = emit(value, state, sign)
    return value


@compiled
def fingerprint_of(buffer: Bytes, begin: int, limit: int, state: State) -> tuple[np.uint64, int]:
    """Fingerprint of the statement and its shard (-1 for none)."""
    state[:] = 0
    value = _OFFSET
    shard = -1
    after_dot = False
    place = blanks_end(buffer, begin, limit)
    while place < limit:
        byte = buffer[place]
        end = constant_end(buffer, place, limit)
        if end >= 0 or byte == 63:
            end = max(end, place + 1)
            state[1] = 0
            value = emit(value, state, 63)
            state[0] = CONSTANT
            after_dot = False
        elif byte == 34 or NAMING[byte] == 1:
            if byte == 34:
                end = quote_end(buffer, place + 1, limit, 34, False)
                name_end = end - 1 if end > place + 1 and closes(buffer, place, end) else end
            else:
                end = place + 1
                while end < limit and NAMING[buffer[end]]:
                    end += 1
                name_end = end
            if state[1]:
                value = release_sign(value, state)
            if state[3] or state[4]:
                value = emit(value, state, 0)
            state[2] = 0
            number = shard_begin(buffer, place, name_end)
            if number >= 0:
                value = fnv(hash_bytes(value, buffer, place, number), 63)
                if after_dot and shard < 0:
                    shard = 0
                    for index in range(number, name_end):
                        shard = shard * 10 + (buffer[index] - 48)
            else:
                value = hash_bytes(value, buffer, place, name_end)
            value = fnv(value, 31)
            state[0] = WORD
            after_dot = False
        else:
            end = place + 1
            if state[1]:
                value = release_sign(value, state)
            if (byte == 43 or byte == 45) and (state[0] == NONE or state[0] == OPERATOR):
                state[1] = byte
            else:
                value = emit(value, state, byte)
            state[0] = CLOSING if byte == 41 or byte == 93 else OPERATOR
            after_dot = byte == 46
        place = end
        if place < limit:
            byte = buffer[place]
            if byte == 32:
                place += 1
                byte = buffer[place] if place < limit else np.uint8(0)
            if byte <= 32 or byte == 127 or byte == 45 or byte == 47:
                place = blanks_end(buffer, place, limit)
    value = release_sign(value, state)
    if state[3]:
        value = put(value, 44)
    return value, shard


@inlined
def closes(buffer: Bytes, begin: int, end: int) -> bool:
    """Whether the double quote before `end` closes the name that opens at `begin`, or is half of a doubled one."""
    place = begin + 1
    while place < end:
        if buffer[place] == 34:
            if place + 1 < end and buffer[place + 1] == 34:
                place += 2
                continue
            return place + 1 == end
        place += 1
    return False

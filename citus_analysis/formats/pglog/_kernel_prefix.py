"""Compiled: does a record begin here, and what does its prefix say.

A row of elements is matched with backtracking: text elements are lazy, the part behind `%q` is optional. That is
what the regular expression of the same prefix does. What failed once at a place is not tried there again, so a
line costs at most elements x length.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from citus_analysis.formats.pglog._compiled import compiled, inlined
from citus_analysis.formats.pglog._prefix import HEAD_LIMIT
from citus_analysis.formats.pglog._program import DIGITS, EPOCH, LITERAL, SESSION, STAMP, STATE, TEXT, VXID
from citus_analysis.formats.pglog._views import Bytes

__all__ = ["MEMO_WIDTH", "digits", "match_head", "severity_at", "stamp_clock"]

#: Places of a line that can be remembered as failed, then the line and the place from which on all have failed.
MEMO_WIDTH: Final = HEAD_LIMIT + 3
SPENT: Final = HEAD_LIMIT + 1

Numbers32 = npt.NDArray[np.int32]
Numbers64 = npt.NDArray[np.int64]


@inlined
def is_digit(byte: int) -> bool:
    return 48 <= byte <= 57


@inlined
def is_letter(byte: int) -> bool:
    return 65 <= byte <= 90 or 97 <= byte <= 122


@compiled
def digits(buffer: Bytes, begin: int, end: int) -> int:
    """The value of the digits from `begin` to `end`."""
    value = 0
    for place in range(begin, end):
        value = value * 10 + (buffer[place] - 48)
    return value


@inlined
def digits_end(buffer: Bytes, begin: int, limit: int, most: int) -> int:
    """Where a run of at most `most` digits ends."""
    place = begin
    while place < limit and place - begin < most and is_digit(buffer[place]):
        place += 1
    return place


@inlined
def zone_end(buffer: Bytes, begin: int, limit: int) -> int:
    """Where a zone (`CET`, `+02`, `-0330`) ends; -1 where there is none."""
    place = begin
    while place < limit and place - begin < 10 and is_letter(buffer[place]):
        place += 1
    if place > begin:
        return place
    if begin >= limit or (buffer[begin] != 43 and buffer[begin] != 45):
        return -1
    place = digits_end(buffer, begin + 1, limit, 2)
    if place != begin + 3:
        return -1
    colon = 1 if place < limit and buffer[place] == 58 else 0
    longer = digits_end(buffer, place + colon, limit, 2)
    return longer if longer == place + colon + 2 else place


@inlined
def stamp_end(buffer: Bytes, begin: int, limit: int, with_ms: int) -> int:
    """Where `2026-11-20 21:03:47.877 UTC` ends; -1 where something else stands."""
    width = 23 if with_ms else 19
    if begin + width + 2 > limit:
        return -1
    for index in range(width):
        byte = buffer[begin + index]
        if index == 4 or index == 7:
            wanted = 45
        elif index == 10:
            wanted = 32
        elif index == 13 or index == 16:
            wanted = 58
        elif index == 19:
            wanted = 46
        else:
            wanted = 0
        if (wanted == 0 and not is_digit(byte)) or (wanted != 0 and byte != wanted):
            return -1
    if buffer[begin + width] != 32:
        return -1
    return zone_end(buffer, begin + width + 1, limit)


@compiled
def stamp_clock(buffer: Bytes, begin: int, with_ms: int, missing: int) -> int:
    """Milliseconds since 1970 as the clock showed them; `missing` for a date or time that does not exist."""
    year, month, day = (
        digits(buffer, begin, begin + 4),
        digits(buffer, begin + 5, begin + 7),
        digits(buffer, begin + 8, begin + 10),
    )
    hour, minute = digits(buffer, begin + 11, begin + 13), digits(buffer, begin + 14, begin + 16)
    second = digits(buffer, begin + 17, begin + 19)
    millisecond = digits(buffer, begin + 20, begin + 23) if with_ms else 0
    if month < 1 or month > 12 or day < 1 or hour > 23 or minute > 59 or second > 59:
        return missing
    leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
    longest = 31
    if month == 4 or month == 6 or month == 9 or month == 11:
        longest = 30
    elif month == 2:
        longest = 29 if leap else 28
    if day > longest:
        return missing
    # Days since 1970 with years that begin in March, so that the leap day is the last.
    shifted = year - 1 if month <= 2 else year
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    days = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
    return (((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + millisecond


@inlined
def severity_at(buffer: Bytes, begin: int, limit: int, words: Bytes) -> int:
    """Which severity word stands at `begin`; -1 for none."""
    for word in range(words.shape[0]):
        length = int(words[word, 0])
        if begin + length > limit or buffer[begin] != words[word, 1]:
            continue
        index = 1
        while index < length and buffer[begin + index] == words[word, 1 + index]:
            index += 1
        if index == length:
            return word
    return -1


@inlined
def severity_end(buffer: Bytes, begin: int, limit: int, length: int) -> int:
    """Where the text begins behind a severity word of that length; -1 where no colon and space follow."""
    place = begin + length
    if place < limit and 49 <= buffer[place] <= 53:
        place += 1
    if place + 1 >= limit or buffer[place] != 58 or buffer[place + 1] != 32:
        return -1
    place += 2
    return place + 1 if place < limit and buffer[place] == 32 else place


@inlined
def vxid_end(buffer: Bytes, begin: int, limit: int) -> int:
    """Where `3/4` ends; `begin` where none stands (it may be empty)."""
    place = begin + 1 if begin < limit and buffer[begin] == 45 else begin
    slash = digits_end(buffer, place, limit, 9)
    if slash == place or slash >= limit or buffer[slash] != 47:
        return begin
    end = digits_end(buffer, slash + 1, limit, 18)
    return end if end > slash + 1 else begin


@inlined
def hex_end(buffer: Bytes, begin: int, limit: int, most: int) -> int:
    place = begin
    while place < limit and place - begin < most and (is_digit(buffer[place]) or 97 <= buffer[place] <= 102):
        place += 1
    return place


@inlined
def element_end(buffer: Bytes, begin: int, limit: int, code: Numbers32, index: int, literals: Bytes) -> int:
    """Where an element other than text ends; -1 where it does not stand at `begin`."""
    kind = code[index, 0]
    if kind == LITERAL:
        first = int(code[index, 3])
        length = int(code[index, 4]) - first
        if begin + length > limit:
            return -1
        for offset in range(length):
            if buffer[begin + offset] != literals[first + offset]:
                return -1
        return begin + length
    if kind == STAMP:
        return stamp_end(buffer, begin, limit, int(code[index, 3]))
    if kind == DIGITS:
        place = begin + 1 if code[index, 5] and begin < limit and buffer[begin] == 45 else begin
        end = digits_end(buffer, place, limit, int(code[index, 4]))
        return end if end - place >= code[index, 3] else -1
    if kind == VXID:
        return vxid_end(buffer, begin, limit)
    if kind == EPOCH:
        point = digits_end(buffer, begin, limit, 12)
        if point == begin or point >= limit or buffer[point] != 46:
            return -1
        end = digits_end(buffer, point + 1, limit, 3)
        return end if end == point + 4 else -1
    if kind == SESSION:
        point = hex_end(buffer, begin, limit, 16)
        if point == begin or point >= limit or buffer[point] != 46:
            return -1
        end = hex_end(buffer, point + 1, limit, 7)
        return end if end > point + 1 else -1
    end = begin
    while end < limit and end - begin < 5 and (is_digit(buffer[end]) or 65 <= buffer[end] <= 90):
        end += 1
    return end if kind == STATE and end == begin + 5 else -1


@inlined
def skip_padding(buffer: Bytes, begin: int, limit: int, code: Numbers32, index: int, literals: Bytes) -> int:
    """Behind the spaces that pad an element, but for those the next literal begins with."""
    place = begin
    while place < limit and buffer[place] == 32:
        place += 1
    if index + 1 < code.shape[0] and code[index + 1, 0] == LITERAL:
        wanted = code[index + 1, 3]
        while wanted < code[index + 1, 4] and literals[wanted] == 32 and place > begin:
            wanted += 1
            place -= 1
    return place


@compiled
def match_head(
    buffer: Bytes,
    begin: int,
    limit: int,
    code: Numbers32,
    literals: Bytes,
    optional_from: int,
    words: Bytes,
    fields: Numbers32,
    choices: Numbers32,
    memo: Numbers32,
    stamp: int,
) -> int:
    """The severity of the record that begins here, or -1.

    Args:
        buffer: the chunk.
        begin: where the line begins.
        limit: how far prefix and severity may reach.
        code: the prefix's elements.
        literals: bytes of its literals.
        optional_from: the first element that may be absent, with all behind it.
        words: severity words.
        fields: filled with begin and end of each field; the row behind the last holds where the text begins.
        choices: stack for backtracking.
        memo: places that failed, per element.
        stamp: number of this line, which tells its failures in `memo` from those of others.
    """
    count = code.shape[0]
    fields[:, 0] = -1
    depth = 0
    index, place = 0, begin
    absent = False
    while True:
        if place >= 0 and not absent and index == optional_from and optional_from < count:
            choices[depth, 0], choices[depth, 1] = -1, place
            depth += 1
        if place >= 0 and (absent or index == count):
            severity = severity_at(buffer, place, limit, words) if place < limit else -1
            if severity >= 0:
                end = severity_end(buffer, place, limit, int(words[severity, 0]))
                if end >= 0:
                    fields[-1, 0] = end
                    if absent:
                        for element in range(optional_from, count):
                            fields[code[element, 1], 0] = -1
                    return severity
            place = -1
        if place >= 0:
            if code[index, 2] > 0:
                while place < limit and buffer[place] == 32:
                    place += 1
            if code[index, 0] == TEXT and memo[index, SPENT] == stamp and place >= memo[index, SPENT + 1]:
                end = -1
            elif code[index, 0] == TEXT:
                choices[depth, 0], choices[depth, 1], choices[depth, 2] = index, place, place
                depth += 1
                fields[code[index, 1], 0], fields[code[index, 1], 1] = place, place
                end = place
            else:
                end = element_end(buffer, place, limit, code, index, literals)
                fields[code[index, 1], 0], fields[code[index, 1], 1] = place, end
            if end >= 0 and code[index, 2] < 0:
                end = skip_padding(buffer, end, limit, code, index, literals)
            place = end
            index += 1
            continue
        # Back to the last choice: a text one byte longer, or the optional part left out.
        while True:
            if depth == 0:
                return -1
            choice = int(choices[depth - 1, 0])
            if choice == -1:
                depth -= 1
                absent = True
                place = int(choices[depth, 1])
                break
            absent = False
            end = int(choices[depth - 1, 2])
            memo[choice, end - begin] = stamp
            end += 1
            following = choice + 1
            literal = following < count and following != optional_from and code[following, 0] == LITERAL
            if literal and code[choice, 2] >= 0:
                first = literals[code[following, 3]]
                while end <= limit and (end == limit or buffer[end] != first):
                    end += 1
            while end <= limit and memo[choice, end - begin] == stamp:
                end += 1
            if end > limit:
                # No end behind this beginning will do, so no later beginning will either.
                memo[choice, SPENT], memo[choice, SPENT + 1] = stamp, choices[depth - 1, 1]
                depth -= 1
                continue
            choices[depth - 1, 2] = end
            fields[code[choice, 1], 0], fields[code[choice, 1], 1] = choices[depth - 1, 1], end
            place = end
            if code[choice, 2] < 0:
                place = skip_padding(buffer, end, limit, code, choice, literals)
            index = following
            break

"""Compiled: what a record's text says, as `_body` defines it."""

from __future__ import annotations

from typing import Final

import numpy as np

from citus_analysis.formats.pglog._compiled import compiled
from citus_analysis.formats.pglog._kernel_prefix import digits, digits_end
from citus_analysis.formats.pglog._views import Bytes

__all__ = ["begins", "bound_name", "line_end_within", "lock_us", "milliseconds_end", "task_numbers", "verb_at"]

VERBS: Final = ("statement", "parse", "bind", "execute")
_WORDS: Final = (
    *(b"duration: ", b" ms", b"statement: ", b"parse ", b"bind ", b"execute fetch from ", b"execute ", b" to "),
    *(b"task execution (", b") for placement (", b") on anchor shard (", b") finished in "),
    *(b" microseconds on worker node ", b"process ", b" after "),
    *(b" still waiting for ", b" acquired ", b" avoided deadlock for ", b" detected deadlock while waiting for "),
    *(b"parameters: ", b"Parameters: "),
    *(b"checkpoint ", b"checkpoints ", b"restartpoint ", b"automatic ", b"temporary file: "),
    *(b"connection received: ", b"connection authenticated: ", b"connection authorized: ", b"connection ready: "),
    *(b"replication connection authorized: ", b"disconnection: "),
)
# fmt: off
(
    DURATION, MS, STATEMENT, PARSE, BIND, EXECUTE_FETCH, EXECUTE, TO,
    TASK, PLACEMENT, SHARD, FINISHED, MICROSECONDS, PROCESS, AFTER, WAITING,
    ACQUIRED, AVOIDED, DETECTED, PARAMETERS, PARAMETERS_18, CHECKPOINT, CHECKPOINTS, RESTARTPOINT,
    AUTOMATIC, TEMPORARY, RECEIVED, AUTHENTICATED, AUTHORIZED, READY, REPLICATION, DISCONNECTION,
) = range(len(_WORDS))
# fmt: on
_WIDTH: Final = max(len(word) for word in _WORDS)
#: One row per word: its length, then its bytes.
WORDS: Final[Bytes] = np.array([[len(word), *word.ljust(_WIDTH, b"\0")] for word in _WORDS], np.uint8)


@compiled
def begins(buffer: Bytes, place: int, end: int, words: Bytes, word: int) -> int:
    """Where a word ends that stands at `place`; -1 where it does not."""
    length = int(words[word, 0])
    if place + length > end:
        return -1
    for index in range(length):
        if buffer[place + index] != words[word, 1 + index]:
            return -1
    return place + length


@compiled
def line_end_within(buffer: Bytes, begin: int, end: int) -> int:
    """Where the first line of a text ends."""
    place = begin
    while place < end and buffer[place] != 10:
        place += 1
    return place


@compiled
def milliseconds_end(buffer: Bytes, begin: int, end: int, words: Bytes) -> int:
    """Behind `12.345 ms`; -1 where something else stands."""
    point = digits_end(buffer, begin, end, 12)
    if point == begin or point >= end or buffer[point] != 46:
        return -1
    last = digits_end(buffer, point + 1, end, 3)
    return begins(buffer, last, end, words, MS) if last == point + 4 else -1


@compiled
def microseconds(buffer: Bytes, begin: int, ms_end: int) -> int:
    """The value of `12.345 ms` that ends at `ms_end`."""
    return digits(buffer, begin, ms_end - 7) * 1000 + digits(buffer, ms_end - 6, ms_end - 3)


@compiled
def verb_at(buffer: Bytes, begin: int, end: int, words: Bytes) -> tuple[int, int, int, int]:
    """Number of the verb (-1 for none), begin and end of the statement's name, begin of the statement."""
    place = begins(buffer, begin, end, words, STATEMENT)
    if place >= 0:
        return 0, -1, -1, place
    verb = 1
    place = begins(buffer, begin, end, words, PARSE)
    if place < 0:
        verb = 2
        place = begins(buffer, begin, end, words, BIND)
    if place < 0:
        verb = 3
        place = begins(buffer, begin, end, words, EXECUTE_FETCH)
        if place < 0:
            place = begins(buffer, begin, end, words, EXECUTE)
    if place < 0:
        return -1, -1, -1, -1
    colon = place
    while colon + 1 < end and buffer[colon] != 10:
        if buffer[colon] == 58 and buffer[colon + 1] == 32:
            slash = place
            while slash < colon and buffer[slash] != 47:
                slash += 1
            return verb, place, slash, colon + 2
        colon += 1
    return -1, -1, -1, -1


@compiled
def bound_name(buffer: Bytes, begin: int, end: int, words: Bytes) -> tuple[int, int]:
    """The statement's name in `bind <unnamed> to S_1`; -1 where it is none."""
    place = begins(buffer, begin, end, words, BIND)
    if place < 0:
        return -1, -1
    portal = place
    while place < end and buffer[place] != 32 and buffer[place] != 10:
        place += 1
    name = begins(buffer, place, end, words, TO) if place > portal else -1
    if name < 0:
        return -1, -1
    stop = line_end_within(buffer, name, end)
    slash = name
    while slash < stop and buffer[slash] != 47:
        slash += 1
    return (name, slash) if stop > name else (-1, -1)


@compiled
def number_then(buffer: Bytes, begin: int, end: int, words: Bytes, word: int) -> int:
    """Behind a number of at most 18 digits and a word; -1 where something else stands."""
    place = digits_end(buffer, begin, end, 18)
    return begins(buffer, place, end, words, word) if place > begin else -1


@compiled
def task_numbers(
    buffer: Bytes, begin: int, end: int, words: Bytes, numbers: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> bool:
    """Fill placement, shard, microseconds, begin and end of the host, port; false where it is no task record."""
    place = begins(buffer, begin, end, words, TASK)
    if place < 0:
        return False
    first = digits_end(buffer, place, end, end)
    placement = begins(buffer, first, end, words, PLACEMENT) if first > place else -1
    shard = number_then(buffer, placement, end, words, SHARD) if placement >= 0 else -1
    task = number_then(buffer, shard, end, words, FINISHED) if shard >= 0 else -1
    host = number_then(buffer, task, end, words, MICROSECONDS) if task >= 0 else -1
    if host < 0:
        return False
    stop = host
    while stop < end and buffer[stop] != 32 and not 9 <= buffer[stop] <= 13:
        stop += 1
    colon = stop - 1
    while colon >= host and not (buffer[colon] == 58 and colon + 1 < end and 48 <= buffer[colon + 1] <= 57):
        colon -= 1
    if colon < host:
        return False
    numbers[0] = digits(buffer, placement, digits_end(buffer, placement, end, 18))
    numbers[1] = digits(buffer, shard, digits_end(buffer, shard, end, 18))
    numbers[2] = digits(buffer, task, digits_end(buffer, task, end, 18))
    numbers[3], numbers[4] = host, colon
    numbers[5] = digits(buffer, colon + 1, digits_end(buffer, colon + 1, end, 5))
    return True


@compiled
def lock_us(buffer: Bytes, begin: int, end: int, words: Bytes) -> int:
    """Microseconds a lock was waited for; -1 where it is no such record."""
    place = begins(buffer, begin, end, words, PROCESS)
    if place < 0:
        return -1
    pid_end = digits_end(buffer, place, end, end)
    if pid_end == place:
        return -1
    said = -1
    for word in range(WAITING, DETECTED + 1):
        said = max(said, begins(buffer, pid_end, end, words, word))
    if said < 0:
        return -1
    stop = line_end_within(buffer, said, end)
    for after in range(stop - 1, said - 1, -1):
        number = begins(buffer, after, stop, words, AFTER)
        if number >= 0:
            last = milliseconds_end(buffer, number, stop, words)
            if last >= 0:
                return microseconds(buffer, number, last)
    return -1

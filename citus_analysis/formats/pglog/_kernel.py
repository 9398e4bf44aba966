"""Compiled: one walk over the bytes of a chunk that fills the columns of its records."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from citus_analysis.formats._content import EXCERPT_BYTES, LINE_CAP
from citus_analysis.formats.pglog import _kernel_body as body
from citus_analysis.formats.pglog._compiled import compiled, inlined
from citus_analysis.formats.pglog._kernel_body import (
    begins,
    bound_name,
    lock_us,
    microseconds,
    milliseconds_end,
    task_numbers,
    verb_at,
)
from citus_analysis.formats.pglog._kernel_prefix import (
    Numbers32,
    Numbers64,
    digits,
    digits_end,
    hex_end,
    is_digit,
    is_letter,
    match_head,
    severity_at,
    stamp_clock,
)
from citus_analysis.formats.pglog._kernel_statement import fingerprint_of, fnv
from citus_analysis.formats.pglog._prefix import HEAD_LIMIT, SEVERITY_WORDS
from citus_analysis.formats.pglog._program import FIELDS
from citus_analysis.formats.pglog._views import Bytes
from citus_analysis.schema import KINDS

__all__ = ["COLUMNS_8", "COLUMNS_32", "COLUMNS_64", "MISSING_32", "MISSING_64", "scan_chunk"]

Words64 = npt.NDArray[np.uint64]

MISSING_32: Final = -(2**31)
MISSING_64: Final = -(2**63)
COLUMNS_64: Final = ("clock", "local_xid", "session_line", "gpid", "duration", "shard_id", "placement_id", "task_us")
COLUMNS_32: Final = (
    *("start", "size", "text", "text_end", "pid", "backend_id", "worker_port", "statement"),
    *("zone", "application", "user", "database", "client_host", "sqlstate", "worker_host", "statement_name"),
)
COLUMNS_8: Final = ("severity", "kind", "phase", "message")
CLOCK, XID, LINE, GPID, DURATION, SHARD, PLACEMENT, TASK = range(8)
START, SIZE, TEXT, TEXT_END, PID, BACKEND, PORT, STATEMENT, ZONE, APP, USER, DATABASE, HOST, STATE, WORKER, NAME = (
    range(16)
)
SEVERITY, KIND, PHASE, MESSAGE = range(4)

_KIND: Final = {name: number for number, name in enumerate(KINDS)}
K_DURATION, K_STATEMENT, K_PARSE = _KIND["duration"], _KIND["statement"], _KIND["parse"]
K_BIND, K_EXECUTE, K_PARAMETERS = _KIND["bind"], _KIND["execute"], _KIND["parameters"]
K_DETAIL, K_ERROR, K_TASK, K_LOCK = _KIND["detail"], _KIND["error"], _KIND["task"], _KIND["lock_wait"]
K_CHECKPOINT, K_VACUUM, K_TEMP = _KIND["checkpoint"], _KIND["autovacuum"], _KIND["temp_file"]
K_CONNECTION, K_OTHER = _KIND["connection"], _KIND["other"]
_SEVERITY: Final = {name: number for number, name in enumerate(SEVERITY_WORDS)}
S_LOG, S_DEBUG, S_DETAIL = _SEVERITY["LOG"], _SEVERITY["DEBUG"], _SEVERITY["DETAIL"]
S_STATEMENT, S_QUERY, S_WARNING = _SEVERITY["STATEMENT"], _SEVERITY["QUERY"], _SEVERITY["WARNING"]
S_ERROR, S_FATAL, S_PANIC = _SEVERITY["ERROR"], _SEVERITY["FATAL"], _SEVERITY["PANIC"]
F_CLOCK, F_EPOCH, F_PID, F_HEX = FIELDS["clock"], FIELDS["epoch"], FIELDS["pid"], FIELDS["hex_pid"]
F_VXID, F_LINE, F_APP, F_USER = FIELDS["vxid"], FIELDS["line"], FIELDS["app"], FIELDS["user"]
F_DATABASE, F_HOST, F_REMOTE, F_STATE = FIELDS["database"], FIELDS["host"], FIELDS["remote"], FIELDS["state"]
#: Parts that a chunk may be in when a line begins.
BLANKS, STRAYS, RECORDS = range(3)
#: Entries of `counts`.
N_RECORDS, N_STRAYS, N_TEXTS, N_STATEMENTS, N_BLANK, FULL = range(6)
#: Phase of records that name none.
NO_PHASE: Final = 255
#: What `add_text` and `add_statement` give when their tables are full.
NO_ROOM: Final = -3
BEGINNINGS: Final = np.array(
    [
        *((word, K_CHECKPOINT) for word in (body.CHECKPOINT, body.CHECKPOINTS, body.RESTARTPOINT)),
        (body.AUTOMATIC, K_VACUUM),
        (body.TEMPORARY, K_TEMP),
        *((word, K_CONNECTION) for word in range(body.RECEIVED, body.DISCONNECTION + 1)),
    ],
    np.int32,
)


class Output(NamedTuple):
    """What a scan fills.

    Attributes:
        c64: columns of 64-bit integers, named by `COLUMNS_64`; `MISSING_64` is null.
        c32: columns of 32-bit integers, named by `COLUMNS_32`; `MISSING_32` is null.
        c8: columns of bytes, named by `COLUMNS_8`.
        strays: begin and end of each run of lines that are astray.
        texts: begin and end of each distinct short text.
        text_slots: hash table of `texts`.
        hashes: fingerprint of each distinct statement.
        statements: begin and end of each distinct statement's first occurrence.
        hash_slots: hash table of `hashes`.
        fields: begin and end of each field of the last prefix.
        choices: stack of the prefix matcher.
        memo: places that failed, of the prefix matcher.
        numbers: of the last task record.
        spans: begin and end of the last record's short texts, in the order of the columns from `zone` on.
        state: of the last statement.
        counts: how many of each there are.
    """

    c64: Numbers64
    c32: Numbers32
    c8: Bytes
    strays: Numbers64
    texts: Numbers32
    text_slots: Numbers32
    hashes: Words64
    statements: Numbers32
    hash_slots: Numbers32
    fields: Numbers32
    choices: Numbers32
    memo: Numbers32
    numbers: Numbers64
    spans: Numbers64
    state: Numbers64
    counts: Numbers64


HIGH: Final = np.uint64(0x8080808080808080)
LOW: Final = np.uint64(0x0101010101010101)
NEWLINES: Final = np.uint64(0x0A0A0A0A0A0A0A0A)


@compiled
def newline_at(buffer: Bytes, words: Words64, begin: int, end: int) -> int:
    """Where the next line feed stands; `end` where there is none. Eight bytes at a time."""
    place = begin
    while place < end and place & 7:
        if buffer[place] == 10:
            return place
        place += 1
    word = place >> 3
    last = end >> 3
    while word < last:
        mixed = words[word] ^ NEWLINES
        if (mixed - LOW) & ~mixed & HIGH:
            break
        word += 1
    place = max(place, word << 3)
    while place < end and buffer[place] != 10:
        place += 1
    return min(place, end)


@compiled
def same(buffer: Bytes, begin: int, end: int, other: int, other_end: int) -> bool:
    """Whether two stretches hold the same bytes."""
    if end - begin != other_end - other:
        return False
    for offset in range(end - begin):
        if buffer[begin + offset] != buffer[other + offset]:
            return False
    return True


@inlined
def add_text(buffer: Bytes, begin: int, end: int, near: int, out: Output) -> int:
    """The number of a short text among the distinct ones of this chunk."""
    texts, slots, counts = out.texts, out.text_slots, out.counts
    if near >= 0 and same(buffer, begin, end, int(texts[near, 0]), int(texts[near, 1])):
        return near
    value = np.uint64(0xCBF29CE484222325)
    for place in range(begin, end):
        value = fnv(value, buffer[place])
    mask = slots.shape[0] - 1
    slot = np.int64((value ^ (value >> np.uint64(32))) & np.uint64(mask))
    while slots[slot] >= 0:
        number = int(slots[slot])
        if same(buffer, begin, end, int(texts[number, 0]), int(texts[number, 1])):
            return number
        slot = (slot + 1) & mask
    number = int(counts[N_TEXTS])
    if number >= texts.shape[0]:
        counts[FULL] = 1
        return NO_ROOM
    slots[slot] = number
    texts[number, 0], texts[number, 1] = begin, end
    counts[N_TEXTS] += 1
    return number


@inlined
def add_statement(value: np.uint64, begin: int, end: int, out: Output) -> int:
    """The number of a statement among the distinct ones of this chunk."""
    hashes, places, slots, counts = out.hashes, out.statements, out.hash_slots, out.counts
    mask = slots.shape[0] - 1
    slot = np.int64((value ^ (value >> np.uint64(32))) & np.uint64(mask))
    while slots[slot] >= 0:
        if hashes[slots[slot]] == value:
            return int(slots[slot])
        slot = (slot + 1) & mask
    number = int(counts[N_STATEMENTS])
    if number >= places.shape[0]:
        counts[FULL] = 1
        return NO_ROOM
    slots[slot] = number
    hashes[number] = value
    places[number, 0], places[number, 1] = begin, end
    counts[N_STATEMENTS] += 1
    return number


@compiled
def is_foreign(buffer: Bytes, begin: int, limit: int, words: Bytes) -> bool:
    """Whether a line that is no continuation holds a severity, as a record under another prefix does."""
    if begin >= limit or buffer[begin] == 9:
        return False
    for colon in range(begin + 3, limit - 2):
        if buffer[colon] != 58 or buffer[colon + 1] != 32 or buffer[colon + 2] != 32:
            continue
        stop = colon - 1 if 49 <= buffer[colon - 1] <= 53 else colon
        first = stop
        while first > begin and is_letter(buffer[first - 1]):
            first -= 1
        severity = severity_at(buffer, first, stop, words)
        if severity >= 0 and words[severity, 0] == stop - first:
            return True
    return False


@compiled
def is_blank(buffer: Bytes, begin: int, end: int) -> bool:
    for place in range(begin, end):
        if buffer[place] != 32 and not 9 <= buffer[place] <= 13:
            return False
    return True


@compiled
def cut(buffer: Bytes, begin: int, length: int, limit: int) -> int:
    """At most `limit` bytes that do not end within a UTF-8 character."""
    if length <= limit:
        return length
    for back in range(3):
        if buffer[begin + limit - back] & 0xC0 != 0x80:
            return limit - back
    return limit - 3


@inlined
def fill_prefix(buffer: Bytes, record: int, out: Output) -> None:
    """Columns that the prefix tells."""
    c64, c32, fields, spans = out.c64, out.c32, out.fields, out.spans
    spans[:, 0] = -1
    begin, end = int(fields[F_CLOCK, 0]), int(fields[F_CLOCK, 1])
    if begin >= 0:
        width = 23 if buffer[begin + 19] == 46 else 19
        c64[CLOCK, record] = stamp_clock(buffer, begin, width == 23, MISSING_64)
        spans[ZONE - ZONE, 0], spans[ZONE - ZONE, 1] = begin + width + 1, end
    begin, end = int(fields[F_EPOCH, 0]), int(fields[F_EPOCH, 1])
    if begin >= 0:
        c64[CLOCK, record] = digits(buffer, begin, end - 4) * 1000 + digits(buffer, end - 3, end)
    begin, end = int(fields[F_PID, 0]), int(fields[F_PID, 1])
    if begin >= 0:
        c32[PID, record] = digits(buffer, begin, end)
    begin, end = int(fields[F_HEX, 0]), int(fields[F_HEX, 1])
    if begin >= 0:
        place = hex_end(buffer, begin, end, 16) + 1
        value = 0
        while place < end:
            byte = buffer[place]
            value = value * 16 + (byte - 48 if is_digit(byte) else byte - 87)
            place += 1
        c32[PID, record] = value
    begin, end = int(fields[F_VXID, 0]), int(fields[F_VXID, 1])
    if begin >= 0 and end > begin:
        negative = buffer[begin] == 45
        slash = digits_end(buffer, begin + negative, end, 9)
        backend = digits(buffer, begin + negative, slash)
        c32[BACKEND, record] = -backend if negative else backend
        c64[XID, record] = digits(buffer, slash + 1, end)
    begin, end = int(fields[F_LINE, 0]), int(fields[F_LINE, 1])
    if begin >= 0:
        c64[LINE, record] = digits(buffer, begin, end)
    begin, end = int(fields[F_APP, 0]), int(fields[F_APP, 1])
    if begin >= 0:
        number = end
        while number > begin and is_digit(buffer[number - 1]):
            number -= 1
        label = number - 6
        if (
            1 <= end - number <= 18
            and label >= begin
            and buffer[label] == 32
            and buffer[label + 1] == 103
            and buffer[label + 2] == 112
            and buffer[label + 3] == 105
            and buffer[label + 4] == 100
            and buffer[label + 5] == 61
        ):
            c64[GPID, record] = digits(buffer, number, end)
            end = label
        if end > begin:
            spans[APP - ZONE, 0], spans[APP - ZONE, 1] = begin, end
    begin, end = int(fields[F_REMOTE, 0]), int(fields[F_REMOTE, 1])
    if begin >= 0:
        if end - begin >= 3 and buffer[end - 1] == 41:
            place = end - 1
            while place > begin and is_digit(buffer[place - 1]):
                place -= 1
            if place < end - 1 and place > begin and buffer[place - 1] == 40:
                end = place - 1
        if end > begin:
            spans[HOST - ZONE, 0], spans[HOST - ZONE, 1] = begin, end
    for field, column in ((F_USER, USER), (F_DATABASE, DATABASE), (F_HOST, HOST), (F_STATE, STATE)):
        begin, end = int(fields[field, 0]), int(fields[field, 1])
        if begin >= 0 and end > begin:
            spans[column - ZONE, 0], spans[column - ZONE, 1] = begin, end


@inlined
def finish(buffer: Bytes, record: int, end: int, tail: int, words: Bytes, out: Output) -> None:
    """Columns that the text tells, once the record's end is known."""
    c64, c32, c8, numbers = out.c64, out.c32, out.c8, out.numbers
    # Plain integers throughout: each further type of an argument is one more compilation.
    start, text = int(c32[START, record]), int(c32[TEXT, record])
    c32[SIZE, record] = end - start
    if end - start + tail > LINE_CAP:
        end = start + cut(buffer, start, end - start, EXCERPT_BYTES)
    while end > text and (buffer[end - 1] == 10 or buffer[end - 1] == 13):
        end -= 1
    c32[TEXT_END, record] = end
    severity = c8[SEVERITY, record]
    log, debug = severity == S_LOG, severity == S_DEBUG
    statement, verb, timed = -1, -1, False
    name, name_end = -1, -1
    kind = K_OTHER
    if log or debug:
        at = text
        clock = begins(buffer, text, end, words, body.DURATION)
        if clock >= 0:
            last = milliseconds_end(buffer, clock, end, words)
            if last >= 0:
                timed = log
                if log:
                    c64[DURATION, record] = microseconds(buffer, clock, last)
                at = last + 2 if last + 1 < end and buffer[last] == 32 and buffer[last + 1] == 32 else end
        verb, name, name_end, statement = verb_at(buffer, at, end, words)
        if debug and verb < 0:
            name, name_end = bound_name(buffer, text, end, words)
            if name >= 0:
                verb = 2
        if name >= 0:
            out.spans[NAME - ZONE, 0], out.spans[NAME - ZONE, 1] = name, name_end
        if verb >= 0:
            c8[PHASE, record] = 3 if verb == 0 else verb - 1
        if debug and task_numbers(buffer, text, end, words, numbers):
            c64[PLACEMENT, record], c64[SHARD, record], c64[TASK, record] = numbers[0], numbers[1], numbers[2]
            out.spans[WORKER - ZONE, 0], out.spans[WORKER - ZONE, 1] = numbers[3], numbers[4]
            c32[PORT, record] = numbers[5]
            kind = K_TASK
        if log and kind == K_OTHER:
            waited = lock_us(buffer, text, end, words)
            if waited >= 0:
                c64[DURATION, record] = waited
                kind = K_LOCK
        if timed:
            kind = K_DURATION
        if verb >= 0:
            named = K_STATEMENT if verb == 0 else (K_PARSE if verb == 1 else (K_BIND if verb == 2 else K_EXECUTE))
            if not timed or verb == 1 or verb == 2:
                kind = named
        if log and kind == K_OTHER:
            for index in range(BEGINNINGS.shape[0]):
                if begins(buffer, text, end, words, int(BEGINNINGS[index, 0])) >= 0:
                    kind = int(BEGINNINGS[index, 1])
                    break
    elif severity >= S_DETAIL:
        kind = K_DETAIL
        if severity == S_DETAIL:
            begun = begins(buffer, text, end, words, body.PARAMETERS)
            if begun >= 0 or begins(buffer, text, end, words, body.PARAMETERS_18) >= 0:
                kind = K_PARAMETERS
        if severity == S_STATEMENT or severity == S_QUERY:
            statement = text
    elif severity == S_WARNING or severity == S_ERROR or severity == S_FATAL or severity == S_PANIC:
        kind = K_ERROR
    c8[KIND, record] = kind
    for column in range(ZONE, NAME + 1):
        begin = int(out.spans[column - ZONE, 0])
        if begin >= 0:
            # The text of the record before is tried first.
            near = int(c32[column, record - 1]) if record else -1
            c32[column, record] = add_text(buffer, begin, int(out.spans[column - ZONE, 1]), near, out)
    if statement >= 0:
        value, shard = fingerprint_of(buffer, statement, end, out.state)
        c32[STATEMENT, record] = add_statement(value, statement, end, out)
        if shard >= 0 and c64[SHARD, record] == MISSING_64:
            c64[SHARD, record] = shard
    c8[MESSAGE, record] = kind > K_TASK and severity != S_STATEMENT and severity != S_QUERY


@compiled
def scan_chunk(
    buffer: Bytes,
    newline_words: Words64,
    tail: int,
    part: int,
    code: Numbers32,
    literals: Bytes,
    optional_from: int,
    severities: Bytes,
    words: Bytes,
    out: Output,
) -> None:
    """Fill `out` with the records of a chunk.

    Args:
        buffer: the chunk.
        newline_words: its bytes eight by eight.
        tail: bytes behind the chunk that belong to its only record.
        part: what the chunk begins with where its first line is no record.
        code: the prefix's elements.
        literals: bytes of its literals.
        optional_from: the first element that may be absent.
        severities: table of severity words.
        words: table of the words that texts begin with.
        out: filled.
    """
    size = len(buffer)
    c64, c32, strays, counts = out.c64, out.c32, out.strays, out.counts
    place, line = 0, 0
    record = -1
    run = -1
    while True:
        at_end = place >= size
        severity, astray = -1, False
        inside_tail = tail > 0 and place > 0
        line_end = place
        if not at_end:
            line += 1
            content_end = newline_at(buffer, newline_words, place, size)
            line_end = min(content_end + 1, size)
            limit = min(content_end, place + HEAD_LIMIT)
            if not inside_tail:
                severity = match_head(
                    buffer,
                    place,
                    limit,
                    code,
                    literals,
                    optional_from,
                    severities,
                    out.fields,
                    out.choices,
                    out.memo,
                    line,
                )
            if severity < 0 and not inside_tail:
                if part == BLANKS:
                    astray = tail > 0 or not is_blank(buffer, place, line_end)
                    if not astray:
                        counts[N_BLANK] += line_end - place
                elif part == STRAYS:
                    astray = run < 0
                else:
                    broken_off = content_end == size and line_end - place <= LINE_CAP and buffer[place] != 9
                    astray = broken_off or is_foreign(buffer, place, limit, severities)
        if at_end or severity >= 0 or astray:
            if part == RECORDS:
                finish(buffer, record, place, tail if at_end else 0, words, out)
            elif part == STRAYS and run >= 0:
                strays[run, 1] = place
        if at_end or counts[FULL]:
            break
        if severity >= 0:
            record += 1
            part = RECORDS
            for column in range(c64.shape[0]):
                c64[column, record] = MISSING_64
            for column in range(c32.shape[0]):
                c32[column, record] = MISSING_32
            c32[START, record], c32[TEXT, record] = place, out.fields[-1, 0]
            out.c8[PHASE, record] = NO_PHASE
            out.c8[SEVERITY, record] = severity
            fill_prefix(buffer, record, out)
        elif astray:
            part = STRAYS
            run += 1
            strays[run, 0] = place
        place = line_end
    counts[N_RECORDS] = record + 1
    counts[N_STRAYS] = run + 1

"""Logs in another language, with the words that are read replaced by the English ones, line by line.

The text keeps its lines, so that a place in the translated text is found in the log by the number of its line: the
readers see English only. What is not read of a message stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa

from citus_analysis.core.array_types import Integers
from citus_analysis.core.arrow_arrays import arrow_numbers, filled
from citus_analysis.formats.api.format import EXCERPT_CHARS, Reject
from citus_analysis.formats.serverlog.pglog._records import Chunk, Scanned
from citus_analysis.formats.serverlog.pglog.compiled.byte_views import string_views, valid_utf8
from citus_analysis.formats.serverlog.pglog.languages.words import LANGUAGES, SEVERITIES, Words

#: What may stand between a severity and its message.
_HEAD: Final = r"^(.*?{severity}:  (?:[0-9A-Z]{{5}}: )?(?:\[[^\]\s]+\]  )?)"
#: Before a message that stands in a column of its own.
_NO_HEAD: Final = "^()"
_COLON: Final = " ?[:：]"
_PHASES: Final = {
    "statement": "statement",
    "parse": "parse",
    "bind": "bind",
    "fetch": "execute fetch from",
    "execute": "execute",
}


def in_english(data: bytes, language: str) -> bytes:
    r"""A text with the words of a language replaced.

    Example:
        >>> in_english("12:00 [7] FEHLER:  x\\n12:00 [7] LOG:  Dauer: 1.250 ms  Anweisung: y".encode(), "de").decode()
        '12:00 [7] ERROR:  x\\n12:00 [7] LOG:  duration: 1.250 ms  statement: y'
    """
    buffer = np.frombuffer(valid_utf8(data), np.uint8)
    starts = _line_starts(buffer)
    ends = np.append(starts[1:] - 1, len(buffer))
    lines = pl.DataFrame({"line": string_views(buffer, starts, ends - starts)})
    line = _marked(pl.col("line"), language)
    for pattern, english in _rules(language, _HEAD):
        line = line.str.replace(pattern, english)
    return str(lines.select(line.str.join("\n")).item()).encode()


def severities_in(language: str) -> dict[str, str]:
    """Severity in a language -> the English one; English ones occur in all logs."""
    words = LANGUAGES[language]
    return dict(zip(words.severities, SEVERITIES, strict=True)) | {word: word for word in SEVERITIES}


def english_severity(language: str) -> pl.Expr:
    """The column `severity` in English; null for words of no known language."""
    return pl.col("severity").replace_strict(severities_in(language), default=None, return_dtype=pl.String)


def translated_rows(rows: pl.DataFrame, language: str) -> pl.DataFrame:
    """Records of csvlog or jsonlog, whose `severity` is in English, with `text` and `detail` in English."""
    is_log = pl.col("severity").cast(pl.String) == "LOG"
    text = pl.when(is_log).then(_translated(pl.col("text"), language)).otherwise("text")
    return rows.with_columns(text=text, detail=_translated(pl.col("detail"), language))


def message_in_english(message: str, language: str) -> str:
    """One message of csvlog or jsonlog.

    Example:
        >>> message_in_english("Dauer: 1.250 ms  Anweisung: SELECT 1", "de")
        'duration: 1.250 ms  statement: SELECT 1'
    """
    return str(pl.select(_translated(pl.lit(message), language)).item())


def _translated(message: pl.Expr, language: str) -> pl.Expr:
    for pattern, english in _rules(language, _NO_HEAD):
        message = message.str.replace(pattern, english)
    return message


def place_in_log(data: bytes, translated: bytes, place: int) -> int:
    """The place in the log of the beginning of a line of its translation."""
    number = translated.count(b"\n", 0, place)
    return int(_line_starts(np.frombuffer(data, np.uint8))[number])


def translated_scan(chunk: Chunk, scan: Callable[[Chunk], Scanned], language: str) -> Scanned:
    """The records of a chunk, by a scanner of English logs."""
    data = chunk.data()
    english = in_english(data, language)
    found = scan(Chunk(chunk.offset, english, chunk.tail, chunk.fresh))
    bounds = [_bounds(text, chunk) for text in (data, english)]

    def moved(offsets: Integers) -> Integers:
        return bounds[0][np.searchsorted(bounds[1], offsets)]

    rejects = [_moved_reject(one, moved, data, chunk) for one in found.rejects]
    if not len(found.rows):
        return Scanned(found.rows, rejects, 0, len(data) + chunk.tail - sum(one.byte_length for one in rejects))
    rows = found.rows if isinstance(found.rows, pa.RecordBatch) else found.rows.to_arrow().to_batches()[0]
    begins, lengths = (filled(rows.column(name), 0).astype(np.int64) for name in ("byte_offset", "byte_length"))
    places = {"byte_offset": moved(begins), "byte_length": moved(begins + lengths) - moved(begins)}
    columns = [
        arrow_numbers(places[name]) if name in places else column
        for name, column in zip(rows.schema.names, rows.columns, strict=True)
    ]
    moved_rows = pa.RecordBatch.from_arrays(columns, names=rows.schema.names)
    return Scanned(moved_rows, rejects, int(places["byte_length"].sum()), found.noise_bytes)


def _moved_reject(one: Reject, moved: Callable[[Integers], Integers], data: bytes, chunk: Chunk) -> Reject:
    begin, end = moved(np.array([one.byte_offset, one.byte_offset + one.byte_length], np.int64)).tolist()
    shown = data[begin - chunk.offset : begin - chunk.offset + min(end - begin, 4 * EXCERPT_CHARS)]
    return Reject(begin, end - begin, one.reason, shown)


def _bounds(text: bytes, chunk: Chunk) -> Integers:
    """Places at which lines begin, the end of the text and of its tail."""
    starts = _line_starts(np.frombuffer(text, np.uint8))
    ends = np.array([len(text), len(text) + chunk.tail], np.int64)
    return chunk.offset + np.unique(np.concatenate([starts, ends]))


def _line_starts(buffer: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> Integers:
    return np.concatenate([[0], np.flatnonzero(buffer == 10) + 1]).astype(np.int64)


@cache
def _rules(language: str, head: str) -> tuple[tuple[str, str], ...]:
    """Patterns and their translations, for messages after a head, which may name their severity."""
    words = LANGUAGES[language]
    return (*_durations(words, head.format(severity="LOG")), *_others(words, head))


def _marked(line: pl.Expr, language: str) -> pl.Expr:
    """Lines with the English severity: the first one in a line, because messages may have the same words."""
    english = severities_in(language)
    known = "|".join(map(re.escape, sorted(english, key=len, reverse=True)))
    found = line.str.extract_groups(rf"^((?:[^\t].*?)??(?:^|[^\pL\d_]))({known})([1-5]?){_COLON} {{1,3}}(.*)$")
    before, word, level, message = (found.struct.field(str(number)) for number in range(1, 5))
    severity = word.replace_strict(english, default=None, return_dtype=pl.String)
    return pl.coalesce(pl.concat_str(before, severity, level, pl.lit(":  "), message), line)


def _durations(words: Words, head: str) -> Iterator[tuple[str, str]]:
    named = "|".join(map(re.escape, words.duration))
    time = rf"{head}(?:{named})(?:{_COLON})? ?([0-9]+\.[0-9]{{3}}) ?[^\s0-9,，:]{{1,8}}"
    phases = [(*_phase(getattr(words, phase)), english) for phase, english in _PHASES.items()]
    for pattern, name, english in phases:
        yield rf"{time}[ ,，]{{1,3}}{pattern}", f"${{1}}duration: ${{2}} ms  {english}{name.format(3)}: "
    yield time, "${1}duration: ${2} ms"
    # Last, because what stands before a statement may begin like a duration.
    for pattern, name, english in phases:
        yield head + pattern, f"${{1}}{english}{name.format(2)}: "


def _phase(own: str) -> tuple[str, str]:
    """The pattern of what stands before a statement, and the English name of a prepared one by number of its group."""
    return own.replace("%s", r"(\S+?)") + rf"{_COLON}(?: |\r?(?:\n|$))", " ${{{}}}" if "%s" in own else ""


def _others(words: Words, head: str) -> Iterator[tuple[str, str]]:
    for own, english in words.others.items():
        severity = "DETAIL" if english == "parameters:" else "LOG"
        # Since release 16, details begin with a capital letter.
        spelled = f"(?i:{re.escape(own[0])}){re.escape(own[1:])}" if severity == "DETAIL" else re.escape(own)
        yield head.format(severity=severity) + spelled, f"${{1}}{english}"

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

from citus_analysis.core.arrow_arrays import fill_null_integers, make_number_array
from citus_analysis.core.type_aliases import Integers
from citus_analysis.formats.parsing.format import EXCERPT_CHARS, Reject
from citus_analysis.formats.pglog.languages import LANGUAGES, SEVERITIES, Words
from citus_analysis.formats.pglog.records import Chunk, ScannedChunk
from citus_analysis.formats.pglog.string_views import make_string_views, replace_invalid_utf8

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


def translate_to_english(data: bytes, language: str) -> bytes:
    r"""A text with the words of a language replaced.

    Example:
        >>> log = "12:00 [7] FEHLER:  x\\n12:00 [7] LOG:  Dauer: 1.250 ms  Anweisung: y"
        >>> translate_to_english(log.encode(), "de").decode()
        '12:00 [7] ERROR:  x\\n12:00 [7] LOG:  duration: 1.250 ms  statement: y'
    """
    buffer = np.frombuffer(replace_invalid_utf8(data), np.uint8)
    starts = _find_line_starts(buffer)
    ends = np.append(starts[1:] - 1, len(buffer))
    lines = pl.DataFrame({"line": make_string_views(buffer, starts, ends - starts)})
    line = _make_marked_severity_expr(pl.col("line"), language)
    for pattern, english in _build_translation_rules(language, _HEAD):
        line = line.str.replace(pattern, english)
    return str(lines.select(line.str.join("\n")).item()).encode()


def map_severities(language: str) -> dict[str, str]:
    """Severity in a language -> the English one; English ones occur in all logs."""
    words = LANGUAGES[language]
    return dict(zip(words.severities, SEVERITIES, strict=True)) | {word: word for word in SEVERITIES}


def make_english_severity_expr(language: str) -> pl.Expr:
    """The column `severity` in English; null for words of no known language."""
    return pl.col("severity").replace_strict(map_severities(language), default=None, return_dtype=pl.String)


def translate_rows(rows: pl.DataFrame, language: str) -> pl.DataFrame:
    """Records of csvlog or jsonlog, whose `severity` is in English, with `text` and `detail` in English."""
    is_log = pl.col("severity").cast(pl.String) == "LOG"
    text = pl.when(is_log).then(_make_translated_expr(pl.col("text"), language)).otherwise("text")
    return rows.with_columns(text=text, detail=_make_translated_expr(pl.col("detail"), language))


def translate_message(message: str, language: str) -> str:
    """One message of csvlog or jsonlog.

    Example:
        >>> translate_message("Dauer: 1.250 ms  Anweisung: SELECT 1", "de")
        'duration: 1.250 ms  statement: SELECT 1'
    """
    return str(pl.select(_make_translated_expr(pl.lit(message), language)).item())


def _make_translated_expr(message: pl.Expr, language: str) -> pl.Expr:
    for pattern, english in _build_translation_rules(language, _NO_HEAD):
        message = message.str.replace(pattern, english)
    return message


def place_in_log(data: bytes, translated: bytes, place: int) -> int:
    """The place in the log of the beginning of a line of its translation."""
    number = translated.count(b"\n", 0, place)
    return int(_find_line_starts(np.frombuffer(data, np.uint8))[number])


def scan_translated_chunk(chunk: Chunk, scan: Callable[[Chunk], ScannedChunk], language: str) -> ScannedChunk:
    """The records of a chunk, by a scanner of English logs."""
    data = chunk.data()
    english = translate_to_english(data, language)
    found = scan(Chunk(chunk.offset, english, chunk.tail, chunk.fresh))
    bounds = [_find_text_bounds(text, chunk) for text in (data, english)]

    def move(offsets: Integers) -> Integers:
        return bounds[0][np.searchsorted(bounds[1], offsets)]

    rejects = [_move_reject(one, move, data, chunk) for one in found.rejects]
    if not len(found.rows):
        return ScannedChunk(found.rows, rejects, 0, len(data) + chunk.tail - sum(one.byte_length for one in rejects))
    rows = found.rows if isinstance(found.rows, pa.RecordBatch) else found.rows.to_arrow().to_batches()[0]
    begins, lengths = (
        fill_null_integers(rows.column(name), 0).astype(np.int64) for name in ("byte_offset", "byte_length")
    )
    places = {"byte_offset": move(begins), "byte_length": move(begins + lengths) - move(begins)}
    columns = [
        make_number_array(places[name]) if name in places else column
        for name, column in zip(rows.schema.names, rows.columns, strict=True)
    ]
    moved_rows = pa.RecordBatch.from_arrays(columns, names=rows.schema.names)
    return ScannedChunk(moved_rows, rejects, int(places["byte_length"].sum()), found.noise_bytes)


def _move_reject(one: Reject, moved: Callable[[Integers], Integers], data: bytes, chunk: Chunk) -> Reject:
    begin, end = moved(np.array([one.byte_offset, one.byte_offset + one.byte_length], np.int64)).tolist()
    shown = data[begin - chunk.offset : begin - chunk.offset + min(end - begin, 4 * EXCERPT_CHARS)]
    return Reject(begin, end - begin, one.reason, shown)


def _find_text_bounds(text: bytes, chunk: Chunk) -> Integers:
    """Places at which lines begin, the end of the text and of its tail."""
    starts = _find_line_starts(np.frombuffer(text, np.uint8))
    ends = np.array([len(text), len(text) + chunk.tail], np.int64)
    return chunk.offset + np.unique(np.concatenate([starts, ends]))


def _find_line_starts(buffer: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> Integers:
    return np.concatenate([[0], np.flatnonzero(buffer == 10) + 1]).astype(np.int64)


@cache
def _build_translation_rules(language: str, head: str) -> tuple[tuple[str, str], ...]:
    """Patterns and their translations, for messages after a head, which may name their severity."""
    words = LANGUAGES[language]
    return (*_iterate_duration_rules(words, head.format(severity="LOG")), *_iterate_other_rules(words, head))


def _make_marked_severity_expr(line: pl.Expr, language: str) -> pl.Expr:
    """Lines with the English severity: the first one in a line, because messages may have the same words."""
    english = map_severities(language)
    known = "|".join(map(re.escape, sorted(english, key=len, reverse=True)))
    found = line.str.extract_groups(rf"^((?:[^\t].*?)??(?:^|[^\pL\d_]))({known})([1-5]?){_COLON} {{1,3}}(.*)$")
    before, word, level, message = (found.struct.field(str(number)) for number in range(1, 5))
    severity = word.replace_strict(english, default=None, return_dtype=pl.String)
    return pl.coalesce(pl.concat_str(before, severity, level, pl.lit(":  "), message), line)


def _iterate_duration_rules(words: Words, head: str) -> Iterator[tuple[str, str]]:
    named = "|".join(map(re.escape, words.duration))
    time = rf"{head}(?:{named})(?:{_COLON})? ?([0-9]+\.[0-9]{{3}}) ?[^\s0-9,，:]{{1,8}}"
    phases = [(*_make_phase_pattern(getattr(words, phase)), english) for phase, english in _PHASES.items()]
    for pattern, name, english in phases:
        yield rf"{time}[ ,，]{{1,3}}{pattern}", f"${{1}}duration: ${{2}} ms  {english}{name.format(3)}: "
    yield time, "${1}duration: ${2} ms"
    # Last, because what stands before a statement may begin like a duration.
    for pattern, name, english in phases:
        yield head + pattern, f"${{1}}{english}{name.format(2)}: "


def _make_phase_pattern(own: str) -> tuple[str, str]:
    """The pattern of what stands before a statement, and the English name of a prepared one by number of its group."""
    return own.replace("%s", r"(\S+?)") + rf"{_COLON}(?: |\r?(?:\n|$))", " ${{{}}}" if "%s" in own else ""


def _iterate_other_rules(words: Words, head: str) -> Iterator[tuple[str, str]]:
    for own, english in words.others.items():
        severity = "DETAIL" if english == "parameters:" else "LOG"
        # Since release 16, details begin with a capital letter.
        spelled = f"(?i:{re.escape(own[0])}){re.escape(own[1:])}" if severity == "DETAIL" else re.escape(own)
        yield head.format(severity=severity) + spelled, f"${{1}}{english}"

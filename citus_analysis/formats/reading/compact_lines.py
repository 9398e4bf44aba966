r"""Lines of columns separated by blanks, each run of blanks reduced to one, so that a CSV reader can split them.

Example:
    >>> compact_lines(b"a   1.5\t2 \r\n\n b", offset=10).rows()
    [(10, 12, 'a 1.5 2', True), (22, 1, '', True), (23, 2, 'b', False)]
"""

from __future__ import annotations

from io import BytesIO
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.formats.reading.texts_between import lines_of, texts_between

_BLANK: Final = ord(" ")
_NEWLINE: Final = ord("\n")
_OTHER_BLANKS: Final = (b"\t", b"\r", b"\x0b", b"\x0c")
_TO_BLANKS: Final = bytes.maketrans(b"".join(_OTHER_BLANKS), b" " * len(_OTHER_BLANKS))
_MARK: Final = b"\xef\xbb\xbf"


def compact_lines(data: bytes, offset: int = 0) -> pl.DataFrame:
    """Lines of a block: `offset` and `length` (line end included) in bytes of the source, `text`, `terminated`.

    `text` has single blanks between columns and none at its ends; bytes that are not UTF-8 become U+FFFD.
    """
    starts, sizes = lines_of(data)
    if not offset and data.startswith(_MARK):
        data = b"   " + data[len(_MARK) :]
    # Most programs write none of these, and searching for them takes a tenth of the time of replacing them.
    texts = _texts(data.translate(_TO_BLANKS) if any(other in data for other in _OTHER_BLANKS) else data)
    terminated = np.arange(len(starts)) < data.count(b"\n")
    return pl.DataFrame({"offset": starts + offset, "length": sizes, "text": texts, "terminated": terminated})


def _texts(data: bytes) -> pl.Series:
    lines = len(lines_of(data)[0])
    text = _without_blanks(np.frombuffer(data.decode("utf-8", "replace").encode(), np.uint8))
    # A last line without an end is empty if it contained only blanks.
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == _NEWLINE) + 1
    bounds = np.concatenate([[0], ends, [len(text)] * (lines - len(ends))])
    return texts_between(text, bounds).str.strip_chars_end("\n")


def _without_blanks(text: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> bytes:
    # Keep the last blank of a run unless the line ends after it; blanks at the beginning of a line are removed below.
    blank = text == _BLANK
    dropped = blank.copy()
    dropped[:-1] &= blank[1:] | (text[1:] == _NEWLINE)
    alone: bytes = text[~dropped].tobytes()
    return alone.removeprefix(b" ").replace(b"\n ", b"\n") if b"\n " in alone or alone[:1] == b" " else alone


def split_columns(texts: pl.Series, count: int, numbers: frozenset[int], separator: str = " ") -> pl.DataFrame:
    r"""Split texts of exactly `count` columns into columns `0`, `1` ...: those in `numbers` are numbers, others texts.

    Numbers that cannot be read, or are not finite, are null.

    Example:
        >>> split_columns(pl.Series(["a 1.5", "b x"]), 2, frozenset({1})).rows()
        [('a', 1.5), ('b', None)]
    """
    schema = {str(index): pl.Float64() if index in numbers else pl.String() for index in range(count)}
    if texts.is_empty():
        return pl.DataFrame(schema=schema)
    data = (texts.str.join("\n").item() + "\n").encode()
    frame = pl.read_csv(
        BytesIO(data), separator=separator, has_header=False, quote_char=None, schema=schema, ignore_errors=True
    )
    if frame.height != len(texts):
        # The caller has already found the lines; a CSV reader may take other bytes for line ends.
        parts = texts.to_frame("text").select(pl.col("text").str.split(separator))
        frame = parts.select(
            pl.col("text").list.get(int(name), null_on_oob=True).cast(kind, strict=False).alias(name)
            for name, kind in schema.items()
        )
    floats = pl.col(pl.Float64)
    return frame.with_columns(pl.when(floats.is_finite()).then(floats))

r"""Text blocks as frames of lines, for formats that work on whole columns of lines.

Example:
    >>> line_frame(b"one\r\ntwo", offset=100)["text"].to_list()
    ['one', 'two']
    >>> line_frame(b"one\r\ntwo", offset=100)["offset"].to_list()
    [100, 105]
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa

from citus_analysis.formats.api.format import EXCERPT_CHARS, Parsed
from citus_analysis.formats.api.redacted_columns import redact_expr
from citus_analysis.formats.sources.content import BLOCK_BYTES, Block, Content
from citus_analysis.schema import TABLES

#: Reason to reject a last line without a line end: a truncated number is still a valid number.
UNTERMINATED: Final = "the file ends inside this line"

_NEWLINE: Final = 10
_SHORT_BYTES: Final = 2**16
#: White space of ASCII before the end of a line.
_BLANK_ENDS: Final = (b" \n", b"\r\n", b"\t\n", b"\x0b\n", b"\x0c\n")
_BLANKS: Final = b" \r\t\x0b\x0c"


def line_frame(data: bytes, offset: int = 0) -> pl.DataFrame:
    """Lines of a block: `offset` and `length` (line end included) in bytes of the source, `text`, `terminated`.

    `text` lacks trailing white space and, at the beginning of the source, the byte order mark that some editors
    write. Bytes that are not UTF-8 become U+FFFD; offsets do not change.
    """
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == _NEWLINE).astype(np.int64) + 1
    bounds = _bounds(ends, len(data))
    bare = _is_bare(data)
    lines = pl.DataFrame(
        {
            "offset": bounds[:-1] + offset,
            "length": np.diff(bounds),
            "text": _bare_texts(data, bounds) if bare else _texts(data, bounds),
            "terminated": np.arange(len(bounds) - 1) < len(ends),
        }
    )
    return lines if bare else lines.with_columns(_first_without_mark(data, offset).str.strip_chars_end())


def _is_bare(data: bytes) -> bool:
    """Whether the text is short and all its lines end without white space: only the line ends have to be removed.

    Of a long text, the search for white space takes longer than the query that removes it.
    """
    if len(data) > _SHORT_BYTES:
        return False
    return data.isascii() and data[-1:] not in _BLANKS and not any(end in data for end in _BLANK_ENDS)


def _bare_texts(data: bytes, bounds: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pl.Series:
    bounds = bounds - np.minimum(np.arange(len(bounds)), data.count(b"\n"))
    return _joined_texts(data.replace(b"\n", b""), bounds)


def beginning(data: bytes, lines: int, comments: tuple[str, ...] = ()) -> bytes:
    r"""The bytes up to the end of the nth line that is not empty and no comment; all if there are fewer.

    The first lines often suffice to recognise a file, and other files are then not divided into lines as a whole.

    Args:
        data: a text.
        lines: n.
        comments: what comments begin with.

    Example:
        >>> beginning(b"# a\n\nb\nc\n", 1, ("#",))
        b'# a\n\nb\n'
    """
    end = found = 0
    for line in BytesIO(data):
        end += len(line)
        text = line.decode("utf-8", "replace").strip()
        found += bool(text) and not text.startswith(comments)
        if found >= lines:
            break
    return data[:end]


def _first_without_mark(data: bytes, offset: int) -> pl.Expr:
    text = pl.col("text")
    if offset or not data.startswith(codecs.BOM_UTF8):
        return text
    return pl.when(pl.col("offset") == 0).then(text.str.strip_prefix("\ufeff")).otherwise(text)


def _bounds(ends: np.ndarray[tuple[int], np.dtype[np.int64]], size: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    closing = [size] if size and (not len(ends) or ends[-1] != size) else []
    return np.concatenate([np.zeros(1, dtype=np.int64), ends, np.array(closing, dtype=np.int64)])


def _texts(data: bytes, bounds: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pl.Series:
    try:
        data.decode()
    except UnicodeDecodeError:
        # Replacement changes lengths but never line ends, so line n stays line n.
        data = data.decode("utf-8", "replace").encode()
        ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == _NEWLINE).astype(np.int64) + 1
        bounds = _bounds(ends, len(data))
    return _joined_texts(data, bounds)


def _joined_texts(data: bytes, bounds: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pl.Series:
    array = pa.Array.from_buffers(
        pa.large_string(), len(bounds) - 1, [None, pa.py_buffer(bounds.tobytes()), pa.py_buffer(data)]
    )
    return pl.Series("text", array, dtype=pl.String)


def chunks(content: Content, complete: Callable[[bytes, int], int]) -> Iterator[Block]:
    """Blocks that end where a record ends; an incomplete record is held back for the next block.

    Args:
        content: the source.
        complete: returns, for bytes and their offset, the number of bytes of complete records.

    Yields:
        Blocks of whole records, and oversized ones as they come.
    """
    held: Block | None = None
    for block in content.blocks():
        if held is not None and (block.oversized or held.oversized):
            yield held
        elif held is not None:
            data = held.data
            # A record longer than a block is cut: memory stays bounded for any file.
            cut = complete(data, held.offset) or (len(data) if len(data) >= BLOCK_BYTES else 0)
            if cut:
                yield Block(held.offset, data[:cut], cut)
            block = Block(held.offset + cut, data[cut:] + block.data, len(data) - cut + block.length)
        held = block
    if held is not None:
        # This is the end of the source: no record continues.
        yield held


def reject_oversized(block: Block) -> Parsed:
    """A line that is too long for the output of a sampler or profiler."""
    line = line_frame(block.data, block.offset).head(1)
    return Parsed(
        {}, 0, rejects=reject_runs(line.with_columns(length=pl.lit(block.length), reason=pl.lit("line too long")))
    )


def reject_runs(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines with a `reason` as rows of `rejects`; neighbours with the same reason become one row.

    Args:
        lines: a frame of :func:`line_frame` with the column `reason` (null = not rejected).
    """
    # Most files have no rejects, and the query below would take several percent of the time of a small file.
    if lines["reason"].null_count() == lines.height:
        return TABLES["rejects"].parsed().empty()
    bad = lines.filter(pl.col("reason").is_not_null())
    starts = (pl.col("offset") != (pl.col("offset") + pl.col("length")).shift()) | (
        pl.col("reason") != pl.col("reason").shift()
    )
    return (
        bad.group_by(starts.fill_null(value=True).cum_sum().alias("run"), maintain_order=True)
        .agg(
            pl.col("offset").first().alias("byte_offset"),
            pl.col("length").sum().alias("byte_length"),
            pl.col("reason").first(),
            pl.col("text").first().str.head(4 * EXCERPT_CHARS).alias("excerpt"),
        )
        .drop("run")
        # Redact before the final cut, which could separate a secret's key from its value.
        .with_columns(redact_expr(pl.col("excerpt")).str.head(EXCERPT_CHARS))
    )

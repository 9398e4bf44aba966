r"""Text blocks as frames of lines, for formats that work on whole columns of lines.

Example:
    >>> line_frame(b"one\r\ntwo", offset=100)["text"].to_list()
    ['one', 'two']
    >>> line_frame(b"one\r\ntwo", offset=100)["offset"].to_list()
    [100, 105]
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BytesIO
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from citus_analysis.core.type_aliases import Integers
from citus_analysis.formats.deliveries.content import BLOCK_BYTES, Block, Content, find_line_starts
from citus_analysis.formats.parsing.format import EXCERPT_CHARS, Parsed
from citus_analysis.redaction import redact_expr
from citus_analysis.schema import TABLES, Rows

# Lines of a text by their places, and slices of a text as a column, without a copy of each.


def find_line_bounds(data: bytes) -> tuple[Integers, Integers]:
    r"""Offset of each line of `data`, and its length with the line end.

    Example:
        >>> [numbers.tolist() for numbers in find_line_bounds(b"ab\n\nc")]
        [[0, 3, 4], [3, 1, 1]]
    """
    bounds = find_line_starts(data)
    return bounds[:-1], np.diff(bounds)


def slice_texts(data: bytes | npt.NDArray[np.uint8], bounds: npt.NDArray[np.integer]) -> pl.Series:
    """The slices of UTF-8 that bounds divide a text into.

    Example:
        >>> slice_texts(b"abc", np.array([0, 1, 3])).to_list()
        ['a', 'bc']
    """
    buffers = [None, pa.py_buffer(np.ascontiguousarray(bounds, np.int64)), pa.py_buffer(data)]
    return pl.Series("text", pa.Array.from_buffers(pa.large_string(), len(bounds) - 1, buffers), dtype=pl.String)


#: Reason to reject a last line without a line end: a truncated number is still a valid number.
UNTERMINATED: Final = "the file ends inside this line"

_State = TypeVar("_State")


def line_frame(data: bytes, offset: int = 0) -> pl.DataFrame:
    """Lines of a block: `offset` and `length` (line end included) in bytes of the source, `text`, `terminated`.

    `text` lacks trailing white space and, at the beginning of the source, the byte order mark that some editors
    write. Bytes that are not UTF-8 become U+FFFD; offsets do not change.
    """
    starts, sizes = find_line_bounds(data)
    # Replacement changes lengths but never line ends, so line n stays line n.
    whole = data.decode("utf-8", "replace").encode()
    text = slice_texts(whole, np.append(0, np.cumsum(find_line_bounds(whole)[1])))
    terminated = np.arange(len(starts)) < data.count(b"\n")
    lines = pl.DataFrame({"offset": starts + offset, "length": sizes, "text": text, "terminated": terminated})
    marked = not offset and data.startswith(codecs.BOM_UTF8)
    first = pl.when(pl.col("offset") == 0).then(pl.col("text").str.strip_prefix("\ufeff")).otherwise("text")
    return lines.with_columns((first if marked else pl.col("text")).str.strip_chars_end())


def take_first_lines(data: bytes, lines: int, comments: tuple[str, ...] = ()) -> bytes:
    r"""The bytes up to the end of the nth line that is not empty and no comment; all if there are fewer.

    The first lines often suffice to recognise a file, and other files are then not divided into lines as a whole.

    Args:
        data: a text.
        lines: n.
        comments: what comments begin with.

    Example:
        >>> take_first_lines(b"# a\n\nb\nc\n", 1, ("#",))
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


def measure_whole_lines(data: bytes, _offset: int) -> int:
    """Number of bytes of complete lines."""
    return data.rfind(b"\n") + 1


def split_into_blocks(content: Content, complete: Callable[[bytes, int], int] = measure_whole_lines) -> Iterator[Block]:
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


def parse_each(
    blocks: Iterable[Block], parse: Callable[[Block, _State], tuple[Parsed, _State]], state: _State
) -> Iterator[Parsed]:
    """The pieces of blocks, each parsed with the state after those before it; oversized blocks are rejected.

    Args:
        blocks: blocks in order.
        parse: returns, for a block and the state before it, its piece and the state after it.
        state: the state before the first block.
    """
    for block in blocks:
        if block.oversized:
            yield reject_oversized(block)
        else:
            parsed, state = parse(block, state)
            yield parsed


def make_first_true_expr(cases: Mapping[str, pl.Expr | pl.Series]) -> pl.Expr:
    """The key of the first condition that holds in each row; null where none does.

    Example:
        >>> number = pl.col("number")
        >>> first_true = make_first_true_expr({"one": number == 1, "low": number < 3})
        >>> pl.DataFrame({"number": [1, 2, 3]}).select(first_true).rows()
        [('one',), ('low',), (None,)]
    """
    return pl.coalesce(pl.when(holds).then(pl.lit(key)) for key, holds in cases.items())


def select_readable_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows without a `reason`, which are nearly always all; without this column."""
    few = rows["reason"].null_count() < rows.height
    return (rows.filter(pl.col("reason").is_null()) if few else rows).drop("reason")


def add_reject_reasons(lines: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The lines, with the `reason` of those from which `rows` cannot be read (`offset`, `reason`)."""
    if rows["reason"].null_count() == rows.height:
        return lines
    misread = rows.filter(pl.col("reason").is_not_null()).select("offset", misread="reason")
    joined = lines.join(misread.unique("offset"), on="offset", how="left", maintain_order="left")
    return joined.with_columns(reason=pl.coalesce("reason", "misread")).drop("misread")


def build_parsed_lines(tables: Mapping[str, Rows], lines: pl.DataFrame, noise: pl.Expr) -> Parsed:
    """The piece for classified lines.

    Args:
        tables: the rows.
        lines: lines with a `reason` where they are rejected.
        noise: whether a line is noise, if it is not rejected.
    """
    clean = lines.filter(pl.col("reason").is_null())
    noise_bytes = int(clean.filter(noise)["length"].sum())
    return Parsed(tables, int(clean["length"].sum()) - noise_bytes, noise_bytes, reject_runs(lines))


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


# Blocks of delimited numbers, read by a CSV reader if every line fits the schema.


def read_uniform(data: bytes, separator: str, schema: pl.Schema) -> pl.DataFrame | None:
    r"""The block as columns; None if a line does not fit the schema or lacks its end.

    After None, the caller examines the lines one by one.

    Example:
        >>> schema = pl.Schema({"operation": pl.String(), "latency_us": pl.Int64()})
        >>> read_uniform(b"READ,5\nREAD,7\n", ",", schema)["latency_us"].to_list()
        [5, 7]
        >>> read_uniform(b"READ,5\nREAD\n", ",", schema) is None
        True
    """
    if not data.endswith(b"\n"):
        return None
    try:
        frame = pl.read_csv(BytesIO(data), separator=separator, has_header=False, quote_char=None, schema=schema)
    except pl.exceptions.PolarsError:
        return None
    complete = frame.height == data.count(b"\n") and not any(frame.null_count().row(0))
    return frame if complete else None


# Range checks of printed numbers: a number out of its column's range rejects the line, not the file.

_WHOLE: Final = re.compile(r"-?[0-9]{1,19}")
_BITS: Final[Mapping[pl.DataType, int]] = {pl.Int32(): 32, pl.Int64(): 64}
_SHOWN_CHARS: Final = 40


def fits(value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Whether a finite number is within a column's range; null for a null."""
    if dtype == pl.Float64():
        return value.is_finite()
    return value.is_finite() & (value.cast(dtype, strict=False).is_not_null() | value.is_null())


def parse_whole_number(text: str, dtype: pl.DataType) -> int:
    """The value of a number in ASCII digits, for an integer column.

    Raises:
        ValueError: the text is not a whole number or is out of the column's range.
    """
    if _WHOLE.fullmatch(text.strip()):
        number = int(text)
        if -(2 ** (_BITS[dtype] - 1)) <= number < 2 ** (_BITS[dtype] - 1):
            return number
    raise ValueError(f"not a whole number that fits: {text[:_SHOWN_CHARS]!r}")

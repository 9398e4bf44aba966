r"""Text blocks as frames of lines, for formats that work on whole columns of lines.

Example:
    >>> line_frame(b"one\r\ntwo", offset=100)["text"].to_list()
    ['one', 'two']
    >>> line_frame(b"one\r\ntwo", offset=100)["offset"].to_list()
    [100, 105]
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BytesIO
from typing import Final, TypeVar

import numpy as np
import polars as pl

from citus_analysis.formats.api.format import EXCERPT_CHARS, Parsed
from citus_analysis.formats.api.redacted_columns import redact_expr
from citus_analysis.formats.reading.texts_between import lines_of, texts_between
from citus_analysis.formats.sources.content import BLOCK_BYTES, Block, Content
from citus_analysis.schema import TABLES, Rows

#: Reason to reject a last line without a line end: a truncated number is still a valid number.
UNTERMINATED: Final = "the file ends inside this line"

_State = TypeVar("_State")


def line_frame(data: bytes, offset: int = 0) -> pl.DataFrame:
    """Lines of a block: `offset` and `length` (line end included) in bytes of the source, `text`, `terminated`.

    `text` lacks trailing white space and, at the beginning of the source, the byte order mark that some editors
    write. Bytes that are not UTF-8 become U+FFFD; offsets do not change.
    """
    starts, sizes = lines_of(data)
    # Replacement changes lengths but never line ends, so line n stays line n.
    whole = data.decode("utf-8", "replace").encode()
    text = texts_between(whole, np.append(0, np.cumsum(lines_of(whole)[1])))
    terminated = np.arange(len(starts)) < data.count(b"\n")
    lines = pl.DataFrame({"offset": starts + offset, "length": sizes, "text": text, "terminated": terminated})
    marked = not offset and data.startswith(codecs.BOM_UTF8)
    first = pl.when(pl.col("offset") == 0).then(pl.col("text").str.strip_prefix("\ufeff")).otherwise("text")
    return lines.with_columns((first if marked else pl.col("text")).str.strip_chars_end())


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


def whole_lines(data: bytes, _offset: int) -> int:
    """Number of bytes of complete lines."""
    return data.rfind(b"\n") + 1


def chunks(content: Content, complete: Callable[[bytes, int], int] = whole_lines) -> Iterator[Block]:
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


def first_true(cases: Mapping[str, pl.Expr | pl.Series]) -> pl.Expr:
    """The key of the first condition that holds in each row; null where none does.

    Example:
        >>> number = pl.col("number")
        >>> pl.DataFrame({"number": [1, 2, 3]}).select(first_true({"one": number == 1, "low": number < 3})).rows()
        [('one',), ('low',), (None,)]
    """
    return pl.coalesce(pl.when(holds).then(pl.lit(key)) for key, holds in cases.items())


def readable(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows without a `reason`, which are nearly always all; without this column."""
    few = rows["reason"].null_count() < rows.height
    return (rows.filter(pl.col("reason").is_null()) if few else rows).drop("reason")


def with_reasons(lines: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The lines, with the `reason` of those from which `rows` cannot be read (`offset`, `reason`)."""
    if rows["reason"].null_count() == rows.height:
        return lines
    misread = rows.filter(pl.col("reason").is_not_null()).select("offset", misread="reason")
    joined = lines.join(misread.unique("offset"), on="offset", how="left", maintain_order="left")
    return joined.with_columns(reason=pl.coalesce("reason", "misread")).drop("misread")


def accounted(tables: Mapping[str, Rows], lines: pl.DataFrame, noise: pl.Expr) -> Parsed:
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

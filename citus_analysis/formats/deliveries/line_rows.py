r"""Texts with their places as rows of a frame, in which they are chosen, sorted and put together.

The columns are `text`, `begin` and `end` of its place in the file, and `time`, which is :data:`NO_TIME` where it is not
known, and null where the delivery gives no times.

Example:
    >>> rows = rows_of(Lines.of_file(b"one\ntwo\n", offset=10))
    >>> rows.rows()
    [('one\n', 10, 14), ('two\n', 14, 18)]
    >>> lines_of_rows(rows[1:].with_columns(time=5), timed=True).data
    b'two\n'
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from citus_analysis.core.array_types import Integers
from citus_analysis.formats.deliveries.placed_lines import NO_TIME, Lines

if TYPE_CHECKING:
    import polars as pl

#: A text that never ends is handed on in parts of this size.
_TEXT_CAP: Final = 10 * 2**20


def rows_of(text: Lines) -> pl.DataFrame:
    """Lines as rows, each with its line end; bytes that are not UTF-8 become question marks of the same number."""
    import polars as pl

    data = text.data
    try:
        data.decode()
    except UnicodeDecodeError:
        data = data.decode("utf-8", "surrogateescape").encode("utf-8", "replace")
    lines = texts_between(data, text.starts).cast(pl.String)
    return pl.DataFrame({"text": lines, "begin": text.begins, "end": text.ends})


def texts_between(data: bytes, bounds: Integers) -> pl.Series:
    """The stretches of bytes that bounds divide a text into."""
    import polars as pl
    import pyarrow as pa

    buffers = [None, pa.py_buffer(np.ascontiguousarray(bounds, np.int64)), pa.py_buffer(data)]
    return pl.Series("text", pa.Array.from_buffers(pa.large_binary(), len(bounds) - 1, buffers))


def bytes_of(texts: pl.Series) -> tuple[bytes, Integers]:
    """Texts one after the other, and their starts with the length at the end."""
    array = texts.rechunk().to_arrow()
    if len(array) == 0:
        return b"", np.zeros(1, np.int64)
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    data = memoryview(array.buffers()[2])[int(offsets[0]) : int(offsets[-1])] if array.buffers()[2] else b""
    return bytes(data), offsets - offsets[0]


def lines_of_rows(rows: pl.DataFrame, *, timed: bool) -> Lines:
    """Rows of one line each as a text, which keeps the times if it shall and there are any."""
    begins, ends, times = (rows[name] for name in ("begin", "end", "time"))
    known = times.fill_null(NO_TIME).to_numpy() if timed and times.null_count() < len(times) else None
    return Lines(*bytes_of(rows["text"]), begins.to_numpy(), ends.to_numpy(), known)


def put_together(pieces: Iterator[pl.DataFrame], keys: Sequence[str] = ()) -> Iterator[pl.DataFrame]:
    """The rows with the pieces of one text as one row, where its last piece stands.

    Args:
        pieces: rows of which `open` says that the next one with the same keys continues them. If they have a column
            `joins`, it says which lines continue the one before.
        keys: columns of which each combination of values is another text.
    """
    import polars as pl

    pending: pl.DataFrame | None = None
    for piece in pieces:
        if pending is None and not piece["open"].any():
            yield piece
            continue
        found = _put_together(piece if pending is None else pl.concat([pending, piece]), keys)
        whole, rest = found.filter(~pl.col("open")), found.filter("open")
        pending = rest if rest.height else None
        if whole.height:
            yield whole
    if pending is not None:
        yield pending


def _put_together(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Rows of which only the last ones of each text may be open."""
    import polars as pl

    if "joins" in rows.columns:
        joined = pl.col("joins").shift(-1)
        # A piece lacks the line end, so that the next one continues it.
        bare = pl.when(joined).then(pl.col("text").str.strip_chars_end("\r\n")).otherwise("text")
        rows = rows.with_columns(open=joined.fill_null(value=True), text=bare)
    rows = rows.with_row_index("row")
    rows = rows.sort(keys, maintain_order=True) if keys else rows
    same = [pl.col(key) == pl.col(key).shift() for key in keys]
    goes_on = rows.select(pl.all_horizontal(pl.col("open").shift(fill_value=False), *same).fill_null(value=False))
    first = np.flatnonzero(~goes_on.to_series().to_numpy())
    last = np.append(first[1:], rows.height) - 1
    data, starts = bytes_of(rows["text"])
    bounds = starts[np.append(first, rows.height)]
    ends = rows[last]
    return (
        rows[first]
        .with_columns(ends["row", "end"], text=texts_between(data, bounds).cast(rows["text"].dtype))
        .with_columns(open=ends["open"] & pl.Series(np.diff(bounds) < _TEXT_CAP))
        .sort("row")
        .drop("row")
    )

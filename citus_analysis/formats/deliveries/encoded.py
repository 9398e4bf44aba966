r"""The lines of a file in UTF-16 or UTF-32, or with a byte order mark, as UTF-8.

Example:
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "two-lines.txt"
    >>> _ = path.write_bytes("one\ntwo\n".encode("utf-16"))
    >>> [(lines.data, lines.begins.tolist()) for lines in encoded_lines(Content(path), "UTF-16")]
    [(b'one\ntwo\n', [0, 10])]
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import closing
from typing import Final

import numpy as np

from citus_analysis.core.array_types import Integers
from citus_analysis.formats.deliveries.placed_lines import Lines, lines_of_blocks, starts_of
from citus_analysis.formats.sources.content import BLOCK_BYTES, LINE_CAP, Content, Reader
from citus_analysis.formats.sources.encodings import MARKS

_UTF8_MARK: Final = "UTF-8"


def encoded_lines(content: Content, encoding: str | None, *, anywhere: bool = False) -> Iterator[Lines]:
    """The lines of a file as UTF-8; characters that the encoding does not have become replacement characters.

    Args:
        content: the file.
        encoding: `UTF-16`, `UTF-16LE`, `UTF-16BE`, `UTF-32`, `UTF-8` (a byte order mark is left out), or None.
        anywhere: stretches need not end where lines end, so that lines of any length are whole.

    Raises:
        InputError: the file cannot be read.
    """
    if encoding in {None, _UTF8_MARK}:
        texts = _cut_anywhere(content) if anywhere else lines_of_blocks(content.blocks())
        yield from texts if encoding is None else _without_mark(texts)
    else:
        yield from _recoded(content, _codec_of(content, encoding))


def _cut_anywhere(content: Content) -> Iterator[Lines]:
    with closing(content.open()) as stream:
        reader, offset = Reader(stream, content.path), 0
        while data := reader.read(BLOCK_BYTES):
            yield Lines.of_file(data, offset)
            offset += len(data)


def _without_mark(texts: Iterator[Lines]) -> Iterator[Lines]:
    mark = len(codecs.BOM_UTF8)
    for text in texts:
        if len(text) and text.begins[0] == 0 and text.data.startswith(codecs.BOM_UTF8):
            starts = np.maximum(text.starts - mark, 0)
            yield Lines(text.data[mark:], starts, text.begins, text.ends)
        else:
            yield text


def _codec_of(content: Content, encoding: str) -> tuple[str, int]:
    """Name of the codec with its byte order, and the bytes of a unit."""
    marked = next((mark for mark in MARKS if content.start.startswith(mark)), b"")
    unit = 4 if encoding.startswith("UTF-32") else 2
    big = encoding.endswith("BE") or marked in {codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE}
    return f"utf-{8 * unit}-{'be' if big else 'le'}", unit


def _recoded(content: Content, codec: tuple[str, int]) -> Iterator[Lines]:
    name, unit = codec
    with closing(content.open()) as stream:
        reader, held, offset = Reader(stream, content.path), b"", 0
        while True:
            more = reader.read(BLOCK_BYTES)
            data = held + more
            bounds = _line_ends(data, codec)
            if not more:
                bounds = np.union1d(bounds, [len(data)])
            elif not len(bounds) and len(data) > 4 * LINE_CAP:
                # A line beyond the cap is cut into pieces, so that memory stays bounded.
                bounds = np.array([len(data) // unit * unit])
            end = int(bounds[-1]) if len(bounds) else 0
            if end:
                yield _as_utf8(data[:end], np.concatenate([[0], bounds]), offset, name)
            offset, held = offset + end, data[end:]
            if not more:
                return


def _line_ends(data: bytes, codec: tuple[str, int]) -> Integers:
    """Offsets after the line ends in a stretch that begins with a whole unit."""
    name, unit = codec
    order = ">" if name.endswith("be") else "<"
    units = np.frombuffer(data[: len(data) // unit * unit], f"{order}u{unit}")
    return (np.flatnonzero(units == ord("\n")) + 1) * unit


def _as_utf8(data: bytes, bounds: Integers, offset: int, codec: str) -> Lines:
    text = data.decode(codec, "replace")
    utf8 = text.removeprefix("\ufeff").encode() if offset == 0 else text.encode()
    starts = starts_of(utf8)
    if len(starts) != len(bounds):
        # Only a piece of a line that is longer than the cap has no line end of its own.
        starts = np.array([0, len(utf8)], np.int64)
    return Lines(utf8, starts, offset + bounds[:-1], offset + bounds[1:])

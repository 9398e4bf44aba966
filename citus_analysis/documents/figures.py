"""Images that carry the digest of their table, so that a stale one is known without drawing it again.

A PNG has it in a text chunk, an SVG in its metadata, both under the name `citus-analysis-table`. Nothing that is drawn
changes.

References:
    Portable Network Graphics (PNG) Specification, third edition, 11.3.3.2 tEXt. W3C, 2025.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from citus_analysis.core.frames import Frame, convert_to_polars
from citus_analysis.core.output_files import open_output
from citus_analysis.errors import FormatError, InputError

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: Name of the digest in an image.
KEYWORD: Final = "citus-analysis-table"
_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_SVG: Final = re.compile(rb"<svg\b[^>]*>")
_IN_SVG: Final = re.compile(rb'<metadata id="' + KEYWORD.encode() + rb'">([^<]*)</metadata>')
#: Digits of a number that count: the same analysis on another machine may differ beyond them.
_DIGITS: Final = 9


def digest_table(table: Frame) -> str:
    """The digest of a table, whatever the order of its rows; numbers count with nine digits.

    Example:
        >>> import polars as pl
        >>> one, other = pl.DataFrame({"x": [1, 2], "y": [0.1, 0.3]}), pl.DataFrame({"x": [2, 1], "y": [0.1 * 3, 0.1]})
        >>> digest_table(one) == digest_table(other)
        True
    """
    frame = convert_to_polars(table)
    lines = sorted("\x1f".join(map(_format_cell, row)) for row in frame.iter_rows())
    content = "\x1e".join(["\x1f".join(frame.columns), *lines])
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def _format_cell(value: object) -> str:
    if isinstance(value, float):
        # There is no -0.
        return f"{value + 0.0:.{_DIGITS}g}"
    return "" if value is None else str(value)


#: What of a curve is its data; the rest is how it is drawn.
_AXES: Final = ("x", "y", "z", "base", "values", "labels", "parents")
_ERRORS: Final = ("error_x", "error_y")
#: Digits of a number in a figure that count: more than a reader can see.
_DIGITS_SEEN: Final = 4


def tabulate_figure(figure: Figure) -> pl.DataFrame:
    """The numbers and names that a plotly figure shows, to four digits: the table whose digest its image carries.

    Example:
        >>> import plotly.graph_objects as go
        >>> tabulate_figure(go.Figure(go.Scatter(x=[1, 2], y=[0.123456, 3], name="a"))).rows()
        [('a', 'x', 0, '1'), ('a', 'x', 1, '2'), ('a', 'y', 0, '0.1235'), ('a', 'y', 1, '3')]
    """
    rows = []
    for trace in figure.data:
        found = [(axis, getattr(trace, axis, None)) for axis in _AXES]
        found += [(error, getattr(getattr(trace, error, None), "array", None)) for error in _ERRORS]
        for axis, values in found:
            for place, value in enumerate(() if values is None else values):
                rows.append((trace.name or "", axis, place, _format_shown(value)))
    return pl.DataFrame(rows, schema=["curve", "axis", "place", "value"], orient="row")


def _format_shown(value: object) -> str:
    try:
        return f"{float(value) + 0.0:.{_DIGITS_SEEN}g}"  # type: ignore[arg-type] # a number of any kind, or a name
    except (TypeError, ValueError):
        return str(value)


def stamp_image(path: str | PathLike[str], table: Frame) -> str:
    """Write the digest of a table into an image that was drawn of it; a former digest is replaced.

    Args:
        path: a PNG or an SVG.
        table: the table that it shows.

    Returns:
        The digest.

    Raises:
        InputError: the file cannot be read, or is neither PNG nor SVG.

    Example:
        >>> import pathlib, tempfile, polars as pl
        >>> image = pathlib.Path(tempfile.mkdtemp()) / "image.svg"
        >>> _ = image.write_text('<svg xmlns="http://www.w3.org/2000/svg"></svg>')
        >>> stamp_image(image, pl.DataFrame({"x": [1]})) == read_stamp(image)
        True
    """
    digest = digest_table(table)
    data = _read_image(path)
    if data.startswith(_SIGNATURE):
        text = f"{KEYWORD}\0{digest}".encode("latin-1")
        chunks = [chunk for chunk in _iterate_chunks(data, path) if not _is_stamp(chunk)]
        content = b"".join([_SIGNATURE, chunks[0], _make_chunk(b"tEXt", text), *chunks[1:]])
    else:
        bare = _IN_SVG.sub(b"", data)
        root = _SVG.search(bare)
        if root is None:
            raise InputError("is neither a PNG nor an SVG with an opening tag", path=path, hint="export it as one")
        stamp = f'<metadata id="{KEYWORD}">{digest}</metadata>'.encode()
        content = bare[: root.end()] + stamp + bare[root.end() :]
    with open_output(path) as out:
        out.write(content)
    return digest


def read_stamp(path: str | PathLike[str]) -> str | None:
    """The digest in an image; None if it has none.

    Raises:
        InputError: the file cannot be read, or is neither PNG nor SVG.
    """
    data = _read_image(path)
    if data.startswith(_SIGNATURE):
        found = next((chunk for chunk in _iterate_chunks(data, path) if _is_stamp(chunk)), None)
        return None if found is None else found[8:-4].partition(b"\0")[2].decode("latin-1")
    if _SVG.search(data) is None:
        raise InputError("is neither a PNG nor an SVG", path=path, hint="bind images of these kinds")
    inside = _IN_SVG.search(data)
    return inside[1].decode("ascii", "replace").strip() if inside else None


def _read_image(path: str | PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        # A path that no system has (a NUL in it) is an error of values.
        reason = getattr(error, "strerror", None) or "no file has such a name"
        raise InputError(f"cannot be read: {reason}", path=path, hint="check the path") from error


def _iterate_chunks(data: bytes, path: str | PathLike[str]) -> Iterator[bytes]:
    """The chunks of a PNG, each with its length, kind and checksum."""
    at = len(_SIGNATURE)
    while at < len(data):
        header = data[at : at + 8]
        end = at + 12 + struct.unpack(">I", header[:4])[0] if len(header) == 8 else len(data) + 1
        if end > len(data):
            raise FormatError("is a PNG that is cut off", path=path, place=f"byte {at}", hint="export it again")
        yield data[at:end]
        at = end


def _is_stamp(chunk: bytes) -> bool:
    return chunk[4:8] == b"tEXt" and chunk[8:].startswith(f"{KEYWORD}\0".encode())


def _make_chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

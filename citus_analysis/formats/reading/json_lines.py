"""Lines of JSON objects as columns; other lines may come between them.

polars decodes a whole block of lines at once, but fails at the first line that is not an object. Python's own decoder,
about a hundred times slower, then finds those lines. The result for a line never depends on its neighbours: Python
reads every line that polars reads.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl
from polars.exceptions import ComputeError, SchemaError

from citus_analysis.core.array_types import Integers

_BLANKS: Final = b" \t\r\n"
#: polars reads integers of up to 128 bits.
_LEAST, _MOST = -(2**127), 2**128 - 1


def decode_lines(
    data: bytes,
    starts: Integers,
    sizes: Integers,
    names: Iterable[str],
    within: Mapping[str, Iterable[str]] = MappingProxyType({}),
) -> tuple[pl.DataFrame, Integers]:
    r"""The objects among the lines of `data`, which must be valid UTF-8.

    Args:
        data: whole lines.
        starts: offsets of the lines.
        sizes: lengths of the lines with their ends.
        names: keys to read; other keys are left out, absent ones are null. Of repeated keys, the first counts.
        within: keys to read of nested objects, by the key of each object; they become columns of structures.

    Returns:
        One row per object, every value as text; and the line number of each object.

    Example:
        >>> from citus_analysis.formats.reading.texts_between import lines_of
        >>> data = b'{"a": 1}\ncut {"a\n\n{"b": "x", "a": "y"}\n'
        >>> frame, numbers = decode_lines(data, *lines_of(data), ["a", "b"])
        >>> frame.rows(), numbers.tolist()
        ([('1', None), ('y', 'x')], [0, 3])
    """
    schema = pl.Schema(dict.fromkeys(names, pl.String))
    schema.update((name, pl.Struct(dict.fromkeys(keys, pl.String))) for name, keys in within.items())
    frame = _decoded(data, schema)
    if frame is not None and frame.height == len(starts):
        return frame, np.arange(len(starts))
    lines = [data[start : start + size] for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)]
    objects = [number for number, line in enumerate(lines) if _is_object(line)]
    read = list(_halved(lines, objects, schema))
    numbers = [number for _, some in read for number in some]
    return pl.concat([schema.to_frame(), *(frame for frame, _ in read)]), np.array(numbers, np.int64)


def blank_lines(data: bytes, starts: Integers, sizes: Integers, among: npt.NDArray[np.bool_]) -> Integers:
    """Numbers of the blank lines among the given ones."""
    numbers = np.flatnonzero(among)
    blank = [not data[starts[number] : starts[number] + sizes[number]].strip(_BLANKS) for number in numbers]
    return numbers[np.array(blank, np.bool_)]


def stretches(wanted: npt.NDArray[np.bool_], starts: Integers, sizes: Integers) -> Iterator[tuple[int, int]]:
    """Begin and end of each run of selected lines."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], wanted, [False]]).astype(np.int8)))
    ends = starts + sizes
    for first, end in edges.reshape(-1, 2).tolist():
        yield int(starts[first]), int(ends[end - 1])


def _decoded(data: bytes, schema: pl.Schema) -> pl.DataFrame | None:
    try:
        return pl.read_ndjson(data, schema=schema)
    except (ComputeError, SchemaError):
        return None


def _halved(lines: list[bytes], numbers: list[int], schema: pl.Schema) -> Iterator[tuple[pl.DataFrame, list[int]]]:
    """The lines with these numbers, except those that polars cannot read."""
    if not numbers:
        return
    frame = _decoded(b"\n".join(lines[number].rstrip(_BLANKS) for number in numbers), schema)
    if frame is not None and frame.height == len(numbers):
        yield frame, numbers
    elif len(numbers) > 1:
        middle = len(numbers) // 2
        yield from _halved(lines, numbers[:middle], schema)
        yield from _halved(lines, numbers[middle:], schema)


def _is_object(line: bytes) -> bool:
    if not line.lstrip(_BLANKS).startswith(b"{"):
        return False
    try:
        json.loads(line.decode(), parse_constant=_refuse, parse_float=_float, parse_int=_integer)
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


def _float(text: str) -> None:
    if math.isinf(float(text)):
        _refuse(text)


def _integer(text: str) -> None:
    if not _LEAST <= int(text) <= _MOST:
        _refuse(text)


def _refuse(text: str) -> None:
    raise ValueError(f"not a number that polars can read: {text}")

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
from citus_analysis.formats.deliveries.exports.halving import decoded_in_halves

#: Column with the number of the line, besides those of the names that were asked for.
_LINE: Final = "line number"
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
    frame = _decoded(data, len(starts), schema)
    if frame is not None:
        return frame, np.arange(len(starts))
    lines = [data[start : start + size] for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)]
    objects = [number for number, line in enumerate(lines) if _is_object(line)]
    none = schema.to_frame().with_columns(pl.lit(0, pl.Int64).alias(_LINE))

    def decoded(first: int, end: int) -> pl.DataFrame | None:
        numbers = objects[first:end]
        found = _decoded(b"\n".join(lines[number].rstrip(_BLANKS) for number in numbers), len(numbers), schema)
        return None if found is None else found.with_columns(pl.Series(_LINE, numbers))

    read = decoded_in_halves(decoded, lambda _: none, 0, len(objects)) if objects else ()
    frame = pl.concat([none, *read])
    return frame.drop(_LINE), frame[_LINE].to_numpy()


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


def _decoded(data: bytes, count: int, schema: pl.Schema) -> pl.DataFrame | None:
    """The objects, if there are as many."""
    try:
        frame = pl.read_ndjson(data, schema=schema)
    except (ComputeError, SchemaError):
        return None
    return frame if frame.height == count else None


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

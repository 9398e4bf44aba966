r"""Fields of the lines of a text, and the plain numbers and times among them, as columns of numbers.

Text samplers print little else, so splitting their lines is most of the work of reading them. The code is compiled
(`native/fields.c`): lines of several reports alternate, and polars or Arrow need about ten passes over the text to
split those of each report, at 40 to 50 MB/s. Lines with other fields, and all lines if the package was installed
without compiled code, are read by the formats as columns of texts.

A field is a number only if every reader gives it the same value: up to 15 digits, perhaps with a point or a comma
between them. Numbers printed in another way (`1.5M`, `1e5`) are texts, which the caller converts.

Example:
    >>> found = split_fields(b"10:00:01 all  1,5\n\n10:00:02 x\n")
    >>> found.first.tolist(), found.texts(np.arange(5)).to_list()
    ([0, 3, 3, 5], ['10:00:01', 'all', '1,5', '10:00:02', 'x'])
    >>> found.kind.tolist(), found.number.tolist()
    ([2, 0, 1, 2, 0], [36001.0, 0.0, 1.5, 36002.0, 0.0])
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_int64, c_uint8, c_void_p
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from citus_analysis.core.array_types import Floats, Integers
from citus_analysis.formats.reading.compiled_code import LIBRARY_SUFFIX, load_library
from citus_analysis.formats.reading.texts_between import texts_between

#: Kinds of fields; CLOCK is `10:00:01`, MOMENT is `2026-11-22 10:00:01`, MOMENT_UTC is a moment followed by ` UTC`.
TEXT, NUMBER, CLOCK, MOMENT, MOMENT_UTC = range(5)

#: As in `native/fields.c`.
_VERSION: Final = 1
LIBRARY: Final = Path(__file__).with_name(f"_fields{LIBRARY_SUFFIX}")


@dataclass(frozen=True)
class Fields:
    """The fields of a text.

    Attributes:
        data: the text.
        first: number of the first field of each line, and at the end the number of fields.
        begin: offset of each field in the text.
        length: length of each field in bytes.
        number: value of each field; for times, seconds since midnight or 1970 as printed; 0 for texts.
        kind: kind of each field.
    """

    data: bytes
    first: Integers
    begin: npt.NDArray[np.int32]
    length: npt.NDArray[np.int32]
    number: Floats
    kind: npt.NDArray[np.uint8]

    def texts(self, fields: Integers) -> pl.Series:
        """The texts of some fields; the data must be UTF-8."""
        return self.stretches(self.begin[fields], self.length[fields])

    def stretches(self, begin: npt.NDArray[np.integer], length: npt.NDArray[np.integer]) -> pl.Series:
        """The texts with these offsets and lengths; the data must be UTF-8."""
        bounds = np.zeros(len(begin) + 1, np.int64)
        np.cumsum(length, out=bounds[1:])
        places = np.repeat(begin - bounds[:-1], length)
        places += np.arange(len(places))
        return texts_between(np.frombuffer(self.data, np.uint8)[places], bounds)


class _Columns(Structure):
    _fields_ = tuple((name, c_void_p) for name in ("first", "begin", "length", "number", "kind"))


def read_fields(data: bytes, separator: str = " ") -> Fields | None:
    """:func:`split_fields`; None if the data are not UTF-8 or the package was installed without compiled code."""
    return split_fields(data, separator) if LIBRARY.is_file() and _is_utf8(data) else None


def _is_utf8(data: bytes) -> bool:
    try:
        return data.isascii() or bool(data.decode())
    except UnicodeDecodeError:
        return False


def split_fields(data: bytes, separator: str = " ") -> Fields:
    """The fields of each line.

    Args:
        data: lines.
        separator: between two fields. A run of blanks is one separator; blanks at the end of a line are ignored.

    Raises:
        ImportError: the compiled code cannot be loaded.
    """
    text = np.frombuffer(data, np.uint8)
    most = _library().fields_most(text.ctypes.data, len(data), ord(separator))
    lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    first = np.zeros(lines + 1, np.int64)
    begin, length = np.empty(most, np.int32), np.empty(most, np.int32)
    number, kind = np.empty(most, np.float64), np.empty(most, np.uint8)
    columns = _Columns(*(array.ctypes.data for array in (first, begin, length, number, kind)))
    count = _library().fields_split(text.ctypes.data, len(data), ord(separator), ctypes.byref(columns))
    return Fields(data, first, begin[:count], length[:count], number[:count], kind[:count])


@cache
def _library() -> ctypes.CDLL:
    """The library, with the types of its functions.

    Raises:
        ImportError: it cannot be loaded.
    """
    library = load_library(LIBRARY, "fields_version", _VERSION)
    library.fields_most.argtypes = (c_void_p, c_int64, c_uint8)
    library.fields_most.restype = c_int64
    library.fields_split.argtypes = (c_void_p, c_int64, c_uint8, POINTER(_Columns))
    library.fields_split.restype = c_int64
    return library

"""The compiled scanner (`native/`), called through ctypes: calls let other threads run.

It is built when the package is installed (`hatch_build.py`). Its structures are those of `_layout.py`.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Callable, Iterator
from ctypes import POINTER, Structure, c_int32, c_int64, c_void_p
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from citus_analysis.core.array_types import Integers
from citus_analysis.formats.serverlog.pglog._prefix import Prefix, compile_prefix
from citus_analysis.formats.serverlog.pglog.compiled.byte_views import Bytes
from citus_analysis.formats.serverlog.pglog.compiled.layout import (
    CODE_COLUMNS,
    IRREGULAR,
    MAX_SHARDS,
    MORE_ROOM,
    NUMBER_COLUMNS,
    OUT_OF_MEMORY,
    ROW_FORMS,
    TEXT_COLUMNS,
    layout_hash,
    structure,
)
from citus_analysis.formats.serverlog.pglog.compiled.prefix_program import SEVERITY_TABLE, program_of
from citus_analysis.formats.serverlog.pglog.compiled.reused_memory import Rooms
from citus_analysis.formats.sources.content import EXCERPT_BYTES, LINE_CAP

__all__ = [
    "Addresses",
    "Column",
    "Output",
    "Survey",
    "TieTable",
    "TiedBy",
    "compiled_scanner",
    "count_heads",
    "gather",
    "last_record",
    "loaded_library",
    "read_texts",
    "scan_chunk",
    "scan_rows",
    "survey",
]

_ALIGNMENT: Final = 64
_SUFFIX: Final = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
LIBRARY: Final = Path(__file__).parents[1] / f"_scanner{_SUFFIX}"

#: Every column, with the type of its values.
_COLUMNS: Final[dict[str, type]] = {
    **NUMBER_COLUMNS,
    **dict.fromkeys(TEXT_COLUMNS, np.int32),
    **dict.fromkeys(CODE_COLUMNS, np.uint8),
}
#: Codes into lists kept elsewhere. Rows without a value hold 0, which is also a valid code; use the validity mask.
_CODED: Final = frozenset({*CODE_COLUMNS, *TEXT_COLUMNS})
_CHUNK, _PREFIX, _OUTPUT, _TIED_BY, _SURVEY, _COLUMN = map(
    structure, ("chunk_t", "prefix_t", "output_t", "tied_by_t", "survey_t", "column_t")
)

#: Every record has these, so the scanner does not mark them.
_EVERYWHERE: Final = frozenset({"byte_offset", "byte_length", "severity", "kind", "capped"})
#: Lists, with the largest number of elements that a record can add.
_LISTS: Final = {"messages": 1, "strays": 1, "shards": MAX_SHARDS - 1}


def _layout_of(library: ctypes.CDLL) -> int | None:
    try:
        library.pglog_layout.restype = c_int64
    except AttributeError:
        # It was built before layouts were numbered.
        return None
    return int(library.pglog_layout())


def _declare_assembly(library: ctypes.CDLL) -> None:
    """The types of the functions that put records of sessions together."""
    library.pglog_assembly_new.argtypes = (c_void_p,)
    library.pglog_assembly_new.restype = c_void_p
    library.pglog_assembly_free.argtypes = (c_void_p,)
    library.pglog_assembly_free.restype = None
    library.pglog_assemble.argtypes = (c_void_p, c_void_p)
    library.pglog_assemble.restype = c_int32
    library.pglog_assembly_end.argtypes = (c_void_p,)
    library.pglog_assembly_end.restype = c_int32
    library.pglog_assembly_waiting.argtypes = (c_void_p,)
    library.pglog_assembly_waiting.restype = c_int64
    library.pglog_assembled.argtypes = (c_void_p, c_void_p)
    library.pglog_assembled.restype = None


@cache
def loaded_library() -> ctypes.CDLL:
    """The library, with the types of its functions.

    Raises:
        ImportError: it cannot be loaded.
    """
    try:
        library = ctypes.CDLL(str(LIBRARY))
    except OSError as error:
        raise ImportError(f"{LIBRARY.name} cannot be loaded ({error}); install citus-analysis again") from error
    if _layout_of(library) != layout_hash():
        raise ImportError(f"{LIBRARY.name} was built for another version; install citus-analysis again")
    library.pglog_scan.argtypes = (POINTER(_CHUNK), POINTER(_PREFIX), POINTER(_OUTPUT))
    library.pglog_scan.restype = c_int32
    library.pglog_scan_rows.argtypes = (
        POINTER(_CHUNK),
        c_int32,
        POINTER(_PREFIX),
        c_void_p,
        c_int64,
        POINTER(_OUTPUT),
    )
    library.pglog_scan_rows.restype = c_int32
    library.pglog_read_texts.argtypes = (c_void_p, c_int64, c_void_p, c_void_p, POINTER(_OUTPUT))
    library.pglog_read_texts.restype = c_int32
    library.pglog_survey.argtypes = (c_void_p, c_int64)
    library.pglog_survey.restype = _SURVEY
    library.pglog_gather.argtypes = (c_void_p, c_int64, c_void_p, c_void_p)
    library.pglog_gather.restype = None
    library.pglog_heads.argtypes = (c_void_p, c_int64, POINTER(_PREFIX))
    library.pglog_heads.restype = c_int64
    library.pglog_last_record.argtypes = (c_void_p, c_int64, c_int64, POINTER(_PREFIX))
    library.pglog_last_record.restype = c_int64
    library.pglog_ties_new.restype = c_void_p
    library.pglog_ties_free.argtypes = (c_void_p,)
    library.pglog_ties_free.restype = None
    library.pglog_tie.argtypes = (c_void_p, c_int64, POINTER(_TIED_BY), c_void_p, c_void_p)
    library.pglog_tie.restype = c_int32
    _declare_assembly(library)
    return library


def compiled_scanner() -> str:
    """Path of the compiled scanner.

    Raises:
        ImportError: it cannot be loaded.
    """
    loaded_library()
    return str(LIBRARY)


@dataclass
class Column:
    """Values of a column and their validity.

    Attributes:
        values: one per row; invalid rows hold arbitrary values, but always a valid number of a text.
        valid: one bit per row, the lowest first.
        count: number of valid rows.
    """

    values: npt.NDArray[np.generic]
    valid: Bytes
    count: int = 0

    @classmethod
    def of(cls, values: npt.NDArray[np.generic], rows: int) -> Self:
        """An empty column with space for the rows."""
        return cls(values, bits(rows))

    def marked(self) -> int:
        """The number of its bits that are set."""
        return int(np.bitwise_count(self.valid).sum())


class Output:
    """Output of a scan: columns, distinct texts, messages, stray lines, further shards.

    Attributes:
        columns: by name; texts and messages are numbers into the lists below.
        texts: begin and end of each distinct text in the chunk, by column.
        messages: begin and end of each message.
        strays: begin and end of each run of stray lines.
        shards: row and number of each shard that a statement names after its first.
        rows: number of records.
        blank_bytes: bytes of the blank lines at the source's beginning.
        record_bytes: bytes of the records.
    """

    def __init__(self, rows: int, rooms: Rooms) -> None:
        self.columns = {name: Column.of(values, rows) for name, values in _laid_out(rows, rooms)}
        self.columns["capped"] = Column.of(bits(rows), rows)
        # Most of these stay short, so reused memory would be mostly unused.
        self._texts: list[Integers] = [np.empty((rows, 2), np.int64) for _ in TEXT_COLUMNS]
        self._lists: dict[str, Integers] = {
            name: np.empty((most * rows + 1, 2), np.int64) for name, most in _LISTS.items()
        }
        self._structure = _OUTPUT()
        for name, column in self.columns.items():
            field = _COLUMN(column.values.ctypes.data, column.valid.ctypes.data)
            if name in TEXT_COLUMNS:
                self._structure.texts[TEXT_COLUMNS.index(name)] = field
            else:
                setattr(self._structure, name, field)
        self._structure.distinct_texts[:] = [array.ctypes.data for array in self._texts]
        for name, array in self._lists.items():
            setattr(self._structure, name, array.ctypes.data)

    def fill(self, scan: Callable[..., int], *source: object) -> int:
        """Fill the columns by a function of the scanner, given what it reads; its answer.

        Raises:
            MemoryError: the memory does not suffice.
        """
        structure = self._structure
        answer = scan(*source, ctypes.byref(structure))
        if answer == OUT_OF_MEMORY:
            raise MemoryError
        if answer:
            return answer
        self.rows = int(structure.rows)
        for name, column in self.columns.items():
            column.count = self.rows if name in _EVERYWHERE else column.marked()
        self.texts = {
            name: places[:count]
            for name, places, count in zip(TEXT_COLUMNS, self._texts, structure.text_counts, strict=True)
        }
        self.messages = self._lists["messages"][: structure.message_count]
        self.strays = self._lists["strays"][: structure.stray_count]
        self.shards = self._lists["shards"][: structure.shard_count]
        self.blank_bytes = int(structure.blank_bytes)
        self.record_bytes = int(structure.record_bytes)
        return 0


def bits(rows: int) -> Bytes:
    """One zero bit for each row."""
    return np.zeros(rows // 8 + 1, np.uint8)


def _laid_out(rows: int, rooms: Rooms) -> Iterator[tuple[str, npt.NDArray[np.generic]]]:
    """The columns in reused memory; columns of codes begin as zeros."""
    names = sorted(_COLUMNS, key=lambda name: name not in _CODED)
    sizes = [-(-rows * np.dtype(_COLUMNS[name]).itemsize // _ALIGNMENT) * _ALIGNMENT for name in names]
    room, begin = rooms.room(sum(sizes)), 0
    room[: sum(sizes[: len(_CODED)])] = 0
    for name, size in zip(names, sizes, strict=True):
        yield name, room[begin : begin + size].view(_COLUMNS[name])
        begin += size


@dataclass(frozen=True)
class Survey:
    """Properties of the bytes of a chunk.

    Attributes:
        lines: number of lines, including a last one without line end; an upper bound of the number of records.
        ascii: whether all bytes are ASCII.
        zeros: whether some byte is 0.
    """

    lines: int
    ascii: bool
    zeros: bool


def survey(text: Bytes) -> Survey:
    """Look at every byte of a chunk once."""
    found = loaded_library().pglog_survey(text.ctypes.data, len(text))
    return Survey(int(found.lines), bool(found.ascii), bool(found.zeros))


def scan_chunk(
    buffer: Bytes, survey: Survey, *, offset: int, tail: int, fresh: bool, prefix: Prefix, rooms: Rooms
) -> Output:
    """The records of a chunk that was surveyed."""
    chunk = _CHUNK(buffer.ctypes.data, len(buffer), offset, tail, LINE_CAP, EXCERPT_BYTES, fresh, survey.zeros)
    output = Output(survey.lines, rooms)
    output.fill(loaded_library().pglog_scan, ctypes.byref(chunk), ctypes.byref(_structure_of(prefix)))
    return output


def scan_rows(buffer: Bytes, size: int, lines: int, *, offset: int, form: str, rooms: Rooms) -> Output | None:
    """The records of a chunk whose rows tell each column by itself, and their details, each as a row.

    Args:
        buffer: the chunk, and room for as many bytes once more.
        size: of the chunk.
        lines: of the chunk, at least.
        offset: where the chunk begins in the source.
        form: of its rows, one of :data:`ROW_FORMS`.
        rooms: memory for the columns.

    Returns:
        None if some row is not as a server writes it.
    """
    chunk = _CHUNK(buffer.ctypes.data, size, offset, 0, LINE_CAP, EXCERPT_BYTES, 0, 0)
    prefix = ctypes.byref(_structure_of(compile_prefix("")))
    # Few records have details; each has five at most.
    for rows in (lines + lines // 2 + 64, 6 * lines):
        output = Output(rows, rooms)
        given = (ctypes.byref(chunk), ROW_FORMS.index(form), prefix, buffer.ctypes.data, rows)
        answer = output.fill(loaded_library().pglog_scan_rows, *given)
        if answer != MORE_ROOM:
            return None if answer == IRREGULAR else output
    raise AssertionError


def read_texts(text: Bytes, bounds: Integers, severities: Bytes) -> Output:
    """Columns read from texts, without those that only a prefix provides.

    Args:
        text: all texts, concatenated.
        bounds: beginning of each text, followed by the end of the last.
        severities: number of the severity of each, as in the schema.
    """
    arrays = [np.ascontiguousarray(array) for array in (text, bounds, severities)]
    data, places, numbers = (array.ctypes.data for array in arrays)
    output = Output(len(severities), Rooms())
    output.fill(loaded_library().pglog_read_texts, data, len(severities), places, numbers)
    return output


def gather(text: Bytes, places: Integers) -> tuple[Integers, Bytes]:
    """Stretches of a text, concatenated: the beginning of each and the end of the last, and the bytes."""
    places = np.ascontiguousarray(places)
    bounds = np.zeros(len(places) + 1, np.int64)
    np.cumsum(places[:, 1] - places[:, 0], out=bounds[1:])
    data = np.empty(int(bounds[-1]), np.uint8)
    loaded_library().pglog_gather(text.ctypes.data, len(places), places.ctypes.data, data.ctypes.data)
    return bounds, data


def count_heads(data: bytes, prefix: Prefix) -> int:
    """The number of lines of `data` that begin a record."""
    buffer = np.frombuffer(data, np.uint8)
    heads = int(loaded_library().pglog_heads(buffer.ctypes.data, len(data), ctypes.byref(_structure_of(prefix))))
    if heads == OUT_OF_MEMORY:
        raise MemoryError
    return heads


def last_record(data: bytes, size: int, prefix: Prefix) -> int | None:
    """The beginning of the last record in the first `size` bytes; None if the last opener is not a record."""
    buffer = np.frombuffer(data, np.uint8)
    place = loaded_library().pglog_last_record(buffer.ctypes.data, size, LINE_CAP, ctypes.byref(_structure_of(prefix)))
    if place == OUT_OF_MEMORY:
        raise MemoryError
    return None if place < 0 else int(place)


def _structure_of(prefix: Prefix) -> Structure:
    # The program is cached, so its arrays outlive the structure.
    program = program_of(prefix)
    count, width = SEVERITY_TABLE.shape
    return _PREFIX(
        program.code.ctypes.data,
        program.literals.ctypes.data,
        SEVERITY_TABLE.ctypes.data,
        len(program.code),
        program.optional_from,
        count,
        width,
    )


#: Addresses of a column's values and of its validity bits: the latter None if all rows are valid, both if none is.
Addresses = tuple[int | None, int | None]


@dataclass(frozen=True)
class TiedBy:
    """Addresses of the columns by which rows are tied.

    Attributes:
        rows: how many there are.
        pids: process (int32).
        lines: number within the session (int64).
        severities: number of the severity (uint8); every row has one.
        offsets: where each row begins (int64); every row has one.
    """

    rows: int
    pids: Addresses
    lines: Addresses
    severities: Addresses
    offsets: Addresses


class TieTable:
    """State of each process of a log, to tie detail lines to their records."""

    def __init__(self) -> None:
        library = loaded_library()
        self._handle = library.pglog_ties_new()
        if not self._handle:
            raise MemoryError
        weakref.finalize(self, library.pglog_ties_free, self._handle)

    def tie(self, by: TiedBy) -> Column:
        """For each row the offset of the record that it is a detail of.

        Raises:
            MemoryError: the memory does not suffice.
        """
        tied = Column.of(np.empty(by.rows, np.int64), by.rows)
        structure = _TIED_BY(*by.pids, *by.lines, by.severities[0], by.offsets[0])
        into = tied.values.ctypes.data, tied.valid.ctypes.data
        if loaded_library().pglog_tie(self._handle, by.rows, ctypes.byref(structure), *into):
            raise MemoryError
        tied.count = tied.marked()
        return tied

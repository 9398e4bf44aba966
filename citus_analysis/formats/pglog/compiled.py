"""Records of a chunk of a server log, scanned by compiled code.

Numbers become Arrow arrays without a copy. The scanner numbers texts (applications, hosts, statement names ...), so
that Python handles each distinct text once per chunk and never a single row.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from ctypes import POINTER, Structure, c_int32, c_int64, c_void_p
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from citus_analysis.core.arrow_arrays import make_text_array, make_word_array, repeat_text
from citus_analysis.core.compiled_code import LIBRARY_SUFFIX, load_library
from citus_analysis.core.table_definition import HASH, INT32, INT64, REAL, ColumnType
from citus_analysis.core.type_aliases import Integers
from citus_analysis.formats.deliveries.content import EXCERPT_BYTES, LINE_CAP
from citus_analysis.formats.parsing.redacted_columns import may_hold_secret, redact_series
from citus_analysis.formats.pglog.prefix import (
    HEAD_LIMIT,
    HELD_BACK,
    LISTS,
    MAX_ELEMENTS,
    SEVERITY_WORDS,
    TEXT_ESCAPES,
    Prefix,
    compile_prefix,
)
from citus_analysis.formats.pglog.records import FIRST_DETAIL, Chunk, ScannedChunk, build_stray_rejects
from citus_analysis.schema import KINDS, PROTOCOL_PHASES, SEVERITIES, STATEMENT_KINDS, TABLES

if TYPE_CHECKING:
    import polars as pl

# Codes and structures that the compiled scanner and Python share, as one C header and as ctypes.
#
# The structures are written in `native/layout.h`, and ctypes takes them from there. The codes are places in the lists
# of :mod:`citus_analysis.schema`; ``make layout`` writes them into the header, with a hash of all declarations, and a
# test fails if it is out of date. The hash is compiled in, so that a scanner built for another layout, which would use
# wrong memory, is refused.

OUT_OF_MEMORY: Final = -2
#: Records are not in the order of their sessions.
NOT_IN_ORDER: Final = -3
#: A server does not write rows in this form; the columns are too short for all rows.
IRREGULAR: Final = -4
MORE_ROOM: Final = -5
#: Largest number of shards kept of a statement.
MAX_SHARDS: Final = 8

#: Kinds of elements of a prefix, and the fields of a line's head that they fill.
ELEMENTS: Final = ("literal", "text", "stamp", "digits", "vxid", "session", "state", "epoch", "syslog", "host")
FIELDS: Final = (
    *("none", "clock", "epoch", "pid", "hex_pid", "vxid", "line"),
    *("app", "user", "database", "host", "remote", "state"),
)

#: Events of a session, as its records report them; events with a duration come first.
RECORD_EVENTS: Final = (
    *("prepare", "whole", "duration", "local", "opener"),
    *("task", "error", "planned", "connect", "barrier", "nothing"),
)

#: Forms of logs with one field per column.
ROW_FORMS: Final = ("csv", "loose_csv", "json")

_TABLE: Final = TABLES["log_events"]
_WIDTHS: Final[Mapping[ColumnType, type]] = MappingProxyType(
    {INT64: np.int64, INT32: np.int32, HASH: np.uint64, REAL: np.float64}
)
#: Columns of numbers in the order of `output_t`, with the type of their values.
NUMBER_COLUMNS: Final[dict[str, type]] = {
    **dict.fromkeys(("byte_offset", "byte_length"), np.int64),
    "clock": np.int64,  # microseconds since 1970 as the server's clock showed them
    **{
        name: _WIDTHS[_TABLE[name].type]
        for name in (
            *("local_xid", "session_line", "gpid", "shard_id", "placement_id", "task_us"),
            *("statement_fingerprint", "duration_us", "pid", "backend_id", "worker_port", "values_hash"),
        )
    },
    "message": np.int32,  # number of the message among those of the chunk
}
#: Columns of texts: the values are numbers of distinct texts.
TEXT_COLUMNS: Final = (
    *("zone", "application", "user", "database", "client_host", "sqlstate"),
    *("worker_host", "statement_name", "trace_context"),
)
#: Columns of codes: places in a list of the schema.
CODE_COLUMNS: Final = ("severity", "kind", "phase", "statement_kind")

#: Prefix of an enumerator in C -> type, and its words in the order of their codes.
_ENUMS: Final[Mapping[str, tuple[str, Sequence[str]]]] = MappingProxyType(
    {
        "K": ("kind", KINDS),
        "P": ("phase", PROTOCOL_PHASES),
        "S": ("severity", SEVERITIES),
        "Q": ("statement_kind", STATEMENT_KINDS),
        "T": ("text_column", (*TEXT_COLUMNS, "count")),
        "E": ("element_kind", ELEMENTS),
        "F": ("field", (*FIELDS, "count")),
        "R": ("record_event", RECORD_EVENTS),
        "W": ("row_form", ROW_FORMS),
    }
)


#: Columns of numbers that describe the work of a session.
RECORD_NUMBERS: Final = (
    *("pid", "byte_offset", "log_time", "session_line", "local_xid", "gpid", "duration_us", "shard_id", "task_us"),
    *("worker_port", "statement_fingerprint", "values_hash"),
)


#: Arrays that an assembly gives -> structure of their items.
ASSEMBLED_ITEMS: Final = {
    "executions": "execution_t",
    "phases": "phase_t",
    "tasks": "sent_task_t",
    "locals": "local_t",
    "sessions": "session_t",
    "missing": "missing_t",
}

_HEADER: Final = Path(__file__).parent / "native" / "layout.h"
_STRUCTURE: Final = re.compile(r"typedef struct \{\n(.*?)\} (\w+);", re.DOTALL)
_MEMBER: Final = re.compile(r"^ +(?:const )?(\w+) (\*?)(\w+)(?:\[([0-9]+)\])?;", re.MULTILINE)


@cache
def build_ctypes_structure(name: str) -> type[ctypes.Structure]:
    """A structure of `native/layout.h` for ctypes.

    Example:
        >>> build_ctypes_structure("text_facts_t")._fields_[0]
        ('lines', <class 'ctypes.c_long'>)
    """
    fields = tuple(
        (member, _choose_ctype(kind, pointer, count))
        for kind, pointer, member, count in _parse_structure_members()[name]
    )
    return type(name, (ctypes.Structure,), {"_fields_": fields})


_SCALARS: Final[Mapping[str, type[ctypes._SimpleCData[int] | ctypes._SimpleCData[float]]]] = MappingProxyType(
    {
        "byte_t": ctypes.c_uint8,
        "int32_t": ctypes.c_int32,
        "uint32_t": ctypes.c_uint32,
        "int64_t": ctypes.c_int64,
        "uint64_t": ctypes.c_uint64,
        "double": ctypes.c_double,
    }
)


def _choose_ctype(kind: str, pointer: str, count: str) -> type:
    single = ctypes.c_void_p if pointer else _SCALARS.get(kind) or build_ctypes_structure(kind)
    return single * int(count) if count else single


@cache
def _parse_structure_members() -> Mapping[str, Sequence[tuple[str, str, str, str]]]:
    """Type, mark of a pointer, name and length (of an array) of each structure's members."""
    return {name: _MEMBER.findall(body) for body, name in _STRUCTURE.findall(_read_handwritten_structures())}


@cache
def _read_handwritten_structures() -> str:
    """The part of the header that is written by hand."""
    header = _HEADER.read_text(encoding="utf-8")
    return header[header.index("typedef struct") : header.rindex("\n#endif")]


def compute_layout_hash() -> int:
    """Hash (63 bits) of all declarations in the header."""
    return int.from_bytes(hashlib.blake2b(_render_declarations().encode(), digest_size=8).digest(), "little") >> 1


def render_layout_header() -> str:
    """The text of `native/layout.h`."""
    return f"""/* Codes and structures shared with Python. `make layout` writes all but the structures. */
#ifndef PGLOG_LAYOUT_H
#define PGLOG_LAYOUT_H

#include <stdint.h>

/* Hash of the declarations below. */
#define LAYOUT_HASH {compute_layout_hash():#x}

{_render_declarations()}
#endif
"""


#: Numbers that the compiled code also uses.
_LIMITS: Final = {
    "MAX_ELEMENTS": MAX_ELEMENTS,
    "HEAD_LIMIT": HEAD_LIMIT,
    "HELD_BACK": HELD_BACK,
    "OUT_OF_MEMORY": OUT_OF_MEMORY,
    "NOT_IN_ORDER": NOT_IN_ORDER,
    "IRREGULAR": IRREGULAR,
    "MORE_ROOM": MORE_ROOM,
    "MAX_SHARDS": MAX_SHARDS,
}


@cache
def _render_declarations() -> str:
    defined = "".join(f"#define {name} {value if value >= 0 else f'({value})'}\n" for name, value in _LIMITS.items())
    enums = (_render_enum(kind, prefix, words) for prefix, (kind, words) in _ENUMS.items())
    return "\n".join((defined, *enums, "typedef uint8_t byte_t;\n", _read_handwritten_structures()))


def _render_enum(kind: str, prefix: str, words: Sequence[str]) -> str:
    return f"enum {kind} {{\n" + "".join(f"    {prefix}_{word.upper()},\n" for word in words) + "};\n"


# Strings as views into a buffer of UTF-8: columns of text without a copy and without Python per row.
#
# Arrow's string view has, per value, its length and either the value itself (up to 12 bytes) or its place in a shared
# buffer. All values here share one buffer, the block that was read.

_INLINE: Final = 12
_INVALID: Final = re.compile("[\udc80-\udcff]")
Bytes = npt.NDArray[np.uint8]


def make_string_views(buffer: Bytes, starts: Integers, lengths: Integers) -> pl.Series:
    """A String column of the stretches `buffer[start:start + length]`; a negative length gives null.

    The stretches must be valid UTF-8 (see :func:`cut_to_characters`).

    Example:
        >>> text = np.frombuffer(b"one two", np.uint8)
        >>> make_string_views(text, np.array([0, 4, 0]), np.array([3, 3, -1])).to_list()
        ['one', 'two', None]
    """
    count = len(starts)
    present = lengths >= 0
    sizes = np.where(present, lengths, 0)
    views = np.zeros((count, 4), np.int32)
    views[:, 0] = sizes
    followed = np.concatenate([buffer, np.zeros(_INLINE, np.uint8)])
    inline = np.lib.stride_tricks.sliding_window_view(followed, _INLINE)[starts]
    inline[np.arange(_INLINE) >= sizes[:, None]] = 0
    views.view(np.uint8).reshape(count, 16)[:, 4:] = inline
    long = sizes > _INLINE
    views[long, 2] = 0
    views[long, 3] = starts[long]
    nulls = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    array = pa.Array.from_buffers(pa.string_view(), count, [nulls, pa.py_buffer(views), pa.py_buffer(buffer)])
    return convert_array_to_series("", array)


def convert_array_to_series(name: str, array: pa.Array) -> pl.Series:
    """An Arrow array as a column, converted as a frame: `pl.Series` would import `pyarrow.compute`, which is slow."""
    import polars as pl

    return pl.DataFrame(pa.Table.from_arrays([array], names=[name])).to_series()


def cut_to_characters(buffer: Bytes, starts: Integers, lengths: Integers, limit: int) -> Integers:
    """Lengths of at most `limit` bytes that do not end within a UTF-8 character.

    Example:
        >>> text = np.frombuffer("aé".encode(), np.uint8)
        >>> cut_to_characters(text, np.array([0]), np.array([3]), 2).tolist()
        [1]
    """
    cut = np.minimum(lengths, limit)
    for _ in range(3):
        inside = np.flatnonzero(cut < lengths)
        inside = inside[(buffer[starts[inside] + cut[inside]] & 0xC0) == 0x80]
        if not len(inside):
            break
        cut[inside] -= 1
    return cut


def replace_invalid_utf8(data: bytes) -> bytes:
    r"""The bytes with every invalid byte replaced by a question mark, so that offsets do not change.

    Example:
        >>> replace_invalid_utf8(b"caf\xe9 \xc3\xa9")
        b'caf? \xc3\xa9'
    """
    if data.isascii():
        return data
    try:
        data.decode()
    except UnicodeDecodeError:
        return _INVALID.sub("?", data.decode("utf-8", "surrogateescape")).encode()
    return data


# A pool of memory that is reused while a log is read.
#
# The system zeroes and maps each new page of memory at its first use, which takes a tenth of the time of reading a log.
# Used memory is therefore kept until the log is read.

#: Memory that is this many times too large is not reused: small requests would occupy large blocks.
_MOST_TIMES: Final = 4


class ReusedBuffers:
    """Blocks of memory of about the same size; a new one is allocated only if all others are in use.

    Example:
        >>> buffers = ReusedBuffers()
        >>> memory = buffers.buffer(100)
        >>> address = memory.ctypes.data
        >>> part = memory[:10].view(np.int16)
        >>> del memory
        >>> buffers.buffer(100).ctypes.data == address
        False
        >>> del part
        >>> buffers.buffer(100).ctypes.data == address
        True
    """

    def __init__(self) -> None:
        self._free: list[Bytes] = []

    def buffer(self, size: int) -> Bytes:
        """Uninitialised memory; it is reused once nothing refers to it or to a part of it."""
        memory = self._free_memory(size)
        # Each use needs its own object: arrays refer to the object that owns the memory, not to intermediate arrays.
        use = (ctypes.c_uint8 * len(memory)).from_buffer(memory.data)
        weakref.finalize(use, self._free.append, memory).atexit = False
        return np.frombuffer(memoryview(use), np.uint8, size)

    def _free_memory(self, size: int) -> Bytes:
        while True:
            try:
                memory = self._free.pop()
            except IndexError:
                # Somewhat more, because the next request may be larger.
                return np.empty(size + size // 8, np.uint8)
            if size <= len(memory) <= _MOST_TIMES * size:
                return memory


# Columns that the compiled scanner fills: their memory and their values.

_ALIGNMENT: Final = 64

#: Every column, with the type of its values.
_COLUMNS: Final[dict[str, type]] = {
    **NUMBER_COLUMNS,
    **dict.fromkeys(TEXT_COLUMNS, np.int32),
    **dict.fromkeys(CODE_COLUMNS, np.uint8),
}
#: Codes into lists kept elsewhere. Rows without a value have 0, which is also a valid code; use the validity mask.
_CODED: Final = frozenset({*CODE_COLUMNS, *TEXT_COLUMNS})
_OUTPUT, _COLUMN = map(build_ctypes_structure, ("output_t", "column_t"))

#: Columns that have a value in every row, so the scanner does not mark them.
_EVERYWHERE: Final = frozenset({"byte_offset", "byte_length", "severity", "kind", "capped"})
#: Lists, with the largest number of elements that a record can add.
_LISTS: Final = {"messages": 1, "strays": 1, "shards": MAX_SHARDS - 1}


@dataclass
class FilledColumn:
    """Values of a column and their validity.

    Attributes:
        values: one per row; arbitrary for invalid rows, but numbers of texts are always valid numbers.
        valid: one bit per row, the lowest first.
        count: number of valid rows.
    """

    values: npt.NDArray[np.generic]
    valid: Bytes
    count: int = 0

    @classmethod
    def of(cls, values: npt.NDArray[np.generic], rows: int) -> Self:
        """An empty column with space for the rows."""
        return cls(values, make_validity_bits(rows))

    def marked(self) -> int:
        """The number of rows marked as valid."""
        return int(np.bitwise_count(self.valid).sum())


class ScanOutput:
    """Output of a scan: columns, distinct texts, messages, stray lines, further shards.

    Attributes:
        columns: by name; texts and messages are indices into the lists below.
        texts: begin and end of each distinct text in the chunk, by column.
        messages: begin and end of each message.
        strays: begin and end of each run of stray lines.
        shards: row and number of each shard that a statement names after its first.
        rows: number of records.
        blank_bytes: bytes of the blank lines at the source's beginning.
        record_bytes: bytes of the records.
    """

    def __init__(self, rows: int, buffers: ReusedBuffers) -> None:
        self.columns = {name: FilledColumn.of(values, rows) for name, values in _allocate_columns(rows, buffers)}
        self.columns["capped"] = FilledColumn.of(make_validity_bits(rows), rows)
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
        """Fill the columns by a function of the scanner and return its answer.

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


def make_validity_bits(rows: int) -> Bytes:
    """Zeros: at least one bit per row."""
    return np.zeros(rows // 8 + 1, np.uint8)


def _allocate_columns(rows: int, buffers: ReusedBuffers) -> Iterator[tuple[str, npt.NDArray[np.generic]]]:
    """The columns in reused memory; columns of codes are filled with zeros."""
    names = sorted(_COLUMNS, key=lambda name: name not in _CODED)
    sizes = [-(-rows * np.dtype(_COLUMNS[name]).itemsize // _ALIGNMENT) * _ALIGNMENT for name in names]
    memory, begin = buffers.buffer(sum(sizes)), 0
    memory[: sum(sizes[: len(_CODED)])] = 0
    for name, size in zip(names, sizes, strict=True):
        yield name, memory[begin : begin + size].view(_COLUMNS[name])
        begin += size


# A prefix as numbers, which the compiled scanner interprets instead of a regular expression.

LITERAL, TEXT, STAMP, DIGITS, VXID, SESSION, STATE, EPOCH, SYSLOG, HOST = range(len(ELEMENTS))
#: Field of each escape; the first element of an escape fills it, further ones are only matched.
FIELD_CODES: Final = {name: code for code, name in enumerate(FIELDS)}
_FIELD_OF: Final = {
    "m": "clock",
    "t": "clock",
    "n": "epoch",
    "p": "pid",
    "c": "hex_pid",
    "v": "vxid",
    "l": "line",
    "a": "app",
    "u": "user",
    "d": "database",
    "h": "host",
    "r": "remote",
    "e": "state",
}
#: Escape of digits -> fewest, most, and whether a minus may precede them.
_DIGITS: Final = {"p": (1, 9, 0), "P": (0, 9, 0), "l": (1, 18, 0), "x": (0, 18, 0), "Q": (0, 20, 1), "#": (1, 20, 1)}
_WIDTH: Final = max(len(word) for word in SEVERITY_WORDS)

#: One row per severity word: its length, then its bytes.
SEVERITY_TABLE: Final[Bytes] = np.array(
    [[len(word), *word.encode().ljust(_WIDTH, b"\0")] for word in SEVERITY_WORDS], np.uint8
)


@dataclass(frozen=True)
class Program:
    """The elements of a prefix, one row of `code` each, and the bytes of its literals.

    Columns of `code`: kind, field, padding (-1 after, 1 before), first argument, second, third. Arguments are
    begin and end in `literals` (of words that a text may be, each has its length before it); fewest and most digits
    and whether a minus may precede; or whether a stamp has milliseconds.
    """

    code: npt.NDArray[np.int32]
    literals: Bytes
    optional_from: int

    @property
    def epoch(self) -> bool:
        """Whether the time is seconds since 1970, which has no zone."""
        return FIELD_CODES["epoch"] in self.code[:, 1]


@lru_cache(maxsize=64)
def encode_prefix_program(prefix: Prefix) -> Program:
    """The prefix as a program. The first of `%m` and `%t` is used; both precede `%n`, and `%p` precedes `%c`."""
    rows: list[tuple[int, int, int, int, int, int]] = []
    literals = b""
    filled: set[str] = set()
    escapes = prefix.escapes
    if prefix.syslog:
        # The header of syslog gives process and number of the record.
        rows.append((SYSLOG, FIELD_CODES["none"], 0, 0, 0, 0))
        filled |= {"p", "l"}
        escapes |= {"p", "l"}
    for element in prefix.elements:
        padding = (element.padding > 0) - (element.padding < 0)
        letter = element.escape
        if not letter:
            rows.append((LITERAL, 0, 0, len(literals), len(literals) + len(element.literal), 0))
            literals += element.literal
            continue
        shadowed = (
            letter in filled
            or (letter == "t" and "m" in escapes)
            or (letter == "n" and escapes & {"m", "t"})
            or (letter == "c" and "p" in escapes)
            or (letter == "r" and "h" in escapes)
        )
        field = FIELD_CODES["none" if shadowed else _FIELD_OF.get(letter, "none")]
        filled.add(letter)
        if element.address:
            rows.append((HOST, field, padding, 0, 0, 0))
        elif letter in LISTS:
            words = b"".join(bytes([len(word), *word.encode()]) for word in LISTS[letter])
            rows.append((TEXT, field, padding, len(literals), len(literals) + len(words), 0))
            literals += words
        else:
            rows.append((*_encode_field_kind(letter, field, padding),))
    code = np.array(rows, np.int32).reshape(len(rows), 6)
    return Program(code, np.frombuffer(literals or b"\0", np.uint8), prefix.optional_from + prefix.syslog)


def _encode_field_kind(letter: str, field: int, padding: int) -> tuple[int, int, int, int, int, int]:
    if letter in TEXT_ESCAPES:
        return TEXT, field, padding, 0, 0, 0
    if letter in _DIGITS:
        return DIGITS, field, padding, *_DIGITS[letter]
    kind = {"m": STAMP, "t": STAMP, "s": STAMP, "n": EPOCH, "v": VXID, "c": SESSION, "e": STATE}[letter]
    return kind, field, padding, int(letter == "m"), 0, 0


# The compiled scanner (`native/`), called through ctypes: calls let other threads run.
#
# It is built when the package is installed (`hatch_build.py`). `native/layout.h` defines its structures.

LIBRARY: Final = Path(__file__).parent / f"_scanner{LIBRARY_SUFFIX}"

_CHUNK, _PREFIX, _OUTPUT_STRUCTURE, _LINK_COLUMNS, _TEXT_FACTS = map(
    build_ctypes_structure, ("chunk_t", "prefix_t", "output_t", "link_columns_t", "text_facts_t")
)


#: Functions of the library -> type of the result, then types of the arguments.
_FUNCTIONS: Final = {
    "pglog_scan": (c_int32, POINTER(_CHUNK), POINTER(_PREFIX), POINTER(_OUTPUT_STRUCTURE)),
    "pglog_scan_rows": (
        c_int32,
        POINTER(_CHUNK),
        c_int32,
        POINTER(_PREFIX),
        c_void_p,
        c_int64,
        POINTER(_OUTPUT_STRUCTURE),
    ),
    "pglog_read_texts": (c_int32, c_void_p, c_int64, c_void_p, c_void_p, POINTER(_OUTPUT_STRUCTURE)),
    "pglog_text_facts": (_TEXT_FACTS, c_void_p, c_int64),
    "pglog_gather": (None, c_void_p, c_int64, c_void_p, c_void_p),
    "pglog_heads": (c_int64, c_void_p, c_int64, POINTER(_PREFIX)),
    "pglog_last_record": (c_int64, c_void_p, c_int64, c_int64, POINTER(_PREFIX)),
    "pglog_links_new": (c_void_p,),
    "pglog_links_free": (None, c_void_p),
    "pglog_link": (c_int32, c_void_p, c_int64, POINTER(_LINK_COLUMNS), c_void_p, c_void_p),
    "pglog_assembly_new": (c_void_p, c_void_p),
    "pglog_assembly_free": (None, c_void_p),
    "pglog_assemble": (c_int32, c_void_p, c_void_p),
    "pglog_assembly_end": (c_int32, c_void_p),
    "pglog_assembly_waiting": (c_int64, c_void_p),
    "pglog_assembled": (None, c_void_p, c_void_p),
}


@cache
def load_scanner_library() -> ctypes.CDLL:
    """The library, with the types of its functions.

    Raises:
        CompiledCodeError: it cannot be loaded.
    """
    library = load_library(LIBRARY, "pglog_layout", compute_layout_hash())
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def compiled_scanner() -> str:
    """Path of the compiled scanner.

    Raises:
        CompiledCodeError: it cannot be loaded.
    """
    load_scanner_library()
    return str(LIBRARY)


def measure_text_facts(text: Bytes) -> Structure:
    """Properties of the bytes of a chunk (`text_facts_t`), from one pass over them."""
    found: Structure = load_scanner_library().pglog_text_facts(text.ctypes.data, len(text))
    return found


def scan_chunk(
    buffer: Bytes, size: int, facts: Structure, chunk: Chunk, prefix: Prefix, memory: ReusedBuffers
) -> ScanOutput:
    """The records of a chunk.

    Args:
        buffer: the bytes of the chunk; in logs of syslog, followed by memory of the same size.
        size: number of bytes of the chunk.
        facts: properties of its bytes.
        chunk: its place in the source.
        prefix: prefix of its records.
        memory: memory for the columns.
    """
    address = buffer.ctypes.data
    spare = address + size if prefix.syslog else None
    place = chunk.offset, chunk.tail, LINE_CAP, EXCERPT_BYTES, chunk.fresh
    given = _CHUNK(address, size, *place, facts.zeros, spare)
    output = ScanOutput(facts.lines, memory)
    output.fill(load_scanner_library().pglog_scan, ctypes.byref(given), ctypes.byref(_build_prefix_structure(prefix)))
    return output


def scan_rows(
    buffer: Bytes, size: int, lines: int, *, offset: int, form: str, buffers: ReusedBuffers
) -> ScanOutput | None:
    """The records of a chunk of csvlog or jsonlog, and their details, each as a row.

    Args:
        buffer: the chunk, followed by memory of the same size.
        size: number of bytes of the chunk.
        lines: number of lines of the chunk, or more.
        offset: offset of the chunk in the source.
        form: form of its rows, one of :data:`ROW_FORMS`.
        buffers: memory for the columns.

    Returns:
        None if a server does not write some row in this form.
    """
    chunk = _CHUNK(buffer.ctypes.data, size, offset, 0, LINE_CAP, EXCERPT_BYTES, 0, 0, None)
    prefix = ctypes.byref(_build_prefix_structure(compile_prefix("")))
    # Few records have details; none has more than five.
    for rows in (lines + lines // 2 + 64, 6 * lines):
        output = ScanOutput(rows, buffers)
        given = (ctypes.byref(chunk), ROW_FORMS.index(form), prefix, buffer.ctypes.data, rows)
        answer = output.fill(load_scanner_library().pglog_scan_rows, *given)
        if answer != MORE_ROOM:
            return None if answer == IRREGULAR else output
    raise AssertionError


def read_texts(text: Bytes, bounds: Integers, severities: Bytes) -> ScanOutput:
    """Columns read from texts, without the columns that only a prefix provides.

    Args:
        text: all texts, concatenated.
        bounds: beginning of each text, followed by the end of the last.
        severities: number of each text's severity, as in the schema.
    """
    arrays = [np.ascontiguousarray(array) for array in (text, bounds, severities)]
    data, places, numbers = (array.ctypes.data for array in arrays)
    output = ScanOutput(len(severities), ReusedBuffers())
    output.fill(load_scanner_library().pglog_read_texts, data, len(severities), places, numbers)
    return output


def gather(text: Bytes, places: Integers) -> tuple[Integers, Bytes]:
    """Stretches of a text, concatenated: the beginning of each and the end of the last, and the bytes."""
    places = np.ascontiguousarray(places)
    bounds = np.zeros(len(places) + 1, np.int64)
    np.cumsum(places[:, 1] - places[:, 0], out=bounds[1:])
    data = np.empty(int(bounds[-1]), np.uint8)
    load_scanner_library().pglog_gather(text.ctypes.data, len(places), places.ctypes.data, data.ctypes.data)
    return bounds, data


def count_heads(data: bytes, prefix: Prefix) -> int:
    """The number of lines of `data` that begin a record."""
    buffer = np.frombuffer(data, np.uint8)
    heads = int(
        load_scanner_library().pglog_heads(buffer.ctypes.data, len(data), ctypes.byref(_build_prefix_structure(prefix)))
    )
    if heads == OUT_OF_MEMORY:
        raise MemoryError
    return heads


def find_last_record(data: bytes, size: int, prefix: Prefix) -> int | None:
    """The beginning of the last record in the first `size` bytes; None if the last opener is not a record."""
    buffer = np.frombuffer(data, np.uint8)
    place = load_scanner_library().pglog_last_record(
        buffer.ctypes.data, size, LINE_CAP, ctypes.byref(_build_prefix_structure(prefix))
    )
    if place == OUT_OF_MEMORY:
        raise MemoryError
    return None if place < 0 else int(place)


def _build_prefix_structure(prefix: Prefix) -> Structure:
    # The program is cached, so its arrays outlive the structure.
    program = encode_prefix_program(prefix)
    count, width = SEVERITY_TABLE.shape
    return _PREFIX(
        program.code.ctypes.data,
        program.literals.ctypes.data,
        SEVERITY_TABLE.ctypes.data,
        len(program.code),
        program.optional_from,
        count,
        width,
        prefix.verbose,
    )


# Columns that the compiled scanner filled, as Arrow arrays over the same memory.

_EVENTS: Final = TABLES["log_events"]
_NUMBER_COLUMNS: Final = {
    np.int64: pa.int64(),
    np.uint64: pa.uint64(),
    np.int32: pa.int32(),
    np.float64: pa.float64(),
    np.uint8: pa.bool_(),  # one bit a row
}
#: Types of the codes -> dictionary types.
_CATEGORIES: Final = {np.int32: _EVENTS["application"].type.arrow, np.uint8: _EVENTS["kind"].type.arrow}


def number_array(column: FilledColumn, rows: int) -> pa.Array:
    """Numbers, or flags of one bit."""
    kind = _NUMBER_COLUMNS[column.values.dtype.type]
    return pa.Array.from_buffers(kind, rows, _list_column_buffers(column, rows), rows - column.count)


def make_category_array(column: FilledColumn, rows: int, texts: pa.Array) -> pa.Array:
    """A column of numbers of texts as a dictionary array; `texts` is not empty if there are rows."""
    kind = _CATEGORIES[column.values.dtype.type]
    return pa.DictionaryArray.from_buffers(kind, rows, _list_column_buffers(column, rows), texts, rows - column.count)


def gather_text_array(buffer: Bytes, places: Integers) -> pa.Array:
    """Stretches of UTF-8 (begin and end of each) as texts in memory of their own."""
    bounds, data = gather(buffer, places)
    return pa.Array.from_buffers(pa.large_string(), len(places), [None, pa.py_buffer(bounds), pa.py_buffer(data)], 0)


def spread_texts(texts: pa.Array, column: FilledColumn, rows: int) -> pa.Array:
    """A column with the given texts, one per valid row, in order; other rows are null."""
    _, bounds, data = texts.buffers()
    places = np.frombuffer(bounds, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    there = np.flatnonzero(np.unpackbits(column.valid, count=rows, bitorder="little"))
    # A null row begins and ends where the text before it ends.
    ends = np.repeat(places, np.diff(there, prepend=-1, append=rows))
    return pa.Array.from_buffers(
        pa.large_string(), rows, [_make_validity_buffer(column, rows), pa.py_buffer(ends), data]
    )


def join_row_numbers(row: Integers, number: Integers, rows: int) -> pa.Array:
    """The numbers of each row as one text, separated by spaces; null for rows without numbers.

    Args:
        row: the row of each number, ascending.
        number: the numbers.
        rows: number of rows of the result.

    Example:
        >>> join_row_numbers(np.array([1, 1]), np.array([102012, 102016]), 3).to_pylist()
        [None, '102012 102016', None]
    """
    # Imported here, because few logs have statements that name several shards.
    import pyarrow.compute as pc

    own, first = np.unique(row, return_index=True)
    texts = pa.ListArray.from_arrays(np.append(first, len(row)).astype(np.int32), pa.array(number).cast(pa.string()))
    place = np.searchsorted(own, np.arange(rows))
    absent = np.isin(np.arange(rows), own, invert=True)
    return pc.binary_join(texts, " ").cast(pa.large_string()).take(pa.array(place, mask=absent))


def _list_column_buffers(column: FilledColumn, rows: int) -> list[pa.Buffer | None]:
    return [_make_validity_buffer(column, rows), pa.py_buffer(column.values)]


def _make_validity_buffer(column: FilledColumn, rows: int) -> pa.Buffer | None:
    return None if column.count == rows else pa.py_buffer(column.valid)


# Messages of records: redacted, and cut to a limited length.

MESSAGE_CHARS: Final = 500
#: Bytes searched for secrets before a message is cut, so that no secret is separated from its key.
MESSAGE_SCAN: Final = 2000


def redact_messages(messages: pl.Series) -> pl.Series:
    """Messages with secrets replaced, cut to :data:`MESSAGE_CHARS` characters."""
    return redact_series(messages).str.head(MESSAGE_CHARS)


def redact_message_array(messages: pa.Array) -> pa.Array:
    """Like :func:`redact_messages`, for Arrow texts without nulls; short texts without secrets need no polars."""
    _, bounds, data = messages.buffers()
    if not data.to_pybytes().isascii() or may_hold_secret(messages):
        return make_text_array(redact_messages(convert_array_to_series("message", messages)))
    begins, ends = np.frombuffer(bounds, np.int64)[:-1], np.frombuffer(bounds, np.int64)[1:]
    shown = np.column_stack([begins, np.minimum(ends, begins + MESSAGE_CHARS)])
    return gather_text_array(np.frombuffer(data, np.uint8), shown)


#: Meaning of the numbers in a column.
_WORDS: Final = {
    "severity": make_word_array(SEVERITY_WORDS),
    "kind": make_word_array(KINDS),
    "phase": make_word_array(PROTOCOL_PHASES),
    "statement_kind": make_word_array(STATEMENT_KINDS),
}
_NUMBERS: Final = (*(name for name in NUMBER_COLUMNS if name != "message"), "capped")
_FOUND_IN_TEXT: Final = frozenset(
    {
        *("duration_us", "shard_id", "placement_id", "task_us", "worker_host", "worker_port", "kind", "phase"),
        *("sqlstate", "statement_name", "statement_kind", "statement_fingerprint", "values_hash", "message"),
        *("other_shards", "trace_context"),
    }
)


class Memory:
    """Memory of one log, for chunks while they are scanned and for their columns until they are written."""

    def __init__(self) -> None:
        self.texts = ReusedBuffers()
        self.columns = ReusedBuffers()


def scan_fast(chunk: Chunk, prefix: Prefix, memory: Memory) -> ScannedChunk:
    """The records of a chunk, in columns in the given memory."""
    text = _read_chunk_text(chunk, memory.texts)
    facts = measure_text_facts(text)
    if not facts.ascii:
        text = np.frombuffer(replace_invalid_utf8(text.tobytes()), np.uint8)
    # Messages of syslog are joined in memory after the chunk.
    buffer = _add_spare_bytes(text, memory.texts) if prefix.syslog else text
    out = scan_chunk(buffer, len(text), facts, chunk, prefix, memory.columns)
    starts, sizes = out.strays[:, 0], out.strays[:, 1] - out.strays[:, 0]
    if chunk.tail and len(sizes):
        sizes[-1] += chunk.tail
    arrays = _build_column_arrays(buffer, out)
    if encode_prefix_program(prefix).epoch:
        arrays["zone"] = repeat_text("UTC", out.rows)
    rejects = build_stray_rejects(chunk, text.data, starts, sizes)
    return ScannedChunk(_make_record_batch(arrays), rejects, out.record_bytes, out.blank_bytes)


def scan_rows_fast(data: bytes, offset: int, form: str, memory: Memory) -> ScannedChunk | None:
    """The records of a chunk, in columns in the given memory.

    Args:
        data: whole rows.
        offset: their offset in the source.
        form: their form, one of :data:`~citus_analysis.formats.pglog.compiled.ROW_FORMS`.
        memory: memory of the log.

    Returns:
        None if a server does not write some row in this form: the formats read such rows themselves.
    """
    given = np.frombuffer(data, np.uint8)
    facts = measure_text_facts(given)
    if facts.zeros or not len(given):
        return None
    buffer = _add_spare_bytes(
        given if facts.ascii else np.frombuffer(replace_invalid_utf8(data), np.uint8), memory.texts
    )
    out = scan_rows(buffer, len(given), facts.lines, offset=offset, form=form, buffers=memory.columns)
    if out is None:
        return None
    arrays = _build_column_arrays(buffer, out)
    # A detail and its record have the same offset.
    details = out.columns["severity"].values[: out.rows].view(np.uint8) >= FIRST_DETAIL
    valid = np.packbits(details, bitorder="little")
    tied = FilledColumn(out.columns["byte_offset"].values[: out.rows], valid, int(np.count_nonzero(details)))
    arrays["record_byte_offset"] = number_array(tied, out.rows)
    return ScannedChunk(_make_record_batch(arrays), [], out.record_bytes, 0)


def add_body_fast(frame: pl.DataFrame) -> pl.DataFrame:
    """Replace `text` by the columns read from it; the frame must have `severity` and `text`."""
    import polars as pl

    texts = make_text_array(frame.get_column("text").fill_null(""))
    _, bounds, data = texts.buffers()
    buffer = np.frombuffer(data or b"", np.uint8)
    places = np.frombuffer(bounds, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    severities = frame.get_column("severity").cast(_TABLE["severity"].dtype).to_physical().to_numpy()
    out = read_texts(buffer, places, severities)
    read = pl.DataFrame(
        _make_record_batch({name: a for name, a in _build_column_arrays(buffer, out).items() if name in _FOUND_IN_TEXT})
    )
    frame = frame.drop("text")
    if "sqlstate" in read.columns and "sqlstate" in frame.columns:
        said, known = (one.get_column("sqlstate").cast(pl.String) for one in (read, frame))
        read, frame = read.with_columns(sqlstate=said.fill_null(known)), frame.drop("sqlstate")
    return frame.hstack(read)


def fingerprint_statements(statements: pl.Series) -> pl.Series:
    """The fingerprints of statements, as those that a server logs have them.

    Example:
        >>> import polars as pl
        >>> one, two = fingerprint_statements(pl.Series(["SELECT 1", "select  $1;"]))
        >>> one == two
        True
    """
    import polars as pl

    frame = statements.to_frame("text").with_columns(severity=pl.lit("STATEMENT"))
    return add_body_fast(frame).get_column("statement_fingerprint")


def _read_chunk_text(chunk: Chunk, buffers: ReusedBuffers) -> Bytes:
    if isinstance(chunk.text, bytes):
        return np.frombuffer(chunk.text, np.uint8)
    memory = buffers.buffer(chunk.text.length)
    return memory[: chunk.text.read_into(memory.data)]


def _add_spare_bytes(text: Bytes, buffers: ReusedBuffers) -> Bytes:
    """The text, followed by memory of the same size for texts that differ from their bytes in the log."""
    memory = buffers.buffer(2 * len(text))
    memory[: len(text)] = text
    return memory


def _make_record_batch(arrays: dict[str, pa.Array]) -> pa.RecordBatch:
    """Columns as a batch."""
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def _build_column_arrays(buffer: Bytes, out: ScanOutput) -> dict[str, pa.Array]:
    """The columns with values, named as in `log_events`, with `clock` and `zone` in place of `log_time`."""
    rows, columns = out.rows, {name: column for name, column in out.columns.items() if column.count or not out.rows}
    arrays = {name: number_array(columns[name], rows) for name in _NUMBERS if name in columns}
    for name, texts in {**_WORDS, **_build_distinct_texts(buffer, out)}.items():
        if name in columns:
            arrays[name] = make_category_array(columns[name], rows, texts)
    if len(out.messages):
        arrays["message"] = spread_texts(_build_message_array(buffer, out.messages), columns["message"], rows)
    if len(out.shards):
        arrays["other_shards"] = join_row_numbers(out.shards[:, 0], out.shards[:, 1], rows)
    return arrays


def _build_distinct_texts(buffer: Bytes, out: ScanOutput) -> dict[str, pa.Array]:
    """The distinct texts of each column, all copied at once."""
    places = np.concatenate(list(out.texts.values()))
    texts = gather_text_array(buffer, places)
    ends = np.cumsum([len(own) for own in out.texts.values()]).tolist()
    return {name: texts[end - len(own) : end] for (name, own), end in zip(out.texts.items(), ends, strict=True)}


def _build_message_array(buffer: Bytes, places: Integers) -> pa.Array:
    starts = places[:, 0]
    lengths = cut_to_characters(buffer, starts, places[:, 1] - starts, MESSAGE_SCAN)
    return redact_message_array(gather_text_array(buffer, np.column_stack([starts, starts + lengths])))


# Lines of details (DETAIL, HINT, STATEMENT ...) linked to their records.
#
# PostgreSQL writes them directly after their record: by the same process, with the next numbers of its session. A
# detail line is linked to the last record of its pid if the numbers between them have no gap; otherwise the record is
# missing (the log begins within it), and the line remains unlinked. Without a line number in the prefix, the
# last record of the process is used.

_LINKED: Final = "record_byte_offset"
_DETAIL_COLUMNS = build_ctypes_structure("link_columns_t")


class DetailLinks:
    """Links the details in the chunks of one source, in order; keeps the last record of each process between chunks."""

    def __init__(self) -> None:
        library = load_scanner_library()
        self._handle = library.pglog_links_new()
        if not self._handle:
            raise MemoryError
        weakref.finalize(self, library.pglog_links_free, self._handle)

    def link(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of the next chunk with `record_byte_offset`.

        Raises:
            MemoryError: the memory does not suffice.
        """
        columns = [_drop_array_offset(rows.column(name)) for name in ("pid", "session_line", "byte_offset")]
        severities = _drop_array_offset(rows.column("severity").indices)
        pids, lines, (offsets, _) = map(_get_buffer_addresses, columns)
        by = _DETAIL_COLUMNS(*pids, *lines, _get_buffer_addresses(severities)[0], offsets)
        linked = FilledColumn.of(np.empty(rows.num_rows, np.int64), rows.num_rows)
        into = linked.values.ctypes.data, linked.valid.ctypes.data
        if load_scanner_library().pglog_link(self._handle, rows.num_rows, ctypes.byref(by), *into):
            raise MemoryError
        linked.count = linked.marked()
        place = rows.schema.get_field_index(_LINKED)
        return rows.set_column(place, _LINKED, number_array(linked, rows.num_rows))


def _drop_array_offset(values: pa.Array) -> pa.Array:
    """The values without an offset into their memory."""
    return pa.concat_arrays([values]) if values.offset else values


def _get_buffer_addresses(values: pa.Array) -> tuple[int | None, int | None]:
    """Addresses of a column's values and of its validity bits: the latter None if all are valid, both if none is."""
    if values.null_count == len(values):
        return None, None
    valid, numbers = values.buffers()
    return numbers.address, None if valid is None else valid.address

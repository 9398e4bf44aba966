"""The compiled scanner of server logs (`native/`), called through ctypes: calls let other threads run.

It is built when the package is installed (`hatch_build.py`). `native/layout.h` defines its structures.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from citus_analysis.core.compiled_code import LIBRARY_SUFFIX, load_library
from citus_analysis.core.type_aliases import Integers
from citus_analysis.formats.deliveries.content import EXCERPT_BYTES, LINE_CAP
from citus_analysis.formats.pglog.filled_columns import ReusedBuffers, ScanOutput
from citus_analysis.formats.pglog.layout import (
    IRREGULAR,
    MORE_ROOM,
    OUT_OF_MEMORY,
    ROW_FORMS,
    build_ctypes_structure,
    compute_layout_hash,
)
from citus_analysis.formats.pglog.prefix import (
    Prefix,
    compile_prefix,
)
from citus_analysis.formats.pglog.prefix_program import SEVERITY_TABLE, encode_prefix_program
from citus_analysis.formats.pglog.records import Chunk
from citus_analysis.formats.pglog.string_views import Bytes

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
    """Slices of a text, concatenated: the beginning of each and the end of the last, and the bytes."""
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

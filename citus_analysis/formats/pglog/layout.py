"""Codes and structures that the compiled scanner and Python share, as one C header and as ctypes.

The structures are written in `native/layout.h`, and ctypes takes them from there. The codes are places in the lists
of :mod:`citus_analysis.schema`; ``make layout`` writes them into the header, with a hash of all declarations, and a
test fails if it is out of date. The hash is compiled in, so that a scanner built for another layout, which would use
wrong memory, is refused.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np

from citus_analysis.core.table_definition import HASH, INT32, INT64, REAL, ColumnType
from citus_analysis.formats.pglog.prefix import (
    HEAD_LIMIT,
    HELD_BACK,
    MAX_ELEMENTS,
)
from citus_analysis.schema import KINDS, PROTOCOL_PHASES, SEVERITIES, STATEMENT_KINDS, TABLES

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

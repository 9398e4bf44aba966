"""What the compiled scanner and Python share: codes and structures, as one C header and as ctypes.

Codes are places in the lists of :mod:`citus_analysis.schema`; the columns' widths are those of the schema's types.
`native/layout.h` is written from here (``make layout``); a test says when it is out of date. It holds a hash of itself
that is compiled in, so that a scanner which was built for another layout is refused: it would use wrong memory.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final

import numpy as np

from citus_analysis.core.column_types import HASH, INT32, INT64, REAL, ColumnType
from citus_analysis.formats.serverlog.pglog._prefix import HEAD_LIMIT, MAX_ELEMENTS
from citus_analysis.schema import KINDS, PROTOCOL_PHASES, SEVERITIES, STATEMENT_KINDS, TABLES

__all__ = [
    "CODE_COLUMNS",
    "ELEMENTS",
    "FIELDS",
    "MAX_SHARDS",
    "NUMBER_COLUMNS",
    "OUT_OF_MEMORY",
    "TEXT_COLUMNS",
    "layout_hash",
    "layout_header",
    "structure",
]

OUT_OF_MEMORY: Final = -2
#: Shards of a statement that are kept; further ones are left out.
MAX_SHARDS: Final = 8

#: Kinds of elements of a prefix, and the fields of a line's head that they fill.
ELEMENTS: Final = ("literal", "text", "stamp", "digits", "vxid", "session", "state", "epoch", "syslog")
FIELDS: Final = (
    *("none", "clock", "epoch", "pid", "hex_pid", "vxid", "line"),
    *("app", "user", "database", "host", "remote", "state"),
)

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
            *("statement_fingerprint", "duration_us", "pid", "backend_id", "worker_port"),
        )
    },
    "message": np.int32,  # number of the message among those of the chunk
}
#: Columns of texts: the values are numbers of distinct texts.
TEXT_COLUMNS: Final = (
    *("zone", "application", "user", "database", "client_host", "sqlstate"),
    *("worker_host", "statement_name"),
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
    }
)


@dataclass(frozen=True)
class Member:
    """A member of a structure: its name, its type in C, how many of it there are, and what it is."""

    name: str
    type: str
    meaning: str = ""
    count: int = 0


def _columns(names: Sequence[str]) -> tuple[Member, ...]:
    return tuple(Member(name, "column_t") for name in names)


_TEXTS: Final = len(TEXT_COLUMNS)
_STRUCTURES: Final[Mapping[str, tuple[Member, ...]]] = MappingProxyType(
    {
        "column_t": (
            Member("values", "void *", "one per row; codes and numbers of texts begin as zeros"),
            Member("valid", "byte_t *", "one bit per row, which begins as zero"),
        ),
        "stretch_t": (Member("begin", "int64_t"), Member("end", "int64_t")),
        "element_t": (
            Member("kind", "int32_t"),
            Member("field", "int32_t", "that it fills"),
            Member("padding", "int32_t", "spaces: -1 behind it, 1 before it"),
            Member("first", "int32_t", "begin of a literal; fewest digits; whether a stamp has milliseconds"),
            Member("second", "int32_t", "end of a literal; most digits"),
            Member("third", "int32_t", "whether a minus may precede digits"),
        ),
        "prefix_t": (
            Member("elements", "const element_t *"),
            Member("literals", "const byte_t *"),
            Member("severities", "const byte_t *", "rows of `severity_width`: length of a word, then its bytes"),
            Member("count", "int32_t", "of the elements"),
            Member("optional_from", "int32_t", "first element that may be absent with all behind it"),
            Member("severity_count", "int32_t"),
            Member("severity_width", "int32_t"),
        ),
        "chunk_t": (
            Member("text", "const byte_t *"),
            Member("size", "int64_t"),
            Member("offset", "int64_t", "where the chunk begins in the source"),
            Member("tail", "int64_t", "bytes behind the chunk that belong to its only record"),
            Member("line_cap", "int64_t", "a longer record is capped"),
            Member("excerpt", "int64_t", "bytes that are looked at of a capped record"),
            Member("fresh", "int32_t", "nothing but blank lines is before the chunk"),
            Member("zeros", "int32_t", "some byte of it is 0"),
        ),
        "survey_t": (
            Member("lines", "int64_t", "the last one without line end included: more records there cannot be"),
            Member("ascii", "int32_t", "whether all bytes are"),
            Member("zeros", "int32_t", "whether some byte is 0"),
        ),
        "output_t": (
            *_columns(list(NUMBER_COLUMNS)),
            Member("texts", "column_t", count=_TEXTS),
            *_columns(CODE_COLUMNS),
            Member("capped", "column_t", "one bit per row in `values`, too"),
            Member("distinct_texts", "stretch_t *", count=_TEXTS),
            Member("messages", "stretch_t *"),
            Member("strays", "stretch_t *"),
            Member("shards", "stretch_t *", "row and number of the shards behind the first of a statement"),
            Member("text_counts", "int64_t", count=_TEXTS),
            Member("rows", "int64_t"),
            Member("message_count", "int64_t"),
            Member("stray_count", "int64_t"),
            Member("shard_count", "int64_t"),
            Member("blank_bytes", "int64_t"),
            Member("record_bytes", "int64_t"),
        ),
        "tied_by_t": (
            Member("pids", "const int32_t *"),
            Member("pids_valid", "const byte_t *", "NULL where every value is there, as the next one"),
            Member("lines", "const int64_t *"),
            Member("lines_valid", "const byte_t *"),
            Member("severities", "const byte_t *"),
            Member("offsets", "const int64_t *"),
        ),
    }
)


@cache
def structure(name: str) -> type[ctypes.Structure]:
    """A structure of `native/layout.h` for ctypes.

    Example:
        >>> structure("survey_t")._fields_[0]
        ('lines', <class 'ctypes.c_long'>)
    """
    fields = tuple((one.name, _ctype(one)) for one in _STRUCTURES[name])
    return type(name, (ctypes.Structure,), {"_fields_": fields})


def _ctype(one: Member) -> type:
    scalars = {"int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64}
    kind = ctypes.c_void_p if one.type.endswith("*") else scalars.get(one.type) or structure(one.type)
    return kind * one.count if one.count else kind


def layout_hash() -> int:
    """Hash over all that the header declares, of 63 bits."""
    return int.from_bytes(hashlib.blake2b(_declarations().encode(), digest_size=8).digest(), "little") >> 1


def layout_header() -> str:
    """The text of `native/layout.h`."""
    return f"""/* Codes and structures that Python shares; written by `make layout` from `_layout.py`. */
#ifndef PGLOG_LAYOUT_H
#define PGLOG_LAYOUT_H

#include <stdint.h>

/* Of all that follows. */
#define LAYOUT_HASH {layout_hash():#x}

{_declarations()}
#endif
"""


@cache
def _declarations() -> str:
    limits = {
        "MAX_ELEMENTS": MAX_ELEMENTS,
        "HEAD_LIMIT": HEAD_LIMIT,
        "OUT_OF_MEMORY": f"({OUT_OF_MEMORY})",
        "MAX_SHARDS": MAX_SHARDS,
    }
    defined = "".join(f"#define {name} {value}\n" for name, value in limits.items())
    enums = (_enum(kind, prefix, words) for prefix, (kind, words) in _ENUMS.items())
    structures = (_struct(name, members) for name, members in _STRUCTURES.items())
    return "\n".join((defined, *enums, "typedef uint8_t byte_t;\n", *structures))


def _enum(kind: str, prefix: str, words: Sequence[str]) -> str:
    return f"enum {kind} {{\n" + "".join(f"    {prefix}_{word.upper()},\n" for word in words) + "};\n"


def _struct(name: str, members: Sequence[Member]) -> str:
    lines = (
        f"    {one.type}{'' if one.type.endswith('*') else ' '}{one.name}{f'[{one.count}]' if one.count else ''};"
        f"{f' /* {one.meaning} */' if one.meaning else ''}\n"
        for one in members
    )
    return "typedef struct {\n" + "".join(lines) + f"}} {name};\n"

"""Codes and structures that the compiled scanner and Python share, as one C header and as ctypes.

Codes are places in the lists of :mod:`citus_analysis.schema`; the schema's types give the columns' widths.
`native/layout.h` is generated from this module (``make layout``); a test fails if it is out of date. It contains a hash
of itself that is compiled in, so that a scanner built for another layout, which would use wrong memory, is refused.
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
from citus_analysis.formats.serverlog.pglog._prefix import HEAD_LIMIT, HELD_BACK, MAX_ELEMENTS
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
    *("task", "error", "planned", "connect", "nothing"),
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


@dataclass(frozen=True)
class Member:
    """A member of a structure: its name, its type in C, its meaning, and its length if it is an array (else 0)."""

    name: str
    type: str
    meaning: str = ""
    count: int = 0


def _all(kind: str, *names: str) -> tuple[Member, ...]:
    """Members of one type that need no explanation."""
    return tuple(Member(name, kind) for name in names)


#: Columns of numbers that describe the work of a session.
RECORD_NUMBERS: Final = (
    *("pid", "byte_offset", "log_time", "session_line", "local_xid", "gpid", "duration_us", "shard_id", "task_us"),
    *("worker_port", "statement_fingerprint", "values_hash"),
)


def _padding(size: int) -> int:
    """Bytes up to the next multiple of eight; eight instead of zero, because C has no arrays of length zero."""
    return 8 - size % 8


#: Arrays that an assembly gives -> structure of their items.
ASSEMBLED_ITEMS: Final = {
    "executions": "execution_t",
    "phases": "phase_t",
    "tasks": "sent_task_t",
    "locals": "local_t",
    "sessions": "session_t",
    "missing": "missing_t",
}

#: Properties of an execution, one byte each.
_FLAGS: Final = (
    *("opened", "closed", "extended", "failed", "fatal", "has_tasks", "has_locals", "is_child", "in_transaction"),
    *("anchored", "first_on_shard", "has_fingerprint"),
)

#: Properties of the execution of a task, one byte each.
_TASK_FLAGS: Final = ("failed", "is_child", "anchored")

_TEXTS: Final = len(TEXT_COLUMNS)
_STRUCTURES: Final[Mapping[str, tuple[Member, ...]]] = MappingProxyType(
    {
        "column_t": (
            Member("values", "void *", "one per row; initially 0 for codes and numbers of texts"),
            Member("valid", "byte_t *", "one bit per row, initially 0"),
        ),
        "stretch_t": _all("int64_t", "begin", "end"),
        "element_t": (
            Member("kind", "int32_t"),
            Member("field", "int32_t", "the field that it fills"),
            Member("padding", "int32_t", "spaces: -1 after it, 1 before it"),
            Member(
                "first",
                "int32_t",
                "beginning of a literal, or of the words that a text may be; fewest digits; whether a stamp has ms",
            ),
            Member("second", "int32_t", "end of a literal, or of these words; most digits"),
            Member("third", "int32_t", "whether a minus may precede digits"),
        ),
        "prefix_t": (
            Member("elements", "const element_t *"),
            Member("literals", "const byte_t *"),
            Member("severities", "const byte_t *", "rows of `severity_width`: length of a word, then its bytes"),
            Member("count", "int32_t", "number of elements"),
            Member("optional_from", "int32_t", "first element that may be absent, together with all after it"),
            *_all("int32_t", "severity_count", "severity_width"),
            Member("verbose", "int32_t", "whether messages begin with an SQLSTATE"),
        ),
        "chunk_t": (
            Member("text", "const byte_t *"),
            Member("size", "int64_t"),
            Member("offset", "int64_t", "offset of the chunk in the source"),
            Member("tail", "int64_t", "bytes after the chunk that belong to its only record"),
            Member("line_cap", "int64_t", "length above which a record is capped"),
            Member("excerpt", "int64_t", "bytes read of a capped record"),
            Member("fresh", "int32_t", "whether only blank lines precede the chunk"),
            Member("zeros", "int32_t", "whether some byte is 0"),
            Member("spare", "byte_t *", "in logs of syslog, memory of the same size after the text; else NULL"),
        ),
        "text_facts_t": (
            Member("lines", "int64_t", "number of lines, a last one without line end included"),
            Member("ascii", "int32_t", "whether all bytes are ASCII"),
            Member("zeros", "int32_t", "whether some byte is 0"),
        ),
        "output_t": (
            *_all("column_t", *NUMBER_COLUMNS),
            Member("texts", "column_t", count=_TEXTS),
            *_all("column_t", *CODE_COLUMNS),
            Member("capped", "column_t", "`values` also has one bit per row"),
            Member("distinct_texts", "stretch_t *", count=_TEXTS),
            *_all("stretch_t *", "messages", "strays"),
            Member("shards", "stretch_t *", "row and number of the shards after the first of a statement"),
            Member("text_counts", "int64_t", count=_TEXTS),
            *_all("int64_t", "rows", "message_count", "stray_count", "shard_count", "blank_bytes", "record_bytes"),
        ),
        "link_columns_t": (
            Member("pids", "const int32_t *"),
            Member("pids_valid", "const byte_t *", "NULL if all are valid; likewise lines_valid"),
            Member("lines", "const int64_t *"),
            Member("lines_valid", "const byte_t *"),
            Member("severities", "const byte_t *"),
            Member("offsets", "const int64_t *"),
        ),
        "numbers_t": (
            Member("values", "const void *", "NULL if no row is valid"),
            Member("valid", "const byte_t *", "one bit per row; NULL if all rows are valid"),
            Member("shift", "int64_t", "number of bits before the first row's"),
        ),
        "source_times_t": _all("int64_t", "first_time", "last_time"),
        "rules_t": (
            Member("timed", "const byte_t *", "record_event by kind and phase, for records with a duration"),
            Member("untimed", "const byte_t *", "the same for records without a duration"),
            Member("parses", "const byte_t *", "whether a kind and phase are a parse phase"),
            Member("extended", "const byte_t *", "whether they are a statement over the extended protocol"),
            Member("statements", "const byte_t *", "whether they are a statement line"),
            Member("nodes", "const int32_t *", "node of each source"),
            Member("nodeids", "const int64_t *", "nodeid of each source's node"),
            Member("times", "source_times_t *", "times of each source's records"),
            Member("gpid_factor", "int64_t"),
            Member("file_room", "int64_t", "larger than any offset"),
            Member("distributed", "int64_t", "whether a statement on a shard is a local execution"),
        ),
        "records_t": (
            Member("rows", "int64_t"),
            Member("order", "const int64_t *", "rows sorted by session; NULL: in order already, which is checked"),
            Member("sources", "const uint32_t *", "source of each row; NULL: all have `source`"),
            Member("source", "int64_t"),
            *_all("numbers_t", *RECORD_NUMBERS),
            Member("words", "const byte_t *", "kind and phase as one number"),
            Member("severity", "const byte_t *"),
            Member("statement_kind", "const byte_t *"),
            Member("worker_host", "const int32_t *", "number of the host, -1: none; NULL: no row has one"),
            Member("other_shards", "const int32_t *", "number of the text, likewise"),
        ),
        "execution_t": (
            *_all("int64_t", "opener_offset", "opener_time", "byte_offset", "end_time", "last_offset", "start_time"),
            *_all("int64_t", "gpid", "shard_id", "local_xid", "closing_xid", "session_seq", "connect_us"),
            Member("statement_fingerprint", "uint64_t"),
            Member("duration_us", "double"),
            *_all("uint32_t", "source", "session"),
            *_all("int32_t", "pid", "phases", "other_shards"),
            Member("values_hash", "int32_t", "of the statement's constants and parameters; 0: none"),
            *_all("byte_t", *_FLAGS, "statement_kind"),
            Member("unused", "byte_t", count=_padding(6 * 4 + len(_FLAGS) + 1)),
        ),
        "phase_t": (
            *_all("int64_t", "byte_offset", "log_time"),
            Member("duration_us", "double"),
            *_all("uint32_t", "execution", "source"),
            Member("name", "byte_t", "0 parse, 1 bind, 2 execute"),
            Member("closes", "byte_t"),
            Member("unused", "byte_t", count=6),
        ),
        "sent_task_t": (
            *_all("int64_t", "byte_offset", "end_time", "shard_id", "task_us"),
            Member(
                "gpid", "int64_t", "of its execution; likewise all that follow but the source, the host and the port"
            ),
            Member("statement_offset", "int64_t", "where the execution was reported: at its end, else its last record"),
            Member("statement_seq", "int64_t"),
            *_all("uint32_t", "execution", "source", "statement_source", "session"),
            Member("pid", "int32_t"),
            Member("host", "int32_t", "number of the host; -1: none"),
            Member("port", "int32_t", "INT32_MIN: none"),
            Member("values_hash", "int32_t", "of its execution; 0: none"),
            *_all("byte_t", *_TASK_FLAGS),
            Member("unused", "byte_t", count=_padding(8 * 4 + len(_TASK_FLAGS))),
        ),
        "local_t": (
            *_all("int64_t", "byte_offset", "log_time", "shard_id"),
            *_all("uint32_t", "execution", "source"),
            Member("statement_kind", "byte_t"),
            Member("unused", "byte_t", count=7),
        ),
        "session_t": (
            Member("begins", "int64_t", "first time of its executions"),
            Member("executions", "int64_t"),
            Member("session", "uint32_t"),
            Member("node", "int32_t"),
            Member("anchored", "byte_t", "whether no record is missing before its first execution"),
            Member("unused", "byte_t", count=7),
        ),
        "missing_t": (
            Member("gpid", "int64_t"),
            Member("place", "int64_t", "place of the last record before the gap"),
            *_all("int32_t", "node", "unused"),
        ),
        "array_t": (Member("items", "void *"), Member("count", "int64_t")),
        "assembled_t": _all("array_t", *ASSEMBLED_ITEMS),
    }
)


@cache
def structure(name: str) -> type[ctypes.Structure]:
    """A structure of `native/layout.h` for ctypes.

    Example:
        >>> structure("text_facts_t")._fields_[0]
        ('lines', <class 'ctypes.c_long'>)
    """
    fields = tuple((one.name, _ctype(one)) for one in _STRUCTURES[name])
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


def _ctype(one: Member) -> type:
    single = structure(one.type) if one.type in _STRUCTURES else _SCALARS.get(one.type, ctypes.c_void_p)
    return single * one.count if one.count else single


def layout_hash() -> int:
    """Hash (63 bits) of all declarations in the header."""
    return int.from_bytes(hashlib.blake2b(_declarations().encode(), digest_size=8).digest(), "little") >> 1


def layout_header() -> str:
    """The text of `native/layout.h`."""
    return f"""/* Codes and structures shared with Python; generated by `make layout` from `compiled/layout.py`. */
#ifndef PGLOG_LAYOUT_H
#define PGLOG_LAYOUT_H

#include <stdint.h>

/* Hash of the declarations below. */
#define LAYOUT_HASH {layout_hash():#x}

{_declarations()}
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
def _declarations() -> str:
    defined = "".join(f"#define {name} {value if value >= 0 else f'({value})'}\n" for name, value in _LIMITS.items())
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

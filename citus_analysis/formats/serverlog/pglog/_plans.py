"""Plans that auto_explain logged, from the bytes of their records in stderr logs, csvlog and jsonlog.

The scanner does not store the text of such a record. Only chunks with such records are read a second time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from citus_analysis.core.arrow_arrays import filled
from citus_analysis.formats.api.format import Reject
from citus_analysis.formats.serverlog.pglog._syslog import whole_message
from citus_analysis.schema import KINDS

if TYPE_CHECKING:
    import pyarrow as pa

    from citus_analysis.formats.explain._items import Plan


#: The message of a record from its bytes.
Said = Callable[[bytes], str]

#: In jsonlog, the line end is written as an escape.
_BEGINS: Final = re.compile(rb"duration: [0-9.]+ ms  plan:(?:\r?\n|\\n)")
_QUOTED: Final = re.compile(rb'"((?:[^"]|"")*)"')


def logged_plans(
    offset: int, read: Callable[[], bytes], rows: pa.RecordBatch, said: Said, beyond: int = 0
) -> tuple[list[tuple[str, Plan]], list[Reject]]:
    """Form and plan of each record of auto_explain, and, as rejects without bytes, those that cannot be read.

    Args:
        offset: offset of a chunk of whole records.
        read: function that gives the chunk's bytes.
        rows: the chunk's rows of `log_events`.
        said: function that finds the message of a record.
        beyond: number of bytes after a record that `said` also gets.
    """
    found: list[tuple[str, Plan]] = []
    unread: list[Reject] = []
    chosen = filled(rows.column("kind").indices, -1) == KINDS.index("plan")
    if not chosen.any():
        return found, unread
    offsets, lengths = (filled(rows.column(name), 0)[chosen] for name in ("byte_offset", "byte_length"))
    data = read()
    begins = np.array([found.start() for found in _BEGINS.finditer(data)], np.int64) + offset
    # A plan belongs to the last record that begins before it, if that record is a candidate.
    holding = np.searchsorted(offsets, begins, side="right") - 1
    holding = np.unique(holding[(holding >= 0) & (begins < offsets[holding] + lengths[holding])])
    for start, length in zip(offsets[holding].tolist(), lengths[holding].tolist(), strict=True):
        text = said(data[start - offset : start - offset + length + beyond])
        try:
            found += _plans_of(text, start, length)
        except ValueError as error:
            # The record itself is a row of `log_events`.
            unread.append(Reject(start, 0, f"a plan that cannot be read: {error}", text))
    return found, unread


def said_in_syslog(lines: bytes) -> str:
    """The message of a record of syslog, given the record and the bytes after it."""
    return said_in_text(whole_message(lines.decode("utf-8", "replace")).encode())


def said_in_text(record: bytes) -> str:
    """The message of a record of a stderr log, without the tab before each further line."""
    begin = _BEGINS.search(record)
    return (record[begin.start() :] if begin else record).decode("utf-8", "replace").replace("\n\t", "\n")


def said_in_csv(record: bytes) -> str:
    r"""The message of a row of csvlog.

    Example:
        >>> said_in_csv(b'2026-11-22 UTC,"me",LOG,00000,"duration: 1 ms  plan:\n""Plan"": 1",,"psql"')
        'duration: 1 ms  plan:\n"Plan": 1'
    """
    quoted = (found[1] for found in _QUOTED.finditer(record) if _BEGINS.match(found[1]))
    return next(quoted, b"").replace(b'""', b'"').decode("utf-8", "replace")


def said_in_json(record: bytes) -> str:
    r"""The message of an object of jsonlog, also of one that is wrapped.

    Example:
        >>> said_in_json(b'{"record": {"message": "duration: 1 ms  plan:\\nResult"}}')
        'duration: 1 ms  plan:\nResult'
    """
    try:
        document: object = json.loads(record.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return ""
    within = document.get("record", document) if isinstance(document, dict) else None
    texts = [within.get(key) for key in ("message", "textPayload")] if isinstance(within, Mapping) else []
    text = next((text for text in texts if isinstance(text, str)), "")
    return text[text.find("duration: ") :]


def _plans_of(text: str, offset: int, length: int) -> list[tuple[str, Plan]]:
    """The plan in a message.

    Raises:
        ValueError: it cannot be read.
    """
    # Imports YAML, which few logs need.
    from citus_analysis.formats.explain._segments import plans_of_logged

    found = plans_of_logged([line.rstrip() for line in text.split("\n")[1:]])
    for _, plan in found:
        plan.offset, plan.length = offset, length
    return found

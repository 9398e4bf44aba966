"""Plans that auto_explain logged, from the bytes of their records.

The scanner leaves the text of such a record in the log: it has a duration, and neither a statement nor a message. Only
where such records are long enough to hold a plan are the bytes of their chunk looked at a second time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from citus_analysis.core.arrow_arrays import filled
from citus_analysis.schema import KINDS

if TYPE_CHECKING:
    import pyarrow as pa

    from citus_analysis.formats.explain._items import Plan
    from citus_analysis.formats.serverlog.pglog._records import Chunk

__all__ = ["logged_plans"]

#: The shortest plan, with `Query Text`, a node and its costs, is longer than the durations of a session are.
_SHORTEST_BYTES: Final = 160
_BEGINS: Final = re.compile(rb"duration: [0-9.]+ ms  plan:\r?\n")


def logged_plans(chunk: Chunk, rows: pa.RecordBatch) -> Sequence[tuple[str, Plan]]:
    """Form and plan of each record of auto_explain; those whose text cannot be read stay rows of `log_events` only.

    Args:
        chunk: whole records.
        rows: their rows of `log_events`.
    """
    places = _candidates(rows)
    if not places:
        return []
    data = chunk.data()
    if _BEGINS.search(data) is None:
        return []
    found: list[tuple[str, Plan]] = []
    for offset, length in places:
        start = offset - chunk.offset
        record = data[start : start + length]
        if begin := _BEGINS.search(record):
            found += _plans_of(record[begin.end() :], offset, length)
    return found


def _candidates(rows: pa.RecordBatch) -> list[tuple[int, int]]:
    """Offset and length of the records that may hold a plan: long ones with a duration and no statement."""
    offsets, lengths = (filled(rows.column(name), 0) for name in ("byte_offset", "byte_length"))
    kinds, statements = (filled(rows.column(name).indices, -1) for name in ("kind", "statement_kind"))
    chosen = (kinds == KINDS.index("duration")) & (lengths > _SHORTEST_BYTES) & (statements == -1)
    return list(zip(offsets[chosen].tolist(), lengths[chosen].tolist(), strict=True))


def _plans_of(text: bytes, offset: int, length: int) -> list[tuple[str, Plan]]:
    """The plan of a record; its lines begin with a tab, which is not part of them."""
    # It imports YAML, which few logs need.
    from citus_analysis.formats.explain._segments import segments

    lines = [line.removeprefix("\t").rstrip() for line in text.decode("utf-8", "replace").splitlines()]
    found = [(one.form, plan) for one in segments(lines) for plan in one.plans]
    for _, plan in found:
        plan.offset, plan.length = offset, length
    return found

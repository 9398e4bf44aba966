"""Plans that auto_explain logged, from the bytes of their records.

The scanner leaves the text of such a record in the log: it has a duration, and neither a statement nor a message. Only
where such records are long enough to hold a plan are the bytes of their chunk looked at a second time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

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
    """Offset and length of the records that may hold a plan."""
    import pyarrow.compute as pc

    long = pc.greater(rows.column("byte_length"), _SHORTEST_BYTES)
    if not pc.any(long).as_py():
        return []
    bare = [pc.is_null(rows.column(name)) for name in ("statement_kind", "statement_fingerprint", "message", "phase")]
    timed = pc.is_valid(rows.column("duration_us"))
    chosen = rows.select(["byte_offset", "byte_length"]).filter(_all([long, timed, *bare]))
    return list(zip(chosen.column(0).to_pylist(), chosen.column(1).to_pylist(), strict=True))


def _all(conditions: Sequence[pa.Array]) -> pa.Array:
    import pyarrow.compute as pc

    first, *others = conditions
    for other in others:
        first = pc.and_(first, other)
    return first


def _plans_of(text: bytes, offset: int, length: int) -> list[tuple[str, Plan]]:
    """The plan of a record; its lines begin with a tab, which is not part of them."""
    # It imports YAML, which few logs need.
    from citus_analysis.formats.explain._segments import segments

    lines = [line.removeprefix("\t").rstrip() for line in text.decode("utf-8", "replace").splitlines()]
    found = [(one.form, plan) for one in segments(lines) for plan in one.plans]
    for _, plan in found:
        plan.offset, plan.length = offset, length
    return found

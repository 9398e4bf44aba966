"""Records one by one, from their columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from citus_analysis.formats.serverlog.pglog.compiled.assembly import NO_NUMBER, RecordColumns
from citus_analysis.formats.serverlog.pglog.compiled.layout import RECORD_NUMBERS

#: Columns of :class:`RecordColumns` beside the numbers.
_CODED: Final = ("words", "severity", "statement_kind", "worker_host", "other_shards")


class Record(NamedTuple):
    """A record: the columns of :data:`RECORD_NUMBERS` (None if null), its codes, and its source."""

    pid: int | None
    byte_offset: int
    log_time: int | None
    session_line: int | None
    local_xid: int | None
    gpid: int | None
    duration_us: float | None
    shard_id: int | None
    task_us: int | None
    worker_port: int | None
    statement_fingerprint: int | None
    values_hash: int | None
    word: int
    severity: int
    statement_kind: int
    worker_host: int
    other_shards: int
    source: int


def records_in_order(
    columns: RecordColumns, sources: NDArray[np.uint32], order: NDArray[np.int64] | None
) -> Iterator[Record]:
    """The records in the given order, or as they are; `sources` has the source of each."""
    taken = slice(None) if order is None else order
    lists = [_numbers(columns.numbers[name], taken) for name in RECORD_NUMBERS]
    for name in _CODED:
        values: NDArray[np.generic] | None = getattr(columns, name)
        lists.append([NO_NUMBER] * len(lists[0]) if values is None else values[taken].tolist())
    lists.append(sources[taken].tolist())
    return map(Record._make, zip(*lists, strict=True))


def _numbers(array: pa.Array, taken: slice | NDArray[np.int64]) -> Sequence[object]:
    plain = array.view(pa.int64()) if pa.types.is_timestamp(array.type) else array
    numbers: list[object] = np.array(plain.to_pylist(), object)[taken].tolist()
    return numbers

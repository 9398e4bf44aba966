"""Logs of two servers, one after the other in one file: their processes would be taken for those of one server.

Parts of one log in another order, repeated parts, and a clock that was set back look alike at first: time goes back.
In two servers' logs, a process also wrote at times between those at which a process of the same number had written
before, which no single process does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from citus_analysis.core.array_types import Integers
from citus_analysis.core.arrow_arrays import filled
from citus_analysis.errors import FormatError
from citus_analysis.formats.serverlog.pglog._ordered_tables import ChunkTables

if TYPE_CHECKING:
    import pyarrow as pa

#: Records of several processes are not exactly in the order of their times.
_DISORDER_US: Final = 300_000
#: Records that are compared at most.
_MOST_RECORDS: Final = 5_000_000
#: A clock that is set back repeats a small part of the time that a log covers.
_LEAST_OVERLAP: Final = 0.4
_NONE: Final = np.iinfo(np.int64).min


def of_one_server(chunks: Iterable[ChunkTables], again: Callable[[], Iterable[ChunkTables]]) -> Iterator[ChunkTables]:
    """The chunks of a log as they are.

    Args:
        chunks: the chunks.
        again: gives them once more; called if time goes back.

    Raises:
        FormatError: the log is of two servers.
    """
    latest, known = _NONE, False
    for chunk in chunks:
        times = _times(chunk.rows)
        if not known and len(times):
            highest = np.maximum.accumulate(np.maximum(times, latest))
            if bool(((highest - times > _DISORDER_US) & (times != _NONE)).any()):
                _refuse_two_servers(again())
                known = True
            latest = int(highest[-1])
        yield chunk


def _times(rows: pa.RecordBatch) -> Integers:
    import pyarrow as pa

    column = rows.column("log_time")
    if column.null_count == len(column):
        return np.full(len(column), _NONE)
    return filled(column.view(pa.int64()), _NONE).astype(np.int64)


def _numbers(rows: pa.RecordBatch, name: str) -> Integers:
    column = rows.column(name)
    return np.full(len(column), -1) if column.null_count == len(column) else filled(column, -1).astype(np.int64)


def _refuse_two_servers(chunks: Iterable[ChunkTables]) -> None:
    parts: list[list[Integers]] = []
    rows = 0
    for chunk in chunks:
        one = chunk.rows
        parts.append([_times(one), *(_numbers(one, name) for name in ("pid", "session_line", "byte_offset"))])
        rows += len(one)
        if rows > _MOST_RECORDS:
            break
    time, pid, line, offset = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    kept = (time != _NONE) & (pid >= 0)
    time, pid, line, offset = (column[kept] for column in (time, pid, line, offset))
    if not len(time):
        return
    place = int(np.argmax(np.maximum.accumulate(time) - time))
    if not _are_of_two((time[:place], pid[:place], line[:place]), (time[place:], pid[place:], line[place:])):
        return
    raise FormatError(
        "holds the logs of two servers, one after the other: time goes back, and processes of the same number wrote at "
        "the same time before",
        place=f"byte {offset[place]}",
        way_out="give each server's log as a file of its own",
    )


def _are_of_two(before: tuple[Integers, ...], after: tuple[Integers, ...]) -> bool:
    """Whether two parts of a log, each of times, processes and numbers of lines, are of two servers."""
    if not len(before[0]) or not len(after[0]):
        return False
    spans = [int(part[0].max() - part[0].min()) for part in (before, after)]
    common = min(int(part[0].max()) for part in (before, after)) - max(int(part[0].min()) for part in (before, after))
    if common <= _LEAST_OVERLAP * min(spans):
        return False
    processes = np.intersect1d(before[1], after[1])
    between = copied = 0
    for process in processes[:1000]:
        (early, _, first), (late, _, second) = (tuple(c[part[1] == process] for c in part) for part in (before, after))
        inside = late[(late > early.min()) & (late < early.max())]
        copied += int(np.isin(inside, early).sum())
        # Numbers that go on rising are of one session, during which the clock was set back.
        goes_on = bool(first.max() > 0 and second.min() > first.max())
        between += 0 if goes_on else int((~np.isin(inside, early)).sum())
    return between > copied

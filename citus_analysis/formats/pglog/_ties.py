"""DETAIL, HINT, STATEMENT ... lines tied to the record they belong to.

PostgreSQL writes them right behind their record: the same process, the next numbers of its session. A detail
line is tied to the last record of its pid if the numbers between them have no gap; otherwise the record is
missing (a log that begins in mid-record), and the line stays untied. Where the prefix has no line number, the
last record of the process is taken.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from citus_analysis.formats.pglog._body import DETAIL_SEVERITIES
from citus_analysis.formats.pglog._views import Integers

__all__ = ["Ties"]

_NONE = -1


class Ties:
    """Ties the chunks of one source, in order; remembers each process's last line from chunk to chunk."""

    def __init__(self) -> None:
        self._pids: Integers = np.empty(0, np.int64)
        self._lines: Integers = np.empty(0, np.int64)
        self._targets: Integers = np.empty(0, np.int64)

    def tie(self, frame: pl.DataFrame) -> pl.Series:
        """`record_byte_offset` for the rows of the next chunk."""
        detail = frame.get_column("severity").is_in(list(DETAIL_SEVERITIES)).to_numpy()
        known = len(self._pids)
        pids = np.concatenate([self._pids, _integers(frame, "pid")])
        lines = np.concatenate([self._lines, _integers(frame, "session_line")])
        own = np.concatenate([self._targets, _integers(frame, "byte_offset")])
        details = np.concatenate([np.zeros(known, np.bool_), detail])
        order = np.argsort(pids, kind="stable")
        pid, line = pids[order], lines[order]
        place = np.arange(len(order))
        first = np.concatenate([[True], pid[1:] != pid[:-1]]) if len(order) else np.empty(0, np.bool_)
        record = np.maximum.accumulate(np.where(first | ~details[order], place, 0))
        gapless = (line == _NONE) | (line - line[record] == place - record)
        tied = np.where(gapless & ~details[order][record], own[order][record], _NONE)
        last = np.append(first[1:], True) if len(order) else first
        self._pids, self._lines, self._targets = pid[last], line[last], tied[last]
        targets = np.empty(len(order), np.int64)
        targets[order] = tied
        result = pl.Series("record_byte_offset", targets[known:])
        return pl.select(pl.when(pl.Series(detail) & (result != _NONE)).then(result)).to_series().alias(result.name)


def _integers(frame: pl.DataFrame, column: str) -> Integers:
    if column not in frame.columns:
        return np.full(frame.height, _NONE, np.int64)
    return frame.get_column(column).cast(pl.Int64).fill_null(_NONE).to_numpy()

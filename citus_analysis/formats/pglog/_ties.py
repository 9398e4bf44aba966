"""DETAIL, HINT, STATEMENT ... lines tied to the record they belong to.

PostgreSQL writes them right behind their record: the same process, the next numbers of its session. A detail
line is tied to the last record of its pid if the numbers between them have no gap; otherwise the record is
missing (a log that begins in mid-record), and the line stays untied. Where the prefix has no line number, the
last record of the process is taken.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from citus_analysis.formats.pglog._body import DETAIL_SEVERITIES
from citus_analysis.formats.pglog._native import TieTable
from citus_analysis.formats.pglog._views import Integers
from citus_analysis.schema import SEVERITIES, TABLES

__all__ = ["Ties"]

_NONE: Final = -1
_SEVERITY: Final = TABLES["log_events"]["severity"].dtype
#: Details are the last of the severities.
_FIRST_DETAIL: Final = SEVERITIES.index(DETAIL_SEVERITIES[0])


class Ties:
    """Ties the chunks of one source, in order; remembers each process's last record from chunk to chunk."""

    def __init__(self) -> None:
        self._processes = TieTable()

    def tie(self, frame: pl.DataFrame) -> pl.Series:
        """`record_byte_offset` for the rows of the next chunk."""
        severities = frame.get_column("severity").cast(_SEVERITY)
        details = (severities.to_physical() >= _FIRST_DETAIL).to_numpy()
        offsets = frame.get_column("byte_offset").to_numpy()
        tied = self._processes.tie(_integers(frame, "pid"), _integers(frame, "session_line"), details, offsets)
        targets = pa.Array.from_buffers(pa.int64(), len(tied), [_bits(tied != _NONE), pa.py_buffer(tied)])
        return pl.Series("record_byte_offset", targets)


def _bits(flags: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def _integers(frame: pl.DataFrame, column: str) -> Integers:
    if column not in frame.columns:
        return np.full(frame.height, _NONE, np.int64)
    return frame.get_column(column).cast(pl.Int64).fill_null(_NONE).to_numpy()

"""DETAIL, HINT, STATEMENT ... lines tied to the record they belong to.

PostgreSQL writes them right behind their record: the same process, the next numbers of its session. A detail
line is tied to the last record of its pid if the numbers between them have no gap; otherwise the record is
missing (a log that begins in mid-record), and the line stays untied. Where the prefix has no line number, the
last record of the process is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from citus_analysis.formats.pglog._body import DETAIL_SEVERITIES
from citus_analysis.formats.pglog._native import TieTable
from citus_analysis.formats.pglog._views import Bytes, Integers, series_of
from citus_analysis.schema import SEVERITIES

__all__ = ["Ties", "Tying"]

_NONE: Final = -1
#: Details are the last of the severities.
_FIRST_DETAIL: Final = SEVERITIES.index(DETAIL_SEVERITIES[0])


@dataclass(frozen=True)
class Tying:
    """What the details of a chunk are tied by, per row; -1 stands for what is unknown.

    Attributes:
        pids: the process.
        lines: number within the session.
        details: 1 for details.
        offsets: where the row begins in the source.
    """

    pids: Integers
    lines: Integers
    details: Bytes
    offsets: Integers

    @classmethod
    def of(cls, frame: pl.DataFrame) -> Self:
        """Read off the rows of a chunk."""
        details = (frame.get_column("severity").to_physical() >= _FIRST_DETAIL).to_numpy()
        return cls(
            _integers(frame, "pid"),
            _integers(frame, "session_line"),
            details.astype(np.uint8),
            frame.get_column("byte_offset").to_numpy(),
        )


class Ties:
    """Ties the chunks of one source, in order; remembers each process's last record from chunk to chunk."""

    def __init__(self) -> None:
        self._processes = TieTable()

    def tie(self, tying: Tying) -> pl.Series:
        """`record_byte_offset` for the rows of the next chunk."""
        tied = self._processes.tie(tying.pids, tying.lines, tying.details, tying.offsets)
        targets = pa.Array.from_buffers(pa.int64(), len(tied), [_bits(tied != _NONE), pa.py_buffer(tied)])
        return series_of("record_byte_offset", targets)


def _bits(flags: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def _integers(frame: pl.DataFrame, column: str) -> Integers:
    return frame.get_column(column).cast(pl.Int64).fill_null(_NONE).to_numpy()

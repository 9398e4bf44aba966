"""Detail lines and the records they belong to, tied by the compiled scanner."""

from __future__ import annotations

import ctypes
import weakref
from dataclasses import dataclass

import numpy as np

from citus_analysis.formats.serverlog.pglog.compiled.layout import structure
from citus_analysis.formats.serverlog.pglog.compiled.library import loaded_library
from citus_analysis.formats.serverlog.pglog.compiled.scan_output import Column

__all__ = ["Addresses", "TieTable", "TiedBy"]

_TIED_BY = structure("tied_by_t")

#: Addresses of a column's values and of its validity bits: the latter None if all rows are valid, both if none is.
Addresses = tuple[int | None, int | None]


@dataclass(frozen=True)
class TiedBy:
    """Addresses of the columns by which rows are tied.

    Attributes:
        rows: how many there are.
        pids: process (int32).
        lines: number within the session (int64).
        severities: number of the severity (uint8); every row has one.
        offsets: where each row begins (int64); every row has one.
    """

    rows: int
    pids: Addresses
    lines: Addresses
    severities: Addresses
    offsets: Addresses


class TieTable:
    """State of each process of a log, to tie detail lines to their records."""

    def __init__(self) -> None:
        library = loaded_library()
        self._handle = library.pglog_ties_new()
        if not self._handle:
            raise MemoryError
        weakref.finalize(self, library.pglog_ties_free, self._handle)

    def tie(self, by: TiedBy) -> Column:
        """For each row the offset of the record that it is a detail of.

        Raises:
            MemoryError: the memory does not suffice.
        """
        tied = Column.of(np.empty(by.rows, np.int64), by.rows)
        structure = _TIED_BY(*by.pids, *by.lines, by.severities[0], by.offsets[0])
        into = tied.values.ctypes.data, tied.valid.ctypes.data
        if loaded_library().pglog_tie(self._handle, by.rows, ctypes.byref(structure), *into):
            raise MemoryError
        tied.count = tied.marked()
        return tied

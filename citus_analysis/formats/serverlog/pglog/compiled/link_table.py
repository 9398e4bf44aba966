"""Detail lines linked to their records by the compiled scanner."""

from __future__ import annotations

import ctypes
import weakref
from dataclasses import dataclass

import numpy as np

from citus_analysis.formats.serverlog.pglog.compiled.layout import structure
from citus_analysis.formats.serverlog.pglog.compiled.library import loaded_library
from citus_analysis.formats.serverlog.pglog.compiled.scan_output import Column

_LINK_COLUMNS = structure("link_columns_t")

#: Addresses of a column's values and of its validity bits: the latter None if all rows are valid, both if none is.
Addresses = tuple[int | None, int | None]


@dataclass(frozen=True)
class LinkColumns:
    """Addresses of the columns by which rows are linked.

    Attributes:
        rows: number of rows.
        pids: process (int32).
        lines: number within the session (int64).
        severities: number of the severity (uint8); every row has one.
        offsets: offset of each row (int64); every row has one.
    """

    rows: int
    pids: Addresses
    lines: Addresses
    severities: Addresses
    offsets: Addresses


class LinkTable:
    """State of each process of a log, to link detail lines to their records."""

    def __init__(self) -> None:
        library = loaded_library()
        self._handle = library.pglog_links_new()
        if not self._handle:
            raise MemoryError
        weakref.finalize(self, library.pglog_links_free, self._handle)

    def link(self, by: LinkColumns) -> Column:
        """For each detail the offset of its record.

        Raises:
            MemoryError: the memory does not suffice.
        """
        linked = Column.of(np.empty(by.rows, np.int64), by.rows)
        structure = _LINK_COLUMNS(*by.pids, *by.lines, by.severities[0], by.offsets[0])
        into = linked.values.ctypes.data, linked.valid.ctypes.data
        if loaded_library().pglog_link(self._handle, by.rows, ctypes.byref(structure), *into):
            raise MemoryError
        linked.count = linked.marked()
        return linked

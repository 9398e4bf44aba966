"""Lines of details (DETAIL, HINT, STATEMENT ...) linked to their records.

PostgreSQL writes them directly after their record: by the same process, with the next numbers of its session. A
detail line is linked to the last record of its pid if the numbers between them have no gap; otherwise the record is
missing (the log begins within it), and the line remains unlinked. Without a line number in the prefix, the
last record of the process is used.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Final

import numpy as np
import pyarrow as pa

from citus_analysis.formats.pglog.compiled import load_scanner_library
from citus_analysis.formats.pglog.filled_arrays import number_array
from citus_analysis.formats.pglog.filled_columns import FilledColumn
from citus_analysis.formats.pglog.layout import build_ctypes_structure

_LINKED: Final = "record_byte_offset"
_DETAIL_COLUMNS = build_ctypes_structure("link_columns_t")


class DetailLinks:
    """Links the details in the chunks of one source, in order; keeps the last record of each process between chunks."""

    def __init__(self) -> None:
        library = load_scanner_library()
        self._handle = library.pglog_links_new()
        if not self._handle:
            raise MemoryError
        weakref.finalize(self, library.pglog_links_free, self._handle)

    def link(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of the next chunk with `record_byte_offset`.

        Raises:
            MemoryError: the memory does not suffice.
        """
        columns = [_drop_array_offset(rows.column(name)) for name in ("pid", "session_line", "byte_offset")]
        severities = _drop_array_offset(rows.column("severity").indices)
        pids, lines, (offsets, _) = map(_get_buffer_addresses, columns)
        by = _DETAIL_COLUMNS(*pids, *lines, _get_buffer_addresses(severities)[0], offsets)
        linked = FilledColumn.of(np.empty(rows.num_rows, np.int64), rows.num_rows)
        into = linked.values.ctypes.data, linked.valid.ctypes.data
        if load_scanner_library().pglog_link(self._handle, rows.num_rows, ctypes.byref(by), *into):
            raise MemoryError
        linked.count = linked.marked()
        place = rows.schema.get_field_index(_LINKED)
        return rows.set_column(place, _LINKED, number_array(linked, rows.num_rows))


def _drop_array_offset(values: pa.Array) -> pa.Array:
    """The values without an offset into their memory."""
    return pa.concat_arrays([values]) if values.offset else values


def _get_buffer_addresses(values: pa.Array) -> tuple[int | None, int | None]:
    """Addresses of a column's values and of its validity bits: the latter None if all are valid, both if none is."""
    if values.null_count == len(values):
        return None, None
    valid, numbers = values.buffers()
    return numbers.address, None if valid is None else valid.address

"""Lines of details (DETAIL, HINT, STATEMENT ...) linked to their records.

PostgreSQL writes them directly after their record: by the same process, with the next numbers of its session. A
detail line is linked to the last record of its pid if the numbers between them have no gap; otherwise the record is
missing (the log begins within it), and the line remains unlinked. Without a line number in the prefix, the
last record of the process is used.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from citus_analysis.formats.serverlog.pglog.compiled.arrow_columns import number_array
from citus_analysis.formats.serverlog.pglog.compiled.link_table import Addresses, LinkColumns, LinkTable

_LINKED: Final = "record_byte_offset"


class DetailLinks:
    """Links the details in the chunks of one source, in order; keeps the last record of each process between chunks."""

    def __init__(self) -> None:
        self._processes = LinkTable()

    def link(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of the next chunk with `record_byte_offset`."""
        columns = {name: _from_start(rows.column(name)) for name in ("pid", "session_line", "byte_offset")}
        severities = _from_start(rows.column("severity").indices)
        by = LinkColumns(
            rows=rows.num_rows,
            pids=_addresses(columns["pid"]),
            lines=_addresses(columns["session_line"]),
            severities=_addresses(severities),
            offsets=_addresses(columns["byte_offset"]),
        )
        linked = number_array(self._processes.link(by), rows.num_rows)
        return rows.set_column(rows.schema.get_field_index(_LINKED), _LINKED, linked)


def _from_start(values: pa.Array) -> pa.Array:
    """The values without an offset into their memory."""
    return pa.concat_arrays([values]) if values.offset else values


def _addresses(values: pa.Array) -> Addresses:
    if values.null_count == len(values):
        return None, None
    valid, numbers = values.buffers()
    return numbers.address, None if valid is None else valid.address

"""Detail lines linked to their records: :mod:`..compiled.detail_links` in Python."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from citus_analysis.formats.serverlog.pglog._records import FIRST_DETAIL

_LINKED: Final = "record_byte_offset"


class PythonLinks:
    """Links the details in the chunks of one source, in order; keeps the last record of each process between chunks."""

    def __init__(self) -> None:
        #: Process -> offset and number of its last record, and the number of details since.
        self._last: dict[int | None, tuple[int, int | None, int]] = {}

    def link(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of the next chunk with `record_byte_offset`."""
        pids, lines, offsets = (rows.column(name).to_pylist() for name in ("pid", "session_line", "byte_offset"))
        severities = rows.column("severity").indices.to_pylist()
        linked = [
            self._next(pid, line, None if severity >= FIRST_DETAIL else offset)
            for pid, line, offset, severity in zip(pids, lines, offsets, severities, strict=True)
        ]
        return rows.set_column(rows.schema.get_field_index(_LINKED), _LINKED, pa.array(linked, pa.int64()))

    def _next(self, pid: int | None, line: int | None, record: int | None) -> int | None:
        """The link for the next row of a process; `record` is the row's offset, or None if the row is a detail."""
        if record is not None:
            self._last[pid] = record, line, 0
            return None
        if pid not in self._last:
            return None
        target, record_line, seen = self._last[pid]
        self._last[pid] = target, record_line, seen + 1
        # In syslog, a record and its details have the same number.
        gapless = line is None or line == record_line or line - (-1 if record_line is None else record_line) == seen + 1
        return target if gapless else None

"""Records of a chunk of csvlog or jsonlog, read by compiled code if all its rows have the form that servers write."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from citus_analysis.formats.serverlog.pglog._records import Scanned
from citus_analysis.formats.serverlog.pglog.compiled import library as native
from citus_analysis.formats.serverlog.pglog.compiled.arrow_columns import number_array
from citus_analysis.formats.serverlog.pglog.compiled.byte_views import valid_utf8
from citus_analysis.formats.serverlog.pglog.compiled.scan_output import Column, Output
from citus_analysis.formats.serverlog.pglog.compiled.scanning import Memory, arrays_of, batch_of, with_spare_bytes
from citus_analysis.schema import SEVERITIES

_FIRST_DETAIL: Final = SEVERITIES.index("DETAIL")


def scan_rows_fast(data: bytes, offset: int, form: str, memory: Memory) -> Scanned | None:
    """The records of a chunk, in columns in the given memory.

    Args:
        data: whole rows.
        offset: their offset in the source.
        form: their form, one of :data:`~citus_analysis.formats.serverlog.pglog.compiled.layout.ROW_FORMS`.
        memory: memory of the log.

    Returns:
        None if a server does not write some row in this form; the reader in Python defines the meaning of such rows.
    """
    given = np.frombuffer(data, np.uint8)
    facts = native.text_facts(given)
    if facts.zeros or not len(given):
        return None
    buffer = with_spare_bytes(given if facts.ascii else np.frombuffer(valid_utf8(data), np.uint8), memory.texts)
    out = native.scan_rows(buffer, len(given), facts.lines, offset=offset, form=form, buffers=memory.columns)
    if out is None:
        return None
    arrays = arrays_of(buffer, out)
    arrays["record_byte_offset"] = _tied(out)
    return Scanned(batch_of(arrays), [], out.record_bytes, 0)


def _tied(out: Output) -> pa.Array:
    """The offset of the record for each detail; both have the same offset."""
    severities = out.columns["severity"].values[: out.rows].view(np.uint8)
    details = severities >= _FIRST_DETAIL
    valid = np.packbits(details, bitorder="little")
    offsets = Column(out.columns["byte_offset"].values[: out.rows], valid, int(np.count_nonzero(details)))
    return number_array(offsets, out.rows)

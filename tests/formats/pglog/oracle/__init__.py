"""The reader of server logs a second time, in Python: it defines what the compiled code must give."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from citus_analysis.formats import pgcsvlog, pgjsonlog, pglog
from citus_analysis.formats.pglog import chunking, compiled, detection, tables
from citus_analysis.formats.pglog.prefix import Prefix
from citus_analysis.formats.pglog.records import CONTINUED, RECORD, Chunk, ScannedChunk
from citus_analysis.formats.pglog.regular_expressions import find_openers
from citus_analysis.spans import executions
from tests.formats.pglog.oracle.assembly import PythonAssembly
from tests.formats.pglog.oracle.records import PythonLinks, add_body, find_last_between_messages, scan

__all__ = ["PythonAssembly", "PythonLinks", "use_oracle"]


def use_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read server logs, and assemble their records, by this package instead of the compiled code."""
    translated = pglog.choose_scanner

    def choose_scanner(prefix: Prefix) -> Callable[[Chunk], ScannedChunk]:
        return translated(prefix) if prefix.language else partial(scan, prefix=prefix)

    monkeypatch.setattr(pglog, "choose_scanner", choose_scanner)
    monkeypatch.setattr(detection, "count_heads", _count_heads)
    monkeypatch.setattr(compiled, "find_last_record", _find_last_record)
    for module in (chunking, tables):
        monkeypatch.setattr(module, "DetailLinks", PythonLinks)
    for rows in (pgcsvlog, pgjsonlog):
        monkeypatch.setattr(rows, "scan_rows_fast", lambda *_: None)
        monkeypatch.setattr(rows, "add_body_fast", add_body)
    monkeypatch.setattr(executions, "Assembly", PythonAssembly)


def _count_heads(data: bytes, prefix: Prefix) -> int:
    return int(np.count_nonzero(find_openers(data, prefix).roles == RECORD)) if data else 0


def _find_last_record(data: bytes, size: int, prefix: Prefix) -> int | None:
    if prefix.syslog:
        return find_last_between_messages(data[:size], prefix)
    lines = find_openers(data[:size], prefix)
    openers = np.flatnonzero(lines.roles != CONTINUED)
    return int(lines.starts[openers[-1]]) if len(openers) and lines.roles[openers[-1]] == RECORD else None

"""The runner's memory: one line per step, on disk before the next step begins.

The journal is append-only JSON lines, flushed and fsynced line by line. A line cut off by a crash is ignored
when the journal is read again, and overwritten by the next append.

Example:
    >>> import tempfile, pathlib
    >>> journal = Journal(pathlib.Path(tempfile.mkdtemp()) / "journal.jsonl")
    >>> journal.append("run-1", "prepared", attempt=1)
    >>> [entry.state for entry in journal.entries()]
    ['prepared']
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

__all__ = ["STATES", "Entry", "Journal"]

#: States of a run, in order. A run is done when it is `verified` or `failed`.
STATES: Final = ("prepared", "loaded", "monitored", "measured", "publishing", "collected", "verified", "failed")


@dataclass(frozen=True)
class Entry:
    """One line of the journal."""

    time: str
    subject: str
    state: str
    detail: dict[str, Any]


class Journal:
    """The journal in one file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, subject: str, state: str, **detail: object) -> None:
        """Write one line; it is on disk when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"time": datetime.now(UTC).isoformat(), "subject": subject, "state": state, "detail": detail})
        with self.path.open("ab+") as file:
            file.truncate(self._whole_bytes())
            file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def entries(self) -> Iterator[Entry]:
        """All whole lines, in order."""
        if not self.path.exists():
            return
        for line in self.path.read_bytes()[: self._whole_bytes()].splitlines():
            yield Entry(**json.loads(line))

    def last(self, subject: str) -> Entry | None:
        """The newest entry of a subject."""
        return next((entry for entry in reversed(list(self.entries())) if entry.subject == subject), None)

    def _whole_bytes(self) -> int:
        """Bytes up to and with the last line end; what follows was cut off by a crash."""
        if not self.path.exists():
            return 0
        return self.path.read_bytes().rfind(b"\n") + 1

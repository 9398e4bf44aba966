"""The runner's memory: one line per step, on disk before the next step begins.

The journal is append-only JSON lines, flushed and fsynced line by line. A line cut off by a crash is ignored
when the journal is read again, and overwritten by the next append. Secrets do not get into it.

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
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from citus_analysis.formats import redact

__all__ = ["STATES", "Entry", "Journal", "without_secrets"]

#: States of a run, in order. A run is done when it is `verified` or `failed`.
STATES: Final = ("prepared", "loaded", "monitored", "measured", "publishing", "collected", "verified", "failed")


@dataclass(frozen=True)
class Entry:
    """One line of the journal."""

    time: str
    subject: str
    state: str
    detail: dict[str, Any]


def without_secrets(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Nested mappings and lists with the values of secrets hidden, by the name that a value has or by what it holds.

    Example:
        >>> without_secrets({"properties": {"db.passwd": "s3cret", "fieldcount": 10}, "java_options": ["-Dtoken=abc"]})
        {'properties': {'db.passwd': '***', 'fieldcount': 10}, 'java_options': ['-Dtoken=***']}
    """
    if isinstance(value, Mapping):
        return {name: _hidden(str(name)) or without_secrets(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(inner) for inner in value]
    return redact(value) if isinstance(value, str) else value


def _hidden(name: str) -> str | None:
    """What stands for a value of this name where it is a secret's name."""
    probe = f"{name}=probe"
    shown = redact(probe)
    return None if shown == probe else shown.removeprefix(f"{name}=")


class Journal:
    """The journal in one file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, subject: str, state: str, **detail: object) -> None:
        """Write one line; it is on disk when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        entry = Entry(datetime.now(UTC).isoformat(), subject, state, without_secrets(detail))
        line = json.dumps(asdict(entry))
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

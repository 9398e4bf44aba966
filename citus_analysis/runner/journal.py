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
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from citus_analysis.formats import redact
from citus_analysis.output_files import naming

__all__ = ["STATES", "Entry", "Journal", "without_secrets"]

#: States of a run, in order. A run is done when it is `verified`, `degraded` or `failed`.
STATES: Final = (
    "begun",
    "prepared",
    "loaded",
    "monitored",
    "measured",
    "publishing",
    "collected",
    "verified",
    "degraded",
    "failed",
)


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
    """The journal in one file, kept in memory: every byte of the file is read once.

    Another process may append meanwhile, and a file that became shorter is read anew.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: list[Entry] = []
        self._by_subject: dict[str, list[Entry]] = defaultdict(list)
        self._read_bytes = 0

    def append(self, subject: str, state: str, **detail: object) -> None:
        """Write one line; it is on disk when this returns.

        Raises:
            OSError: it cannot be written; the error names the file.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._catch_up()
        line = json.dumps(asdict(Entry(datetime.now(UTC).isoformat(), subject, state, without_secrets(detail))))
        with naming(self.path), self.path.open("ab") as file:
            file.truncate(self._read_bytes)  # what follows was cut off by a crash
            file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._catch_up()

    def entries(self) -> Iterator[Entry]:
        """All whole lines, in order."""
        self._catch_up()
        return iter(tuple(self._entries))

    def of(self, subject: str) -> Sequence[Entry]:
        """The entries of a subject, in order."""
        self._catch_up()
        return tuple(self._by_subject.get(subject, ()))

    def last(self, subject: str) -> Entry | None:
        """The newest entry of a subject."""
        return next(reversed(self.of(subject)), None)

    def _catch_up(self) -> None:
        """Read the whole lines that were added since the last look."""
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            size = 0
        if size < self._read_bytes:
            self._entries, self._read_bytes = [], 0
            self._by_subject.clear()
        if size == self._read_bytes:
            return
        with self.path.open("rb") as file:
            file.seek(self._read_bytes)
            added = file.read()
        whole = added[: added.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        for line in whole.splitlines():
            entry = Entry(**json.loads(line))
            self._entries.append(entry)
            self._by_subject[entry.subject].append(entry)

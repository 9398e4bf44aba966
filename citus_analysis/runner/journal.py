"""The runner's memory: one line per step, on disk before the next step begins.

The journal is an append-only file of JSON lines, flushed and fsynced line by line. A line cut off by a crash is ignored
when the journal is read again, and overwritten by the next append. Secrets are redacted.

Every byte is read once, regardless of the number of appended lines. Compared with a database, lines can be read with
any tool while an experiment runs, a folder on a network file system needs no locks, and a crash damages one line only.

Example:
    >>> import tempfile, pathlib
    >>> journal = Journal(pathlib.Path(tempfile.mkdtemp()) / "journal.jsonl")
    >>> _ = journal.append("run-1", "prepared", attempt=1)
    >>> [entry.state for entry in journal.entries()]
    ['prepared']
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict, cast

from citus_analysis.core.output_files import add_path_to_errors
from citus_analysis.redaction import redact_values
from citus_analysis.texts.documents import parse_json


class Seen(TypedDict, total=False):
    """Observations of a run's nodes, as stored in the journal and `config.yml`.

    Attributes:
        queried_nodes: names of the nodes that the clients were to query.
        share_by_node: node -> share of the statements or sessions.
        share_of: `statements` or `sessions`.
        sessions_by_node: node -> sessions of clients.
        statements_by_node: node -> statements on the benchmark's table.
        activity_snapshots: node -> cost of the snapshots of sessions.
        skipped: missing recordings, with the reasons.
    """

    queried_nodes: list[str]
    share_by_node: dict[str, float]
    share_of: str
    sessions_by_node: dict[str, int]
    statements_by_node: dict[str, int]
    activity_snapshots: dict[str, str]
    skipped: list[str]


class EntryDetail(TypedDict, total=False):
    """The details of a line besides its state.

    Attributes:
        throughput_ops_s: throughput of a verified run.
        reason: reason why a run failed or is degraded.
        window: begin and end of the time in which a run's main clients ran.
        seen: observations of a run's nodes.
        notes: remarks on the whole experiment.
        files: places in the tree that are about to be published.
        more: resource -> requested iterations beyond those of the experiment file.
        facts: facts of the environment.
        document: the experiment.
        growth: growth of the table, as its fields.
        pid: process id of a started process.
        since: start time of this process, seconds since 1970.
    """

    throughput_ops_s: float
    reason: str
    window: list[str | None]
    seen: Seen
    notes: list[str]
    files: list[str]
    more: dict[str, int]
    facts: dict[str, str]
    document: dict[str, object]
    growth: dict[str, object]
    pid: int
    since: float


@dataclass(frozen=True)
class JournalEntry:
    """One line of the journal.

    States of a run, in order: begun, prepared, loaded, monitored, measured, publishing, collected, and then verified,
    degraded or failed.
    """

    time: str
    subject: str
    state: str
    detail: EntryDetail


class Journal:
    """The journal in one file, kept in memory: every byte of the file is read once.

    Another process may append at the same time, and a file that became shorter is read again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: list[JournalEntry] = []
        self._by_subject: dict[str, list[JournalEntry]] = defaultdict(list)
        self._read_bytes = 0

    def append(self, subject: str, state: str, **detail: object) -> JournalEntry:
        """Write one line; it is on disk when this returns it.

        Raises:
            OSError: it cannot be written; the error names the file.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._catch_up()
        shown = cast("EntryDetail", redact_values(detail))
        entry = JournalEntry(datetime.now(UTC).isoformat(), subject, state, shown)
        with add_path_to_errors(self.path), self.path.open("ab") as file:
            file.truncate(self._read_bytes)  # the rest is a line that a crash cut off
            file.write(json.dumps(asdict(entry)).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._catch_up()
        return entry

    def entries(self) -> Iterator[JournalEntry]:
        """All whole lines, in order."""
        self._catch_up()
        return iter(tuple(self._entries))

    def of(self, subject: str) -> Sequence[JournalEntry]:
        """The entries of a subject, in order."""
        self._catch_up()
        return tuple(self._by_subject.get(subject, ()))

    def last(self, subject: str) -> JournalEntry | None:
        """The newest entry of a subject."""
        return next(reversed(self.of(subject)), None)

    def _catch_up(self) -> None:
        """Read the whole lines that were added since the last call."""
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
            entry = JournalEntry(**parse_json(line))
            self._entries.append(entry)
            self._by_subject[entry.subject].append(entry)

"""Small sources of one format, read several at once where the format can join them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from threading import Event
from typing import Final

from citus_analysis.dataset.ingesting.read_source import MeasuredContent, Outcome
from citus_analysis.dataset.ingesting.task import Task
from citus_analysis.dataset.ingesting.work import read_task
from citus_analysis.dataset.storage.store import Store
from citus_analysis.formats import Content, Hints, Parsed
from citus_analysis.formats.api.joinable import JOINED_BYTES, JoinableFormat, parse_joined
from citus_analysis.texts.urls import is_url

__all__ = ["grouped_tasks", "read_tasks"]

#: Sources that are handed to a process at once: threads wait for the interpreter before they can hand over more.
_AT_ONCE: Final = 6
#: Sources that are joined, and their bytes: more would save little, and leave the last process alone for longer.
_JOINED: Final = 64
_JOINED_BYTES: Final = 2**18


@dataclass(frozen=True)
class _Ready:
    """A parser of a source whose rows are there."""

    name: str
    piece: Parsed

    def parse(self, content: Content, _hints: Hints) -> Iterator[Parsed]:
        """The rows."""
        if isinstance(content, MeasuredContent):
            # All of its bytes are accounted for, so that it need not be read again to know how many there are.
            content.lengths.append(self.piece.parsed_bytes + self.piece.noise_bytes)
        yield self.piece


def grouped_tasks(tasks: Iterable[Task]) -> list[list[Task]]:
    """Tasks in groups for :func:`read_tasks`: each of one format, and more of them where they can be joined.

    Example:
        >>> grouped_tasks([])
        []
    """
    groups: list[list[Task]] = []
    for (_, joined), alike in groupby(sorted(tasks, key=_order), key=_order):
        most, most_bytes = (_JOINED, _JOINED_BYTES) if joined else (_AT_ONCE, sys.maxsize)
        groups += _groups(alike, most, most_bytes)
    return groups


def _groups(tasks: Iterable[Task], most: int, most_bytes: int) -> Iterator[list[Task]]:
    group: list[Task] = []
    size = 0
    for task in tasks:
        if group and (len(group) >= most or size + task.bytes > most_bytes):
            yield group
            group, size = [], 0
        group.append(task)
        size += task.bytes
    if group:
        yield group


def _order(task: Task) -> tuple[str, bool]:
    # Files of one format in a row: polars keeps the last few regular expressions that it compiled.
    return task.file.format.name if task.file.format else "", _may_be_joined(task)


def _may_be_joined(task: Task) -> bool:
    small = task.bytes <= JOINED_BYTES and not task.file.delivery.is_undone
    return small and isinstance(task.file.format, JoinableFormat) and not is_url(task.file.recorded)


def read_tasks(store: Store, tasks: Sequence[Task], stop: Event | None = None) -> list[Outcome]:
    """Read sources of one format into staged parts.

    Args:
        store: where the parts go.
        tasks: a group of :func:`grouped_tasks`.
        stop: set when the results are no longer needed.
    """
    format_ = tasks[0].file.format
    pieces: Sequence[Parsed | None] = [None] * len(tasks)
    if isinstance(format_, JoinableFormat) and all(map(_may_be_joined, tasks)):
        files = [task.file for task in tasks]
        pieces = parse_joined(format_, [(Content(file.path), Hints(file.path.name, file.options)) for file in files])
    return [
        read_task(
            store, task, stop=stop, parser=None if piece is None or format_ is None else _Ready(format_.name, piece)
        )
        for task, piece in zip(tasks, pieces, strict=True)
    ]

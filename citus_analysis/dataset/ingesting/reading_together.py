"""Small sources of one format, in groups that are handed to a process at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from typing import Final

from citus_analysis.dataset.ingesting.read_source import Outcome
from citus_analysis.dataset.ingesting.task import Task
from citus_analysis.dataset.ingesting.work import read_task
from citus_analysis.dataset.storage.store import Store

#: Handing over a source takes as long as reading a small one.
_AT_ONCE: Final = 6


def grouped_tasks(tasks: Iterable[Task]) -> list[list[Task]]:
    """Tasks in groups for :func:`read_tasks`, each of one format: polars keeps the last regular expressions compiled.

    Example:
        >>> grouped_tasks([])
        []
    """
    groups: list[list[Task]] = []
    for _, alike in groupby(sorted(tasks, key=_format), key=_format):
        groups += iter(lambda: list(islice(alike, _AT_ONCE)), [])  # noqa: B023 - used up before the next one
    return groups


def _format(task: Task) -> str:
    return task.file.format.name if task.file.format else ""


def read_tasks(store: Store, tasks: Sequence[Task]) -> list[Outcome]:
    """Read sources into staged parts.

    Args:
        store: where the parts go.
        tasks: a group of :func:`grouped_tasks`.
    """
    return [read_task(store, task) for task in tasks]

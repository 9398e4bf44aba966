"""The tasks of an ingest: functions of what they are given, so that any process can run them, and run them again.

The same functions run in threads of this process and on the workers of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import Event

from citus_analysis.dataset.discover.resource_folders import Identified
from citus_analysis.dataset.discover.url_sources import local_copy
from citus_analysis.dataset.ingesting.read_source import MeasuredContent, Outcome, read_source
from citus_analysis.dataset.ingesting.survey import Surveyed, survey
from citus_analysis.dataset.ingesting.task import Task
from citus_analysis.dataset.storage.parts import PartWriter
from citus_analysis.dataset.storage.store import Store
from citus_analysis.formats import Hints, format_named

__all__ = ["read_task", "survey_task"]


def _unnoticed(_bytes: int) -> None:
    """Progress is counted where the task is handed out."""


def survey_task(forced: str | None, identified: Identified) -> Surveyed:
    """Hash and recognise one file.

    Args:
        forced: name of the format to treat it as.
        identified: the file.
    """
    return survey(identified, None if forced is None else format_named(forced), {})


def read_task(
    store: Store,
    task: Task,
    threads: int = 1,
    on_bytes: Callable[[int], None] = _unnoticed,
    stop: Event | None = None,
) -> Outcome:
    """Read one source into staged parts.

    Args:
        store: where the parts go.
        task: the source.
        threads: threads that read, and as many that write.
        on_bytes: called with the number of bytes that were read.
        stop: set when the result is no longer needed.
    """
    item = task.item
    assert item.format is not None  # noqa: S101 - a task without one is never made
    hints = Hints(item.identified.found.path.name, item.options, threads)
    stem = f"{item.source_id}-{task.key[:8]}"
    with (
        local_copy(item.identified.found) as path,
        store.workspace() as folder,
        PartWriter(folder, item.identity.resource, stem, threads) as writer,
    ):
        tag, stopped = task.tagger.tag, stop or Event()
        outcome = read_source(MeasuredContent(path), item.format, hints, writer, tag, on_bytes, stopped)
        return replace(outcome, staged=store.sent(outcome.staged))

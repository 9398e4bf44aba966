"""The tasks of an ingest: functions of what they are given, so that any process can run them, and run them again.

The same functions run in threads of this process and on the workers of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import Event

from citus_analysis.dataset.discover.source_file import SourceFile
from citus_analysis.dataset.discover.url_sources import local_copy
from citus_analysis.dataset.ingesting.read_source import MeasuredContent, Outcome, read_source
from citus_analysis.dataset.ingesting.recognise import recognise
from citus_analysis.dataset.ingesting.task import Task
from citus_analysis.dataset.storage.parts import PartWriter
from citus_analysis.dataset.storage.store import Store
from citus_analysis.formats import Hints, format_named

__all__ = ["read_task", "recognise_task"]


def _unnoticed(_bytes: int) -> None:
    """Progress is counted where the task is handed out."""


def recognise_task(forced: str | None, file: SourceFile) -> SourceFile:
    """Hash and recognise one file.

    Args:
        forced: name of the format to treat it as.
        file: an identified file.
    """
    return recognise(file, None if forced is None else format_named(forced), {})


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
    file = task.file
    assert file.format is not None  # noqa: S101 - a task without one is never made
    hints = Hints(file.path.name, file.options, threads)
    stem = f"{file.source_id}-{task.key[:8]}"
    with (
        local_copy(file) as path,
        store.workspace() as folder,
        PartWriter(folder, file.identity.resource, stem, threads) as writer,
    ):
        tag, stopped = task.tagger.tag, stop or Event()
        outcome = read_source(MeasuredContent(path), file.format, hints, writer, tag, on_bytes, stopped)
        return replace(outcome, staged=store.sent(outcome.staged))

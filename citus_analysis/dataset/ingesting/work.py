"""The tasks of an ingest: functions of their arguments alone, so that any process can run them, and run them again.

The same functions run in threads of this process and on the workers of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Event
from typing import Final

from citus_analysis.dataset.discover.source_file import SourceFile
from citus_analysis.dataset.discover.url_sources import local_copy
from citus_analysis.dataset.ingesting.read_source import Outcome, compression_of, delivered_content, read_source
from citus_analysis.dataset.ingesting.recognise import recognise
from citus_analysis.dataset.ingesting.task import Task
from citus_analysis.dataset.storage.parts import PartWriter
from citus_analysis.dataset.storage.store import Store
from citus_analysis.formats import Content, Hints, format_named
from citus_analysis.formats.api.delivered import Parser


def _unnoticed(_bytes: int) -> None:
    """Progress is counted where the task is handed out."""


def recognise_task(forced: str | None, stretch_bytes: int | None, file: SourceFile) -> list[SourceFile]:
    """Hash one file, recognise the sources in it, and find where they can be cut.

    Args:
        forced: name of the format to treat it as.
        stretch_bytes: length of the stretches that it is cut into; None: it is not.
        file: an identified file.
    """
    return recognise(file, None if forced is None else format_named(forced), {}, stretch_bytes)


@dataclass(frozen=True)
class Span:
    """Bytes of a source.

    Attributes:
        begin: offset of the first.
        end: offset after the last; None: the end of the source.
    """

    begin: int
    end: int | None

    @property
    def length(self) -> int:
        """Number of bytes; 0 where the end is not stated."""
        return 0 if self.end is None else self.end - self.begin


WHOLE: Final = Span(0, None)


def stem_of(task: Task) -> str:
    """The beginning of the names of a source's files in its present state."""
    return f"{task.file.source_id}-{task.key[:8]}"


def read_task(
    store: Store,
    task: Task,
    threads: int = 1,
    on_bytes: Callable[[int], None] = _unnoticed,
    stop: Event | None = None,
    *,
    parser: Parser | None = None,
    span: Span = WHOLE,
    name: str = "",
) -> Outcome:
    """Read one source, or a stretch of it, into staged parts.

    Args:
        store: where the parts go.
        task: the source.
        threads: threads that read, and as many that write.
        on_bytes: called with the number of bytes that were read.
        stop: set when the result is no longer needed.
        parser: reads it; default: its format.
        span: the stretch.
        name: distinguishes the files of a stretch from those of others.
    """
    file = task.file
    hints = Hints(file.path.name, file.options, threads)
    with (
        local_copy(file, span.begin, span.end) as path,
        store.workspace() as folder,
        PartWriter(folder, file.identity.resource, stem_of(task) + name, threads) as writer,
    ):
        tag, stopped = task.tagger.tagged, stop or Event()
        delivered = delivered_content(path, file.delivery, parser or task.format, span.begin, span.end)
        with delivered as (content, reader):
            outcome = read_source(content, reader, hints, writer, tag, on_bytes, stopped)
            facts = {} if outcome.problem or span.begin else task.format.source_facts(content, hints)
        if file.delivery.is_undone:
            outcome = replace(outcome, compression=compression_of(Content(path)))
        return replace(outcome, staged=store.sent(outcome.staged), facts=facts)

"""The tasks of an ingest: functions of their arguments alone, so that any process can run them, and run them again.

The same functions run in threads of this process and on the workers of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from threading import Event

from citus_analysis.dataset.objects import Store
from citus_analysis.dataset.parts import PartWriter
from citus_analysis.dataset.read_source import (
    ReadOutcome,
    Task,
    detect_compression,
    open_delivered_content,
    read_source,
)
from citus_analysis.dataset.recognise import recognise
from citus_analysis.dataset.source_files import SourceFile
from citus_analysis.dataset.walk import open_local_copy
from citus_analysis.formats import Content, Hints, format_named
from citus_analysis.formats.parsing.delivered import Parser


def _ignore_progress(_bytes: int) -> None:
    """Progress is counted where the task is handed out."""


def recognise_task(forced: str | None, split_bytes: int | None, file: SourceFile) -> list[SourceFile]:
    """Hash one file, recognise the sources in it, and find where they can be cut.

    Args:
        forced: name of the format to treat it as.
        split_bytes: length of the splits that it is cut into; None: it is not.
        file: an identified file.
    """
    return recognise(file, None if forced is None else format_named(forced), {}, split_bytes)


def make_file_stem(task: Task) -> str:
    """The beginning of the names of a source's files in its present state."""
    return f"{task.file.source_id}-{task.key[:8]}"


def read_task(
    store: Store,
    task: Task,
    threads: int = 1,
    on_bytes: Callable[[int], None] = _ignore_progress,
    stop: Event | None = None,
    *,
    parser: Parser | None = None,
    begin: int = 0,
    end: int | None = None,
    name: str = "",
) -> ReadOutcome:
    """Read one source, or a split of it, into staged parts.

    Args:
        store: where the parts go.
        task: the source.
        threads: threads that read, and as many that write.
        on_bytes: called with the number of bytes that were read.
        stop: set when the result is no longer needed.
        parser: reads it; default: its format.
        begin: offset of the first byte of the split.
        end: offset after its last; None: the end of the source.
        name: distinguishes the files of a split from those of others.
    """
    file = task.file
    changed = None if file.archive is not None or file.origin is not None else file.mtime_ns / 1e9
    file_time = None if changed is None else datetime.fromtimestamp(changed, UTC).isoformat(" ", "microseconds")
    hints = Hints(file.path.name, file.options, threads, file_time)
    with (
        open_local_copy(file, begin, end) as path,
        store.workspace() as folder,
        PartWriter(folder, file.identity.resource, make_file_stem(task) + name, threads) as writer,
    ):
        delivered = open_delivered_content(path, file.delivery, parser or task.format, begin, end)
        with delivered as (content, reader):
            outcome = read_source(content, reader, hints, writer, task.tagger.tag_piece, on_bytes, stop or Event())
            if not outcome.problem and not begin:
                outcome.facts = task.format.source_facts(content, hints)
        if file.delivery.is_undone:
            outcome.compression = detect_compression(Content(path))
        outcome.staged = store.sent(outcome.staged)
        return outcome

"""Command: citus-analysis ingest."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from citus_analysis.cli.completed_values import PLACE, SOURCE
from citus_analysis.cli.output import key_values, print_json, printable
from citus_analysis.cli.progress import terminal_bars
from citus_analysis.dataset.discover.identity import FACTS
from citus_analysis.formats import BUILT_IN_OPTIONS

if TYPE_CHECKING:
    from citus_analysis.dataset import Progress
    from citus_analysis.dataset.ingesting.summary import ProgressCallback

__all__ = ["ARROW_MEMORY", "command"]

#: Arrow's source of memory. Its own allocator takes huge pages, which the system clears entirely even if little of them
#: is used; for a log of some hundred MB this costs a tenth of the time and of the memory.
ARROW_MEMORY: Final = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
#: Heaps of the C library; each keeps its freed memory, so that one per thread would occupy a quarter more memory.
_HEAPS: Final = 2
#: The parameter of mallopt for the number of heaps (`M_ARENA_MAX` of malloc.h).
_MOST_HEAPS: Final = -8
_STAGES = {"scan": "looking", "read": "reading", "derive": "deriving"}


def _help() -> str:
    facts, options = (", ".join(names) for names in (FACTS, [option.name for option in BUILT_IN_OPTIONS]))
    return f"""Read raw files into a dataset of Parquet tables.

    Files that have not changed since the last ingest are not read again. Facts for --meta: {facts}; options of formats:
    {options}.
    """


@click.command("ingest", help=_help())
@click.argument("sources", metavar="SRC...", nargs=-1, required=True, type=SOURCE)
@click.option("--out", required=True, type=PLACE, metavar="DIR|URL", help="The dataset: a folder, or s3://...")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Threads; default: all cores.")
@click.option("--cluster", metavar="ADDRESS", help="Read by Dask: local:N processes, or a scheduler's tcp://HOST:PORT.")
@click.option("--format", "format_", metavar="F", help="Read every file as this format instead of recognising it.")
@click.option("--meta", multiple=True, callback=key_values, metavar="K=V", help="A fact about all files; repeatable.")
@click.option("--strict", is_flag=True, help="Leave the dataset unchanged if any line is rejected (exit code 3).")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON document.")
def command(
    sources: tuple[Path | str, ...],
    out: Path | str,
    jobs: int | None,
    cluster: str | None,
    format_: str | None,
    meta: dict[str, str],
    strict: bool,
    as_json: bool,
) -> int:
    """Read raw files into a dataset."""
    # Both are set before the import of Arrow and polars; values set by the user have priority.
    threads = jobs or len(os.sched_getaffinity(0))
    for name, value in (ARROW_MEMORY | _polars_threads(threads)).items():
        os.environ.setdefault(name, value)
    _share_heaps()
    from citus_analysis.cli.source_options import expand_sources
    from citus_analysis.dataset.ingesting.workers.early_hashes import hashes_ahead
    from citus_analysis.dataset.ingesting.workers.early_helpers import first_files, helpers_ahead

    paths = expand_sources(sources)
    files = first_files(paths) if cluster is None else []
    is_new = isinstance(out, Path) and not out.exists()
    with helpers_ahead(files if is_new else [], threads), hashes_ahead(files, threads), _progress() as progress:
        from citus_analysis.dataset import ingest

        summary = ingest(
            paths, out, jobs=jobs, format=format_, meta=meta, strict=strict, cluster=cluster, progress=progress
        )
    for message in (*summary.messages, *summary.remarks):
        click.echo(printable(message), err=True)
    if as_json:
        print_json(summary.to_dict())
    else:
        click.echo(str(summary))
    return summary.exit_code


def _polars_threads(jobs: int) -> dict[str, str]:
    """Threads of polars beside those that call it, which work themselves: handing over small frames takes longer."""
    return {"POLARS_MAX_THREADS": str(max(1, jobs // 2))}


def _share_heaps() -> None:
    """Let threads share the heaps of the C library if it is glibc; a value set by the user has priority."""
    if "MALLOC_ARENA_MAX" not in os.environ:
        with suppress(AttributeError):
            ctypes.CDLL(None).mallopt(_MOST_HEAPS, _HEAPS)


@contextmanager
def _progress() -> Iterator[ProgressCallback | None]:
    with terminal_bars("{task.description:>8}") as bars:
        if bars is None:
            yield None
            return
        tasks = {stage: bars.add_task(label, total=None, visible=False) for stage, label in _STAGES.items()}

        def show(progress: Progress) -> None:
            bars.update(tasks[progress.stage], completed=progress.done, total=progress.total or 1, visible=True)

        yield show

"""Raw files read into a dataset: by `ingest`, and by commands that are given raw files in place of a dataset."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from citus_analysis.cli.output import show_progress_bars
from citus_analysis.errors import UsageError
from citus_analysis.texts.words import make_printable

if TYPE_CHECKING:
    from citus_analysis.dataset import IngestSummary, Progress
    from citus_analysis.dataset.ingestion import ProgressCallback

#: Arrow's source of memory. Its own allocator takes huge pages, which the system clears entirely even if little of them
#: is used; for a log of some hundred MB this costs a tenth of the time and of the memory.
ARROW_MEMORY: Final = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
#: Heaps of the C library; each keeps its freed memory, so that one per thread would occupy a quarter more memory.
_HEAPS: Final = 2
#: The parameter of mallopt for the number of heaps (`M_ARENA_MAX` of malloc.h).
_MOST_HEAPS: Final = -8
_STAGES: Final = {"scan": "looking", "read": "reading", "derive": "deriving"}
#: Datasets of raw files that no command read for so long are removed.
_KEPT_S: Final = 30 * 86_400


def open_or_ingest_dataset(place: Path | str, *more: Path | str, into: Path | None = None) -> Path | str:
    """The dataset at a place; for raw files, a dataset that they are read into and that is named on stderr.

    What is read stays: the next command reads only files that changed since.

    Args:
        place: a dataset, or files and folders of raw files; a URL is a dataset.
        more: further files and folders.
        into: folder of the dataset; default: one of the user's cache, by the path of the files. Datasets there that
            nobody used for 30 days are removed.

    Raises:
        InputError: there are no such files, or none of them can be read.
        UsageError: `into` holds a dataset of other files, whose rows would be among those of these.
    """
    from citus_analysis.dataset.manifest import Manifest

    if not more:
        are_files = isinstance(place, Path) and (place.is_file() or (place.is_dir() and any(place.iterdir())))
        if not are_files or Manifest.is_in(Path(place)):
            # What is no dataset either is refused where it is opened.
            return place
    folder = into or _prepare_cache_folder((place, *more))
    if (other := _find_other_source(folder, (place, *more))) is not None:
        if into is not None:
            raise UsageError(
                f"holds a dataset that {other} is part of, which is not among the files given now",
                path=folder,
                hint="name another --out, or remove that folder",
            )
        shutil.rmtree(folder)
    summary = read_sources((place, *more), folder)
    # The time of its last use.
    os.utime(folder)
    click.echo(make_printable(f"read into {folder}: {summary}"), err=True)
    return folder


def _find_other_source(folder: Path, sources: Sequence[Path | str]) -> str | None:
    """A source of a dataset that is not among some sources, or is no longer there: an ingest would keep its rows."""
    from citus_analysis.dataset.manifest import Manifest
    from citus_analysis.dataset.walk import find_file_at

    given = [source.resolve() for source in sources if isinstance(source, Path)]
    urls = tuple(source for source in sources if isinstance(source, str))
    for state in Manifest.load(folder).sources.values():
        if state.location.startswith(urls):
            continue
        path = (find_file_at(state.location) or Path(state.location)).resolve()
        if not path.exists() or not any(path == one or one in path.parents for one in given):
            return state.path
    return None


def _prepare_cache_folder(sources: Sequence[Path | str]) -> Path:
    """The folder of the user's cache for these sources; old ones are removed."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "citus-analysis" / "read"
    paths = [str(source.resolve()) if isinstance(source, Path) else source for source in sources]
    name = Path(paths[0]).name[:40] or "files"
    folder = home / f"{name}-{hashlib.sha256(os.fsencode(os.pathsep.join(paths))).hexdigest()[:12]}"
    home.mkdir(parents=True, exist_ok=True)
    for other in home.iterdir():
        with suppress(OSError):
            if other != folder and time.time() - other.stat().st_mtime > _KEPT_S:
                shutil.rmtree(other)
    return folder


def read_sources(
    sources: Sequence[Path | str],
    out: Path | str,
    *,
    jobs: int | None = None,
    cluster: str | None = None,
    format_: str | None = None,
    meta: Mapping[str, str] | None = None,
    strict: bool = False,
) -> IngestSummary:
    """Read raw files into a dataset, with a progress bar; what was noticed is printed on stderr.

    Args:
        sources: files, folders, patterns and URLs.
        out: the dataset.
        jobs: as for :func:`citus_analysis.ingest`, like all that follow.
        cluster: Dask's scheduler or processes.
        format_: format of all files.
        meta: facts about them.
        strict: change nothing if a line is rejected.
    """
    from citus_analysis.core.parallel import count_usable_cpus

    # Both are set before the import of Arrow and polars; values set by the user have priority.
    # Threads of polars beside those that call it, which work themselves: handing over small frames takes longer.
    threads = max(1, (jobs or count_usable_cpus()) // 2)
    for name, value in (ARROW_MEMORY | {"POLARS_MAX_THREADS": str(threads)}).items():
        os.environ.setdefault(name, value)
    if "MALLOC_ARENA_MAX" not in os.environ:
        with suppress(AttributeError):  # of another library than glibc
            ctypes.CDLL(None).mallopt(_MOST_HEAPS, _HEAPS)
    from citus_analysis.cli.options import expand_sources
    from citus_analysis.dataset import ingest

    paths = expand_sources(sources)
    with _report_ingest_progress() as progress:
        summary = ingest(
            paths, out, jobs=jobs, format=format_, meta=meta, strict=strict, cluster=cluster, progress=progress
        )
    for message in (*summary.messages, *summary.remarks):
        click.echo(make_printable(message), err=True)
    return summary


@contextmanager
def _report_ingest_progress() -> Iterator[ProgressCallback | None]:
    with show_progress_bars("{task.description:>8}") as bars:
        if bars is None:
            yield None
            return
        tasks = {stage: bars.add_task(label, total=None, visible=False) for stage, label in _STAGES.items()}

        def show(progress: Progress) -> None:
            bars.update(tasks[progress.stage], completed=progress.done, total=progress.total or 1, visible=True)

        yield show

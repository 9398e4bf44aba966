"""Raw files to tables in one call, without a dataset that stays."""

from __future__ import annotations

import atexit
import os
import shutil
import warnings
import weakref
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import TYPE_CHECKING, cast

import polars as pl

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.dataset.access import Dataset, open_dataset
from citus_analysis.dataset.ingestion import IngestSummary, ingest
from citus_analysis.dataset.manifest import Manifest
from citus_analysis.dataset.walk import find_file_at
from citus_analysis.errors import InputError, UnreadFilesWarning
from citus_analysis.schema import OUTSIDE_DATASET, TABLES
from citus_analysis.texts.names import convert_to_place, is_url
from citus_analysis.texts.words import pluralize

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True, repr=False, eq=False)
class ReadFiles(DisplayMixin):
    """The tables of some raw files, each as the attribute of its name (`.device_samples`, `.statements`, `.rejects`).

    Attributes:
        summary: what was read, and what was noticed.
        dataset: the tables as a dataset, for everything that takes one; its files are removed when neither this object
            nor the dataset is used any more.
    """

    summary: IngestSummary
    dataset: Dataset

    def __getattr__(self, name: str) -> pl.DataFrame:
        """The table of that name, without rows if the files have none of it.

        Raises:
            AttributeError: no table has this name.
        """
        if name not in TABLES or name in OUTSIDE_DATASET:
            known = ", ".join(self.tables())
            raise AttributeError(f"no table is named {name!r} (tables with rows: {known})", name=name, obj=self)
        return self.dataset.table(name)

    def __dir__(self) -> Iterable[str]:
        """The tables that have rows, beside what every such object has."""
        return [*super().__dir__(), *self.tables()]

    def tables(self) -> dict[str, int]:
        """Name -> number of rows, for tables that have rows."""
        return self.dataset.tables()

    def to_polars(self) -> dict[str, pl.DataFrame]:  # type: ignore[override] # of files: all tables
        """The tables that have rows, as polars frames."""
        return {name: self.dataset.table(name) for name in self.tables()}

    def to_pandas(self) -> dict[str, pd.DataFrame]:  # type: ignore[override] # of files: all tables
        """The tables that have rows, as pandas frames."""
        return {name: self.dataset.table(name, "pandas") for name in self.tables()}

    def to_arrow(self) -> dict[str, pa.Table]:
        """The tables that have rows, as Arrow tables, with the unit and meaning of each column."""
        return {name: self.dataset.table(name, "arrow") for name in self.tables()}

    def summary_lines(self) -> list[str]:
        """What was read, what was noticed, and the tables."""
        tables = ", ".join(f"{name}: {pluralize(rows, 'row')}" for name, rows in self.tables().items())
        return [str(self.summary), *self.summary.messages, *self.summary.remarks, tables]


def read(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    format: str | None = None,  # noqa: A002 - the word of the command line
    jobs: int | None = None,
    **meta: str,
) -> ReadFiles:
    r"""Read raw files to tables; a server log gives its statements and their spans, a load generator's output its run.

    Large files are streamed into a temporary dataset.

    Args:
        sources: files and folders, or their URLs.
        format: read every file as this format instead of recognising it.
        jobs: threads; default: all cores that the process may use.
        meta: options of formats and facts about the files: `timezone="Asia/Kolkata"`, `log_line_prefix="%m [%p] "`.

    Raises:
        InputError: a source does not exist, or no file can be read.
        UnknownNameError: the format, or a fact or option, does not exist.

    Example:
        >>> import pathlib, tempfile
        >>> log = pathlib.Path(tempfile.mkdtemp()) / "postgresql.log"
        >>> _ = log.write_text("2026-08-01 10:00:00.001 UTC [7] LOG:  duration: 1.500 ms  statement: SELECT 1\n")
        >>> found = read(log, log_line_prefix="%m [%p] ")
        >>> found.statements["total_us"].to_list(), found.rejects.height
        ([1500.0], 0)
    """
    with ExitStack() as stack:
        out = Path(stack.enter_context(TemporaryDirectory(prefix="citus-analysis-"))) / "dataset"
        summary = ingest(sources, out, jobs=jobs, format=format, meta=meta)
        found = ReadFiles(summary, open_dataset(out))
        weakref.finalize(found.dataset, stack.pop_all().close)
    return found


#: Folders of datasets of raw files that this process read, by the absolute paths that were asked for.
_kept: dict[tuple[str, ...], Path] = {}


def open_source(source: object) -> Dataset:
    """The dataset at a path, or of the raw files there: a file, a folder, a pattern, a URL, or a list of these.

    Raw files are read into a temporary dataset, which stays until the process ends: a second call reads only files that
    changed. What was noticed is logged as a warning.

    Raises:
        InputError: there are no such files, or none can be read.

    Example:
        >>> open_source("no/such/*.log")
        Traceback (most recent call last):
        citus_analysis.errors.InputError: no/such/*.log: no file matches the pattern (check the folder it is relative \
to)
    """
    asked = list(source) if isinstance(source, list | tuple) else [source]
    places = [convert_to_place(os.fspath(cast("str | os.PathLike[str]", one))) for one in asked]
    if len(places) == 1 and (is_url(places[0]) or Manifest.is_in(Path(places[0]))):
        return open_dataset(places[0])
    paths = [path for place in places for path in _expand_pattern(place)]
    key = tuple(str(path if isinstance(path, str) else path.absolute()) for path in paths)
    kept = _kept.pop(key, None)
    if kept is not None and _has_lost_sources(kept):
        shutil.rmtree(kept)
        kept = None
    if kept is None:
        kept = Path(mkdtemp(prefix="citus-analysis-"))
        atexit.register(shutil.rmtree, kept, ignore_errors=True)
    summary = ingest(paths, kept)
    _kept[key] = kept
    if summary.messages:
        warnings.warn("; ".join(summary.messages), UnreadFilesWarning, stacklevel=4)
    return open_dataset(kept)


def _expand_pattern(place: Path | str) -> list[Path | str]:
    if isinstance(place, str) or place.exists() or not has_magic(str(place)):
        return [place]
    matches = sorted(glob(str(place), recursive=True))  # noqa: PTH207 - `**` and absolute patterns alike
    if not matches:
        raise InputError("no file matches the pattern", path=place, hint="check the folder it is relative to")
    return list(map(Path, matches))


def _has_lost_sources(folder: Path) -> bool:
    """Whether a file that was read is gone: its rows would stay."""
    for state in Manifest.load(folder).sources.values():
        path = find_file_at(state.location) or Path(state.location)
        if not is_url(state.location) and not path.exists():
            return True
    return False

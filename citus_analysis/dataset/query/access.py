"""Open a dataset and get its tables."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, overload

import polars as pl

from citus_analysis.core.displays import html_table
from citus_analysis.dataset.ingesting.derive import sources_frame
from citus_analysis.dataset.objects.object_manifest import ObjectManifest
from citus_analysis.dataset.objects.object_place import ObjectPlace
from citus_analysis.dataset.objects.object_reading import ObjectReader
from citus_analysis.dataset.objects.object_store import missing_or_cut
from citus_analysis.dataset.query.outdated import outdated_tables, way_to_update
from citus_analysis.dataset.query.table_methods import Shorthands
from citus_analysis.dataset.storage.digests import digest
from citus_analysis.dataset.storage.encoding import arrow_dataset, scan_table
from citus_analysis.dataset.storage.integrity import check_content, check_footer
from citus_analysis.dataset.storage.manifest import DerivedState, Manifest, Part, SourceState
from citus_analysis.errors import DatasetError, OutdatedDatasetWarning, UnknownNameError, require_known
from citus_analysis.schema import OUTSIDE_DATASET, TABLES
from citus_analysis.texts.counted_words import counted
from citus_analysis.texts.urls import is_url

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.dataset as ds

#: Tables with at most this number of rows stay in memory once they were read; they take some MB.
_KEPT_ROWS: Final = 20_000
_REPAIR: Final = "open the dataset again; where that does not help, ingest the sources again: it repairs the file"
Kind = Literal["polars", "pandas", "arrow"]
#: In a process that keeps datasets open: folder -> the dataset as it was opened last; otherwise None.
_open: dict[Path, Dataset] | None = None


class Dataset(Shorthands):
    """A dataset in its state when it was opened.

    The state stays readable for a day after an ingest replaces files; open the dataset again to see the new state.
    Files are verified before they are read: a damaged file raises an error that names it and yields no wrong values.

    Every table of the schema exists; a table without data has no rows.
    """

    def __init__(self, path: Path, manifest: Manifest, objects: ObjectReader | None = None) -> None:
        self._path, self._manifest, self._objects = path, manifest, objects
        self._kept: dict[str, pl.DataFrame] = {}

    def __repr__(self) -> str:
        tables = counted(len(self.tables()), "table")
        return f"Dataset({str(self.path)!r}, {tables}, content {self.content_hash[:12]})"

    def _repr_html_(self) -> str:
        rows = [(name, count, TABLES[name].meaning) for name, count in self.tables().items()]
        shown = pl.DataFrame(rows, schema=["table", "rows", "holds"], orient="row")
        return f"<p>{escape(repr(self))}</p>{html_table(shown, shown.height)}"

    @property
    def path(self) -> Path | str:
        """The dataset's folder, or its URL."""
        return self._path if self._objects is None else self._objects.place.url

    @cached_property
    def content_hash(self) -> str:
        """Hash over the content of all sources and everything else that their rows depend on, except their paths."""
        states = (
            (s.source_id, s.content_hash, s.format, s.parser_version, s.identity, s.run_id)
            for s in self._manifest.sources.values()
        )
        return digest(sorted(states, key=lambda state: state[0]), size=16)

    @cached_property
    def outdated(self) -> str:
        """Why tables differ from those that an ingest by this version would give, in words; empty if they do not.

        They differ if another version of a format's parser read a source, or if derived tables are of another version.
        """
        return outdated_tables(self._manifest)

    def tables(self) -> dict[str, int]:
        """Name -> number of rows, for tables that have rows."""
        rows = {name: sum(part.rows for part in parts) for name, parts in self._parts.items()}
        rows["sources"] = len(self._manifest.sources)
        return {name: rows[name] for name in TABLES if rows.get(name)}

    def scan(self, name: str) -> pl.LazyFrame:
        """A table as a lazy frame with the schema's columns and dtypes.

        Raises:
            UnknownNameError: no table of a dataset has this name.
            DatasetError: a file of the table is missing or damaged.
        """
        if name not in TABLES or name in OUTSIDE_DATASET:
            raise UnknownNameError("table", name, TABLES.keys() - OUTSIDE_DATASET)
        if name == "sources":
            states = self._manifest.sources.values()
            return sources_frame(sorted(states, key=lambda s: (s.resource, s.path, s.source_id))).lazy()
        return self.scan_parts(name, self._parts.get(name, []))

    def states(self) -> list[SourceState | DerivedState]:
        """The entries of the dataset: each source and each derivation of a resource, with its files."""
        return self._manifest.states()

    def scan_parts(self, name: str, parts: Sequence[Part]) -> pl.LazyFrame:
        """Rows of some files of a table.

        Raises:
            DatasetError: a file is missing or damaged.
        """
        if self._objects is not None:
            return self._objects.scan(TABLES[name], parts)
        check_content(self._path, parts)
        return scan_table(TABLES[name], self._path, parts)

    @overload
    def table(self, name: str, kind: Literal["polars"] = "polars") -> pl.DataFrame: ...
    @overload
    def table(self, name: str, kind: Literal["pandas"]) -> pd.DataFrame: ...
    @overload
    def table(self, name: str, kind: Literal["arrow"]) -> pa.Table: ...
    def table(self, name: str, kind: Kind = "polars") -> pl.DataFrame | pd.DataFrame | pa.Table:
        """A table as a frame of the requested kind; an Arrow table has the unit and meaning of each column.

        Small tables are read once: a report reads some of them six times, and they consist of thousands of files.

        Raises:
            UnknownNameError: the table or the kind does not exist.
        """
        require_known("kind of frame", kind, ("polars", "pandas", "arrow"))
        frame = self._read(name)
        return frame if kind == "polars" else frame.to_pandas() if kind == "pandas" else _arrow(name, frame)

    def _read(self, name: str) -> pl.DataFrame:
        """The rows of a table, from memory if they are there."""
        if (kept := self._kept.get(name)) is None:
            kept = self._collected(self.scan(name))
            if kept.height > _KEPT_ROWS:
                return kept
            self._kept[name] = kept
        # Shares the columns: a caller that adds some in place adds them to its own frame.
        return kept.clone()

    def _collected(self, rows: pl.LazyFrame) -> pl.DataFrame:
        """The rows; errors of files in a store are raised here."""
        if self._objects is None:
            return rows.collect()
        try:
            return rows.collect()
        except (pl.exceptions.PolarsError, OSError) as error:
            problem = f"cannot be read: {' '.join(str(error).split())}"
            raise DatasetError(problem, path=self._objects.place.url, way_out=_REPAIR) from error

    def sql(self, query: str) -> pl.DataFrame:
        """The rows of a SELECT over the dataset's tables, in DuckDB's SQL.

        The query can read the dataset's tables and nothing else: it cannot write, nor open files.

        Raises:
            UsageError: the query is not a single SELECT, or has an error.
            DatasetError: a file of a table in the query is missing or damaged.
        """
        from citus_analysis.dataset.query.duckdb_views import mentioned, run_query

        if self._objects is None:
            for name in mentioned(query):
                check_content(self._path, self._parts.get(name, []))
        return run_query(query, self.path, self._parts, self._arrow_rows)

    def _arrow_rows(self, name: str) -> pa.Table | ds.Dataset:
        """The rows of a table for DuckDB."""
        if name == "sources" or not (parts := self._parts.get(name)):
            return self.scan(name).collect().to_arrow()
        return (
            arrow_dataset(TABLES[name], self._path, parts)
            if self._objects is None
            else self._objects.dataset(TABLES[name], parts)
        )

    def log_text(self, rows: pl.DataFrame) -> pl.Series:
        """The text in the raw files from which rows with `source_id` and `byte_offset` were read, secrets redacted.

        Args:
            rows: rows of `log_events`, `rejects`, `spans`, `statements` ...; if `byte_length` is missing, the length
                of the log record or reject at the offset is used.

        Returns:
            One text per row, in their order; null if the row has no source.

        Raises:
            DatasetError: a source was moved or removed, or changed since it was read.
            UsageError: the rows lack a column.
        """
        from citus_analysis.dataset.query.log_text import read_texts

        return read_texts(rows, self._manifest.sources, self.scan)

    @cached_property
    def _parts(self) -> dict[str, list[Part]]:
        grouped: dict[str, list[Part]] = {}
        for part in self._manifest.parts():
            grouped.setdefault(part.table, []).append(part)
        return grouped


def _arrow(name: str, frame: pl.DataFrame) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_arrays(frame.to_arrow().columns, schema=TABLES[name].arrow())


def open_dataset(path: str | os.PathLike[str]) -> Dataset:
    """Open the dataset in a folder, or at the URL of an object store (`s3://bucket/out`).

    Warns with :class:`~citus_analysis.errors.OutdatedDatasetWarning` where :attr:`Dataset.outdated` says something.

    Raises:
        DatasetError: there is no dataset, the store refuses access, or the manifest or a file is damaged or missing.
        UsageError: the URL holds credentials, or needs a package that is not installed.
    """
    if is_url(path):
        return _warned_of(_open_objects(ObjectPlace.of(str(path))))
    # Absolute, so that the dataset stays the same if the working directory changes.
    folder = Path(os.path.abspath(path))  # noqa: PTH100 - pathlib only resolves
    if _open is not None and (known := _open.get(folder)) is not None and known._manifest.is_current:
        return _warned_of(known)
    manifest = Manifest.load(folder)
    if not manifest.exists:
        problem = "is not a dataset" if folder.exists() else "does not exist"
        raise DatasetError(problem, path=folder, way_out="make one: citus-analysis ingest SRC --out DIR")
    check_footer(folder, manifest.parts())
    dataset = Dataset(folder, manifest)
    if _open is not None:
        _open[folder] = dataset
    return _warned_of(dataset)


def keep_open() -> None:
    """From now on, open a folder once in this process, until an ingest changes it.

    This is for processes that make several reports of one dataset: each notebook opens it, which takes half a second
    if it has thousands of files, and reads the same small tables.
    """
    global _open
    _open = {}


def _open_objects(place: ObjectPlace) -> Dataset:
    manifest = ObjectManifest.at(place, Path())
    if not manifest.exists:
        raise DatasetError("is not a dataset", path=place.url, way_out="make one: citus-analysis ingest SRC --out URL")
    for path, problem in missing_or_cut(place, manifest.parts()).items():
        raise DatasetError(problem, path=f"{place.url}/{path}", way_out=_REPAIR)
    return Dataset(Path(), manifest, ObjectReader(place))


def _warned_of(dataset: Dataset) -> Dataset:
    if reasons := dataset.outdated:
        message = f"{dataset.path}: {reasons}; figures may differ ({way_to_update(str(dataset.path))})"
        warnings.warn(OutdatedDatasetWarning(message), stacklevel=3)
    return dataset

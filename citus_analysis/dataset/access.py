"""Open a dataset and get its tables."""

from __future__ import annotations

import os
import sys
import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, overload

import polars as pl

from citus_analysis.core.displays import render_html_preview
from citus_analysis.dataset.digests import digest
from citus_analysis.dataset.manifest import DerivedState, Manifest, ParquetPart, SourceState
from citus_analysis.dataset.object_place import ObjectPlace
from citus_analysis.dataset.objects import ObjectManifest, ObjectReader, find_missing_or_cut_parts
from citus_analysis.dataset.outdated import explain_outdated_tables, format_update_command
from citus_analysis.dataset.parts import check_content, check_footer, open_arrow_dataset, scan_table
from citus_analysis.errors import DatasetError, OutdatedDatasetWarning, UnknownNameError, require_known
from citus_analysis.schema import OUTSIDE_DATASET, TABLES
from citus_analysis.texts.names import is_url
from citus_analysis.texts.words import pluralize

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.dataset as ds

    from citus_analysis.core.frames import Frame

# One method per table, so that editors complete `dataset.runs()`.


def _make_table_method(name: str) -> Callable[[TableShorthandsMixin], pl.DataFrame]:
    def rows(dataset: TableShorthandsMixin) -> pl.DataFrame:
        return dataset.scan(name).collect()

    rows.__name__, rows.__doc__ = name, TABLES[name].meaning
    return rows


class TableShorthandsMixin:
    """Methods of which `dataset.NAME()` is the same as `dataset.table("NAME")`."""

    @abstractmethod
    def scan(self, name: str) -> pl.LazyFrame:
        """A table as a lazy frame."""

    sources = _make_table_method("sources")
    rejects = _make_table_method("rejects")
    nodes = _make_table_method("nodes")
    shards = _make_table_method("shards")
    settings = _make_table_method("settings")
    runs = _make_table_method("runs")
    operation_latencies = _make_table_method("operation_latencies")
    clients = _make_table_method("clients")
    client_metrics = _make_table_method("client_metrics")
    client_series = _make_table_method("client_series")
    client_histogram = _make_table_method("client_histogram")
    client_latencies = _make_table_method("client_latencies")
    client_errors = _make_table_method("client_errors")
    log_events = _make_table_method("log_events")
    checkpoints = _make_table_method("checkpoints")
    spans = _make_table_method("spans")
    statements = _make_table_method("statements")
    match_quality = _make_table_method("match_quality")
    clock_offsets = _make_table_method("clock_offsets")
    activity_samples = _make_table_method("activity_samples")
    server_counters = _make_table_method("server_counters")
    pressure_samples = _make_table_method("pressure_samples")
    canaries = _make_table_method("canaries")
    foreign_samples = _make_table_method("foreign_samples")
    backend_samples = _make_table_method("backend_samples")
    net_samples = _make_table_method("net_samples")
    throttle_samples = _make_table_method("throttle_samples")
    cpu_samples = _make_table_method("cpu_samples")
    core_samples = _make_table_method("core_samples")
    device_samples = _make_table_method("device_samples")
    pooler_events = _make_table_method("pooler_events")
    pooler_samples = _make_table_method("pooler_samples")
    stated_runs = _make_table_method("stated_runs")
    vm_samples = _make_table_method("vm_samples")
    process_samples = _make_table_method("process_samples")
    perf_symbols = _make_table_method("perf_symbols")
    perf_stacks = _make_table_method("perf_stacks")
    perf_counters = _make_table_method("perf_counters")
    outcomes = _make_table_method("outcomes")
    plans = _make_table_method("plans")
    plan_nodes = _make_table_method("plan_nodes")


#: Tables with at most this number of rows stay in memory once they were read; they take some MB.
_KEPT_ROWS: Final = 20_000
_REPAIR: Final = "open the dataset again; where that does not help, ingest the sources again: it repairs the file"
Kind = Literal["polars", "pandas", "arrow"]
#: In a process that keeps datasets open: folder -> the dataset as it was opened last; otherwise None.
_open: dict[Path, Dataset] | None = None


class Dataset(TableShorthandsMixin):
    """A dataset in its state when it was opened.

    The state stays readable for a day after an ingest replaces files; open the dataset again to see the new state.
    Files are verified before they are read: a damaged file raises an error that names it and yields no wrong values.

    Every table of the schema exists; a table without data has no rows.
    """

    def __init__(self, path: Path, manifest: Manifest, objects: ObjectReader | None = None) -> None:
        self._path, self._manifest, self._objects = path, manifest, objects
        self._kept: dict[str, pl.DataFrame] = {}

    def __repr__(self) -> str:
        tables = pluralize(len(self.tables()), "table")
        return f"Dataset({str(self.path)!r}, {tables}, content {self.content_hash[:12]})"

    def _repr_html_(self) -> str:
        rows = [(name, count, TABLES[name].meaning) for name, count in self.tables().items()]
        shown = pl.DataFrame(rows, schema=["table", "rows", "holds"], orient="row")
        return f"<p>{escape(repr(self))}</p>{render_html_preview(shown, shown.height)}"

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
        return explain_outdated_tables(self._manifest)

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
            from citus_analysis.dataset.derive import make_sources_frame

            states = self._manifest.sources.values()
            return make_sources_frame(sorted(states, key=lambda s: (s.resource, s.path, s.source_id))).lazy()
        return self.scan_parts(name, self._parts.get(name, []))

    def states(self) -> list[SourceState | DerivedState]:
        """The entries of the dataset: each source and each derivation of a resource, with its files."""
        return self._manifest.states()

    def scan_parts(self, name: str, parts: Sequence[ParquetPart]) -> pl.LazyFrame:
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
        return (
            frame
            if kind == "polars"
            else frame.to_pandas()
            if kind == "pandas"
            else _convert_to_arrow_table(name, frame)
        )

    def _read(self, name: str) -> pl.DataFrame:
        """The rows of a table, from memory if they are there."""
        if (kept := self._kept.get(name)) is None:
            kept = self._collect(self.scan(name))
            if kept.height > _KEPT_ROWS:
                return kept
            self._kept[name] = kept
        # Shares the columns: a caller that adds some in place adds them to its own frame.
        return kept.clone()

    def _collect(self, rows: pl.LazyFrame) -> pl.DataFrame:
        """The rows; errors of files in a store are raised here."""
        if self._objects is None:
            return rows.collect()
        try:
            return rows.collect()
        except (pl.exceptions.PolarsError, OSError) as error:
            problem = f"cannot be read: {' '.join(str(error).split())}"
            raise DatasetError(problem, path=self._objects.place.url, hint=_REPAIR) from error

    def sql(self, query: str, **frames: Frame) -> pl.DataFrame:
        """The rows of a SELECT over the dataset's tables, in DuckDB's SQL.

        The query can read the dataset's tables and polars, pandas and Arrow frames of the caller, by the names of their
        variables; nothing else: it cannot write, nor open files. `set_ups` has what commands print of a run beside its
        columns: `family`, `settings`, `cpu_per_node`, `experiment`, `limit`, `arrivals` and `variant`, by `resource`
        and `run_id`.

        Args:
            query: the SELECT.
            frames: further frames by name.

        Raises:
            UsageError: the query is not a single SELECT, or has an error.
            DatasetError: a file of a table in the query is missing or damaged.
        """
        from citus_analysis.dataset.sql import SET_UPS, find_mentioned_tables, find_own_frames, names_set_ups, run_query

        caller = sys._getframe(1)
        own = find_own_frames(query, frames, caller.f_locals, caller.f_globals)
        if names_set_ups(query):
            own.setdefault(SET_UPS, self._describe_set_ups())

        if self._objects is None:
            for name in find_mentioned_tables(query):
                check_content(self._path, self._parts.get(name, []))
        return run_query(query, self.path, self._parts, self._rows_to_query, own)

    def _describe_set_ups(self) -> pl.DataFrame:
        """What is computed of the set-up of each run, by `resource` and `run_id`."""
        from citus_analysis.runs.set_ups import SETUP_COLUMNS, add_setup_descriptions

        described = add_setup_descriptions(self.table("runs"), self.table("settings"))
        absent = [pl.lit(None, pl.String).alias(name) for name in SETUP_COLUMNS if name not in described.columns]
        return described.with_columns(absent).select("resource", "run_id", *SETUP_COLUMNS)

    def _rows_to_query(self, name: str) -> pl.DataFrame | ds.Dataset:
        """The rows of a table for DuckDB."""
        parts = self._parts.get(name, [])
        if name == "sources" or sum(part.rows for part in parts) <= _KEPT_ROWS:
            # A dataset of Arrow, which imports pandas, takes longer than all of a small table.
            return self.table(name)
        return (
            open_arrow_dataset(TABLES[name], self._path, parts)
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
        from citus_analysis.dataset.source_texts import read_texts

        return read_texts(rows, self._manifest.sources, self.scan)

    @cached_property
    def _parts(self) -> dict[str, list[ParquetPart]]:
        grouped: dict[str, list[ParquetPart]] = {}
        for part in self._manifest.parts():
            grouped.setdefault(part.table, []).append(part)
        return grouped


def _convert_to_arrow_table(name: str, frame: pl.DataFrame) -> pa.Table:
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
        return _warn_if_outdated(_open_objects(ObjectPlace.of(str(path))))
    # Absolute, so that the dataset stays the same if the working directory changes.
    folder = Path(os.path.abspath(path))  # noqa: PTH100 - pathlib only resolves
    if _open is not None and (known := _open.get(folder)) is not None and known._manifest.is_current:
        return _warn_if_outdated(known)
    manifest = Manifest.load(folder)
    if not manifest.exists:
        problem = "is not a dataset" if folder.exists() else "does not exist"
        raise DatasetError(problem, path=folder, hint="make one: citus-analysis ingest SRC --out DIR")
    check_footer(folder, manifest.parts())
    dataset = Dataset(folder, manifest)
    if _open is not None:
        _open[folder] = dataset
    return _warn_if_outdated(dataset)


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
        raise DatasetError("is not a dataset", path=place.url, hint="make one: citus-analysis ingest SRC --out URL")
    for path, problem in find_missing_or_cut_parts(place, manifest.parts()).items():
        raise DatasetError(problem, path=f"{place.url}/{path}", hint=_REPAIR)
    return Dataset(Path(), manifest, ObjectReader(place))


def _warn_if_outdated(dataset: Dataset) -> Dataset:
    if reasons := dataset.outdated:
        message = f"{dataset.path}: {reasons}; figures may differ ({format_update_command(str(dataset.path))})"
        warnings.warn(OutdatedDatasetWarning(message), stacklevel=3)
    return dataset

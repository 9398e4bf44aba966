"""Write Parquet files of a dataset from a stream of record batches; file names derive from the content.

Rows are collected until they suffice for a file, so that several files can be written at the same time: encoding takes
longer than reading. A large batch becomes a file of its own, small ones are combined with the next. The boundaries and
contents of files depend on the source and its parser alone, not on the number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from citus_analysis.dataset.storage.encoding import (
    COMPRESSED_BYTES,
    MOST_ROWS,
    stored_metadata,
    stored_rows,
    writer_options,
)
from citus_analysis.dataset.storage.integrity import fingerprints
from citus_analysis.dataset.storage.manifest import Part
from citus_analysis.schema import PARTITION_KEY, TABLES, Table
from citus_analysis.texts.path_names import partition_folder

if TYPE_CHECKING:
    import pyarrow as pa

#: Least number of rows for a file of its own.
FILE_ROWS: Final = 2**16
STAGING: Final = "_staging"


@lru_cache(maxsize=2**12)
def folder_of(table: str, resource: str) -> str:
    """Folder of a table's parts for one resource, relative to the dataset.

    Example:
        >>> folder_of("spans", "V3/x")
        'spans/resource=V3%2Fx'
    """
    return f"{table}/{partition_folder(PARTITION_KEY, resource)}"


def part_path(table: str, resource: str, stem: str, number: int = 0) -> str:
    """Path of a part, relative to the dataset; the names of further parts sort after the first.

    Example:
        >>> part_path("spans", "V3", "traces"), part_path("spans", "V3", "traces", 1)
        ('spans/resource=V3/traces.parquet', 'spans/resource=V3/traces_00001.parquet')
    """
    return f"{folder_of(table, resource)}/{stem}{f'_{number:05}' if number else ''}.parquet"


@dataclass(frozen=True)
class Staged:
    """A part that is written but does not belong to the dataset yet."""

    file: Path
    part: Part


@dataclass
class PartWriter:
    """Writes the parts of one source or derivation, batch by batch.

    Background threads write files while the caller produces more rows. An exception in a thread is raised by a later
    call, at the latest by :meth:`finish`. :meth:`finish` or :meth:`abandon` ends the threads; used as a context
    manager, an exception abandons the parts.

    Args:
        folder: the dataset.
        resource: hive partition.
        stem: prefix of the parts' file names; different states must have different stems.
        threads: files that are written at the same time.
    """

    folder: Path
    resource: str
    stem: str
    threads: int = 1
    _held: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    _staged: dict[str, list[Staged]] = field(default_factory=dict)
    _executor: ThreadPoolExecutor | None = None
    _writing: set[Future[None]] = field(default_factory=set)

    def __enter__(self) -> Self:
        """The writer."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Remove the written files after an exception."""
        if kind is not None:
            # Also on a full disk: remaining files are removed later with all files that the manifest does not name.
            with suppress(OSError):
                self.abandon()

    def write(self, tables: Mapping[str, pa.RecordBatch]) -> None:
        """Add rows, in the order of the resulting files: batches with the columns of the table, in any order."""
        for name, rows in tables.items():
            if not len(rows):
                continue
            held = self._held.setdefault(name, [])
            held.append(rows)
            if sum(map(len, held)) >= FILE_ROWS:
                self._wait(self.threads - 1)
                if self._executor is None:
                    self._executor = ThreadPoolExecutor(self.threads, thread_name_prefix="parquet")
                self._writing.add(self._executor.submit(self._write_file, *self._next(name)))

    def finish(self) -> list[Staged]:
        """Write the remaining rows; return the parts of each table in the order of their rows."""
        self._wait(0)
        self._end_threads()
        for name in list(self._held):
            self._write_file(*self._next(name))
        return [item for name in sorted(self._staged) for item in self._staged[name]]

    def abandon(self) -> None:
        """Remove the written files."""
        self._end_threads()
        for items in self._staged.values():
            for item in items:
                if item.file.exists():
                    item.file.unlink()

    def _wait(self, most: int) -> None:
        """Wait until at most this many files are being written."""
        while len(self._writing) > most:
            done, self._writing = wait(self._writing, return_when=FIRST_COMPLETED)
            # The failed write is kept, so that a caller that ignores the exception gets no files without its rows.
            self._writing |= {writing for writing in done if writing.exception()}
            for writing in done:
                writing.result()

    def _end_threads(self) -> None:
        if self._executor is not None:
            self._executor.shutdown()

    def _next(self, name: str) -> tuple[int, str, list[pa.RecordBatch]]:
        """Table and number of the next part, and the rows that it is to hold."""
        pieces, items = self._held.pop(name), self._staged.setdefault(name, [])
        path = part_path(name, self.resource, self.stem, len(items))
        file = self.folder / STAGING / f"{name}-{path.rpartition('/')[2]}"
        items.append(Staged(file, Part(name, path, sum(map(len, pieces)))))
        return len(items) - 1, name, pieces

    def _write_file(self, number: int, name: str, pieces: list[pa.RecordBatch]) -> None:
        item = self._staged[name][number]
        data = _encoded(TABLES[name], pieces)
        size, footer_hash, hash_ = fingerprints(data)
        try:
            _store(item.file, data)
        except (FileNotFoundError, NotADirectoryError):
            # Only for the first part: a system call for each of thousands is saved.
            item.file.parent.mkdir(parents=True, exist_ok=True)
            _store(item.file, data)
        part = replace(item.part, bytes=size, footer_hash=footer_hash, hash=hash_)
        self._staged[name][number] = replace(item, part=part)


def _store(path: Path, data: memoryview) -> None:
    with path.open("wb", buffering=0) as file:
        while data:
            data = data[file.write(data) :]


def _encoded(table: Table, pieces: list[pa.RecordBatch]) -> memoryview:
    """The bytes of a Parquet file, in memory: a file has a few megabytes at most, and all bytes are hashed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = stored_rows(table, pieces)
    sink = pa.BufferOutputStream()
    # The exact number takes as long to find as a quarter of a small file to write.
    many = rows.get_total_buffer_size() >= COMPRESSED_BYTES and rows.nbytes >= COMPRESSED_BYTES
    options = writer_options(table, compress=many)
    with pq.ParquetWriter(sink, rows.schema, **options) as writer:
        writer.write_table(rows, row_group_size=MOST_ROWS)
        writer.add_key_value_metadata(stored_metadata(table))
    return memoryview(sink.getvalue())

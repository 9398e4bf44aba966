"""Parquet files of a dataset: written as a stream of pieces, named by what they hold.

Pieces that a parser hands out in blocks become one row group each, small ones together with the next: a file's bytes
depend on the source and its parser alone, not on how many threads read it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import quote

from citus_analysis.dataset.manifest import Part, sync_folder
from citus_analysis.dataset.storage import MOST_ROWS, stored_rows, writer_options
from citus_analysis.rows import Rows
from citus_analysis.schema import PARTITION_KEY, TABLES

if TYPE_CHECKING:
    import pyarrow.parquet as pq

__all__ = ["PartWriter", "Staged", "folder_of", "part_path", "publish"]

#: Rows that make a row group worth while.
ROW_GROUP: Final = 2**15
STAGING: Final = "_staging"


def folder_of(table: str, resource: str) -> str:
    """Folder of a table's parts for one resource, relative to the dataset.

    Example:
        >>> folder_of("spans", "V3/x")
        'spans/resource=V3%2Fx'
    """
    return f"{table}/{PARTITION_KEY}={quote(resource, safe=' +,()-_.~')}"


def part_path(table: str, resource: str, stem: str) -> str:
    """Path of a part, relative to the dataset."""
    return f"{folder_of(table, resource)}/{stem}.parquet"


@dataclass(frozen=True)
class Staged:
    """A part that is written but does not belong to the dataset yet."""

    file: Path
    part: Part


@dataclass
class PartWriter:
    """Writes the parts of one source or derivation, one file per table, piece by piece.

    A thread of its own encodes a row group while the caller makes the next; what fails there is raised by the next
    call. :meth:`finish` or :meth:`abandon` ends the thread; as a context, an exception abandons.

    Args:
        folder: the dataset.
        resource: hive partition.
        stem: file name of the parts without suffix; states that differ must have different stems.
    """

    folder: Path
    resource: str
    stem: str
    _held: dict[str, list[Rows]] = field(default_factory=dict)
    _writers: dict[str, pq.ParquetWriter] = field(default_factory=dict)
    _rows: dict[str, int] = field(default_factory=dict)
    _thread: ThreadPoolExecutor | None = None
    _writing: Future[None] | None = None

    def __enter__(self) -> Self:
        """The writer."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Leave nothing behind if something failed."""
        if kind is not None:
            # Also where the disk is full: then what is left is removed with the other files that nothing names.
            with suppress(OSError):
                self.abandon()

    def write(self, tables: Mapping[str, Rows]) -> None:
        """Add rows, in the order in which they are to stand in the files."""
        for name, rows in tables.items():
            if not len(rows):
                continue
            held = self._held.setdefault(name, [])
            held.append(rows)
            if sum(map(len, held)) >= ROW_GROUP:
                self._write_meanwhile(name)

    def finish(self) -> list[Staged]:
        """Write what is held back, close the files and make them last."""
        self._end_thread()
        self._wait()
        for name, held in self._held.items():
            self._write_group(name, held)
        for writer in self._writers.values():
            writer.close()
        for name in self._writers:
            with self._file(name).open("rb") as file:
                os.fsync(file.fileno())
        return [
            Staged(self._file(name), Part(name, part_path(name, self.resource, self.stem), self._rows[name]))
            for name in sorted(self._writers)
        ]

    def abandon(self) -> None:
        """Remove what was written."""
        self._end_thread()
        for name, writer in self._writers.items():
            writer.close()
            self._file(name).unlink(missing_ok=True)

    def _write_meanwhile(self, name: str) -> None:
        self._wait()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="parquet")
        self._writing = self._thread.submit(self._write_group, name, self._held.pop(name))

    def _wait(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _end_thread(self) -> None:
        if self._thread is not None:
            self._thread.shutdown()

    def _write_group(self, name: str, held: list[Rows]) -> None:
        import pyarrow.parquet as pq

        table = TABLES[name]
        rows = stored_rows(table, held)
        if name not in self._writers:
            self._file(name).parent.mkdir(parents=True, exist_ok=True)
            self._writers[name] = pq.ParquetWriter(self._file(name), rows.schema, **writer_options(table))
        self._writers[name].write_table(rows, row_group_size=MOST_ROWS)
        self._rows[name] = self._rows.get(name, 0) + rows.num_rows

    def _file(self, name: str) -> Path:
        return self.folder / STAGING / f"{self.stem}.{name}.parquet"


def publish(folder: Path, staged: Iterable[Staged]) -> None:
    """Move staged parts to where they belong; the manifest line that names them comes after this."""
    changed = set[Path]()
    for item in staged:
        target = folder / item.part.path
        target.parent.mkdir(parents=True, exist_ok=True)
        item.file.replace(target)
        changed.add(target.parent)
    for parent in changed:
        sync_folder(parent)


def remove_orphans(folder: Path, named: Iterable[Part]) -> int:
    """Remove Parquet files that no manifest line names, and folders of intermediate files.

    Returns:
        How many Parquet files there were.
    """
    kept = {part.path for part in named}
    removed = 0
    for entry in list((folder / STAGING).glob("*/")):
        shutil.rmtree(entry)
    for table in (*TABLES, STAGING):
        for file in (folder / table).rglob("*.parquet"):
            if file.relative_to(folder).as_posix() not in kept:
                file.unlink()
                removed += 1
    return removed

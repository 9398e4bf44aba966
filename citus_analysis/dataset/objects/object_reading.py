"""Read tables of a dataset on an object store: only the columns and row groups that a query needs are fetched.

Arrow reads the files, for both polars and DuckDB: both hand it the columns and conditions of a query, and it fetches
the byte ranges that these need. DuckDB's own reader over fsspec would do the same without verifying the bytes.

A small file is fetched whole and compared with the manifest. Of a larger one the footer is compared with the manifest,
and each page with the checksum that Parquet keeps of it; only the few bytes of pages' headers have none.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from citus_analysis.dataset.objects.object_place import ObjectPlace
from citus_analysis.dataset.storage.encoding import dataset_of_files, resource_of
from citus_analysis.dataset.storage.integrity import OTHER_BYTES, defective, fingerprints, footer_problem
from citus_analysis.dataset.storage.manifest import Part
from citus_analysis.schema import Table

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.fs as pafs

#: Bytes at the end of a file that are fetched first: most footers, and small files whole.
_TAIL_BYTES: Final = 2**16


@dataclass(frozen=True)
class ObjectReader:
    """Reads parts of a dataset.

    Attributes:
        place: the dataset.
    """

    place: ObjectPlace

    def scan(self, table: Table, parts: Sequence[Part]) -> pl.LazyFrame:
        """The rows of some parts with the table's columns and dtypes."""
        import polars as pl

        if not parts:
            return table.empty().lazy()
        rows = pl.scan_pyarrow_dataset(self.dataset(table, parts))
        return rows.select(pl.col(c.name).cast(c.dtype) if c.type.is_category else pl.col(c.name) for c in table)

    def dataset(self, table: Table, parts: Sequence[Part]) -> ds.Dataset:
        """Some parts as a dataset of Arrow."""
        import pyarrow.dataset as ds

        options = ds.ParquetFragmentScanOptions(pre_buffer=True, page_checksum_verification=True)
        parquet = ds.ParquetFileFormat(default_fragment_scan_options=options)
        files = [(part.path, resource_of(part)) for part in parts]
        return dataset_of_files(table, files, _file_system(self.place, parts), parquet)


def _file_system(place: ObjectPlace, parts: Sequence[Part]) -> pafs.FileSystem:
    """A file system of Arrow that knows these parts."""
    import pyarrow as pa
    import pyarrow.fs as pafs

    known = {part.path: part for part in parts}

    class Handler(pafs.FSSpecHandler):  # type: ignore[misc] # pyarrow has no types
        def open_input_file(self, path: str) -> pa.NativeFile:
            return pa.PythonFile(_Ranges(place, known[path]), mode="r")

    return pafs.PyFileSystem(Handler(place.fs))


class _Ranges(io.RawIOBase):
    """A part, of which only the ranges that are asked for are fetched.

    Raises:
        DatasetError: its footer is not the one that was written.
    """

    def __init__(self, place: ObjectPlace, part: Part) -> None:
        self._place, self._part, self._position = place, part, 0
        self._size = part.bytes or 0

    @cached_property
    def _tail(self) -> bytes:
        """The end of the file, with the footer."""
        tail = self._fetched(max(0, self._size - _TAIL_BYTES), self._size)
        problem, wanted = footer_problem(memoryview(tail), self._part)
        if len(tail) == self._size and fingerprints(memoryview(tail))[2] != self._part.hash:
            problem = OTHER_BYTES
        elif wanted > len(tail):
            tail = self._fetched(max(0, self._size - wanted), self._size)
            problem, _ = footer_problem(memoryview(tail), self._part)
        if problem:
            raise defective(f"{self._place.url}/{self._part.path}", problem)
        return tail

    def _fetched(self, begin: int, end: int) -> bytes:
        return self._place.read_range(self._part.path, begin, end)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence] + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        begin = self._position
        end = self._size if size is None or size < 0 else min(begin + size, self._size)
        self._position = max(begin, end)
        if begin >= end:
            return b""
        tail_begin = self._size - len(self._tail)
        if begin >= tail_begin:
            return self._tail[begin - tail_begin : end - tail_begin]
        return self._fetched(begin, min(end, tail_begin)) + self._tail[: max(0, end - tail_begin)]

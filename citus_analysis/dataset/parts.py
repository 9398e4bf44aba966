"""Write Parquet files of a dataset from a stream of record batches; file names derive from the content.

Rows are collected until they suffice for a file, so that several files can be written at the same time: encoding takes
longer than reading. A large batch becomes a file of its own, small ones are combined with the next. The boundaries and
contents of files depend on the source and its parser alone, not on the number of threads.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import unquote

from blake3 import blake3

from citus_analysis.core.arrow_arrays import combine_batches
from citus_analysis.core.table_definition import FLAG, HASH, REAL
from citus_analysis.dataset.digests import hash_file_content
from citus_analysis.dataset.manifest import ParquetPart
from citus_analysis.errors import DatasetError
from citus_analysis.schema import PARTITION_KEY, TABLES, Column, Table
from citus_analysis.texts.names import partition_folder

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.fs as pafs

# Storage of rows in Parquet: types, encodings, compression.
#
# Categories are stored as text, because their codes depend on the order in which a process met them; readers cast the
# text to the dtype of the schema. Encodings are chosen by dtype, because each costs the writer time: offsets, times and
# counts increase or repeat, so their differences are packed; the leading bytes of measured values repeat, so values are
# split into bytes; texts and fingerprints repeat, so they get a dictionary; span identifiers get none of these.
# Statistics are written for columns that are filtered by range, which excludes categories and hashes, but not in small
# files, where they would take longer to write than they save readers.
#
# Each file holds the Arrow schema of its table, whose metadata state the unit, meaning and source of each column
# (``pyarrow.parquet.read_schema(file).field("duration_us").metadata``). Files of older versions have none and are read
# the same: the types of the schema are those that readers derive from such files.
#
# Rows of a source that no longer exists are kept, with the columns that the table had when they were written. Columns
# that were added later are null in these rows until the source is read again. Times that were written in milliseconds
# are read as microseconds, like all others.

#: Folder in which parts are kept until no reader needs them; their names match no pattern for Parquet files.
FILES: Final = "_files"

#: The fastest level gives files about as small as higher levels do, because the encodings already pack most data.
_LEVEL: Final = 1
#: Rows of a row group at most. A column of a group is one page: each page costs the compressor a start.
MOST_ROWS: Final = 2**18
_PAGE_BYTES: Final = 8 * 2**20
#: Fewer bytes than these are stored uncompressed, because the file's footer is larger.
COMPRESSED_BYTES: Final = 2**14


def concatenate_stored_rows(table: Table, pieces: Sequence[pa.RecordBatch]) -> pa.Table:
    """Concatenate rows of a table in their stored form: without the partition key.

    Raises:
        KeyError: a batch lacks a column.
    """
    names = [column.name for column in _list_stored_columns(table)]
    rows = combine_batches([piece.select(names) for piece in pieces])
    # All chunks share one dictionary; with a second one the writer would use none.
    return rows if len(pieces) == 1 else rows.combine_chunks()


@cache
def build_stored_metadata(table: Table) -> dict[str, bytes]:
    """Metadata of a table's Parquet files: meanings, units and sources, where readers of Arrow look for them.

    The schema is written here and not by the writer, whose own would give readers the types of the rows in memory.
    """
    schema = table.stored()
    facts = {name.decode(): text for name, text in schema.metadata.items()}
    return facts | {"ARROW:schema": b64encode(schema.serialize().to_pybytes())}


@cache
def build_writer_options(table: Table, *, compress: bool = True) -> dict[str, object]:
    """Options of the Parquet writer for the columns of a table.

    Args:
        table: table whose rows are written.
        compress: compress the pages, and write all statistics. For few rows, starting the compressor for each column
            takes longer than all other work.
    """
    kept = _list_stored_columns(table)
    ranged = [c.name for c in kept if not c.type.is_category and c.type != HASH]
    packed = [c.name for c in kept if c.type.is_integer or c.type.is_time]
    split = [c.name for c in kept if c.type == REAL]
    plain = {c.name for c in kept if c.type == FLAG or (c.type == HASH and c.name.endswith("_id"))}
    return {
        **({"compression": "zstd", "compression_level": _LEVEL} if compress else {"compression": "none"}),
        "use_dictionary": [c.name for c in kept if c.name not in {*plain, *packed, *split}],
        "column_encoding": dict.fromkeys(packed, "DELTA_BINARY_PACKED") | dict.fromkeys(split, "BYTE_STREAM_SPLIT"),
        "write_statistics": ranged if compress else False,
        "data_page_size": _PAGE_BYTES,
        "max_rows_per_page": MOST_ROWS,
        "write_batch_size": MOST_ROWS,
        "write_page_checksum": True,
        # Readers must see text, not the codes of the process that wrote it.
        "store_schema": False,
    }


def get_kept_path(path: str) -> str:
    """The name under which readers read a part, relative to the dataset.

    Example:
        >>> get_kept_path("spans/resource=V3/traces.parquet")
        '_files/spans/resource=V3/traces.part'
    """
    return f"{FILES}/{path.removesuffix('.parquet')}.part"


def get_public_path(path: str) -> str:
    """The name of a part in its table's folder, from the one under which readers read it.

    Example:
        >>> get_public_path("_files/spans/resource=V3/traces.part")
        'spans/resource=V3/traces.parquet'
    """
    return f"{path.removeprefix(FILES + '/').removesuffix('.part')}.parquet"


def locate_part(folder: Path, part: ParquetPart) -> str:
    """Path to read a part from: the table's own folder if an older version wrote it, or if only that was copied."""
    # Texts, because a dataset has thousands of files, and objects for their paths take twice the time.
    kept = os.path.join(folder, get_kept_path(part.path))  # noqa: PTH118 - texts are faster
    return kept if os.path.exists(kept) else os.path.join(folder, part.path)  # noqa: PTH110, PTH118 - likewise


def scan_table(table: Table, folder: Path, parts: Iterable[ParquetPart]) -> pl.LazyFrame:
    """The rows of some parts with the table's columns and dtypes; an empty frame if there are no parts."""
    import polars as pl

    listed = list(parts)
    if not listed:
        return table.empty().lazy()
    # A folder above the dataset that looks like a hive partition (`x=y`) would be taken for a column.
    if "=" in os.path.abspath(folder):  # noqa: PTH100 - pathlib only resolves
        # Readers look for partitions in the whole path, so the resource is stated as a literal here.
        scans = [
            _scan_parts(table, folder, list(group), partitioned=False).with_columns(
                pl.lit(resource).alias(PARTITION_KEY)
            )
            for resource, group in groupby(listed, key=get_part_resource)
        ]
        scanned = pl.concat(scans)
    else:
        scanned = _scan_parts(table, folder, listed, partitioned=True)
    return scanned.select(make_typed_exprs(table))


def make_typed_exprs(table: Table) -> Iterator[pl.Expr]:
    """The columns of a table with their types; only categories are cast.

    A cast prevents filters from skipping whole row groups.
    """
    import polars as pl

    return (pl.col(c.name).cast(c.dtype) if c.type.is_category else pl.col(c.name) for c in table)


def get_part_resource(part: ParquetPart) -> str:
    """The resource whose rows a part has.

    Example:
        >>> get_part_resource(ParquetPart("spans", "spans/resource=V3%2Fx/traces.parquet", 1))
        'V3/x'
    """
    return unquote(part.path.split("/")[1].removeprefix(f"{PARTITION_KEY}="))


def open_arrow_dataset(table: Table, folder: Path, parts: Iterable[ParquetPart]) -> ds.Dataset:
    """Some parts in a folder as a dataset of Arrow."""
    import pyarrow.dataset as ds
    import pyarrow.fs as pafs

    files = [(locate_part(folder, part), get_part_resource(part)) for part in parts]
    return open_dataset_of_files(table, files, pafs.LocalFileSystem(), ds.ParquetFileFormat())


def open_dataset_of_files(
    table: Table, files: Iterable[tuple[str, str]], system: pafs.FileSystem, parquet: ds.ParquetFileFormat
) -> ds.Dataset:
    """Files of a table as a dataset of Arrow.

    Args:
        table: the table.
        files: path and resource of each.
        system: the file system that has them.
        parquet: how they are read.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    key = ds.field(PARTITION_KEY)
    fragments = [parquet.make_fragment(path, system, key == resource) for path, resource in files]
    return ds.FileSystemDataset(fragments, pa.schema([(c.name, c.type.stored) for c in table]), parquet, system)


def _scan_parts(table: Table, folder: Path, parts: Sequence[ParquetPart], *, partitioned: bool) -> pl.LazyFrame:
    import polars as pl

    return pl.scan_parquet(
        [locate_part(folder, part) for part in parts],
        hive_partitioning=partitioned,
        hive_schema={PARTITION_KEY: pl.String} if partitioned else None,
        glob=False,
        cache=False,
        schema={c.name: pl.String() if c.type.is_category else c.dtype for c in _list_stored_columns(table)},
        missing_columns="insert",
        extra_columns="ignore",
        # Older versions stored some times in milliseconds.
        cast_options=pl.ScanCastOptions(datetime_cast="millisecond-upcast"),
    )


def _list_stored_columns(table: Table) -> list[Column]:
    return [c for c in table if c.name != PARTITION_KEY]


# Verify that the files of a dataset are unchanged since they were written.
#
# The manifest records the length of each part, a hash of its footer and a hash of all its bytes. Opening a dataset
# compares lengths and footers, which costs some 15 µs per file. The first read of a table compares all of its bytes, at
# 4 GB/s, which is a small part of the time to decode them. Thus no row is ever read from bytes that changed; zstd and
# Parquet alone yield wrong values for one damage in ten. Pages also carry Parquet's own checksums, for other tools.

MISSING: Final = "a file of the dataset is missing"
#: A Parquet file ends with its footer, the footer's length in 4 bytes, and 4 bytes that identify the format.
_TRAILER_BYTES: Final = 8
#: Footers of most parts are shorter, so that one read suffices.
_GUESSED_FOOTER_BYTES: Final = 2**14
_OTHER_FOOTER: Final = "is damaged: its footer is not the one that was written"
_FOOTER_HASH_BYTES: Final = 8
_HASH_BYTES: Final = 16
OTHER_BYTES: Final = "is damaged: its bytes are not those that were written"


def compute_file_fingerprints(data: memoryview) -> tuple[int, str, str]:
    """Length, hash of the footer and hash of all bytes of a Parquet file, as the manifest records them."""
    footer = data[-_compute_footer_bytes(data) :]
    return (len(data), blake3(footer).hexdigest(length=_FOOTER_HASH_BYTES), blake3(data).hexdigest(length=_HASH_BYTES))


def check_footer(folder: Path, parts: Iterable[ParquetPart]) -> None:
    """Compare length and footer of files with the manifest.

    Raises:
        DatasetError: a file is missing or damaged; the message names it.
    """
    _require_intact(folder, parts, _find_part_footer_problem)


def check_content(folder: Path, parts: Iterable[ParquetPart]) -> None:
    """Compare all bytes of files with the manifest; a file that did not change since the last check is not read again.

    Raises:
        DatasetError: a file is missing or damaged; the message names it.
    """
    _require_intact(folder, parts, find_content_problem)


def _require_intact(
    folder: Path, parts: Iterable[ParquetPart], problem_of: Callable[[Path, ParquetPart], str | None]
) -> None:
    for part in parts:
        if problem := problem_of(folder, part):
            raise make_defect_error(locate_part(folder, part), problem)


def find_content_problem(folder: Path, part: ParquetPart) -> str | None:
    """The defect of a file; None if the file is intact, or if nothing was recorded of it."""
    path = locate_part(folder, part)
    try:
        status = os.stat(path)  # noqa: PTH116 - see `locate_part`
        if part.hash is None:
            return None
        if problem := find_length_problem(status.st_size, part):
            return problem
        return None if _hash(path, status.st_ino, status.st_size, status.st_mtime_ns) == part.hash else OTHER_BYTES
    except OSError as error:
        return _describe_read_error(error)


def _find_part_footer_problem(folder: Path, part: ParquetPart) -> str | None:
    try:
        with open(locate_part(folder, part), "rb", buffering=0) as file:  # noqa: PTH123 - see `locate_part`
            size = os.fstat(file.fileno()).st_size
            if part.footer_hash is None:
                return None
            if problem := find_length_problem(size, part):
                return problem
            tail = _read_file_tail(file.fileno(), size, _GUESSED_FOOTER_BYTES)
            wanted = _compute_footer_bytes(tail)
            if len(tail) < wanted <= size:
                tail = _read_file_tail(file.fileno(), size, wanted)
    except OSError as error:
        return _describe_read_error(error)
    return find_footer_problem(tail, part)[0]


def find_footer_problem(tail: memoryview, part: ParquetPart) -> tuple[str | None, int]:
    """The defect of a file's footer, from the end of the file, and how many bytes at the end the footer takes."""
    wanted = _compute_footer_bytes(tail)
    if wanted > len(tail):
        return _OTHER_FOOTER, min(wanted, part.bytes or 0)
    same = part.footer_hash in (None, blake3(tail[-wanted:]).hexdigest(length=_FOOTER_HASH_BYTES))
    return None if same else _OTHER_FOOTER, wanted


def _read_file_tail(descriptor: int, size: int, length: int) -> memoryview:
    return memoryview(os.pread(descriptor, length, max(0, size - length)))


def _compute_footer_bytes(tail: memoryview) -> int:
    return int.from_bytes(tail[-_TRAILER_BYTES : -_TRAILER_BYTES // 2], "little") + _TRAILER_BYTES


def find_length_problem(size: int | None, part: ParquetPart) -> str | None:
    """The defect of a file of some length; None as the length: it is not there."""
    if size is None:
        return MISSING
    return None if size == part.bytes else f"is damaged: it has {size} bytes where {part.bytes} were written"


def _describe_read_error(error: OSError) -> str:
    return MISSING if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"


def make_defect_error(path: str, problem: str) -> DatasetError:
    """The error for a file with a defect, with the way out."""
    repair = "ingest the sources again: it repairs the file"
    hint = f"open the dataset again; where that does not help, {repair}" if problem == MISSING else repair
    return DatasetError(problem, path=path, hint=hint)


@lru_cache(maxsize=2**16)
def _hash(path: str, inode: int, size: int, mtime_ns: int) -> str:  # noqa: ARG001 - part of the cache key
    return hash_file_content(Path(path))


#: Least number of rows for a file of its own.
FILE_ROWS: Final = 2**16
STAGING: Final = "_staging"


@lru_cache(maxsize=2**12)
def build_part_folder(table: str, resource: str) -> str:
    """Folder of a table's parts for one resource, relative to the dataset.

    Example:
        >>> build_part_folder("spans", "V3/x")
        'spans/resource=V3%2Fx'
    """
    return f"{table}/{partition_folder(PARTITION_KEY, resource)}"


def build_part_path(table: str, resource: str, stem: str, number: int = 0) -> str:
    """Path of a part, relative to the dataset; the names of further parts sort after the first.

    Example:
        >>> build_part_path("spans", "V3", "traces"), build_part_path("spans", "V3", "traces", 1)
        ('spans/resource=V3/traces.parquet', 'spans/resource=V3/traces_00001.parquet')
    """
    return f"{build_part_folder(table, resource)}/{stem}{f'_{number:05}' if number else ''}.parquet"


@dataclass(frozen=True)
class StagedPart:
    """A part that is written but does not belong to the dataset yet."""

    file: Path
    part: ParquetPart


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
    _staged: dict[str, list[StagedPart]] = field(default_factory=dict)
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

    def finish(self) -> list[StagedPart]:
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
        path = build_part_path(name, self.resource, self.stem, len(items))
        file = self.folder / STAGING / f"{name}-{path.rpartition('/')[2]}"
        items.append(StagedPart(file, ParquetPart(name, path, sum(map(len, pieces)))))
        return len(items) - 1, name, pieces

    def _write_file(self, number: int, name: str, pieces: list[pa.RecordBatch]) -> None:
        item = self._staged[name][number]
        data = _encode_parquet(TABLES[name], pieces)
        size, footer_hash, hash_ = compute_file_fingerprints(data)
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


def _encode_parquet(table: Table, pieces: list[pa.RecordBatch]) -> memoryview:
    """The bytes of a Parquet file, in memory: a file has a few megabytes at most, and all bytes are hashed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = concatenate_stored_rows(table, pieces)
    sink = pa.BufferOutputStream()
    # The exact number takes as long to find as a quarter of a small file to write.
    many = rows.get_total_buffer_size() >= COMPRESSED_BYTES and rows.nbytes >= COMPRESSED_BYTES
    options = build_writer_options(table, compress=many)
    with pq.ParquetWriter(sink, rows.schema, **options) as writer:
        writer.write_table(rows, row_group_size=MOST_ROWS)
        writer.add_key_value_metadata(build_stored_metadata(table))
    return memoryview(sink.getvalue())

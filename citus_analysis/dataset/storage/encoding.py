"""Storage of rows in Parquet: types, encodings, compression.

Categories are stored as text, because their codes depend on the order in which a process met them; readers cast the
text to the dtype of the schema. Encodings are chosen by dtype, because each costs the writer time: offsets, times and
counts increase or repeat, so their differences are packed; the leading bytes of measured values repeat, so values are
split into bytes; texts and fingerprints repeat, so they get a dictionary; span identifiers get none of these.
Statistics are written for columns that are filtered by range, which excludes categories and hashes, but not in small
files, where they would take longer to write than they save readers.

Each file holds the Arrow schema of its table, whose metadata state the unit, meaning and source of each column
(``pyarrow.parquet.read_schema(file).field("duration_us").metadata``). Files of older versions have none and are read
the same: the types of the schema are those that readers derive from such files.

Rows of a source that no longer exists are kept, with the columns that the table had when they were written. Columns
that were added later are null in these rows until the source is read again. Times that were written in milliseconds are
read as microseconds, like all others.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from citus_analysis.core.arrow_arrays import table_of
from citus_analysis.core.column_types import FLAG, HASH, REAL
from citus_analysis.dataset.storage.manifest import Part
from citus_analysis.schema import PARTITION_KEY, Column, Table

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.fs as pafs

#: Folder in which parts are kept until no reader needs them; their names match no pattern for Parquet files.
FILES: Final = "_files"

#: The fastest level gives files about as small as higher levels do, because the encodings already pack most data.
_LEVEL: Final = 1
#: Rows of a row group at most. A column of a group is one page: each page costs the compressor a start.
MOST_ROWS: Final = 2**18
_PAGE_BYTES: Final = 8 * 2**20
#: Fewer bytes than these are stored uncompressed, because the file's footer is larger.
COMPRESSED_BYTES: Final = 2**14


def stored_rows(table: Table, pieces: Sequence[pa.RecordBatch]) -> pa.Table:
    """Concatenate rows of a table in their stored form: without the partition key.

    Raises:
        KeyError: a batch lacks a column.
    """
    names = [column.name for column in _kept(table)]
    rows = table_of([piece.select(names) for piece in pieces])
    # All chunks share one dictionary; with a second one the writer would use none.
    return rows if len(pieces) == 1 else rows.combine_chunks()


@cache
def stored_metadata(table: Table) -> dict[str, bytes]:
    """Metadata of a table's Parquet files: meanings, units and sources, where readers of Arrow look for them.

    The schema is written here and not by the writer, whose own would give readers the types of the rows in memory.
    """
    schema = table.stored()
    facts = {name.decode(): text for name, text in schema.metadata.items()}
    return facts | {"ARROW:schema": b64encode(schema.serialize().to_pybytes())}


@cache
def writer_options(table: Table, *, compress: bool = True) -> dict[str, object]:
    """Options of the Parquet writer for the columns of a table.

    Args:
        table: table whose rows are written.
        compress: compress the pages, and write all statistics. For few rows, starting the compressor for each column
            takes longer than all other work.
    """
    kept = _kept(table)
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


def kept_path(path: str) -> str:
    """The name under which readers read a part, relative to the dataset.

    Example:
        >>> kept_path("spans/resource=V3/traces.parquet")
        '_files/spans/resource=V3/traces.part'
    """
    return f"{FILES}/{path.removesuffix('.parquet')}.part"


def public_path(path: str) -> str:
    """The name of a part in its table's folder, from the one under which readers read it.

    Example:
        >>> public_path("_files/spans/resource=V3/traces.part")
        'spans/resource=V3/traces.parquet'
    """
    return f"{path.removeprefix(FILES + '/').removesuffix('.part')}.parquet"


def location(folder: Path, part: Part) -> str:
    """Path to read a part from: the table's own folder if an older version wrote it, or if only that was copied."""
    # Texts, because a dataset has thousands of files, and objects for their paths take twice the time.
    kept = os.path.join(folder, kept_path(part.path))  # noqa: PTH118
    return kept if os.path.exists(kept) else os.path.join(folder, part.path)  # noqa: PTH110, PTH118


def scan_table(table: Table, folder: Path, parts: Iterable[Part]) -> pl.LazyFrame:
    """The rows of some parts with the table's columns and dtypes; an empty frame if there are no parts."""
    import polars as pl

    listed = list(parts)
    if not listed:
        return table.empty().lazy()
    # A folder above the dataset that looks like a hive partition (`x=y`) would be taken for a column.
    if "=" in os.path.abspath(folder):  # noqa: PTH100 - pathlib only resolves
        # Readers look for partitions in the whole path, so the resource is stated as a literal here.
        scans = [
            _scanned(table, folder, list(group), partitioned=False).with_columns(pl.lit(resource).alias(PARTITION_KEY))
            for resource, group in groupby(listed, key=resource_of)
        ]
        scanned = pl.concat(scans)
    else:
        scanned = _scanned(table, folder, listed, partitioned=True)
    # Cast only if needed: a cast prevents filters from skipping whole row groups.
    return scanned.select(pl.col(c.name).cast(c.dtype) if c.type.is_category else pl.col(c.name) for c in table)


def resource_of(part: Part) -> str:
    """The resource whose rows a part has.

    Example:
        >>> resource_of(Part("spans", "spans/resource=V3%2Fx/traces.parquet", 1))
        'V3/x'
    """
    return unquote(part.path.split("/")[1].removeprefix(f"{PARTITION_KEY}="))


def arrow_dataset(table: Table, folder: Path, parts: Iterable[Part]) -> ds.Dataset:
    """Some parts in a folder as a dataset of Arrow."""
    import pyarrow.dataset as ds
    import pyarrow.fs as pafs

    files = [(location(folder, part), resource_of(part)) for part in parts]
    return dataset_of_files(table, files, pafs.LocalFileSystem(), ds.ParquetFileFormat())


def dataset_of_files(
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


def _scanned(table: Table, folder: Path, parts: Sequence[Part], *, partitioned: bool) -> pl.LazyFrame:
    import polars as pl

    return pl.scan_parquet(
        [location(folder, part) for part in parts],
        hive_partitioning=partitioned,
        hive_schema={PARTITION_KEY: pl.String} if partitioned else None,
        glob=False,
        cache=False,
        schema={c.name: pl.String() if c.type.is_category else c.dtype for c in _kept(table)},
        missing_columns="insert",
        extra_columns="ignore",
        # Older versions stored some times in milliseconds.
        cast_options=pl.ScanCastOptions(datetime_cast="millisecond-upcast"),
    )


def _kept(table: Table) -> list[Column]:
    return [c for c in table if c.name != PARTITION_KEY]

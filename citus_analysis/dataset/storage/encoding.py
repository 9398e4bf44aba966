"""How rows are stored in Parquet and read back: types, encodings, compression.

Categories are stored as text: their codes depend on the order in which a process met them. The readers turn the text
back into what the schema says. Encodings are chosen by dtype, for each costs the writer time: offsets, times and counts
grow or repeat, so their differences are packed; of measured values the first bytes repeat, so they are split into
bytes; texts and fingerprints repeat, so they get a dictionary; identifiers of spans do neither. Statistics are kept
for what rows are looked for by the range of, which categories and hashes are not.

A source that vanished keeps its rows, and these keep the columns that the table had when they were written. What was
added since is null in them until the source is read again. Times that were written in milliseconds are read as
microseconds, as all others.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from citus_analysis.core.column_types import FLAG, HASH, REAL
from citus_analysis.core.rows import Rows, record_batch
from citus_analysis.dataset.storage.manifest import Part
from citus_analysis.schema import PARTITION_KEY, Column, Table

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

__all__ = [
    "COMPRESSED_BYTES",
    "FILES",
    "MOST_ROWS",
    "by_partition",
    "is_partition_above",
    "kept_path",
    "location",
    "public_path",
    "scan_table",
    "stored_rows",
    "writer_options",
]

#: Folder of the names under which parts stay until no reader needs them; no pattern for Parquet files finds them there.
FILES: Final = "_files"

#: The fastest level makes files about as small as higher ones, now that the encodings pack most of it.
_LEVEL: Final = 1
#: Rows of a row group at most. A column of a group is one page: each page costs the compressor a start.
MOST_ROWS: Final = 2**18
_PAGE_BYTES: Final = 8 * 2**20
#: Rows of fewer bytes are stored as they are: the footer of their file takes more.
COMPRESSED_BYTES: Final = 2**14


def stored_rows(table: Table, pieces: Sequence[Rows]) -> pa.Table:
    """Rows of the table as they are stored, one piece behind the other: no partition key, absent columns null.

    Raises:
        ValueError: a piece has a column that the table does not define.
    """
    import pyarrow as pa

    rows = pa.Table.from_batches([record_batch(table, piece) for piece in pieces])
    rows = rows.select([column.name for column in _kept(table)])
    # One dictionary for all pieces, for a second one would keep the writer from using any.
    return rows if len(pieces) == 1 else rows.unify_dictionaries().combine_chunks()


@cache
def writer_options(table: Table, *, compress: bool = True) -> dict[str, Any]:
    """What the Parquet writer is to do with the columns of a table.

    Args:
        table: whose rows are written.
        compress: shorten the pages; of a few rows they are short, and to start the compressor for each column takes
            longer than all the rest.
    """
    kept = _kept(table)
    packed = [c.name for c in kept if c.type.is_integer or c.type.is_time]
    split = [c.name for c in kept if c.type == REAL]
    plain = {c.name for c in kept if c.type == FLAG or (c.type == HASH and c.name.endswith("_id"))}
    return {
        **({"compression": "zstd", "compression_level": _LEVEL} if compress else {"compression": "none"}),
        "use_dictionary": [c.name for c in kept if c.name not in {*plain, *packed, *split}],
        "column_encoding": dict.fromkeys(packed, "DELTA_BINARY_PACKED") | dict.fromkeys(split, "BYTE_STREAM_SPLIT"),
        "write_statistics": [c.name for c in kept if not c.type.is_category and c.type != HASH],
        "data_page_size": _PAGE_BYTES,
        "max_rows_per_page": MOST_ROWS,
        "write_batch_size": MOST_ROWS,
        "write_page_checksum": True,
        # Readers shall see text, not the codes of the process that wrote it.
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


def location(folder: Path, part: Part) -> Path:
    """Where a part is read: in the table's own folder where an older version wrote it, or only that was copied."""
    kept = folder / kept_path(part.path)
    return kept if kept.exists() else folder / part.path


def is_partition_above(folder: Path) -> bool:
    """A folder above the dataset looks like a hive partition (`x=y`): readers would take it for a column."""
    return "=" in os.path.abspath(folder)  # noqa: PTH100 - pathlib only resolves


def scan_table(table: Table, folder: Path, parts: Iterable[Part]) -> pl.LazyFrame:
    """The rows of some parts with the table's columns and dtypes; an empty frame where there are none."""
    import polars as pl

    listed = list(parts)
    if not listed:
        return table.empty().lazy()
    if is_partition_above(folder):
        # Readers look for partitions in the whole path: here the resource must be said in words.
        scans = [
            _scanned(table, folder, group, partitioned=False).with_columns(pl.lit(resource).alias(PARTITION_KEY))
            for resource, group in by_partition(listed)
        ]
        scanned = pl.concat(scans)
    else:
        scanned = _scanned(table, folder, listed, partitioned=True)
    # No cast where none is needed: it would keep filters from skipping whole row groups.
    return scanned.select(pl.col(c.name).cast(c.dtype) if c.type.is_category else pl.col(c.name) for c in table)


def by_partition(parts: Iterable[Part]) -> Iterator[tuple[str, list[Part]]]:
    """Resource and parts of each stretch of parts of the same resource."""
    for folder, group in groupby(parts, key=lambda part: part.path.split("/")[1]):
        yield unquote(folder.removeprefix(f"{PARTITION_KEY}=")), list(group)


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

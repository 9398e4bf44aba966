"""What an ingest of server logs costs at the least: its parts alone, on one thread, in CPU seconds.

`python -m benchmarks._floor LOGS DATASET` prints as JSON what takes how long on logs in the study's prefix and on the
dataset that was made of them: hashing the bytes, scanning them (columns in memory, nothing stored), and encoding the
rows of the large tables as Parquet files, with the options of a dataset and with the cheapest that there are (no
dictionaries, no compression, no statistics). What an ingest does besides, such as building traces, is not in it.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from citus_analysis.dataset.digests import hash_file_content
from citus_analysis.dataset.parts import MOST_ROWS, build_writer_options, concatenate_stored_rows
from citus_analysis.formats import Content
from citus_analysis.formats.pglog import CHUNK_BYTES, STUDY_PREFIX
from citus_analysis.formats.pglog.chunking import split_into_record_chunks
from citus_analysis.formats.pglog.prefix import compile_prefix
from citus_analysis.formats.pglog.scanned_chunks import Memory, scan_fast
from citus_analysis.schema import TABLES, Table

LARGE: Final = ("log_events", "statements", "spans")
CHEAPEST: Final[dict[str, Any]] = {
    "compression": "none",
    "use_dictionary": False,
    "column_encoding": None,
    "write_statistics": False,
    "compression_level": None,
}


def scanned(path: Path) -> int:
    """Scan a log; how many records it has."""
    prefix, memory = compile_prefix(STUDY_PREFIX), Memory()
    return sum(
        len(scan_fast(chunk, prefix, memory).rows)
        for chunk in split_into_record_chunks(Content(path), prefix, CHUNK_BYTES)
    )


def batches(dataset: Path, table: Table) -> Iterator[pa.RecordBatch]:
    """The rows of a table, file by file, as they come to the writer: categories as dictionaries."""
    categories = [column.name for column in table if column.type.is_category or column.name in ("source_id", "node")]
    for path in sorted(dataset.glob(f"{table.name}/*/*.parquet")):
        with pq.ParquetFile(path, read_dictionary=categories) as file:
            yield from file.read().combine_chunks().to_batches()


def encoded(table: Table, batch: pa.RecordBatch, options: dict[str, Any]) -> None:
    """Encode rows in memory."""
    rows = concatenate_stored_rows(table, [batch])
    with pq.ParquetWriter(pa.BufferOutputStream(), rows.schema, **options) as writer:
        writer.write_table(rows, row_group_size=MOST_ROWS)


def floor(logs: Path, dataset: Path) -> dict[str, float]:
    """CPU seconds of each part."""
    spent: defaultdict[str, float] = defaultdict(float)

    def measured(what: str, work: Callable[..., object], *given: object) -> None:
        before = time.thread_time()
        work(*given)
        spent[what] += time.thread_time() - before

    for path in sorted(logs.rglob("*.log")):
        measured("hash", hash_file_content, path)
        measured("scan", scanned, path)
    for table in map(TABLES.__getitem__, LARGE):
        options = build_writer_options(table)
        for batch in batches(dataset, table):
            measured("encode", encoded, table, batch, options)
            measured("encode_cheapest", encoded, table, batch, {**options, **CHEAPEST})
    return {f"floor_{what}_cpu_s": round(seconds, 2) for what, seconds in spent.items()}


if __name__ == "__main__":
    print(json.dumps(floor(Path(sys.argv[1]), Path(sys.argv[2]))))

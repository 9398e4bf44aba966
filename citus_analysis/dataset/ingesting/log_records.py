"""The records of an iteration from their Parquet files to a pass over them, in the order of the logs.

Only the columns that traces are built from are read, categories as numbers of texts. Arrays that the pass lays aside
stay in memory if they are few, else in files of the staging folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from citus_analysis.core.arrow_arrays import filled
from citus_analysis.core.column_types import TEXT
from citus_analysis.core.threads import in_order, work_ahead
from citus_analysis.dataset.storage.encoding import location
from citus_analysis.dataset.storage.manifest import Part
from citus_analysis.schema import PARTITION_KEY, TABLES
from citus_analysis.spans.read.divided import Arrays, Bring, held
from citus_analysis.spans.read.freed_memory import give_back
from citus_analysis.spans.read.records import FILE_COLUMNS, USED, files_in_order
from citus_analysis.spans.read.streamed import NotInOrder, Pass

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


__all__ = ["laid_aside", "take_in"]

#: Records up to which everything stays in memory.
IN_MEMORY: Final = 500_000

#: Records that are taken in at once.
TAKEN_AT_ONCE: Final = 2**15
#: Records whose tasks and children are paired at once: up to 200 MB. Two such groups are paired at a time.
PAIRED_RECORDS: Final = 1_000_000

_TABLE: Final = TABLES["log_events"]


def take_in(
    parts: Sequence[Part],
    dataset: Path,
    chosen: tuple[str, int | None],
    nodes: pl.DataFrame,
    folder: Path,
    *,
    distributed: bool,
    jobs: int = 1,
) -> Pass:
    """The records of one iteration, taken in.

    Args:
        parts: parts of `log_events` that may hold records of the iteration, those of a source in their order.
        dataset: folder of the dataset.
        chosen: resource and iteration.
        nodes: rows of table `nodes` of the resource.
        folder: for the arrays that are laid aside.
        distributed: the servers form a cluster.
        jobs: parts that are read at the same time.

    Raises:
        NotInOrder: the records must be sorted by session.
    """
    resource, iteration = chosen
    heads = [_head(dataset, part, resource, iteration) for part in parts]
    files = files_in_order(pl.concat(heads))
    numbers = dict(zip(files["source_id"], files["source"], strict=True))
    own = [(numbers[head["source_id"][0]], part) for head, part in zip(heads, parts, strict=True) if head.height]
    own.sort(key=lambda one: one[0])
    rows = sum(part.rows for _, part in own)
    is_large = rows > IN_MEMORY
    if is_large:
        # Reading logs left free memory in the allocators, as much as is needed now in other sizes.
        give_back()
    keep = partial(laid_aside, folder, count()) if is_large else held
    records = Pass(files, nodes, distributed, keep, groups=1 + rows // PAIRED_RECORDS)
    with closing(work_ahead(_columns(dataset, own, iteration, jobs), "records")) as batches:
        records.take_in(batches)
    if is_large:
        give_back()
    return records


def _head(dataset: Path, part: Part, resource: str, iteration: int | None) -> pl.DataFrame:
    """The file of a part's records of an iteration, and the first time in them; no row if there are none."""
    names = [name for name in FILE_COLUMNS if name != PARTITION_KEY]
    with _opened(dataset, part, names) as file:
        first_time = _first_time_by_statistics(file, iteration)
        rows = next(file.iter_batches(1, columns=names)) if first_time is not None else _one_batch(file.read(names))
    own = _of_iteration(rows, iteration)
    if first_time is None and own.num_rows:
        times = own.column("log_time").drop_null().cast("int64")
        first_time = int(times.to_numpy().min()) if len(times) else None
    identity = {name: own.column(name).slice(0, 1).to_pylist() for name in names if name != "log_time"}
    schema = {name: pl.Int32 if name == "iteration" else pl.String for name in identity}
    return pl.DataFrame(identity, schema=schema).with_columns(
        pl.lit(resource).alias(PARTITION_KEY), first_time=pl.lit(first_time, pl.Int64)
    )


def _first_time_by_statistics(file: pq.ParquetFile, iteration: int | None) -> int | None:
    """The first time in a file, µs, if all its records are of an iteration and its statistics say so; else None."""
    begins = []
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        own, time = (group.column(file.schema.names.index(name)).statistics for name in ("iteration", "log_time"))
        if not (own and own.has_min_max and not own.null_count and own.min == own.max == iteration):
            return None
        if not (time and time.has_min_max):
            return None
        begins.append(int(time.min_raw))
    return min(begins, default=None)


def _columns(
    dataset: Path, parts: Sequence[tuple[int, Part]], iteration: int | None, jobs: int
) -> Iterator[tuple[int, dict[str, pa.Array]]]:
    def read(one: tuple[int, Part]) -> tuple[int, pa.RecordBatch]:
        source, part = one
        return source, _of_iteration(_read(dataset, part, ["iteration", *USED]), iteration)

    with closing(in_order(iter(parts), read, jobs, "parts")) as pieces:
        for source, rows in pieces:
            # Pieces of sessions end where rows do: small ones are as large as they are meant to be.
            for begin in range(0, rows.num_rows, TAKEN_AT_ONCE):
                some = rows.slice(begin, TAKEN_AT_ONCE)
                yield source, {name: some.column(name) for name in USED}


@contextmanager
def _opened(dataset: Path, part: Part, names: Sequence[str]) -> Iterator[pq.ParquetFile]:
    import pyarrow.parquet as pq

    categories = [name for name in names if _TABLE[name].type.is_category]
    with pq.ParquetFile(location(dataset, part), read_dictionary=categories) as file:
        columns = file.schema_arrow
        typed = set(names) <= set(columns.names) and all(
            name in categories or _TABLE[name].type == TEXT or columns.field(name).type == _TABLE[name].type.arrow
            for name in names
        )
        if not typed:
            # An older version wrote it.
            raise NotInOrder
        yield file


def _read(dataset: Path, part: Part, names: Sequence[str]) -> pa.RecordBatch:
    with _opened(dataset, part, names) as file:
        return _one_batch(file.read(columns=list(names), use_threads=False))


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    """All rows of a table in one piece."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([column.combine_chunks() for column in table.columns], names=table.column_names)


def _of_iteration(rows: pa.RecordBatch, iteration: int | None) -> pa.RecordBatch:
    """The rows of an iteration; all that are given, most of the time."""
    own = rows.column("iteration")
    if iteration is None:
        return rows if own.null_count == len(own) else rows.filter(own.is_null())
    named = filled(own, iteration - 1) == iteration
    return rows if named.all() else rows.filter(_mask(named))


def _mask(flags: np.ndarray) -> pa.Array:
    # pyarrow's own constructor would import pandas.
    return pl.Series(flags).to_arrow()


def laid_aside(folder: Path, numbers: Iterator[int], arrays: Arrays) -> Bring:
    """Write arrays to files; they are removed when they are read for the last time."""
    number = next(numbers)
    files = {name: (folder / f"{number:06}-{name}", items.dtype) for name, items in arrays.items()}
    for name, items in arrays.items():
        items.tofile(files[name][0])
    return partial(_brought_back, files)


def _brought_back(files: dict[str, tuple[Path, np.dtype]], *, again: bool = False) -> Arrays:
    arrays = {name: np.fromfile(path, dtype) for name, (path, dtype) in files.items()}
    for path, _ in files.values() if not again else ():
        path.unlink()
    return arrays

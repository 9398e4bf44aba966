"""The records of an iteration from their Parquet files to a pass over them, in the order of the logs.

Only the columns that traces are built from are read, categories as numbers of texts. Arrays that the pass lays aside
stay in memory if the records are few, else in files of the staging folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import count
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

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
from citus_analysis.spans.read.records import FILE_COLUMNS, STRETCHES, USED, files_in_order
from citus_analysis.spans.read.streamed import NotInOrder, Pass

if TYPE_CHECKING:
    import pyarrow as pa

#: Records up to which everything stays in memory.
IN_MEMORY: Final = 500_000

#: Records that are taken in at once.
_TAKEN_AT_ONCE: Final = 2**15
#: Records whose tasks and children are paired at once: up to 200 MB. Two such groups are paired at a time.
PAIRED_RECORDS: Final = 1_000_000

_TABLE: Final = TABLES["log_events"]
_NEVER: Final = np.iinfo(np.int64).max
#: Columns of records that name their file.
_NAMED: Final = tuple(name for name in FILE_COLUMNS if name not in (PARTITION_KEY, "log_time"))


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
    logs = _known_logs(parts, dataset, chosen)
    files = files_in_order(pl.DataFrame([log.of for log in logs], schema=STRETCHES))
    rows = sum(log.part.rows for log in logs)
    is_large = rows > IN_MEMORY
    if is_large:
        # Reading logs left free memory in the allocators, as much as is needed now in other sizes.
        give_back()
    keep = partial(laid_aside, folder, count()) if is_large else held
    records = Pass(files, nodes, distributed, keep, groups=1 + rows // PAIRED_RECORDS)
    # A few records are taken in sooner than threads start.
    ahead = int(rows > _TAKEN_AT_ONCE)
    numbers = dict(zip(files["source_id"], files["source"], strict=True))
    own = sorted(((numbers[log.of["source_id"]], log) for log in logs), key=itemgetter(0))
    with closing(work_ahead(_columns_of_logs(dataset, own, chosen[1], jobs), "records", ahead)) as batches:
        records.take_in(batches, ahead)
    if is_large:
        give_back()
    return records


class _Log(NamedTuple):
    """A part that holds records of the iteration, the file that they come from, and these records if they are few."""

    part: Part
    of: Mapping[str, str | int | None]
    rows: pa.RecordBatch | None


def _known_logs(parts: Sequence[Part], dataset: Path, chosen: tuple[str, int | None]) -> list[_Log]:
    """The parts that hold records of the iteration."""
    resource, iteration = chosen
    few = sum(part.rows for part in parts) <= _TAKEN_AT_ONCE
    columns = [*_NAMED, *(USED if few else ["log_time"])]
    found = []
    for part in parts:
        rows = _of_iteration(_read(dataset, part, columns), iteration)
        if rows.num_rows:
            of = {name: rows.column(name)[0].as_py() for name in _NAMED} | {"resource": resource}
            found.append(_Log(part, of | {"first_time": _first_time(rows)}, rows if few else None))
    return found


def _first_time(rows: pa.RecordBatch) -> int | None:
    """The first time of some records (at least one), µs."""
    first = int(filled(rows.column("log_time").cast("int64"), _NEVER).min())
    return None if first == _NEVER else first


def _columns_of_logs(
    dataset: Path, logs: Sequence[tuple[int, _Log]], iteration: int | None, jobs: int
) -> Iterator[tuple[int, dict[str, pa.Array]]]:
    """Number of the source and columns of the records of some parts, some records at a time.

    Args:
        dataset: folder of the dataset.
        logs: numbers of sources and their parts, in order.
        iteration: the iteration of the records.
        jobs: parts that are read at the same time.
    """

    def read(one: tuple[int, _Log]) -> tuple[int, pa.RecordBatch]:
        source, log = one
        if log.rows is not None:
            return source, log.rows
        return source, _of_iteration(_read(dataset, log.part, ["iteration", *USED]), iteration)

    with closing(in_order(iter(logs), read, jobs, "parts")) as pieces:
        for source, rows in pieces:
            # Pieces of sessions end where rows do: small ones are as large as they are meant to be.
            for begin in range(0, rows.num_rows, _TAKEN_AT_ONCE):
                some = rows.slice(begin, _TAKEN_AT_ONCE)
                yield source, {name: some.column(name) for name in USED}


def _read(dataset: Path, part: Part, names: Sequence[str]) -> pa.RecordBatch:
    """Columns of a part in one piece."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Texts that name the file are the same in all rows, and dictionaries of them take a fraction of the time.
    categories = [name for name in names if _TABLE[name].type.is_category]
    texts = [name for name in names if name in _NAMED and _TABLE[name].type == TEXT]
    with pq.ParquetFile(location(dataset, part), read_dictionary=[*categories, *texts]) as file:
        columns = file.schema_arrow
        typed = set(names) <= set(columns.names) and all(
            name in categories or _TABLE[name].type == TEXT or columns.field(name).type == _TABLE[name].type.arrow
            for name in names
        )
        if not typed:
            # An older version wrote it.
            raise NotInOrder
        rows = file.read(columns=list(names), use_threads=False).combine_chunks()
    batches = rows.to_batches()
    if len(batches) == 1:
        return batches[0]
    return pa.RecordBatch.from_arrays([column.combine_chunks() for column in rows.columns], names=rows.column_names)


def _of_iteration(rows: pa.RecordBatch, iteration: int | None) -> pa.RecordBatch:
    """The rows of an iteration; all that are given, most of the time."""
    own = rows.column("iteration")
    if iteration is None:
        return rows if own.null_count == len(own) else rows.filter(own.is_null())
    named = filled(own, iteration - 1) == iteration
    # pyarrow's own constructor of the mask would import pandas.
    return rows if named.all() else rows.filter(pl.Series(named).to_arrow())


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

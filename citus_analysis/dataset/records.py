"""The records of an iteration on their way to traces: in the order of their logs, or by groups of sessions."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import count
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from citus_analysis.core.arrow_arrays import fill_null_integers
from citus_analysis.core.parallel import map_in_order, prefetch_in_thread
from citus_analysis.core.table_definition import TEXT
from citus_analysis.dataset.manifest import ParquetPart
from citus_analysis.dataset.parts import locate_part
from citus_analysis.schema import PARTITION_KEY, TABLES
from citus_analysis.spans.record_order import (
    FILE_COLUMNS,
    LOG_PARTS,
    USED,
    group_sessions,
    list_log_files,
    order_log_files,
)
from citus_analysis.spans.sessions import NotInOrder, SessionStore
from citus_analysis.spans.spilling import Arrays, Restore, keep_in_memory, release_free_memory

if TYPE_CHECKING:
    import pyarrow as pa


# The records of an iteration from their Parquet files to a pass over them, in the order of the logs.
#
# Only the columns that traces are built from are read, categories as numbers of texts. Arrays that the store spills
# stay in memory if the records are few, else in files of the staging folder.

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


def consume_records(
    parts: Sequence[ParquetPart],
    dataset: Path,
    chosen: tuple[str, int | None],
    nodes: pl.DataFrame,
    folder: Path,
    *,
    distributed: bool,
    jobs: int = 1,
) -> SessionStore:
    """The records of one iteration, taken in.

    Args:
        parts: parts of `log_events` that may hold records of the iteration, those of a source in their order.
        dataset: folder of the dataset.
        chosen: resource and iteration.
        nodes: rows of table `nodes` of the resource.
        folder: for the arrays that are spilled.
        distributed: the servers form a cluster.
        jobs: parts that are read at the same time.

    Raises:
        NotInOrder: the records must be sorted by session.
    """
    logs = _find_known_logs(parts, dataset, chosen)
    files = order_log_files(pl.DataFrame([log.of for log in logs], schema=LOG_PARTS))
    rows = sum(log.part.rows for log in logs)
    is_large = rows > IN_MEMORY
    if is_large:
        # Reading logs left free memory in the allocators, as much as is needed now in other sizes.
        release_free_memory()
    spill = partial(spill_arrays, folder, count()) if is_large else keep_in_memory
    records = SessionStore(files, nodes, distributed, spill, groups=1 + rows // PAIRED_RECORDS)
    # A few records are taken in sooner than threads start.
    ahead = int(rows > _TAKEN_AT_ONCE)
    numbers = dict(zip(files["source_id"], files["source"], strict=True))
    own = sorted(((numbers[log.of["source_id"]], log) for log in logs), key=itemgetter(0))
    with closing(prefetch_in_thread(_iterate_log_columns(dataset, own, chosen[1], jobs), "records", ahead)) as batches:
        records.consume(batches, ahead)
    if is_large:
        release_free_memory()
    return records


class _LogPart(NamedTuple):
    """A part that holds records of the iteration, the file that they come from, and these records if they are few."""

    part: ParquetPart
    of: Mapping[str, str | int | None]
    rows: pa.RecordBatch | None


def _find_known_logs(parts: Sequence[ParquetPart], dataset: Path, chosen: tuple[str, int | None]) -> list[_LogPart]:
    """The parts that hold records of the iteration."""
    resource, iteration = chosen
    few = sum(part.rows for part in parts) <= _TAKEN_AT_ONCE
    columns = [*_NAMED, *(USED if few else ["log_time"])]
    found = []
    for part in parts:
        rows = _select_iteration(_read(dataset, part, columns), iteration)
        if rows.num_rows:
            of = {name: rows.column(name)[0].as_py() for name in _NAMED} | {"resource": resource}
            found.append(_LogPart(part, of | {"first_time": _get_first_time(rows)}, rows if few else None))
    return found


def _get_first_time(rows: pa.RecordBatch) -> int | None:
    """The first time of some records (at least one), µs."""
    first = int(fill_null_integers(rows.column("log_time").cast("int64"), _NEVER).min())
    return None if first == _NEVER else first


def _iterate_log_columns(
    dataset: Path, logs: Sequence[tuple[int, _LogPart]], iteration: int | None, jobs: int
) -> Iterator[tuple[int, dict[str, pa.Array]]]:
    """Number of the source and columns of the records of some parts, some records at a time.

    Args:
        dataset: folder of the dataset.
        logs: numbers of sources and their parts, in order.
        iteration: the iteration of the records.
        jobs: parts that are read at the same time.
    """

    def read(one: tuple[int, _LogPart]) -> tuple[int, pa.RecordBatch]:
        source, log = one
        if log.rows is not None:
            return source, log.rows
        return source, _select_iteration(_read(dataset, log.part, ["iteration", *USED]), iteration)

    with closing(map_in_order(iter(logs), read, jobs, "parts")) as pieces:
        for source, rows in pieces:
            # Pieces of sessions end where rows do: small ones are as large as they are meant to be.
            for begin in range(0, rows.num_rows, _TAKEN_AT_ONCE):
                some = rows.slice(begin, _TAKEN_AT_ONCE)
                yield source, {name: some.column(name) for name in USED}


def _read(dataset: Path, part: ParquetPart, names: Sequence[str]) -> pa.RecordBatch:
    """Columns of a part in one piece."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Texts that name the file are the same in all rows, and dictionaries of them take a fraction of the time.
    categories = [name for name in names if _TABLE[name].type.is_category]
    texts = [name for name in names if name in _NAMED and _TABLE[name].type == TEXT]
    with pq.ParquetFile(locate_part(dataset, part), read_dictionary=[*categories, *texts]) as file:
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


def _select_iteration(rows: pa.RecordBatch, iteration: int | None) -> pa.RecordBatch:
    """The rows of an iteration; all that are given, most of the time."""
    own = rows.column("iteration")
    if iteration is None:
        return rows if own.null_count == len(own) else rows.filter(own.is_null())
    named = fill_null_integers(own, iteration - 1) == iteration
    # pyarrow's own constructor of the mask would import pandas.
    return rows if named.all() else rows.filter(pl.Series(named).to_arrow())


def spill_arrays(folder: Path, numbers: Iterator[int], arrays: Arrays) -> Restore:
    """Write arrays to files; they are removed when they are read for the last time."""
    number = next(numbers)
    files = {name: (folder / f"{number:06}-{name}", items.dtype) for name, items in arrays.items()}
    for name, items in arrays.items():
        items.tofile(files[name][0])
    return partial(_load_spilled_arrays, files)


def _load_spilled_arrays(files: dict[str, tuple[Path, np.dtype]], *, again: bool = False) -> Arrays:
    arrays = {name: np.fromfile(path, dtype) for name, (path, dtype) in files.items()}
    for path, _ in files.values() if not again else ():
        path.unlink()
    return arrays


# The records of one iteration sorted by session, group of sessions by group, so that not all records are in memory.
#
# Few records form one group and are read from their parts. Many records are divided by session into files of the
# staging folder; each file is removed once it has been read.

#: Records that are processed at once: some 100 MB with the frames built from them.
MOST_RECORDS: Final = 250_000
#: Records that are divided at once, at least; at most twice as many.
_BATCH: Final = MOST_RECORDS
#: Batches that are processed at the same time: they take as much memory as the groups do later.
_DIVIDERS: Final = 2

#: Name of an unknown node in traces.
_NODE: Final = pl.coalesce("node", "source_id")
_NAMES: Final = pl.col(pl.String).cast(pl.Categorical)


def consume_records_by_session(
    parts: Sequence[ParquetPart],
    scan: Callable[[Sequence[ParquetPart]], pl.LazyFrame],
    chosen: pl.Expr,
    nodes: pl.DataFrame,
    folder: Path,
    *,
    distributed: bool,
) -> SessionStore:
    """The records of one iteration, sorted by session and taken in.

    Args:
        parts: parts of `log_events` of one resource.
        scan: returns the rows of given parts.
        chosen: condition that selects the rows of the iteration.
        nodes: rows of `nodes` of the resource.
        folder: for files of groups, and for the arrays that are spilled.
        distributed: the servers form a cluster.
    """
    rows = sum(part.rows for part in parts)
    spill = partial(spill_arrays, folder, count()) if rows > IN_MEMORY else keep_in_memory
    files = list_log_files(*(scan([part]).filter(chosen) for part in parts))
    records = SessionStore(files, nodes, distributed, spill, groups=1 + rows // PAIRED_RECORDS)
    with TemporaryDirectory(prefix="groups-", dir=folder) as name:
        records.consume_sorted(_iterate_groups(parts, scan, chosen, nodes, Path(name)))
    if rows > IN_MEMORY:
        release_free_memory()
    return records


def _iterate_groups(
    parts: Sequence[ParquetPart],
    scan: Callable[[Sequence[ParquetPart]], pl.LazyFrame],
    chosen: pl.Expr,
    nodes: pl.DataFrame,
    folder: Path,
) -> Iterator[pl.DataFrame]:
    """The records of each group of sessions."""
    events = scan(parts).filter(chosen)
    if sum(part.rows for part in parts) <= MOST_RECORDS:
        yield events.collect()
        return
    backends = events.group_by(_NODE.alias("node"), "pid", "gpid").agg(records=pl.len()).collect()
    groups = group_sessions(backends.drop_nulls("pid"), nodes, MOST_RECORDS)
    if backends["records"].sum() <= MOST_RECORDS or groups.is_empty():
        # Records without a pid belong to no session. If none has a pid, the first ones show the files.
        yield events.head(MOST_RECORDS).collect()
        return
    divide = partial(_divide, chosen=chosen, groups=groups.cast({"node": pl.String}), folder=folder)
    for _ in map_in_order(enumerate(_iterate_batches(parts, scan)), divide, _DIVIDERS, "groups"):
        pass
    for group in range(groups["group"].n_unique()):
        yield _read_group(folder / str(group))


def _iterate_batches(
    parts: Sequence[ParquetPart], scan: Callable[[Sequence[ParquetPart]], pl.LazyFrame]
) -> Iterator[pl.LazyFrame]:
    """Batches of rows in their order: several small parts, or a slice of a large one."""
    held: list[ParquetPart] = []
    rows = 0
    for number, part in enumerate(parts, 1):
        held.append(part)
        rows += part.rows
        if rows < _BATCH and number < len(parts):
            continue
        slices = max(1, -(-rows // (2 * _BATCH)))
        size = -(-rows // slices)
        whole = scan(held)
        # Slices, because a streaming query reads ahead regardless of how slowly its batches are consumed.
        yield from (whole.slice(begin, size) for begin in range(0, rows, size)) if slices > 1 else [whole]
        held, rows = [], 0


def _divide(batch: tuple[int, pl.LazyFrame], *, chosen: pl.Expr, groups: pl.DataFrame, folder: Path) -> None:
    """Write the records of each group into a folder of its own, in files whose names sort as their records do."""
    number, rows = batch
    place = ["_node", "pid"]
    named = rows.filter(chosen).with_columns(_NODE.cast(pl.String).alias("_node"))
    placed = named.join(groups.lazy().rename({"node": "_node"}), on=place, how="left", maintain_order="left")
    # Each record without a process is a statement of its own, or none: any group may have them.
    group = pl.when(pl.col("pid").is_null()).then(0).otherwise("group")
    # Names are equal in all rows of a source; categories are cheaper to write and read.
    records = placed.drop("_node").with_columns(_NAMES, group=group).collect()
    for (of,), part in records.partition_by("group", as_dict=True, include_key=False).items():
        # Records without a group are left out.
        if of is not None:
            target = folder / str(of)
            target.mkdir(exist_ok=True)
            part.write_ipc_stream(target / f"{number:06}.arrows", compression="lz4")


def _read_group(folder: Path) -> pl.DataFrame:
    records = pl.concat([pl.read_ipc_stream(path) for path in sorted(folder.iterdir())])
    shutil.rmtree(folder)
    return records

"""The records of one iteration by groups of sessions, so that traces are built without all records in memory.

Few records form one group and are read from their parts. Many records are divided by session into files of the staging
folder; each file is removed once it has been read. Assembled sessions are kept there too until the clocks are known.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import polars as pl

from citus_analysis.core.threads import in_order
from citus_analysis.dataset.storage.manifest import Part

if TYPE_CHECKING:
    from citus_analysis.spans.read.sessions import Sessions

#: Records that are processed at once: some 100 MB with the frames built from them.
MOST_RECORDS: Final = 250_000
#: Records that are divided at once, at least; at most twice as many.
_BATCH: Final = MOST_RECORDS
#: Batches that are processed at the same time: they take as much memory as the groups do later.
_DIVIDERS: Final = 2

#: Name of an unknown node in traces.
_NODE: Final = pl.coalesce("node", "source_id")
_NAMES: Final = pl.col(pl.String).cast(pl.Categorical)


@dataclass(frozen=True)
class Groups:
    """The input of :func:`~citus_analysis.spans.trace_iteration`.

    Attributes:
        loads: functions that return the records of each group; each can be called once.
        keep: writes the sessions of a group to disk; None if they may stay in memory.
    """

    loads: Sequence[Callable[[], pl.DataFrame]]
    keep: Callable[[Sessions], Callable[[], Sessions]] | None = None


@contextmanager
def records_by_group(
    parts: Sequence[Part],
    scan: Callable[[Sequence[Part]], pl.LazyFrame],
    chosen: pl.Expr,
    nodes: pl.DataFrame,
    staging: Path,
) -> Iterator[Groups]:
    """The groups, within the context.

    Args:
        parts: parts of `log_events` of one resource.
        scan: returns the rows of given parts.
        chosen: condition that selects the rows of the iteration.
        nodes: rows of `nodes` of the resource.
        staging: an existing folder for files of groups.
    """
    events = scan(parts).filter(chosen)
    if sum(part.rows for part in parts) <= MOST_RECORDS:
        yield Groups([events.collect])
        return
    # Imported late, so that reading does not wait for the import of traces.
    from citus_analysis.spans.read.groups import group_sessions

    backends = events.group_by(_NODE.alias("node"), "pid", "gpid").agg(records=pl.len()).collect()
    groups = group_sessions(backends.drop_nulls("pid"), nodes, MOST_RECORDS)
    if backends["records"].sum() <= MOST_RECORDS or groups.is_empty():
        # Records without a pid belong to no session. If none has a pid, the first ones show the files.
        yield Groups([events.head(MOST_RECORDS).collect])
        return
    with TemporaryDirectory(prefix="groups-", dir=staging) as name:
        divide = partial(_divide, chosen=chosen, groups=groups.cast({"node": pl.String}), folder=Path(name))
        for _ in in_order(enumerate(_batches(parts, scan)), divide, _DIVIDERS, "groups"):
            pass
        loads = [partial(_group, Path(name) / str(group)) for group in range(groups["group"].n_unique())]
        yield Groups(loads, partial(_kept_in, Path(name), count()))


def _batches(parts: Sequence[Part], scan: Callable[[Sequence[Part]], pl.LazyFrame]) -> Iterator[pl.LazyFrame]:
    """Batches of rows in their order: several small parts, or a slice of a large one."""
    held: list[Part] = []
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


def _group(folder: Path) -> pl.DataFrame:
    records = pl.concat([pl.read_ipc_stream(path) for path in sorted(folder.iterdir())])
    shutil.rmtree(folder)
    return records


def _kept_in(folder: Path, numbers: Iterator[int], sessions: Sessions) -> Callable[[], Sessions]:
    """Write the sessions of a group to disk: a folder with a file for each of their frames."""
    files = {name: folder / f"sessions-{next(numbers)}-{name}.arrows" for name in vars(sessions)}
    for name, file in files.items():
        getattr(sessions, name).write_ipc_stream(file, compression="lz4")
    return lambda: type(sessions)(**{name: pl.read_ipc_stream(file) for name, file in files.items()})

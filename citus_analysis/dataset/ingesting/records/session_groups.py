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
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from citus_analysis.core.threads import in_order
from citus_analysis.dataset.storage.manifest import Part
from citus_analysis.spans.read.ordered_arrays import firsts

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
        divide = partial(_divide, chosen=chosen, membership=_Membership.of(groups), folder=Path(name))
        for _ in in_order(enumerate(_batches(parts, scan)), divide, _DIVIDERS, "groups"):
            pass
        loads = [partial(_group, Path(name) / str(group)) for group in range(groups["group"].n_unique())]
        yield Groups(loads, _Aside(Path(name)).keep)


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


@dataclass(frozen=True)
class _Membership:
    """The group of each backend; backends are sorted numbers that encode node and process."""

    backends: NDArray[np.int64]
    groups: NDArray[np.int32]

    @classmethod
    def of(cls, groups: pl.DataFrame) -> Self:
        """From `node`, `pid` and `group`."""
        backends = _backends(groups["node"].cast(pl.Categorical), groups["pid"])
        order = np.argsort(backends)
        return cls(backends[order], groups["group"].to_numpy()[order])

    def group(self, node: pl.Series, pid: pl.Series) -> NDArray[np.int32]:
        """The group of each record; -1 for a record without a group."""
        backends = _backends(node, pid)
        # A backend writes several records in a row, so few values are left to look up; a join would hash them all.
        begins = firsts(backends)
        heads = backends[begins]
        at = np.minimum(np.searchsorted(self.backends, heads), len(self.backends) - 1)
        found = np.where(self.backends[at] == heads, self.groups[at], np.int32(-1))
        # Each record without a process is a statement of its own, or none: any group may have them.
        found[heads == 0] = 0
        return np.repeat(found, np.diff(begins, append=len(backends)))


def _backends(node: pl.Series, pid: pl.Series) -> NDArray[np.int64]:
    """Node (a category) and process (32 bits) as one number; 0, which no backend has, where there is no process."""
    return ((node.to_physical().cast(pl.Int64) + 1) * 2**32 + pid).fill_null(0).to_numpy()


def _divide(batch: tuple[int, pl.LazyFrame], *, chosen: pl.Expr, membership: _Membership, folder: Path) -> None:
    """Write the records of each group into a folder of its own, in files whose names sort as their records do."""
    number, rows = batch
    # Names are equal in all rows of a source; categories are cheaper to write and read.
    records = rows.filter(chosen).with_columns(_NODE.cast(pl.Categorical).alias("_node"), _NAMES).collect()
    placed = records.drop("_node").with_columns(group=membership.group(records["_node"], records["pid"]))
    for (group,), part in placed.partition_by("group", as_dict=True, include_key=False).items():
        # Records without a group are left out.
        if group >= 0:
            target = folder / str(group)
            target.mkdir(exist_ok=True)
            part.write_ipc_stream(target / f"{number:06}.arrows", compression="lz4")


def _group(folder: Path) -> pl.DataFrame:
    records = pl.concat([pl.read_ipc_stream(path) for path in sorted(folder.iterdir())])
    shutil.rmtree(folder)
    return records


class _Aside:
    """Sessions on disk: a folder for each group with a file for each of its frames."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count()

    def keep(self, sessions: Sessions) -> Callable[[], Sessions]:
        """Write the sessions of a group to disk."""
        folder = self._folder / f"sessions-{next(self._numbers)}"
        folder.mkdir()
        frames: dict[str, pl.DataFrame] = vars(sessions)
        for name, frame in frames.items():
            frame.write_ipc_stream(_frame_file(folder, name), compression="lz4")
        return partial(_brought_back, type(sessions), folder, list(frames))


def _brought_back(kind: type[Sessions], folder: Path, frames: Sequence[str]) -> Sessions:
    return kind(**{name: pl.read_ipc_stream(_frame_file(folder, name)) for name in frames})


def _frame_file(folder: Path, name: str) -> Path:
    return folder / f"{name}.arrows"

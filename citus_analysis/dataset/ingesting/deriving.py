"""Derivations as tasks: of a whole resource, or of the pieces that its workers compute apart."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Final

import polars as pl

from citus_analysis.dataset.ingesting.derive import DERIVATIONS, Derivation, ResourceTables, stage_parts
from citus_analysis.dataset.ingesting.workers.pool import Pool
from citus_analysis.dataset.objects.object_store import Store
from citus_analysis.dataset.storage.manifest import DerivedState
from citus_analysis.dataset.storage.parts import Staged

#: Rows and resources that are computed at once, at most: as much as a worker holds anyway, and a fair share of many.
_MOST_ROWS: Final = 500_000
_MOST_TASKS: Final = 32

#: Input of a task that takes seconds.
_LARGE_BYTES: Final = 16 * 2**20
_BY_NAME = {derivation.name: derivation for derivation in DERIVATIONS}


@dataclass(frozen=True)
class DeriveTask:
    """A derivation of a resource, or a piece of it.

    Attributes:
        derivation: its name.
        tables: its input: the resource, or a part of its sources.
        key: state of the whole derivation.
        piece: name of the piece; empty if it is the whole.
    """

    derivation: str
    tables: ResourceTables
    key: str
    piece: str = ""

    @property
    def bytes(self) -> int:
        """Bytes of the files that are read."""
        return sum(part.bytes or 0 for part in self.tables.parts(*_BY_NAME[self.derivation].inputs))

    def state_with(self, staged: Iterable[Staged]) -> DerivedState:
        """The entry of the whole derivation, with its parts."""
        return DerivedState(self.tables.resource, self.derivation, self.key, tuple(item.part for item in staged))


def derive_task(store: Store, task: DeriveTask, jobs: int = 1) -> list[Staged]:
    """Compute a derivation, or a piece of it, into staged parts.

    Args:
        store: where its inputs are and the parts go.
        task: what is computed.
        jobs: threads that compute it, at most.
    """
    return derive_tasks(store, [task], jobs)[0]


def derive_tasks(store: Store, tasks: Sequence[DeriveTask], jobs: int = 1) -> list[list[Staged]]:
    """Compute one derivation, or the same piece of it, of several resources into staged parts of each.

    Args:
        store: where the inputs are and the parts go.
        tasks: what is computed.
        jobs: threads that compute it, at most.
    """
    derivation = _BY_NAME[tasks[0].derivation]
    with store.workspace([part for task in tasks for part in task.tables.parts(*derivation.inputs)]) as folder:
        resources = [(replace(task.tables, folder=folder), task.key) for task in tasks]
        return [store.sent(staged) for staged in stage_parts(derivation, resources, tasks[0].piece, jobs)]


def together(tasks: Iterable[DeriveTask]) -> list[list[DeriveTask]]:
    """The tasks in groups that are computed at once: those of a derivation that takes little longer for several.

    Example:
        >>> together([])
        []
    """
    groups: list[list[DeriveTask]] = []
    rows = 0
    for task in tasks:
        derivation, group = _BY_NAME[task.derivation], groups[-1] if groups else []
        own = derivation.input_rows(task.tables)
        is_like = derivation.together and group and group[0].derivation == task.derivation
        if is_like and rows + own <= _MOST_ROWS and len(group) < _MOST_TASKS:
            group.append(task)
            rows += own
        else:
            groups.append([task])
            rows = own
    return groups


def derived_by_pieces(
    store: Store, pool: Pool, outdated: Iterable[tuple[Derivation, ResourceTables]]
) -> Iterator[tuple[DerivedState, list[Staged]]]:
    """Compute derivations by the workers of a cluster; each comes when all of its pieces are there."""
    tasks = [task for derivation, tables in outdated for task in pieces_of(derivation, tables)]
    missing = Counter(map(_whole, tasks))
    done: dict[tuple[str, str], dict[str, list[Staged]]] = defaultdict(dict)
    # Where there are fewer large tasks than workers, each may use the processors of idle ones.
    large = sum(task.bytes >= _LARGE_BYTES for task in tasks)
    derive = partial(derive_task, store, jobs=max(1, pool.jobs // max(1, large)))
    for task, staged in pool.spread(derive, tasks, attrgetter("bytes")):
        pieces = done[_whole(task)]
        pieces[task.piece] = staged
        if len(pieces) == missing[_whole(task)]:
            ordered = [item for piece in sorted(pieces) for item in pieces[piece]]
            yield task.state_with(ordered), ordered


def _whole(task: DeriveTask) -> tuple[str, str]:
    return task.tables.resource, task.derivation


def pieces_of(derivation: Derivation, tables: ResourceTables) -> list[DeriveTask]:
    """The pieces that a derivation can be computed in: traces by iteration.

    Records of different iterations have nothing in common. Where a log names no iteration, which of its records belong
    to one is only known from the records; where no catalogue shows that the servers form a cluster, the records of all
    iterations are needed to decide that. Such a resource is one piece.
    """
    key = derivation.state_key(tables)
    logs = [source for source in tables.sources if any(part.table == "log_events" for part in source.parts)]
    iterations = {source.iteration for source in logs}
    is_one = derivation.name != "traces" or None in iterations or len(iterations) < 2
    if is_one or tables.scan("nodes").select(pl.col("nodeid").is_null().all()).collect().item():
        return [DeriveTask(derivation.name, tables, key)]
    held = {source.source_id for source in logs}
    others = tuple(source for source in tables.sources if source.source_id not in held)
    return [
        DeriveTask(derivation.name, replace(tables, sources=(*others, *own)), key, f"-i{iteration}")
        for iteration in sorted(iterations, key=str)
        if (own := tuple(source for source in logs if source.iteration == iteration))
    ]

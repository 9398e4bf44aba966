"""Large logs read in stretches by the workers of a cluster.

The places of the cuts are found where the file is recognised. Each stretch is a task with parts of its own, and a
source is committed when all of its stretches are read. Where a stretch cannot be read apart from the others (details
whose record is far before it, a file that cannot be read to its end) the source is read once more in one piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import Final

from citus_analysis.dataset.ingesting.read_source import Outcome, stage_rows
from citus_analysis.dataset.ingesting.task import Task
from citus_analysis.dataset.ingesting.work import read_task, stem_of
from citus_analysis.dataset.ingesting.workers.pool import Pool
from citus_analysis.dataset.objects.object_store import Store
from citus_analysis.dataset.storage.parts import PartWriter, Staged
from citus_analysis.formats import Content, Hints, Parsed
from citus_analysis.formats.api.cuttable import CuttableFormat, Seam
from citus_analysis.formats.api.log_coverage import LogCoverage

#: Lengths of a stretch: reading one takes a part of a second at least, so that handing it out is a small part of that.
_LEAST_BYTES: Final = 16 * 2**20
_MOST_BYTES: Final = 128 * 2**20
#: Stretches for each worker, so that none waits long for the last.
_SHARES: Final = 4
#: Numbers of an outcome that are sums over the stretches.
_ADDED: Final = ("content_bytes", "parsed_bytes", "noise_bytes", "rejected_bytes", "rejected")


def stretch_bytes(total: int, workers: int) -> int:
    """Length of the stretches that large files are cut into.

    Args:
        total: bytes of all files.
        workers: number of workers.

    Example:
        >>> stretch_bytes(10**9, 4), stretch_bytes(10**12, 4)
        (62500000, 134217728)
    """
    return min(_MOST_BYTES, max(_LEAST_BYTES, total // (_SHARES * workers)))


@dataclass(frozen=True)
class Stretch:
    """A task: a stretch of a source, or the whole of it.

    Attributes:
        task: the source.
        begin: offset of its first byte.
        end: offset after its last; None: all of the source, in one piece.
        number: of the stretch among those of the source.
        first: read only rows that are counted through the source, of which so many come before; None: all others.
    """

    task: Task
    begin: int = 0
    end: int | None = None
    number: int = 0
    first: int | None = None

    @property
    def bytes(self) -> int:
        """Bytes to be read."""
        return self.task.bytes if self.end is None else self.end - self.begin


@dataclass(frozen=True)
class _Apart:
    """Parses a stretch: its rows without those that are counted, or only these."""

    format: CuttableFormat
    seam: Seam
    first: int | None

    @property
    def name(self) -> str:
        return self.format.name

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        if self.first is None:
            return self.format.parse_stretch(content, hints, self.seam)
        return self.format.parse_numbered(content, hints, self.first)


def read_stretch(store: Store, stretch: Stretch) -> tuple[Outcome, Seam]:
    """Read a stretch of a source, or the whole of it, into staged parts.

    Args:
        store: where the parts go.
        stretch: the bytes to read.
    """
    seam, task = Seam(), stretch.task
    if stretch.end is None:
        return read_task(store, task), seam
    parser = _Apart(_format_of(task), seam, stretch.first)
    name = f"-s{stretch.number:05}{'' if stretch.first is None else '-numbered'}"
    return read_task(store, task, parser=parser, begin=stretch.begin, end=stretch.end, name=name), seam


def _format_of(task: Task) -> CuttableFormat:
    assert isinstance(task.file.format, CuttableFormat)  # noqa: S101 - no other has cuts
    return task.file.format


def read_in_stretches(
    store: Store, pool: Pool, tasks: Iterable[Task], on_bytes: Callable[[int], None]
) -> Iterator[tuple[Task, Outcome]]:
    """Read sources by the workers of a cluster; each comes when all of its stretches are read.

    Args:
        store: where the parts go.
        pool: the workers.
        tasks: the sources.
        on_bytes: called with the number of bytes that were read.
    """
    wholes = {task.file.source_id: _Gathered(task) for task in tasks}
    stretches = [stretch for whole in wholes.values() for stretch in whole.stretches]
    while stretches:
        again: list[Stretch] = []
        for stretch, (outcome, seam) in pool.spread(partial(read_stretch, store), stretches, attrgetter("bytes")):
            whole = wholes[stretch.task.file.source_id]
            # One that was planned, and none that is read once more.
            if stretch in whole.stretches:
                on_bytes(stretch.bytes)
            more = whole.add(stretch, outcome, seam)
            if more is None:
                yield whole.task, whole.outcome(store)
            else:
                again += more
        stretches = again


@dataclass
class _Gathered:
    """A source, as far as its stretches are read."""

    task: Task
    stretches: list[Stretch] = field(init=False)
    _read: dict[int, tuple[Outcome, Seam]] = field(default_factory=dict)
    _numbered: list[Outcome] = field(default_factory=list)
    _left: int = 0

    def __post_init__(self) -> None:
        ends = enumerate(pairwise((0, *self.task.file.cuts, self.task.bytes)))
        cut = [Stretch(self.task, begin, end, number) for number, (begin, end) in ends]
        self.stretches = cut if self.task.file.cuts else [Stretch(self.task)]
        self._left = len(self.stretches)

    def add(self, stretch: Stretch, outcome: Outcome, seam: Seam) -> list[Stretch] | None:
        """Add a result; return the stretches still to be read, None if it was the last."""
        self._left -= 1
        if stretch.first is None:
            self._read[stretch.number] = outcome, seam
        else:
            self._numbered.append(outcome)
        if self._left:
            return []
        more = [] if stretch.end is None else self._further()
        self._left = len(more)
        return more or None

    def _further(self) -> list[Stretch]:
        outcomes, seams = self._in_order()
        if not all(seam.alone for seam in seams) or any(one.problem for one in (*outcomes, *self._numbered)):
            self._read.clear()
            self._numbered.clear()
            return [Stretch(self.task)]
        before, more = 0, []
        for stretch, seam in zip(self.stretches, seams, strict=True):
            if seam.numbered and not self._numbered:
                more.append(replace(stretch, first=before))
            before += seam.numbered
        return more

    def _in_order(self) -> tuple[list[Outcome], list[Seam]]:
        """What was read of each stretch, in the order of the source."""
        read = [self._read[number] for number in sorted(self._read)]
        return [outcome for outcome, _ in read], [seam for _, seam in read]

    def outcome(self, store: Store) -> Outcome:
        """The result of the whole source."""
        outcomes, seams = self._in_order()
        if len(outcomes) == 1:
            return outcomes[0]
        staged = [item for outcome in (*outcomes, *self._numbered) for item in outcome.staged]
        staged += _together(store, self.task, seams)
        return replace(
            outcomes[0],
            # Parts of a table in the order of the source.
            staged=sorted(staged, key=lambda item: (item.part.table, item.part.path)),
            note=next((outcome.note for outcome in outcomes if outcome.note), None),
            coverage=sum((one.coverage for one in outcomes if one.coverage), LogCoverage()),
            **{name: sum(getattr(outcome, name) for outcome in outcomes) for name in _ADDED},
        )


def _together(store: Store, task: Task, seams: Sequence[Seam]) -> list[Staged]:
    """Staged parts of the rows that follow from all stretches."""
    stem, resource = f"{stem_of(task)}-together", task.file.identity.resource
    with store.workspace() as folder, PartWriter(folder, resource, stem) as writer:
        for piece in _format_of(task).parse_together(seams):
            stage_rows(writer, piece, task.tagger.tagged, task.file.path)
        return store.sent(writer.finish())

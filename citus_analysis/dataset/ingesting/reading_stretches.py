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
from citus_analysis.dataset.ingesting.work import WHOLE, Span, read_task, stem_of
from citus_analysis.dataset.ingesting.workers.pool import Pool
from citus_analysis.dataset.storage.parts import PartWriter, Staged
from citus_analysis.dataset.storage.store import Store
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
        span: which bytes; :data:`WHOLE`: all, in one piece.
        number: of the stretch among those of the source.
        first: read only rows that are counted through the source, of which so many come before; None: all others.
    """

    task: Task
    span: Span = WHOLE
    number: int = 0
    first: int | None = None

    @property
    def bytes(self) -> int:
        """Bytes to be read."""
        return self.task.bytes if self.span == WHOLE else self.span.length


@dataclass(frozen=True)
class _Read:
    """The result of a stretch."""

    outcome: Outcome
    seam: Seam


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


def read_stretch(store: Store, stretch: Stretch) -> _Read:
    """Read a stretch of a source, or the whole of it, into staged parts.

    Args:
        store: where the parts go.
        stretch: the bytes to read.
    """
    seam = Seam()
    if stretch.span == WHOLE:
        return _Read(read_task(store, stretch.task), seam)
    parser = _Apart(_format_of(stretch.task), seam, stretch.first)
    name = f"-s{stretch.number:05}{'' if stretch.first is None else '-numbered'}"
    return _Read(read_task(store, stretch.task, parser=parser, span=stretch.span, name=name), seam)


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
        for stretch, read in pool.spread(partial(read_stretch, store), stretches, attrgetter("bytes")):
            whole = wholes[stretch.task.file.source_id]
            if whole.counts(stretch):
                on_bytes(stretch.bytes)
            more = whole.add(stretch, read)
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
    _read: dict[int, _Read] = field(default_factory=dict)
    _numbered: list[Outcome] = field(default_factory=list)
    _left: int = 0

    def __post_init__(self) -> None:
        cuts, end = self.task.file.cuts, self.task.bytes
        spans = [Span(*ends) for ends in pairwise((0, *cuts, end))] if cuts else [WHOLE]
        self.stretches = [Stretch(self.task, span, number) for number, span in enumerate(spans)]
        self._left = len(self.stretches)

    def counts(self, stretch: Stretch) -> bool:
        """Whether a stretch is one of those that were planned, and none that is read once more."""
        return stretch in self.stretches

    def add(self, stretch: Stretch, read: _Read) -> list[Stretch] | None:
        """Add a result; return the stretches still to be read, None if it was the last."""
        self._left -= 1
        if stretch.first is None:
            self._read[stretch.number] = read
        else:
            self._numbered.append(read.outcome)
        if self._left:
            return []
        more = [] if stretch.span == WHOLE else self._further()
        self._left = len(more)
        return more or None

    def _further(self) -> list[Stretch]:
        complete = all(read.seam.alone for read in self._reads)
        if not complete or any(outcome.problem for outcome in self._outcomes):
            self._read.clear()
            self._numbered.clear()
            return [Stretch(self.task)]
        before, more = 0, []
        for stretch, read in zip(self.stretches, self._reads, strict=True):
            if read.seam.numbered and not self._numbered:
                more.append(replace(stretch, first=before))
            before += read.seam.numbered
        return more

    @property
    def _reads(self) -> list[_Read]:
        return [self._read[number] for number in sorted(self._read)]

    @property
    def _outcomes(self) -> list[Outcome]:
        return [*(read.outcome for read in self._reads), *self._numbered]

    def outcome(self, store: Store) -> Outcome:
        """The result of the whole source."""
        outcomes = [read.outcome for read in self._reads]
        if len(outcomes) == 1:
            return outcomes[0]
        staged = [item for outcome in self._outcomes for item in outcome.staged]
        staged += _together(store, self.task, [read.seam for read in self._reads])
        return replace(
            outcomes[0],
            # Parts of a table in the order of the source.
            staged=sorted(staged, key=lambda item: (item.part.table, item.part.path)),
            first_reject=next((outcome.first_reject for outcome in outcomes if outcome.first_reject), None),
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

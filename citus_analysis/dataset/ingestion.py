"""Bring a dataset up to date with raw files."""

from __future__ import annotations

import os
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain, compress, pairwise
from operator import attrgetter
from pathlib import Path
from threading import Lock
from typing import Final

import polars as pl

from citus_analysis.core.parallel import count_usable_cpus
from citus_analysis.dataset.advice import write_advice
from citus_analysis.dataset.derive import (
    DERIVATIONS,
    DOUBTED_FROM,
    Derivation,
    ResourceTables,
    find_doubtful_runs,
    find_duplicate_clients,
    group_by_resource,
    list_known_runs,
    stage_doubtful_runs,
    stage_parts,
)
from citus_analysis.dataset.digests import digest
from citus_analysis.dataset.foreign_files import find_conversion_hint
from citus_analysis.dataset.identity import convert_facts
from citus_analysis.dataset.manifest import BESIDE_OWN, DerivedState, Manifest, ParquetPart, SourceState
from citus_analysis.dataset.objects import Store, store_at
from citus_analysis.dataset.outdated import mark_if_current
from citus_analysis.dataset.parts import PartWriter, StagedPart, build_part_folder
from citus_analysis.dataset.read_source import ReadOutcome, Task, stage_rows
from citus_analysis.dataset.recognise import (
    Remembered,
    apply_study_design,
    describe_copies,
    drop_summary_files,
    explain_unrecognised_file,
    find_duplicates,
    hash_format_registry,
    join_logs,
    mark_copies,
    name_sources,
    recognise,
)
from citus_analysis.dataset.resource_folders import Identifier
from citus_analysis.dataset.run_windows import KnownRun, assign
from citus_analysis.dataset.source_files import SourceFile
from citus_analysis.dataset.store import FolderStore
from citus_analysis.dataset.study_design import FileDesign
from citus_analysis.dataset.walk import (
    MANIFEST_NAME,
    display,
    find_file_at,
    is_there,
    outline_url_sources,
    read_size_and_time,
    unpack_archives,
    walk_outlined_paths,
)
from citus_analysis.dataset.work import make_file_stem, read_task, recognise_task
from citus_analysis.dataset.workers import Pool, batch_by_time
from citus_analysis.errors import InputError, UsageError
from citus_analysis.formats import Content, Format, Hints, Parsed, format_named, formats
from citus_analysis.formats.deliveries.delivery import Delivery
from citus_analysis.formats.parsing.cuttable import CuttableFormat, Seam
from citus_analysis.formats.parsing.log_coverage import LogCoverage
from citus_analysis.redaction import redact
from citus_analysis.texts.names import is_url
from citus_analysis.texts.words import choose_noun_form, pluralize

# Progress and summary of an ingest.

#: Number of unrecognised files that are named in the summary.
_FEW_SHOWN: Final = 5


@dataclass(frozen=True)
class Progress:
    """Progress of an ingest.

    Attributes:
        stage: `scan` (hashing and detecting), `read` (parsing) or `derive`.
        done: bytes (scan, read) or resources (derive) so far.
        total: total number of bytes or resources.
    """

    stage: str
    done: int
    total: int


ProgressCallback = Callable[[Progress], None]


@dataclass(frozen=True)
class IngestSummary:
    """The work done by an ingest, and the resulting state of the dataset.

    Attributes:
        files: files found below the sources.
        read: files that were parsed in this pass.
        unchanged: files whose rows were up to date already.
        unrecognised: files that no format recognised; they are listed in `sources` with a null format. Those that
            state facts about others (`runs.csv`, `identity.yml`) are none of them.
        duplicates: files whose content another file has already contributed.
        rejected: rows of these files in `rejects`, including those of an earlier pass.
        failed: files that could not be read to their end.
        conflicts: load generators of a run that more than one file claims to be.
        derived: resources whose derived tables were recomputed.
        rows: rows per table of the whole dataset.
        messages: one line per problem.
        unrecognised_files: (path, reason) of each file that no format recognised.
        prefixes: one line for each prefix of server logs that was inferred.
        unread: one line for each server log of which much was not understood, and for files without any result.
        design: what was read off names and times of files, and what contradicts it, one line each.
        copies: one line for each measurement that several files hold.
        hints: one line for each file or fact whose addition would allow more results.
    """

    files: int
    read: int
    unchanged: int
    unrecognised: int
    duplicates: int
    rejected: int
    failed: int
    conflicts: int
    derived: int
    rows: Mapping[str, int] = field(default_factory=dict)
    messages: tuple[str, ...] = ()
    unrecognised_files: tuple[tuple[str, str], ...] = ()
    prefixes: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    design: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """Notes that are not problems: some of the unrecognised files, and hints."""
        files = [f"{path}: not recognised: {reason}" for path, reason in self.unrecognised_files[:_FEW_SHOWN]]
        rest = len(self.unrecognised_files) - len(files)
        more = [f"... and {rest} more that were not recognised (all: --json)"] if rest else []
        return (*files, *more, *self.prefixes, *self.unread, *self.design, *self.copies, *self.hints)

    @property
    def exit_code(self) -> int:
        """0: all well; 1: something is rejected, failed or in conflict; 3: nothing could be read."""
        if self.failed and self.failed >= self.files - self.unrecognised - self.duplicates:
            return 3
        return 1 if self.failed or self.rejected or self.conflicts else 0

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        files = [{"path": path, "reason": reason} for path, reason in self.unrecognised_files]
        lists = {name: list(value) for name, value in vars(self).items() if isinstance(value, tuple)}
        return asdict(self) | lists | {"unrecognised_files": files, "exit_code": self.exit_code}

    def __str__(self) -> str:
        """One line."""
        counts = [f"{self.read} read", f"{self.unchanged} unchanged"]
        optional = {
            "not recognised": self.unrecognised,
            "duplicate": self.duplicates,
            "failed": self.failed,
            "in conflict": self.conflicts,
            f"{choose_noun_form(self.rejected, 'part')} rejected": self.rejected,
        }
        rows = pluralize(sum(self.rows.values()), "row")
        counts += [f"{count} {what}" for what, count in optional.items() if count]
        return f"{pluralize(self.files, 'file')}: {', '.join(counts)}; {rows} in {pluralize(len(self.rows), 'table')}"


# What an ingest says about server logs: their prefixes that were inferred, and what was not understood.

_COMPARE = "compare with SHOW log_line_prefix"


def write_prefix_notes(states: Iterable[SourceState]) -> list[str]:
    """One line for each inferred prefix; of one with fields that are not decided, with the option to state it.

    Args:
        states: the sources of an ingest.
    """
    found = Counter(
        (state.read_as["log_line_prefix"], state.read_as.get("log_line_prefix_undecided"))
        for state in states
        if state.read_as.get("log_line_prefix_origin") == "inferred"
    )
    return [_note(logs, prefix, undecided) for (prefix, undecided), logs in sorted(found.items(), key=str)]


def _note(logs: int, prefix: str, undecided: str | None) -> str:
    said = f"{pluralize(logs, 'server log')}: log_line_prefix {prefix!r} (inferred)"
    if undecided is None:
        return f"{said}; {_COMPARE}"
    option = shlex.quote(f"log_line_prefix={prefix}")
    hint = f"{_COMPARE} and state it, with an escape for each %?: --meta {option}"
    return f"{said}; ambiguous and therefore without a column: {undecided}; {hint}"


def write_coverage_notes(states: Iterable[SourceState]) -> list[str]:
    """One line for each server log of which much was not understood.

    Args:
        states: the sources of an ingest.
    """
    return [f"{state.path}: {state.read_as['log_unread']}" for state in states if "log_unread" in state.read_as]


def write_empty_notes(states: Iterable[SourceState]) -> list[str]:
    """What files without any result have instead: a head, headings, a table without rows.

    Args:
        states: the sources of an ingest.
    """
    found: dict[str, list[str]] = {}
    of = formats()
    for state in states:
        if state.format in of and not (state.problem or state.rejected or state.rows):
            found.setdefault(state.format, []).append(state.path)
    return [
        f"{paths[0] if len(paths) == 1 else f'{len(paths)} files such as {paths[0]}'}: read as {name}, without any "
        f"result: nothing but {of[name].noise}"
        for name, paths in found.items()
    ]


# Derivations as tasks: of a whole resource, or of the pieces that its workers compute apart.

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

    def state_with(self, staged: Iterable[StagedPart]) -> DerivedState:
        """The entry of the whole derivation, with its parts."""
        return DerivedState(self.tables.resource, self.derivation, self.key, tuple(item.part for item in staged))


def derive_task(store: Store, task: DeriveTask, jobs: int = 1) -> list[StagedPart]:
    """Compute a derivation, or a piece of it, into staged parts.

    Args:
        store: where its inputs are and the parts go.
        task: what is computed.
        jobs: threads that compute it, at most.
    """
    return derive_tasks(store, [task], jobs)[0]


def derive_tasks(store: Store, tasks: Sequence[DeriveTask], jobs: int = 1) -> list[list[StagedPart]]:
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


def group_derive_tasks(tasks: Iterable[DeriveTask]) -> list[list[DeriveTask]]:
    """The tasks in groups that are computed at once: those of a derivation that takes little longer for several.

    Example:
        >>> group_derive_tasks([])
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


def derive_by_pieces(
    store: Store, pool: Pool, outdated: Iterable[tuple[Derivation, ResourceTables]]
) -> Iterator[tuple[DerivedState, list[StagedPart]]]:
    """Compute derivations by the workers of a cluster; each comes when all of its pieces are there."""
    tasks = [task for derivation, tables in outdated for task in split_derivation(derivation, tables)]
    missing = Counter(map(_get_derivation_key, tasks))
    done: dict[tuple[str, str], dict[str, list[StagedPart]]] = defaultdict(dict)
    # Where there are fewer large tasks than workers, each may use the processors of idle ones.
    large = sum(task.bytes >= _LARGE_BYTES for task in tasks)
    derive = partial(derive_task, store, jobs=max(1, pool.jobs // max(1, large)))
    for task, staged in pool.spread(derive, tasks, attrgetter("bytes")):
        pieces = done[_get_derivation_key(task)]
        pieces[task.piece] = staged
        if len(pieces) == missing[_get_derivation_key(task)]:
            ordered = [item for piece in sorted(pieces) for item in pieces[piece]]
            yield task.state_with(ordered), ordered


def _get_derivation_key(task: DeriveTask) -> tuple[str, str]:
    return task.tables.resource, task.derivation


def split_derivation(derivation: Derivation, tables: ResourceTables) -> list[DeriveTask]:
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


# Large logs read in splits by the workers of a cluster.
#
# The places of the cuts are found where the file is recognised. Each split is a task with parts of its own, and a
# source is committed when all of its splits are read. Where a split cannot be read apart from the others (details
# whose record is far before it, a file that cannot be read to its end) the source is read once more in one piece.

#: Lengths of a split: reading one takes a part of a second at least, so that handing it out is a small part of that.
_LEAST_BYTES: Final = 16 * 2**20
_MOST_BYTES: Final = 128 * 2**20
#: Splits for each worker, so that none waits long for the last.
_SHARES: Final = 4
#: Numbers of an outcome that are sums over the splits.
_ADDED: Final = ("content_bytes", "parsed_bytes", "noise_bytes", "rejected_bytes", "rejected")


def choose_split_bytes(total: int, workers: int) -> int:
    """Length of the splits that large files are cut into.

    Args:
        total: bytes of all files.
        workers: number of workers.

    Example:
        >>> choose_split_bytes(10**9, 4), choose_split_bytes(10**12, 4)
        (62500000, 134217728)
    """
    return min(_MOST_BYTES, max(_LEAST_BYTES, total // (_SHARES * workers)))


@dataclass(frozen=True)
class SourceSplit:
    """A task: a split of a source, or the whole of it.

    Attributes:
        task: the source.
        begin: offset of its first byte.
        end: offset after its last; None: all of the source, in one piece.
        number: of the split among those of the source.
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
    """Parses a split: its rows without those that are counted, or only these."""

    format: CuttableFormat
    seam: Seam
    first: int | None

    @property
    def name(self) -> str:
        return self.format.name

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        if self.first is None:
            return self.format.parse_split(content, hints, self.seam)
        return self.format.parse_numbered(content, hints, self.first)


def read_split(store: Store, split: SourceSplit) -> tuple[ReadOutcome, Seam]:
    """Read a split of a source, or the whole of it, into staged parts.

    Args:
        store: where the parts go.
        split: the bytes to read.
    """
    seam, task = Seam(), split.task
    if split.end is None:
        return read_task(store, task), seam
    parser = _Apart(_get_cuttable_format(task), seam, split.first)
    name = f"-s{split.number:05}{'' if split.first is None else '-numbered'}"
    return read_task(store, task, parser=parser, begin=split.begin, end=split.end, name=name), seam


def _get_cuttable_format(task: Task) -> CuttableFormat:
    assert isinstance(task.file.format, CuttableFormat)  # noqa: S101 - no other has cuts
    return task.file.format


def read_in_splits(
    store: Store, pool: Pool, tasks: Iterable[Task], on_bytes: Callable[[int], None]
) -> Iterator[tuple[Task, ReadOutcome]]:
    """Read sources by the workers of a cluster; each comes when all of its splits are read.

    Args:
        store: where the parts go.
        pool: the workers.
        tasks: the sources.
        on_bytes: called with the number of bytes that were read.
    """
    wholes = {task.file.source_id: _Gathered(task) for task in tasks}
    splits = [split for whole in wholes.values() for split in whole.splits]
    while splits:
        again: list[SourceSplit] = []
        for split, (outcome, seam) in pool.spread(partial(read_split, store), splits, attrgetter("bytes")):
            whole = wholes[split.task.file.source_id]
            # One that was planned, and none that is read once more.
            if split in whole.splits:
                on_bytes(split.bytes)
            more = whole.add(split, outcome, seam)
            if more is None:
                yield whole.task, whole.outcome(store)
            else:
                again += more
        splits = again


@dataclass
class _Gathered:
    """A source, as far as its splits are read."""

    task: Task
    splits: list[SourceSplit] = field(init=False)
    _read: dict[int, tuple[ReadOutcome, Seam]] = field(default_factory=dict)
    _numbered: list[ReadOutcome] = field(default_factory=list)
    _left: int = 0

    def __post_init__(self) -> None:
        ends = enumerate(pairwise((0, *self.task.file.cuts, self.task.bytes)))
        cut = [SourceSplit(self.task, begin, end, number) for number, (begin, end) in ends]
        self.splits = cut if self.task.file.cuts else [SourceSplit(self.task)]
        self._left = len(self.splits)

    def add(self, split: SourceSplit, outcome: ReadOutcome, seam: Seam) -> list[SourceSplit] | None:
        """Add a result; return the splits still to be read, None if it was the last."""
        self._left -= 1
        if split.first is None:
            self._read[split.number] = outcome, seam
        else:
            self._numbered.append(outcome)
        if self._left:
            return []
        more = [] if split.end is None else self._further()
        self._left = len(more)
        return more or None

    def _further(self) -> list[SourceSplit]:
        outcomes, seams = self._in_order()
        if not all(seam.alone for seam in seams) or any(one.problem for one in (*outcomes, *self._numbered)):
            self._read.clear()
            self._numbered.clear()
            return [SourceSplit(self.task)]
        before, more = 0, []
        for split, seam in zip(self.splits, seams, strict=True):
            if seam.numbered and not self._numbered:
                more.append(replace(split, first=before))
            before += seam.numbered
        return more

    def _in_order(self) -> tuple[list[ReadOutcome], list[Seam]]:
        """What was read of each split, in the order of the source."""
        read = [self._read[number] for number in sorted(self._read)]
        return [outcome for outcome, _ in read], [seam for _, seam in read]

    def outcome(self, store: Store) -> ReadOutcome:
        """The result of the whole source."""
        outcomes, seams = self._in_order()
        if len(outcomes) == 1:
            return outcomes[0]
        staged = [item for outcome in (*outcomes, *self._numbered) for item in outcome.staged]
        staged += _merge_seams(store, self.task, seams)
        return replace(
            outcomes[0],
            # Parts of a table in the order of the source.
            staged=sorted(staged, key=lambda item: (item.part.table, item.part.path)),
            note=next((outcome.note for outcome in outcomes if outcome.note), None),
            coverage=sum((one.coverage for one in outcomes if one.coverage), LogCoverage()),
            **{name: sum(getattr(outcome, name) for outcome in outcomes) for name in _ADDED},
        )


def _merge_seams(store: Store, task: Task, seams: Sequence[Seam]) -> list[StagedPart]:
    """Staged parts of the rows that follow from all splits."""
    stem, resource = f"{make_file_stem(task)}-together", task.file.identity.resource
    with store.workspace() as folder, PartWriter(folder, resource, stem) as writer:
        for piece in _get_cuttable_format(task).parse_together(seams):
            stage_rows(writer, piece, task.tagger.tag_piece, task.file.path)
        return store.sent(writer.finish())


#: Threads that read one file, and as many that write its rows: each holds tens of megabytes.
_MOST_THREADS: Final = 8

#: A file of at least this size on disk is read alone, with all threads.
BIG_BYTES: Final = 32 * 2**20

#: Interval between commits of finished sources, in seconds; a killed process loses at most this much work.
_BATCH_SECONDS: Final = 1.0

#: Files that are hashed and recognised at once: each takes a millisecond or two.
_RECOGNISED_AT_ONCE: Final = 16

#: Small sources that are read at once: handing one over takes as long as reading it.
_READ_AT_ONCE: Final = 6

#: Names of this many problems are enough for a message; the rest is in `sources` and `rejects`.
_FEW: Final = 3

Source = str | os.PathLike[str]


def ingest(
    sources: Source | Iterable[Source],
    out: Source,
    *,
    jobs: int | None = None,
    format: str | None = None,  # noqa: A002 - the word of the command line
    meta: Mapping[str, str] | None = None,
    strict: bool = False,
    cluster: str | None = None,
    progress: ProgressCallback | None = None,
) -> IngestSummary:
    """Read raw files into a dataset; files whose content and identity did not change are not read again.

    The process can be killed at any moment: each source is then in its previous or its new state, and the next
    ingest completes the rest. The rows do not depend on `jobs`. Rows of files that no longer exist are kept.

    Args:
        sources: files and folders, or their URLs.
        out: folder of the dataset, or URL of a place on an object store (`s3://bucket/out`); created if it does not
            exist.
        jobs: threads; default: all cores that the process may use.
        format: read every file as this format instead of recognising it (`config.yml` and the catalogue
            extracts keep their meaning).
        meta: facts about all files, such as `{"resource": "V3", "phase": "run"}`; they win over names.
        strict: leave the dataset unchanged if anything is rejected.
        cluster: `local:N` for N processes of Dask on this machine, or the address of a Dask scheduler, whose workers
            see the same files; None: threads of this process.
        progress: called repeatedly with the progress made.

    Returns:
        Summary of the work, with the exit code.

    Raises:
        InputError: a source does not exist, no file is usable, or (strict) something was rejected.
        DatasetError: `out` is no dataset, another ingest is writing to it, or it cannot be written (a full disk).
        UnknownNameError: the format, or a fact in `meta`, does not exist.
        UsageError: a fact has an invalid value, or `jobs` is less than one.
    """
    if jobs is not None and jobs < 1:
        raise UsageError(f"jobs must be at least 1, not {jobs}")
    given = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    forced = None if format is None else format_named(format)
    identifier = Identifier(convert_facts({k: str(v) for k, v in (meta or {}).items()}, "meta"))
    store = store_at(out, apart=cluster is not None)
    folders = [Path(source) for source in given if not is_url(source)]
    if isinstance(store, FolderStore):
        _require_apart(folders, store.folder)
    with (
        outline_url_sources(given) as (paths, origins),
        _open_worker_pool(jobs, cluster, [*folders, *_list_store_folders(store)]) as pool,
        unpack_archives(walk_outlined_paths(paths, origins)) as found,
    ):
        gauge = _Gauge(progress)
        known = store.load()
        pool.start_processes(len(found.files) - len(known.sources))
        files = [identifier.identify(file) for file in found.files]
        plan = _recognise_files(files, forced, known, pool, gauge)
        if not any(item.format for item in plan):
            raise _make_unusable_error(given, plan, found.problems)
        with store.writable(known, pool.halt) as manifest:
            problems = [f"{path}: {reason}" for path, reason in found.problems]
            hints = identifier.list_ignored_labels()
            return _IngestPass(manifest, store, pool, gauge, problems, hints).run(plan, strict=strict)


@contextmanager
def _open_worker_pool(jobs: int | None, cluster: str | None, places: Sequence[Path]) -> Iterator[Pool]:
    """Threads, or the workers of a cluster, all of which see these places."""
    own = jobs or count_usable_cpus()
    if cluster is None:
        with Pool(own) as pool:
            yield pool
        return
    # Dask is an extra, and takes a while to import.
    from citus_analysis.dataset.cluster import connect_cluster, require_visible

    with connect_cluster(cluster, hash_format_registry) as there:
        require_visible(there, [os.fspath(place.absolute()) for place in places])
        with Pool(there.workers, there.executor) as pool:
            yield pool


def _list_store_folders(store: Store) -> list[Path]:
    """The folder of a store that workers must see to write to it: the first above it that exists."""
    if not isinstance(store, FolderStore):
        return []
    folder = store.folder.absolute()
    return [next(place for place in (folder, *folder.parents) if is_there(place))]


def _require_apart(sources: list[Path], out: Path) -> None:
    """Refuse sources and a dataset folder that are the same or lie inside one another."""
    target = out.resolve()
    for source in sources:
        top = source.resolve()
        # A folder that is not a dataset and holds the raw files is refused later, because of its contents.
        if (top == target or target in top.parents) and is_there(target / MANIFEST_NAME):
            problem = f"is the dataset {out} itself" if top == target else f"lies inside the dataset {out}"
            raise UsageError(problem, path=source, hint="name the raw files, and another folder with --out")
        if top in target.parents:
            problem = f"lies inside {display(source)}, which is to be read"
            raise UsageError(problem, path=out, hint="name a folder beside it with --out")
        if is_there(source / MANIFEST_NAME):
            raise InputError("is a dataset already", path=source, hint="name the raw files that it was made of")


@dataclass
class _Gauge:
    """Adds up progress from several threads."""

    callback: ProgressCallback | None
    _lock: Lock = field(default_factory=Lock)
    _state: Progress = field(default_factory=lambda: Progress("scan", 0, 0))

    def start(self, stage: str, total: int) -> None:
        self._state = Progress(stage, 0, total)
        self.add(0)

    def add(self, done: int) -> None:
        if self.callback is not None:
            with self._lock:
                self._state = Progress(self._state.stage, self._state.done + done, self._state.total)
                self.callback(self._state)


def _load_remembered_formats(manifest: Manifest) -> Remembered:
    """Formats and deliveries of the sources in files that were recognised before, by the formats that there are now."""
    known = hash_format_registry()
    found: dict[tuple[str, str], dict[str, tuple[str | None, Delivery]]] = defaultdict(dict)
    for state in sorted(manifest.sources.values(), key=attrgetter("location")):
        if state.recognised_by == known:
            delivery = Delivery.of(state.delivered)
            name = os.path.basename(state.location)  # noqa: PTH119 - of thousands of texts
            name = name.removesuffix(f"#{delivery.name}") if delivery.is_part else name
            # Several files may have this name and this content.
            found[name, state.content_hash].setdefault(delivery.name, (state.format, delivery))
    return {key: list(sources.values()) for key, sources in found.items()}


def _recognise_files(
    files: list[SourceFile], forced: Format | None, known: Manifest, pool: Pool, gauge: _Gauge
) -> list[SourceFile]:
    """Hash and recognise all files: by other processes those that the dataset does not know, if these are many."""
    gauge.start("scan", sum(file.bytes for file in files))
    named = None if forced is None else forced.name
    if pool.cluster is not None:
        split = choose_split_bytes(sum(file.bytes for file in files), pool.jobs)
        looked = pool.spread(partial(recognise_task, named, split), files, attrgetter("bytes"))
    else:
        here = partial(recognise, forced=forced, remembered=_load_remembered_formats(known) if forced is None else {})
        locations = {state.location for state in known.sources.values()}
        new = [file for file in files if file.recorded not in locations]
        old = [file for file in files if file.recorded in locations]
        if new:
            # Imported here, because several threads are about to need them.
            formats()
        at_once = _RECOGNISED_AT_ONCE
        looked = chain(
            pool.each(here, old, at_once), pool.each_of_many(partial(recognise_task, named, None), new, at_once)
        )
    plan: list[SourceFile] = []
    for file, recognised in looked:
        plan += recognised
        gauge.add(file.bytes)
    return sorted(plan, key=lambda item: os.fsencode(item.location))


def _make_unusable_error(
    sources: Sequence[Source], plan: list[SourceFile], problems: Sequence[tuple[str, str]]
) -> InputError:
    where = ", ".join(redact(str(s)) if is_url(s) else display(Path(s)) for s in sources[:_FEW])
    unreadable = next((item for item in plan if item.problem), None)
    if unreadable:
        return InputError(str(unreadable.problem), path=unreadable.relative)
    if problems and not plan:
        path, problem = problems[0]
        return InputError(problem, path=path)
    if not plan:
        return InputError("holds no files", path=where, hint="name the files, or the folder that holds them")
    problem = "no format recognises it" if len(plan) == 1 else f"no format recognises any of the {len(plan)} files"
    foreign = next(filter(None, (find_conversion_hint(Content(item.path)) for item in plan)), None)
    if foreign is None:
        reason = explain_unrecognised_file(plan[0])
        nearest = reason if len(plan) == 1 else f"{plan[0].relative} {reason}"
        hint = "see docs/what-can-be-read.md, or name the format with --format"
        return InputError(f"{problem}: {nearest}", path=where, hint=hint)
    kind, hint = foreign
    message = f"is {kind}" if len(plan) == 1 else f"{problem}; one of them is {kind}"
    return InputError(message, path=where, hint=hint)


@dataclass
class _IngestPass:
    """One pass over a set of recognised files."""

    manifest: Manifest
    store: Store
    pool: Pool
    gauge: _Gauge
    messages: list[str]
    hints: list[str]
    counts: Counter[str] = field(default_factory=Counter)
    design: FileDesign = field(default_factory=FileDesign)
    copies: list[str] = field(default_factory=list)
    _intact_paths: frozenset[str] = frozenset()
    _damaged: set[str] = field(default_factory=set)
    _withheld: list[ParquetPart] = field(default_factory=list)
    _unread: list[SourceState] = field(default_factory=list)

    def run(self, plan: list[SourceFile], *, strict: bool) -> IngestSummary:
        plan = [item for item in plan if self._has_a_place(item)]
        known = self.manifest.sources
        plan = drop_summary_files(plan, known.values())
        plan = mark_copies(plan)
        self.copies = describe_copies(plan)
        copies = [item for item in plan if item.same_as is not None]
        measured = join_logs([item for item in plan if item.same_as is None])
        plan, self.design = apply_study_design(measured, known.values())
        plan = find_duplicates(name_sources([*plan, *copies], known), known.values())
        self.counts["unseen"] = self.counts["failed"] = len(self.messages)
        if strict:
            self.manifest.hold()
        self._check_files(plan)
        self._forget_renamed(plan)
        self._read(plan)
        self._derive()
        self._doubt()
        self._fetch("match_quality")
        summary = self._summary(plan)
        if strict and summary.exit_code:
            raise InputError(summary.messages[0], hint="leave out --strict to keep the rest")
        named = {part.path for part in self.manifest.parts()}
        self.store.withdraw([part for part in self._withheld if part.path not in named])
        mark_if_current(self.manifest)
        self.manifest.release()
        if self.counts["commits"]:
            self.store.clean(self.manifest)
            self.manifest.compact()
        return summary

    def _has_a_place(self, item: SourceFile) -> bool:
        """Refuse a resource whose name cannot be the name of a folder; the message names the file."""
        try:
            build_part_folder("sources", item.identity.resource)
        except ValueError as error:
            hint = "name it otherwise: --meta resource=..., or `resource` in config.yml or runs.csv"
            self.messages.append(f"{item.relative}: its resource {error} ({hint})")
            return False
        return True

    def _check_files(self, plan: list[SourceFile]) -> None:
        """Find damaged parts, so that their sources are read again; raise an error if such a source is not given."""
        problems = self.store.problems(self.manifest.parts(), self.pool.each)
        self._damaged = set(problems)
        here = {item.source_id for item in plan if not item.problem}
        for state in self.manifest.sources.values():
            damaged = [part.path for part in state.parts if part.path in problems]
            if damaged and state.source_id not in here:
                self._problem(state.path, f"{damaged[0]} {problems[damaged[0]]} (ingest this source again)")
        self._intact_paths = frozenset(
            part.path for part in self.manifest.parts() if part.path not in problems and part.hash is not None
        )

    def _forget_renamed(self, plan: list[SourceFile]) -> None:
        """Sources that are now known under another id: moved, or of another resource than before."""
        ids = {item.source_id for item in plan}
        locations = {item.recorded for item in plan}
        contents = {(item.hash, item.identity.resource) for item in plan if item.format}
        others = [state for state in self.manifest.sources.values() if state.source_id not in ids]
        alike = {state.source_id for state in others if (state.content_hash, state.resource) in contents}
        gone = [
            state.source_id
            for state in others
            if state.location in locations or (state.source_id in alike and not _is_existing_location(state.location))
        ]
        if gone:
            self._commit_states(gone=gone)

    def _read(self, plan: list[SourceFile]) -> None:
        """Read clients first: their run times decide which run the rows of other files belong to."""
        self.gauge.start("read", sum(item.bytes for item in plan))
        runs: dict[str, list[KnownRun]] = {}
        seen = -1
        for group in ([i for i in plan if i.is_client], [i for i in plan if not i.is_client]):
            if seen != self.counts["commits"]:
                self._fetch("clients")
                runs = list_known_runs([self._readable(tables) for tables in group_by_resource(self.manifest)])
                seen = self.counts["commits"]
            tasks = [task for item in group if (task := self._task(item, runs.get(item.identity.resource, [])))]
            if self._unread:
                self._commit_states(*self._unread)
                self._unread.clear()
            if self.pool.cluster is not None:
                read = read_in_splits(self.store, self.pool, tasks, self.gauge.add)
            else:
                read = chain(self._read_small(tasks), self._read_large(tasks))
            for outcomes in batch_by_time(read, seconds=_BATCH_SECONDS):
                self._commit(outcomes)

    def _read_large(self, tasks: list[Task]) -> Iterator[tuple[Task, ReadOutcome]]:
        """Read large sources one after the other, each with all threads of this process."""
        # For reading it, and for writing its rows: each takes about half of the time.
        threads = min(self.pool.jobs // 2 + 1, _MOST_THREADS)
        for task in tasks:
            if task.bytes >= BIG_BYTES:
                yield task, read_task(self.store, task, threads, self.gauge.add, self.pool.stop)

    def _read_small(self, tasks: list[Task]) -> Iterator[tuple[Task, ReadOutcome]]:
        """Read small sources, those of one format in a row: polars keeps the last regular expressions compiled."""
        small = sorted((task for task in tasks if task.bytes < BIG_BYTES), key=lambda task: task.format.name)
        for task, outcome in self.pool.each_of_many(partial(read_task, self.store), small, _READ_AT_ONCE):
            self.gauge.add(task.bytes)
            yield task, outcome

    def _fetch(self, table: str) -> None:
        """Make the intact parts of a table readable for the driver."""
        parts = (part for part in self.manifest.parts() if part.table == table and part.path not in self._damaged)
        self.store.fetch(parts, self.manifest.folder)

    def _readable(self, tables: ResourceTables) -> ResourceTables:
        """A resource without damaged parts: their sources are read again, or were not given."""
        if not self._damaged:
            return tables
        kept = (tuple(part for part in s.parts if part.path not in self._damaged) for s in tables.sources)
        sources = tuple(replace(s, parts=parts) for s, parts in zip(tables.sources, kept, strict=True))
        return replace(tables, sources=sources)

    def _task(self, item: SourceFile, runs: Sequence[KnownRun]) -> Task | None:
        """The source to read; the states of sources that need no parser are gathered."""
        tagger = assign(item.source_id, item.identity, runs)
        key = item.state_key([tagger.run_id, [[r.run_id, r.start_ms, r.end_ms] for r in tagger.windows]])
        old = self.manifest.sources.get(item.source_id)
        task = Task(item, tagger, key)
        if item.problem and old is not None and not old.problem:
            # Rows that were read while the file was readable remain valid.
            self._problem(item.relative, item.problem)
        elif old is not None and old.state_key == key and self._intact(old):
            self.counts["unchanged"] += 1
            self._unread += [kept] if (kept := task.kept(old)) != old else []
        elif item.format is None or item.same_as is not None:
            self._unread.append(task.unread_state())
        else:
            return task
        self.gauge.add(task.bytes)
        return None

    def _intact(self, state: SourceState | DerivedState) -> bool:
        return all(part.path in self._intact_paths for part in state.parts)

    def _commit(self, outcomes: list[tuple[Task, ReadOutcome]]) -> None:
        staged: list[StagedPart] = []
        states: list[SourceState] = []
        for task, outcome in outcomes:
            file = task.file
            if (file.bytes, file.mtime_ns) == read_size_and_time(file.path):
                staged += outcome.staged
                states.append(task.read_state(outcome))
            else:
                self._problem(file.relative, "changed while it was read")
        self.counts["read"] += len(states)
        self.store.publish(staged)
        # A part that is written again has the same name.
        self._damaged -= {item.part.path for item in staged}
        self._commit_states(*states)

    def _commit_states(
        self, *states: SourceState | DerivedState, gone: Sequence[str] = (), emptied: Sequence[str] = ()
    ) -> None:
        """Commit, and withdraw the files that are superseded by it."""
        self.counts["commits"] += 1
        before = self.manifest.affected_parts(states, gone, emptied)
        if self.manifest.holding:
            self._withheld += before
        else:
            after = {part.path for state in states for part in state.parts}
            self.store.withdraw([part for part in before if part.path not in after])
        self.manifest.commit(*states, gone=gone, emptied=emptied)

    def _problem(self, name: str, problem: str) -> None:
        self.counts["failed"] += 1
        self.messages.append(f"{name}: {problem}")

    def _derive(self) -> None:
        outdated = [
            (derivation, tables)
            for tables in group_by_resource(self.manifest)
            for derivation in DERIVATIONS
            if not self._is_current(derivation, tables)
        ]
        emptied = {resource for resource, _ in self.manifest.derived} - {
            state.resource for state in self.manifest.sources.values()
        }
        if emptied:
            self._commit_states(emptied=sorted(emptied))
        self.gauge.start("derive", len(outdated))
        if self.pool.cluster is None:
            results = self._derived_here(outdated)
        else:
            self._fetch("nodes")
            results = derive_by_pieces(self.store, self.pool, outdated)
        for batch in batch_by_time(results, seconds=_BATCH_SECONDS):
            self.store.publish([item for _, staged in batch for item in staged])
            self._commit_states(*(state for state, _ in batch))
            self.counts["derived"] += len(batch)
            self.gauge.add(len(batch))

    def _derived_here(
        self, outdated: Sequence[tuple[Derivation, ResourceTables]]
    ) -> Iterator[tuple[DerivedState, list[StagedPart]]]:
        """Large ones alone: each uses several threads itself, and as much memory as a derivation may."""
        from citus_analysis.dataset.records import MOST_RECORDS

        sized = [(derivation, tables, derivation.input_rows(tables)) for derivation, tables in outdated]
        large = [rows > MOST_RECORDS for _, _, rows in sized]
        tasks = [DeriveTask(one.name, tables, one.state_key(tables)) for one, tables, _ in sized]
        for task in compress(tasks, large):
            yield task.state_with(staged := derive_task(self.store, task, self.pool.jobs)), staged
        small = [task for task, alone in zip(tasks, large, strict=True) if not alone]
        self.pool.start_processes(len(small))
        # Each derivation's in a row; traces, which take longest, first.
        small.sort(key=attrgetter("derivation"), reverse=True)
        derive = partial(derive_tasks, self.store)
        for group, computed in self.pool.each_of_many(derive, group_derive_tasks(small), at_once=1):
            for task, parts in zip(group, computed, strict=True):
                yield task.state_with(parts), parts

    def _is_current(self, derivation: Derivation, tables: ResourceTables) -> bool:
        old = self.manifest.derived.get((tables.resource, derivation.name))
        return old is not None and old.own_key == derivation.state_key(tables) and self._intact(old)

    def _doubt(self) -> None:
        """Judge runs by the samples of all machines; the first resource's state of `runs` says for which inputs."""
        tables = [self._readable(one) for one in group_by_resource(self.manifest)]
        states = {one.resource: state for one in tables if (state := self.manifest.derived.get((one.resource, "runs")))}
        if not states:
            return
        inputs = [part.path for one in tables for part in one.parts(*DOUBTED_FROM)]
        keys = [(resource, state.own_key) for resource, state in sorted(states.items())]
        done = f"{BESIDE_OWN}done-{digest((_DOUBTS_VERSION, inputs, keys))}"
        first = min(states)
        if states[first].state_key.endswith(done):
            return
        of_runs = {name: [p for p in state.parts if p.table == "runs"] for name, state in states.items()}
        needed = [part for one in tables for part in one.parts(*DOUBTED_FROM)]
        with self.store.workspace([*needed, *(part for parts in of_runs.values() for part in parts)]) as folder:
            placed = {one.resource: replace(one, folder=folder) for one in tables}
            changed = find_doubtful_runs(list(placed.values()), of_runs)
            staged = {name: self.store.sent(stage_doubtful_runs(placed[name], rows)) for name, rows in changed.items()}
        self.store.publish([item for items in staged.values() for item in items])
        committed = {name: _replace_run_parts(states[name], items) for name, items in staged.items()}
        of_first = committed.get(first, states[first])
        committed[first] = replace(of_first, state_key=of_first.state_key.partition(f"{BESIDE_OWN}done-")[0] + done)
        self._commit_states(*committed.values())

    def _summary(self, plan: list[SourceFile]) -> IngestSummary:
        states = [state for item in plan if (state := self.manifest.sources.get(item.source_id))]
        copies = {item.source_id for item in plan if item.same_as is not None}
        messages = list(self.messages)
        for state in states:
            if state.problem:
                messages.append(f"{state.path}: {state.problem}")
            elif state.rejected:
                parts = "1 part rejected," if state.rejected == 1 else f"{state.rejected} parts rejected, first"
                messages.append(f"{state.path}: {parts} at {state.note}")
        conflicts = find_duplicate_clients(self.manifest.sources.values())
        for first, second, *_ in conflicts:
            problem = f"claims to be the same load generator of {first.run_id} as {first.path}"
            messages.append(f"{second.path}: {problem} (remove one, or state `part` in a runs.csv)")
        unrecognised = tuple((item.relative, explain_unrecognised_file(item)) for item in plan if item.is_unrecognised)
        rows: Counter[str] = Counter()
        for part in self.manifest.parts():
            rows[part.table] += part.rows
        return IngestSummary(
            files=len(plan) + self.counts["unseen"],
            read=self.counts["read"],
            unchanged=self.counts["unchanged"],
            unrecognised=len(unrecognised),
            duplicates=sum(item.same_as is not None for item in plan),
            rejected=sum(state.rejected for state in states),
            failed=self.counts["failed"] + sum(state.problem is not None for state in states),
            conflicts=len(conflicts),
            derived=self.counts["derived"],
            rows=dict(sorted(rows.items())),
            messages=tuple(messages),
            unrecognised_files=unrecognised,
            prefixes=tuple(write_prefix_notes(states)),
            unread=(
                *write_coverage_notes(states),
                *write_empty_notes(one for one in states if one.source_id not in copies),
            ),
            design=tuple(self.design.remarks),
            copies=tuple(self.copies),
            hints=(*self.hints, *write_advice(self.manifest)),
        )


#: Version of the judgement of runs by their machines' samples.
_DOUBTS_VERSION: Final = 2


def _replace_run_parts(state: DerivedState, staged: Sequence[StagedPart]) -> DerivedState:
    """A state of the derivation `runs` with other parts of the table `runs`."""
    others = tuple(part for part in state.parts if part.table != "runs")
    paths = digest([item.part.path for item in staged])
    return replace(
        state, parts=(*others, *(item.part for item in staged)), state_key=f"{state.own_key}{BESIDE_OWN}{paths}"
    )


def _is_existing_location(location: str) -> bool:
    """Whether a file is where it was; of a URL it is taken for granted."""
    return is_url(location) or find_file_at(location) is not None

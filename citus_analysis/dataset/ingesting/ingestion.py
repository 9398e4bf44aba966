"""Bring a dataset up to date with raw files."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, compress
from operator import attrgetter
from pathlib import Path
from threading import Lock
from typing import Final

from citus_analysis.dataset.discover.advice import advice
from citus_analysis.dataset.discover.foreign import way_out_of
from citus_analysis.dataset.discover.identity import convert_facts
from citus_analysis.dataset.discover.resource_folders import Identifier
from citus_analysis.dataset.discover.run_windows import KnownRun, assign
from citus_analysis.dataset.discover.source_file import SourceFile
from citus_analysis.dataset.discover.study.design import Design
from citus_analysis.dataset.discover.unpacked_archives import archives_unpacked
from citus_analysis.dataset.discover.url_sources import outlined, walked
from citus_analysis.dataset.discover.walk import MANIFEST_NAME, display, file_at, is_there, size_and_time
from citus_analysis.dataset.ingesting.derive import (
    DERIVATIONS,
    DOUBTED_FROM,
    Derivation,
    ResourceTables,
    by_resource,
    claimed_twice,
    doubted_runs,
    known_runs,
    staged_doubts,
)
from citus_analysis.dataset.ingesting.deriving import DeriveTask, derive_task, derive_tasks, derived_by_pieces, together
from citus_analysis.dataset.ingesting.designing import with_design
from citus_analysis.dataset.ingesting.prefix_notes import coverage_notes, prefix_notes
from citus_analysis.dataset.ingesting.read_source import Outcome
from citus_analysis.dataset.ingesting.reading_stretches import read_in_stretches, stretch_bytes
from citus_analysis.dataset.ingesting.recognise import (
    Remembered,
    find_duplicates,
    join_logs,
    name_sources,
    recognise,
    registry_key,
    unrecognised_reason,
    without_summaries,
)
from citus_analysis.dataset.ingesting.records.session_groups import MOST_RECORDS
from citus_analysis.dataset.ingesting.summary import IngestSummary, Progress, ProgressCallback
from citus_analysis.dataset.ingesting.task import Task
from citus_analysis.dataset.ingesting.work import read_task, recognise_task
from citus_analysis.dataset.ingesting.workers.pool import Pool, batches
from citus_analysis.dataset.objects.object_store import Store, store_at
from citus_analysis.dataset.storage.digests import digest
from citus_analysis.dataset.storage.manifest import BESIDE_OWN, DerivedState, Manifest, Part, SourceState
from citus_analysis.dataset.storage.parts import Staged, folder_of
from citus_analysis.dataset.storage.store import FolderStore
from citus_analysis.errors import InputError, UsageError
from citus_analysis.formats import Format, format_named, formats
from citus_analysis.formats.deliveries.delivery import Delivery
from citus_analysis.redaction import redact
from citus_analysis.texts.urls import is_url

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
        outlined(given) as (paths, origins),
        _workers(jobs, cluster, [*folders, *_folders(store)]) as pool,
        archives_unpacked(walked(paths, origins)) as found,
    ):
        gauge = _Gauge(progress)
        known = store.load()
        pool.start_processes(len(found.files) - len(known.sources))
        files = [identifier.identify(file) for file in found.files]
        plan = _recognised(files, forced, known, pool, gauge)
        if not any(item.format for item in plan):
            raise _unusable(given, plan, found.problems)
        with store.writable(known, pool.halt) as manifest:
            problems = [f"{path}: {reason}" for path, reason in found.problems]
            return _Ingest(manifest, store, pool, gauge, problems).run(plan, strict=strict)


@contextmanager
def _workers(jobs: int | None, cluster: str | None, places: Sequence[Path]) -> Iterator[Pool]:
    """Threads, or the workers of a cluster, all of which see these places."""
    own = jobs or len(os.sched_getaffinity(0))
    if cluster is None:
        with Pool(own) as pool:
            yield pool
        return
    # Dask is an extra, and takes a while to import.
    from citus_analysis.dataset.cluster.dask_cluster import cluster_at, require_visible

    with cluster_at(cluster, registry_key) as there:
        require_visible(there, [os.fspath(place.absolute()) for place in places])
        with Pool(there.workers, there.executor) as pool:
            yield pool


def _folders(store: Store) -> list[Path]:
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
            raise UsageError(problem, path=source, way_out="name the raw files, and another folder with --out")
        if top in target.parents:
            problem = f"lies inside {display(source)}, which is to be read"
            raise UsageError(problem, path=out, way_out="name a folder beside it with --out")
        if is_there(source / MANIFEST_NAME):
            raise InputError("is a dataset already", path=source, way_out="name the raw files that it was made of")


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


def _remembered(manifest: Manifest) -> Remembered:
    """Formats and deliveries of the sources in files that were recognised before, by the formats that there are now."""
    known = registry_key()
    found: dict[tuple[str, str], dict[str, tuple[str | None, Delivery]]] = defaultdict(dict)
    for state in sorted(manifest.sources.values(), key=attrgetter("location")):
        if state.recognised_by == known:
            delivery = Delivery.of(state.delivered)
            name = os.path.basename(state.location)  # noqa: PTH119 - of thousands of texts
            name = name.removesuffix(f"#{delivery.name}") if delivery.is_part else name
            # Several files may have this name and this content.
            found[name, state.content_hash].setdefault(delivery.name, (state.format, delivery))
    return {key: list(sources.values()) for key, sources in found.items()}


def _recognised(
    files: list[SourceFile], forced: Format | None, known: Manifest, pool: Pool, gauge: _Gauge
) -> list[SourceFile]:
    """Hash and recognise all files: by other processes those that the dataset does not know, if these are many."""
    gauge.start("scan", sum(file.bytes for file in files))
    named = None if forced is None else forced.name
    if pool.cluster is not None:
        stretch = stretch_bytes(sum(file.bytes for file in files), pool.jobs)
        looked = pool.spread(partial(recognise_task, named, stretch), files, attrgetter("bytes"))
    else:
        here = partial(recognise, forced=forced, remembered=_remembered(known) if forced is None else {})
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


def _unusable(sources: Sequence[Source], plan: list[SourceFile], problems: Sequence[tuple[str, str]]) -> InputError:
    where = ", ".join(redact(str(s)) if is_url(s) else display(Path(s)) for s in sources[:_FEW])
    unreadable = next((item for item in plan if item.problem), None)
    if unreadable:
        return InputError(str(unreadable.problem), path=unreadable.relative)
    if problems and not plan:
        path, problem = problems[0]
        return InputError(problem, path=path)
    if not plan:
        return InputError("holds no files", path=where, way_out="name the files, or the folder that holds them")
    problem = "no format recognises it" if len(plan) == 1 else f"no format recognises any of the {len(plan)} files"
    foreign = next(filter(None, (way_out_of(item.path) for item in plan)), None)
    if foreign is None:
        reason = unrecognised_reason(plan[0])
        nearest = reason if len(plan) == 1 else f"{plan[0].relative} {reason}"
        way_out = "see docs/what-can-be-read.md, or name the format with --format"
        return InputError(f"{problem}: {nearest}", path=where, way_out=way_out)
    kind, way_out = foreign
    message = f"is {kind}" if len(plan) == 1 else f"{problem}; one of them is {kind}"
    return InputError(message, path=where, way_out=way_out)


@dataclass
class _Ingest:
    """One pass over a set of recognised files."""

    manifest: Manifest
    store: Store
    pool: Pool
    gauge: _Gauge
    messages: list[str]
    counts: Counter[str] = field(default_factory=Counter)
    design: Design = field(default_factory=Design)
    _intact_paths: frozenset[str] = frozenset()
    _damaged: set[str] = field(default_factory=set)
    _withheld: list[Part] = field(default_factory=list)
    _unread: list[SourceState] = field(default_factory=list)

    def run(self, plan: list[SourceFile], *, strict: bool) -> IngestSummary:
        plan = [item for item in plan if self._has_a_place(item)]
        known = self.manifest.sources
        plan = without_summaries(plan, known.values())
        plan, self.design = with_design(join_logs(plan), known.values())
        plan = find_duplicates(name_sources(plan, known), known.values())
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
            raise InputError(summary.messages[0], way_out="leave out --strict to keep the rest")
        named = {part.path for part in self.manifest.parts()}
        self.store.withdraw([part for part in self._withheld if part.path not in named])
        self.manifest.release()
        if self.counts["commits"]:
            self.store.clean(self.manifest)
            self.manifest.compact()
        return summary

    def _has_a_place(self, item: SourceFile) -> bool:
        """Refuse a resource whose name cannot be the name of a folder; the message names the file."""
        try:
            folder_of("sources", item.identity.resource)
        except ValueError as error:
            way_out = "name it otherwise: --meta resource=..., or `resource` in config.yml or runs.csv"
            self.messages.append(f"{item.relative}: its resource {error} ({way_out})")
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
            if state.location in locations or (state.source_id in alike and not _exists(state.location))
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
                runs = known_runs([self._readable(tables) for tables in by_resource(self.manifest)])
                seen = self.counts["commits"]
            tasks = [task for item in group if (task := self._task(item, runs.get(item.identity.resource, [])))]
            if self._unread:
                self._commit_states(*self._unread)
                self._unread.clear()
            if self.pool.cluster is not None:
                read = read_in_stretches(self.store, self.pool, tasks, self.gauge.add)
            else:
                read = chain(self._read_small(tasks), self._read_large(tasks))
            for outcomes in batches(read, seconds=_BATCH_SECONDS):
                self._commit(outcomes)

    def _read_large(self, tasks: list[Task]) -> Iterator[tuple[Task, Outcome]]:
        """Read large sources one after the other, each with all threads of this process."""
        # For reading it, and for writing its rows: each takes about half of the time.
        threads = min(self.pool.jobs // 2 + 1, _MOST_THREADS)
        for task in tasks:
            if task.bytes >= BIG_BYTES:
                yield task, read_task(self.store, task, threads, self.gauge.add, self.pool.stop)

    def _read_small(self, tasks: list[Task]) -> Iterator[tuple[Task, Outcome]]:
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

    def _commit(self, outcomes: list[tuple[Task, Outcome]]) -> None:
        staged: list[Staged] = []
        states: list[SourceState] = []
        for task, outcome in outcomes:
            file = task.file
            if (file.bytes, file.mtime_ns) == size_and_time(file.path):
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
            for tables in by_resource(self.manifest)
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
            results = derived_by_pieces(self.store, self.pool, outdated)
        for batch in batches(results, seconds=_BATCH_SECONDS):
            self.store.publish([item for _, staged in batch for item in staged])
            self._commit_states(*(state for state, _ in batch))
            self.counts["derived"] += len(batch)
            self.gauge.add(len(batch))

    def _derived_here(
        self, outdated: Sequence[tuple[Derivation, ResourceTables]]
    ) -> Iterator[tuple[DerivedState, list[Staged]]]:
        """Large ones alone: each uses several threads itself, and as much memory as a derivation may."""
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
        for group, computed in self.pool.each_of_many(derive, together(small), at_once=1):
            for task, parts in zip(group, computed, strict=True):
                yield task.state_with(parts), parts

    def _is_current(self, derivation: Derivation, tables: ResourceTables) -> bool:
        old = self.manifest.derived.get((tables.resource, derivation.name))
        return old is not None and old.own_key == derivation.state_key(tables) and self._intact(old)

    def _doubt(self) -> None:
        """Judge runs by the samples of all machines; the first resource's state of `runs` says for which inputs."""
        tables = [self._readable(one) for one in by_resource(self.manifest)]
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
            changed = doubted_runs(list(placed.values()), of_runs)
            staged = {name: self.store.sent(staged_doubts(placed[name], rows)) for name, rows in changed.items()}
        self.store.publish([item for items in staged.values() for item in items])
        committed = {name: _with_runs(states[name], items) for name, items in staged.items()}
        of_first = committed.get(first, states[first])
        committed[first] = replace(of_first, state_key=of_first.state_key.partition(f"{BESIDE_OWN}done-")[0] + done)
        self._commit_states(*committed.values())

    def _summary(self, plan: list[SourceFile]) -> IngestSummary:
        states = [state for item in plan if (state := self.manifest.sources.get(item.source_id))]
        messages = list(self.messages)
        for state in states:
            if state.problem:
                messages.append(f"{state.path}: {state.problem}")
            elif state.rejected:
                stretches = (
                    "1 stretch rejected," if state.rejected == 1 else f"{state.rejected} stretches rejected, first"
                )
                messages.append(f"{state.path}: {stretches} at {state.note}")
        conflicts = claimed_twice(self.manifest.sources.values())
        for first, second, *_ in conflicts:
            problem = f"claims to be the same load generator of {first.run_id} as {first.path}"
            messages.append(f"{second.path}: {problem} (remove one, or state `part` in a runs.csv)")
        unrecognised = tuple((item.relative, unrecognised_reason(item)) for item in plan if item.is_unrecognised)
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
            prefixes=tuple(prefix_notes(states)),
            unread=tuple(coverage_notes(states)),
            design=tuple(self.design.remarks),
            hints=tuple(advice(self.manifest)),
        )


#: Version of the judgement of runs by their machines' samples.
_DOUBTS_VERSION: Final = 1


def _with_runs(state: DerivedState, staged: Sequence[Staged]) -> DerivedState:
    """A state of the derivation `runs` with other parts of the table `runs`."""
    others = tuple(part for part in state.parts if part.table != "runs")
    paths = digest([item.part.path for item in staged])
    return replace(
        state, parts=(*others, *(item.part for item in staged)), state_key=f"{state.own_key}{BESIDE_OWN}{paths}"
    )


def _exists(location: str) -> bool:
    """Whether a file is where it was; of a URL it is taken for granted."""
    return is_url(location) or file_at(location) is not None

"""Derived tables, computed per resource from the tables of its sources and recomputed only when those change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.dataset.digests import digest
from citus_analysis.dataset.identity import FACTS, STANDARD_ERROR, TIMES, Identity, strip_compression_suffix
from citus_analysis.dataset.manifest import Manifest, ParquetPart, SourceState, translate_write_errors
from citus_analysis.dataset.parts import STAGING, PartWriter, StagedPart, scan_table
from citus_analysis.dataset.run_windows import KnownRun
from citus_analysis.schema import PARTITION_KEY, TABLES, TRACE_TABLES, list_table_columns

Pieces = Iterator[Mapping[str, pl.DataFrame]]

#: polars looks for numpy on first use of an array, which may fail if two threads do so at once. Hence it is done here.
pl.Series(np.empty(0))


@dataclass(frozen=True)
class ResourceTables:
    """The tables that the sources of one resource contributed.

    Attributes:
        folder: the dataset.
        resource: the resource.
        sources: its sources, ordered by path.
    """

    folder: Path
    resource: str
    sources: tuple[SourceState, ...]

    def scan(self, name: str) -> pl.LazyFrame:
        """Rows of a table in order of their sources' paths."""
        return scan_table(TABLES[name], self.folder, self.parts(name))

    def parts(self, *names: str) -> list[ParquetPart]:
        """Parts of these tables."""
        return [part for source in self.sources for part in source.parts if part.table in names]

    def log_parts(self, iteration: int | None) -> list[ParquetPart]:
        """Parts of `log_events` that may hold records of an iteration, including sources that name no iteration."""
        named = [source for source in self.sources if source.iteration in (None, iteration)]
        return [part for source in named for part in source.parts if part.table == "log_events"]

    def log_iterations(self) -> list[int | None]:
        """Iterations of the records of logs, in order; None last, for records of none."""
        named = {s.iteration for s in self.sources if any(part.table == "log_events" for part in s.parts)}
        if None not in named:
            return sorted(named, key=lambda iteration: iteration or 0)
        # Which records of a log that names no iteration belong to one is only known from the records.
        found = self.scan("log_events").select("iteration").unique().collect()["iteration"]
        return found.sort(nulls_last=True).to_list()

    def identities(self) -> list[tuple[str, Identity]]:
        """Run and identity of each file that a load generator of the resource wrote, each pair once.

        The runs of tables of results are in `stated_runs`.

        A file of no known format counts if its name gives it the role of a client; that client left no readable output.
        """
        pairs = (
            (source.run_id, Identity.of(source.identity))
            for source in self.sources
            if source.run_id is not None
            and not source.states_runs
            and (source.is_client or (source.format is None and source.identity.get("role") is not None))
        )
        return list(dict.fromkeys(pairs))


def find_duplicate_clients(sources: Iterable[SourceState]) -> list[list[SourceState]]:
    """Pairs of sources that claim to be the same load generator of the same run; their numbers would be summed.

    The standard output and the standard error of a load generator are not such a pair.
    """
    claims: dict[tuple[object, ...], list[SourceState]] = {}
    for state in sorted(sources, key=lambda s: (s.resource, s.path, s.source_id)):
        if any(part.table == "clients" for part in state.parts):
            claim = (state.run_id, state.identity.get("role"), state.identity.get("part"))
            claims.setdefault(claim, []).append(state)
    outputs = (_drop_standard_error(states) for states in claims.values())
    return [states for states in outputs if len(states) > 1]


def _drop_standard_error(states: list[SourceState]) -> list[SourceState]:
    others = [state for state in states if not _is_standard_error(state)]
    return others if len(states) == len(others) + 1 else states


def _is_standard_error(source: SourceState) -> bool:
    return strip_compression_suffix(source.path).endswith(STANDARD_ERROR)


@dataclass(frozen=True)
class Derivation:
    """One computation.

    Attributes:
        version: must be increased whenever the same inputs would give different rows.
        inputs: tables it reads.
        outputs: tables it writes.
        compute: its rows for each of some resources of a dataset, given the number of threads that it may use.
        together: several resources take little longer than one.
        facts: further values that its rows depend on (JSON-serialisable).
    """

    name: str
    version: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    compute: Callable[[Sequence[ResourceTables], int], list[Pieces]]
    together: bool = False
    facts: Callable[[ResourceTables], object] = lambda _tables: None

    def input_rows(self, tables: ResourceTables) -> int:
        """Number of rows it reads."""
        return sum(part.rows for part in tables.parts(*self.inputs))

    def state_key(self, tables: ResourceTables) -> str:
        """Hash over all that the outputs depend on."""
        inputs = [part.path for part in tables.parts(*self.inputs)]
        return digest((self.version, list_table_columns(self.outputs), inputs, self.facts(tables)), size=16)


def _derive_runs(resources: Sequence[ResourceTables], _jobs: int) -> list[Pieces]:
    # A run whose clients left no output is known from file names only, and counts as failed.
    known = [one for one in resources if one.identities() or one.parts("client_metrics", "client_histogram")]
    found = _derive_runs_by_table(known) if known else {}
    return [
        iter([{name: frames[one.resource] for name, frames in found.items() if one.resource in frames}])
        for one in resources
    ]


def _derive_runs_by_table(resources: Sequence[ResourceTables]) -> dict[str, dict[str, pl.DataFrame]]:
    """Table -> resource -> rows. All rows name their resource, so one pass serves all: each starts many queries."""
    from citus_analysis.runs.set_ups import fill_set_ups
    from citus_analysis.runs.status import add_runner_verdicts
    from citus_analysis.stats.merged_clients import derive_operation_latencies, derive_runs, merge_standard_errors

    def rows(name: str) -> pl.DataFrame:
        return _scan_all(name, resources).collect()

    errors = [source.source_id for one in resources for source in one.sources if _is_standard_error(source)]
    clients = merge_standard_errors(rows("clients"), errors)
    # Whoever writes a table of results measures.
    stated = rows("stated_runs").with_columns(pl.col("phase").fill_null("run"))
    identities = pl.concat(map(run_identity, resources))
    runs = derive_runs(clients, pl.concat([identities, stated], how="diagonal").select(identities.columns))
    latencies = derive_operation_latencies(rows("client_metrics"), rows("client_histogram"))
    tables = {"runs": add_runner_verdicts(fill_set_ups(runs), rows("outcomes")), "operation_latencies": latencies}
    return {
        name: {str(key[0]): part for key, part in frame.partition_by(PARTITION_KEY, as_dict=True).items()}
        for name, frame in tables.items()
    }


#: Tables that say how the machines were during runs, beside the runs themselves.
DOUBTED_FROM: Final = (
    *("cpu_samples", "throttle_samples", "process_samples", "foreign_samples", "nodes", "settings", "canaries"),
)


def find_doubtful_runs(
    resources: Sequence[ResourceTables], runs: Mapping[str, Sequence[ParquetPart]]
) -> dict[str, pl.DataFrame]:
    """The runs of resources whose status or speed of the machines changes by the samples of all machines of a dataset.

    A run is compared with others of its kind, which may belong to other resources, so this is no derivation of one.

    Args:
        resources: all resources of a dataset.
        runs: the parts of the table `runs` of each.

    Returns:
        Resource -> its rows of `runs`.
    """
    from citus_analysis.bottleneck.machine_work import tabulate_foreign_doubts
    from citus_analysis.bottleneck.witnesses import measure_machine_speed
    from citus_analysis.runs.status import add_machine_doubts

    if not resources:
        return {}
    parts = [part for of_resource in runs.values() for part in of_resource]
    before = scan_table(TABLES["runs"], resources[0].folder, parts).collect()
    tables = {"runs": before, **{name: _scan_all(name, resources).collect() for name in DOUBTED_FROM}}
    after = add_machine_doubts(before, tabulate_foreign_doubts(tables))
    speeds = measure_machine_speed(tables["canaries"], before)
    after = after.drop("machine_speed").join(speeds, on=["resource", "run_id"], how="left", maintain_order="left")
    after = after.select(before.columns)
    equal = [before[name].eq_missing(after[name]) for name in ("status", "status_reason", "machine_speed")]
    changed = after.filter(~(equal[0] & equal[1] & equal[2]))["resource"].unique()
    rows = after.filter(pl.col("resource").is_in(changed.implode())).partition_by(PARTITION_KEY, as_dict=True)
    return {str(key[0]): part for key, part in rows.items()}


def stage_doubtful_runs(tables: ResourceTables, runs: pl.DataFrame) -> list[StagedPart]:
    """The parts of the table `runs` of a resource, staged with their doubts."""
    state = digest(runs.select("run_id", pl.col("status").cast(pl.String), "status_reason", "machine_speed").rows())
    return _stage_pieces("runs", tables, f"doubts-{state}", iter([{"runs": runs}]), 1)


def _scan_all(name: str, resources: Sequence[ResourceTables]) -> pl.LazyFrame:
    """Rows of a table of several resources of a dataset."""
    return scan_table(TABLES[name], resources[0].folder, [part for one in resources for part in one.parts(name)])


def _apply_per_resource(
    compute: Callable[[ResourceTables, int], Pieces],
) -> Callable[[Sequence[ResourceTables], int], list[Pieces]]:
    """The computation of one resource for each of some, one after the other."""
    return lambda resources, jobs: [compute(one, jobs) for one in resources]


def _derive_traces(tables: ResourceTables, jobs: int) -> Pieces:
    if not tables.parts("log_events"):
        return
    from citus_analysis.dataset.records import consume_records, consume_records_by_session
    from citus_analysis.spans.executions import is_distributed_cluster
    from citus_analysis.spans.record_order import TRACED_COLUMNS
    from citus_analysis.spans.sessions import NotInOrder
    from citus_analysis.spans.traces import trace_iteration

    def scan(parts: Sequence[ParquetPart]) -> pl.LazyFrame:
        return scan_table(TABLES["log_events"], tables.folder, parts).select(TRACED_COLUMNS)

    nodes = tables.scan("nodes").collect()
    distributed = is_distributed_cluster(scan(tables.parts("log_events")), nodes)
    # Pids and sessions are valid within one iteration only.
    for iteration in tables.log_iterations():
        parts = tables.log_parts(iteration)
        with TemporaryDirectory(prefix="pieces-", dir=tables.folder / STAGING) as name:
            folder = Path(name)
            try:
                chosen = (tables.resource, iteration)
                records = consume_records(
                    parts, tables.folder, chosen, nodes, folder, distributed=distributed, jobs=jobs
                )
            except NotInOrder:
                of_iteration = pl.col("iteration").is_null() if iteration is None else pl.col("iteration") == iteration
                records = consume_records_by_session(parts, scan, of_iteration, nodes, folder, distributed=distributed)
            yield from map(vars, trace_iteration(records, jobs))


def _derive_sources(tables: ResourceTables, _jobs: int) -> Pieces:
    yield {"sources": make_sources_frame(tables.sources)}


def make_sources_frame(states: Iterable[SourceState]) -> pl.DataFrame:
    """The table `sources`, computed from the manifest."""
    table = TABLES["sources"]
    rows = [
        {name: getattr(state, name, state.identity.get(name)) for name in table.names()}
        | state.read_as
        | {"note": state.problem or state.note}
        for state in states
    ]
    return pl.DataFrame(rows, schema=table.polars_schema())


#: Pieces of traces that are worked on at the same time, at most, and files that are written: each takes some 100 MB.
_MOST_JOBS: Final = 2

_OF_CLIENTS: Final = ("clients", "client_metrics", "client_histogram", "outcomes", "stated_runs")
_OF_RUNS: Final = ("runs", "operation_latencies")
DERIVATIONS: Final = (
    Derivation(
        "runs", 7, _OF_CLIENTS, _OF_RUNS, _derive_runs, together=True, facts=lambda one: run_identity(one).rows()
    ),
    Derivation("traces", 10, ("log_events", "nodes"), TRACE_TABLES, _apply_per_resource(_derive_traces)),
    Derivation(
        "sources",
        3,
        (),
        ("sources",),
        _apply_per_resource(_derive_sources),
        facts=lambda one: make_sources_frame(one.sources).rows(),
    ),
)


def run_identity(tables: ResourceTables) -> pl.DataFrame:
    """One row per run with the facts from its main clients' files, in order of the run's name."""
    # Times that are stated are in the table of the clients.
    facts_of_runs = {*FACTS, "inferred"} - {"resource", *TIMES}
    columns = tuple(name for name in TABLES["runs"].names() if name in facts_of_runs)
    rows: dict[str, dict[str, object]] = {}
    # Main clients first: a monitor's file describes the same run, but states its own number of operations.
    for run_id, identity in sorted(tables.identities(), key=lambda pair: (pair[0], pair[1].role or "")):
        facts = {name: getattr(identity, name) for name in columns}
        rows.setdefault(run_id, {"run_id": run_id, "resource": identity.resource, **facts})
    schema = {name: TABLES["runs"][name].dtype for name in ("run_id", "resource", *columns)}
    return pl.DataFrame(list(rows.values()), schema=schema)


def list_known_runs(resources: Sequence[ResourceTables]) -> dict[str, list[KnownRun]]:
    """The runs of each of a dataset's resources and when their clients ran."""
    if not any(one.parts("clients") for one in resources):
        return {one.resource: _collect_known_runs(one, {}) for one in resources}
    clients = _scan_all("clients", resources).group_by(PARTITION_KEY, "run_id")
    windows = clients.agg(pl.col("start_time").min(), pl.col("end_time").max()).collect()
    times = {(resource, run_id): (start, end) for resource, run_id, start, end in windows.iter_rows()}
    return {one.resource: _collect_known_runs(one, times) for one in resources}


_Times = Mapping[tuple[str, str], tuple[datetime | None, datetime | None]]


def _collect_known_runs(tables: ResourceTables, times: _Times) -> list[KnownRun]:
    runs: dict[str, KnownRun] = {}
    for run_id, identity in tables.identities():
        start, end = times.get((tables.resource, run_id), (None, None))
        runs[run_id] = KnownRun(run_id, identity.iteration, _convert_to_epoch_ms(start), _convert_to_epoch_ms(end))
    return sorted(runs.values(), key=lambda run: run.run_id)


def _convert_to_epoch_ms(time: datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1000)


def group_by_resource(manifest: Manifest) -> list[ResourceTables]:
    """The sources of each resource, ordered by path."""
    ordered = sorted(manifest.sources.values(), key=lambda s: (s.resource, s.path, s.source_id))
    grouped = groupby(ordered, key=attrgetter("resource"))
    return [ResourceTables(manifest.folder, resource, tuple(states)) for resource, states in grouped]


def stage_parts(
    derivation: Derivation, resources: Sequence[tuple[ResourceTables, str]], piece: str = "", jobs: int = 1
) -> list[list[StagedPart]]:
    """Compute the derived tables of some resources of a dataset, or a piece of them, into staged parts of each.

    Args:
        derivation: the computation.
        resources: its inputs, each with the state of the whole derivation.
        piece: distinguishes the files of the piece from those of others.
        jobs: threads that compute it, at most.
    """
    threads = min(jobs, _MOST_JOBS)
    computed = derivation.compute([tables for tables, _ in resources], threads)
    return [
        _stage_pieces(derivation.name, tables, f"{key[:8]}{piece}", pieces, threads)
        for (tables, key), pieces in zip(resources, computed, strict=True)
    ]


def _stage_pieces(name: str, tables: ResourceTables, state: str, pieces: Pieces, threads: int) -> list[StagedPart]:
    place, stem = f"{name} of {tables.resource}", f"{name}-{digest(tables.resource)}-{state}"
    with PartWriter(tables.folder, tables.resource, stem, threads) as writer:
        for rows in pieces:
            with translate_write_errors(tables.folder, place):
                writer.write({table: TABLES[table].batch(frame) for table, frame in rows.items()})
        with translate_write_errors(tables.folder, place):
            return writer.finish()

"""Build statements, span trees and the quality of their links from log records.

Source: for each remote execution, Citus logs the time that the parent waited (task record) and, on the node that ran
it, the statement and its duration, under the global pid of the parent's session. `docs/traces.md` explains the model
with recorded examples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.frames import Frame, convert_to_polars, return_callers_frame_kind
from citus_analysis.core.parallel import map_in_order
from citus_analysis.schema import TABLES, TRACE_TABLES
from citus_analysis.spans.executions import Sessions, is_distributed_cluster
from citus_analysis.spans.identifiers import Identifiers
from citus_analysis.spans.matching import (
    Clocks,
    PairClasses,
    build_matching,
    classify_pairs,
    count_matches,
    link_failures,
    link_unreported,
    tabulate_clock_offsets,
    tabulate_match_quality,
)
from citus_analysis.spans.ordered_arrays import pick
from citus_analysis.spans.pairing import CandidatePairs, PairFacts, pair_by_order
from citus_analysis.spans.record_order import list_log_files
from citus_analysis.spans.sessions import SessionChunk, SessionStore
from citus_analysis.spans.spilling import keep_in_memory, release_free_memory
from citus_analysis.spans.statements import build_statement_profile
from citus_analysis.spans.tree import (
    ChunkLinks,
    LinkFrames,
    build_span_tree,
    find_child_owners,
    find_failed_child_owners,
)

_IDENTITY: Final = ("source_id", "node", "resource", "run_id", "iteration")
_OF_ITERATION: Final = ("resource", "run_id", "iteration")

#: Groups that are processed at the same time.
_AT_ONCE: Final = 2
#: Groups whose pairs stay in memory until they are classified, some 30 MB each; those of others are made twice.
_HELD_GROUPS: Final = 6

Result = TypeVar("Result")


@dataclass(frozen=True, repr=False)
class Traces(DisplayMixin):
    """Statements, spans, and the certainty of their links.

    Attributes:
        statements: table `statements`, one row per statement execution seen by a parent.
        spans: table `spans`, the tree of every statement.
        match_quality: table `match_quality`, one row per pair of nodes.
        clock_offsets: table `clock_offsets`, one row per pair of nodes.
    """

    statements: pl.DataFrame = field(default_factory=TABLES["statements"].empty)
    spans: pl.DataFrame = field(default_factory=TABLES["spans"].empty)
    match_quality: pl.DataFrame = field(default_factory=TABLES["match_quality"].empty)
    clock_offsets: pl.DataFrame = field(default_factory=TABLES["clock_offsets"].empty)


@return_callers_frame_kind
def build_traces(log_events: Frame, nodes: Frame) -> Traces:
    """Build the traces of all statements in server logs.

    Resources and iterations are independent of each other and are processed one by one; memory is bounded by the
    largest iteration (:func:`trace_iteration` needs less). The result does not depend on the order of the rows.

    Args:
        log_events: rows of table `log_events`, identity columns filled in (`source_id`, `resource`, `iteration`,
            `node`), of one or more resources and iterations.
        nodes: rows of table `nodes` of these resources: nodeid (for gpids), host and port (for tasks).

    Returns:
        Frames of the tables `statements`, `spans`, `match_quality` and `clock_offsets`, sorted by time.
    """
    iterations = _trace_iterations(_conform_columns("log_events", log_events), _conform_columns("nodes", nodes))
    parts = [part for iteration in iterations for part in iteration]
    rows = {name: [TABLES[name].conform(getattr(part, name)) for part in parts] for name in TRACE_TABLES}
    return Traces(**{name: pl.concat([TABLES[name].empty(), *rows[name]]) for name in TRACE_TABLES})


def _conform_columns(name: str, frame: Frame) -> pl.DataFrame:
    """The columns of a table in a frame of any kind, with the table's types (other kinds have no enumerations)."""
    given = convert_to_polars(frame)
    return TABLES[name].conform(given.select(column for column in given.columns if column in TABLES[name]))


def trace_iteration(store: SessionStore, jobs: int = _AT_ONCE) -> Iterator[Traces]:
    """Build the traces of one iteration, one chunk of its executions after the other.

    Args:
        store: its sessions, after all records were read.
        jobs: chunks that are processed at the same time.

    Returns:
        The statements and spans of each chunk, sorted by time; then, in a last part, the match quality and the clock
        offsets of the iteration. Texts that identify their rows (source, node, resource, run) are categories, which are
        stored as the texts of the tables.

    Example:
        >>> events, nodes = TABLES["log_events"].empty(), TABLES["nodes"].empty()
        >>> store = SessionStore(list_log_files(events), nodes, distributed=False, spill=keep_in_memory)
        >>> store.consume_sorted([events])
        >>> *chunks, last = trace_iteration(store)
        >>> len(chunks), last.match_quality.height
        (1, 0)
    """
    known = store.find_failed()
    identity, identifiers = _make_identity_frame(known.sources), Identifiers(known.sources)
    links, clocks, counts = _link_chunks(store, known, identifiers, jobs)
    of_iteration = _get_first_identity(known.sources)
    quality = tabulate_match_quality(counts, clocks, of_iteration, known.coverage)
    del known

    def build(one: tuple[SessionChunk, LinkFrames]) -> Traces:
        chunk, (own, of_children, linked) = one
        sessions = store.restore_chunk(chunk)
        statements = build_statement_profile(sessions, own, linked, identifiers, distributed=store.distributed)
        spans = build_span_tree(sessions, statements, own, of_children, identifiers)
        # Released before the spans are sorted, which takes as much memory again.
        del sessions
        statements = _identify_sources("statements", statements, identity)
        return Traces(statements=statements, spans=_identify_sources("spans", spans, identity))

    yield from map_in_order(links.iterate_chunks(), build, min(len(store.chunks), jobs), "traces")
    yield Traces(match_quality=quality, clock_offsets=tabulate_clock_offsets(clocks, of_iteration))


#: Columns of pairs that only the pairing needs, and columns that only identify the owner of a child.
_OF_PAIRING: Final = ("anchored", "session", "is_child", "failed", "stream_shard", "ambiguous", "task", "values_hash")
_OF_OWNERS: Final = ("statement_source", "statement_offset", "statement_seq", "child")


def _release_memory_after_each(results: Iterator[Result], *, several: bool) -> Iterator[Result]:
    """The results; if there are several, freed memory is returned to the system after each."""
    for result in results:
        if several:
            release_free_memory()
        yield result


def _link_chunks(
    store: SessionStore, known: Sessions, identifiers: Identifiers, jobs: int
) -> tuple[ChunkLinks, Clocks, list[pl.DataFrame]]:
    """The links of all chunks, the clocks, and the results of :func:`count_matches`."""
    numbers, at_once = range(store.groups), min(store.groups, jobs)
    held: dict[int, CandidatePairs] = {}

    def pair(number: int, *, again: bool) -> CandidatePairs:
        stays = again and number < _HELD_GROUPS
        found = held.pop(number, None) or pair_by_order(store.select_group(number, known, again=again and not stays))
        if stays:
            held[number] = found
        return found

    def match(group: tuple[int, PairClasses]) -> tuple[LinkFrames, pl.DataFrame]:
        number, own_classes = group
        matching = build_matching(pair(number, again=False), own_classes, clocks)
        owners, links = [find_child_owners(matching, failed_owners, identifiers)], [link_unreported(matching)]
        if number == numbers[-1]:
            owners, links = [*owners, failed_owners], [failures, *links]
        pairs = matching.pairs.drop(*_OF_PAIRING, *_OF_OWNERS)
        return (pairs, pl.concat(owners), pl.concat(links)), count_matches(store.nodes, matching)

    def collect(number: int) -> PairFacts:
        return pair(number, again=True).collect_facts(known)

    facts = _release_memory_after_each(map_in_order(iter(numbers), collect, at_once, "facts"), several=len(numbers) > 1)
    classes, clocks = classify_pairs(
        list(facts),
        known.coverage,
        lambda exact: (pair(number, again=True).select_unmatched(own) for number, own in enumerate(exact)),
    )
    failures, counts = link_failures(known, clocks), []
    failed_owners = find_failed_child_owners(known.executions, failures, identifiers)
    links = ChunkLinks(store.chunks, store.spill if len(numbers) > 1 else None)
    matches = map_in_order(zip(numbers, classes, strict=True), match, at_once, "pairs")
    for frames, counted in _release_memory_after_each(matches, several=len(numbers) > 1):
        links.add(frames)
        counts.append(counted)
    return links, clocks, counts


def _get_first_identity(files: pl.DataFrame) -> dict[str, object]:
    """What identifies all log files of the iteration, as stated for the first file of the first node."""
    of_iteration = files.sort("node", "first_time", "source_id").select(_OF_ITERATION)
    return of_iteration.row(0, named=True) if files.height else dict.fromkeys(_OF_ITERATION)


def _identify_sources(name: str, frame: pl.DataFrame, identity: pl.DataFrame) -> pl.DataFrame:
    """The rows sorted by time, with the columns of their table; texts that identify sources are categories."""
    # Computing the order first and gathering contiguous columns takes a third of the time of sorting the frame,
    # because numpy makes use of rows that are nearly in order.
    ordered = pick(frame.rechunk(), np.lexsort([_make_sort_keys(frame[key]) for key in _ORDER]))
    columns = {column.name: column for column in (*ordered, *pick(identity, ordered["source"].to_numpy()))}
    typed = ((columns[key], dtype) for key, dtype in TABLES[name].polars_schema().items())
    return pl.DataFrame(
        [column if column.dtype in (dtype, pl.Categorical) else column.cast(dtype) for column, dtype in typed]
    )


def _make_identity_frame(sources: pl.DataFrame) -> pl.DataFrame:
    """The columns that identify the rows of each source, texts as categories."""
    columns = (sources[name] for name in _IDENTITY)
    return pl.DataFrame([column.cast(pl.Categorical) if column.dtype == pl.String else column for column in columns])


#: Rows of traces are sorted by these, the last one first.
_ORDER: Final = ("byte_offset", "source", "start_time")


def _make_sort_keys(values: pl.Series) -> NDArray[np.int64]:
    """AnyIntegers or times to sort by; nulls come last."""
    numbers = values.cast(pl.Int64)
    return (numbers.fill_null(np.iinfo(np.int64).max) if numbers.null_count() else numbers).to_numpy()


def _trace_iterations(log_events: pl.DataFrame, nodes: pl.DataFrame) -> Iterator[Iterator[Traces]]:
    """The traces of each iteration of each resource."""
    # Records of one iteration are mostly adjacent, so few rows are left to hash.
    key = pl.col("resource", "iteration")
    changed = pl.any_horizontal(key.ne_missing(key.shift(1))) | (pl.int_range(pl.len()) == 0)
    keys = log_events.select(key).filter(changed).unique().sort("resource", "iteration")
    for (resource,), own in keys.group_by("resource", maintain_order=True):
        of_resource = pl.col("resource").eq_missing(pl.lit(resource, pl.String))
        own_nodes = nodes.filter(of_resource)
        distributed = is_distributed_cluster(log_events.lazy().filter(of_resource), own_nodes)
        for iteration in own["iteration"]:
            chosen = of_resource & pl.col("iteration").eq_missing(pl.lit(iteration))
            events = log_events if keys.height == 1 else log_events.filter(chosen)
            store = SessionStore(list_log_files(events), own_nodes, distributed, keep_in_memory)
            store.consume_sorted([events])
            yield trace_iteration(store)

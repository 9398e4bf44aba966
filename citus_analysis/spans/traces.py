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
from citus_analysis.schema import TABLES
from citus_analysis.spans.executions import (
    Pass,
    SessionPiece,
    Sessions,
    give_back,
    is_distributed_cluster,
    keep_in_memory,
    list_log_files,
)
from citus_analysis.spans.identifiers import Identifiers
from citus_analysis.spans.matching import (
    Clocks,
    PairVerdicts,
    build_matching,
    count_matches,
    judge,
    link_failures,
    link_unreported,
    match_quality,
    tabulate_clock_offsets,
)
from citus_analysis.spans.ordered_arrays import pick
from citus_analysis.spans.pairing import Claims, Ordered, pair_by_order
from citus_analysis.spans.statements import build_statement_profile
from citus_analysis.spans.tree import (
    LinkFrames,
    PieceLinks,
    build_span_tree,
    find_child_owners,
    find_failed_child_owners,
)

_IDENTITY: Final = ("source_id", "node", "resource", "run_id", "iteration")
_OF_ITERATION: Final = ("resource", "run_id", "iteration")
_TABLES: Final = ("statements", "spans", "match_quality", "clock_offsets")

#: Groups that are processed at the same time.
_AT_ONCE: Final = 2
#: Groups of a pass whose pairs stay in memory until they are judged, some 30 MB each; those of others are made twice.
_HELD_GROUPS: Final = 6

Result = TypeVar("Result")


@dataclass(frozen=True, repr=False)
class Traces(DisplayMixin):
    """Statements, spans, and the certainty of their links.

    Attributes:
        statements: table `statements`, one row per statement execution seen by a parent.
        spans: table `spans`, the tree of every statement.
        match_quality: table `match_quality`, one row per pair of nodes.
        clock_offsets: table `tabulate_clock_offsets`, one row per pair of nodes.
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
        Frames of the tables `statements`, `spans`, `match_quality` and `tabulate_clock_offsets`, sorted by time.
    """
    iterations = _trace_iterations(_conform_columns("log_events", log_events), _conform_columns("nodes", nodes))
    parts = [part for iteration in iterations for part in iteration]
    rows = {name: [TABLES[name].conform(getattr(part, name)) for part in parts] for name in _TABLES}
    return Traces(**{name: pl.concat([TABLES[name].empty(), *rows[name]]) for name in _TABLES})


def _conform_columns(name: str, frame: Frame) -> pl.DataFrame:
    """The columns of a table in a frame of any kind, with the table's types (other kinds have no enumerations)."""
    given = convert_to_polars(frame)
    return TABLES[name].conform(given.select(column for column in given.columns if column in TABLES[name]))


def trace_iteration(records: Pass, jobs: int = _AT_ONCE) -> Iterator[Traces]:
    """Build the traces of one iteration, one piece of its executions after the other.

    Args:
        records: the pass over its records, after all were read.
        jobs: pieces that are processed at the same time.

    Returns:
        The statements and spans of each piece, sorted by time; then, in a last part, the match quality and the clock
        offsets of the iteration. Texts that identify their rows (source, node, resource, run) are categories, which are
        stored as the texts of the tables.

    Example:
        >>> events, nodes = TABLES["log_events"].empty(), TABLES["nodes"].empty()
        >>> records = Pass(list_log_files(events), nodes, distributed=False, keep=keep_in_memory)
        >>> records.consume_sorted([events])
        >>> *pieces, last = trace_iteration(records)
        >>> len(pieces), last.match_quality.height
        (1, 0)
    """
    known = records.failed()
    identity, identifiers = _make_identity_frame(known.sources), Identifiers(known.sources)
    links, clocks, counts = _link_pieces(records, known, identifiers, jobs)
    of_iteration = _get_first_identity(known.sources)
    quality = match_quality(counts, clocks, of_iteration, known.coverage)
    del known

    def traced(one: tuple[SessionPiece, LinkFrames]) -> Traces:
        piece, (own, of_children, linked) = one
        sessions = records.sessions(piece)
        statements = build_statement_profile(sessions, own, linked, identifiers, distributed=records.distributed)
        spans = build_span_tree(sessions, statements, own, of_children, identifiers)
        # Released before the spans are sorted, which takes as much memory again.
        del sessions
        statements = _identify_sources("statements", statements, identity)
        return Traces(statements=statements, spans=_identify_sources("spans", spans, identity))

    yield from map_in_order(links.by_piece(), traced, min(len(records.pieces), jobs), "traces")
    yield Traces(match_quality=quality, clock_offsets=tabulate_clock_offsets(clocks, of_iteration))


#: Columns of pairs that only the pairing needs, and columns that only identify the owner of a child.
_OF_PAIRING: Final = ("anchored", "session", "is_child", "failed", "stream_shard", "ambiguous", "task", "values_hash")
_OF_OWNERS: Final = ("statement_source", "statement_offset", "statement_seq", "child")


def _release_memory_after_each(results: Iterator[Result], *, several: bool) -> Iterator[Result]:
    """The results; if there are several, freed memory is returned to the system after each."""
    for result in results:
        if several:
            give_back()
        yield result


def _link_pieces(
    records: Pass, known: Sessions, identifiers: Identifiers, jobs: int
) -> tuple[PieceLinks, Clocks, list[pl.DataFrame]]:
    """The links of all pieces, the clocks, and the results of :func:`count_matches`."""
    numbers, at_once = range(records.groups), min(records.groups, jobs)
    held: dict[int, Ordered] = {}

    def ordered(number: int, *, again: bool) -> Ordered:
        stays = again and number < _HELD_GROUPS
        found = held.pop(number, None) or pair_by_order(records.group(number, known, again=again and not stays))
        if stays:
            held[number] = found
        return found

    def match(group: tuple[int, PairVerdicts]) -> tuple[LinkFrames, pl.DataFrame]:
        number, verdict = group
        matching = build_matching(ordered(number, again=False), verdict, clocks)
        owners, links = [find_child_owners(matching, failed_owners, identifiers)], [link_unreported(matching)]
        if number == numbers[-1]:
            owners, links = [*owners, failed_owners], [failures, *links]
        pairs = matching.pairs.drop(*_OF_PAIRING, *_OF_OWNERS)
        return (pairs, pl.concat(owners), pl.concat(links)), count_matches(records.nodes, matching)

    def claim(number: int) -> Claims:
        return ordered(number, again=True).claims(known)

    claimed = _release_memory_after_each(
        map_in_order(iter(numbers), claim, at_once, "claims"), several=len(numbers) > 1
    )
    verdicts, clocks = judge(
        list(claimed),
        known.coverage,
        lambda exact: (ordered(number, again=True).rest(own) for number, own in enumerate(exact)),
    )
    failures, counts = link_failures(known, clocks), []
    failed_owners = find_failed_child_owners(known.executions, failures, identifiers)
    links = PieceLinks(records.pieces, records.keep if len(numbers) > 1 else None)
    matches = map_in_order(zip(numbers, verdicts, strict=True), match, at_once, "pairs")
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
    """Integers or times to sort by; nulls come last."""
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
            records = Pass(list_log_files(events), own_nodes, distributed, keep_in_memory)
            records.consume_sorted([events])
            yield trace_iteration(records)

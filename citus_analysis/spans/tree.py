"""The span tree of every statement: statement -> phases -> tasks and local executions -> remote executions.

A function that was called on a child may send tasks of its own: they are below the remote execution.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.schema import TABLES, WRITING_STATEMENTS
from citus_analysis.spans.executions import Sessions
from citus_analysis.spans.identifiers import Identifiers
from citus_analysis.spans.matching import Matching
from citus_analysis.spans.ordered_arrays import join_executions
from citus_analysis.spans.sessions import SessionChunk
from citus_analysis.spans.spilling import Restore, Spill
from citus_analysis.spans.statements import REPORTED_AT, make_kind_list_expr

_US: Final = pl.Datetime("us", "UTC")
_MATCH: Final = TABLES["spans"]["match"].dtype
_KIND: Final = TABLES["spans"]["kind"].dtype
_NAME: Final = TABLES["spans"]["name"].dtype
_EXACT: Final = pl.lit("exact", _MATCH)
_COLUMNS: Final = (
    "trace_id", "span_id", "parent_span_id", "kind", "name", "start_time", "end_time", "duration_us", "shard_id",
    "gpid", "pid", "match", "proof", "includes_commit", "session_seq", "source", "byte_offset",
)  # fmt: skip
_OWNER: Final = ("execution", "trace_id", "span_id", "gpid", "pid", "session_seq", "includes_commit")

# Expressions are made once: a small iteration takes as long to make them as to evaluate them.


def _make_span_name_exprs(kind: str, name: pl.Expr | None = None, match: pl.Expr = _EXACT) -> tuple[pl.Expr, ...]:
    """Kind, name and certainty of the spans of one kind; without a name, they have one."""
    named = (pl.lit(kind, _KIND).alias("kind"), match.alias("match"))
    return named if name is None else (*named, name.cast(_NAME).alias("name"))


def _make_interval_exprs(end: str, *, duration: str = "duration_us") -> tuple[pl.Expr, pl.Expr]:
    ended = pl.col(end).cast(_US)
    began = ended - pl.duration(microseconds=pl.col(duration))
    return began.alias("start_time"), ended.alias("end_time")


def _make_child_includes_commit_expr() -> pl.Expr:
    """A text child's duration is printed after its commit (outside a transaction), a binary child's before."""
    kind = pl.col("statement_kind")
    return (
        pl.when(kind == "commit")
        .then(pl.lit(value=True))
        .when(kind.is_in(make_kind_list_expr(WRITING_STATEMENTS)) & ~pl.col("failed"))
        .then(~pl.col("extended") & (pl.col("closing_xid") == 0))
        .alias("includes_commit")
    )


_TYPED: Final = tuple(
    pl.col(name).cast(TABLES["spans"][name].dtype) if name in TABLES["spans"] else pl.col(name) for name in _COLUMNS
)
_NO_PROOF: Final = pl.lit(None, TABLES["spans"]["proof"].dtype).alias("proof")
_NO_SHARD: Final = pl.lit(None).alias("shard_id")
_KIND_OF_STATEMENT: Final = pl.col("statement_kind").fill_null("other")
_CHILD_COMMITS_INSIDE: Final = _make_child_includes_commit_expr()
_ROOT: Final = (
    *_make_span_name_exprs("statement", _KIND_OF_STATEMENT),
    pl.lit(None, pl.UInt64).alias("parent_span_id"),
    pl.col("total_us").alias("duration_us"),
)
_EXECUTES: Final = pl.col("name") == "execute"
_EXECUTE_SPAN: Final = (pl.col("execution"), pl.col("span_id").alias("execute_span"))
_BELOW: Final = pl.coalesce("execute_span", "span_id").alias("below")
_PHASE: Final = (
    *_make_span_name_exprs("phase"),
    *_make_interval_exprs("log_time"),
    _NO_SHARD,
    # Only the phase that executes can contain the commit.
    pl.when(_EXECUTES).then("includes_commit").alias("includes_commit"),
)
_TASK: Final = (
    *_make_span_name_exprs("task", pl.lit("task")),
    *_make_interval_exprs("end_time", duration="task_us"),
    pl.col("task_us").alias("duration_us"),
)
_EXECUTE_BEGINS: Final = pl.col("end_time").cast(_US) - pl.duration(microseconds=pl.col("execute_us"))
_CONNECT: Final = (
    *_make_span_name_exprs("connect", pl.lit("connect")),
    _EXECUTE_BEGINS.alias("start_time"),
    (_EXECUTE_BEGINS + pl.duration(microseconds=pl.col("connect_us"))).alias("end_time"),
    pl.col("connect_us").alias("duration_us"),
    _NO_SHARD,
    pl.lit(None, pl.Boolean).alias("includes_commit"),
)
_LOCAL: Final = (
    *_make_span_name_exprs("local", pl.col("statement_kind")),
    pl.col("log_time").cast(_US).alias("start_time"),
    pl.max_horizontal("log_time", "statement_end").cast(_US).alias("end_time"),
    pl.lit(None, pl.Float64).alias("duration_us"),
)
# Transaction control touches no shard and belongs to no task.
_REMOTE_MATCH: Final = pl.col("match").fill_null(
    pl.when(pl.col("shard_id").is_not_null()).then(pl.lit("unmatched", _MATCH))
)
_REMOTE: Final = (
    *_make_span_name_exprs("remote", _KIND_OF_STATEMENT, _REMOTE_MATCH),
    pl.col("end_time").cast(_US),
    pl.col("start_time").fill_null(pl.col("opener_time").cast(_US)),
    _CHILD_COMMITS_INSIDE,
    pl.col("session_seq_parent").alias("session_seq"),
)
_SENDER: Final = (
    pl.col("execution", "trace_id"),
    _CHILD_COMMITS_INSIDE,
    pl.col("session_seq_parent").alias("session_seq"),
    pl.col("span_id").alias("below"),
)
#: Of a task, the child that it is the owner of.
_OWNED: Final = (
    pl.col("child").alias("execution"),
    pl.col("trace_id"),
    pl.col("span_id").alias("parent_span_id"),
    pl.col("session_seq").alias("session_seq_parent"),
)
_OWNED_DIRECTLY: Final = (*_OWNED, pl.col("link_match").alias("match"), pl.col("link_proof").alias("proof"))
_HAS_CHILD: Final = pl.col("child").is_not_null()


def build_span_tree(
    sessions: Sessions,
    statements: pl.DataFrame,
    pairs: pl.DataFrame,
    owners_of_children: pl.DataFrame,
    identifiers: Identifiers,
) -> pl.DataFrame:
    """All spans of some sessions.

    Args:
        sessions: executions, phases and local executions of the sessions.
        statements: result of :func:`~citus_analysis.spans.statements.build_statement_profile`.
        pairs: tasks with the child execution (`child`) and the certainty of that link (`match`).
        owners_of_children: the owners of the children among the executions (:func:`find_child_owners`).
        identifiers: identifiers of records of the sessions' sources.

    Returns:
        Columns of table `spans` with `source` in place of `source_id`.
    """
    roots = statements.with_columns(*_ROOT, span_id=identifiers.of(statements, "statement"))
    parent_phases = _build_phase_spans(sessions, roots, identifiers)
    executes = parent_phases.filter(_EXECUTES).select(_EXECUTE_SPAN)
    owners = join_executions(roots.select(_OWNER), executes).with_columns(_BELOW)
    remotes = _build_child_spans(sessions, owners_of_children, identifiers)
    tasks = _build_task_spans(pairs, owners, identifiers)
    if tasks.height < pairs.height:
        # Children sent the others.
        tasks = pl.concat([tasks, _build_task_spans(pairs, remotes.select(_SENDER), identifiers)])
    remotes = remotes.with_columns(_REMOTE)
    parts = [roots, parent_phases, _build_connect_spans(statements, owners, identifiers), tasks]
    if sessions.locals.height:
        parts.append(_build_local_spans(sessions, owners, identifiers))
    parts.append(remotes)
    several = (remotes["phases"] > 1).to_numpy()
    if several.any():
        parts.append(_build_phase_spans(sessions, remotes.filter(several), identifiers))
    proven = [part if part is remotes else part.with_columns(_NO_PROOF) for part in parts]
    return pl.concat(
        [part.select(_TYPED) for part in proven if part.height] or [roots.with_columns(_NO_PROOF).select(_TYPED)]
    )


def find_child_owners(matching: Matching, failed: pl.DataFrame, identifiers: Identifiers) -> pl.DataFrame:
    """Find the owners of the children of statements from the pairs alone.

    Args:
        matching: tasks with their children.
        failed: the owners of children that failed (:func:`find_failed_child_owners`), which may have sent tasks.
        identifiers: as for :func:`build_span_tree`.

    Returns:
        `execution` (of the child), `trace_id`, `parent_span_id`, `session_seq_parent`, `match` and `proof`.
    """
    paired = matching.pairs.filter(_HAS_CHILD)
    owners = _assign_child_owners(paired, identifiers, identifiers.of(paired, "task"))
    if matching.unreported.height:
        statements = _select_task_statements(matching.unreported)
        spans = identifiers.of(statements, "statement")
        owners = pl.concat([owners, _assign_child_owners(matching.unreported, identifiers, spans)])
    sent = paired.filter("is_child")
    return owners if sent.is_empty() else _name_roots(owners, failed, sent)


def find_failed_child_owners(executions: pl.DataFrame, links: pl.DataFrame, identifiers: Identifiers) -> pl.DataFrame:
    """Find the owners of children that failed: a task without a record has no span, so the statement itself.

    Args:
        executions: executions that failed.
        links: links of these executions to their children (:data:`~citus_analysis.spans.matching.LINK`).
        identifiers: as for :func:`build_span_tree`.

    Returns:
        The columns of :func:`find_child_owners`.
    """
    roots = executions.with_columns(REPORTED_AT)
    named = roots.with_columns(trace_id=identifiers.of(roots, "trace"), span_id=identifiers.of(roots, "statement"))
    of_children = links.select("execution", "child", link_match="match", link_proof="proof")
    return of_children.join(named, on="execution", how="inner").select(_OWNED_DIRECTLY)


def _name_roots(owners: pl.DataFrame, failed: pl.DataFrame, sent: pl.DataFrame) -> pl.DataFrame:
    """Owners with the trace of the statement at the root, although children sent some of the tasks.

    Args:
        owners: as :func:`find_child_owners` returns them, but with the trace of the execution that sent the task.
        failed: owners of further children.
        sent: the tasks with a child that were sent by children.
    """
    of_root = ["trace_id", "session_seq_parent"]
    senders = sent.select(execution="child", sender="execution")
    named = pl.concat([owners, failed]).join(senders, on="execution", how="left", maintain_order="left")
    # A child without an owner is a root itself, whose number among the statements of its session is unknown.
    named = named.with_columns(session_seq_parent=pl.when(pl.col("sender").is_null()).then("session_seq_parent"))
    is_known = pl.col("sender").is_in(named["execution"].implode()).fill_null(value=False)
    levels, rest = [named.filter(~is_known)], named.filter(is_known)
    while levels[-1].height and rest.height:
        roots = levels[-1].select(pl.col("execution").alias("sender"), *of_root)
        levels.append(rest.drop(of_root).join(roots, on="sender", how="inner").select(named.columns))
        rest = rest.join(levels[-1], on="execution", how="anti")
    return pl.concat([*levels, rest]).join(owners, on="execution", how="semi").select(owners.columns)


def _select_task_statements(pairs: pl.DataFrame) -> pl.DataFrame:
    """Where the statements of tasks were reported."""
    return pairs.select(source="statement_source", byte_offset="statement_offset")


def _assign_child_owners(pairs: pl.DataFrame, identifiers: Identifiers, spans: pl.Series) -> pl.DataFrame:
    return pairs.select(
        execution="child",
        trace_id=identifiers.of(_select_task_statements(pairs), "trace"),
        parent_span_id=spans,
        session_seq_parent="statement_seq",
        match="match",
        proof="proof",
    )


def _build_phase_spans(sessions: Sessions, owners: pl.DataFrame, identifiers: Identifiers) -> pl.DataFrame:
    named = owners.select(_OWNER).rename({"span_id": "parent_span_id"})
    phases = join_executions(sessions.phases, named, known_only=True)
    return phases.with_columns(*_PHASE, span_id=identifiers.of(phases, "phase"))


def _build_task_spans(pairs: pl.DataFrame, owners: pl.DataFrame, identifiers: Identifiers) -> pl.DataFrame:
    named = owners.select("execution", "trace_id", "session_seq", "includes_commit", parent_span_id="below")
    tasks = join_executions(pairs, named, known_only=True)
    return tasks.with_columns(*_TASK, span_id=identifiers.of(tasks, "task"))


def _build_connect_spans(statements: pl.DataFrame, owners: pl.DataFrame, identifiers: Identifiers) -> pl.DataFrame:
    """Spans of the times that statements waited for connections, from the begin of their execute phase."""
    connecting = statements.filter(pl.col("connect_us").is_not_null())
    made = join_executions(connecting, owners.select("execution", parent_span_id="below"))
    return made.with_columns(*_CONNECT, span_id=identifiers.of(made, "connect"))


def _build_local_spans(sessions: Sessions, owners: pl.DataFrame, identifiers: Identifiers) -> pl.DataFrame:
    """Executions on the parent's own shards: the log gives their begin; they end with their statement at the latest."""
    ends = sessions.executions.select("execution", statement_end="end_time")
    named = owners.select(
        "execution", "trace_id", "session_seq", "includes_commit", "gpid", "pid", parent_span_id="below"
    )
    local = join_executions(join_executions(sessions.locals, named, known_only=True), ends)
    return local.with_columns(*_LOCAL, span_id=identifiers.of(local, "local"))


def _build_child_spans(sessions: Sessions, owners: pl.DataFrame, identifiers: Identifiers) -> pl.DataFrame:
    """The executions of children with their trace and span."""
    executions = sessions.executions.filter(pl.col("is_child"))
    children = join_executions(executions.with_columns(REPORTED_AT), owners)
    return children.with_columns(
        trace_id=pl.coalesce("trace_id", identifiers.of(children, "trace")), span_id=identifiers.of(children, "remote")
    )


# Links between the chunks of a pass: the tasks of each execution, and the owners of child executions.
#
# Tasks are paired group by group, and statements are built chunk by chunk. In between, the links of many groups are
# spilled, divided into blocks of chunks.

#: Pairs of tasks with children, owners of children, links of statements with children without a task.
LinkFrames = Sequence[pl.DataFrame]

#: Most rows in memory before they are spilled, and chunks of a block: some 50 MB each.
MOST_ROWS: Final = 200_000
CHUNKS_AT_ONCE: Final = 8


class ChunkLinks:
    """The links of all chunks, each frame by execution.

    Args:
        chunks: all chunks, in order.
        spill: takes arrays out of memory; None: they stay in memory.
    """

    def __init__(self, chunks: Sequence[SessionChunk], spill: Spill | None) -> None:
        self._chunks = chunks
        self._at_once = len(chunks) if spill is None else CHUNKS_AT_ONCE
        ends = [chunks[number].first for number in range(self._at_once, len(chunks), self._at_once)]
        self._kinds = tuple(_ByExecution(ends, spill) for _ in range(3))

    def add(self, frames: LinkFrames) -> None:
        """Add links of some executions."""
        for kind, frame in zip(self._kinds, frames, strict=True):
            kind.add(frame)

    def iterate_chunks(self) -> Iterator[tuple[SessionChunk, LinkFrames]]:
        """Each chunk with its links; can be called once."""
        for block, begin in enumerate(range(0, len(self._chunks), self._at_once)):
            frames = [kind.restore_block(block) for kind in self._kinds]
            for chunk in self._chunks[begin : begin + self._at_once]:
                ends = chunk.first, chunk.first + chunk.count
                places = (np.searchsorted(frame["execution"].to_numpy(), ends).tolist() for frame in frames)
                yield chunk, [frame[begin:end] for frame, (begin, end) in zip(frames, places, strict=True)]


@dataclass
class _ByExecution:
    """Rows of one kind.

    Args:
        ends: the first execution after each block of chunks but the last.
        spill: as in :class:`ChunkLinks`.
    """

    ends: Sequence[int]
    spill: Spill | None
    _waiting: list[pl.DataFrame] = field(default_factory=list)
    _spilled: defaultdict[int, list[Restore]] = field(default_factory=lambda: defaultdict(list))
    _none: pl.DataFrame = field(default_factory=pl.DataFrame)

    def add(self, rows: pl.DataFrame) -> None:
        self._none = rows.clear()
        self._waiting.append(rows)
        if self.spill is not None and sum(frame.height for frame in self._waiting) >= MOST_ROWS:
            self._spill(self.spill)

    def _spill(self, spill: Spill) -> None:
        rows = self._take_waiting()
        ends = np.searchsorted(rows["execution"].to_numpy(), self.ends).tolist()
        for chunk, (begin, end) in enumerate(pairwise([0, *ends, rows.height])):
            if end > begin:
                stream = BytesIO()
                rows[begin:end].write_ipc_stream(stream)
                self._spilled[chunk].append(spill({"rows": np.frombuffer(stream.getbuffer(), np.uint8)}))

    def _take_waiting(self) -> pl.DataFrame:
        rows, self._waiting = _sort_by_execution([self._none, *self._waiting]), []
        return rows

    def restore_block(self, number: int) -> pl.DataFrame:
        """The rows of a block of chunks, by execution."""
        if self.spill is None:
            return self._take_waiting()
        if self._waiting:
            self._spill(self.spill)
        spilled = [restore()["rows"].tobytes() for restore in self._spilled.pop(number, [])]
        return _sort_by_execution([self._none, *map(pl.read_ipc_stream, spilled)])


def _sort_by_execution(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    rows = pl.concat(frames)
    return rows if rows["execution"].is_sorted() else rows.sort("execution", maintain_order=True)

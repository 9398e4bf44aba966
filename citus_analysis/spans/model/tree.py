"""The span tree of every statement: statement -> phases -> tasks and local executions -> remote executions.

A function that was called on a child may send tasks of its own: they are below the remote execution.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.schema import TABLES, WRITING_STATEMENTS
from citus_analysis.spans.model.identifiers import Identifiers
from citus_analysis.spans.model.statements import kinds
from citus_analysis.spans.read.ordered_arrays import join_executions
from citus_analysis.spans.read.sessions import Sessions

__all__ = ["owners_of_children", "span_tree"]

_US: Final = pl.Datetime("us", "UTC")
_MATCH: Final = TABLES["spans"]["match"].dtype
_KIND: Final = TABLES["spans"]["kind"].dtype
_NAME: Final = TABLES["spans"]["name"].dtype
_EXACT: Final = pl.lit("exact", _MATCH)
_COLUMNS: Final = (
    "trace_id", "span_id", "parent_span_id", "kind", "name", "start_time", "end_time", "duration_us", "shard_id",
    "gpid", "pid", "match", "includes_commit", "session_seq", "source", "byte_offset",
)  # fmt: skip
_OWNER: Final = ("execution", "trace_id", "span_id", "gpid", "pid", "session_seq", "includes_commit")


def span_tree(
    sessions: Sessions,
    statements: pl.DataFrame,
    pairs: pl.DataFrame,
    failures: pl.DataFrame,
    identifiers: Identifiers,
    owners_of_children: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """All spans of some sessions.

    Args:
        sessions: executions, phases and tasks of the sessions.
        statements: result of :func:`~citus_analysis.spans.model.statements.statement_profile`.
        pairs: tasks with the child execution (`child`) and the certainty of that link (`match`).
        failures: failed statements with the child execution that failed.
        identifiers: identifiers of records of the sessions' sources.
        owners_of_children: the owners of the children among the executions (:func:`owners_of_children`); None if the
            statements that own the children are all among the executions, too.

    Returns:
        Columns of table `spans` with `source` in place of `source_id`.
    """
    roots = _roots(statements, identifiers)
    parent_phases = _phases(sessions, roots, identifiers)
    executes = parent_phases.filter(pl.col("name") == "execute").select("execution", execute_span="span_id")
    owners = join_executions(roots.select(_OWNER), executes).with_columns(below=pl.coalesce("execute_span", "span_id"))
    tasks = _all_tasks(sessions, pairs, owners, identifiers)
    if owners_of_children is None:
        owners_of_children = pl.concat([_owners_of_children(tasks), _owners_of_failures(roots, failures)])
    remotes = _remotes(sessions, owners_of_children, identifiers)
    local = _locals(sessions, owners, identifiers)
    child_phases = _phases(sessions, remotes.filter(pl.col("phases") > 1), identifiers)
    connects = _connects(statements, owners, identifiers)
    parts = (roots, parent_phases, connects, tasks, local, remotes, child_phases)
    return pl.concat([part.select(_typed()) for part in parts])


def owners_of_children(
    pairs: pl.DataFrame, failed: pl.DataFrame, failures: pl.DataFrame, identifiers: Identifiers
) -> pl.DataFrame:
    """Find the owners of the children of statements from the pairs alone; children must send no tasks themselves.

    Args:
        pairs: as for :func:`span_tree`.
        failed: executions that failed.
        failures: as for :func:`span_tree`.
        identifiers: as for :func:`span_tree`.

    Returns:
        `execution` (of the child), `trace_id`, `parent_span_id`, `session_seq_parent` and `match`.
    """
    paired = pairs.filter(pl.col("child").is_not_null())
    statements = paired.select(source="statement_source", byte_offset="statement_offset")
    tasks = paired.select(
        execution="child",
        trace_id=identifiers.of(statements, "trace"),
        parent_span_id=identifiers.of(paired, "task"),
        session_seq_parent="statement_seq",
        match="match",
    )
    if failures.is_empty():
        return tasks
    roots = failed.with_columns(byte_offset=pl.coalesce("byte_offset", "last_offset"))
    named = roots.with_columns(trace_id=identifiers.of(roots, "trace"), span_id=identifiers.of(roots, "statement"))
    return pl.concat([tasks, _owners_of_failures(named, failures)])


def _typed() -> list[pl.Expr]:
    spans = TABLES["spans"]
    return [pl.col(name).cast(spans[name].dtype) if name in spans else pl.col(name) for name in _COLUMNS]


def _roots(statements: pl.DataFrame, identifiers: Identifiers) -> pl.DataFrame:
    return statements.with_columns(
        span_id=identifiers.of(statements, "statement"),
        parent_span_id=pl.lit(None, pl.UInt64),
        kind=pl.lit("statement", _KIND),
        name=pl.col("statement_kind").fill_null("other").cast(_NAME),
        duration_us=pl.col("total_us"),
        match=_EXACT,
    )


def _phases(sessions: Sessions, owners: pl.DataFrame, identifiers: Identifiers) -> pl.DataFrame:
    named = owners.select(_OWNER).rename({"span_id": "parent_span_id"})
    phases = join_executions(sessions.phases, named, known_only=True)
    return phases.with_columns(
        *_interval("log_time"),
        span_id=identifiers.of(phases, "phase"),
        kind=pl.lit("phase", _KIND),
        shard_id=None,
        match=_EXACT,
        # Only the phase that executes can contain the commit.
        includes_commit=pl.when(pl.col("name") == "execute").then("includes_commit"),
    )


def _all_tasks(sessions: Sessions, pairs: pl.DataFrame, owners: pl.DataFrame, identifiers: Identifiers) -> pl.DataFrame:
    """The tasks of statements, then, level by level, the tasks that their children sent."""
    levels = [_tasks(pairs, owners, identifiers)]
    if levels[0].height == pairs.height:
        return levels[0]
    rest = pairs.join(owners, on="execution", how="anti")
    while rest.height:
        first = rest.join(rest.select(execution="child").drop_nulls(), on="execution", how="anti")
        owned = pl.concat([_owners_of_children(level) for level in levels])
        levels.append(_tasks(first, _senders(sessions, owned, identifiers), identifiers))
        if first.is_empty():
            break
        rest = rest.join(first, on="task", how="anti")
    return pl.concat(levels)


def _senders(sessions: Sessions, owners: pl.DataFrame, identifiers: Identifiers) -> pl.DataFrame:
    """The owners of tasks that children sent: their own executions."""
    return _children(sessions, owners, identifiers).select(
        "execution",
        "trace_id",
        includes_commit=_child_commits_inside(),
        session_seq="session_seq_parent",
        below="span_id",
    )


def _tasks(pairs: pl.DataFrame, owners: pl.DataFrame, identifiers: Identifiers) -> pl.DataFrame:
    named = owners.select("execution", "trace_id", "session_seq", "includes_commit", parent_span_id="below")
    tasks = join_executions(pairs, named, known_only=True)
    return tasks.with_columns(
        *_interval("end_time", duration="task_us"),
        span_id=identifiers.of(tasks, "task"),
        kind=pl.lit("task", _KIND),
        name=pl.lit("task", _NAME),
        duration_us="task_us",
        match=_EXACT,
        child_match="match",
    )


def _connects(statements: pl.DataFrame, owners: pl.DataFrame, identifiers: Identifiers) -> pl.DataFrame:
    """Spans of the times that statements waited for connections, from the begin of their execute phase."""
    connecting = statements.filter(pl.col("connect_us").is_not_null())
    made = join_executions(connecting, owners.select("execution", parent_span_id="below"))
    start = pl.col("end_time").cast(_US) - pl.duration(microseconds=pl.col("execute_us"))
    return made.with_columns(
        span_id=identifiers.of(made, "connect"),
        kind=pl.lit("connect", _KIND),
        name=pl.lit("connect", _NAME),
        start_time=start,
        end_time=start + pl.duration(microseconds=pl.col("connect_us")),
        duration_us="connect_us",
        shard_id=None,
        match=_EXACT,
        includes_commit=pl.lit(None, pl.Boolean),
    )


def _locals(sessions: Sessions, owners: pl.DataFrame, identifiers: Identifiers) -> pl.DataFrame:
    """Executions on the parent's own shards: the log gives their begin; they end with their statement at the latest."""
    ends = sessions.executions.select("execution", statement_end="end_time")
    named = owners.select(
        "execution", "trace_id", "session_seq", "includes_commit", "gpid", "pid", parent_span_id="below"
    )
    local = join_executions(join_executions(sessions.locals, named, known_only=True), ends)
    return local.with_columns(
        span_id=identifiers.of(local, "local"),
        kind=pl.lit("local", _KIND),
        name=pl.col("statement_kind").cast(_NAME),
        start_time=pl.col("log_time").cast(_US),
        end_time=pl.max_horizontal("log_time", "statement_end").cast(_US),
        duration_us=pl.lit(None, pl.Float64),
        match=_EXACT,
    )


def _owners_of_children(tasks: pl.DataFrame) -> pl.DataFrame:
    return tasks.filter(pl.col("child").is_not_null()).select(
        execution="child",
        trace_id="trace_id",
        parent_span_id="span_id",
        session_seq_parent="session_seq",
        match="child_match",
    )


def _owners_of_failures(roots: pl.DataFrame, failures: pl.DataFrame) -> pl.DataFrame:
    """A failed task has no record and so no span: its child is directly below the statement."""
    return failures.join(roots, on="execution", how="inner").select(
        execution="child",
        trace_id="trace_id",
        parent_span_id="span_id",
        session_seq_parent="session_seq",
        match=pl.lit("inferred", _MATCH),
    )


def _remotes(sessions: Sessions, owners: pl.DataFrame, identifiers: Identifiers) -> pl.DataFrame:
    """All executions of children; those without a known task are roots of traces of their own."""
    on_shard = pl.col("shard_id").is_not_null()
    return _children(sessions, owners, identifiers).with_columns(
        kind=pl.lit("remote", _KIND),
        name=pl.col("statement_kind").fill_null("other").cast(_NAME),
        end_time=pl.col("end_time").cast(_US),
        start_time=pl.col("start_time").fill_null(pl.col("opener_time").cast(_US)),
        # Transaction control touches no shard and belongs to no task.
        match=pl.col("match").fill_null(pl.when(on_shard).then(pl.lit("unmatched", _MATCH))),
        includes_commit=_child_commits_inside(),
        session_seq=pl.col("session_seq_parent"),
    )


def _children(sessions: Sessions, owners: pl.DataFrame, identifiers: Identifiers) -> pl.DataFrame:
    """The executions of children with their trace and span."""
    executions = sessions.executions.filter(pl.col("is_child"))
    children = join_executions(executions.with_columns(byte_offset=pl.coalesce("byte_offset", "last_offset")), owners)
    return children.with_columns(
        trace_id=pl.coalesce("trace_id", identifiers.of(children, "trace")), span_id=identifiers.of(children, "remote")
    )


def _child_commits_inside() -> pl.Expr:
    """A text child's duration is printed after its commit (outside a transaction), a binary child's before."""
    kind = pl.col("statement_kind")
    return (
        pl.when(kind == "commit")
        .then(pl.lit(value=True))
        .when(kind.is_in(kinds(WRITING_STATEMENTS)) & ~pl.col("failed"))
        .then(~pl.col("extended") & (pl.col("closing_xid") == 0))
    )


def _interval(end: str, *, duration: str = "duration_us") -> tuple[pl.Expr, pl.Expr]:
    ended = pl.col(end).cast(_US)
    began = ended - pl.duration(microseconds=pl.col(duration))
    return began.alias("start_time"), ended.alias("end_time")

"""What was observed of both sides of a difference: runs, their response times, and statements by cell and run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.attribution.evidence import (
    count_sampled_statements,
    cut_to_common_evidence,
    explain_unlike_clients,
    explain_unlike_thresholds,
    find_absent_logs,
    find_task_nodes,
    find_unlogged_parents,
    have_own_texts,
    leave_out_runs_without_logs,
)
from citus_analysis.core.frames import TableSource, convert_to_polars, scan_source_table
from citus_analysis.core.type_aliases import Floats
from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.operations import MEAN_LATENCY_US, adds_up
from citus_analysis.runs.selection import (
    NAMING,
    VALUE_SEPARATOR,
    Question,
    find_differing_columns,
    select_asked_runs,
    select_named_runs,
)
from citus_analysis.runs.set_ups import LOAD
from citus_analysis.runs.setting_changes import describe_compared_settings, find_setting_changes
from citus_analysis.runs.windows import select_measured_rows
from citus_analysis.stats.drift import build_block_layout, is_interleaved
from citus_analysis.stats.studied_runs import get_start_times_ms
from citus_analysis.stats.verdicts import Comparison, compare
from citus_analysis.stats.warmup import estimate_effective_sample_size
from citus_analysis.texts.words import join_words, pluralize
from citus_analysis.units import US_PER_MS, US_PER_S

# The two sides of a difference: runs that a text names, or a window of time of logs without runs.

_ALONE: Final = ("workers", *LOAD)
_BETWEEN: Final = ".."


@dataclass(frozen=True)
class Window:
    """An interval of time, in UTC.

    Attributes:
        begin: the first moment.
        end: the first moment after it.
    """

    begin: datetime
    end: datetime


def parse_window(text: str) -> Window | None:
    """The interval of time that a text names, such as `2026-03-01T10:00..2026-03-01T10:05`; None if it names none.

    Raises:
        UsageError: the end is not after the begin, or one of them is no time.

    Example:
        >>> parse_window("2026-03-01T10:00..2026-03-01T10:05:30").end.minute
        5
        >>> parse_window("binary") is None
        True
    """
    first, dots, last = text.partition(_BETWEEN)
    if not dots or not re.match(r"\s*\d{4}-", first):
        return None
    try:
        begin, end = (datetime.fromisoformat(part.strip()) for part in (first, last))
    except ValueError as error:
        raise UsageError(
            f"{text!r} is no window of time ({error})", hint="write FROM..UNTIL, such as 2026-03-01T10:00..10:05"
        ) from error
    begin, end = (one.replace(tzinfo=one.tzinfo or UTC).astimezone(UTC) for one in (begin, end))
    if end <= begin:
        raise UsageError(f"the window {text} ends before it begins")
    return Window(begin, end)


def format_sample_label(text: str) -> str:
    """The name of a side in sentences: the value alone where the column is one of :data:`NAMING`.

    Example:
        >>> format_sample_label("set_up=base|again"), format_sample_label("workers=8")
        ('base or again', 'workers=8')
    """
    column, equals, value = text.partition("=")
    named = value if equals and column.strip() in NAMING and "," not in value else text
    return named.replace(VALUE_SEPARATOR, " or ")


def check_same_load(sides: Sequence[tuple[str, pl.DataFrame]]) -> None:
    """Check that the runs of a side did the same.

    Raises:
        InsufficientDataError: a side has no run.
        UsageError: runs of a side differ in their load or size.
    """
    for name, runs in sides:
        if runs.is_empty():
            raise InsufficientDataError(f"no run of {name} is left")
        for column in [one for one in _ALONE if one in runs.columns]:
            values = runs[column].unique().sort().cast(pl.String).to_list()
            if len(values) > 1:
                shown = join_words([str(value) for value in values], most=4)
                hint = f"choose one: --only {column}={values[-1]}"
                raise UsageError(f"the runs of {name} differ in {column} ({shown})", hint=hint)


# Times of statements by run, kind, place of execution and nodes: what an account of a difference is made of.

#: What names a run in all tables.
RUN: Final = ("resource", "run_id")
#: Part of T, in the order in which a statement passes them -> where the time passed, in words.
SEGMENT_WORDS: Final = {
    "parse_us": "parsing on the parent",
    "bind_us": "binding on the parent",
    "connect_us": "making connections",
    "parent_us": "executing on the parent",
    "between_us": "between parent and child",
    "commit_us": "between parent and child (commit included)",
    "child_us": "in the child",
    "unseen_us": "waiting for children (not divided, because the logs do not show the children on both sides)",
    "whole_us": "in statements as a whole (not divided: the logs do not show on both sides where they ran)",
}
#: Those of the child and between are of the child's node.
SEGMENTS: Final = tuple(SEGMENT_WORDS)
#: Segments that pass on the child's node, or on the way to it.
OF_CHILD: Final = frozenset({"between_us", "commit_us", "child_us", "unseen_us"})
#: Statements of one cell are alike but for their times.
CELL: Final = ("statement_kind", "statement_fingerprint", "several", "executed", "node", "child_node")
#: Statements of one kind do the same. Where a text is executed on one shard and on several, these are two kinds.
KIND: Final = ("statement_kind", "statement_fingerprint", "several")
#: What answered the statements of one place. Of several shards, all nodes did, whichever was the slowest.
_PLACE: Final = ("kind", "executed", "node", "placed_on")
_COLUMNS: Final = (
    *("trace_id", "resource", "run_id", "start_time", "end_time", "node", "statement_kind", "statement_fingerprint"),
    *(
        "executed",
        "total_us",
        "parse_us",
        "bind_us",
        "connect_us",
        "wait_us",
        "child_us",
        "shard_id",
        "pid",
        "source_id",
    ),
    "byte_offset",
)


def compute_statement_times(
    statements: pl.LazyFrame, spans: pl.LazyFrame, task_nodes: pl.DataFrame | None = None
) -> pl.LazyFrame:
    """Statements with the node of their child and the parts of T; the parts add up to `total_us`.

    Of a statement with several tasks, the child is the one on its critical path: the connection whose tasks took
    longest together. Where a child is not seen (`unseen_child`), its node is the one to which the task was sent, if
    there is one task alone, and the time of waiting is not divided. Statements that failed, and those whose T is not
    known, are left out.

    Args:
        statements: the table `statements`.
        spans: the table `spans`.
        task_nodes: nodes to which tasks were sent, as
            :func:`citus_analysis.attribution.evidence.find_task_nodes` gives them.
    """
    known = statements.filter(pl.col("total_us").is_not_null() & ~pl.col("failed")).select(_COLUMNS)
    children = _find_critical_children(spans, _NO_TASK_NODES if task_nodes is None else task_nodes)
    placed = known.join(children, on="trace_id", how="left", maintain_order="left")
    wait = pl.col("wait_us").fill_null(0.0)
    seen = pl.col("child_us").is_not_null() & pl.col("child_node").is_not_null() & pl.col("seen").fill_null(value=False)
    between = pl.when(seen).then(wait - pl.col("child_us")).otherwise(0.0)
    hides_commit = pl.col("hides_commit").fill_null(value=False)
    before = [pl.col(name).fill_null(0.0) for name in ("parse_us", "bind_us", "connect_us")]
    divided = placed.with_columns(
        *before,
        between_us=pl.when(hides_commit).then(0.0).otherwise(between),
        commit_us=pl.when(hides_commit).then(between).otherwise(0.0),
        child_us=pl.when(seen).then("child_us").otherwise(0.0),
        unseen_us=pl.when(seen).then(0.0).otherwise(wait),
        child_node=pl.when(wait > 0).then("child_node"),
        unseen_child=~seen & (wait > 0),
        whole_us=pl.lit(0.0),
    )
    others = [name for name in SEGMENTS if name != "parent_us"]
    return divided.with_columns(parent_us=pl.col("total_us") - pl.sum_horizontal(others)).drop("wait_us", "seen")


_NO_TASK_NODES: Final = pl.DataFrame(
    schema={"source_id": pl.String, "byte_offset": pl.Int64, "run_id": pl.String, "task_node": pl.String}
)


def _find_critical_children(spans: pl.LazyFrame, task_nodes: pl.DataFrame) -> pl.LazyFrame:
    """trace_id, child_node, hides_commit, seen: the child on the critical path of each statement."""
    remote = spans.filter((pl.col("kind") == "remote") & pl.col("parent_span_id").is_not_null()).select(
        "trace_id",
        "parent_span_id",
        "pid",
        child_node=pl.col("node").cast(pl.String),
        hides_commit=~pl.col("includes_commit"),
    )
    tasks = spans.filter(pl.col("kind") == "task").select(
        "trace_id", pl.col("source_id").cast(pl.String), "byte_offset", parent_span_id="span_id", task_us="duration_us"
    )
    several = pl.len().over("trace_id") > 1
    alone = remote.filter(~several).select("trace_id", "child_node", "hides_commit")
    lanes = (
        remote.filter(several)
        .join(tasks.select("parent_span_id", "task_us"), on="parent_span_id", how="left")
        .group_by("trace_id", "child_node", "pid")
        .agg(pl.col("task_us").sum(), pl.col("hides_commit").first())
        .sort("task_us", "child_node", "pid", descending=[True, False, False])
        .unique("trace_id", keep="first", maintain_order=True)
    )
    names = alone.collect_schema().names()
    found = pl.concat([alone, lanes.select(names)]).with_columns(seen=pl.lit(value=True))
    # With a child unseen, nobody knows which child of several was on the critical path.
    sent = tasks.join(task_nodes.lazy(), on=["source_id", "byte_offset"], how="left")
    unseen = sent.join(remote.select("parent_span_id"), on="parent_span_id", how="anti")
    numbers = tasks.group_by("trace_id").agg(tasks=pl.len())
    lacking = (
        unseen.group_by("trace_id")
        .agg(pl.col("task_node").first())
        .join(numbers, on="trace_id")
        .select(
            "trace_id",
            child_node=pl.when(pl.col("tasks") == 1).then("task_node"),
            hides_commit=pl.lit(None, pl.Boolean),
            seen=pl.lit(value=False),
        )
    )
    return pl.concat([found.join(lacking, on="trace_id", how="anti"), lacking])


#: Column of `Side.table`: statements of each batch of logs without runs.
STATEMENTS_PER_S: Final = "statements_per_s"
#: Statements per operation this close to a whole number are that number: some statements have no record.
_WHOLE: Final = 0.05
#: Numbers of batches into which a window of time without runs is cut.
BATCHES: Final = 10
_CHANGE: Final = dict.fromkeys(("name", "before", "after"), pl.String())
_EXAMPLES: Final = 3
_NODES: Final = ("node", "child_node")
_MONITORED: Final = "monitored"
#: pgbench --rate: name of the mean time by which operations were sent later than scheduled, in ms.
_LAG: Final = "rate limit schedule lag average"


@dataclass(frozen=True)
class ObservedSample:
    """One side of a difference.

    Attributes:
        name: its name in words.
        table: its runs, one row each, in the order of the arrays.
        counts: statements per operation; one row per run, one column per cell.
        times: time per operation (µs) by run, cell and segment.
        response_us: mean response time of each run, as its clients report it, or the traced time.
        traced_us: mean traced time of an operation of each run.
        untraced_us: mean response time of each run less that of the client whose statements were traced; 0 if it is
            that client's own, or if the traced client of a run reported none.
        statements: number of traced statements.
        unseen_us: what is in no term of its own, because both sides do not show it alike, of each run.
    """

    name: str
    table: pl.DataFrame
    counts: Floats
    times: Floats
    response_us: Floats
    traced_us: Floats
    untraced_us: Floats
    statements: int
    unseen_us: Floats

    @property
    def runs(self) -> int:
        """Number of runs."""
        return self.table.height

    @property
    def outside_us(self) -> Floats:
        """Response time of the traced client's operations that no traced statement covers, of each run."""
        return self.response_us - self.untraced_us - self.traced_us - self.unseen_us


@dataclass(frozen=True)
class Observed:
    """Both sides of a difference, over the same cells.

    Attributes:
        base: the side that the other is compared with.
        other: the other side.
        cells: one row per cell: `kind` and `place` (their numbers), and the columns of CELL.
        paired: whether the n-th runs of both sides were measured in the same block.
        measured: what response times are.
        changes: settings and loads that differ.
        timed: all statements with their segments, with `side`.
        sources: datasets of base and other.
        warnings: caveats.
        unit: what the rows of a side are: runs, or batches of time of logs without runs.
        unseen: what the sides' `unseen_us` is, in words.
        compared: which settings were compared, in words.
        effective: numbers of independent batches that those of both sides are worth; None for runs.
    """

    base: ObservedSample
    other: ObservedSample
    cells: pl.DataFrame
    paired: bool
    measured: str
    changes: pl.DataFrame
    timed: pl.DataFrame
    sources: tuple[TableSource, TableSource]
    warnings: tuple[str, ...]
    unit: str = "run"
    unseen: str = ""
    compared: str = ""
    effective: tuple[float, float] | None = None

    @property
    def both(self) -> tuple[ObservedSample, ObservedSample]:
        """Base and other."""
        return self.base, self.other

    def throughput(self, question: Question) -> Comparison | None:
        """The comparison of the sides' throughput; None where it is not known of all runs."""
        values = [side.table.get_column("throughput_ops_s", default=None) for side in self.both]
        known = [one for one in values if one is not None and not one.null_count() and one.min() > 0]
        if len(known) < len(values):
            return None
        base, other = (one.to_numpy() for one in known)
        return self._compare_samples(base, other, "throughput_ops_s", question)

    def response_time(self, question: Question) -> Comparison:
        """The comparison of the sides' response times."""
        return self._compare_samples(self.base.response_us, self.other.response_us, "response_time_us", question)

    def _compare_samples(self, base: Floats, other: Floats, metric: str, question: Question) -> Comparison:
        worth = None if self.effective is None else (self.effective[1], self.effective[0])
        compared = partial(
            compare,
            other,
            base,
            question.margin,
            level=question.level,
            metric=metric,
            blocked=self.paired,
            effective=worth,
        )
        higher = metric == "throughput_ops_s"
        return compared(higher_is_better=higher, label_a=self.other.name, label_b=self.base.name)

    def examples(self, node: str, segment: str) -> pl.DataFrame:
        """The slowest statements of the other side in a segment on a node, and the lines of logs that report them."""
        at = "child_node" if segment in OF_CHILD else "node"
        mine = self.timed.filter(side=1)
        chosen = mine.filter(pl.col(at) == node) if node else mine
        kept = chosen.sort(segment or "total_us", descending=True, maintain_order=True).head(_EXAMPLES)
        files = convert_to_polars(self.sources[1].table("sources")).select("source_id", file="path")
        lines = kept.join(files, on="source_id", how="left", maintain_order="left")
        columns = ("trace_id", *RUN, "statement_kind", "executed", "node", "child_node", "total_us", *SEGMENTS)
        return lines.select(*columns, "file", "byte_offset")


def read_observations(
    base_source: TableSource,
    other_source: TableSource,
    names: tuple[str, str],
    labels: tuple[str, str],
    question: Question,
) -> Observed:
    """Read both sides; see :func:`citus_analysis.attribution.why`."""
    sources = (base_source, other_source)
    if not all(names) and base_source is other_source:
        raise UsageError(
            "both sides are the same: name them", hint="--base A --other B: set-ups, resources, workers=1, windows"
        )
    windows = [parse_window(name) for name in names]
    has_runs = [convert_to_polars(source.table("runs")).height > 0 for source in sources]
    if not all(has_runs) or any(windows):
        if question.only:
            raise UsageError("--only chooses runs, and windows of logs have none", hint="leave it out")
        if any(windows) and not all(windows) and base_source is other_source:
            raise UsageError("one side is a window of time and the other is not", hint="give two windows")
        return _observe_logs(sources, names, _choose_sample_labels(names, labels, sources), windows)
    chosen = [_read_sample_runs(source, name, question) for source, name in zip(sources, names, strict=True)]
    return observe_runs(sources, (chosen[0], chosen[1]), _choose_sample_labels(names, labels, sources))


def observe_runs(
    sources: tuple[TableSource, TableSource], chosen: tuple[pl.DataFrame, pl.DataFrame], labels: tuple[str, str]
) -> Observed:
    """What was observed of two sets of runs.

    Args:
        sources: datasets of base and other.
        chosen: their runs, described.
        labels: their names.

    Raises:
        UsageError: runs of a side differ in their load or size.
        InsufficientDataError: fewer than two runs of a side have traced statements.
    """
    check_same_load(list(zip(labels, chosen, strict=True)))
    used, uncut, absent, notes = _read_both_sides(sources, chosen, labels)
    traced = [_select_traced_runs(table, rows, label) for table, rows, label in zip(used, uncut, labels, strict=True)]
    unlike = _explain_unlike_samples(sources, traced, uncut, labels)
    latencies = [convert_to_polars(source.table("operation_latencies")) for source in sources]
    known = [_count_statements_per_operation(*one) for one in zip(traced, uncut, latencies, strict=True)]
    unlogged = find_unlogged_parents(sources, traced, uncut, known)
    lacking = absent[0] | unlogged[0], absent[1] | unlogged[1]
    systems = [set(table["system"].drop_nulls().cast(pl.String)) for table in traced]
    cut = cut_to_common_evidence(uncut, lacking, labels, spread=all(one == {"citus"} for one in systems))
    timed = _split_kinds(cut.timed)
    tables = [_select_traced_runs(table, rows, label) for table, rows, label in zip(used, timed, labels, strict=True)]
    ones = [table.with_columns(_one=pl.lit(1.0)) for table in tables]
    layout = build_block_layout(ones[1], ones[0], "_one")
    paired = layout.paired and not layout.warning  # all runs of both sides are in the blocks
    # Runs of one block are at the same place.
    tables = [table.sort("iteration") for table in tables] if paired else tables
    responses, sampled = (
        [_read_response_times(table, source, role) for table, source in zip(tables, sources, strict=True)]
        for role in ("main", "monitor")
    )
    clients, both_sampled = (all(one is not None for one in found) for found in (responses, sampled))
    if unlike and not clients:
        raise InsufficientDataError(f"the times of statements cannot be compared: {unlike}", hint="log both alike")
    statements = pl.concat(timed, how="vertical_relaxed")
    if unlike:
        statements = statements.clear()
    cells = _label_cells(statements)
    # Nodes without a log make the other side's statements per operation the better known ones.
    counted = [
        _count_statements_per_operation(tables[i], uncut[i], latencies[i])
        if not lacking[i]
        else np.full(tables[i].height, np.nan)
        for i in (0, 1)
    ]
    usuals = [_average_known(one) for one in counted]
    usual = next((one for one in usuals if np.isfinite(one)), 1.0)
    share = _estimate_seen_share(tables, uncut, timed, latencies, usual) if cut.unseen_parents and clients else 1.0
    sides = []
    for i, (response, traced_client) in enumerate(zip(responses, sampled, strict=True)):
        typical = usuals[i] if np.isfinite(usuals[i]) else usual
        ratio = share * np.where(np.isfinite(counted[i]), counted[i], typical)
        mine = statements.filter(side=i)
        side = _build_sample(labels[i], tables[i], mine, cells, ratio, response if clients else None)
        if unlike:
            side = replace(side, unseen_us=side.response_us, statements=timed[i].height)
        elif clients and both_sampled and traced_client is not None:
            side = replace(side, untraced_us=side.response_us - traced_client)
        sides.append(side)
    measured = "response time" if clients else "traced time"
    notes = [
        *notes,
        *_describe_excluded_runs((used[0], used[1]), tables, labels),
        *_write_design_notes(tables, labels, paired=paired),
        *([] if clients else ["no client reported response times: the account is of the traced statements alone"]),
        *([f"the difference is not divided: {unlike}"] if unlike else cut.notes),
    ]
    both, unseen, merged = _merge_unseen((sides[0], sides[1]), cut.unseen_parents)
    stated = _read_settings(sources, tables)
    changes = pl.concat([_changes(stated, tables), *([] if unlike or any(lacking) else _replace_parent_nodes(timed))])
    return Observed(
        *both,
        cells=cells,
        paired=paired,
        measured=measured,
        changes=changes,
        timed=statements,
        sources=sources,
        warnings=(*notes, *merged),
        unseen="in what the logs of both sides do not show alike" if unlike else unseen,
        compared=describe_compared_settings(*stated),
    )


def _read_both_sides(
    sources: tuple[TableSource, TableSource], chosen: tuple[pl.DataFrame, pl.DataFrame], labels: tuple[str, str]
) -> tuple[list[pl.DataFrame], tuple[pl.DataFrame, pl.DataFrame], tuple[frozenset[str], frozenset[str]], list[str]]:
    """The runs that are used, their statements, the nodes of which they lack logs, and what was left out."""
    tables, timed, absent, notes = [], [], [], []
    windows = [
        table["measured_from"].null_count() < table.height for table in chosen if "measured_from" in table.columns
    ]
    for i, (source, table, label) in enumerate(zip(sources, chosen, labels, strict=True)):
        task_nodes = find_task_nodes(source, table)
        used, nodes, left_out = leave_out_runs_without_logs(table, find_absent_logs(source, table, task_nodes), label)
        inside = pl.col("run_id").is_in(used["run_id"].implode())
        statements, spans = (scan_source_table(source, name).filter(inside) for name in ("statements", "spans"))
        mine = compute_statement_times(statements, spans, task_nodes).collect()
        # Where one side's measured windows are not known, statements before and after them are used on both.
        rows = select_measured_rows(mine, used).rows if len(set(windows)) == 1 else mine
        tables.append(used)
        timed.append(rows.with_columns(pl.col("node", "child_node").cast(pl.String), side=pl.lit(i, pl.Int8)))
        absent.append(nodes)
        notes += left_out
    return tables, (timed[0], timed[1]), (absent[0], absent[1]), notes


def _explain_unlike_samples(
    sources: tuple[TableSource, TableSource],
    tables: list[pl.DataFrame],
    timed: tuple[pl.DataFrame, pl.DataFrame],
    labels: tuple[str, str],
) -> str:
    """Why the statements of both sides are no samples of the same; empty if they may be."""
    counted = [count_sampled_statements(*one) for one in zip(sources, tables, timed, strict=True)]
    if unlike := explain_unlike_clients((counted[0], counted[1]), labels):
        return unlike
    return _find_unlike_threshold(sources, timed, labels)[0]


def _find_unlike_threshold(
    sources: tuple[TableSource, TableSource], timed: tuple[pl.DataFrame, pl.DataFrame], labels: tuple[str, str]
) -> tuple[str, float]:
    """Why short statements are of one side only, and the duration (µs) from which both have them."""
    durations = timed[0]["total_us"].to_numpy(), timed[1]["total_us"].to_numpy()
    words, least_us = explain_unlike_thresholds(durations, labels)
    longer = int(durations[1].min(initial=np.inf) > durations[0].min(initial=np.inf))
    return (words, least_us) if words and have_own_texts(sources[longer], timed[longer]) else ("", 0.0)


def _split_kinds(timed: tuple[pl.DataFrame, pl.DataFrame]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Statements with `several`: whether they are of the kind on several shards, where both sides have both kinds."""
    is_several = (pl.col("executed").cast(pl.String) == "multi_shard").fill_null(value=False)
    keys = list(KIND[:2])
    of_both = [
        side.group_by(keys).agg(is_several.n_unique().alias("scopes")).filter(pl.col("scopes") > 1).select(keys)
        for side in timed
    ]
    split = of_both[0].join(of_both[1], on=keys, how="semi", nulls_equal=True).with_columns(_split=pl.lit(value=True))
    base, other = (
        side.join(split, on=keys, how="left", nulls_equal=True, maintain_order="left")
        .with_columns(several=is_several & pl.col("_split").fill_null(value=False))
        .drop("_split")
        for side in timed
    )
    return base, other


#: Terms of opposite sign are merged if the smaller is at least this share of the difference.
_OPPOSITE: Final = 0.2


def _merge_unseen(
    sides: tuple[ObservedSample, ObservedSample], unseen_parents: tuple[str, ...]
) -> tuple[tuple[ObservedSample, ObservedSample], str, tuple[str, ...]]:
    """Both sides with what cannot be told apart in one term, its name, and why, in words."""
    outside, untraced = (
        float(getattr(sides[1], name).mean() - getattr(sides[0], name).mean()) for name in ("outside_us", "untraced_us")
    )
    difference = float(sides[1].response_us.mean() - sides[0].response_us.mean())
    opposite = outside * untraced < 0 and min(abs(outside), abs(untraced)) > _OPPOSITE * abs(difference)
    if not opposite and not unseen_parents:
        return sides, "", ()
    merged = [
        replace(
            side,
            unseen_us=side.unseen_us + side.outside_us + (side.untraced_us if opposite else 0.0),
            untraced_us=np.zeros_like(side.untraced_us) if opposite else side.untraced_us,
        )
        for side in sides
    ]
    words, notes = "outside the traced statements", []
    if unseen_parents:
        nodes = f"node{'s' if len(unseen_parents) > 1 else ''} {join_words(unseen_parents)}"
        words = f"{words}, or in statements that {nodes} received"
    if opposite:
        words = f"{words}, or in operations that were not traced"
        notes = [
            f"{outside / US_PER_MS:+.2g} ms outside the traced statements and {untraced / US_PER_MS:+.2g} ms in "
            "operations that were not traced are stated as one part: of opposite sign, they show how the traced client "
            "differs from the others, not what changed"
        ]
    return (merged[0], merged[1]), words, tuple(notes)


def _choose_sample_labels(
    names: tuple[str, str], labels: tuple[str, str], sources: tuple[TableSource, TableSource]
) -> tuple[str, str]:
    """Labels of the sides; one without has that of its choice, or of its resource if both datasets have one each."""
    if all(labels):
        return labels
    resources = [
        convert_to_polars(source.table("sources"))["resource"].drop_nulls().unique().to_list() for source in sources
    ]
    apart = all(len(one) == 1 for one in resources) and resources[0] != resources[1]
    usual = [str(one[0]) for one in resources] if apart else ["the first dataset", "the second dataset"]
    return format_sample_label(names[0]) or usual[0], format_sample_label(names[1]) or usual[1]


def _read_sample_runs(source: TableSource, name: str, question: Question) -> pl.DataFrame:
    runs = select_asked_runs(source, question).runs
    for column, value in question.only.items():
        runs = select_named_runs(runs, f"{column}={value}")
    return select_named_runs(runs, name) if name else runs


def _select_traced_runs(table: pl.DataFrame, timed: pl.DataFrame, label: str) -> pl.DataFrame:
    """The runs of which statements were traced."""
    kept = table.join(timed.select(RUN).unique(), on=RUN, how="semi", maintain_order="left")
    if kept.height < 2:
        runs = f"{pluralize(kept.height, 'run')} of {label} with traced statements"
        hint = "measure more runs with a sampled client (docs/experiments.md)"
        raise InsufficientDataError(f"{runs}: an account needs two or more on each side", hint=hint)
    return kept


def _describe_excluded_runs(
    chosen: tuple[pl.DataFrame, pl.DataFrame], kept: list[pl.DataFrame], labels: tuple[str, str]
) -> list[str]:
    return [
        f"{pluralize(before.height - after.height, 'run')} of {label} without traced statements left out"
        for before, after, label in zip(chosen, kept, labels, strict=True)
        if before.height > after.height
    ]


def _read_response_times(table: pl.DataFrame, source: TableSource, role: str) -> Floats | None:
    """Mean response time (µs) that the clients of a role report of each run; None if those of a run report none.

    Operations of pgbench that wait for their turn in its schedule are not yet in the system: this time is left out.
    """
    latencies = convert_to_polars(source.table("operation_latencies"))
    own = latencies.filter(
        (pl.col("role").cast(pl.String) == role) & adds_up("operation") & pl.col("mean_us").is_finite()
    )
    found = table.join(own.group_by(RUN).agg(response_us=MEAN_LATENCY_US), on=RUN, how="left", maintain_order="left")
    found = found.join(_schedule_lags(source, role), on=RUN, how="left", maintain_order="left")
    sent = found.select(pl.col("response_us") - pl.col("lag_us").fill_null(0.0)).to_series()
    return None if sent.null_count() else sent.to_numpy()


def _schedule_lags(source: TableSource, role: str) -> pl.DataFrame:
    """resource, run_id, lag_us: mean time by which clients of a role sent operations of a run later than scheduled."""
    clients = convert_to_polars(source.table("clients")).filter(pl.col("role").cast(pl.String) == role)
    lags = convert_to_polars(source.table("client_metrics")).filter(pl.col("metric").cast(pl.String) == _LAG)
    own = lags.join(clients.select("source_id").unique(), on="source_id", how="semi")
    return own.group_by(RUN).agg(lag_us=pl.col("value").mean() * US_PER_MS)


def _count_traced_operations(table: pl.DataFrame, latencies: pl.DataFrame) -> pl.DataFrame:
    """resource, run_id, operations: those of the client whose statements were traced."""
    roles = latencies.with_columns(pl.col("role").cast(pl.String)).join(table.select(RUN), on=RUN, how="semi")
    traced_role = "monitor" if (roles["role"] == "monitor").any() else "main"
    return roles.filter(role=traced_role).group_by(RUN).agg(pl.col("operations").sum())


def _count_statements_per_operation(table: pl.DataFrame, timed: pl.DataFrame, latencies: pl.DataFrame) -> Floats:
    """Statements per operation of each run; nan where they are not known: without a count of operations, or sampled."""
    operations = _count_traced_operations(table, latencies)
    found = table.join(timed.group_by(RUN).len("statements"), on=RUN, how="left", maintain_order="left")
    found = found.join(operations, on=RUN, how="left", maintain_order="left")
    ratio = pl.col("statements") / pl.col("operations")
    whole = pl.max_horizontal(ratio.round(), pl.lit(1.0))
    near = (ratio - whole).abs() <= _WHOLE * whole
    known = pl.when(near).then(whole).when(ratio > 1).then(ratio)
    return found.select(known.fill_null(float("nan")).alias("ratio")).to_series().to_numpy()


def _estimate_seen_share(
    tables: Sequence[pl.DataFrame],
    uncut: Sequence[pl.DataFrame],
    kept: Sequence[pl.DataFrame],
    latencies: Sequence[pl.DataFrame],
    per_operation: float,
) -> float:
    """Share of the operations' statements that nodes received whose logs both sides have.

    It is the same on both sides, so that clients that used other nodes by chance make no term. Of a side without a log,
    the numbers of operations tell how many statements there were.

    Args:
        tables: runs of base and other.
        uncut: their statements.
        kept: those that nodes received whose logs both sides have.
        latencies: rows of `operation_latencies` of both sides' datasets.
        per_operation: statements per operation.
    """
    shares = []
    for runs, whole, seen, operations in zip(tables, uncut, kept, latencies, strict=True):
        done = int(_count_traced_operations(runs, operations)["operations"].sum() or 0)
        in_runs = [rows.join(runs.select(RUN), on=RUN, how="semi").height for rows in (whole, seen)]
        statements = max(per_operation * done, in_runs[0])
        shares.append(in_runs[1] / statements if statements else 1.0)
    return float(np.mean(shares))


def _average_known(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else float("nan")


def _label_cells(statements: pl.DataFrame) -> pl.DataFrame:
    found = statements.select(CELL).unique().sort(CELL, nulls_last=True)
    kinds = found.select(KIND).unique().sort(pl.all(), nulls_last=True)
    numbered = kinds.with_row_index("kind")
    named = found.join(numbered, on=kinds.columns, how="left", nulls_equal=True, maintain_order="left")
    of_several = pl.col("executed").cast(pl.String).eq_missing("multi_shard")
    placed = named.with_columns(placed_on=pl.when(~of_several).then("child_node"))
    places = placed.select(_PLACE).unique(maintain_order=True).with_row_index("place")
    return (
        placed.join(places, on=list(_PLACE), how="left", nulls_equal=True, maintain_order="left")
        .drop("placed_on")
        .with_columns(pl.col("statement_kind", "node", "child_node").cast(pl.String))
    )


def _build_sample(
    name: str, table: pl.DataFrame, timed: pl.DataFrame, cells: pl.DataFrame, ratio: Floats, response_us: Floats | None
) -> ObservedSample:
    """One side; without response times of a client, those of the traced statements stand in for them."""
    counts, times = _sum_by_run_and_cell(timed, table.select(RUN), cells, ratio)
    traced = times.sum(axis=(1, 2))
    response = traced if response_us is None else response_us
    none = np.zeros_like(traced)
    return ObservedSample(name, table, counts, times, response, traced, none, timed.height, none)


def _sum_by_run_and_cell(
    timed: pl.DataFrame, runs: pl.DataFrame, cells: pl.DataFrame, per_operation: Floats
) -> tuple[Floats, Floats]:
    """Statements, and their times by segment, of an operation of each run and cell."""
    keys = timed.select(*RUN, *CELL, *SEGMENTS).with_columns(
        pl.col("statement_kind", "node", "child_node").cast(pl.String)
    )
    grouped = keys.group_by(*RUN, *CELL, maintain_order=True).agg(pl.len().alias("n"), pl.col(SEGMENTS).sum())
    placed = grouped.join(runs.with_row_index("run"), on=RUN).join(
        cells.with_row_index("cell").drop("kind", "place"), on=CELL, nulls_equal=True
    )
    run, cell = placed["run"].to_numpy(), placed["cell"].to_numpy()
    counts = np.zeros((runs.height, cells.height))
    times = np.zeros((runs.height, cells.height, len(SEGMENTS)))
    counts[run, cell] = placed["n"].to_numpy()
    times[run, cell] = placed.select(SEGMENTS).to_numpy()
    scale = np.divide(per_operation, counts.sum(axis=1), out=np.zeros(runs.height), where=counts.sum(axis=1) > 0)
    return counts * scale[:, None], times * scale[:, None, None]


def _read_settings(
    sources: tuple[TableSource, TableSource], tables: list[pl.DataFrame]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows of `settings` of the resources of both sides."""
    base, other = (
        convert_to_polars(source.table("settings")).filter(
            pl.col("resource").is_in(table["resource"].unique().implode())
        )
        for source, table in zip(sources, tables, strict=True)
    )
    return base, other


def _changes(stated: tuple[pl.DataFrame, pl.DataFrame], tables: list[pl.DataFrame]) -> pl.DataFrame:
    """Settings and loads that differ; what one side does not show is no change."""
    changes = find_setting_changes(*stated)
    columns = [
        name
        for name in ("workers", *LOAD)
        if all(name in table.columns and table[name].drop_nulls().len() for table in tables)
    ]
    # A sampled client whose output is missing may have been there all the same: only what was planned says it.
    planned = [set(one.filter(pl.col("name") == _MONITORED)["value"]) for one in stated]
    if not all(planned) or planned[0] == planned[1]:
        columns = [name for name in columns if name != _MONITORED]
    words = [text.partition(": ") for text in find_differing_columns(tables[1], tables[0], columns)]
    of_runs = [(name, *reversed(values.split(" against "))) for name, _, values in words]
    return pl.concat([changes, pl.DataFrame(of_runs, schema=changes.schema, orient="row")])


def _replace_parent_nodes(timed: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
    """The nodes by which statements entered, if the sides have none in common."""
    base, other = (rows["node"].drop_nulls().cast(pl.String).unique().sort().to_list() for rows in timed)
    if not base or not other or set(base) & set(other):
        return []
    return [
        pl.DataFrame([("nodes that clients used", join_words(base), join_words(other))], schema=_CHANGE, orient="row")
    ]


def _write_design_notes(tables: list[pl.DataFrame], labels: tuple[str, str], *, paired: bool) -> list[str]:
    times = [get_start_times_ms(table) for table in tables]
    known = [one for one in times if one is not None and one.size > 1]
    if paired or len(known) < len(times) or is_interleaved(known):
        return []
    return [
        f"the runs of {labels[0]} and {labels[1]} were not made in turn: a drift of the machine between them would be "
        "part of the difference"
    ]


def _observe_logs(
    sources: tuple[TableSource, TableSource],
    names: tuple[str, str],
    labels: tuple[str, str],
    windows: list[Window | None],
) -> Observed:
    """Both sides from server logs alone: batches of time stand in for runs."""
    found = [
        _read_log_window(source, name, window) for source, name, window in zip(sources, names, windows, strict=True)
    ]
    placed, notes = _select_comparable_nodes(found, sources)
    cut = cut_to_common_evidence((placed[0], placed[1]), _find_absent_nodes((placed[0], placed[1]), sources), labels)
    notes = [*notes, *cut.notes]
    words, least_us = _find_unlike_threshold(sources, cut.timed, labels)
    if words:
        notes.append(f"{words}: only these are compared, and how often they come also depends on how long they take")
    kept = [rows.filter(pl.col("total_us") >= least_us) for rows in cut.timed]
    timed, tables, worth = [], [], []
    for i, (label, rows) in enumerate(zip(labels, _split_kinds((kept[0], kept[1])), strict=True)):
        if rows.height < 2 * BATCHES:
            problem = f"{label} has {pluralize(rows.height, 'statement')} with a duration: an account needs 20 or more"
            raise InsufficientDataError(problem, hint="log them all: log_min_duration_statement = 0")
        if rows["start_time"].n_unique() < 2:
            raise InsufficientDataError(f"all statements of {label} began at one moment: no batches can be compared")
        worth.append(estimate_independent_batches(rows, label))
        mine, table = _split_into_chunks(rows.with_columns(resource=pl.lit(label), side=pl.lit(i, pl.Int8)))
        timed.append(mine)
        tables.append(table)
    both = pl.concat(timed, how="vertical_relaxed")
    cells = _label_cells(both)
    sides = [_build_sample(labels[i], tables[i], timed[i], cells, np.ones(tables[i].height), None) for i in (0, 1)]
    notes.insert(
        0,
        "no runs: batches of time stand in for them, and what lasts longer than a batch is not part of the spread",
    )
    notes += [
        f"the times of successive statements of {label} depend on each other: its {BATCHES} batches are worth "
        f"{one:.1f} independent ones"
        for label, one in zip(labels, worth, strict=True)
        if one < BATCHES
    ]
    stated = _read_settings(sources, [rows.select("resource") for rows in found])
    changes = _changes(stated, [table.with_columns(workers=None) for table in tables])
    return Observed(
        sides[0],
        sides[1],
        cells=cells,
        paired=False,
        measured="traced time",
        changes=changes,
        timed=both,
        sources=sources,
        warnings=tuple(notes),
        unit="batch",
        compared=describe_compared_settings(*stated),
        effective=(min(worth[0], float(sides[0].runs)), min(worth[1], float(sides[1].runs))),
    )


def _find_absent_nodes(
    placed: tuple[pl.DataFrame, pl.DataFrame], sources: tuple[TableSource, TableSource]
) -> tuple[frozenset[str], frozenset[str]]:
    """Nodes whose log one side lacks: those that only the other side shows, unless the cluster does not have them."""
    seen = [
        set(rows["node"].drop_nulls()) | set(rows.filter(~pl.col("unseen_child"))["child_node"].drop_nulls())
        for rows in placed
    ]
    stated = [set(convert_to_polars(source.table("nodes"))["node"].drop_nulls().cast(pl.String)) for source in sources]
    base, other = (
        frozenset(seen[1 - i] - seen[i] if not stated[i] else (seen[1 - i] - seen[i]) & stated[i]) for i in (0, 1)
    )
    return base, other


def _read_log_window(source: TableSource, name: str, window: Window | None) -> pl.DataFrame:
    statements, spans = scan_source_table(source, "statements"), scan_source_table(source, "spans")
    if window is not None:
        statements = statements.filter(pl.col("start_time").is_between(window.begin, window.end, closed="left"))
    elif name:
        statements = statements.filter(pl.col("resource").cast(pl.String) == name)
    times = compute_statement_times(statements, spans, find_task_nodes(source))
    return times.filter(pl.col("start_time").is_not_null()).collect()


#: Successive means of statements' times from which the correlation is estimated: single times hide what varies slowly.
_BINS: Final = 100
#: Logs worth more independent bins than this have independent batches.
_INDEPENDENT: Final = 50.0
#: Correlation of neighbouring batches times the number of independent bins: twice that of an autoregressive process.
_CORRELATION: Final = 2 * BATCHES / 4


def estimate_independent_batches(timed: pl.DataFrame, label: str) -> float:
    """The number of independent batches that the batches of a log are worth.

    Batches that are not much longer than times of statements are correlated vary together, so that they seem more
    alike than they are. For an autoregressive process whose correlation time is 1/k of the log, neighbours of n
    batches are correlated by n / 4k.

    Raises:
        InsufficientDataError: they are worth fewer than two.
    """
    times = np.log(np.maximum(timed.sort("start_time", maintain_order=True)["total_us"].to_numpy(), 1.0))
    means = np.array([part.mean() for part in np.array_split(times, _BINS)]) if times.size >= 2 * _BINS else times
    bins = estimate_effective_sample_size(means).effective
    if bins >= min(_INDEPENDENT, means.size / 2):
        return float(BATCHES)
    correlation = min(_CORRELATION / bins, 0.99)
    worth = BATCHES * (1 - correlation) / (1 + correlation)
    if worth < 2:
        problem = (
            f"the times of successive statements of {label} depend on each other for so long that its batches of "
            f"time are worth {worth:.1f} independent ones: they cannot be compared"
        )
        raise InsufficientDataError(problem, hint="compare longer logs, or runs that are repeated")
    return worth


def _split_into_chunks(timed: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The statements with their batch as `run_id`, and the batches with their statements per second."""
    first, last = timed["start_time"].min(), timed["start_time"].max()
    covered = pl.lit(last) - pl.lit(first)
    batch = ((pl.col("start_time") - pl.lit(first)) / covered * BATCHES).floor().cast(pl.Int32)
    mine = timed.with_columns(run_id=batch.clip(0, BATCHES - 1).cast(pl.String))
    seconds = covered.dt.total_microseconds() / US_PER_S / BATCHES
    return mine, mine.group_by(RUN).agg((pl.len() / seconds).alias(STATEMENTS_PER_S)).sort(RUN)


def _select_comparable_nodes(
    found: list[pl.DataFrame], sources: tuple[TableSource, TableSource]
) -> tuple[list[pl.DataFrame], list[str]]:
    """The statements of both sides with nodes that can be compared.

    A log whose name states no node is a node by itself (its `source_id`). If each side has one node, it is the same
    one; if no node of one side has the name of one of the other, nodes are not told apart.
    """
    named = []
    for rows, source in zip(found, sources, strict=True):
        files = convert_to_polars(source.table("sources")).select(pl.col("source_id", "path").cast(pl.String))
        paths = dict(files.iter_rows())
        named.append(rows.with_columns(pl.col("node", "child_node").cast(pl.String).replace(paths)))
    nodes = [set(pl.concat([rows["node"], rows["child_node"]]).drop_nulls()) for rows in named]
    alone = all(len(names) <= 1 for names in nodes)
    if nodes[0] & nodes[1] and not alone:
        return named, []
    notes = [] if alone else ["no node of one side has the name of one of the other: nodes are not told apart"]
    return [rows.with_columns(pl.lit(None, pl.String).alias(name) for name in _NODES) for rows in named], notes

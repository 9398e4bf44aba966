"""What was observed of both sides of a difference: runs, their response times, and statements by cell and run."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.core.frames import TableSource, convert_to_polars, scan_source_table
from citus_analysis.core.type_aliases import Floats
from citus_analysis.errors import InsufficientDataError, UnknownNameError, UsageError
from citus_analysis.operations import adds_up
from citus_analysis.runs.selection import find_differing_columns, matching, select_runs
from citus_analysis.runs.set_ups import CONFIGURATION, LOAD
from citus_analysis.runs.setting_changes import find_setting_changes
from citus_analysis.runs.windows import select_measured_rows
from citus_analysis.stats.drift import build_block_layout, is_interleaved
from citus_analysis.stats.run_means import get_start_times_ms
from citus_analysis.stats.verdicts import Comparison, compare
from citus_analysis.texts.words import join_words, pluralize
from citus_analysis.units import US_PER_MS, US_PER_S

# The two sides of a difference: runs that a text names, or a window of time of logs without runs.

#: Columns whose values name a side, in the order in which they are looked up.
NAMING: Final = ("resource", "set_up", "variant", "family", "settings", "system", "run_id", "workload", "operation")
_ALONE: Final = ("workers", *LOAD)
_BETWEEN: Final = ".."
_OR: Final = "|"


@dataclass(frozen=True)
class Window:
    """A stretch of time, in UTC.

    Attributes:
        begin: the first moment.
        end: the first moment after it.
    """

    begin: datetime
    end: datetime


def parse_window(text: str) -> Window | None:
    """The stretch of time that a text names, such as `2026-03-01T10:00..2026-03-01T10:05`; None if it names none.

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
            f"{text!r} is no window of time ({error})", way_out="write FROM..UNTIL, such as 2026-03-01T10:00..10:05"
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
    return named.replace(_OR, " or ")


def select_named_runs(runs: pl.DataFrame, text: str) -> pl.DataFrame:
    """The runs that a text names.

    Args:
        runs: described runs.
        text: `column=value` (or `column=value|value`), several split by commas, or a value of one of :data:`NAMING`;
            resources may be patterns.

    Raises:
        UnknownNameError: no run has this value, or there is no such column.

    Example:
        >>> runs = pl.DataFrame({"resource": ["a", "b"], "workers": [1, 8], "set_up": ["x", "y"]})
        >>> select_named_runs(runs, "workers=8")["resource"].item(), select_named_runs(runs, "x")["resource"].item()
        ('b', 'a')
    """
    if "=" in text and "/" not in text.partition("=")[0]:
        return _filter_runs_by_values(
            runs, dict([side.strip() for side in part.partition("=")[::2]] for part in text.split(","))
        )
    if matching(runs, text).height:
        return matching(runs, text)
    for column in [name for name in NAMING if name in runs.columns]:
        found = runs.filter(pl.col(column).cast(pl.String) == text)
        if found.height:
            return found
    known = [
        runs[name].drop_nulls().cast(pl.String).unique() for name in ("resource", "set_up") if name in runs.columns
    ]
    raise UnknownNameError("side", text, sorted({str(value) for values in known for value in values if value}))


def _filter_runs_by_values(runs: pl.DataFrame, wanted: Mapping[str, str]) -> pl.DataFrame:
    found = runs
    for column, value in wanted.items():
        if column not in runs.columns:
            known = dict.fromkeys(name for name in (*NAMING, *CONFIGURATION) if name in runs.columns)
            raise UnknownNameError("column", column, known)
        found = found.filter(pl.col(column).cast(pl.String).is_in(value.split(_OR)))
        if found.is_empty():
            values = runs[column].drop_nulls().unique().sort().cast(pl.String).to_list()
            raise UnknownNameError(column, value, values)
    return found


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
                way_out = f"choose one: --only {column}={values[-1]}"
                raise UsageError(f"the runs of {name} differ in {column} ({shown})", way_out=way_out)


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
    "unseen_us": "waiting for children that no log shows",
}
#: Those of the child and between are of the child's node.
SEGMENTS: Final = tuple(SEGMENT_WORDS)
#: Segments that pass on the child's node, or on the way to it.
OF_CHILD: Final = frozenset({"between_us", "commit_us", "child_us", "unseen_us"})
#: Statements of one cell are alike but for their times.
CELL: Final = ("statement_kind", "statement_fingerprint", "executed", "node", "child_node")
_COLUMNS: Final = (
    *("trace_id", "resource", "run_id", "start_time", "end_time", "node", "statement_kind", "statement_fingerprint"),
    *("executed", "total_us", "parse_us", "bind_us", "connect_us", "wait_us", "child_us", "shard_id", "source_id"),
    "byte_offset",
)


def compute_statement_times(statements: pl.LazyFrame, spans: pl.LazyFrame) -> pl.LazyFrame:
    """Statements with the node of their child and the parts of T; the parts add up to `total_us`.

    Of a statement with several tasks, the child is the one on its critical path: the connection whose tasks took
    longest together. Statements that failed, and those whose T is not known, are left out.

    Args:
        statements: the table `statements`.
        spans: the table `spans`.
    """
    known = statements.filter(pl.col("total_us").is_not_null() & ~pl.col("failed")).select(_COLUMNS)
    placed = known.join(_find_critical_children(spans), on="trace_id", how="left", maintain_order="left")
    wait = pl.col("wait_us").fill_null(0.0)
    seen = pl.col("child_us").is_not_null() & pl.col("child_node").is_not_null()
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
    )
    others = [name for name in SEGMENTS if name != "parent_us"]
    return divided.with_columns(parent_us=pl.col("total_us") - pl.sum_horizontal(others)).drop("wait_us")


def _find_critical_children(spans: pl.LazyFrame) -> pl.LazyFrame:
    """trace_id, child_node, hides_commit: the child on the critical path of each statement."""
    remote = spans.filter((pl.col("kind") == "remote") & pl.col("parent_span_id").is_not_null()).select(
        "trace_id", "parent_span_id", "pid", child_node="node", hides_commit=~pl.col("includes_commit")
    )
    tasks = spans.filter(pl.col("kind") == "task").select(parent_span_id="span_id", task_us="duration_us")
    several = pl.len().over("trace_id") > 1
    alone = remote.filter(~several).select("trace_id", "child_node", "hides_commit")
    lanes = (
        remote.filter(several)
        .join(tasks, on="parent_span_id", how="left")
        .group_by("trace_id", "child_node", "pid")
        .agg(pl.col("task_us").sum(), pl.col("hides_commit").first())
        .sort("task_us", "child_node", "pid", descending=[True, False, False])
        .unique("trace_id", keep="first", maintain_order=True)
    )
    return pl.concat([alone, lanes.select(alone.collect_schema().names())])


#: Column of `Side.table`: statements of each stretch of logs without runs.
STATEMENTS_PER_S: Final = "statements_per_s"
#: Statements per operation this close to a whole number are that number: some statements have no record.
_WHOLE: Final = 0.05
#: Numbers of stretches into which a window of time without runs is cut.
STRETCHES: Final = 10
_CHANGE: Final = dict.fromkeys(("name", "before", "after"), pl.String())
_EXAMPLES: Final = 3
_NODES: Final = ("node", "child_node")
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
    """

    name: str
    table: pl.DataFrame
    counts: Floats
    times: Floats
    response_us: Floats
    traced_us: Floats
    untraced_us: Floats
    statements: int

    @property
    def runs(self) -> int:
        """Number of runs."""
        return self.table.height

    @property
    def outside_us(self) -> Floats:
        """Response time of the traced client's operations that no traced statement covers, of each run."""
        return self.response_us - self.untraced_us - self.traced_us


@dataclass(frozen=True)
class Observed:
    """Both sides of a difference, over the same cells.

    Attributes:
        base: the side that the other is compared with.
        other: the other side.
        cells: one row per cell: `kind` (its number), and the columns of CELL.
        paired: whether the n-th runs of both sides were measured in the same block.
        measured: what response times are.
        changes: settings and loads that differ.
        timed: all statements with their segments, with `side`.
        sources: datasets of base and other.
        warnings: caveats.
        unit: what the rows of a side are: runs, or stretches of time of logs without runs.
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

    @property
    def both(self) -> tuple[ObservedSample, ObservedSample]:
        """Base and other."""
        return self.base, self.other

    def throughput(self, margin: float, level: float) -> Comparison | None:
        """The comparison of the sides' throughput; None where it is not known of all runs."""
        values = [side.table.get_column("throughput_ops_s", default=None) for side in self.both]
        known = [one for one in values if one is not None and not one.null_count() and one.min() > 0]
        if len(known) < len(values):
            return None
        base, other = (one.to_numpy() for one in known)
        return self._compared(base, other, "throughput_ops_s", margin, level)

    def response_time(self, margin: float, level: float) -> Comparison:
        """The comparison of the sides' response times."""
        return self._compared(self.base.response_us, self.other.response_us, "response_time_us", margin, level)

    def _compared(self, base: Floats, other: Floats, metric: str, margin: float, level: float) -> Comparison:
        compared = partial(compare, other, base, margin, level=level, metric=metric, blocked=self.paired)
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
    only: Mapping[str, object],
    allow: str | Collection[str],
) -> Observed:
    """Read both sides; see :func:`citus_analysis.attribution.why`."""
    sources = (base_source, other_source)
    if not all(names) and base_source is other_source:
        raise UsageError(
            "both sides are the same: name them", way_out="--base A --other B: set-ups, resources, workers=1, windows"
        )
    windows = [parse_window(name) for name in names]
    has_runs = [convert_to_polars(source.table("runs")).height > 0 for source in sources]
    if not all(has_runs) or any(windows):
        if only:
            raise UsageError("--only chooses runs, and windows of logs have none", way_out="leave it out")
        if any(windows) and not all(windows) and base_source is other_source:
            raise UsageError("one side is a window of time and the other is not", way_out="give two windows")
        return _observe_logs(sources, names, _choose_sample_labels(names, labels, sources), windows)
    chosen = [_read_sample_runs(source, name, only, allow) for source, name in zip(sources, names, strict=True)]
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
    timed = []
    for i, (source, table) in enumerate(zip(sources, chosen, strict=True)):
        inside = pl.col("run_id").is_in(table["run_id"].implode())
        read = [scan_source_table(source, name).filter(inside) for name in ("statements", "spans")]
        mine = compute_statement_times(*read).collect()
        timed.append(select_measured_rows(mine, table).rows.with_columns(side=pl.lit(i, pl.Int8)))
    statements = pl.concat(timed, how="vertical_relaxed")
    tables = [_select_traced_runs(table, rows, label) for table, rows, label in zip(chosen, timed, labels, strict=True)]
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
    cells = _label_cells(statements)
    sides = []
    for i, (response, traced_client) in enumerate(zip(responses, sampled, strict=True)):
        ratio = _compute_statements_per_operation(
            tables[i], timed[i], convert_to_polars(sources[i].table("operation_latencies"))
        )
        side = _build_sample(labels[i], tables[i], timed[i], cells, ratio, response if clients else None)
        if clients and both_sampled and traced_client is not None:
            side = replace(side, untraced_us=side.response_us - traced_client)
        sides.append(side)
    measured = "response time" if clients else "traced time"
    notes = [
        *_describe_excluded_runs(chosen, tables, labels),
        *_write_design_notes(tables, labels, paired=paired),
        *([] if clients else ["no client reported response times: the account is of the traced statements alone"]),
    ]
    changes = pl.concat([_changes(sources, tables), *_replace_parent_nodes(timed)])
    return Observed(sides[0], sides[1], cells, paired, measured, changes, statements, sources, tuple(notes))


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


def _read_sample_runs(
    source: TableSource, name: str, only: Mapping[str, object], allow: str | Collection[str]
) -> pl.DataFrame:
    runs = select_runs(source, allow=allow).runs
    for column, value in only.items():
        runs = select_named_runs(runs, f"{column}={value}")
    return select_named_runs(runs, name) if name else runs


def _select_traced_runs(table: pl.DataFrame, timed: pl.DataFrame, label: str) -> pl.DataFrame:
    """The runs of which statements were traced."""
    kept = table.join(timed.select(RUN).unique(), on=RUN, how="semi", maintain_order="left")
    if kept.height < 2:
        runs = f"{pluralize(kept.height, 'run')} of {label} with traced statements"
        way_out = "measure more runs with a sampled client (docs/experiments.md)"
        raise InsufficientDataError(f"{runs}: an account needs two or more on each side", way_out=way_out)
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
    mean = (pl.col("mean_us") * pl.col("operations")).sum() / pl.col("operations").sum()
    found = table.join(own.group_by(RUN).agg(response_us=mean), on=RUN, how="left", maintain_order="left")
    found = found.join(_schedule_lags(source, role), on=RUN, how="left", maintain_order="left")
    sent = found.select(pl.col("response_us") - pl.col("lag_us").fill_null(0.0)).to_series()
    return None if sent.null_count() else sent.to_numpy()


def _schedule_lags(source: TableSource, role: str) -> pl.DataFrame:
    """resource, run_id, lag_us: mean time by which clients of a role sent operations of a run later than scheduled."""
    clients = convert_to_polars(source.table("clients")).filter(pl.col("role").cast(pl.String) == role)
    lags = convert_to_polars(source.table("client_metrics")).filter(pl.col("metric").cast(pl.String) == _LAG)
    own = lags.join(clients.select("source_id").unique(), on="source_id", how="semi")
    return own.group_by(RUN).agg(lag_us=pl.col("value").mean() * US_PER_MS)


def _compute_statements_per_operation(table: pl.DataFrame, timed: pl.DataFrame, latencies: pl.DataFrame) -> Floats:
    """Statements per operation of each run; 1 where the operations of the traced client are not known."""
    roles = latencies.with_columns(pl.col("role").cast(pl.String))
    traced_role = "monitor" if (roles["role"] == "monitor").any() else "main"
    operations = roles.filter(role=traced_role).group_by(RUN).agg(pl.col("operations").sum())
    found = table.join(timed.group_by(RUN).len("statements"), on=RUN, how="left", maintain_order="left")
    found = found.join(operations, on=RUN, how="left", maintain_order="left")
    ratio = pl.col("statements") / pl.col("operations")
    whole = pl.max_horizontal(ratio.round(), pl.lit(1.0))
    near = (ratio - whole).abs() <= _WHOLE * whole
    usual = near | (ratio < 1) | ratio.is_null()
    return found.select(pl.when(usual).then(whole.fill_null(1.0)).otherwise(ratio)).to_series().to_numpy()


def _label_cells(statements: pl.DataFrame) -> pl.DataFrame:
    found = statements.select(CELL).unique().sort(CELL, nulls_last=True)
    kinds = found.select("statement_kind", "statement_fingerprint").unique().sort(pl.all(), nulls_last=True)
    numbered = kinds.with_row_index("kind")
    named = found.join(numbered, on=kinds.columns, how="left", nulls_equal=True, maintain_order="left")
    return named.with_columns(pl.col("statement_kind", "node", "child_node").cast(pl.String))


def _build_sample(
    name: str, table: pl.DataFrame, timed: pl.DataFrame, cells: pl.DataFrame, ratio: Floats, response_us: Floats | None
) -> ObservedSample:
    """One side; without response times of a client, those of the traced statements stand in for them."""
    counts, times = _sum_by_run_and_cell(timed, table.select(RUN), cells, ratio)
    traced = times.sum(axis=(1, 2))
    response = traced if response_us is None else response_us
    return ObservedSample(name, table, counts, times, response, traced, np.zeros_like(traced), timed.height)


def _sum_by_run_and_cell(
    timed: pl.DataFrame, runs: pl.DataFrame, cells: pl.DataFrame, per_operation: Floats
) -> tuple[Floats, Floats]:
    """Statements, and their times by segment, of an operation of each run and cell."""
    keys = timed.select(*RUN, *CELL, *SEGMENTS).with_columns(
        pl.col("statement_kind", "node", "child_node").cast(pl.String)
    )
    grouped = keys.group_by(*RUN, *CELL, maintain_order=True).agg(pl.len().alias("n"), pl.col(SEGMENTS).sum())
    placed = grouped.join(runs.with_row_index("run"), on=RUN).join(
        cells.with_row_index("cell").drop("kind"), on=CELL, nulls_equal=True
    )
    run, cell = placed["run"].to_numpy(), placed["cell"].to_numpy()
    counts = np.zeros((runs.height, cells.height))
    times = np.zeros((runs.height, cells.height, len(SEGMENTS)))
    counts[run, cell] = placed["n"].to_numpy()
    times[run, cell] = placed.select(SEGMENTS).to_numpy()
    scale = per_operation / counts.sum(axis=1)
    return counts * scale[:, None], times * scale[:, None, None]


def _changes(sources: tuple[TableSource, TableSource], tables: list[pl.DataFrame]) -> pl.DataFrame:
    stated = [
        convert_to_polars(source.table("settings")).filter(
            pl.col("resource").is_in(table["resource"].unique().implode())
        )
        for source, table in zip(sources, tables, strict=True)
    ]
    changes = find_setting_changes(*stated)
    words = [text.partition(": ") for text in find_differing_columns(tables[1], tables[0], ("workers", *LOAD))]
    of_runs = [(name, *reversed(values.split(" against "))) for name, _, values in words]
    return pl.concat([changes, pl.DataFrame(of_runs, schema=changes.schema, orient="row")])


def _replace_parent_nodes(timed: list[pl.DataFrame]) -> list[pl.DataFrame]:
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
    """Both sides from server logs alone: stretches of time stand in for runs."""
    found = [
        _read_log_window(source, name, window) for source, name, window in zip(sources, names, windows, strict=True)
    ]
    placed, unnamed = _select_comparable_nodes(found, sources)
    timed, tables = [], []
    for i, (label, rows) in enumerate(zip(labels, placed, strict=True)):
        if rows.height < 2 * STRETCHES:
            problem = f"{label} has {pluralize(rows.height, 'statement')} with a duration: an account needs 20 or more"
            raise InsufficientDataError(problem, way_out="log them all: log_min_duration_statement = 0")
        if rows["start_time"].n_unique() < 2:
            raise InsufficientDataError(f"all statements of {label} began at one moment: no stretches can be compared")
        mine, table = _split_into_chunks(rows.with_columns(resource=pl.lit(label), side=pl.lit(i, pl.Int8)))
        timed.append(mine)
        tables.append(table)
    both = pl.concat(timed, how="vertical_relaxed")
    cells = _label_cells(both)
    sides = [_build_sample(labels[i], tables[i], timed[i], cells, np.ones(tables[i].height), None) for i in (0, 1)]
    notes = (
        "no runs: stretches of time stand in for them, and what lasts longer than a stretch is not part of the spread",
        *unnamed,
    )
    changes = _changes(sources, [table.with_columns(workers=None) for table in tables])
    return Observed(sides[0], sides[1], cells, False, "traced time", changes, both, sources, notes, unit="stretch")


def _read_log_window(source: TableSource, name: str, window: Window | None) -> pl.DataFrame:
    statements, spans = scan_source_table(source, "statements"), scan_source_table(source, "spans")
    if window is not None:
        statements = statements.filter(pl.col("start_time").is_between(window.begin, window.end, closed="left"))
    elif name:
        statements = statements.filter(pl.col("resource").cast(pl.String) == name)
    return compute_statement_times(statements, spans).filter(pl.col("start_time").is_not_null()).collect()


def _split_into_chunks(timed: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The statements with their stretch as `run_id`, and the stretches with their statements per second."""
    first, last = timed["start_time"].min(), timed["start_time"].max()
    covered = pl.lit(last) - pl.lit(first)
    stretch = ((pl.col("start_time") - pl.lit(first)) / covered * STRETCHES).floor().cast(pl.Int32)
    mine = timed.with_columns(run_id=stretch.clip(0, STRETCHES - 1).cast(pl.String))
    seconds = covered.dt.total_microseconds() / US_PER_S / STRETCHES
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

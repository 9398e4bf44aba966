"""The state of the widget: its content for a selection is computed here and not in the browser."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, cast

import numpy as np
import polars as pl

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.frames import Frame, convert_to_polars, return_callers_frame_kind
from citus_analysis.dataset import Dataset
from citus_analysis.errors import DatasetError, UsageError
from citus_analysis.explorer.frozen_page import FrozenView, render_page
from citus_analysis.explorer.selections import FILTERS, StatementSelection, add_elapsed_time
from citus_analysis.plots.trace_figures import waterfall_rows
from citus_analysis.spans.composition import COMPONENT_WORDS, COMPONENTS, compose
from citus_analysis.stats.percentiles import count_supporting_values
from citus_analysis.texts.numbers import format_number, format_percent
from citus_analysis.texts.words import join_words
from citus_analysis.units import US_PER_S

# Percentiles of the selected statements against those of the rest.

#: Columns of table `statements` that are compared -> their names.
PARTS: Final = {"total_us": "T", "parent_us": "parent", "between_us": "between", "child_us": "child"}
_PERCENTILES: Final = (50.0, 90.0, 99.0)


@return_callers_frame_kind
def against_the_rest(selected: Frame, rest: Frame) -> pl.DataFrame:
    """Percentiles of T and of its parts, for two groups of statements.

    Args:
        selected: rows of table `statements`.
        rest: the other statements, with the same columns.

    Returns:
        Per part and `percentile`: `selected_us` and `rest_us`, null if the group has fewer values than the percentile
        needs, and the numbers of values, `selected_n` and `rest_n`.

    Example:
        >>> import polars as pl
        >>> parts = ("total_us", "parent_us", "between_us", "child_us")
        >>> rows = pl.DataFrame({part: [1.0, 2.0, 3.0] for part in parts})
        >>> against_the_rest(rows, rows.head(1)).row(0)
        ('T', 50.0, 2.0, None, 3, 1)
    """
    rows: list[tuple[str, float, float | None, float | None, int, int]] = []
    groups = convert_to_polars(selected), convert_to_polars(rest)
    for column, name in PARTS.items():
        (mine, n), (others, n_rest) = (_compute_percentiles(group[column].drop_nulls()) for group in groups)
        rows += [(name, q, a, b, n, n_rest) for q, a, b in zip(_PERCENTILES, mine, others, strict=True)]
    numbers = dict.fromkeys(("percentile", "selected_us", "rest_us"), pl.Float64())
    counts = dict.fromkeys(("selected_n", "rest_n"), pl.Int64())
    return pl.DataFrame(rows, schema={"part": pl.String(), **numbers, **counts}, orient="row")


def _compute_percentiles(values: pl.Series) -> tuple[list[float | None], int]:
    """The percentiles that the number of values permits, in one partial sort, and this number."""
    n = values.len()
    supported = [q for q in _PERCENTILES if n >= count_supporting_values(q)]
    found = dict(zip(supported, np.percentile(values.to_numpy(), supported).tolist(), strict=True)) if supported else {}
    return [found.get(q) for q in _PERCENTILES], n


# The heat map of statement times over a run: time of the run on the horizontal axis, T on the vertical axis.

#: Most columns of the map; each is the shortest round interval with which there are at most this many.
_COLUMNS: Final = 120
_ROUND: Final = tuple(round(lead * 10.0**power, 6) for power in range(-3, 5) for lead in (1, 2, 5))
#: Limits between rows, eight in a decade, to three digits so that a brushed rectangle has readable sides.
_LEVELS: Final = tuple(float(f"{10 ** (step / 8):.3g}") for step in range(81))


@dataclass(frozen=True, repr=False)
class HeatMap(DisplayMixin):
    """Counts of statements by time and by T.

    Attributes:
        width_s: length of an interval of time, in seconds.
        columns: number of intervals.
        limits_us: limits between the rows, ascending, in microseconds; row `k` is [limits_us[k], limits_us[k + 1]).
        cells: `column`, `row`, `n` statements, `total_us` their T in sum; empty cells are left out.
        n: number of statements.
    """

    width_s: float
    columns: int
    limits_us: tuple[float, ...]
    cells: pl.DataFrame = field(repr=False)
    n: int = 0

    def summary_table(self) -> pl.DataFrame:
        """The cells."""
        return self.cells


def build_heat_map(statements: Frame) -> HeatMap:
    """Counts of statements by the time since their run began and by T.

    Args:
        statements: result of :func:`citus_analysis.explorer.add_elapsed_time`, or some of its rows.

    Example:
        >>> import polars as pl
        >>> rows = pl.DataFrame({"elapsed_us": [0, 400_000, 11_000_000], "total_us": [150.0, 160.0, 9000.0]})
        >>> shown = build_heat_map(rows)
        >>> shown.width_s, shown.columns, shown.cells["n"].to_list()
        (0.1, 111, [1, 1, 1])
    """
    frame = convert_to_polars(statements).select("elapsed_us", "total_us")
    if frame.is_empty():
        empty = dict.fromkeys(("column", "row", "n"), "elapsed_us")
        return HeatMap(1.0, 0, (), frame.select(**empty, total_us="total_us"))
    elapsed, total = frame["elapsed_us"].to_numpy(), frame["total_us"].to_numpy()
    width = next((step for step in _ROUND if elapsed.max() / US_PER_S < step * _COLUMNS), _ROUND[-1])
    limits = _choose_limits(float(total.min()), float(total.max()))
    column = elapsed // round(width * US_PER_S)
    row = np.searchsorted(np.asarray(limits), total, side="right") - 1
    placed = pl.DataFrame({"column": column, "row": row, "total_us": total}).group_by("column", "row")
    cells = placed.agg(n=pl.len(), total_us=pl.col("total_us").sum()).sort("column", "row")
    return HeatMap(width, int(column.max()) + 1, limits, cells, frame.height)


def _choose_limits(least: float, most: float) -> tuple[float, ...]:
    """The limits that enclose these values."""
    levels = [*_LEVELS, *([most * 2] if most >= _LEVELS[-1] else [])]
    first = max((k for k, level in enumerate(levels) if level <= least), default=0)
    last = next(k for k, level in enumerate(levels) if level > most)
    inner = levels[first : last + 1]
    return (0.0, *inner) if least < inner[0] else tuple(inner)


# Details of single statements: spans over nodes, clocks, concurrent activity, and the records of the raw logs.

#: A JSON object.
Document = dict[str, object]

#: Times in logs are whole milliseconds.
_RESOLUTION_US: Final = 1_000
_SPAN: Final = ("label", "kind", "node", "offset_us", "length_us", "duration_us", "match", "path", "byte_offset")
_PLACE: Final = ("source_id", "byte_offset")


def build_statement_documents(dataset: Dataset, trace_ids: Sequence[int]) -> dict[int, Document]:
    """Details of some statements as JSON values; the log files are read once for all of them.

    Args:
        dataset: an opened dataset.
        trace_ids: statements of its table `statements`; those without spans are left out.

    Returns:
        trace_id -> `spans`, `clocks`, `under_way`, `records`, `problem` and the calls that return the same rows.

    Raises:
        DatasetError: a file of the dataset is missing or damaged.
    """
    spans = dataset.scan("spans").filter(pl.col("trace_id").is_in(list(trace_ids))).collect()
    records, problem = _find_session_records(dataset, spans), ""
    try:
        records = records.with_columns(text=dataset.log_text(records))
    except DatasetError as error:
        records, problem = records.clear().with_columns(text=pl.lit("")), str(error)
    clocks, paths = dataset.scan("clock_offsets").collect(), _read_paths(dataset)
    others = {
        "checkpoint": _read_checkpoints(dataset),
        "lock wait": _lock_waits(dataset),
        "plan": _read_plan_executions(dataset),
    }
    found: dict[int, Document] = {}
    for trace, mine in spans.partition_by("trace_id", as_dict=True, maintain_order=True).items():
        number = int(trace[0])
        rows = waterfall_rows(mine, number).join(paths, on="source_id", how="left", maintain_order="left")
        offsets = _find_clock_offsets(clocks, mine)
        found[number] = {
            "spans": _add_clock_bounds(rows, mine, offsets).to_dicts(),
            "clocks": [_write_clock_sentence(row) for row in offsets.to_dicts()],
            "under_way": [one for what, rows in others.items() for one in _find_concurrent_activity(rows, mine, what)],
            "records": records.filter(trace_id=number).select("node", "path", "byte_offset", "text").to_dicts(),
            "problem": problem,
            "sql": f"SELECT * FROM spans WHERE trace_id = {number} ORDER BY start_time, span_id",  # noqa: S608 - a number
            "call": f"ca.plots.plot_waterfall(ds.spans(), {number})",
            "record_call": f"ca.explorer.statement_records(ds, [{number}])",
        }
    return found


def statement_records(dataset: Dataset, trace_ids: Sequence[int]) -> pl.DataFrame:
    """The records of the raw logs that the sessions of some statements wrote while these ran, with secrets redacted.

    Args:
        dataset: an opened dataset.
        trace_ids: statements of its table `statements`.

    Returns:
        `trace_id`, `node`, `path` of the log, `source_id`, `byte_offset`, `byte_length` and `text`, in the order of the
        logs.

    Raises:
        DatasetError: a source was moved or removed, or changed since it was read.
    """
    records = _find_session_records(
        dataset, dataset.scan("spans").filter(pl.col("trace_id").is_in(list(trace_ids))).collect()
    )
    return records.with_columns(text=dataset.log_text(records))


def explain_statement(dataset: Dataset, trace_id: int) -> str:
    """One sentence on a statement: how long it took, and which parts its time has, the largest first.

    Args:
        dataset: an opened dataset.
        trace_id: the statement, of its table `statements`.

    Raises:
        UsageError: there is no such statement, or its time is not known.
    """
    found = dataset.scan("statements").filter(pl.col("trace_id") == trace_id).collect()
    if found.is_empty() or found["total_us"][0] is None:
        raise UsageError(f"no statement of known time has the trace_id {trace_id}", hint="take one of table statements")
    one = found.row(0, named=True)
    node = "" if one["node"] is None else f" on node {one['node']}"
    took = f"The {one['statement_kind'] or 'statement'} took {format_number(one['total_us'] / 1_000)} ms{node}"
    composed = compose(found)
    if composed.is_empty():
        return f"{took}; its parts are not known (it failed, read no shard, or the execution of a task is missing)."
    parts = sorted(composed.select(COMPONENTS).row(0, named=True).items(), key=lambda part: -part[1])
    large = [(name, us) for name, us in parts if us >= _LARGE * one["total_us"]]
    rest_us = one["total_us"] - sum(us for _, us in large)
    named = [
        f"{format_number(us / 1_000)} ms {COMPONENT_WORDS[name]} ({format_percent(us / one['total_us'])})"
        for name, us in large
    ]
    return f"{took}: {join_words([*named, f'{format_number(rest_us / 1_000)} ms all else'])}."


#: Share of its time from which a part is named.
_LARGE: Final = 0.01


def _find_session_records(dataset: Dataset, spans: pl.DataFrame) -> pl.DataFrame:
    """Places of the records of these spans' sessions."""
    began = pl.col("start_time").min() - pl.duration(microseconds=_RESOLUTION_US)
    sessions = spans.drop_nulls("source_id").group_by("trace_id", "source_id", "node", "pid")
    ended = sessions.agg(since=began, last=pl.col("byte_offset").max())
    sources, pids = ended["source_id"].unique().to_list(), ended["pid"].unique().to_list()
    ours = pl.col("source_id").is_in(sources) & pl.col("pid").is_in(pids)
    logged = dataset.scan("log_events").filter(ours).select(*_PLACE, "byte_length", "pid", "log_time").collect()
    return (
        ended.join(logged, on=["source_id", "pid"], how="inner")
        .filter((pl.col("log_time") >= pl.col("since")) & (pl.col("byte_offset") <= pl.col("last")))
        .sort("trace_id", "node", *_PLACE)
        .join(_read_paths(dataset), on="source_id", how="left", maintain_order="left")
        .select("trace_id", "node", "path", *_PLACE, "byte_length")
    )


def _read_paths(dataset: Dataset) -> pl.DataFrame:
    """source_id -> the path of the file, as people know it."""
    return dataset.table("sources").select("source_id", pl.col("path").cast(pl.String))


def _find_clock_offsets(clocks: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Bounds of the clocks of the statement's nodes against that of its parent."""
    root = spans.filter(pl.col("kind") == "statement").head(1)
    run, iteration = root["run_id"].first(), root["iteration"].first()
    same = pl.col("run_id").eq_missing(run) & pl.col("iteration").eq_missing(iteration)
    nodes = spans["node"].unique().to_list()
    between = (pl.col("parent_node") == root["node"].first()) & pl.col("child_node").is_in(nodes)
    return clocks.filter(same & between).sort("child_node")


def _add_clock_bounds(rows: pl.DataFrame, spans: pl.DataFrame, offsets: pl.DataFrame) -> pl.DataFrame:
    """Rows with `low_us` and `high_us`: the earliest begin and latest end of a remote execution, by its own clock."""
    raw = spans.filter(pl.col("kind") == "remote").select(
        "span_id", own_begin=pl.col("start_time").dt.epoch("us"), own_end=pl.col("end_time").dt.epoch("us")
    )
    bounds = offsets.select(node="child_node", low="offset_low_us", high="offset_high_us")
    tasks = rows.filter(pl.col("kind") == "task").select(
        parent_span_id="span_id", task_from="offset_us", task_to=pl.col("offset_us") + pl.col("length_us")
    )
    origin = rows["begin"].min()
    joined = rows.join(raw, on="span_id", how="left", maintain_order="left")
    joined = joined.join(bounds, on="node", how="left", maintain_order="left")
    joined = joined.join(tasks, on="parent_span_id", how="left", maintain_order="left")
    earliest = pl.col("own_begin") - pl.col("high") - _RESOLUTION_US - origin
    remote = pl.when(pl.col("own_begin").is_not_null())
    latest = pl.col("own_end") - pl.col("low") + _RESOLUTION_US - origin
    return joined.with_columns(
        low_us=pl.max_horizontal(earliest, "task_from").clip(None, pl.col("offset_us")),
        high_us=pl.min_horizontal(latest, "task_to").clip(pl.col("offset_us") + pl.col("length_us")),
    ).select(*_SPAN, low_us=remote.then("low_us"), high_us=remote.then("high_us"))


def _write_clock_sentence(row: Mapping[str, object]) -> str:
    low, high = row["offset_low_us"], row["offset_high_us"]
    return (
        f"clock of node {row['child_node']} minus clock of node {row['parent_node']}: "
        f"between {low:,.0f} and {high:,.0f} µs ({row['pairs']:,} pairs; {row['method']})"
    )


_INTERVAL_COLUMNS: Final = (*_PLACE, "resource", "iteration", "node", "pid", "start_time", "end_time", "text")


def _read_checkpoints(dataset: Dataset) -> pl.DataFrame:
    """Intervals of checkpoints, which belong to no session."""
    checkpoints = dataset.scan("checkpoints").collect()
    text = pl.format("{}, {} buffers", "reason", "buffers_written")
    return checkpoints.with_columns(text=text, pid=pl.lit(None, pl.Int32)).select(_INTERVAL_COLUMNS)


def _read_plan_executions(dataset: Dataset) -> pl.DataFrame:
    """Executions whose plan auto_explain logged, from their begin to the record of the plan."""
    plans, nodes = dataset.scan("plans"), dataset.scan("plan_nodes").filter(pl.col("parent").is_null())
    first = nodes.select("source_id", "plan", topmost=pl.col("node_type").cast(pl.String))
    logged = dataset.scan("log_events").select(*_PLACE, "pid", "duration_us", end_time="log_time")
    began = pl.col("end_time") - pl.duration(microseconds=pl.col("duration_us").cast(pl.Int64))
    text = pl.format("{}, nodes: {}", pl.col("topmost").fill_null("plan"), "nodes")
    found = plans.join(first, on=["source_id", "plan"], how="left").join(logged, on=_PLACE, how="inner")
    return found.drop_nulls("duration_us").with_columns(start_time=began, text=text).select(_INTERVAL_COLUMNS).collect()


def _lock_waits(dataset: Dataset) -> pl.DataFrame:
    """Intervals of waiting for locks, from the records of `log_lock_waits`."""
    waits = dataset.scan("log_events").filter(pl.col("kind") == "lock_wait")
    began = pl.col("log_time") - pl.duration(microseconds=pl.col("duration_us").fill_null(0.0).cast(pl.Int64))
    columns = (*_PLACE, "resource", "iteration", "node", "pid")
    intervals = waits.select(*columns, start_time=began, end_time="log_time", text="message").collect()
    # A wait is reported when it is noticed and again when it ends: the last record has its whole length.
    lock = pl.col("text").str.extract(r"(\S+ on .*?) after ")
    same = [pl.col("node"), pl.col("pid"), lock, pl.col("start_time").dt.round("10ms")]
    last = pl.struct("end_time", "byte_offset") == pl.struct("end_time", "byte_offset").last().over(same)
    return intervals.sort("end_time", *_PLACE).filter(last)


def _find_concurrent_activity(others: pl.DataFrame, spans: pl.DataFrame, what: str) -> list[Document]:
    """Other activity on the statement's nodes while it ran, by each node's clock; plans of its own sessions only."""
    one = spans.filter(pl.col("kind") == "statement").row(0, named=True)
    since, until = spans["start_time"].min(), spans["end_time"].max()
    here = pl.col("resource").eq_missing(one["resource"]) & pl.col("iteration").eq_missing(one["iteration"])
    overlaps = (pl.col("start_time") <= until) & (pl.col("end_time") >= since)
    mine = others.filter(here & overlaps & pl.col("node").is_in(spans["node"].unique().to_list()))
    ours = spans.select("node", "pid").unique().with_columns(own=pl.lit(value=True))
    mine = mine.join(ours, on=["node", "pid"], how="left").with_columns(pl.col("own").fill_null(value=False))
    mine = mine.filter("own") if what == "plan" else mine
    since_us = (pl.col("start_time") - one["start_time"]).dt.total_microseconds()
    length = (pl.col("end_time") - pl.col("start_time")).dt.total_microseconds()
    columns = {"offset_us": since_us, "length_us": length, "text": pl.col("text"), "what": pl.lit(what)}
    ordered = mine.sort("own", "start_time", *_PLACE, descending=[True, False, False, False])
    return ordered.select("node", *_PLACE, "own", **columns).to_dicts()


#: Most statements in the table.
_ROWS: Final = 200
#: Most values that a filter offers; others can be selected by a brush or in Python.
_CHOICES: Final = 500
_SHOWN: Final = ("elapsed_us", "node", "statement_kind", "executed", "shard_id", "tasks", "total_us", *list(PARTS)[1:])
#: Columns that are kept in memory: those to filter by, show, compare and divide T.
_FILTERED: Final = tuple(FILTERS.values())[1:]
_DIVIDED: Final = ("wait_us", "connect_us", "parse_us", "bind_us", "execute_us", "failed", "match")
_HELD: Final = list(
    dict.fromkeys(("trace_id", "resource", "run_id", *_FILTERED, "end_time", "tasks", *PARTS, *_DIVIDED))
)


class Exploration:
    """Computes the content of the widget for a dataset; usable without a browser.

    Example::

        exploration = Exploration(dataset)
        exploration.selected(StatementSelection(kind="insert", fastest_us=10_000))
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._passing: tuple[StatementSelection, pl.DataFrame, HeatMap] | None = None

    @cached_property
    def statements(self) -> pl.DataFrame:
        """The statements of all runs, with `elapsed_us`."""
        read = self.dataset.scan("statements").select(_HELD).collect()
        # Categorical, so that a filter compares a million rows in milliseconds.
        return (
            add_elapsed_time(read).drop("resource", "run_id").with_columns(pl.col("run", "node").cast(pl.Categorical))
        )

    @cached_property
    def children(self) -> pl.DataFrame:
        """trace_id and child: the nodes on which children of each statement ran."""
        remote = self.dataset.scan("spans").filter(pl.col("kind") == "remote")
        return remote.select("trace_id", child=pl.col("node").cast(pl.String)).unique().collect()

    def start(self) -> StatementSelection:
        """The run with the most statements, with which exploring begins."""
        counts = self.statements["run"].value_counts().sort("count", "run", descending=[True, False])
        return StatementSelection(run=None if counts.is_empty() else str(counts["run"][0]))

    def find_run(self, trace_id: int) -> StatementSelection:
        """The run of a statement.

        Raises:
            UsageError: no statement whose T is known has that trace_id.
        """
        runs = self.statements.filter(pl.col("trace_id") == trace_id)["run"]
        if runs.is_empty():
            raise UsageError(f"no statement has the trace_id {trace_id}", hint="take one of table statements")
        return StatementSelection(run=str(runs[0]))

    def heat(self, selection: StatementSelection) -> HeatMap:
        """The heat map of the statements that pass the filters."""
        return self._filter(selection)[1]

    def selected(self, selection: StatementSelection) -> pl.DataFrame:
        """The selected statements, sorted, with the columns of table `statements` that the widget needs."""
        return self._sort(self._filter(selection)[0].filter(selection.within()), selection)

    def view(self, selection: StatementSelection) -> Document:
        """The content of the widget for a selection, except the heat map, as JSON values."""
        passing = self._filter(selection)[0]
        inside = selection.within().fill_null(value=False)
        selected, rest = passing.filter(inside), passing.filter(~inside)
        slowest = selected.top_k(_ROWS, by=selection.order, reverse=not selection.descending)
        shown = self._sort(slowest, selection)
        return {
            "selection": selection.document(),
            "n": selected.height,
            "n_rest": rest.height,
            "rows": _build_table_rows(shown),
            "parts": [{"name": name, "word": COMPONENT_WORDS[name]} for name in COMPONENTS],
            "percentiles": against_the_rest(selected, rest).to_dicts(),
            "call": f"ca.explorer.Exploration(ds).selected(ca.explorer.{selection.call()})",
            "sql": selection.sql(),
        }

    def heat_document(self, selection: StatementSelection) -> Document:
        """The heat map as JSON values."""
        heat = self.heat(selection)
        return {
            "width_s": heat.width_s,
            "columns": heat.columns,
            "limits_us": list(heat.limits_us),
            "cells": [list(row) for row in heat.cells.select("column", "row", "n").rows()],
            "n": heat.n,
            "call": f"ca.explorer.Exploration(ds).heat(ca.explorer.{selection.filters.call()})",
        }

    def choices(self) -> Document:
        """Filter -> the values that it offers, with the number of statements of each."""
        offered: Document = {}
        columns = {name: self.statements[column] for name, column in FILTERS.items()}
        for name, values in {**columns, "child": self.children["child"]}.items():
            counts = values.rename("value").drop_nulls().value_counts().sort("count", "value", descending=[True, False])
            rows = counts.head(_CHOICES).sort("value").rows()
            offered[name] = [{"value": str(value), "n": n} for value, n in rows]
        return offered

    def details(self, trace_ids: Sequence[int]) -> dict[int, Document]:
        """Single statements: spans, clocks, concurrent activity, and records of the raw logs."""
        return build_statement_documents(self.dataset, trace_ids)

    def _filter(self, selection: StatementSelection) -> tuple[pl.DataFrame, HeatMap]:
        filters = selection.filters
        if self._passing is None or self._passing[0] != filters:
            passing = self.statements.filter(filters.make_filter_expr())
            if filters.child is not None:
                passing = passing.join(self.children.filter(child=filters.child), on="trace_id", how="semi")
            self._passing = (filters, passing, build_heat_map(passing))
        return self._passing[1:]

    def _sort(self, statements: pl.DataFrame, selection: StatementSelection) -> pl.DataFrame:
        down = [selection.descending, False]
        return statements.sort(selection.order, "trace_id", descending=down, nulls_last=True)


def _build_table_rows(statements: pl.DataFrame) -> list[Document]:
    """The rows of the table; identifiers are texts, because a browser's numbers have 53 bits only."""
    parts = compose(statements).select("trace_id", pl.struct(COMPONENTS).alias("parts"))
    joined = statements.select("trace_id", "run", *_SHOWN).join(parts, on="trace_id", how="left", maintain_order="left")
    return joined.with_columns(pl.col("trace_id").cast(pl.String)).to_dicts()


def freeze(
    dataset: Dataset | Exploration,
    path: str | os.PathLike[str],
    selection: StatementSelection | None = None,
    *,
    statements: int = 50,
) -> None:
    """Write a selection as one page that needs no kernel and no network.

    Args:
        dataset: an opened dataset, or an exploration of one.
        path: the page to write.
        selection: the selection to show; by default the run with the most statements.
        statements: number of statements in the table whose waterfall and log records are in the page.

    Raises:
        DatasetError: a file of the dataset is missing or damaged.
        OutputError: the page cannot be written.
    """
    frozen_view(dataset, selection, statements=statements).write(path)


def frozen_view(
    dataset: Dataset | Exploration, selection: StatementSelection | None = None, *, statements: int = 10
) -> FrozenView:
    """A selection as a page for a report or a notebook, without a file; a notebook shows it in a frame.

    Log records that cannot be read, because their source was moved or changed, are missing, with the reason.

    Args:
        dataset: an opened dataset, or an exploration of one.
        selection: the selection to show; by default the run with the most statements.
        statements: number of statements in the table whose waterfall and log records are in the page; each takes some
            6,000 characters.

    Raises:
        DatasetError: a file of the dataset is missing or damaged.

    Example::

        slow = ca.explorer.StatementSelection(kind="insert", fastest_us=100_000)
        page = ca.report.Page(ds, tables)
        page.embed("slow_inserts", ca.explorer.frozen_view(ds, slow), "INSERTs of more than 100 ms.")
    """
    exploration = dataset if isinstance(dataset, Exploration) else Exploration(dataset)
    chosen = selection or exploration.start()
    listed = exploration.selected(chosen).head(_ROWS)
    details = exploration.details(listed["trace_id"].head(max(statements, 0)).to_list())
    state: Document = {
        "view": exploration.view(chosen),
        "heat": exploration.heat_document(chosen),
        "choices": _get_chosen_filters(exploration.choices(), chosen),
        "details": {str(trace): document for trace, document in details.items()},
        "dataset": exploration.dataset.content_hash,
    }
    return FrozenView(render_page(state), listed)


def _get_chosen_filters(offered: Document, selection: StatementSelection) -> Document:
    """The chosen value of each filter, the only one that a page without a kernel can show."""
    chosen = {name: str(value) for name, value in selection.document().items() if name in offered}
    return {
        name: [one for one in cast("list[Document]", values) if one["value"] == chosen.get(name)]
        for name, values in offered.items()
    }

"""Plans of statements (`EXPLAIN`): expected against actual rows, time per node and task, skew between tasks.

- `plan_study` computes all tables of a dataset at once;
- `measure_nodes`, `measure_tasks`, `task_skew`: single tables;
- `compare_tasks_with_traces`: tasks with the sampled executions on the same shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

import polars as pl

from citus_analysis.core.frames import (
    Frame,
    TableSource,
    convert_to_polars,
    read_tables,
    return_callers_frame_kind,
    scan_source_table,
)
from citus_analysis.runs.selection import matching
from citus_analysis.texts.words import make_natural_key, pluralize
from citus_analysis.units import US_PER_MS

# Total times of the nodes of a plan, and the error of the planner's estimate of rows.

__all__ = ["PlanStudy", "compare_tasks_with_traces", "plan_study"]

#: The columns that identify a plan.
KEY: Final = ("resource", "source_id", "plan")
#: Citus states the same number of rows for any distributed query, which is no estimate.
_NO_ESTIMATE: Final = "Custom Scan (Citus "


def scan_plan_records(source: TableSource) -> pl.LazyFrame:
    """The records of `log_events` in which auto_explain logged a plan."""
    return scan_source_table(source, "log_events").filter(pl.col("kind").cast(pl.String) == "plan")


@return_callers_frame_kind
def measure_nodes(plan_nodes: Frame) -> pl.DataFrame:
    """Nodes of plans with totals over all their executions.

    Args:
        plan_nodes: the table `plan_nodes`.

    Returns:
        The rows of `plan_nodes`, and: `time_ms` (`total_us` times `loops`; with parallel workers the sum over them),
        `self_ms` (without the nodes below it in the same process; null if that is unknown), `expected_rows` and
        `given_rows` (of all executions), and `q_error`, the factor of the planner's error: the larger of expected/given
        and given/expected, with at least one row on either side (Moerkotte, Neumann and Steidl 2009). It is null for
        the scan of Citus, whose expectation is a constant, for the nodes above it, whose expectations depend on it, and
        for nodes that were not executed. A node below a Limit may have been stopped before it returned all rows.

    Example:
        >>> scan = {"resource": "r", "source_id": "s", "plan": 0, "plan_node": 0, "parent": None, "kind": "node"}
        >>> scan |= {"node_type": "Seq Scan", "estimated_rows": 10.0, "actual_rows": 2.0, "loops": 3, "total_us": 5.0}
        >>> measure_nodes(pl.DataFrame([scan])).select("time_ms", "given_rows", "q_error").row(0)
        (0.015, 6.0, 5.0)
    """
    # In other libraries, a column that contains only nulls has no type.
    frame = convert_to_polars(plan_nodes).with_columns(pl.col("plan_node", "parent").cast(pl.Int32))
    node = pl.col("kind").cast(pl.String) == "node"
    timed = frame.with_columns(
        # A subplan's time is that of its one execution.
        time_ms=pl.col("total_us") * pl.when(node).then(pl.col("loops")).otherwise(1) / US_PER_MS,
        expected_rows=pl.col("estimated_rows") * pl.col("loops").fill_null(1),
        given_rows=pl.col("actual_rows") * pl.col("loops"),
    )
    below = (
        timed.filter(node)
        .group_by(*KEY, "parent")
        .agg(pl.col("time_ms").sum().alias("_below"), pl.col("time_ms").is_null().any().alias("_unknown"))
    )
    joined = timed.join(below.drop_nulls("parent"), left_on=[*KEY, "plan_node"], right_on=[*KEY, "parent"], how="left")
    self_ms = (pl.col("time_ms") - pl.col("_below").fill_null(0)).clip(lower_bound=0)
    expected, given = (pl.col(name).clip(lower_bound=1) for name in ("expected_rows", "given_rows"))
    constant = _add_parent_nodes(frame).select(*KEY, "plan_node", _constant=pl.lit(value=True))
    joined = joined.join(constant, on=[*KEY, "plan_node"], how="left")
    judged = node & (pl.col("loops") > 0) & pl.col("_constant").is_null()
    found = joined.with_columns(
        self_ms=pl.when(node & ~pl.col("_unknown").fill_null(value=False)).then(self_ms),
        q_error=pl.when(judged).then(pl.max_horizontal(expected / given, given / expected)),
    ).drop("_below", "_unknown", "_constant")
    return found.sort(*KEY, "plan_node")


def _add_parent_nodes(frame: pl.DataFrame) -> pl.DataFrame:
    """The scans of Citus and all nodes above them."""
    place = frame.select(*KEY, "plan_node", "parent")
    found = [place.filter(frame["node_type"].cast(pl.String).str.starts_with(_NO_ESTIMATE))]
    while found[-1].height:
        above = found[-1].select(*KEY, plan_node="parent").unique()
        found.append(place.join(above, on=[*KEY, "plan_node"], how="semi"))
    return pl.concat(found).unique()


# Tasks of distributed queries: their times, the skew between them, and the traces of the same shards.

#: Columns of the table `spans` that are shown with tasks, and the condition of such spans: exactly matched executions
#: on another node, and executions on the parent's own node.
TRACED_BY: Final = ("resource", "kind", "match", "shard_id", "duration_us")
_REMOTE: Final = (pl.col("kind").cast(pl.String) == "remote") & (pl.col("match").cast(pl.String) == "exact")
_LOCAL: Final = pl.col("kind").cast(pl.String) == "local"
EXECUTED: Final = _REMOTE | _LOCAL
_QUERY: Final = (*KEY, "parent")


def make_worker_name_expr() -> pl.Expr:
    """The host of a task's worker, with its port if tasks ran on several ports of that host.

    Example:
        >>> tasks = pl.DataFrame({"worker_host": ["a", "a", "b"], "worker_port": [5432, 5433, 5432]})
        >>> tasks.select(make_worker_name_expr()).to_series().to_list()
        ['a:5432', 'a:5433', 'b']
    """
    host, port = pl.col("worker_host").cast(pl.String), pl.col("worker_port")
    several = port.drop_nulls().n_unique().over("worker_host") > 1
    return pl.when(several & port.is_not_null()).then(pl.format("{}:{}", host, port)).otherwise(host).alias("worker")


@return_callers_frame_kind
def measure_tasks(plan_nodes: Frame) -> pl.DataFrame:
    """One row per task that a plan shows.

    Args:
        plan_nodes: the table `plan_nodes`.

    Returns:
        `resource`, `source_id`, `plan`, `plan_node`, `parent` (node of the distributed query), `task_count` of that
        query, `shard_id`, `worker_host`, `worker_port`, `execution_ms` (from the worker's EXPLAIN ANALYZE; if that is
        missing, of the topmost node), `given_rows` of the topmost node, and `received_bytes`.
    """
    frame = convert_to_polars(plan_nodes)
    tasks = frame.filter(pl.col("kind").cast(pl.String) == "task")
    tops = frame.filter(pl.col("kind").cast(pl.String) == "node").select(
        *KEY,
        pl.col("parent").alias("plan_node"),
        top_us=pl.col("total_us") * pl.col("loops"),
        given_rows=pl.col("actual_rows") * pl.col("loops"),
    )
    queries = frame.select(*KEY, pl.col("plan_node").alias("parent"), pl.col("task_count").alias("of_tasks"))
    found = tasks.join(tops, on=[*KEY, "plan_node"], how="left").join(queries, on=[*_QUERY], how="left")
    found = found.with_columns(
        pl.col("worker_host").cast(pl.String),
        task_count="of_tasks",
        execution_ms=pl.coalesce("execution_us", "top_us") / US_PER_MS,
    )
    of_query = (*KEY, "plan_node", "parent", "task_count")
    of_task = ("shard_id", "worker_host", "worker_port", "execution_ms", "given_rows", "received_bytes")
    return found.select(*of_query, *of_task).sort(*KEY, "plan_node")


@return_callers_frame_kind
def compute_task_skew(plan_nodes: Frame) -> pl.DataFrame:
    """The skew of the times of the tasks of each distributed query.

    Args:
        plan_nodes: the table `plan_nodes`.

    Returns:
        One row per distributed query: `task_count`, `tasks_shown`, `slowest_ms`, `mean_ms`, `slowest_shard_id`,
        `slowest_worker`, `skew` (slowest / mean; 1 is even) and `note`. If the plan does not show all tasks, mean and
        skew are null, because the task shown usually is the slowest; `note` says so.
    """
    frame = convert_to_polars(plan_nodes)
    tasks = (
        measure_tasks(frame)
        .with_columns(make_worker_name_expr())
        .sort("execution_ms", descending=True, nulls_last=True)
    )
    shown = tasks.group_by(*_QUERY, maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("tasks_shown"),
        pl.col("execution_ms").count().alias("timed"),
        pl.col("execution_ms").max().alias("slowest_ms"),
        pl.col("execution_ms").mean().alias("mean_ms"),
        pl.col("shard_id").first().alias("slowest_shard_id"),
        pl.col("worker").first().alias("slowest_worker"),
    )
    queries = frame.filter((pl.col("kind").cast(pl.String) == "node") & pl.col("task_count").is_not_null()).select(
        *KEY, pl.col("plan_node").alias("parent"), "task_count"
    )
    found = queries.join(shown, on=[*_QUERY], how="left").with_columns(pl.col("tasks_shown", "timed").fill_null(0))
    whole = (pl.col("tasks_shown") == pl.col("task_count")) & (pl.col("timed") == pl.col("task_count"))
    judged = whole & (pl.col("task_count") > 1)
    hidden = pl.col("task_count") - pl.col("tasks_shown")
    note = (
        pl.when(hidden > 0)
        .then(pl.format("{} of {} tasks are not shown: their times are unknown", hidden, "task_count"))
        .when(~whole)
        .then(pl.lit("the plan has no times"))
        .when(~judged)
        .then(pl.lit("a single task"))
    )
    table = found.with_columns(
        mean_ms=pl.when(whole).then("mean_ms"),
        skew=pl.when(judged & (pl.col("mean_ms") > 0)).then(pl.col("slowest_ms") / pl.col("mean_ms")),
        note=note,
        **{name: pl.when(pl.col("timed") > 0).then(name) for name in ("slowest_shard_id", "slowest_worker")},
    ).drop("timed")
    return table.sort(*_QUERY)


@return_callers_frame_kind
def compare_tasks_with_traces(plan_nodes: Frame, spans: Frame) -> pl.DataFrame:
    """Tasks of plans with the sampled executions on the same shard of the same resource.

    The executions may be of other statements than the plan's, because only the shard is compared.

    Args:
        plan_nodes: the table `plan_nodes`.
        spans: the table `spans`.

    Returns:
        The rows of :func:`measure_tasks`, with `traced` (number of exactly matched executions on the shard's worker),
        `traced_ms` (their median duration) and `traced_locally` (executions on the parent's own node, whose own time
        is not logged); 0 and null if there are no such executions.
    """
    tasks, traced = measure_tasks(convert_to_polars(plan_nodes)), convert_to_polars(spans)
    per_shard = traced.group_by("resource", "shard_id").agg(
        _REMOTE.sum().cast(pl.Int64).alias("traced"),
        (pl.col("duration_us").filter(_REMOTE).median() / US_PER_MS).alias("traced_ms"),
        _LOCAL.sum().cast(pl.Int64).alias("traced_locally"),
    )
    beside = tasks.join(per_shard, on=["resource", "shard_id"], how="left", maintain_order="left")
    return beside.with_columns(pl.col("traced", "traced_locally").fill_null(0))


# All plans of a dataset, for a report.

_MOST: Final = 8
#: Characters of a statement in a label.
_LONGEST: Final = 60


@dataclass(frozen=True)
class ShownPlan:
    """One plan to be drawn.

    Attributes:
        label: resource and statement; if plans share these or the statement is not known, also the file, and the plan's
            number if the file has several.
        nodes: its rows of `PlanStudy.nodes`.
        tasks: its rows of `PlanStudy.tasks`.
    """

    label: str
    nodes: pl.DataFrame
    tasks: pl.DataFrame


@dataclass(frozen=True)
class PlanStudy:
    """Plans of a dataset.

    Attributes:
        plans: the table `plans` with `label`.
        nodes: result of :func:`measure_nodes`, with `label`.
        tasks: result of :func:`compare_tasks_with_traces`, with `label`.
        skew: result of :func:`compute_task_skew`, with `label`.
        shown: at most 8 plans to be drawn: plans with times, the longest first, then plans without times.
        warnings: limitations of the numbers.
    """

    plans: pl.DataFrame
    nodes: pl.DataFrame
    tasks: pl.DataFrame
    skew: pl.DataFrame
    shown: Sequence[ShownPlan]
    warnings: Sequence[str]

    @property
    def largest_errors(self) -> pl.DataFrame:
        """Nodes by the factor of the planner's error of rows, the largest first."""
        places = ("label", "plan_node", "node_type", "relation", "conditions")
        columns = (*places, "expected_rows", "given_rows", "q_error")
        found = self.nodes.filter(pl.col("q_error") > 1).select(columns)
        return found.sort("q_error", "label", "plan_node", descending=[True, False, False])


def plan_study(dataset: TableSource | Mapping[str, Frame], resources: str = "*") -> PlanStudy:
    """The plans of a dataset with their times and the errors of the planner's expectations.

    Args:
        dataset: a dataset, or a mapping with the tables `plans`, `plan_nodes`, `sources` and `spans`.
        resources: glob patterns of the systems to include, separated by commas.
    """
    found = read_tables(dataset, ("plans", "plan_nodes", "sources"))
    plans, nodes = (matching(found[name], resources) for name in ("plans", "plan_nodes"))
    paths = found["sources"].select("source_id", pl.col("path").cast(pl.String))
    query = pl.col("query").str.replace_all(r"\s+", " ").str.strip_chars()
    short = pl.when(query.str.len_chars() > _LONGEST).then(query.str.head(_LONGEST - 1) + "\u2026").otherwise(query)
    asked = plans.select(*KEY, short=short, several=pl.len().over("source_id") > 1)
    alone = pl.col("short").is_not_null() & (pl.len().over("resource", "short") == 1)
    known = asked.with_columns(alone=alone).join(paths, on="source_id", how="left", maintain_order="left")
    names = []
    for resource, source, plan, query_text, several, single, path in known.iter_rows():
        file = PurePosixPath(path or source).name + (f" ({plan + 1})" if several else "")
        words = [query_text] if single else [file] if query_text is None else [query_text, f"in {file}"]
        names.append(f"{resource}: {' '.join(words)}")
    labels = known.select(*KEY).with_columns(label=pl.Series(names, dtype=pl.String))
    # An hour has millions of spans, so only those of the plans' shards are read.
    shards = pl.col("shard_id").is_in(nodes["shard_id"].drop_nulls().unique().implode())
    executions = (
        scan_source_table(dataset, "spans").filter(EXECUTED, shards).select(TRACED_BY).collect(engine="streaming")
    )
    plans, nodes, tasks, skew = (
        _add_plan_labels(frame, labels)
        for frame in (
            plans,
            measure_nodes(nodes),
            compare_tasks_with_traces(nodes, executions),
            compute_task_skew(nodes),
        )
    )
    return PlanStudy(
        plans, nodes, tasks, skew, tuple(_choose_shown_plans(plans, nodes, tasks)), tuple(_write_plan_warnings(plans))
    )


def _add_plan_labels(frame: pl.DataFrame, labels: pl.DataFrame) -> pl.DataFrame:
    found = frame.join(labels, on=list(KEY), how="left", maintain_order="left")
    return found.select("label", pl.exclude("label"))


def _choose_shown_plans(plans: pl.DataFrame, nodes: pl.DataFrame, tasks: pl.DataFrame) -> Iterator[ShownPlan]:
    order = sorted(
        plans.select("label", "execution_us", *KEY).iter_rows(named=True),
        key=lambda one: (one["execution_us"] is None, -(one["execution_us"] or 0), make_natural_key(one["label"])),
    )
    for one in order[:_MOST]:
        key = {name: one[name] for name in KEY}
        yield ShownPlan(one["label"], nodes.filter(**key), tasks.filter(**key))


def _write_plan_warnings(plans: pl.DataFrame) -> Iterator[str]:
    hidden = plans.filter(pl.col("unknown").is_not_null()).height
    if hidden:
        yield (
            f"Of {pluralize(plans.height, 'plan')}, {hidden} do not show all tasks: the workers, times and rows of the "
            "others are unknown, and as a rule the task shown is the slowest. With citus.explain_all_tasks = on, "
            "EXPLAIN shows all."
        )

"""Tasks of distributed queries: their times, the skew between them, and the traces of the same shards."""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.core.frames import Frame, as_polars, in_callers_kind
from citus_analysis.plans.measured_nodes import KEY
from citus_analysis.units import US_PER_MS

#: Columns of the table `spans` that are shown with tasks, and the condition of such spans: exactly matched executions
#: on another node, and executions on the parent's own node.
TRACED_BY: Final = ("resource", "kind", "match", "shard_id", "duration_us")
_REMOTE: Final = (pl.col("kind").cast(pl.String) == "remote") & (pl.col("match").cast(pl.String) == "exact")
_LOCAL: Final = pl.col("kind").cast(pl.String) == "local"
EXECUTED: Final = _REMOTE | _LOCAL
_QUERY: Final = (*KEY, "parent")


def worker_name() -> pl.Expr:
    """The host of a task's worker, with its port if tasks ran on several ports of that host.

    Example:
        >>> tasks = pl.DataFrame({"worker_host": ["a", "a", "b"], "worker_port": [5432, 5433, 5432]})
        >>> tasks.select(worker_name()).to_series().to_list()
        ['a:5432', 'a:5433', 'b']
    """
    host, port = pl.col("worker_host").cast(pl.String), pl.col("worker_port")
    several = port.drop_nulls().n_unique().over("worker_host") > 1
    return pl.when(several & port.is_not_null()).then(pl.format("{}:{}", host, port)).otherwise(host).alias("worker")


@in_callers_kind
def measure_tasks(plan_nodes: Frame) -> pl.DataFrame:
    """One row per task that a plan shows.

    Args:
        plan_nodes: the table `plan_nodes`.

    Returns:
        `resource`, `source_id`, `plan`, `plan_node`, `parent` (node of the distributed query), `task_count` of that
        query, `shard_id`, `worker_host`, `worker_port`, `execution_ms` (from the worker's EXPLAIN ANALYZE; if that is
        missing, of the topmost node), `given_rows` of the topmost node, and `received_bytes`.
    """
    frame = as_polars(plan_nodes)
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


@in_callers_kind
def task_skew(plan_nodes: Frame) -> pl.DataFrame:
    """The skew of the times of the tasks of each distributed query.

    Args:
        plan_nodes: the table `plan_nodes`.

    Returns:
        One row per distributed query: `task_count`, `tasks_shown`, `slowest_ms`, `mean_ms`, `slowest_shard_id`,
        `slowest_worker`, `skew` (slowest / mean; 1 is even) and `note`. If the plan does not show all tasks, mean and
        skew are null, because the task shown usually is the slowest; `note` says so.
    """
    frame = as_polars(plan_nodes)
    tasks = measure_tasks(frame).with_columns(worker_name()).sort("execution_ms", descending=True, nulls_last=True)
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


@in_callers_kind
def tasks_beside_traces(plan_nodes: Frame, spans: Frame) -> pl.DataFrame:
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
    tasks, traced = measure_tasks(as_polars(plan_nodes)), as_polars(spans)
    per_shard = traced.group_by("resource", "shard_id").agg(
        _REMOTE.sum().cast(pl.Int64).alias("traced"),
        (pl.col("duration_us").filter(_REMOTE).median() / US_PER_MS).alias("traced_ms"),
        _LOCAL.sum().cast(pl.Int64).alias("traced_locally"),
    )
    beside = tasks.join(per_shard, on=["resource", "shard_id"], how="left", maintain_order="left")
    return beside.with_columns(pl.col("traced", "traced_locally").fill_null(0))

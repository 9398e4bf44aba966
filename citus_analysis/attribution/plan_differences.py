"""Plans of statements on both sides: whether their shape changed, and rows and time of each node.

Plans come from EXPLAIN or auto_explain. Those of one statement are found by its fingerprint, so constants and numbers
of shards do not count; a plan without its statement is known by its file and its number there. What is a plan's shape
is said in `citus_analysis.plans.shapes`. A shape changed if all plans of each side have one, and it is another; if a
side has several, the share of the base's most frequent shape is tested (Fisher's exact test, adjusted by Holm over
the statements).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from citus_analysis.attribution.correlated_changes import compare_node_means
from citus_analysis.attribution.evidence import explain_unlike_thresholds
from citus_analysis.core.frames import TableSource, convert_to_polars
from citus_analysis.plans.shapes import add_node_paths, build_shapes, label_differences, name_statements
from citus_analysis.plans.study import KEY, measure_nodes, scan_plan_records
from citus_analysis.stats.verdicts import adjust_by_holm

if TYPE_CHECKING:
    from citus_analysis.attribution.observed import Observed

#: Both sides' values of one column of a table.
_BOTH: Final = ("base", "other")
_STATEMENTS: Final = {
    "statement": pl.String(),
    "fingerprint": pl.String(),
    **dict.fromkeys(("base_plans", "other_plans"), pl.Int64()),
    **dict.fromkeys(("before", "after"), pl.String()),
    **{f"{side}_{name}": pl.Float64() for name in ("tasks", "rows", "ms") for side in ("base", "other")},
    "p": pl.Float64(),
    "changed": pl.Boolean(),
}


@dataclass(frozen=True)
class PlanChanges:
    """Plans of the statements that both sides recorded.

    Attributes:
        statements: `statement`, `fingerprint`, plans of each side, the nodes that only the base (`before`) or the other
            side (`after`) has in its most frequent shape, tasks of Citus, rows that scans read and time (of an
            execution, mean; null where they are not known), `p` (null where each side has one shape), and whether the
            shape `changed`.
        nodes: of each statement and node: `node`, `path`, plans, `rows` (given or removed), `expected_rows` and
            `self_ms` of an execution on each side; of the time the interval of its difference, `low` and `high`, and
            `p` (Welch over runs, adjusted by Holm).
        unlike: why plans of short executions were logged on one side only, so that they are left out; empty if not.
    """

    statements: pl.DataFrame
    nodes: pl.DataFrame
    unlike: str = ""


def compare_plans(sides: Observed, *, level: float) -> PlanChanges | None:
    """Compare the plans of both sides; None unless both recorded some of one statement.

    Args:
        sides: both sides of a difference.
        level: confidence level.
    """
    if sides.unit != "run":
        return None
    read = [_read_plan_nodes(source, side.table) for source, side in zip(sides.sources, sides.both, strict=True)]
    logged = [_read_plan_durations(source, nodes) for source, nodes in zip(sides.sources, read, strict=True)]
    base, other = (one["duration_us"].to_numpy() for one in logged)
    unlike, least_us = explain_unlike_thresholds((base, other), (sides.both[0].name, sides.both[1].name))
    if unlike:
        short = [one.filter(pl.col("duration_us") < least_us) for one in logged]
        read = [nodes.join(one, on=KEY, how="anti") for nodes, one in zip(read, short, strict=True)]
    both = pl.concat([one.with_columns(side=pl.lit(i)) for i, one in enumerate(read)], how="vertical_relaxed")
    known = both.group_by("fingerprint").agg(pl.col("side").n_unique()).filter(pl.col("side") == len(read))
    nodes = both.join(known.select("fingerprint"), on="fingerprint")
    if nodes.is_empty():
        return None
    unlike = f"plans: {unlike}, which are left out" if unlike else ""
    return PlanChanges(_compare_statement_plans(nodes, level), _compare_plan_nodes(nodes, level), unlike)


def _read_plan_durations(source: TableSource, nodes: pl.DataFrame) -> pl.DataFrame:
    """How long the executions took of which auto_explain logged a plan: the key of the plan, and `duration_us`."""
    plans = convert_to_polars(source.table("plans")).join(nodes.select(KEY).unique(), on=KEY, how="semi")
    events = scan_plan_records(source)
    durations = events.select("source_id", "byte_offset", "duration_us").drop_nulls().collect()
    return plans.join(durations, on=["source_id", "byte_offset"]).select(*KEY, "duration_us")


def _read_plan_nodes(source: TableSource, runs: pl.DataFrame) -> pl.DataFrame:
    """Nodes of the plans of runs, one row for each path of a plan: `fingerprint`, `path`, rows and times."""
    mine = pl.col("run_id").is_in(runs["run_id"].implode()) | (
        pl.col("run_id").is_null() & pl.col("resource").is_in(runs["resource"].implode())
    )
    plans = _assign_plans_to_runs(source).filter(mine).select(*KEY, "run_id", "query", "task_count")
    files = convert_to_polars(source.table("sources")).select("source_id", file=pl.col("path").cast(pl.String))
    named = (
        plans.join(name_statements(plans["query"]), on="query", how="left")
        .join(files, on="source_id", how="left")
        .with_columns(own=pl.format("plan {} of {}", pl.col("plan") + 1, pl.col("file").str.extract(r"([^/]+)$")))
        .select(
            *KEY,
            run=pl.coalesce("run_id", "resource"),
            fingerprint=pl.coalesce("fingerprint", "own"),
            tasks="task_count",
            statement=pl.coalesce("statement", "own"),
        )
    )
    nodes = measure_nodes(convert_to_polars(source.table("plan_nodes")).join(named.select(KEY), on=KEY, how="semi"))
    removed = pl.col("removed_rows").fill_null(0.0) * pl.col("loops")
    everything = add_node_paths(nodes)
    placed = everything.filter(pl.col("kind").cast(pl.String) == "node")
    scanned = pl.col("relation").is_not_null()
    return (
        placed.group_by(*KEY, "path", maintain_order=True)
        .agg(
            node=pl.col("label").first(),
            depth=pl.col("depth").min(),
            scan=scanned.any(),
            rows=_make_known_sum_expr(pl.col("given_rows") + removed),
            expected_rows=_make_known_sum_expr(pl.col("expected_rows")),
            self_ms=_make_known_sum_expr(pl.col("self_ms")),
            total_ms=pl.when(pl.col("parent").is_null()).then("time_ms").sum(),
        )
        .join(named, on=KEY)
        .join(build_shapes(everything), on=KEY)
    )


def _make_known_sum_expr(values: pl.Expr) -> pl.Expr:
    """The sum; null, and not 0, if no value is known."""
    return pl.when(values.count() > 0).then(values.sum())


def _assign_plans_to_runs(source: TableSource) -> pl.DataFrame:
    """Plans; those of a log that spans several runs are of the run in which their record was written."""
    plans = convert_to_polars(source.table("plans"))
    if not plans["run_id"].null_count():
        return plans
    events = scan_plan_records(source)
    records = events.select("source_id", "byte_offset", written_in="run_id").collect()
    placed = plans.join(records, on=["source_id", "byte_offset"], how="left", maintain_order="left")
    return placed.with_columns(run_id=pl.coalesce("run_id", "written_in"))


def _compare_statement_plans(nodes: pl.DataFrame, level: float) -> pl.DataFrame:
    keys = ["side", "fingerprint", *KEY]
    # Tasks are a part of the shape.
    several = pl.col("tasks").first() > 1
    tasks = pl.when(several).then(pl.format("{} tasks", pl.col("tasks").first()))
    plans = nodes.group_by(keys, maintain_order=True).agg(
        pl.col("statement").first(),
        pl.col("shape").first(),
        paths=pl.col("path").append(tasks).drop_nulls(),
        tasks=pl.col("tasks").first(),
        rows=_make_known_sum_expr(pl.col("rows").filter("scan")),
        ms=pl.when(pl.col("self_ms").count() > 0).then(pl.col("total_ms").sum()),
    )
    rows = [_compare_plan_shapes(group) for _, group in plans.group_by("fingerprint", maintain_order=True)]
    table = pl.DataFrame(rows, schema=_STATEMENTS).with_row_index("row")
    tested = table.drop_nulls("p")
    adjusted = tested.select("row", p=pl.Series(adjust_by_holm(tested["p"].to_numpy()), dtype=pl.Float64))
    table = table.update(adjusted, on="row").with_columns(
        changed=pl.when(pl.col("p").is_null()).then("changed").otherwise(pl.col("p") < 1 - level)
    )
    longer = (pl.col("other_ms") - pl.col("base_ms")).abs()
    return table.drop("row").sort(
        pl.col("changed"), longer, "statement", descending=[True, True, False], nulls_last=True
    )


def _compare_plan_shapes(plans: pl.DataFrame) -> dict[str, object]:
    """Plans of one statement on both sides, and the p-value of its shapes before the adjustment."""
    sides = [plans.filter(side=i) for i in (0, 1)]
    shapes = [
        side.group_by("shape", maintain_order=True).agg(pl.len(), pl.col("paths").first()).sort("len", descending=True)
        for side in sides
    ]
    usual = [one["shape"][0] for one in shapes]
    single = all(one.height == 1 for one in shapes)
    before, after = label_differences(*(one["paths"][0].to_list() for one in shapes))
    return {
        "statement": plans["statement"][0],
        "fingerprint": plans["fingerprint"][0],
        **{f"{name}_plans": side.height for name, side in zip(_BOTH, sides, strict=True)},
        "before": before,
        "after": after,
        **{
            f"{name}_{of}": side[of].mean()
            for name, side in zip(_BOTH, sides, strict=True)
            for of in ("tasks", "rows", "ms")
        },
        "p": None if single else _compute_fisher_p_value(sides, usual[0]),
        "changed": single and usual[0] != usual[1],
    }


def _compute_fisher_p_value(sides: list[pl.DataFrame], shape: str) -> float:
    from scipy.stats import fisher_exact

    with_shape = [int((side["shape"] == shape).sum()) for side in sides]
    table = [[count, side.height - count] for count, side in zip(with_shape, sides, strict=True)]
    return float(fisher_exact(np.array(table)).pvalue)


def _compare_plan_nodes(nodes: pl.DataFrame, level: float) -> pl.DataFrame:
    """Nodes of both sides by statement and path, with the difference of their times over runs."""
    keys = ["statement", "path", "node", "depth"]
    first = nodes.with_columns(pl.col("statement", "depth").first().over("fingerprint", "path"))
    columns = ["rows", "expected_rows", "self_ms"]
    grouped = first.group_by("side", "fingerprint", *keys, maintain_order=True)
    means = grouped.agg(pl.len().cast(pl.Int64).alias("plans"), pl.col(columns).mean())
    base, other = (
        means.filter(side=i).drop("side").rename({one: f"{name}_{one}" for one in ("plans", *columns)})
        for i, name in enumerate(_BOTH)
    )
    table = base.join(other, on=["fingerprint", *keys], how="full", coalesce=True, nulls_equal=True)
    per_run = first.group_by("side", "fingerprint", "path", "run").agg(pl.col("self_ms").mean()).drop_nulls("self_ms")
    # In the order of runs, since the last digit of a mean depends on the order of its values.
    per_run = per_run.sort("run")
    runs = per_run.group_by("fingerprint", "path").agg(
        pl.col("self_ms").filter(side=0).alias("base"), pl.col("self_ms").filter(side=1).alias("other")
    )
    tests = [
        (fingerprint, path, one.low, one.high, one.p)
        for fingerprint, path, before, after in runs.sort("fingerprint", "path").iter_rows()
        if (one := compare_node_means("", "", np.array(before), np.array(after), level)) is not None
    ]
    schema = {"fingerprint": pl.String(), "path": pl.String(), **dict.fromkeys(("low", "high", "p"), pl.Float64())}
    tested = pl.DataFrame(tests, schema=schema, orient="row")
    tested = tested.with_columns(p=pl.Series(adjust_by_holm(tested["p"].to_numpy())) if tests else pl.col("p"))
    size = (pl.col("other_self_ms").fill_null(0.0) - pl.col("base_self_ms").fill_null(0.0)).abs()
    return (
        table.join(tested, on=["fingerprint", "path"], how="left")
        .sort(size, "statement", "path", descending=[True, False, False], nulls_last=True)
        .drop("fingerprint", "depth")
    )

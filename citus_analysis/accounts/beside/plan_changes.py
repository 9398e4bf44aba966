"""Plans of statements on both sides: whether their shape changed, and rows and time of each node.

Plans come from EXPLAIN or auto_explain. Those of one statement are found by its fingerprint, so constants and numbers
of shards do not count; a plan without its statement is known by its file and its number there. The shape of a plan is
the set of its nodes with their relations and indexes, each below those that receive its rows, and the number of tasks
of Citus; tasks of one query with equal plans are one. A shape changed if all plans of each side have one, and it is
another; if a side has several, the share of the base's most frequent shape is tested (Fisher's exact test, adjusted by
Holm over the statements).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from citus_analysis.accounts.beside.mechanisms import tested_means
from citus_analysis.core.frames import TableSource, as_polars, lazy_table
from citus_analysis.formats.serverlog.pglog.fallback.statement_tokens import describe
from citus_analysis.plans.measured_nodes import KEY, measure_nodes
from citus_analysis.serverlogs.statement_texts import normalised
from citus_analysis.stats.compare.families import holm

if TYPE_CHECKING:
    from citus_analysis.accounts.observed import Observed

_BELOW: Final = " > "
_SHARD: Final = r"_[0-9]{6,18}$"
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
    """

    statements: pl.DataFrame
    nodes: pl.DataFrame


def plan_changes(sides: Observed, *, level: float) -> PlanChanges | None:
    """Compare the plans of both sides; None unless both recorded some of one statement.

    Args:
        sides: both sides of a difference.
        level: confidence level.
    """
    if sides.unit != "run":
        return None
    read = [_nodes(source, side.table) for source, side in zip(sides.sources, sides.both, strict=True)]
    both = pl.concat([one.with_columns(side=pl.lit(i)) for i, one in enumerate(read)], how="vertical_relaxed")
    known = both.group_by("fingerprint").agg(pl.col("side").n_unique()).filter(pl.col("side") == len(read))
    nodes = both.join(known.select("fingerprint"), on="fingerprint")
    if nodes.is_empty():
        return None
    return PlanChanges(_statements(nodes, level), _compared_nodes(nodes, level))


def _nodes(source: TableSource, runs: pl.DataFrame) -> pl.DataFrame:
    """Nodes of the plans of runs, one row for each path of a plan: `fingerprint`, `path`, rows and times."""
    mine = pl.col("run_id").is_in(runs["run_id"].implode()) | (
        pl.col("run_id").is_null() & pl.col("resource").is_in(runs["resource"].implode())
    )
    plans = _placed_in_runs(source).filter(mine).select(*KEY, "run_id", "query", "task_count")
    files = as_polars(source.table("sources")).select("source_id", file=pl.col("path").cast(pl.String))
    texts = plans.select(pl.col("query").drop_nulls().unique())
    known = [(text, str(describe(text).fingerprint), normalised(text).rstrip("; ")) for text in texts["query"]]
    of_texts = pl.DataFrame(known, dict.fromkeys(("query", "hash", "text"), pl.String), orient="row")
    named = (
        plans.join(of_texts, on="query", how="left")
        .join(files, on="source_id", how="left")
        .with_columns(own=pl.format("plan {} of {}", pl.col("plan") + 1, pl.col("file").str.extract(r"([^/]+)$")))
        .select(
            *KEY,
            run=pl.coalesce("run_id", "resource"),
            fingerprint=pl.coalesce("hash", "own"),
            tasks="task_count",
            statement=pl.coalesce("text", "own"),
        )
    )
    nodes = measure_nodes(as_polars(source.table("plan_nodes")).join(named.select(KEY), on=KEY, how="semi"))
    removed = pl.col("removed_rows").fill_null(0.0) * pl.col("loops")
    placed = _with_paths(nodes).filter(pl.col("kind").cast(pl.String) == "node")
    scanned = pl.col("relation").is_not_null()
    return (
        placed.group_by(*KEY, "path", maintain_order=True)
        .agg(
            node=pl.col("label").first(),
            depth=pl.col("depth").min(),
            scan=scanned.any(),
            rows=_known_sum(pl.col("given_rows") + removed),
            expected_rows=_known_sum(pl.col("expected_rows")),
            self_ms=_known_sum(pl.col("self_ms")),
            total_ms=pl.when(pl.col("parent").is_null()).then("time_ms").sum(),
        )
        .join(named, on=KEY)
    )


def _known_sum(values: pl.Expr) -> pl.Expr:
    """The sum; null, and not 0, if no value is known."""
    return pl.when(values.count() > 0).then(values.sum())


def _placed_in_runs(source: TableSource) -> pl.DataFrame:
    """Plans; those of a log that spans several runs are of the run in which their record was written."""
    plans = as_polars(source.table("plans"))
    if not plans["run_id"].null_count():
        return plans
    events = lazy_table(source, "log_events").filter(pl.col("kind").cast(pl.String) == "plan")
    records = events.select("source_id", "byte_offset", written_in="run_id").collect()
    placed = plans.join(records, on=["source_id", "byte_offset"], how="left", maintain_order="left")
    return placed.with_columns(run_id=pl.coalesce("run_id", "written_in"))


def _with_paths(nodes: pl.DataFrame) -> pl.DataFrame:
    """Nodes with `label` and `path`: the labels from the topmost down to it."""
    relation, index = (pl.col(name).cast(pl.String).str.replace(_SHARD, "") for name in ("relation", "index_name"))
    label = pl.concat_str(
        pl.coalesce(pl.col("node_type").cast(pl.String), pl.col("kind").cast(pl.String)),
        pl.when(relation.is_not_null()).then(pl.format(" on {}", relation)).otherwise(pl.lit("")),
        pl.when(index.is_not_null()).then(pl.format(" using {}", index)).otherwise(pl.lit("")),
    )
    labelled = nodes.with_columns(label=label)
    level = labelled.filter(pl.col("parent").is_null()).with_columns(path=pl.col("label"))
    found = [level]
    while level.height:
        above = level.select(*KEY, parent="plan_node", above="path")
        level = labelled.join(above, on=[*KEY, "parent"]).with_columns(path=pl.col("above") + _BELOW + pl.col("label"))
        level = level.drop("above")
        found.append(level)
    return pl.concat(found)


def _statements(nodes: pl.DataFrame, level: float) -> pl.DataFrame:
    keys = ["side", "fingerprint", *KEY]
    # Tasks are a part of the shape.
    several = pl.col("tasks").first() > 1
    tasks = pl.when(several).then(pl.format("{} tasks", pl.col("tasks").first()))
    plans = nodes.group_by(keys, maintain_order=True).agg(
        pl.col("statement").first(),
        shape=pl.col("path").sort().append(tasks).drop_nulls(),
        tasks=pl.col("tasks").first(),
        rows=_known_sum(pl.col("rows").filter("scan")),
        ms=pl.when(pl.col("self_ms").count() > 0).then(pl.col("total_ms").sum()),
    )
    rows = [_statement(group) for _, group in plans.group_by("fingerprint", maintain_order=True)]
    table = pl.DataFrame(rows, schema=_STATEMENTS).with_row_index("row")
    tested = table.drop_nulls("p")
    adjusted = tested.select("row", p=pl.Series(holm(tested["p"].to_numpy()), dtype=pl.Float64))
    table = table.update(adjusted, on="row").with_columns(
        changed=pl.when(pl.col("p").is_null()).then("changed").otherwise(pl.col("p") < 1 - level)
    )
    longer = (pl.col("other_ms") - pl.col("base_ms")).abs()
    return table.drop("row").sort(
        pl.col("changed"), longer, "statement", descending=[True, True, False], nulls_last=True
    )


def _statement(plans: pl.DataFrame) -> dict[str, object]:
    """Plans of one statement on both sides, and the p-value of its shapes before the adjustment."""
    sides = [plans.filter(side=i) for i in (0, 1)]
    shapes = [side.group_by("shape", maintain_order=True).len().sort("len", descending=True) for side in sides]
    usual = [set(one["shape"][0]) for one in shapes]
    single = all(one.height == 1 for one in shapes)
    return {
        "statement": plans["statement"][0],
        "fingerprint": plans["fingerprint"][0],
        **{f"{name}_plans": side.height for name, side in zip(_BOTH, sides, strict=True)},
        "before": ", ".join(_labels(usual[0] - usual[1])),
        "after": ", ".join(_labels(usual[1] - usual[0])),
        **{
            f"{name}_{of}": side[of].mean()
            for name, side in zip(_BOTH, sides, strict=True)
            for of in ("tasks", "rows", "ms")
        },
        "p": None if single else _fisher(sides, usual[0]),
        "changed": single and usual[0] != usual[1],
    }


def _labels(paths: set[str]) -> Iterator[str]:
    """The nodes at the end of paths, those of scans last, without the ones whose place alone is new."""
    yield from dict.fromkeys(
        path.rpartition(_BELOW)[2] for path in sorted(paths, key=lambda one: (one.count(_BELOW), one))
    )


def _fisher(sides: list[pl.DataFrame], shape: set[str]) -> float:
    from scipy.stats import fisher_exact

    with_shape = [sum(set(one) == shape for one in side["shape"].to_list()) for side in sides]
    table = [[count, side.height - count] for count, side in zip(with_shape, sides, strict=True)]
    return float(fisher_exact(np.array(table)).pvalue)


def _compared_nodes(nodes: pl.DataFrame, level: float) -> pl.DataFrame:
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
    runs = per_run.group_by("fingerprint", "path").agg(
        pl.col("self_ms").filter(side=0).alias("base"), pl.col("self_ms").filter(side=1).alias("other")
    )
    tests = [
        (fingerprint, path, one.low, one.high, one.p)
        for fingerprint, path, before, after in runs.sort("fingerprint", "path").iter_rows()
        if (one := tested_means("", "", np.array(before), np.array(after), level)) is not None
    ]
    schema = {"fingerprint": pl.String(), "path": pl.String(), **dict.fromkeys(("low", "high", "p"), pl.Float64())}
    tested = pl.DataFrame(tests, schema=schema, orient="row")
    tested = tested.with_columns(p=pl.Series(holm(tested["p"].to_numpy())) if tests else pl.col("p"))
    size = (pl.col("other_self_ms").fill_null(0.0) - pl.col("base_self_ms").fill_null(0.0)).abs()
    return (
        table.join(tested, on=["fingerprint", "path"], how="left")
        .sort(size, "statement", "path", descending=[True, False, False], nulls_last=True)
        .drop("fingerprint", "depth")
    )

"""The shape of a plan: what is left of it without numbers, so that plans that differ only in numbers are equal.

The shape is the set of the plan's nodes, each below those that receive its rows, and the number of tasks of Citus.
Costs, rows, times, loops, workers, conditions and constants are no part of it. Shards are named without their number;
tasks, and parts of an Append, with equal plans are one. A table is known by its alias in the statement, and its name in
the name of an index does not count: which partitions are left after pruning depends on constants. The two sides of a
join are told apart, since their order is the planner's choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from citus_analysis.formats.pglog.scanned_chunks import fingerprint_statements
from citus_analysis.plans.study import KEY
from citus_analysis.serverlogs.statements import normalise_statement

#: Between the labels of a path.
BELOW: Final = " > "
_SHARD: Final = r"_[0-9]{6,18}$"
#: What PostgreSQL appends to the alias of each part of an Append.
_PART: Final = r"_[0-9]+$"
_APPENDS: Final = ("Append", "Merge Append", "Parallel Append", "Async Append")
_JOIN: Final = r"Nested Loop|Join|Merge"
#: Name of a parameter in conditions of a generic plan, and of what an InitPlan or SubPlan returns.
_PARAMETER: Final = r"\$[1-9][0-9]*"
_RETURNS: Final = "returns $"


def name_statements(queries: pl.Series) -> pl.DataFrame:
    """Fingerprint and text without constants of each distinct statement: `query`, `fingerprint`, `statement`.

    Example:
        >>> name_statements(pl.Series(["SELECT v FROM t_102008 WHERE id = 7;", None]))["statement"].to_list()
        ['SELECT v FROM t_? WHERE id = ?']
    """
    texts = queries.drop_nulls().unique(maintain_order=True).rename("query")
    normal = [normalise_statement(text).rstrip("; ") for text in texts]
    return texts.to_frame().with_columns(
        fingerprint=fingerprint_statements(texts).cast(pl.String), statement=pl.Series(normal, dtype=pl.String)
    )


def add_node_paths(nodes: pl.DataFrame) -> pl.DataFrame:
    """Nodes with their place in the tree.

    Args:
        nodes: rows of the table `plan_nodes`.

    Returns:
        The rows with `label` (name, relation and index, without the numbers of shards), `path` (the labels from the
        topmost node down to it) and `place`, the path by which shapes are compared.

    Example:
        >>> row = {"resource": "r", "source_id": "s", "plan": 0, "kind": "node", "index_name": None, "alias": None}
        >>> row |= {"subplan_name": None, "relation": None}
        >>> sort = row | {"plan_node": 0, "parent": None, "node_type": "Sort"}
        >>> scan = row | {"plan_node": 1, "parent": 0, "node_type": "Seq Scan", "relation": "t_102008"}
        >>> found = add_node_paths(pl.DataFrame([sort, scan], infer_schema_length=None))
        >>> found["path"].to_list()
        ['Sort', 'Sort > Seq Scan on t']
    """
    texts = ("node_type", "kind", "relation", "alias", "index_name", "subplan_name")
    frame = nodes.with_columns(pl.col(texts).cast(pl.String), pl.col("plan_node", "parent").cast(pl.Int32))
    relation, index, alias = (pl.col(name).str.replace(_SHARD, "") for name in ("relation", "index_name", "alias"))
    labelled = _add_sides_of_joins(frame).with_columns(
        label=_make_label_expr(relation, index),
        own_relation=relation,
        own_index=index,
        own_alias=pl.coalesce(alias, relation),
        role=pl.col("subplan_name").str.extract(r"^([A-Za-z]+)"),
    )
    nothing = pl.lit(None, dtype=pl.String)
    tops = labelled.filter(pl.col("parent").is_null())
    level = _place_level(
        tops.with_columns(above=nothing, above_place=nothing, above_relation=nothing, in_append=pl.lit(value=False))
    )
    found = [level]
    while level.height:
        above = level.select(
            *KEY,
            parent="plan_node",
            above="path",
            above_place="place",
            above_relation="own_relation",
            in_append="in_append",
        )
        level = _place_level(labelled.join(above, on=[*KEY, "parent"]))
        found.append(level)
    return pl.concat(found).select(*nodes.columns, "label", "path", "place")


def _place_level(level: pl.DataFrame) -> pl.DataFrame:
    """Path and place of nodes whose parents have theirs; the index of a bitmap belongs to the heap scan above it."""
    placed = level.with_columns(pl.coalesce("own_relation", "above_relation").alias("own_relation"))
    named = pl.Series(
        [
            index.replace(relation, "*", 1) if index and relation else index
            for index, relation in placed.select("own_index", "own_relation").iter_rows()
        ],
        dtype=pl.String,
    )
    alias = pl.when("in_append").then(pl.col("own_alias").str.replace(_PART, "")).otherwise("own_alias")
    own = pl.concat_str(pl.coalesce("join_side", "role", pl.lit("")), pl.lit(" "), _make_label_expr(alias, named))
    return placed.with_columns(
        path=pl.concat_str(["above", "label"], separator=BELOW, ignore_nulls=True),
        place=pl.concat_str([pl.col("above_place"), own], separator=BELOW, ignore_nulls=True),
        in_append=pl.col("in_append") | pl.coalesce("node_type", pl.lit("")).is_in(_APPENDS),
    )


def _make_label_expr(relation: pl.Expr, index: pl.Expr | pl.Series) -> pl.Expr:
    named = pl.lit(index) if isinstance(index, pl.Series) else index
    return pl.concat_str(
        pl.coalesce("node_type", "kind"),
        pl.when(relation.is_not_null()).then(pl.format(" on {}", relation)).otherwise(pl.lit("")),
        pl.when(named.is_not_null()).then(pl.format(" using {}", named)).otherwise(pl.lit("")),
    )


def _add_sides_of_joins(nodes: pl.DataFrame) -> pl.DataFrame:
    """Nodes with `join_side`: `1` or `2` directly below a join, else null."""
    joins = nodes.filter(pl.col("node_type").str.contains(_JOIN)).select(*KEY, parent="plan_node")
    sides = nodes.filter(pl.col("subplan_name").is_null()).join(joins, on=[*KEY, "parent"])
    numbered = sides.select(*KEY, "plan_node", join_side=pl.col("plan_node").rank("dense").over(*KEY, "parent"))
    return nodes.join(numbered.with_columns(pl.col("join_side").cast(pl.String)), on=[*KEY, "plan_node"], how="left")


def build_shapes(placed: pl.DataFrame) -> pl.DataFrame:
    """The shape of each plan, and whether it is the generic plan of a prepared statement.

    Args:
        placed: result of :func:`add_node_paths`; `conditions` and `task_count` of the nodes are used.

    Returns:
        The key of the plan, `shape` (equal for equal shapes) and `generic` (its conditions contain parameters, `$1`).
    """
    conditions, subplan = pl.col("conditions").cast(pl.String), pl.col("subplan_name").cast(pl.String)
    returned = subplan.str.contains(_RETURNS, literal=True).any()
    tasks = pl.col("task_count").fill_null(0).sum()
    return (
        placed.group_by(*KEY, maintain_order=True)
        .agg(
            shape=pl.col("place").unique().sort().str.join("\n"),
            tasks=tasks,
            generic=conditions.str.contains(_PARAMETER).any() & ~returned,
        )
        .with_columns(
            shape=pl.when(pl.col("tasks") > 1).then(pl.format("{}\n{} tasks", "shape", "tasks")).otherwise("shape")
        )
        .drop("tasks")
    )


def label_differences(old: Sequence[str], new: Sequence[str]) -> tuple[str, str]:
    """The nodes that only the one plan has, and those that only the other has, those of scans last.

    Args:
        old: paths of the nodes of a plan, in their order.
        new: those of another plan.

    Returns:
        Labels, separated by commas, without the nodes whose place alone is new. If both have the same nodes, all of
        them in their order.

    Example:
        >>> label_differences(["Limit", "Limit > Index Scan on t"], ["Limit", "Limit > Sort"])
        ('Index Scan on t', 'Sort')
    """
    first, second = _label_paths(set(old) - set(new)), _label_paths(set(new) - set(old))
    if first or second:
        return first, second
    # The two sides of a join are exchanged.
    in_order = [", ".join(path.rpartition(BELOW)[2] for path in paths) for paths in (old, new)]
    return ("", "") if list(old) == list(new) else (in_order[0], in_order[1])


def _label_paths(paths: set[str]) -> str:
    ordered = sorted(paths, key=lambda one: (one.count(BELOW), one))
    return ", ".join(dict.fromkeys(path.rpartition(BELOW)[2] for path in ordered))

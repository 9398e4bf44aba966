"""All plans of a dataset, for a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

import polars as pl

from citus_analysis.core.frames import Frame, TableSource, lazy_table, tables_of
from citus_analysis.plans.measured_nodes import KEY, measure_nodes
from citus_analysis.plans.tasks import EXECUTED, TRACED_BY, task_skew, tasks_beside_traces
from citus_analysis.public_names import public
from citus_analysis.runs.run_selection import matching
from citus_analysis.texts.counted_words import counted
from citus_analysis.texts.natural_order import natural_key

__all__ = ["PlanStudy", "ShownPlan", "plan_study"]

__dir__, __getattr__ = public(__name__, __all__)

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
        tasks: result of :func:`tasks_beside_traces`, with `label`.
        skew: result of :func:`task_skew`, with `label`.
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
    found = tables_of(dataset, ("plans", "plan_nodes", "sources"))
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
    executions = lazy_table(dataset, "spans").filter(EXECUTED, shards).select(TRACED_BY).collect(engine="streaming")
    plans, nodes, tasks, skew = (
        _labelled(frame, labels)
        for frame in (plans, measure_nodes(nodes), tasks_beside_traces(nodes, executions), task_skew(nodes))
    )
    return PlanStudy(plans, nodes, tasks, skew, tuple(_shown(plans, nodes, tasks)), tuple(_warnings(plans)))


def _labelled(frame: pl.DataFrame, labels: pl.DataFrame) -> pl.DataFrame:
    found = frame.join(labels, on=list(KEY), how="left", maintain_order="left")
    return found.select("label", pl.exclude("label"))


def _shown(plans: pl.DataFrame, nodes: pl.DataFrame, tasks: pl.DataFrame) -> Iterator[ShownPlan]:
    order = sorted(
        plans.select("label", "execution_us", *KEY).iter_rows(named=True),
        key=lambda one: (one["execution_us"] is None, -(one["execution_us"] or 0), natural_key(one["label"])),
    )
    for one in order[:_MOST]:
        key = {name: one[name] for name in KEY}
        yield ShownPlan(one["label"], nodes.filter(**key), tasks.filter(**key))


def _warnings(plans: pl.DataFrame) -> Iterator[str]:
    hidden = plans.filter(pl.col("unknown").is_not_null()).height
    if hidden:
        yield (
            f"Of {counted(plans.height, 'plan')}, {hidden} do not show all tasks: the workers, times and rows of the "
            "others are unknown, and as a rule the task shown is the slowest. With citus.explain_all_tasks = on, "
            "EXPLAIN shows all."
        )

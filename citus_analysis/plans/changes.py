"""Plans over time: which statement got another plan, on which node, when, and at what cost.

The executions of a statement whose plans auto_explain logged, on one node, of one user and database, are a sequence in
time. Two plans are the same if their shapes are (:mod:`citus_analysis.plans.shapes`). A statement whose plans differ by
its constants, or by sessions, has several plans in an order of chance: it did not change. It changed if the plans are
further apart in time than chance explains (:mod:`citus_analysis.stats.kind_changes`; adjusted by Holm over the
statements that have several plans), at the places where another plan became the usual one. Generic plans of prepared
statements are compared with generic plans, and plans for given constants with such plans.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.frames import Frame, TableSource, convert_to_polars, resolve_source, scan_source_table
from citus_analysis.defaults import LEVEL
from citus_analysis.errors import UsageError
from citus_analysis.plans.shapes import add_node_paths, build_shapes, label_differences, name_statements
from citus_analysis.plans.study import KEY, scan_plan_records
from citus_analysis.runs.selection import matching
from citus_analysis.stats.intervals import ratio_interval
from citus_analysis.stats.kind_changes import compute_order_p_value, count_missing_values, find_segments
from citus_analysis.stats.verdicts import adjust_by_holm
from citus_analysis.texts.numbers import format_estimate_with_interval, format_number
from citus_analysis.texts.words import join_words, pluralize
from citus_analysis.units import US_PER_MS

#: Executions that are one sequence.
_STREAM: Final = ("resource", "node", "database", "user", "fingerprint", "generic")
#: With more executions missing, a change is not in sight.
_MOST_MISSING: Final = 500
_NODE_COLUMNS: Final = (
    *(*KEY, "plan_node", "parent", "depth", "kind", "node_type", "relation", "alias", "index_name", "subplan_name"),
    *("conditions", "task_count", "worker_host", "worker_port"),
)
#: Citus asks its workers for the plans of tasks that it logs.
_EXPLAIN: Final = r"(?i)^\s*EXPLAIN\b"
_STATEMENTS: Final = {
    **dict.fromkeys(("statement", "fingerprint", "resource", "node", "database", "user"), pl.String()),
    "generic": pl.Boolean(),
    "verdict": pl.String(),
    **dict.fromkeys(("executions", "plans", "changes", "missing"), pl.Int64()),
    "p": pl.Float64(),
    **dict.fromkeys(("first_time", "last_time"), pl.Datetime("us", "UTC")),
}
_CHANGES: Final = {
    **dict.fromkeys(("statement", "fingerprint", "resource", "node", "database", "user"), pl.String()),
    "generic": pl.Boolean(),
    **dict.fromkeys(("last_old", "first_new"), pl.Datetime("us", "UTC")),
    **dict.fromkeys(("before", "after", "in_tasks_of", "constants", "stayed_on"), pl.String()),
    **dict.fromkeys(("old_executions", "new_executions"), pl.Int64()),
    **dict.fromkeys(("old_cost", "new_cost", "old_ms", "new_ms", "ratio", "low", "high", "p"), pl.Float64()),
    "tree": pl.String(),
    **dict.fromkeys(("old_path", "new_path"), pl.String()),
    **dict.fromkeys(("old_byte_offset", "new_byte_offset"), pl.Int64()),
}


@dataclass(frozen=True, repr=False)
class PlanHistory(DisplayMixin):
    """The plans of each statement over time.

    Attributes:
        statements: a row for each statement, node, user, database and kind of plan (generic or not): `verdict`
            (`changed`; `one plan`; `several plans` that alternate, by chance or in short phases; `undecided`, with the
            number of executions that are `missing` until the change is more than chance), `executions`, `plans`
            (different ones), `changes`, `p` (null for one plan; adjusted by Holm), `first_time` and `last_time`.
        changes: a row for each change, in the order of time: `last_old` and `first_new` (the last execution with the
            old plan and the first with the new one, in UTC), `before` and `after` (nodes that only one of the plans
            has), `in_tasks_of` (the worker, if a coordinator's plan changed only in what a worker executed), numbers of
            executions, the planner's `old_cost` and `new_cost`, mean durations `old_ms` and `new_ms`, their `ratio`
            (new to old) with `low` and `high` (Welch t on its logarithm, of executions, which follow each other and are
            not independent), `constants` (`same`: a text that had the old plan has the new one; `others`: no text
            occurs on both sides, so that its constants may be the reason; `unknown`), `stayed_on` (nodes on which the
            statement kept its plan), `tree` (both plans as one tree: `-` only before, `+` only after), and the records
            of both executions (`old_path`, `old_byte_offset`, `new_path`, `new_byte_offset`).
        executions: number of executions with a plan and a time.
        level: confidence level.
        warnings: what could not be compared.
    """

    statements: pl.DataFrame
    changes: pl.DataFrame
    executions: int
    level: float
    warnings: tuple[str, ...] = ()

    def summary_lines(self) -> list[str]:
        """What was compared, then a sentence for each change."""
        return [describe_history(self), *map(describe_change, self.changes.iter_rows(named=True)), *self.warnings]

    def summary_table(self) -> pl.DataFrame:
        """The changes."""
        return self.changes

    def to_dict(self) -> dict[str, object]:
        """The same as plain values, for JSON."""
        return {
            "executions": self.executions,
            "level": self.level,
            "changes": self.changes.to_dicts(),
            "statements": self.statements.to_dicts(),
            "warnings": list(self.warnings),
        }


def plan_changes(
    source: TableSource | Mapping[str, Frame] | object, resources: str = "*", *, level: float = LEVEL
) -> PlanHistory:
    """Find statements whose plan changed: where, when and at what cost.

    Args:
        source: a dataset, frames by the names of tables (`plans`, `plan_nodes`, `log_events`, `sources`), or paths.
        resources: glob patterns of the systems to include, separated by commas.
        level: confidence level of the changes together, and of the intervals.

    Raises:
        UsageError: the source has no such tables.

    Example:
        >>> import citus_analysis as ca
        >>> found = ca.plan_changes("tests/data/plans/auto_explain-pg15.log")
        >>> found.executions, found.changes.height
        (3, 0)
    """
    tables = resolve_source(source)
    if isinstance(tables, pl.DataFrame):
        raise UsageError("plans over time are read from a dataset, not from one frame", hint="pass a dataset or logs")
    executions, warnings = _read_executions(tables, resources)
    streams = [group for _, group in executions.group_by(_STREAM, maintain_order=True)]
    several = [i for i, stream in enumerate(streams) if stream["shape"].n_unique() > 1]
    kinds = {i: streams[i]["kind"].to_list() for i in several}
    p_values = dict(zip(several, adjust_by_holm([compute_order_p_value(kinds[i]) for i in several]), strict=True))
    found = {i: _find_usual_plans(kinds[i]) for i in several if p_values[i] < 1 - level}
    alpha = (1 - level) / max(len(several), 1)
    statements = [
        _summarise_stream(stream, kinds.get(i, [0]), p_values.get(i), len(found.get(i, [0])) - 1, alpha)
        for i, stream in enumerate(streams)
    ]
    table = pl.DataFrame(statements, schema=_STATEMENTS)
    nodes = _read_nodes(tables, executions) if found else pl.DataFrame()
    changes = [
        {**_compare_segments(streams[i], before, after, nodes, level), "p": p_values[i], "stayed_on": stayed}
        for i, segments in found.items()
        for stayed in [_list_unchanged_nodes(table, statements[i])]
        for before, after in pairwise(segments)
    ]
    rows = pl.DataFrame(changes, schema=_CHANGES).sort("first_new", "statement", "node")
    order = pl.col("verdict").replace_strict({"changed": 0, "undecided": 1, "several plans": 2, "one plan": 3})
    ordered = table.sort(order, "statement", "resource", "node", "generic")
    return PlanHistory(ordered, rows, executions.height, level, tuple(warnings))


def _read_executions(source: TableSource, resources: str) -> tuple[pl.DataFrame, list[str]]:
    """Executions with a plan, a statement and a time, in the order of time, and what was left out."""
    plans = matching(convert_to_polars(source.table("plans")), resources)
    events = scan_plan_records(source)
    place = ("source_id", "byte_offset")
    columns = (*place, "log_time", "duration_us", "user", "database")
    logged = events.select(columns).collect(engine="streaming")
    paths = convert_to_polars(source.table("sources")).select("source_id", path=pl.col("path").cast(pl.String))
    timed = plans.join(logged, on=place).drop_nulls("log_time")
    named = timed.drop_nulls("query")
    executed = named.filter(~pl.col("query").str.contains(_EXPLAIN))
    known = executed.join(name_statements(executed["query"]), on="query")
    warnings = []
    if plans.height > timed.height:
        untimed = pluralize(plans.height - timed.height, "plan")
        warnings.append(f"{untimed} without a time (output of EXPLAIN) cannot be compared over time")
    if timed.height > named.height:
        unnamed = pluralize(timed.height - named.height, "plan")
        warnings.append(f"{unnamed} without the text of a statement cannot be compared")
    if named.height > executed.height:
        warnings.append(f"{pluralize(named.height - executed.height, 'plan')} of EXPLAIN itself left out")
    shapes = build_shapes(add_node_paths(_select_nodes(source, known)))
    texts = ("resource", "node", "user", "database")
    executions = (
        known.join(shapes, on=KEY)
        .join(paths, on="source_id", how="left")
        .with_columns(pl.col(texts).cast(pl.String), pl.col("log_time").cast(pl.Datetime("us", "UTC")))
        .with_columns(kind=pl.col("shape").rank("dense").over(_STREAM).cast(pl.Int64) - 1)
        .sort("log_time", *place)
    )
    return executions, warnings


def _select_nodes(source: TableSource, plans: pl.DataFrame) -> pl.DataFrame:
    wanted = scan_source_table(source, "plan_nodes").select(_NODE_COLUMNS)
    return wanted.join(plans.lazy().select(KEY), on=KEY, how="semi").collect(engine="streaming")


def _read_nodes(source: TableSource, executions: pl.DataFrame) -> pl.DataFrame:
    """Placed nodes of all executions, for trees."""
    return add_node_paths(_select_nodes(source, executions)).sort(*KEY, "plan_node")


@dataclass(frozen=True)
class _UsualPlan:
    """Executions between two changes of the usual plan: first place, the place after the last, and the usual plan."""

    first: int
    end: int
    usual: int


def _find_usual_plans(kinds: Sequence[int]) -> list[_UsualPlan]:
    """Segments of a sequence whose neighbours have another usual plan."""
    found: list[_UsualPlan] = []
    for first, end in find_segments(kinds):
        usual = Counter(kinds[first:end]).most_common(1)[0][0]
        if found and found[-1].usual == usual:
            found[-1] = _UsualPlan(found[-1].first, end, usual)
        else:
            found.append(_UsualPlan(first, end, usual))
    return found


def _summarise_stream(
    stream: pl.DataFrame, kinds: Sequence[int], p: float | None, changes: int, alpha: float
) -> dict[str, object]:
    plans = len(set(kinds))
    missing = _count_missing(kinds, alpha) if plans > 1 and not changes else None
    verdict = "changed" if changes else "one plan" if plans == 1 else "undecided" if missing else "several plans"
    return {
        **{name: stream[name][0] for name in ("statement", *_STREAM)},
        "verdict": verdict,
        "executions": stream.height,
        "plans": plans,
        "changes": changes,
        "missing": missing,
        "p": p,
        "first_time": stream["log_time"][0],
        "last_time": stream["log_time"][-1],
    }


def _count_missing(kinds: Sequence[int], alpha: float) -> int | None:
    """Executions until one change of plan is more than chance; None if old plans occur among the new ones."""
    first = next(i for i, kind in enumerate(kinds) if kind != kinds[0])
    if set(kinds[:first]) & set(kinds[first:]) or len(set(kinds[first:])) > 1:
        return None
    missing = count_missing_values(first, len(kinds) - first, alpha)
    return missing if missing < _MOST_MISSING else None


def _list_unchanged_nodes(statements: pl.DataFrame, row: Mapping[str, object]) -> str | None:
    """Other nodes on which the same statement kept its plan."""
    same = ("resource", "database", "user", "fingerprint")
    others = statements.filter(
        pl.all_horizontal(pl.col(name).eq_missing(pl.lit(row[name], dtype=pl.String)) for name in same)
    )
    changed = others.filter(verdict="changed")["node"].to_list()
    kept = sorted({node for node in others["node"] if node is not None} - set(changed))
    return ", ".join(kept) or None


def _compare_segments(
    stream: pl.DataFrame, before: _UsualPlan, after: _UsualPlan, nodes: pl.DataFrame, level: float
) -> dict[str, object]:
    old, new = (stream[one.first : one.end].filter(kind=one.usual) for one in (before, after))
    trees = [nodes.join(one.select(KEY), on=KEY, how="semi", maintain_order="left") for one in (old[-1:], new[:1])]
    only = label_differences(*(tree["path"].to_list() for tree in trees))
    return {
        **{name: stream[name][0] for name in ("statement", *_STREAM)},
        "last_old": old["log_time"][-1],
        "first_new": new["log_time"][0],
        "before": only[0],
        "after": only[1],
        "in_tasks_of": _find_workers(*trees),
        "constants": _compare_constants(old["query"], new["query"]),
        "old_executions": old.height,
        "new_executions": new.height,
        "old_cost": old["total_cost"].mean(),
        "new_cost": new["total_cost"].mean(),
        **_compare_durations(old["duration_us"], new["duration_us"], level),
        "tree": compare_trees(*trees),
        "old_path": old["path"][-1],
        "old_byte_offset": old["byte_offset"][-1],
        "new_path": new["path"][0],
        "new_byte_offset": new["byte_offset"][0],
    }


def _find_workers(old: pl.DataFrame, new: pl.DataFrame) -> str | None:
    """The workers of the tasks within which plans differ; None if they differ elsewhere."""
    differing = pl.concat([old.join(new, on="place", how="anti"), new.join(old, on="place", how="anti")])
    if differing.is_empty() or differing["worker_host"].null_count():
        return None
    names = differing.select(pl.format("{}:{}", "worker_host", pl.col("worker_port").fill_null(0))).to_series()
    return ", ".join(sorted(set(names.str.strip_suffix(":0"))))


def _compare_constants(old: pl.Series, new: pl.Series) -> str:
    if set(old) & set(new):
        return "unknown" if old.str.contains(r"\$[0-9]").any() else "same"
    return "others"


def _compare_durations(old: pl.Series, new: pl.Series, level: float) -> dict[str, float | None]:
    both = [one.drop_nulls().to_numpy() / US_PER_MS for one in (old, new)]
    means = {
        name: float(one.mean()) if one.size else None for name, one in zip(("old_ms", "new_ms"), both, strict=True)
    }
    if not all(means.values()):
        return means
    ratio = ratio_interval(both[1], both[0], level)
    low, high = (None if np.isnan(end) else end for end in (ratio.low, ratio.high))
    return {**means, "ratio": ratio.estimate, "low": low, "high": high}


def compare_trees(old: pl.DataFrame, new: pl.DataFrame) -> str:
    """Two plans as one tree.

    Args:
        old: nodes of a plan, as `add_node_paths` returns them, in their order.
        new: nodes of the other.

    Returns:
        A line for each node, indented by its depth: `-` marks nodes of the old plan only, `+` of the new one only.
        Parts of an Append and tasks with the same plan are one line with their number.
    """
    before, after = ([*_list_tree_lines(one)] for one in (old, new))
    matcher = SequenceMatcher(None, [one[:2] for one in before], [one[:2] for one in after], autojunk=False)
    lines: list[str] = []
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        if tag == "equal":
            lines += [f"  {text}" for _, _, text in after[j:j_end]]
        else:
            lines += [f"- {text}" for _, _, text in before[i:i_end]] + [f"+ {text}" for _, _, text in after[j:j_end]]
    return "\n".join(lines)


def _list_tree_lines(nodes: pl.DataFrame) -> Iterator[tuple[int, str, str]]:
    """Depth, place without what is above it, and text of each node that differs from its siblings."""
    merged = nodes.group_by("place", maintain_order=True).agg(pl.col("depth", "label").first(), times=pl.len())
    for place, depth, label, times in merged.iter_rows():
        own = place.rpartition(" > ")[2]
        yield depth, own, f"{'  ' * depth}{label}{f' ({times} times)' if times > 1 else ''}"


def describe_history(found: PlanHistory) -> str:
    """What was compared, and with what result, in a sentence."""
    if found.statements.is_empty():
        return "No plan of a statement was logged: auto_explain with auto_explain.log_min_duration logs them."
    counts = Counter(found.statements["verdict"].to_list())
    changed = pluralize(found.changes.height, "change")
    sequences = pluralize(found.statements.height, "statement")
    others = [f"{counts[name]} {words}" for name, words in _VERDICT_WORDS.items() if counts[name]]
    where = f"{pluralize(found.executions, 'execution')} of {sequences} (each on one node)"
    return f"{changed} of plan in {where}: {join_words(others)}."


_VERDICT_WORDS: Final = {
    "changed": "changed",
    "undecided": "undecided",
    "several plans": "with several plans that alternate",
    "one plan": "with one plan",
}


def describe_change(change: Mapping[str, object]) -> str:
    """A change in a sentence.

    Args:
        change: a row of `PlanHistory.changes`.
    """
    node = f" on node {change['node']}" if change["node"] is not None else ""
    tasks = f" (in tasks of {change['in_tasks_of']})" if change["in_tasks_of"] else ""
    kept = f"; it stayed on {change['stayed_on']}" if change["stayed_on"] else ""
    values = (
        "; no text occurs with both plans: its constants may be the reason" if change["constants"] == "others" else ""
    )
    times = f"between {_format_time(change['last_old'])} and {_format_time(change['first_new'])} UTC"
    return (
        f"{change['statement']}{node}, {times}: {change['before']} became {change['after']}{tasks}; "
        f"{_describe_cost(change)}{kept}{values}."
    )


def _describe_cost(change: Mapping[str, object]) -> str:
    cost, ms = (
        f"{format_number(float(str(change[f'old_{name}'])))} to {format_number(float(str(change[f'new_{name}'])))}"
        if change[f"old_{name}"] is not None and change[f"new_{name}"] is not None
        else "unknown"
        for name in ("cost", "ms")
    )
    numbers = [None if change[name] is None else float(str(change[name])) for name in ("ratio", "low", "high")]
    ratio = f", ratio {format_estimate_with_interval(*numbers)}" if numbers[0] is not None else ""
    executions = f"{change['old_executions']} and {change['new_executions']} executions"
    return f"mean duration {ms} ms{ratio} ({executions}), planner's cost {cost}"


def _format_time(time: object) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S}.{time.microsecond // 1000:03}" if isinstance(time, datetime) else str(time)


def format_history(found: PlanHistory, trees: bool = True) -> str:
    """A history in text: what was compared, each change with its tree, and what is undecided.

    Args:
        found: result of :func:`plan_changes`.
        trees: whether trees are shown.
    """
    lines = [describe_history(found)]
    for change in found.changes.iter_rows(named=True):
        lines += ["", describe_change(change)]
        lines += [f"    {line}" for line in str(change["tree"]).split("\n")] if trees else []
        lines.append(
            f"    {change['old_path']}:{change['old_byte_offset']} -> {change['new_path']}:{change['new_byte_offset']}"
        )
    undecided = found.statements.filter(verdict="undecided")
    lines += [""] if undecided.height else []
    lines += [
        f"undecided: {statement}{f' on node {node}' if node else ''} has another plan at the end of "
        f"{pluralize(executions, 'execution')}; decided with {missing} more, if they have it too"
        for statement, node, executions, missing in undecided.select(
            "statement", "node", "executions", "missing"
        ).iter_rows()
    ]
    return "\n".join([*lines, *(f"note: {one}" for one in found.warnings)])

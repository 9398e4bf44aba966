"""CPU time of functions, from perf's samples of both sides, per operation: what changed, and the tree of the stacks.

The weight of a sample is the CPU time that it stands for (the period of a clock event) divided by the operations of
its run. This is known where perf recorded whole runs, as the runner has it do; of other recordings, shares of their
samples are compared, and a function whose share grows then takes it from others.

Samples are counts. With several recordings on a side, the spread of a function between runs is the larger of its own
and of what its count and all functions together suggest: Poisson's variance plus a part that grows with the square of
the mean, as of a negative binomial distribution, which is the same for all functions (Anders and Huber 2010). With
one recording on each side, nobody knows how runs differ: intervals are those of the counts, and nothing is decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from citus_analysis.attribution.observed import RUN
from citus_analysis.bottleneck.profiles import (
    build_stack_frames,
    make_object_part_expr,
    number_stack_frames,
    select_one_output,
)
from citus_analysis.core.frames import TableSource, convert_to_polars
from citus_analysis.core.type_aliases import Bools, Floats
from citus_analysis.texts.words import join_words

if TYPE_CHECKING:
    from citus_analysis.attribution.observed import Observed

#: Events whose count is CPU time in nanoseconds, and other common ones, in the order of preference.
#: Events of perf that are timers, not counters of the processor.
CLOCK_EVENTS: Final = ("cpu-clock", "task-clock")
_EVENTS: Final = (*CLOCK_EVENTS, "cycles", "cpu-cycles")
_NS_PER_US: Final = 1e3
#: Functions with fewer samples on both sides together are not tested.
_FEWEST_SAMPLES: Final = 20
_MOST_FUNCTIONS: Final = 100
#: Frames with a smaller share of all samples are not drawn.
_LEAST_SHARE: Final = 0.005
#: Levels that are drawn, so that names can be read.
_DEEPEST: Final = 36
#: Degrees of freedom that stand for the normal distribution.
_MANY: Final = 1e9
#: Addresses without a name differ from run to run.
_ADDRESS: Final = r"(^|;)0(?:x[0-9a-f]+)?\b"
#: Stands for stacks that are too rare to be drawn.
_RARE: Final = "[rare stacks]"
ALL_FUNCTIONS: Final = "all functions"


@dataclass(frozen=True)
class StackChanges:
    """What changed in perf's samples.

    Attributes:
        unit: `µs` of CPU time per operation, or `%` of samples.
        event: event that was sampled; empty if only one side has samples.
        recordings: of base and other.
        functions: `function`, `module`, `base`, `other`, `difference`, `low`, `high`, `p`, `decided`, `base_samples`,
            `other_samples`; intervals hold together, p is adjusted for all functions that were tested.
        tree: frames of the other side: `frame_id`, `caller_id`, `depth`, `frame`, `base`, `other` (callees included),
            `base_self`, `other_self`.
        gone: topmost frames that only the base has: `path`, `frame`, `base`.
        notes: what the numbers cannot say.
    """

    unit: str = ""
    event: str = ""
    recordings: tuple[int, int] = (0, 0)
    functions: pl.DataFrame = field(default_factory=pl.DataFrame)
    tree: pl.DataFrame = field(default_factory=pl.DataFrame)
    gone: pl.DataFrame = field(default_factory=pl.DataFrame)
    notes: tuple[str, ...] = ()


def stack_changes(sides: Observed, *, level: float) -> StackChanges | None:
    """Compare the stacks of both sides; None if neither has any.

    Args:
        sides: both sides of a difference.
        level: confidence level.
    """
    if sides.unit != "run":
        return None
    names = [side.name for side in sides.both]
    found = [_read_stacks(source, side.table) for source, side in zip(sides.sources, sides.both, strict=True)]
    events = [name for name in _EVENTS if all(name in one["event"] for one in found)]
    if all(one.is_empty() for one in found):
        return None
    if not events:
        missing = [name for name, one in zip(names, found, strict=True) if one.is_empty()]
        words = f"perf recorded no stacks of {missing[0]}" if missing else "perf sampled other events on each side"
        return StackChanges(notes=(f"{words}: stacks are not compared",))
    chosen, notes = _select_shared_stack_nodes([one.filter(event=events[0]) for one in found], names)
    if any(one.is_empty() for one in chosen):
        return StackChanges(notes=tuple(notes))
    per_operation = events[0] in CLOCK_EVENTS and all(
        bool(one["us_per_operation"].is_not_null().all()) for one in chosen
    )
    unit = "µs" if per_operation else "%"
    stacks = [_sum_stack_values(one, "us_per_operation" if per_operation else "share") for one in chosen]
    recordings = stacks[0]["run"].n_unique(), stacks[1]["run"].n_unique()
    if not per_operation:
        notes.append(
            "stacks are compared by their share of perf's samples, because it is not known that perf recorded the "
            "whole of each run"
        )
    if max(recordings) == 1:
        notes.append("one recording of perf on each side: its intervals do not contain how runs of a set-up differ")
    functions = _compare_functions(stacks, level=level, with_total=per_operation)
    return StackChanges(unit, events[0], recordings, functions, *_build_stack_trees(stacks), tuple(notes))


def _select_shared_stack_nodes(
    stacks: Sequence[pl.DataFrame], names: Sequence[str]
) -> tuple[list[pl.DataFrame], list[str]]:
    """Stacks of the nodes that perf recorded in all runs of a side, and a note if these differ between the sides."""
    kept = []
    for one in stacks:
        node = pl.col("node").fill_null("")
        runs = pl.struct(RUN)
        in_runs = one.group_by(node).agg(runs.n_unique().alias("runs"))
        everywhere = in_runs.filter(pl.col("runs") == one.select(runs.n_unique()).item())["node"]
        kept.append(one.filter(node.is_in(everywhere.implode())))
    nodes = [sorted(one["node"].fill_null("all").unique()) for one in kept]
    if nodes[0] and nodes[0] == nodes[1]:
        return kept, []
    words = [f"{join_words(one) or 'none'} of {name}" for one, name in zip(nodes, names, strict=True)]
    return kept, [f"perf recorded these nodes in all runs: {'; '.join(words)}; what others took is not compared"]


def _read_stacks(source: TableSource, runs: pl.DataFrame) -> pl.DataFrame:
    """Stacks of the runs: `event` without modifiers, `stack`, `function`, `module`, `samples` and their weights."""
    resources = pl.col("resource").is_in(runs["resource"].unique().implode())
    stacks = select_one_output(convert_to_polars(source.table("perf_stacks")).filter(resources))
    totals = (
        convert_to_polars(source.table("perf_symbols"))
        .filter(resources)
        .group_by("source_id", "event")
        .agg(pl.col("samples_total").max())
    )
    whole = convert_to_polars(source.table("settings")).filter(resources, pl.col("name") == "experiment")["resource"]
    # The traced client's operations take CPU time as well.
    traced = pl.col("monitor_operations").fill_null(0) if "monitor_operations" in runs.columns else pl.lit(0)
    measured = runs.select(*RUN, operations=pl.col("operations_done") + traced)
    share = 100 * pl.col("self_percent") / pl.col("self_percent").sum().over(*RUN, "node", "event")
    in_run = pl.col("resource").is_in(whole.unique().implode()) & (pl.col("operations") > 0)
    return (
        stacks.join(measured, on=RUN)
        .join(totals, on=["source_id", "event"], how="left")
        .with_columns(
            pl.col("event").str.extract(r"^([^:/]+)"),
            pl.col("stack").str.replace_all(_ADDRESS, "${1}[unknown]"),
            samples=pl.coalesce(
                pl.col("samples").cast(pl.Float64), pl.col("self_percent") / 100 * pl.col("samples_total")
            ),
            share=share,
            us_per_operation=pl.when(in_run).then(pl.col("event_count") / _NS_PER_US / pl.col("operations")),
        )
        .with_columns(
            function=pl.col("stack").str.extract(r"([^;]*)$"), module=make_object_part_expr(pl.col("shared_object"))
        )
        .drop_nulls(["samples", "share"])
    )


def _sum_stack_values(stacks: pl.DataFrame, weight: str) -> pl.DataFrame:
    """One row per run, stack and part of the software: `run` (its number), `value` and `samples`, over all nodes."""
    numbered = stacks.with_columns(run=pl.struct(RUN).rank("dense") - 1, nodes=pl.col("node").n_unique().over(RUN))
    # Shares of several nodes are averaged, times are added up.
    value = pl.col(weight) / (pl.col("nodes") if weight == "share" else 1)
    return (
        numbered.with_columns(value=value)
        .group_by("run", "stack", "function", pl.col("module").fill_null("unknown"), maintain_order=True)
        .agg(pl.col("value", "samples").sum())
    )


def _compare_functions(stacks: Sequence[pl.DataFrame], *, level: float, with_total: bool) -> pl.DataFrame:
    """The functions by their own time, the surest and largest changes first."""
    places = [one.group_by("function", "module", "run").agg(pl.col("value", "samples").sum()) for one in stacks]
    sums = pl.concat(places).group_by("function", "module").agg(pl.col("samples").sum())
    tested = (
        sums.filter(pl.col("samples") >= _FEWEST_SAMPLES)
        .sort("samples", "function", "module", descending=[True, False, False])
        .head(_MOST_FUNCTIONS)
        .select("function", "module")
    )
    if with_total:
        everything = {"function": ALL_FUNCTIONS, "module": ""}
        named = [pl.lit(value).alias(name) for name, value in everything.items()]
        whole = [one.group_by(*named, "run").agg(pl.col("value", "samples").sum()) for one in stacks]
        places = [pl.concat(both) for both in zip(places, whole, strict=True)]
        tested = pl.concat([pl.DataFrame(everything), tested])
    values, counts = zip(*(_pivot_by_run(one, tested) for one in places), strict=True)
    found = compare_weighted_counts(values, counts, level)
    rows = tested.with_columns(
        **{name: pl.Series(numbers) for name, numbers in found.items()},
        base_samples=pl.Series(counts[0].sum(axis=1)).round().cast(pl.Int64),
        other_samples=pl.Series(counts[1].sum(axis=1)).round().cast(pl.Int64),
    )
    size = pl.col("difference").abs()
    return rows.sort(pl.col("function") == ALL_FUNCTIONS, "decided", size, descending=True)


def _pivot_by_run(places: pl.DataFrame, tested: pl.DataFrame) -> tuple[Floats, Floats]:
    """Values and numbers of samples: one row per function, one column per run."""
    runs = places["run"].n_unique()
    rows = places.join(tested.with_row_index("row"), on=["function", "module"])
    values, counts = np.zeros((2, tested.height, runs))
    at = rows["row"].to_numpy(), rows["run"].to_numpy()
    values[at], counts[at] = rows["value"].to_numpy(), rows["samples"].to_numpy()
    return values, counts


def compare_weighted_counts(
    values: Sequence[Floats], counts: Sequence[Floats], level: float
) -> dict[str, Floats | Bools]:
    """Differences of the means of two sides whose values are weighted counts, with simultaneous intervals.

    Args:
        values: of base and other: one row per function, one column per run.
        counts: numbers of samples of the values.
        level: confidence with which all intervals hold together (Bonferroni).

    Returns:
        `base`, `other`, `difference`, `low`, `high`, `p` (NaN with one run on each side) and `decided`.

    Example:
        >>> before, after = np.array([[100.0, 104.0, 98.0]]), np.array([[210.0, 190.0, 200.0]])
        >>> found = compare_weighted_counts((before, after), (before, after), 0.95)
        >>> bool(found["decided"][0]), round(float(found["difference"][0]), 1)
        (True, 99.3)
    """
    from scipy import special

    means = [side.mean(axis=1) for side in values]
    runs = [side.shape[1] for side in values]
    # A side with few samples by chance would have too small a variance: it has at least that of both sides' mean.
    pooled = np.concatenate(values, axis=1).mean(axis=1)
    likely = [np.maximum(mean, pooled) for mean in means]
    # A sample stands for the same value in all functions.
    sampled = [
        mean * np.divide(v.sum(), c.sum(), out=np.zeros(()), where=c.sum() > 0)
        for mean, v, c in zip(likely, values, counts, strict=True)
    ]
    df = sum(runs) - len(runs)
    spread = [side.var(axis=1, ddof=1) if side.shape[1] > 1 else np.zeros(side.shape[0]) for side in values]
    excess = sum(float((n - 1) * (s - c).sum()) for n, s, c in zip(runs, spread, sampled, strict=True))
    squares = sum(float((n - 1) * (mean**2).sum()) for n, mean in zip(runs, means, strict=True))
    relative = max(excess / squares, 0.0) if squares else 0.0
    variances = [
        np.maximum(s, c + relative * mean**2) / n for s, c, mean, n in zip(spread, sampled, likely, runs, strict=True)
    ]
    difference, variance = means[1] - means[0], np.sum(variances, axis=0)
    counted = np.sum([one / n for one, n in zip(sampled, runs, strict=True)], axis=0)
    # Satterthwaite: the variance of counts is known, that between runs has the degrees of freedom of the runs.
    between = np.divide(variance - counted, variance, out=np.zeros_like(variance), where=variance > 0)
    dfs = np.divide(df, between**2, out=np.full_like(variance, _MANY), where=between > df**0.5 * 1e-4)
    half = np.sqrt(variance) * special.stdtrit(dfs, 1 - (1 - level) / (2 * difference.size))
    t = np.divide(np.abs(difference), np.sqrt(variance), out=np.zeros_like(variance), where=variance > 0)
    p = np.minimum(2 * special.stdtr(dfs, -t) * difference.size, 1.0) if df else np.full_like(t, np.nan)
    return {
        "base": means[0],
        "other": means[1],
        "difference": difference,
        "low": difference - half,
        "high": difference + half,
        "p": p,
        "decided": p < 1 - level,
    }


def _build_stack_trees(stacks: Sequence[pl.DataFrame]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The tree of the other side beside the base, and the topmost frames that only the base has."""
    sides = []
    for one in stacks:
        means = one.group_by("stack", maintain_order=True).agg(share=pl.col("value").sum() / one["run"].n_unique())
        frames = build_stack_frames(means.with_columns(tree=pl.lit(0)), ("tree",), 0.0, _DEEPEST)
        sides.append(frames.select("tree", "path", "depth", value="percent", own="self_percent"))
    wholes = [float(one.filter(depth=0)["value"].sum()) for one in sides]
    least = max(wholes) * _LEAST_SHARE
    base, other = sides
    both = other.join(base, on=["tree", "path"], how="left", suffix="_base").with_columns(
        pl.col("value_base", "own_base").fill_null(0.0)
    )
    shown = number_stack_frames(both.filter(pl.col("value") >= least).rename({"value": "percent"}), ("tree",)).select(
        *("frame_id", "caller_id", "depth", "frame"),
        base="value_base",
        other="percent",
        base_self="own_base",
        other_self="own",
    )
    roots = shown.filter(depth=0)
    rest = {side: whole - float(roots[side].sum()) for side, whole in zip(("base", "other"), wholes, strict=True)}
    rare = {"frame_id": shown.height, "depth": 0, "frame": _RARE, **rest, "base_self": 0.0, "other_self": 0.0}
    tree = pl.concat([shown, pl.DataFrame([rare], schema=shown.schema)])
    lost = base.join(other, on="path", how="anti").filter(pl.col("value") >= least)
    caller = pl.col("path").str.extract(r"^(.*);[^;]*$")
    topmost = lost.with_columns(caller=caller).join(lost.select(caller="path"), on="caller", how="anti")
    gone = topmost.sort("value", "path", descending=[True, False]).select(
        pl.col("path").str.extract(r"([^;]*)$").alias("frame"), base="value", path="path"
    )
    return tree, gone


def describe_timer_skid(event: str | None) -> str:
    """What a timer of perf cannot see, as where a virtual machine has no counters of the processor; else empty.

    Example:
        >>> describe_timer_skid("cpu-clock:ppp").partition(":")[0], describe_timer_skid("cycles")
        ('The event cpu-clock is a timer', '')
    """
    # Modifiers follow a colon.
    name = (event or "").partition(":")[0]
    if name not in CLOCK_EVENTS:
        return ""
    return (
        f"The event {name} is a timer: its samples fall where interrupts are let in again, so that functions of the "
        "kernel that keep them out are counted under those that let them in (_raw_spin_unlock_irqrestore, "
        "finish_task_switch)."
    )


def tabulate_functions(found: StackChanges, most: int = 25) -> pl.DataFrame:
    """Functions as rows of a table, with the unit of their values; the surest and largest changes first."""
    unit = "µs of CPU per operation" if found.unit == "µs" else "% of the samples"
    return found.functions.head(most).with_columns(unit=pl.lit(unit))


def tabulate_removed_functions(found: StackChanges, most: int = 25) -> pl.DataFrame:
    """Functions that only the base called: `function`, `called_by` (the two above it) and their value in the base."""
    above = pl.col("path").str.extract(r"([^;]*(?:;[^;]*)?);[^;]*$").str.replace(";", " > ")
    return found.gone.head(most).select(function="frame", called_by=above, base="base")

"""CPU time by binary and by function, from perf's reports and scripts.

A run often has several reports of one recording (flat, with call graphs, sorted by process ...). Adding them up would
count each sample once per report, so one report per run, node and event is chosen. Among the reports with the requested
columns, the order of preference is: the largest recording, shares that sum closest to 100 % (least rounding), name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import polars as pl

from citus_analysis.bottleneck.samples import make_first_true_expr, null_out_of_range_values, select_cpu_over_time
from citus_analysis.core.frames import Frame, convert_to_polars, return_callers_frame_kind
from citus_analysis.errors import UsageError, require_known
from citus_analysis.runs.set_ups import add_operation_column
from citus_analysis.texts.words import format_cluster_size, pluralize

_RECORDING: Final = ("resource", "run_id", "node", "event")
_BY: Final = ("shared_object", "symbol")
_MEANS: Final = ("mean_percent", "sd_percent", "lowest_percent", "highest_percent")

#: Pattern of a shared object -> the part that it belongs to; the first match is used.
_PARTS: Final = (
    (r"^\[kernel|^\[guest\.kernel|\.ko(?:\.\w+)?$|^\[\w+\]$", "kernel"),
    (r"^postgres$|^postmaster$", "postgres"),
    (r"^citus\w*\.so$", "citus"),
    (r"^libpq\.so", "libpq"),
    (r"^libc[.-]", "libc"),
)
_NO_KERNEL: Final = ("[vdso]", "[unknown]", "[heap]", "[stack]")


@return_callers_frame_kind
def select_top_symbols(
    perf_symbols: Frame, by: Literal["shared_object", "symbol"] = "shared_object", n: int = 10
) -> pl.DataFrame:
    """The n largest shares of CPU samples per run, node and event.

    Args:
        perf_symbols: the table `perf_symbols`, or the result of :func:`derive_symbols_from_stacks`.
        by: `shared_object` (binary or library) or `symbol` (function, with its shared object).
        n: rows per run, node and event.

    Returns:
        `resource`, `run_id`, `node`, `event`, `rank` (from 1), `shared_object`, with `by="symbol"` also `symbol`,
        `self_percent`, `samples` (null if the report does not contain them), `samples_total`, `source_id`.

    Raises:
        UnknownNameError: `by` is something else.
        UsageError: n is not positive.
    """
    require_known("grouping of symbols", by, _BY)
    if n < 1:
        raise UsageError(f"n is {n}", hint="ask for at least one row")
    chosen = _select_best_report(convert_to_polars(perf_symbols), by)
    names = ("shared_object",) if by == "shared_object" else ("shared_object", "symbol")
    order = (*_RECORDING, "self_percent", *names)
    ordered = _sum_symbol_shares(chosen, names).sort(order, descending=[name == "self_percent" for name in order])
    rank = pl.col("self_percent").rank("ordinal", descending=True).over(_RECORDING)
    first = ordered.with_columns(rank=rank).filter(pl.col("rank") <= n)
    return first.select(*_RECORDING, "rank", *names, "self_percent", "samples", "samples_total", "source_id")


@return_callers_frame_kind
def compute_cpu_share_by_object(perf_symbols: Frame) -> pl.DataFrame:
    """Shares of CPU samples by part: `kernel`, `postgres`, `citus`, `libc`, `libpq`, `other`.

    Args:
        perf_symbols: the table `perf_symbols`, or the result of :func:`derive_symbols_from_stacks`.

    Returns:
        `resource`, `run_id`, `node`, `event`, `part`, `self_percent`, `samples`, `samples_total`, `source_id`; the
        shares of a run, node and event add up to 100, except for perf's rounding.
    """
    chosen = _select_best_report(convert_to_polars(perf_symbols), "shared_object")
    summed = _sum_symbol_shares(chosen.with_columns(part=make_object_part_expr(pl.col("shared_object"))), ("part",))
    ordered = summed.sort(*_RECORDING, "self_percent", descending=[False] * 4 + [True])
    return ordered.select(*_RECORDING, "part", "self_percent", "samples", "samples_total", "source_id")


@return_callers_frame_kind
def mean_symbols(perf_symbols: Frame, *, by: Sequence[str] = ("resource", "event"), n: int = 20) -> pl.DataFrame:
    """Functions by their mean share of CPU samples over several recordings of perf.

    A recording is one run on one node. A function that a report does not list has the share 0 there, so that the mean
    of a rare function is over all recordings and not only over those in which it occurred.

    Args:
        perf_symbols: the table `perf_symbols`, or the result of :func:`derive_symbols_from_stacks`.
        by: columns that identify a group; means are over the recordings of a group.
        n: functions per group.

    Returns:
        Per group: `rank` (from 1), `symbol`, `shared_object`, `module`, `recordings`, `found_in` (of them),
        `mean_percent`, `sd_percent` (null for one recording), `lowest_percent`, `highest_percent`.

    Raises:
        UsageError: n is not positive.
    """
    frame = convert_to_polars(perf_symbols)
    shares = select_top_symbols(frame, "symbol", n=max(1, frame.height))
    keys = list(by)
    if n < 1:
        raise UsageError(f"n is {n}", hint="ask for at least one row")
    totals = shares.group_by(keys, maintain_order=True).agg(recordings=pl.struct(_RECORDING).n_unique())
    share, recordings = pl.col("self_percent"), pl.col("recordings").first()
    absent, mean = recordings - pl.len(), share.sum() / recordings
    squares = (share - mean).pow(2).sum() + absent * mean.pow(2)
    rows = shares.join(totals, on=keys, nulls_equal=True).group_by(*keys, "symbol", "shared_object")
    found = rows.agg(
        recordings,
        found_in=pl.len(),
        mean_percent=mean,
        sd_percent=pl.when(recordings > 1).then((squares / (recordings.cast(pl.Float64) - 1)).sqrt()),
        lowest_percent=pl.when(absent > 0).then(0.0).otherwise(share.min()),
        highest_percent=share.max(),
    )
    order = [*keys, "mean_percent", "symbol", "shared_object"]
    return (
        found.sort(order, descending=[name == "mean_percent" for name in order], nulls_last=True)
        .with_columns(
            rank=pl.int_range(1, pl.len() + 1).over(keys), module=make_object_part_expr(pl.col("shared_object"))
        )
        .filter(pl.col("rank") <= n)
        .select(*keys, "rank", "symbol", "shared_object", "module", "recordings", "found_in", *_MEANS)
    )


def make_object_part_expr(shared_object: pl.Expr) -> pl.Expr:
    """The part that a shared object belongs to: `kernel`, `postgres`, `citus`, `libpq`, `libc` or `other`."""
    parts = [(shared_object.is_in(_NO_KERNEL), "other"), *((shared_object.str.contains(p), name) for p, name in _PARTS)]
    return make_first_true_expr(parts, "other")


@return_callers_frame_kind
def derive_symbols_from_stacks(perf_stacks: Frame) -> pl.DataFrame:
    """Shares of the functions at the leaves of stacks, in the columns of `perf_symbols` that they support.

    This serves runs of which only the output of `perf script` was kept. Stacks of reports, which have no numbers of
    samples, are left out, because their symbols are in `perf_symbols` already.
    """
    counted = convert_to_polars(perf_stacks).filter(pl.col("samples").is_not_null())
    leaf = counted.with_columns(symbol=pl.col("stack").str.extract(r"([^;]*)$"))
    totals = pl.col("samples").sum().over("source_id", "event")
    keys = ("source_id", *_RECORDING, "command", "pid", "shared_object", "symbol", "samples_total")
    sums = leaf.with_columns(samples_total=totals).group_by(keys, maintain_order=True)
    found = sums.agg(pl.col("self_percent", "samples").sum())
    return found.sort("source_id", "event", "self_percent", descending=[False, False, True])


def _select_best_report(symbols: pl.DataFrame, by: str) -> pl.DataFrame:
    named = null_out_of_range_values(symbols).filter(pl.col(by).is_not_null() & pl.col("self_percent").is_not_null())
    off = (pl.col("self_percent").sum().over(*_RECORDING, "source_id") - 100).abs().round(2)
    ranked = named.with_columns(_off=off, _less=-pl.col("samples_total").fill_null(0))
    best = pl.col("source_id").sort_by("_less", "_off", "source_id").first().over(_RECORDING)
    return ranked.filter(pl.col("source_id") == best).drop("_off", "_less")


def _sum_symbol_shares(symbols: pl.DataFrame, names: tuple[str, ...]) -> pl.DataFrame:
    """Shares summed over processes and all other sort keys of the report."""
    samples = pl.when(pl.col("samples").null_count() == 0).then(pl.col("samples").sum())
    return symbols.group_by(*_RECORDING, *names, "source_id", "samples_total", maintain_order=True).agg(
        pl.col("self_percent").sum(), samples.alias("samples")
    )


# Call stacks of perf as a tree of frames, each with the share of samples in which it was on the stack.
#
# A run often has several outputs of one recording (`perf script`, reports with call graphs in several styles). Adding
# them up would count each sample once per output, so one output per run, node and event is chosen: preferably an output
# with numbers of samples instead of rounded shares, then with the most samples, then with the deepest stacks.
# Recordings of several runs and nodes have equal weight.

_GROUP: Final = ("resource", "event")
_STACK_RECORDING: Final = (*_GROUP, "run_id", "node")
#: A function without a name: perf prints its object in brackets.
_OBJECT: Final = r"^\[(.+)\]$"


@return_callers_frame_kind
def stack_tree(
    perf_stacks: Frame, perf_symbols: Frame | None = None, *, least_percent: float = 0.5, deepest: int = 60
) -> pl.DataFrame:
    """The frames of all stacks, each below its caller, with the share of samples that passed through it.

    Args:
        perf_stacks: the table `perf_stacks`.
        perf_symbols: the table `perf_symbols`, which names the object of functions that never were on top of a stack;
            without it, the object of such functions is unknown.
        least_percent: frames with a smaller share of the samples are left out, together with their callees.
        deepest: largest number of frames from the root that are shown.

    Returns:
        Per resource and event: `frame_id` (from 0; larger than the caller's), `caller_id` (null for roots), `depth`
        (from 0), `frame`, `module` (as in :func:`compute_cpu_share_by_object`, or `unknown`), `percent` (of the samples
        of a recording, mean over recordings, callees included), `self_percent` (on top of the stack) and `recordings`.

    Raises:
        UsageError: `least_percent` is negative or `deepest` not positive.
    """
    if least_percent < 0 or deepest < 1:
        raise UsageError(
            f"frames of at least {least_percent} % down to depth {deepest}",
            hint="give a share from 0 and a depth from 1",
        )
    stacks = _average_stack_shares(select_one_output(convert_to_polars(perf_stacks)))
    modules = _find_frame_objects(
        convert_to_polars(perf_stacks), None if perf_symbols is None else convert_to_polars(perf_symbols)
    )
    frames = number_stack_frames(build_stack_frames(stacks, (*_GROUP, "recordings"), least_percent, deepest), _GROUP)
    found = pl.coalesce("shared_object", pl.col("frame").str.extract(_OBJECT))
    module = (
        pl.when(found.is_null() | (found == "unknown")).then(pl.lit("unknown")).otherwise(make_object_part_expr(found))
    )
    named = frames.join(modules, on="frame", how="left", maintain_order="left").with_columns(module=module)
    shown = ("frame_id", "caller_id", "depth", "frame", "module", "percent", "self_percent", "recordings")
    return named.select(*_GROUP, *shown)


def select_one_output(perf_stacks: pl.DataFrame) -> pl.DataFrame:
    """The stacks of one output of each recording: of each run, node and event.

    Args:
        perf_stacks: the table `perf_stacks`.
    """
    stacks = null_out_of_range_values(perf_stacks)
    known = stacks.drop_nulls("self_percent")
    sums = known.group_by(*_STACK_RECORDING, "source_id", maintain_order=True).agg(
        counted=pl.col("samples").is_not_null().all(),
        total=pl.col("samples").sum(),
        frames=pl.col("stack").str.count_matches(";", literal=True).sum(),
    )
    ranked = sums.sort("counted", "total", "frames", "source_id", descending=[True, True, True, False])
    best = ranked.unique(_STACK_RECORDING, keep="first", maintain_order=True)
    return stacks.join(best, on=["source_id", *_STACK_RECORDING], how="semi", nulls_equal=True)


def _average_stack_shares(stacks: pl.DataFrame) -> pl.DataFrame:
    """Mean share over recordings per resource, event and stack; the share is 0 in recordings without the stack."""
    whole = pl.col("self_percent").sum().over(_STACK_RECORDING)
    recordings = pl.struct(_STACK_RECORDING).n_unique().over(_GROUP).alias("recordings")
    shares = stacks.with_columns(recordings, share=100 * pl.col("self_percent") / whole)
    return shares.group_by(*_GROUP, "recordings", "stack", maintain_order=True).agg(
        (pl.col("share").sum() / pl.col("recordings").first()).alias("share")
    )


def build_stack_frames(stacks: pl.DataFrame, by: Sequence[str], least_percent: float, deepest: int) -> pl.DataFrame:
    """One row per frame and path from the root; parents come before their children.

    Args:
        stacks: `stack`, its `share`, and the columns of `by`.
        by: columns of which each combination has a tree of its own.
        least_percent: frames with a smaller share are left out.
        deepest: largest number of frames from the root.

    Returns:
        The columns of `by`, `path`, `percent` (callees included), `self_percent`, `depth`.

    Example:
        >>> stacks = pl.DataFrame({"of": "a", "stack": ["f;g", "f"], "share": [60.0, 40.0]})
        >>> build_stack_frames(stacks, ["of"], 0, 9).rows()
        [('a', 'f', 100.0, 40.0, 0), ('a', 'f;g', 60.0, 60.0, 1)]
    """
    split = stacks.with_columns(frames=pl.col("stack").str.split(";"))
    none = pl.DataFrame(schema={"path": pl.String, "percent": pl.Float64, "self_percent": pl.Float64})
    levels = [stacks.select(by).clear().hstack(none).with_columns(depth=pl.lit(0, pl.Int32))]
    for depth in range(deepest):
        split = split.filter(pl.col("frames").list.len() > depth)
        if split.is_empty():
            break
        ends = pl.col("frames").list.len() == depth + 1
        level = (
            split.with_columns(path=pl.col("frames").list.head(depth + 1).list.join(";"))
            .group_by(*by, "path", maintain_order=True)
            .agg(percent=pl.col("share").sum(), self_percent=pl.col("share").filter(ends).sum())
            .filter(pl.col("percent") >= least_percent)
            .with_columns(depth=pl.lit(depth, pl.Int32))
        )
        levels.append(level)
    return pl.concat(levels)


def number_stack_frames(frames: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Frames with `frame_id`, `frame` (name), `caller` (path) and `caller_id`, in the order of depth and share."""
    descending = [*(False for _ in by), False, True, False]
    numbered = frames.sort(*by, "depth", "percent", "path", descending=descending).with_columns(
        frame_id=pl.int_range(pl.len()).over(by),
        frame=pl.col("path").str.extract(r"([^;]*)$"),
        caller=pl.col("path").str.extract(r"^(.*);[^;]*$"),
    )
    callers = numbered.select(*by, caller="path", caller_id="frame_id")
    return numbered.join(callers, on=[*by, "caller"], how="left", maintain_order="left", nulls_equal=False)


def _find_frame_objects(stacks: pl.DataFrame, symbols: pl.DataFrame | None) -> pl.DataFrame:
    """frame, shared_object: the object in which a function was seen most often."""
    seen = stacks.select(pl.col("stack").str.extract(r"([^;]*)$").alias("frame"), "shared_object")
    if symbols is not None:
        seen = pl.concat([seen, symbols.select(pl.col("symbol").alias("frame"), "shared_object")])
    counts = seen.drop_nulls().group_by("frame", "shared_object", maintain_order=True).len()
    return counts.sort("len", "shared_object", descending=[True, False]).unique("frame", keep="first").drop("len")


# Compare the CPU time of two configurations: the same operation and cluster with few and with many client threads.
#
# With many threads, the CPUs of a cluster are busy if they limit it, and partly idle if they do not.

_SAME: Final = ["operation", "workers"]


@dataclass(frozen=True)
class CpuContrast:
    """CPU time of two configurations that differ in their client threads.

    Attributes:
        operation: the clients' operation.
        workers: size of the cluster.
        threads: the smaller and the larger number of client threads.
        samples: of one run of each: `configuration` (in words), `threads`, `resource`, `run_id`, `node`, `elapsed_s`,
            `busy_percent` and the shares of :func:`citus_analysis.bottleneck.select_cpu_over_time`.
        means: per configuration: `threads`, `runs`, `samples` and the mean `busy_percent` over all of its runs.
    """

    operation: str
    workers: int
    threads: tuple[int, int]
    samples: pl.DataFrame
    means: pl.DataFrame

    @property
    def configurations(self) -> list[str]:
        """The two configurations in words, fewer threads first."""
        return self.samples["configuration"].unique(maintain_order=True).to_list()


def compare_cpu_times(cpu_samples: Frame, runs: Frame) -> tuple[CpuContrast, ...]:
    """CPU time of every operation with the fewest and with the most client threads on the largest cluster.

    Sizes at which only one number of threads was sampled are ignored. Of each configuration, the first run with
    samples is shown over time; the means are over all of its runs.

    Args:
        cpu_samples: the table `cpu_samples`.
        runs: rows of the table `runs`, whose set-ups should differ in workers and threads only.
    """
    known = add_operation_column(convert_to_polars(runs)).drop_nulls(["operation", "workers", "threads"])
    columns = ["resource", "run_id", "operation", "workers", "threads", "iteration"]
    sampled = select_cpu_over_time(cpu_samples, known).join(known.select(columns), on=["resource", "run_id"])
    several = sampled.filter(pl.col("threads").n_unique().over(_SAME) > 1)
    largest = several.filter(pl.col("workers") == pl.col("workers").max().over("operation"))
    return tuple(_iterate_cpu_contrasts(largest))


def _iterate_cpu_contrasts(sampled: pl.DataFrame) -> Iterator[CpuContrast]:
    for (operation, workers), rows in sampled.sort(_SAME).group_by(_SAME, maintain_order=True):
        ends = (int(str(rows["threads"].min())), int(str(rows["threads"].max())))
        both = rows.filter(pl.col("threads").is_in(ends)).sort("threads", "iteration", "resource", "run_id")
        first = both.unique("threads", keep="first", maintain_order=True).select("resource", "run_id")
        size = format_cluster_size(int(str(workers)))
        words = {end: f"{operation} on {size} with {pluralize(end, 'client thread')}" for end in ends}
        name = pl.col("threads").replace_strict(words, return_dtype=pl.String).alias("configuration")
        shown = both.with_columns(name).join(first, on=["resource", "run_id"], how="semi").drop(*_SAME, "iteration")
        means = both.group_by("threads", maintain_order=True).agg(
            pl.col("run_id").n_unique().alias("runs"), pl.len().alias("samples"), pl.col("busy_percent").mean()
        )
        yield CpuContrast(
            str(operation),
            int(str(workers)),
            ends,
            shown.sort("threads", "node", "elapsed_s"),
            means.sort("threads").select(name, "threads", "runs", "samples", "busy_percent"),
        )

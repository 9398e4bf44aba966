"""Call stacks of perf as a tree of frames, each with the share of samples in which it was on the stack.

A run often has several outputs of one recording (`perf script`, reports with call graphs in several styles). Adding
them up would count each sample once per output, so one output per run, node and event is chosen: preferably an output
with numbers of samples instead of rounded shares, then with the most samples, then with the deepest stacks. Recordings
of several runs and nodes have equal weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from citus_analysis.bottleneck.profiles import part_of
from citus_analysis.core.frames import Frame, as_polars, in_callers_kind
from citus_analysis.core.possible_values.doubtful_values import without_doubtful
from citus_analysis.errors import UsageError

_GROUP: Final = ("resource", "event")
_RECORDING: Final = (*_GROUP, "run_id", "node")
#: A function without a name: perf prints its object in brackets.
_OBJECT: Final = r"^\[(.+)\]$"


@in_callers_kind
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
        (from 0), `frame`, `module` (as in :func:`cpu_share_by_object`, or `unknown`), `percent` (of the samples of a
        recording, mean over recordings, callees included), `self_percent` (on top of the stack) and `recordings`.

    Raises:
        UsageError: `least_percent` is negative or `deepest` not positive.
    """
    if least_percent < 0 or deepest < 1:
        raise UsageError(
            f"frames of at least {least_percent} % down to depth {deepest}",
            way_out="give a share from 0 and a depth from 1",
        )
    stacks = _shares(one_output(as_polars(perf_stacks)))
    modules = _modules(as_polars(perf_stacks), None if perf_symbols is None else as_polars(perf_symbols))
    frames = numbered_frames(frames_of(stacks, (*_GROUP, "recordings"), least_percent, deepest), _GROUP)
    found = pl.coalesce("shared_object", pl.col("frame").str.extract(_OBJECT))
    module = pl.when(found.is_null() | (found == "unknown")).then(pl.lit("unknown")).otherwise(part_of(found))
    named = frames.join(modules, on="frame", how="left", maintain_order="left").with_columns(module=module)
    shown = ("frame_id", "caller_id", "depth", "frame", "module", "percent", "self_percent", "recordings")
    return named.select(*_GROUP, *shown)


def one_output(perf_stacks: pl.DataFrame) -> pl.DataFrame:
    """The stacks of one output of each recording: of each run, node and event.

    Args:
        perf_stacks: the table `perf_stacks`.
    """
    stacks = without_doubtful(perf_stacks)
    known = stacks.drop_nulls("self_percent")
    sums = known.group_by(*_RECORDING, "source_id", maintain_order=True).agg(
        counted=pl.col("samples").is_not_null().all(),
        total=pl.col("samples").sum(),
        frames=pl.col("stack").str.count_matches(";", literal=True).sum(),
    )
    ranked = sums.sort("counted", "total", "frames", "source_id", descending=[True, True, True, False])
    best = ranked.unique(_RECORDING, keep="first", maintain_order=True)
    return stacks.join(best, on=["source_id", *_RECORDING], how="semi", nulls_equal=True)


def _shares(stacks: pl.DataFrame) -> pl.DataFrame:
    """Mean share over recordings per resource, event and stack; the share is 0 in recordings without the stack."""
    whole = pl.col("self_percent").sum().over(_RECORDING)
    recordings = pl.struct(_RECORDING).n_unique().over(_GROUP).alias("recordings")
    shares = stacks.with_columns(recordings, share=100 * pl.col("self_percent") / whole)
    return shares.group_by(*_GROUP, "recordings", "stack", maintain_order=True).agg(
        (pl.col("share").sum() / pl.col("recordings").first()).alias("share")
    )


def frames_of(stacks: pl.DataFrame, by: Sequence[str], least_percent: float, deepest: int) -> pl.DataFrame:
    """One row per frame and path from the root; parents come before their children.

    Args:
        stacks: `stack`, its `share`, and the columns of `by`.
        by: columns of which each combination has a tree of its own.
        least_percent: frames with a smaller share are left out.
        deepest: largest number of frames from the root.

    Returns:
        The columns of `by`, `path`, `percent` (callees included), `self_percent`, `depth`.

    Example:
        >>> frames_of(pl.DataFrame({"of": "a", "stack": ["f;g", "f"], "share": [60.0, 40.0]}), ["of"], 0, 9).rows()
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


def numbered_frames(frames: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Frames with `frame_id`, `frame` (name), `caller` (path) and `caller_id`, in the order of depth and share."""
    descending = [*(False for _ in by), False, True, False]
    numbered = frames.sort(*by, "depth", "percent", "path", descending=descending).with_columns(
        frame_id=pl.int_range(pl.len()).over(by),
        frame=pl.col("path").str.extract(r"([^;]*)$"),
        caller=pl.col("path").str.extract(r"^(.*);[^;]*$"),
    )
    callers = numbered.select(*by, caller="path", caller_id="frame_id")
    return numbered.join(callers, on=[*by, "caller"], how="left", maintain_order="left", nulls_equal=False)


def _modules(stacks: pl.DataFrame, symbols: pl.DataFrame | None) -> pl.DataFrame:
    """frame, shared_object: the object in which a function was seen most often."""
    seen = stacks.select(pl.col("stack").str.extract(r"([^;]*)$").alias("frame"), "shared_object")
    if symbols is not None:
        seen = pl.concat([seen, symbols.select(pl.col("symbol").alias("frame"), "shared_object")])
    counts = seen.drop_nulls().group_by("frame", "shared_object", maintain_order=True).len()
    return counts.sort("len", "shared_object", descending=[True, False]).unique("frame", keep="first").drop("len")

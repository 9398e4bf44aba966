"""CPU time by binary and by function, from perf's reports and scripts.

A run often has several reports of one recording (flat, with call graphs, sorted by process ...). Adding them up would
count each sample once per report, so one report per run, node and event is chosen. Among the reports with the requested
columns, the order of preference is: the largest recording, shares that sum closest to 100 % (least rounding), name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import polars as pl

from citus_analysis.bottleneck.samples_in_runs import first_true
from citus_analysis.core.frames import Frame, as_polars, in_callers_kind
from citus_analysis.core.possible_values.doubtful_values import without_doubtful
from citus_analysis.errors import UsageError, require_known

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


@in_callers_kind
def top_symbols(
    perf_symbols: Frame, by: Literal["shared_object", "symbol"] = "shared_object", n: int = 10
) -> pl.DataFrame:
    """The n largest shares of CPU samples per run, node and event.

    Args:
        perf_symbols: the table `perf_symbols`, or the result of :func:`symbols_of_stacks`.
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
        raise UsageError(f"n is {n}", way_out="ask for at least one row")
    chosen = _one_report(as_polars(perf_symbols), by)
    names = ("shared_object",) if by == "shared_object" else ("shared_object", "symbol")
    order = (*_RECORDING, "self_percent", *names)
    ordered = _summed(chosen, names).sort(order, descending=[name == "self_percent" for name in order])
    rank = pl.col("self_percent").rank("ordinal", descending=True).over(_RECORDING)
    first = ordered.with_columns(rank=rank).filter(pl.col("rank") <= n)
    return first.select(*_RECORDING, "rank", *names, "self_percent", "samples", "samples_total", "source_id")


@in_callers_kind
def cpu_share_by_object(perf_symbols: Frame) -> pl.DataFrame:
    """Shares of CPU samples by part: `kernel`, `postgres`, `citus`, `libc`, `libpq`, `other`.

    Args:
        perf_symbols: the table `perf_symbols`, or the result of :func:`symbols_of_stacks`.

    Returns:
        `resource`, `run_id`, `node`, `event`, `part`, `self_percent`, `samples`, `samples_total`, `source_id`; the
        shares of a run, node and event add up to 100, except for perf's rounding.
    """
    chosen = _one_report(as_polars(perf_symbols), "shared_object")
    summed = _summed(chosen.with_columns(part=part_of(pl.col("shared_object"))), ("part",))
    ordered = summed.sort(*_RECORDING, "self_percent", descending=[False] * 4 + [True])
    return ordered.select(*_RECORDING, "part", "self_percent", "samples", "samples_total", "source_id")


@in_callers_kind
def mean_symbols(perf_symbols: Frame, *, by: Sequence[str] = ("resource", "event"), n: int = 20) -> pl.DataFrame:
    """Functions by their mean share of CPU samples over several recordings of perf.

    A recording is one run on one node. A function that a report does not list has the share 0 there, so that the mean
    of a rare function is over all recordings and not only over those in which it occurred.

    Args:
        perf_symbols: the table `perf_symbols`, or the result of :func:`symbols_of_stacks`.
        by: columns that identify a group; means are over the recordings of a group.
        n: functions per group.

    Returns:
        Per group: `rank` (from 1), `symbol`, `shared_object`, `module`, `recordings`, `found_in` (of them),
        `mean_percent`, `sd_percent` (null for one recording), `lowest_percent`, `highest_percent`.

    Raises:
        UsageError: n is not positive.
    """
    frame = as_polars(perf_symbols)
    shares = top_symbols(frame, "symbol", n=max(1, frame.height))
    keys = list(by)
    if n < 1:
        raise UsageError(f"n is {n}", way_out="ask for at least one row")
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
        .with_columns(rank=pl.int_range(1, pl.len() + 1).over(keys), module=part_of(pl.col("shared_object")))
        .filter(pl.col("rank") <= n)
        .select(*keys, "rank", "symbol", "shared_object", "module", "recordings", "found_in", *_MEANS)
    )


def part_of(shared_object: pl.Expr) -> pl.Expr:
    """The part that a shared object belongs to: `kernel`, `postgres`, `citus`, `libpq`, `libc` or `other`."""
    parts = [(shared_object.is_in(_NO_KERNEL), "other"), *((shared_object.str.contains(p), name) for p, name in _PARTS)]
    return first_true(parts, "other")


@in_callers_kind
def symbols_of_stacks(perf_stacks: Frame) -> pl.DataFrame:
    """Shares of the functions at the leaves of stacks, in the columns of `perf_symbols` that they support.

    This serves runs of which only the output of `perf script` was kept. Stacks of reports, which have no numbers of
    samples, are left out, because their symbols are in `perf_symbols` already.
    """
    counted = as_polars(perf_stacks).filter(pl.col("samples").is_not_null())
    leaf = counted.with_columns(symbol=pl.col("stack").str.extract(r"([^;]*)$"))
    totals = pl.col("samples").sum().over("source_id", "event")
    keys = ("source_id", *_RECORDING, "command", "pid", "shared_object", "symbol", "samples_total")
    sums = leaf.with_columns(samples_total=totals).group_by(keys, maintain_order=True)
    found = sums.agg(pl.col("self_percent", "samples").sum())
    return found.sort("source_id", "event", "self_percent", descending=[False, False, True])


def _one_report(symbols: pl.DataFrame, by: str) -> pl.DataFrame:
    named = without_doubtful(symbols).filter(pl.col(by).is_not_null() & pl.col("self_percent").is_not_null())
    off = (pl.col("self_percent").sum().over(*_RECORDING, "source_id") - 100).abs().round(2)
    ranked = named.with_columns(_off=off, _less=-pl.col("samples_total").fill_null(0))
    best = pl.col("source_id").sort_by("_less", "_off", "source_id").first().over(_RECORDING)
    return ranked.filter(pl.col("source_id") == best).drop("_off", "_less")


def _summed(symbols: pl.DataFrame, names: tuple[str, ...]) -> pl.DataFrame:
    """Shares summed over processes and all other sort keys of the report."""
    samples = pl.when(pl.col("samples").null_count() == 0).then(pl.col("samples").sum())
    return symbols.group_by(*_RECORDING, *names, "source_id", "samples_total", maintain_order=True).agg(
        pl.col("self_percent").sum(), samples.alias("samples")
    )

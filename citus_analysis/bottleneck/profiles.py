"""CPU time by binary and by function, from perf's reports and scripts.

A run often has several reports of one recording (flat, with call graphs, sorted by process ...). Adding them up would
count each sample once per report, so one report per run, node and event is chosen. Among the reports with the requested
columns, the order of preference is: the largest recording, shares that sum closest to 100 % (least rounding), name.
"""

from __future__ import annotations

from typing import Final, Literal

import polars as pl

from citus_analysis.core.frames import Frame, as_polars, in_callers_kind
from citus_analysis.errors import UnknownNameError, UsageError

__all__ = ["cpu_share_by_object", "symbols_of_stacks", "top_symbols"]

_RECORDING: Final = ("resource", "run_id", "node", "event")
_BY: Final = ("shared_object", "symbol")

#: Pattern of a shared object -> what it is part of; the first that matches.
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
    perf_symbols: Frame,
    by: Literal["shared_object", "symbol"] = "shared_object",
    n: int = 10,
) -> pl.DataFrame:
    """The n largest shares of CPU samples per run, node and event.

    Args:
        perf_symbols: the table `perf_symbols`, or what :func:`symbols_of_stacks` returned.
        by: `shared_object` (binary or library) or `symbol` (function, with its shared object).
        n: rows per run, node and event.

    Returns:
        `resource`, `run_id`, `node`, `event`, `rank` (from 1), `shared_object`, with `by="symbol"` also `symbol`,
        `self_percent`, `samples` (null where the report does not print them), `samples_total`, `source_id`.

    Raises:
        UnknownNameError: `by` is something else.
        UsageError: n is not positive.
    """
    if by not in _BY:
        raise UnknownNameError("grouping of symbols", by, _BY)
    if n < 1:
        raise UsageError(f"n is {n}", way_out="ask for at least one row")
    chosen = _one_report(as_polars(perf_symbols), by)
    names = ("shared_object",) if by == "shared_object" else ("shared_object", "symbol")
    summed = _summed(chosen, names)
    rank = pl.col("self_percent").rank("ordinal", descending=True).over(_RECORDING)
    return (
        summed.sort(*_RECORDING, "self_percent", *names, descending=[False] * 4 + [True] + [False] * len(names))
        .with_columns(rank=rank)
        .filter(pl.col("rank") <= n)
        .select(*_RECORDING, "rank", *names, "self_percent", "samples", "samples_total", "source_id")
    )


@in_callers_kind
def cpu_share_by_object(perf_symbols: Frame) -> pl.DataFrame:
    """Shares of CPU samples by what the code is part of: `kernel`, `postgres`, `citus`, `libc`, `libpq`, `other`.

    Args:
        perf_symbols: the table `perf_symbols`, or what :func:`symbols_of_stacks` returned.

    Returns:
        `resource`, `run_id`, `node`, `event`, `part`, `self_percent`, `samples`, `samples_total`, `source_id`; the
        shares of a run, node and event add up to 100 but for perf's rounding.
    """
    chosen = _one_report(as_polars(perf_symbols), "shared_object")
    part = pl.lit("other")
    for pattern, name in reversed(_PARTS):
        part = pl.when(pl.col("shared_object").str.contains(pattern)).then(pl.lit(name)).otherwise(part)
    part = pl.when(pl.col("shared_object").is_in(_NO_KERNEL)).then(pl.lit("other")).otherwise(part)
    return (
        _summed(chosen.with_columns(part=part), ("part",))
        .sort(*_RECORDING, "self_percent", descending=[False] * 4 + [True])
        .select(*_RECORDING, "part", "self_percent", "samples", "samples_total", "source_id")
    )


@in_callers_kind
def symbols_of_stacks(perf_stacks: Frame) -> pl.DataFrame:
    """Shares of the functions at the leaves of stacks, in the columns of `perf_symbols` that they support.

    For runs of which only `perf script` was kept. Stacks of reports, which count no samples, are left out: their
    symbols are in `perf_symbols` already.
    """
    counted = as_polars(perf_stacks).filter(pl.col("samples").is_not_null())
    leaf = counted.with_columns(symbol=pl.col("stack").str.extract(r"([^;]*)$"))
    totals = pl.col("samples").sum().over("source_id", "event")
    keys = ("source_id", *_RECORDING, "command", "pid", "shared_object", "symbol", "samples_total")
    return (
        leaf.with_columns(samples_total=totals)
        .group_by(keys, maintain_order=True)
        .agg(pl.col("self_percent", "samples").sum())
        .sort("source_id", "event", "self_percent", descending=[False, False, True])
    )


def _one_report(symbols: pl.DataFrame, by: str) -> pl.DataFrame:
    named = symbols.filter(pl.col(by).is_not_null() & pl.col("self_percent").is_not_null())
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

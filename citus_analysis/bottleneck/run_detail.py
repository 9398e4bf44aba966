"""One run over time: the samples of its machines, and the checkpoints that were under way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from citus_analysis.bottleneck.machine_work import place_text
from citus_analysis.bottleneck.timeline import busy_percent
from citus_analysis.errors import UnknownNameError

CPU_SHARES: Final = ("user_percent", "system_percent", "iowait_percent", "steal_percent", "idle_percent")
_DEVICE: Final = ("await_ms", "utilization_percent", "write_kb_s", "read_kb_s", "queue_length")
#: Least and most seconds that are shown before and after a checkpoint.
_LEAST_REACH_S: Final = 2.0
_MOST_REACH_S: Final = 30.0
#: Largest share of the run that a window may have; a larger window would be no enlargement.
_MOST_OF: Final = 0.8


@dataclass(frozen=True)
class Detail:
    """One run over time.

    Attributes:
        resource: its resource.
        iteration: its iteration.
        cpu: `node`, `elapsed_s` and the shares of CPU time.
        devices: `series` (node and device), `elapsed_s`, `await_ms`, `utilization_percent`, `write_kb_s`.
        checkpoints: `node`, `start_s`, `end_s`, `reason`, `buffers_written`, `sync_s`, `total_s`.
        around: begin and end (seconds) of a window around the checkpoint during which device requests took longest;
            None if there was no checkpoint, or if the window would be most of the run.
    """

    resource: str
    iteration: int
    cpu: pl.DataFrame
    devices: pl.DataFrame
    checkpoints: pl.DataFrame
    around: tuple[float, float] | None


def detail_of(
    cpu: pl.DataFrame, devices: pl.DataFrame, checkpoints: pl.DataFrame, resource: str = "", iteration: int = 0
) -> Detail | None:
    """The run that is shown over time.

    Args:
        cpu: samples of CPU time within runs, with `elapsed_s`.
        devices: samples of devices within runs, likewise.
        checkpoints: checkpoints that were under way during runs, with the `begin` of their run.
        resource: its resource; empty: that of the run with the most checkpoints for each node, or with the busiest
            device.
        iteration: its iteration; 0: the iteration with the most checkpoints, or the first with samples.

    Raises:
        UnknownNameError: the resource or the iteration has no samples.
    """
    sampled = pl.concat([cpu.select("resource", "iteration"), devices.select("resource", "iteration")]).unique()
    if sampled.is_empty():
        return None
    name = resource or _most_telling(devices, checkpoints, sampled)
    if name not in sampled["resource"]:
        raise UnknownNameError("resource with samples within its runs", name, sampled["resource"].unique())
    iterations = sampled.filter(resource=name)["iteration"].sort().to_list()
    if iteration and iteration not in iterations:
        raise UnknownNameError(f"iteration of {name} with samples", str(iteration), map(str, iterations))
    logged = checkpoints.filter(pl.col("resource") == name, pl.col("iteration").is_in(iterations, nulls_equal=True))
    chosen = iteration or _most_frequent(logged["iteration"]) or iterations[0]
    mine = (pl.col("resource") == name) & pl.col("iteration").eq_missing(pl.lit(chosen, pl.Int32))
    shares = (busy_percent().alias("busy_percent"), "nice_percent", *CPU_SHARES)
    used = cpu.filter(mine).select("node", "elapsed_s", *shares).sort("node", "elapsed_s")
    shown, marks = _device_lines(devices.filter(mine)), _checkpoint_times(checkpoints.filter(mine))
    return Detail(name, chosen, used, shown, marks, _around(shown, marks))


def _most_frequent(values: pl.Series) -> int:
    """The most frequent number, the smallest of several; 0 for none."""
    modes = values.drop_nulls().mode().sort()
    return int(modes[0]) if len(modes) else 0


def _device_lines(devices: pl.DataFrame) -> pl.DataFrame:
    """Device samples with a name for each line of a figure, which includes the node if there are several."""
    node = _places(devices) if devices["node"].n_unique() > 1 else pl.lit("")
    series = pl.concat_str([pl.col("device"), node], separator=" ").str.strip_chars().alias("series")
    return devices.select(series, "elapsed_s", *_DEVICE).sort("series", "elapsed_s")


def _places(devices: pl.DataFrame) -> pl.Expr:
    names = devices["node"].cast(pl.String).unique().drop_nulls()
    return pl.col("node").cast(pl.String).replace({name: place_text(name) for name in names})


def _around(devices: pl.DataFrame, checkpoints: pl.DataFrame) -> tuple[float, float] | None:
    """The time around the checkpoint with the largest await, with about as much before and after it as it took."""
    spans = checkpoints.select(begin=pl.coalesce("start_s", "end_s"), end="end_s").drop_nulls()
    waits = devices.select("elapsed_s", "await_ms").drop_nulls()
    during = waits.join_where(spans, pl.col("elapsed_s").is_between(pl.col("begin"), pl.col("end")))
    if during.is_empty():
        return None
    begin, end = during.sort("await_ms", "begin").select("begin", "end").row(-1)
    reach = min(max(end - begin, _LEAST_REACH_S), _MOST_REACH_S)
    length = float(devices["elapsed_s"].to_numpy().max())
    window = (max(0.0, begin - reach), min(length, end + reach))
    return window if window[1] - window[0] < _MOST_OF * length else None


def _checkpoint_times(checkpoints: pl.DataFrame) -> pl.DataFrame:
    since = [
        ((pl.col(f"{name}_time") - pl.col("begin")).dt.total_milliseconds() / 1000).alias(f"{name}_s")
        for name in ("start", "end")
    ]
    return checkpoints.select("node", *since, "reason", "buffers_written", "sync_s", "total_s").sort("end_s")


def _most_telling(devices: pl.DataFrame, checkpoints: pl.DataFrame, sampled: pl.DataFrame) -> str:
    logged = checkpoints.join(sampled, on=["resource", "iteration"], how="semi", nulls_equal=True)
    if logged.height:
        counts = logged.group_by("resource", "iteration").agg(each=pl.len() / pl.col("node").n_unique())
        return str(counts.sort("each", "resource", descending=[True, False])["resource"][0])
    means = devices.group_by("resource", "device", maintain_order=True).agg(pl.col("utilization_percent").mean())
    busiest = means.sort("utilization_percent", "resource", descending=[True, False], nulls_last=True)
    return str(busiest["resource"][0] if busiest.height else sampled["resource"].sort()[0])

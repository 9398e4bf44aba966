"""Sentences of the resources report."""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.bottleneck.measured_resources import ResourceStudy
from citus_analysis.texts.counted_words import counted, listed

__all__ = ["resource_sentences"]

#: Fewer samples than this on one side are not worth a mean.
_ENOUGH: Final = 5
#: From this share of CPU time on, a sentence states that hardly any was idle.
_NEARLY_ALL_PERCENT: Final = 90.0


def resource_sentences(study: ResourceStudy) -> list[str]:
    """CPU, devices, checkpoints and perf: one or two sentences each, also for missing recordings."""
    return [*_cpu(study.cpu), _device(study.devices), *_checkpoints(study.checkpoints), _perf(study.symbols)]


def _cpu(cpu: pl.DataFrame) -> list[str]:
    if cpu.is_empty():
        return ["No timed CPU sample was taken during a run."]
    ordered = cpu.sort("busy_percent")
    least, most = ordered.row(0, named=True), ordered.row(-1, named=True)
    first = (
        f"While the clients measured, the CPUs were busy {least['busy_percent']:.0f} % ({least['resource']}) to "
        f"{most['busy_percent']:.0f} % ({most['resource']}) of the time, as means over the samples of each of "
        f"{counted(cpu.height, 'resource')}."
    )
    full = cpu.filter(pl.col("busy_percent") >= _NEARLY_ALL_PERCENT).height
    second = f"In {full} of {cpu.height} they were busy at least {_NEARLY_ALL_PERCENT:.0f} % of the time"
    return [first, f"{second}: hardly any CPU time was idle there." if full else f"{second}."]


def _device(devices: pl.DataFrame) -> str:
    if devices.is_empty():
        return "No timed device sample was taken during a run."
    row = devices.row(0, named=True)
    waiting = "" if row["await_ms"] is None else f", and requests took {row['await_ms']:.2f} ms on average"
    return (
        f"The busiest device is {row['device']} in {row['resource']}: utilisation {row['utilization_percent']:.0f} % "
        f"on average and {row['largest_utilization_percent']:.0f} % at most{waiting}."
    )


def _checkpoints(checkpoints: pl.DataFrame) -> list[str]:
    if checkpoints.is_empty():
        return ["No checkpoint was under way during a run."]
    total = int(checkpoints["checkpoints"].sum())
    row = checkpoints.row(0, named=True)
    most = f"most of them in {row['resource']} ({row['checkpoints']})" if checkpoints.height > 1 else row["resource"]
    under_way = f"{counted(total, 'checkpoint')} {'was' if total == 1 else 'were'} under way"
    sentences = [f"{under_way} during runs of {counted(checkpoints.height, 'resource')}, {most}."]
    during, outside = row["await_during_ms"], row["await_outside_ms"]
    if min(row["samples_during"] or 0, row["samples_outside"] or 0) >= _ENOUGH:
        sentences.append(
            f"In {row['resource']}, device requests took {during:.2f} ms on average in the {row['samples_during']} "
            f"samples during a checkpoint and {outside:.2f} ms in the {row['samples_outside']} others."
        )
    return sentences


def _perf(symbols: pl.DataFrame) -> str:
    if symbols.is_empty():
        return "perf recorded no symbols for these resources."
    resource, event = symbols.select("resource", "event").row(0)
    mine = symbols.filter((pl.col("resource") == resource) & pl.col("event").eq_missing(event))
    shares = mine.group_by("shared_object").agg(pl.col("self_percent").sum()).sort("self_percent", descending=True)
    objects = listed([f"{name} {share:.0f} %" for name, share in shares.head(3).iter_rows()])
    top = mine.row(0, named=True)
    return (
        f"In perf's samples of {resource} ({event}), the largest shares belong to {objects}; the hottest symbol is "
        f"{top['symbol']} with {top['self_percent']:.1f} %."
    )

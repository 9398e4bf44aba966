"""Samples that enter no mean, because they cannot be placed in a run, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from citus_analysis.bottleneck.samples_in_runs import first_true
from citus_analysis.texts.counted_words import counted, listed

#: Table -> what its samples are of.
_OF: Final = {
    "cpu_samples": "CPUs",
    "device_samples": "devices",
    "vm_samples": "memory",
    "pressure_samples": "pressure",
    "net_samples": "network interfaces",
    "process_samples": "programs",
}
#: Resources named in a sentence; of more, the number is given.
_NAMED: Final = 3
_REASONS: Final = {
    "run": "because it is not known when its runs took place: have the load generator print times (pgbench: "
    "--progress-timestamp), or state `start_time` at ingest",
    "outside": "because none was taken while its clients ran",
    "untimed": "because the sampler printed no times",
}


def unplaced_samples(tables: Mapping[str, pl.DataFrame], runs: pl.DataFrame) -> list[str]:
    """A sentence for each reason for which none of a resource's samples of some kind lies within a run.

    Args:
        tables: tables of samples by name; names other than those of samplers are passed over.
        runs: the table `runs`.

    Example:
        >>> runs = pl.DataFrame({"resource": ["r"], "start_time": [None], "end_time": [None]})
        >>> rows = {"resource": ["r"], "source_id": ["s"], "sample_time": [0], "since_boot": [False]}
        >>> samples = pl.DataFrame(rows).with_columns(pl.col("sample_time").cast(pl.Datetime("us", "UTC")))
        >>> unplaced_samples({"cpu_samples": samples}, runs)[0].partition(":")[0]
        'Samples of CPUs of r enter no mean, because it is not known when its runs took place'
    """
    found = [
        rows.with_columns(of=pl.lit(noun))
        for name, noun in _OF.items()
        if name in tables and (rows := _unplaced(tables[name], runs)).height
    ]
    if not found:
        return []
    kinds = pl.concat(found).group_by("resource", "reason", maintain_order=True).agg(pl.col("of"))
    alike = kinds.group_by("reason", "of", maintain_order=True).agg(pl.col("resource"))
    return [_sentence(reason, of, names) for reason, of, names in alike.iter_rows()]


def _unplaced(samples: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """`resource` and `reason` where no interval of a resource's samples meets one of its runs."""
    # Averages since boot are of no run.
    timed = samples.filter(~pl.col("since_boot").fill_null(value=False))
    ends = {"first": pl.col("sample_time").min(), "last": pl.col("sample_time").max()}
    series = timed.group_by("resource", "source_id").agg(**ends)
    met = (pl.col("first") < pl.col("end_time")) & (pl.col("last") > pl.col("start_time"))
    windows = runs.select("resource", pl.col("start_time", "end_time").cast(pl.Datetime("us", "UTC")))
    of_resources = series.join(windows, on="resource").group_by("resource", maintain_order=True)
    judged = of_resources.agg(
        met=met.fill_null(value=False).any(),
        run=pl.all_horizontal(pl.col("start_time", "end_time").is_not_null()).any(),
        timed=pl.col("last").is_not_null().any(),
    )
    reason = first_true([(~pl.col("timed"), "untimed"), (~pl.col("run"), "run")], "outside")
    return judged.filter(~pl.col("met")).sort("resource").select("resource", reason=reason)


def _sentence(reason: str, of: list[str], resources: list[str]) -> str:
    where = listed(resources) if len(resources) <= _NAMED else f"{counted(len(resources), 'resource')}"
    words = _REASONS[reason] if len(resources) == 1 else _REASONS[reason].replace("its ", "their ")
    return f"Samples of {listed(of)} of {where} enter no mean, {words}."

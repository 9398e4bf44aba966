"""Compare the CPU time of two configurations: the same operation and cluster with few and with many client threads.

With many threads, the CPUs of a cluster are busy if they limit it, and partly idle if they do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import polars as pl

from citus_analysis.bottleneck.timeline import cpu_over_time
from citus_analysis.core.frames import Frame, as_polars
from citus_analysis.runs.setups import with_operations
from citus_analysis.texts.counted_words import counted, size_text

_SAME: Final = ["operation", "workers"]


@dataclass(frozen=True)
class CpuContrast:
    """CPU time of two configurations that differ in their client threads.

    Attributes:
        operation: the clients' operation.
        workers: size of the cluster.
        threads: the smaller and the larger number of client threads.
        samples: of one run of each: `configuration` (in words), `threads`, `resource`, `run_id`, `node`, `elapsed_s`,
            `busy_percent` and the shares of :func:`citus_analysis.bottleneck.cpu_over_time`.
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


def cpu_contrasts(cpu_samples: Frame, runs: Frame) -> tuple[CpuContrast, ...]:
    """CPU time of every operation with the fewest and with the most client threads on the largest cluster.

    Sizes at which only one number of threads was sampled are ignored. Of each configuration, the first run with
    samples is shown over time; the means are over all of its runs.

    Args:
        cpu_samples: the table `cpu_samples`.
        runs: rows of the table `runs`, whose set-ups should differ in workers and threads only.
    """
    known = with_operations(as_polars(runs)).drop_nulls(["operation", "workers", "threads"])
    columns = ["resource", "run_id", "operation", "workers", "threads", "iteration"]
    sampled = cpu_over_time(cpu_samples, known).join(known.select(columns), on=["resource", "run_id"])
    several = sampled.filter(pl.col("threads").n_unique().over(_SAME) > 1)
    largest = several.filter(pl.col("workers") == pl.col("workers").max().over("operation"))
    return tuple(_contrasts(largest))


def _contrasts(sampled: pl.DataFrame) -> Iterator[CpuContrast]:
    for (operation, workers), rows in sampled.sort(_SAME).group_by(_SAME, maintain_order=True):
        ends = (int(str(rows["threads"].min())), int(str(rows["threads"].max())))
        both = rows.filter(pl.col("threads").is_in(ends)).sort("threads", "iteration", "resource", "run_id")
        first = both.unique("threads", keep="first", maintain_order=True).select("resource", "run_id")
        size = size_text(int(str(workers)))
        words = {end: f"{operation} on {size} with {counted(end, 'client thread')}" for end in ends}
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

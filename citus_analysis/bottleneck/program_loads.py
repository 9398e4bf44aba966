"""CPU time and disk traffic of programs during runs: what pidstat says of the processes of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from citus_analysis.bottleneck.samples_in_runs import NODE, align_to_runs, one_source, with_configuration
from citus_analysis.core.frames import Frame, as_polars, in_callers_kind
from citus_analysis.core.possible_values.doubtful_values import sound_moments

_SUMMED: Final = ("cpu_percent", "wait_percent", "read_kb_s", "write_kb_s")
#: A name, or a command line without its folder and arguments: `postgres: user db` and `/usr/bin/postgres -D ...`.
_PROGRAM: Final = r"^(?:/(?:[^\s/]*/)*)?([^\s:/]+)"


@in_callers_kind
def program_loads(samples: Frame, runs: Frame, by: Sequence[str] = ("resource",)) -> pl.DataFrame:
    """Programs with the CPU time and disk traffic of all their processes during runs, those with most CPU time first.

    A sample in which one of these values is doubtful is left out.

    Args:
        samples: the table `process_samples`. Rows of threads are left out, as their processes have rows of their own.
        runs: the table `runs`, with the columns of `by`.
        by: columns of runs whose means are taken together.

    Returns:
        a row per `by`, `node` and `program`: `runs` (with samples of the node), `samples`, `cpu_percent` (of one CPU)
        and `wait_percent` (in which processes could run but waited for a CPU), `read_kb_s`, `write_kb_s`: sums over the
        program's processes, means over the samples of a run, then over runs. A program that a sample or a run does not
        list counts as 0 there; a column is null where it was never reported. `cpu_share_percent` and
        `disk_share_percent` are the program's shares of the sums over all programs that were listed.

    Raises:
        UsageError: an argument is not a frame, or lacks a column.

    Example:
        >>> from datetime import UTC, datetime
        >>> times = [datetime(2026, 3, 1, 12, 0, second, tzinfo=UTC) for second in (0, 1, 2, 9)]
        >>> run = {"resource": "r", "run_id": "r/1"}
        >>> runs = pl.DataFrame([run | {"start_time": times[0], "end_time": times[-1]}])
        >>> row = run | {"node": "1", "source_id": "s", "thread": None, "since_boot": False}
        >>> row |= {"wait_percent": 0.0, "read_kb_s": None, "write_kb_s": None}
        >>> seen = [(1, "postgres: monitor", 30.0), (1, "postgres: user ycsb", 50.0), (2, "pgbench", 20.0)]
        >>> some = [
        ...     row | {"sample": at, "sample_time": times[at], "command": command, "cpu_percent": percent}
        ...     for at, command, percent in seen
        ... ]
        >>> found = program_loads(pl.DataFrame(some), runs)
        >>> found.select("program", "samples", "cpu_percent", "cpu_share_percent").rows()
        [('postgres', 2, 40.0, 80.0), ('pgbench', 2, 10.0, 20.0)]
    """
    whole, known = as_polars(samples).filter(pl.col("thread").is_null()), as_polars(runs)
    placed = sound_moments(one_source(align_to_runs(whole, known), NODE), _SUMMED)
    placed = with_configuration(placed, known, by)
    moments = placed.group_by(*by, "run_id", "node").agg(moments=pl.col("sample_time").n_unique())
    of_nodes = moments.group_by(*by, "node").agg(runs=pl.len(), samples=pl.col("moments").sum())
    sums = [pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name) for name in _SUMMED]
    of_runs = (
        placed.with_columns(program=pl.col("command").cast(pl.String).str.extract(_PROGRAM).fill_null("unknown"))
        .group_by(*by, "run_id", "node", "program")
        .agg(sums)
        .join(moments, on=[*by, "run_id", "node"], nulls_equal=True)
        .with_columns(pl.col(name) / pl.col("moments") for name in _SUMMED)
    )
    means = of_runs.group_by(*by, "node", "program").agg(sums).join(of_nodes, on=[*by, "node"], nulls_equal=True)
    means = means.with_columns(pl.col(name) / pl.col("runs") for name in _SUMMED)
    disk = pl.sum_horizontal(pl.col("read_kb_s", "write_kb_s"))
    return means.select(
        *by, "node", "program", "runs", "samples", "cpu_percent",
        _share(pl.col("cpu_percent"), (*by, "node")).alias("cpu_share_percent"),
        "wait_percent", "read_kb_s", "write_kb_s",
        _share(disk, (*by, "node")).alias("disk_share_percent"),
    ).sort(
        *by, "cpu_percent", "node", "program", descending=[*(False for _ in by), True, False, False], nulls_last=True
    )  # fmt: skip


def _share(value: pl.Expr, over: Sequence[str]) -> pl.Expr:
    """Percentage of the sum; null if that is 0."""
    total = value.sum().over(over)
    return pl.when(total > 0).then(100 * value / total)

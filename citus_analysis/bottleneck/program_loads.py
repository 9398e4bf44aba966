"""CPU time and disk traffic of programs during runs: what pidstat says of the processes of each."""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.bottleneck.samples_in_runs import align_to_runs, one_source
from citus_analysis.core.frames import Frame, as_polars, in_callers_kind

__all__ = ["program_loads"]

_MACHINE: Final = ("resource", "run_id", "node")
_SUMMED: Final = ("cpu_percent", "wait_percent", "read_kb_s", "write_kb_s")
#: A name, or a command line without its folder and arguments: `postgres: user db` and `/usr/bin/postgres -D ...`.
_PROGRAM: Final = r"^(?:/(?:[^\s/]*/)*)?([^\s:/]+)"


@in_callers_kind
def program_loads(samples: Frame, runs: Frame) -> pl.DataFrame:
    """Programs with the CPU time and disk traffic of all their processes during runs, those with most CPU time first.

    Args:
        samples: the table `process_samples`. Rows of threads are left out, as their processes have rows of their own.
        runs: the table `runs`.

    Returns:
        a row per `resource`, `node` and `program`: `runs`, `cpu_percent` (of one CPU) and `wait_percent` (in which
        processes could run but waited for a CPU), `read_kb_s`, `write_kb_s`: sums over the program's processes, means
        over the samples of a run, then over runs. A program that a sample does not list counts as 0 there; a column is
        null where it was never reported.

    Raises:
        UsageError: an argument is not a frame, or lacks a column.

    Example:
        >>> from datetime import UTC, datetime
        >>> times = [datetime(2026, 3, 1, 12, 0, second, tzinfo=UTC) for second in (0, 1, 2, 9)]
        >>> run = {"resource": "r", "run_id": "r/1"}
        >>> runs = pl.DataFrame([run | {"start_time": times[0], "end_time": times[-1]}])
        >>> row = run | {"node": "1", "source_id": "s", "thread": None, "since_boot": False}
        >>> row |= {"wait_percent": 0.0, "read_kb_s": None, "write_kb_s": None}
        >>> seen = [(1, "postgres: monitor", 30.0), (1, "postgres: user ycsb", 50.0), (2, "postgres: monitor", 20.0)]
        >>> some = [
        ...     row | {"sample": at, "sample_time": times[at], "command": command, "cpu_percent": percent}
        ...     for at, command, percent in seen
        ... ]
        >>> program_loads(pl.DataFrame(some), runs).select("program", "runs", "cpu_percent").rows()
        [('postgres', 1, 50.0)]
    """
    whole = as_polars(samples).filter(pl.col("thread").is_null())
    placed = one_source(align_to_runs(whole, runs), _MACHINE)
    moments = placed.group_by(_MACHINE).agg(moments=pl.col("sample_time").n_unique())
    sums = [pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name) for name in _SUMMED]
    of_runs = (
        placed.with_columns(program=pl.col("command").cast(pl.String).str.extract(_PROGRAM).fill_null("unknown"))
        .group_by(*_MACHINE, "program")
        .agg(sums)
        .join(moments, on=list(_MACHINE), nulls_equal=True)
        .with_columns(pl.col(name) / pl.col("moments") for name in _SUMMED)
    )
    return (
        of_runs.group_by("resource", "node", "program")
        .agg(pl.len().alias("runs"), *(pl.col(name).mean() for name in _SUMMED))
        .sort("resource", "cpu_percent", "node", "program", descending=[False, True, False, False], nulls_last=True)
    )

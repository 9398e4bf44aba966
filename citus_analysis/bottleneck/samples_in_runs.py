"""Assign samples to runs, and choose one of several samplers on a node.

The time of a sample is the end of the interval that it averages over. A sample belongs to a run if the whole interval
lies within the run's measured window, in which all its main clients ran, or, if that is unknown, between its first and
last status line; before clients connect and after they leave, the machine is idle. The first report of a sampler, which
averages since boot, belongs to no run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from citus_analysis.core.frames import Frame, as_polars, in_callers_kind
from citus_analysis.core.possible_values.doubtful_values import without_doubtful
from citus_analysis.errors import UsageError

#: Columns that identify a run, and a node during it.
RUN: Final = ("resource", "run_id")
NODE: Final = (*RUN, "node")
_MS_PER_S: Final = 1000
#: One series of samples: a file, and within it one device.
_SERIES: Final = ("resource", "source_id", "device")


def sampling_interval_s(samples: pl.DataFrame) -> pl.Expr:
    """Seconds between the samples of a series (median), null if there are fewer than two times."""
    series = [name for name in _SERIES if name in samples.columns]
    # Distinct times, because several rows may have the same time (interfaces, kinds of reports).
    gaps = pl.col("sample_time").unique().sort().diff().drop_nulls()
    return gaps.median().over(series).dt.total_milliseconds() / _MS_PER_S


@in_callers_kind
def align_to_runs(samples: Frame, runs: Frame, *, margin_s: float = 0.0) -> pl.DataFrame:
    """Samples from within runs, with `run_id`, `elapsed_s` (since the run's begin) and `interval_s`.

    A sample whose file names its run can only belong to that run; any other sample belongs to the run of its resource
    that was under way, or to no run if there were two. Samples without a time are left out. Doubtful values are null.

    Args:
        samples: `cpu_samples`, `device_samples` or `vm_samples`.
        runs: the table `runs`; runs without begin or end get no samples.
        margin_s: seconds by which an interval may lie outside the run, for figures that show the edges.

    Raises:
        UsageError: an argument is not a frame, or lacks a column.
    """
    frame, spans = without_doubtful(as_polars(samples)), as_polars(runs)
    _need(frame, "samples", ("resource", "source_id", "run_id", "sample", "sample_time", "since_boot"))
    _need(spans, "runs", ("resource", "run_id", "start_time", "end_time"))
    frame = frame.filter(pl.col("sample_time").is_not_null()).with_columns(interval_s=sampling_interval_s(frame))
    frame = frame.filter(~pl.col("since_boot").fill_null(value=False)).with_row_index("_row")
    window = {"start_time": "measured_from", "end_time": "measured_until"}
    times = {name: pl.coalesce([n for n in (of, name) if n in spans.columns]) for name, of in window.items()}
    windows = spans.select("resource", "run_id", **times).drop_nulls(["start_time", "end_time"])
    margin = pl.duration(milliseconds=round(margin_s * _MS_PER_S))
    covered = pl.duration(milliseconds=pl.col("interval_s").fill_null(0.0) * _MS_PER_S)
    inside = (pl.col("sample_time") - covered >= pl.col("start_time") - margin) & (
        pl.col("sample_time") <= pl.col("end_time") + margin
    )
    elapsed = (pl.col("sample_time") - pl.col("start_time")).dt.total_milliseconds() / _MS_PER_S
    # Only the columns needed are joined: samples may have many.
    keys = frame.select("_row", "resource", "run_id", "sample_time", "interval_s")
    named = keys.filter(pl.col("run_id").is_not_null()).join(windows, on=["resource", "run_id"])
    free = keys.filter(pl.col("run_id").is_null()).drop("run_id").join(windows, on="resource").filter(inside)
    alone = free.filter(pl.len().over("_row") == 1).select(named.columns)
    placed = pl.concat([named.filter(inside), alone]).select("_row", "run_id", elapsed_s=elapsed).sort("_row")
    rows = frame.select(pl.all().gather(placed["_row"])).with_columns(placed["run_id"], placed["elapsed_s"])
    return rows.select(*as_polars(samples).columns, "elapsed_s", "interval_s")


@in_callers_kind
def one_source(samples: Frame, by: Sequence[str]) -> pl.DataFrame:
    """The rows of one of several recordings of the same quantity, such as by two samplers on a node.

    iostat is preferred to other samplers, and vmstat (which prints whole percents and counts nice as user) comes last;
    then the source with the most samples is preferred, then the first by name.

    Args:
        samples: rows with `source_id`, and with `sampler` if the table has this column.
        by: columns that identify the measured object, such as run and node.
    """
    frame = as_polars(samples)
    ranks = pl.col("sampler").replace_strict({"iostat": 0, "vmstat": 2}, default=1, return_dtype=pl.Int8)
    sampler = ranks if "sampler" in frame.columns else pl.lit(0, pl.Int8)
    sources = frame.group_by(*by, "source_id", maintain_order=True).agg(_count=pl.len(), _last=sampler.min())
    if sources.height == sources.select(by).n_unique():
        return frame
    best = sources.sort("_last", -pl.col("_count").cast(pl.Int64), "source_id").unique(by, keep="first")
    return frame.join(best, on=[*by, "source_id"], how="semi", nulls_equal=True, maintain_order="left")


def windows_of(runs: pl.DataFrame, *others: str) -> pl.DataFrame:
    """`begin` and `until` of each run: of its measured window, or of its status lines; runs without are left out."""
    begin, until = pl.coalesce("measured_from", "start_time"), pl.coalesce("measured_until", "end_time")
    return runs.select(*RUN, *others, begin=begin, until=until).drop_nulls(["begin", "until"])


def with_configuration(rows: pl.DataFrame, runs: pl.DataFrame, configuration: Sequence[str]) -> pl.DataFrame:
    """Rows of runs with the columns of the configuration of their run; rows of other runs are left out."""
    others = [name for name in configuration if name != "resource"]
    return rows.join(runs.select("resource", "run_id", *others), on=["resource", "run_id"])


def first_true(cases: Sequence[tuple[pl.Expr, str]], otherwise: str | None) -> pl.Expr:
    """The word of the first condition that is true.

    Example:
        >>> seen = pl.DataFrame({"n": [0, 5, None]})
        >>> cases = [(pl.col("n") == 0, "none"), (pl.col("n") > 3, "many")]
        >>> seen.select(first_true(cases, "some")).to_series().to_list()
        ['none', 'many', 'some']
    """
    words = [pl.when(condition).then(pl.lit(word)) for condition, word in cases]
    return pl.coalesce(*words, pl.lit(otherwise, pl.String))


def _need(frame: pl.DataFrame, what: str, names: Sequence[str]) -> None:
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise UsageError(f"{what} lack {', '.join(missing)}", way_out="pass tables of a dataset")

"""Assign samples to runs, choose one of several samplers on a node, and leave out values that cannot be.

The time of a sample is the end of the interval that it averages over. A sample belongs to a run if the whole interval
lies within the run's measured window, in which all its main clients ran, or, if that is unknown, between its first and
last status line; before clients connect and after they leave, the machine is idle. The first report of a sampler, which
averages since boot, belongs to no run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from citus_analysis.core.frames import Frame, convert_to_polars, return_callers_frame_kind
from citus_analysis.core.table_definition import DOUBTFUL, DOUBTFUL_SEPARATOR
from citus_analysis.errors import UsageError
from citus_analysis.texts.words import join_words, pluralize

#: Columns that identify a run, and a node during it.
RUN: Final = ("resource", "run_id")
NODE: Final = (*RUN, "node")
_MS_PER_S: Final = 1000
#: One series of samples: a file, and within it one device.
_SERIES: Final = ("resource", "source_id", "device")


def null_out_of_range_values(samples: pl.DataFrame) -> pl.DataFrame:
    """Samples whose doubtful values are null; frames without the column `doubtful` are returned as they are.

    Example:
        >>> import polars as pl
        >>> samples = pl.DataFrame({"idle_percent": [0.0, 97.0], "doubtful": ["idle_percent", None]})
        >>> null_out_of_range_values(samples)["idle_percent"].to_list()
        [None, 97.0]
    """
    if DOUBTFUL not in samples.columns or samples[DOUBTFUL].null_count() == samples.height:
        return samples
    named = pl.col(DOUBTFUL).cast(pl.String).str.split(DOUBTFUL_SEPARATOR)
    names = samples.select(named.explode().drop_nulls().unique()).to_series().to_list()
    kept = {name: ~named.list.contains(name).fill_null(value=False) for name in names if name in samples.columns}
    return samples.with_columns(pl.when(sound).then(pl.col(name)).alias(name) for name, sound in kept.items())


def has_out_of_range_values(samples: pl.DataFrame, *names: str) -> pl.Series:
    """Whether one of some values of a row is doubtful, and with it what is computed from all of them.

    Example:
        >>> import polars as pl
        >>> samples = pl.DataFrame({"doubtful": ["reads_per_s, read_kb_s", "read_kb_s", None]})
        >>> has_out_of_range_values(samples, "reads_per_s", "writes_per_s").to_list()
        [True, False, False]
    """
    if DOUBTFUL not in samples.columns or samples[DOUBTFUL].null_count() == samples.height:
        return pl.repeat(False, samples.height, dtype=pl.Boolean, eager=True)
    named = samples[DOUBTFUL].cast(pl.String).str.split(DOUBTFUL_SEPARATOR)
    return named.list.set_intersection(list(names)).list.len().fill_null(0) > 0


def select_in_range_samples(samples: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """The rows of samples in which none of some values is doubtful, for sums over the rows of a sample.

    Example:
        >>> import polars as pl
        >>> rows = {"source_id": "s", "sample": [0, 0, 1], "doubtful": [None, "read_kb_s", None]}
        >>> select_in_range_samples(pl.DataFrame(rows), ["read_kb_s"])["sample"].to_list()
        [1]
    """
    lost = has_out_of_range_values(samples, *names)
    if not lost.any():
        return samples
    return samples.join(samples.filter(lost), on=["source_id", "sample"], how="anti", maintain_order="left")


def make_sampling_interval_s_expr(samples: pl.DataFrame) -> pl.Expr:
    """Seconds between the samples of a series (median), null if there are fewer than two times."""
    series = [name for name in _SERIES if name in samples.columns]
    # Distinct times, because several rows may have the same time (interfaces, kinds of reports).
    gaps = pl.col("sample_time").unique().sort().diff().drop_nulls()
    return gaps.median().over(series).dt.total_milliseconds() / _MS_PER_S


@return_callers_frame_kind
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
    frame, spans = null_out_of_range_values(convert_to_polars(samples)), convert_to_polars(runs)
    _check_required_columns(
        frame, "samples", ("resource", "source_id", "run_id", "sample", "sample_time", "since_boot")
    )
    _check_required_columns(spans, "runs", ("resource", "run_id", "start_time", "end_time"))
    frame = frame.filter(pl.col("sample_time").is_not_null()).with_columns(
        interval_s=make_sampling_interval_s_expr(frame)
    )
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
    return rows.select(*convert_to_polars(samples).columns, "elapsed_s", "interval_s")


@return_callers_frame_kind
def select_one_source(samples: Frame, by: Sequence[str]) -> pl.DataFrame:
    """The rows of one of several recordings of the same quantity, such as by two samplers on a node.

    iostat is preferred to other samplers, and vmstat (which prints whole percents and counts nice as user) comes last;
    then the source with the most samples is preferred, then the first by name.

    Args:
        samples: rows with `source_id`, and with `sampler` if the table has this column.
        by: columns that identify the measured object, such as run and node.
    """
    frame = convert_to_polars(samples)
    ranks = pl.col("sampler").replace_strict({"iostat": 0, "vmstat": 2}, default=1, return_dtype=pl.Int8)
    sampler = ranks if "sampler" in frame.columns else pl.lit(0, pl.Int8)
    sources = frame.group_by(*by, "source_id", maintain_order=True).agg(_count=pl.len(), _last=sampler.min())
    if sources.height == sources.select(by).n_unique():
        return frame
    best = sources.sort("_last", -pl.col("_count").cast(pl.Int64), "source_id").unique(by, keep="first")
    return frame.join(best, on=[*by, "source_id"], how="semi", nulls_equal=True, maintain_order="left")


def build_run_windows(runs: pl.DataFrame, *others: str) -> pl.DataFrame:
    """`begin` and `until` of each run: of its measured window, or of its status lines; runs without are left out."""
    begin, until = pl.coalesce("measured_from", "start_time"), pl.coalesce("measured_until", "end_time")
    return runs.select(*RUN, *others, begin=begin, until=until).drop_nulls(["begin", "until"])


def add_configuration_columns(rows: pl.DataFrame, runs: pl.DataFrame, configuration: Sequence[str]) -> pl.DataFrame:
    """Rows of runs with the columns of the configuration of their run; rows of other runs are left out."""
    others = [name for name in configuration if name != "resource"]
    return rows.join(runs.select("resource", "run_id", *others), on=["resource", "run_id"])


def make_first_true_expr(cases: Sequence[tuple[pl.Expr, str]], otherwise: str | None) -> pl.Expr:
    """The word of the first condition that is true.

    Example:
        >>> seen = pl.DataFrame({"n": [0, 5, None]})
        >>> cases = [(pl.col("n") == 0, "none"), (pl.col("n") > 3, "many")]
        >>> seen.select(make_first_true_expr(cases, "some")).to_series().to_list()
        ['none', 'many', 'some']
    """
    words = [pl.when(condition).then(pl.lit(word)) for condition, word in cases]
    return pl.coalesce(*words, pl.lit(otherwise, pl.String))


def _check_required_columns(frame: pl.DataFrame, what: str, names: Sequence[str]) -> None:
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise UsageError(f"{what} lack {', '.join(missing)}", hint="pass tables of a dataset")


# Samples over the time of a run, ready to be drawn: one row per node and sample.
#
# Of several samplers on a node only one is kept (:func:`citus_analysis.bottleneck.select_one_source`).

_SHARES: Final = ("user_percent", "nice_percent", "system_percent", "iowait_percent", "steal_percent", "idle_percent")


def make_busy_percent_expr() -> pl.Expr:
    """CPU time in which something ran or wanted to: 100 - idle - iowait.

    iowait is idle time with a request outstanding. Stolen time counts as busy, because the machine needed it.
    """
    return 100 - pl.col("idle_percent") - pl.col("iowait_percent").fill_null(0.0)


@return_callers_frame_kind
def select_cpu_over_time(cpu_samples: Frame, runs: Frame, *, margin_s: float = 0.0) -> pl.DataFrame:
    """CPU shares over time: resource, run_id, node, elapsed_s, interval_s, sample_time, busy_percent, shares.

    Args:
        cpu_samples: the table `cpu_samples`.
        runs: the table `runs`.
        margin_s: seconds before and after the run that are included; before its begin, `elapsed_s` is negative.
    """
    inside = align_to_runs(cpu_samples, runs, margin_s=margin_s)
    used = select_one_source(inside, NODE).with_columns(busy_percent=make_busy_percent_expr())
    shown = used.select(*NODE, "elapsed_s", "interval_s", "sample_time", "busy_percent", *_SHARES, "source_id")
    return shown.sort(*NODE, "elapsed_s")


@return_callers_frame_kind
def select_throttling_over_time(throttle_samples: Frame, runs: Frame) -> pl.DataFrame:
    """Control groups whose CPU time the kernel throttled, while a run was measured.

    Groups that were never throttled are left out.

    Args:
        throttle_samples: the table `throttle_samples`.
        runs: the table `runs`.

    Returns:
        `resource`, `run_id`, `iteration`, `node`, `control_group`, `elapsed_s`, `used_percent` (of one CPU),
        `throttled_percent` (of the time) and `throttled_periods_percent` (of the periods in which the kernel counts).
    """
    inside = align_to_runs(throttle_samples, runs)
    keys = [*NODE, "control_group"]
    held = select_one_source(inside, keys).filter((pl.col("throttled_periods").sum() > 0).over(keys))
    periods = pl.when(pl.col("periods") > 0).then(100 * pl.col("throttled_periods") / pl.col("periods"))
    measures = ("used_percent", "throttled_percent", periods.alias("throttled_periods_percent"))
    shown = held.select("resource", "run_id", "iteration", "node", "control_group", "elapsed_s", *measures)
    return shown.sort(*keys, "elapsed_s")


# Samples that enter no mean, because they cannot be placed in a run, in words.

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


def describe_unplaced_samples(tables: Mapping[str, pl.DataFrame], runs: pl.DataFrame) -> list[str]:
    """A sentence for each reason for which none of a resource's samples of some kind lies within a run.

    Args:
        tables: tables of samples by name; names other than those of samplers are passed over.
        runs: the table `runs`.

    Example:
        >>> runs = pl.DataFrame({"resource": ["r"], "start_time": [None], "end_time": [None]})
        >>> rows = {"resource": ["r"], "source_id": ["s"], "sample_time": [0], "since_boot": [False]}
        >>> samples = pl.DataFrame(rows).with_columns(pl.col("sample_time").cast(pl.Datetime("us", "UTC")))
        >>> describe_unplaced_samples({"cpu_samples": samples}, runs)[0].partition(":")[0]
        'Samples of CPUs of r enter no mean, because it is not known when its runs took place'
    """
    found = [
        rows.with_columns(of=pl.lit(noun))
        for name, noun in _OF.items()
        if name in tables and (rows := _find_unplaced_resources(tables[name], runs)).height
    ]
    if not found:
        return []
    kinds = pl.concat(found).group_by("resource", "reason", maintain_order=True).agg(pl.col("of"))
    alike = kinds.group_by("reason", "of", maintain_order=True).agg(pl.col("resource"))
    return [_write_unplaced_sentence(reason, of, names) for reason, of, names in alike.iter_rows()]


def _find_unplaced_resources(samples: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
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
    reason = make_first_true_expr([(~pl.col("timed"), "untimed"), (~pl.col("run"), "run")], "outside")
    return judged.filter(~pl.col("met")).sort("resource").select("resource", reason=reason)


def _write_unplaced_sentence(reason: str, of: list[str], resources: list[str]) -> str:
    where = join_words(resources) if len(resources) <= _NAMED else f"{pluralize(len(resources), 'resource')}"
    words = _REASONS[reason] if len(resources) == 1 else _REASONS[reason].replace("its ", "their ")
    return f"Samples of {join_words(of)} of {where} enter no mean, {words}."

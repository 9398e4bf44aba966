"""Tables of runs: selection of the runs for a statistic, and means over their iterations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import polars as pl

from citus_analysis.core.array_types import Floats
from citus_analysis.core.frames import Frame, TableSource, as_polars, in_callers_kind
from citus_analysis.defaults import LEVEL, METRIC
from citus_analysis.errors import InsufficientDataError, UnknownNameError, UsageError, require_known
from citus_analysis.runs.run_status import allowed_statuses, used_notes
from citus_analysis.runs.setups import described, setting_text
from citus_analysis.stats.estimate.intervals import MeanMethod, mean_interval, mean_method
from citus_analysis.units import better_direction


def known_direction(metric: str) -> bool:
    """Whether higher values of a metric are better, where a verdict needs to know.

    Raises:
        UsageError: the name of the metric does not say.

    Example:
        >>> known_direction("throughput_ops_s"), known_direction("p99_us")
        (True, False)
    """
    if (direction := better_direction(metric)) is None:
        raise UsageError(
            f"the name {metric!r} does not say whether higher or lower values are better",
            way_out="name the column with its unit (_ops_s, _per_s, _us, _ms), or compare it without a judgement",
        )
    return direction == "higher"


@in_callers_kind
def runs_with_metric(
    source: TableSource | Frame,
    metric: str,
    allow: str | Collection[str] = (),
    only: Mapping[str, object] | None = None,
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Runs that are ok and have the metric, with their set-up, and notes on the runs that were left out.

    A metric that the table `runs` lacks is looked up in `operation_latencies` if a dataset is given; each operation
    then is a separate configuration. `only` keeps the runs whose columns have the given values, compared as text.
    `allow="degraded"` takes degraded runs in, with a note.

    Raises:
        UnknownNameError: there is no such metric or column.
        UsageError: another status cannot be allowed.
        InsufficientDataError: no run is left.
    """
    return measured_runs(runs_of(source, metric), metric, allow, only)


def runs_of(source: TableSource | Frame, metric: str) -> pl.DataFrame:
    """All runs with their set-up (:func:`citus_analysis.runs.described`), and with the metric.

    Raises:
        UnknownNameError: there is no such metric.
    """
    if isinstance(source, TableSource):
        frame = described(_joined(source, metric), as_polars(source.table("settings")))
    else:
        frame = described(as_polars(source))
    if metric not in frame.columns or not frame.schema[metric].is_numeric():
        raise UnknownNameError("metric", metric, [c for c, t in frame.schema.items() if t.is_numeric()])
    return frame


def measured_runs(
    runs: pl.DataFrame, metric: str, allow: str | Collection[str], only: Mapping[str, object] | None = None
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The runs that are ok or allowed, with the values of `only` and the metric; see :func:`runs_with_metric`."""
    statuses = allowed_statuses(allow)
    frame = with_values(runs, only or {})
    if only and frame.is_empty() and not runs.is_empty():
        raise InsufficientDataError(f"no run has {', '.join(f'{name}={value}' for name, value in only.items())}")
    notes = []
    kept, left_out = frame, frame.clear()
    if "status" in frame.columns:
        kept = frame.filter(pl.col("status").cast(pl.String).is_in(statuses))
        left_out = frame.filter(~pl.col("status").cast(pl.String).is_in(statuses))
        counts = left_out["status"].cast(pl.String).value_counts(sort=True).rows()
        notes += [f"{n} run{'s' if n > 1 else ''} left out: status {status}" for status, n in counts]
    measured = kept.filter(pl.col(metric).is_not_null() & pl.col(metric).cast(pl.Float64).is_finite())
    if missing := kept.height - measured.height:
        notes.append(f"{missing} run{'s' if missing > 1 else ''} left out: no {metric}")
    if measured.is_empty():
        where = "".join(f", {name}={value}" for name, value in (only or {}).items())
        raise InsufficientDataError(
            f"no run with status {' or '.join(statuses)}{where} has a {metric}", way_out=_way_to_allow(left_out)
        )
    return measured, (*notes, *used_notes(measured))


def _way_to_allow(left_out: pl.DataFrame) -> str | None:
    if "status" not in left_out.columns or not (left_out["status"].cast(pl.String) == "degraded").any():
        return None
    return "look at status_reason in the table runs; --allow degraded (allow='degraded' in Python) uses degraded runs"


def check_columns(runs: pl.DataFrame, names: Iterable[str]) -> None:
    """Check that the table has these columns.

    Raises:
        UnknownNameError: a column is missing.
    """
    for name in names:
        require_known("column", name, runs.columns)


def with_values(runs: pl.DataFrame, only: Mapping[str, object]) -> pl.DataFrame:
    """The runs whose columns have the given values, as they are or as displayed.

    Raises:
        UnknownNameError: there is no such column.
    """
    check_columns(runs, only)
    for name, value in only.items():
        seen = [setting_text(name, one) == str(value) or str(one) == str(value) for one in runs[name]]
        runs = runs.filter(pl.Series(seen, dtype=pl.Boolean))
    return runs


def _joined(source: TableSource, metric: str) -> pl.DataFrame:
    runs = as_polars(source.table("runs"))
    if metric in runs.columns:
        return runs
    latencies = as_polars(source.table("operation_latencies"))
    if metric not in latencies.columns:
        known = {c for f in (runs, latencies) for c, t in f.schema.items() if t.is_numeric()}
        raise UnknownNameError("metric", metric, known)
    keys = ["run_id", "resource"]
    main = latencies.filter(pl.col("role") == "main").select(*keys, "operation", metric)
    return runs.join(main, on=keys, how="inner")


@in_callers_kind
def summarise_runs(
    source: TableSource | Frame,
    metric: str = METRIC,
    by: Sequence[str] = ("phase", "workload", "threads", "workers"),
    *,
    level: float = LEVEL,
    method: MeanMethod | None = None,
    allow: str | Collection[str] = (),
) -> pl.DataFrame:
    """Mean over iterations with its interval, per configuration.

    Columns: those of `by`, then n, mean, sd, low, high, level, method, warnings; low and high are null for a single
    run. By default the interval is on the log scale unless a value is negative, because rates and times are positive
    (:func:`citus_analysis.stats.estimate.intervals.mean_method`). `allow="degraded"` takes degraded runs in.

    Raises:
        UnknownNameError: no such column or metric.
        UsageError: runs of several systems would become one mean.
        InsufficientDataError: no run is left.

    Example:
        >>> runs = pl.DataFrame({"workers": [1, 1, 2, 2], "throughput_ops_s": [10.0, 12.0, 20.0, 22.0]})
        >>> summarise_runs(runs, by=["workers"])["mean"].to_list()
        [11.0, 21.0]
    """
    runs, _ = runs_with_metric(source, metric, allow)
    check_columns(runs, by)
    rows = []
    refuse_mixed_systems(runs, by)
    for key, part in strata_of(runs, by):
        values = values_of(part, metric)
        interval = mean_interval(values, level, method or mean_method(values))
        rows.append(
            {
                **key,
                "n": interval.n,
                "mean": interval.estimate,
                "sd": float(values.std(ddof=1)) if values.size > 1 else None,
                **dict(zip(("low", "high"), interval.ends, strict=True)),
                "level": level,
                "method": interval.method,
                "warnings": "; ".join(interval.warnings),
            }
        )
    kinds = {name: runs.schema[name] for name in by} | dict.fromkeys(("sd", "low", "high"), pl.Float64())
    return pl.DataFrame(rows, schema_overrides=kinds, infer_schema_length=None)


def refuse_mixed_systems(runs: pl.DataFrame, by: Sequence[str]) -> None:
    """Refuse means over runs of several systems."""
    if "system" not in runs.columns:
        return
    for key, part in strata_of(runs, by):
        if (systems := part["system"].drop_nulls().unique().sort().to_list())[1:]:
            where = ", ".join(f"{name} {value}" for name, value in key.items())
            raise UsageError(
                f"runs of several systems ({', '.join(map(str, systems))}) would become one mean"
                + (f" at {where}" if where else ""),
                way_out=f"add it to the columns of a configuration: by={['system', *by]}",
            )


def strata_of(runs: pl.DataFrame, strata: Sequence[str]) -> Iterator[tuple[dict[str, object], pl.DataFrame]]:
    """The parts of a table with equal values in the columns, in their order, each with these values."""
    if not strata:
        yield {}, runs
        return
    ordered = runs.sort(strata, nulls_last=True)
    for key, part in ordered.group_by(strata, maintain_order=True):
        yield dict(zip(strata, key, strict=True)), part


def in_stratum(runs: pl.DataFrame, stratum: Mapping[str, object]) -> pl.DataFrame:
    """The runs with the values of a stratum, as :func:`strata_of` gives it; columns that they lack do not count."""
    held = {name: value for name, value in stratum.items() if name in runs.columns}
    return runs.filter(pl.lit(value=True), *(pl.col(name).eq_missing(pl.lit(value)) for name, value in held.items()))


def in_order_of_time(runs: pl.DataFrame) -> pl.DataFrame:
    """The runs by their start, then by iteration, if they have these columns."""
    order = [name for name in ("start_time", "iteration") if name in runs.columns]
    return runs.sort(order, nulls_last=True, maintain_order=True) if order else runs


def values_of(runs: pl.DataFrame, metric: str) -> Floats:
    """A column as floats."""
    return runs[metric].cast(pl.Float64).to_numpy()


def times_of(runs: pl.DataFrame) -> Floats | None:
    """Start time of each run, in ms; None unless all runs have one."""
    began: pl.Series | None = runs.get_column("start_time", default=None)
    if began is None or began.null_count() or not began.dtype.is_temporal():
        return None
    return began.dt.epoch("ms").cast(pl.Float64).to_numpy()

"""The runs of whatever was passed, with their set-up and one measured column; their selection, groups and order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from citus_analysis.core.frames import (
    Frame,
    TableSource,
    convert_to_numbers,
    convert_to_polars,
    resolve_source,
    return_callers_frame_kind,
)
from citus_analysis.core.type_aliases import Floats
from citus_analysis.defaults import METRIC
from citus_analysis.errors import InsufficientDataError, UnknownNameError, UsageError, require_known
from citus_analysis.runs.design import Design, find_synonym, read_design
from citus_analysis.runs.set_ups import add_setup_descriptions, format_setup_value
from citus_analysis.runs.status import list_included_statuses, write_used_run_notes
from citus_analysis.units import better_direction


def require_metric_direction(metric: str) -> bool:
    """Whether higher values of a metric are better, where a verdict needs to know.

    Raises:
        UsageError: the name of the metric does not say.

    Example:
        >>> require_metric_direction("throughput_ops_s"), require_metric_direction("p99_us")
        (True, False)
    """
    if (direction := better_direction(metric)) is None:
        raise UsageError(
            f"the name {metric!r} does not say whether higher or lower values are better",
            hint="name the column with its unit (_ops_s, _per_s, _us, _ms), or compare it without a judgement",
        )
    return direction == "higher"


@return_callers_frame_kind
def select_runs_with_metric(
    source: TableSource | Frame,
    metric: str,
    include_status: str | Collection[str] = (),
    only: Mapping[str, object] | None = None,
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Runs that are ok and have the metric, with their set-up, and notes on the runs that were left out.

    A metric that the table `runs` lacks is looked up in `operation_latencies` if a dataset is given; each operation
    then is a separate configuration. `only` keeps the runs whose columns have the given values, compared as text.
    `include_status="degraded"` takes degraded runs in, with a note.

    Raises:
        UnknownNameError: there is no such metric or column.
        UsageError: another status cannot be allowed.
        InsufficientDataError: no run is left.
    """
    return select_measured_runs(read_runs_with_metric(source, metric), metric, include_status, only)


#: Columns that rows of a dataset's table `runs` have, and nobody's own table.
_OF_DATASET: Final = ("run_id", "resource")


@dataclass(frozen=True)
class StudiedRuns:
    """The runs of a source, and what their columns are.

    Attributes:
        runs: all runs with their set-up.
        metric: the column that is measured.
        factors: columns to hold equal besides those of a configuration, which the caller's table has.
        design: what the columns of a caller's frame are; None for a dataset.
        replaced: columns that need not be held equal because factors say the same.
    """

    runs: pl.DataFrame
    metric: str
    factors: tuple[str, ...] = ()
    design: Design | None = None
    replaced: tuple[str, ...] = ()

    def find_column(self, name: str) -> str:
        """The column that the caller names, by its name or a synonym."""
        if self.design is not None:
            return self.design.find_column(name)
        return name if name in self.runs.columns else find_synonym(name, self.runs.columns) or name

    def callers_name(self, column: str) -> str:
        """The caller's name of a column."""
        return column if self.design is None else self.design.callers_name(column)


def read_studied_runs(
    source: object, metric: str | None = None, named: Sequence[str] = (), pooled: Sequence[str] = ()
) -> StudiedRuns:
    """The runs of whatever was passed, with their set-up and the metric: the one way from an input to runs.

    Args:
        source: what :func:`citus_analysis.core.frames.resolve_source` takes.
        metric: the measured column; by default the only one, or the throughput.
        named: columns that the call names: the compared one, those to hold equal.
        pooled: columns that need not be equal.

    Raises:
        UnknownNameError: there is no such metric.
        UsageError: several columns may be the metric, or a column may be a setting or measured.
    """
    given = resolve_source(source)
    if not isinstance(given, pl.DataFrame):
        return _read_dataset_runs(given, metric or METRIC, named)
    if set(_OF_DATASET) <= set(given.columns):
        frame = add_setup_descriptions(given)
        _check_metric(frame, metric or METRIC)
        return StudiedRuns(frame, metric or METRIC)
    design = getattr(source, "design", None)
    if not isinstance(design, Design):
        design = read_design(given, metrics=[metric] if metric in given.columns else [])
    chosen = _choose_metric(design, metric)
    design.require_clear({*map(design.find_column, (*named, *pooled)), chosen})
    frame = add_setup_descriptions(design.runs)
    _check_metric(frame, chosen)
    aside = {chosen, *map(design.find_column, pooled)}
    return StudiedRuns(frame, chosen, tuple(name for name in design.own_factors if name not in aside), design)


def read_values_as_runs(source: object, metric: str | None) -> object:
    """A list of numbers as a frame of runs with the metric as its column; anything else unchanged.

    Raises:
        UsageError: what the numbers are is not said.

    Example:
        >>> read_values_as_runs([1.5, 2.5], "p99_ms").columns
        ['p99_ms']
    """
    numbers = convert_to_numbers(source)
    if numbers is None:
        return source
    if metric is None:
        raise UsageError("a list of numbers does not say what they are", hint="name the metric, such as 'p99_ms'")
    return pl.DataFrame({metric: numbers})


def _choose_metric(design: Design, metric: str | None) -> str:
    """The measured column that is asked for, or the only one there is."""
    frame = design.runs
    if metric is not None and (metric != METRIC or METRIC in frame.columns):
        return design.find_column(metric)
    named = find_synonym(METRIC, design.metrics) if METRIC not in frame.columns else METRIC
    if named is not None:
        return named
    if len(design.metrics) == 1:
        return design.metrics[0]
    if len(design.metrics) > 1:
        raise UsageError(
            f"{' and '.join(design.metrics[:4])} are measured: which is to be compared is not said",
            hint=f"metric={design.metrics[0]!r}",
        )
    return METRIC


def _check_metric(frame: pl.DataFrame, metric: str) -> None:
    if metric in frame.columns and frame.schema[metric].is_numeric():
        return
    known = [name for name, kind in frame.schema.items() if kind.is_numeric()]
    if metric in frame.columns and frame.schema[metric] == pl.String:
        raise UsageError(
            f"{metric!r} holds texts, not numbers: {frame[metric].drop_nulls().head(2).to_list()}",
            hint="convert it, or read the file with ca.study(PATH), which knows decimal marks",
        )
    raise UnknownNameError("metric", metric, known)


def _read_dataset_runs(source: TableSource, metric: str, named: Sequence[str]) -> StudiedRuns:
    """The runs of a dataset; factors of a table of results are columns where the call names one of them."""
    runs = _join_client_metric(source, metric)
    factors: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    if any(name not in runs.columns for name in named) and "set_up" in runs.columns:
        wide, found = split_set_ups(runs)
        if set(named) & set(found):
            runs, factors, replaced = wide, found, ("family", "variant", "set_up", "resource", "settings")
    frame = add_setup_descriptions(runs, convert_to_polars(source.table("settings")))
    _check_metric(frame, metric)
    return StudiedRuns(frame, metric, factors, None, replaced)


def split_set_ups(runs: pl.DataFrame) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The runs with a column for each `name=value` of their set-ups, as a table of results has them, and their names.

    Words without a name become the column `set_up_name`.

    Example:
        >>> wide, names = split_set_ups(pl.DataFrame({"set_up": ["version=a, shards=8", "version=b, shards=8"]}))
        >>> names, wide["version"].to_list()
        (('version', 'shards'), ['a', 'b'])
    """
    rows = [
        dict(
            (name, value) if equals else ("set_up_name", part)
            for part in str(text or "").split(", ")
            for name, equals, value in [part.partition("=")]
            if part
        )
        for text in runs["set_up"]
    ]
    names = tuple(dict.fromkeys(name for row in rows for name in row if name not in runs.columns))
    columns = [pl.Series(name, [row.get(name) for row in rows], dtype=pl.String) for name in names]
    return runs.with_columns(columns), names


def read_runs_with_metric(source: object, metric: str) -> pl.DataFrame:
    """All runs with their set-up (:func:`citus_analysis.runs.described`), and with the metric.

    Raises:
        UnknownNameError: there is no such metric.
    """
    found = read_studied_runs(source, metric)
    return found.runs if found.metric == metric else found.runs.with_columns(pl.col(found.metric).alias(metric))


def select_measured_runs(
    runs: pl.DataFrame, metric: str, include_status: str | Collection[str], only: Mapping[str, object] | None = None
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The runs that are ok or allowed, with the values of `only` and the metric: :func:`select_runs_with_metric`."""
    statuses = list_included_statuses(include_status)
    frame = filter_runs_by_values(runs, only or {})
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
            f"no run with status {' or '.join(statuses)}{where} has a {metric}", hint=_choose_allow_hint(left_out)
        )
    return measured, (*notes, *write_used_run_notes(measured))


def _choose_allow_hint(left_out: pl.DataFrame) -> str | None:
    if "status" not in left_out.columns or not (left_out["status"].cast(pl.String) == "degraded").any():
        return None
    return "status_reason in the table runs says why; --include-status degraded (include_status in Python) uses them"


def check_columns(runs: pl.DataFrame, names: Iterable[str]) -> None:
    """Check that the table has these columns.

    Raises:
        UnknownNameError: a column is missing.
    """
    for name in names:
        require_known("column", name, runs.columns)


def filter_runs_by_values(runs: pl.DataFrame, only: Mapping[str, object]) -> pl.DataFrame:
    """The runs whose columns have the given values, as they are or as displayed.

    Raises:
        UnknownNameError: there is no such column.
    """
    check_columns(runs, only)
    for name, value in only.items():
        seen = [format_setup_value(name, one) == str(value) or str(one) == str(value) for one in runs[name]]
        runs = runs.filter(pl.Series(seen, dtype=pl.Boolean))
    return runs


def _join_client_metric(source: TableSource, metric: str) -> pl.DataFrame:
    runs = convert_to_polars(source.table("runs"))
    if metric in runs.columns:
        return runs
    latencies = convert_to_polars(source.table("operation_latencies"))
    if metric not in latencies.columns:
        known = {c for f in (runs, latencies) for c, t in f.schema.items() if t.is_numeric()}
        raise UnknownNameError("metric", metric, known)
    keys = ["run_id", "resource"]
    main = latencies.filter(pl.col("role") == "main").select(*keys, "operation", metric)
    return runs.join(main, on=keys, how="inner")


def iterate_groups(runs: pl.DataFrame, columns: Sequence[str]) -> Iterator[tuple[dict[str, object], pl.DataFrame]]:
    """The parts of a table with equal values in the columns, in their order, each with these values."""
    if not columns:
        yield {}, runs
        return
    ordered = runs.sort(columns, nulls_last=True)
    for key, part in ordered.group_by(columns, maintain_order=True):
        yield dict(zip(columns, key, strict=True)), part


def select_group_runs(runs: pl.DataFrame, configuration: Mapping[str, object]) -> pl.DataFrame:
    """The runs with these values, as :func:`iterate_groups` gives them; columns that the runs lack do not count."""
    held = {name: value for name, value in configuration.items() if name in runs.columns}
    return runs.filter(pl.lit(value=True), *(pl.col(name).eq_missing(pl.lit(value)) for name, value in held.items()))


def sort_runs_by_time(runs: pl.DataFrame) -> pl.DataFrame:
    """The runs by their start, then by iteration, if they have these columns."""
    order = [name for name in ("start_time", "iteration") if name in runs.columns]
    return runs.sort(order, nulls_last=True, maintain_order=True) if order else runs


def get_metric_values(runs: pl.DataFrame, metric: str) -> Floats:
    """A column as floats."""
    return runs[metric].cast(pl.Float64).to_numpy()


def get_start_times_ms(runs: pl.DataFrame) -> Floats | None:
    """Start time of each run, in ms; None unless all runs have one."""
    began: pl.Series | None = runs.get_column("start_time", default=None)
    if began is None or began.null_count() or not began.dtype.is_temporal():
        return None
    return began.dt.epoch("ms").cast(pl.Float64).to_numpy()

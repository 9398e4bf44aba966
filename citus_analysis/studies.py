"""One way from anything to an answer: what was measured, what differs, and by how much.

:func:`study` takes a frame, columns or lists by name, a path, a pattern, a list of them or a dataset, says the design
that it understood, and answers from there::

    import citus_analysis as ca

    mine = ca.study("results.csv")
    print(mine)                    # 2 versions x 3 clients x 5 repeats ...
    mine.compare(by="version")
    mine.scale()
    mine.report("report.html", title="Version 2 of the connection pool")

:func:`compare` is the same comparison in one call, also of two lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, overload

import numpy as np
import polars as pl

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.frames import TableSource, convert_to_numbers, convert_to_polars, resolve_source
from citus_analysis.core.output_files import open_output
from citus_analysis.defaults import METRIC
from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.runs.design import Design, describe_design, read_design
from citus_analysis.stats.run_comparisons import RunComparison, compare_runs
from citus_analysis.stats.studied_runs import StudiedRuns, iterate_groups, read_studied_runs, select_measured_runs
from citus_analysis.stats.verdicts import Comparison
from citus_analysis.stats.verdicts import compare as compare_values
from citus_analysis.texts.words import pluralize

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from citus_analysis.attribution import Explanation
    from citus_analysis.bottleneck import NoiseStudy
    from citus_analysis.scaling.curves import ScalingStudy
    from citus_analysis.scaling.what_if import WhatIf
    from citus_analysis.tracking import Track

#: Column of the names of lists that are compared.
SET: Final = "set"
#: Metric of numbers without a name: neither higher nor lower is better.
VALUES: Final = "value"


@dataclass(frozen=True, repr=False, eq=False)
class Study(DisplayMixin):
    """What was given to :func:`study`, with the design that it understood.

    Attributes:
        source: a dataset, or the runs as a frame with the caller's columns.
        design: what the columns of the runs are.
        metric: the measured column that is used where none is named; empty if there are several.
    """

    source: TableSource | pl.DataFrame
    design: Design
    metric: str = ""

    @property
    def factors(self) -> dict[str, list[object]]:
        """Name of each factor -> its levels."""
        runs = self.design.runs
        return {self.design.callers_name(name): runs[name].unique().sort().to_list() for name in self.design.factors}

    @property
    def metrics(self) -> tuple[str, ...]:
        """The measured columns."""
        return self.design.metrics

    def _ipython_key_completions_(self) -> list[str]:
        return [*self.factors, *self.metrics]

    def __getitem__(self, name: str) -> pl.Series:
        """A column of the runs, by the caller's name: completed in a notebook."""
        return self.design.runs[self.design.find_column(name)]

    def summary_lines(self) -> list[str]:
        """The design: factors with levels, repetitions, metrics with their direction, and what is not used."""
        return describe_design(self.design)

    def summary_table(self) -> pl.DataFrame | None:
        """The runs."""
        return self.design.runs.rename(dict(self.design.names))

    def compare(self, by: str | None = None, metric: str | None = None, **options: object) -> RunComparison:
        """Compare the levels of a factor, like with like; the options are those of `ca.stats.compare_runs`."""
        return compare_runs(self, metric or self.metric or None, by, **options)  # type: ignore[arg-type] # keywords

    def scale(self, x: str | None = None, metric: str | None = None, **options: object) -> ScalingStudy:
        """Speedup, efficiency and models along a size; the options are those of `ca.scaling.scale_runs`."""
        from citus_analysis.scaling import scale_runs

        return scale_runs(self, x, metric or self.metric or None, **options)  # type: ignore[arg-type] # keywords

    def why(self, base: str = "", other: str = "", **options: object) -> Explanation:
        """Where the difference of two sides comes from, which needs server logs; see `ca.why`."""
        from citus_analysis.attribution import why

        return why(self, base, other, **options)  # type: ignore[arg-type] # keywords

    def what_if(self, change: str, at: str = "", **options: object) -> WhatIf:
        """What a change would gain, predicted from traced statements; see `ca.what_if`."""
        from citus_analysis.scaling import what_if

        return what_if(self, change, at, **options)  # type: ignore[arg-type] # keywords

    def noise(self, by: str | None = None, **options: object) -> NoiseStudy:
        """Where the variance between repeated runs comes from, which needs logs and samples; see `ca.noise`."""
        from citus_analysis.bottleneck import noise

        return noise(self.source, by, metric=self.metric or None, **options)  # type: ignore[arg-type] # keywords

    def changes(self, metric: str | None = None) -> SequenceChanges | Track:
        """Changes of the metric over the runs in their order: by `ca.track` for a dataset, by row for a frame."""
        if not isinstance(self.source, pl.DataFrame):
            from citus_analysis.tracking import track

            return track([self.source], metric or METRIC)
        return _find_changes_in_rows(read_studied_runs(self, metric or self.metric or None))

    def plot(self) -> Figure:
        """The comparison as a figure if something can be compared, else the curve."""
        try:
            return self.compare().plot()
        except (InsufficientDataError, UsageError):
            return self.scale().plot()

    def report(
        self, out: str | PathLike[str] = "report.html", *, title: str = "Comparison of runs", by: str | None = None
    ) -> Path:
        """Write one page that needs no network: the design, the comparison, the curves along a size, and their figures.

        Args:
            out: the page.
            title: its title.
            by: compared column; by default as in :meth:`compare`.

        Returns:
            The path of the page.
        """
        found = self.compare(by)
        parts: list[DisplayMixin] = [self, found]
        with suppress(InsufficientDataError, UsageError):
            parts.append(self.scale())
        path = Path(out)
        with open_output(path) as file:
            file.write(_render_page(title, parts).encode())
        return path


@dataclass(frozen=True, repr=False)
class SequenceChanges(DisplayMixin):
    """Changes of a metric over runs in their order, configuration by configuration.

    Attributes:
        metric: the measured column.
        rows: one row for each change: configuration, number of the first run after it, before, after, ratio.
        sequences: number of configurations.
        runs: the most runs of one of them.
    """

    metric: str
    rows: pl.DataFrame
    sequences: int
    runs: int

    def summary_lines(self) -> list[str]:
        """How many changes there are, in how many sequences."""
        found = pluralize(self.rows.height, "change")
        return [f"{found} of {self.metric} in {pluralize(self.sequences, 'sequence')} of up to {self.runs} runs"]

    def summary_table(self) -> pl.DataFrame | None:
        """The changes."""
        return self.rows


def _find_changes_in_rows(studied: StudiedRuns) -> SequenceChanges:
    from citus_analysis.stats.change_points import find_changes
    from citus_analysis.stats.studied_runs import get_metric_values, sort_runs_by_time

    runs, _ = select_measured_runs(studied.runs, studied.metric, ())
    factors = studied.design.factors if studied.design else ()
    rows: list[dict[str, object]] = []
    sizes = [0]
    for key, part in iterate_groups(runs, factors):
        ordered = sort_runs_by_time(part) if "start_time" in part.columns else part
        sizes.append(ordered.height)
        for point in find_changes(get_metric_values(ordered, studied.metric)).points:
            named = {studied.callers_name(name): value for name, value in key.items()}
            rows.append({**named, "first_run": point.index + 1, **point.ratio.record("ratio")})
    empty = {"first_run": pl.Int64(), "ratio": pl.Float64()}
    frame = pl.DataFrame(rows, infer_schema_length=None) if rows else pl.DataFrame(schema=empty)
    return SequenceChanges(studied.metric, frame, len(sizes) - 1, max(sizes))


def study(
    source: object,
    *,
    metric: str | None = None,
    factors: Sequence[str] = (),
    metrics: Sequence[str] = (),
) -> Study:
    """Understand what was measured, from whatever holds it; print the result to see the design that was understood.

    Args:
        source: a polars, pandas or Arrow frame with a row for each run; columns by name; lists of values by name (they
            need `metric`); a CSV, file, folder or pattern, or a list of them; a dataset.
        metric: the measured column where there are several; the metric of lists.
        factors: columns that are settings of the runs, where the values alone do not say so.
        metrics: columns that are measured, where their values do not say so.

    Raises:
        UsageError: it is nothing of this, or has two readings, which the message names.
        InputError: a path cannot be read.

    Example:
        >>> found = study({"old": [12.1, 12.3, 12.2], "new": [10.0, 10.2, 10.1]}, metric="p99_ms")
        >>> print(found)
        2 sets x 3 repeats: 6 runs
        set: old, new
        p99_ms: lower is better
        >>> found.compare().comparisons[0].verdict
        'faster'
    """
    lists = _read_lists(source, metric)
    if lists is not None:
        source, metrics = lists, [*metrics, metric or VALUES]
    given = resolve_source(source)
    if not isinstance(given, pl.DataFrame):
        return Study(given, _describe_dataset(given), metric or METRIC)
    measured = [*metrics, *([metric] if metric in given.columns else [])]
    design = read_design(given, factors, list(dict.fromkeys(measured)))
    if metric is not None and design.find_column(metric) not in design.runs.columns:
        # The message with the known names.
        read_studied_runs(given, metric)
    return Study(given, design, design.find_column(metric) if metric else "")


def _describe_dataset(source: TableSource) -> Design:
    """The design of a dataset's runs, by the columns of its set-ups."""
    from citus_analysis.runs.set_ups import add_setup_descriptions
    from citus_analysis.stats.studied_runs import split_set_ups

    runs = convert_to_polars(source.table("runs"))
    if runs.is_empty():
        return Design(runs)
    described = add_setup_descriptions(runs, convert_to_polars(source.table("settings")))
    wide, names = split_set_ups(runs)
    columns = ["system", *([] if names else ["variant"]), "phase", "workload", "workers", "threads", "records"]
    measured = [name for name in ("throughput_ops_s",) if runs[name].null_count() < runs.height]
    described = described.with_columns(wide[name] for name in names)
    kept = [name for name in (*names, *columns) if described[name].null_count() < described.height]
    varying = tuple(name for name in kept if described[name].n_unique() > 1)
    constant = tuple(name for name in kept if described[name].n_unique() == 1)
    return Design(described, {}, varying, tuple(measured), "iteration", constant)


def _read_lists(source: object, metric: str | None) -> pl.DataFrame | None:
    """Lists of values by name as runs; None if it is no such mapping.

    Raises:
        UsageError: the mapping may be lists by name or columns of a table.
    """
    if not isinstance(source, Mapping) or not source:
        return None
    values = {str(name): convert_to_numbers(one) for name, one in source.items()}
    if any(one is None for one in values.values()):
        return None
    if metric in values:
        return None
    lists = {name: one for name, one in values.items() if one is not None}
    design = read_design(pl.DataFrame({name: pl.Series(one[:1]) for name, one in lists.items()}))
    named = [*design.metrics, *design.names, *(name for name in lists if name in ("threads", "workers", "iteration"))]
    if len({one.size for one in lists.values()}) == 1 and named:
        if metric is None and len(named) == len(lists):
            return None
        if metric is None or len(named) == len(lists):
            known = design.callers_name(named[0])
            raise UsageError(
                f"these may be {len(lists)} lists to compare, or columns of one table, of which {known!r} is known",
                hint="pass a frame for a table, or metric= and other names for lists",
            )
    # In the order of the caller: the first is the base.
    sets = pl.Enum(list(lists))
    return pl.concat(
        pl.DataFrame({SET: pl.Series([name] * one.size, dtype=sets), metric or VALUES: one})
        for name, one in lists.items()
    )


class _HoldsNumbers(Protocol):
    """An array or a series of numbers."""

    def __array__(self) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
        """The numbers."""


@overload
def compare(
    source: object,
    other: str | None = None,
    by: str | None = None,
    base: object = None,
    *,
    metric: str | None = None,
    higher_is_better: bool | None = None,
    labels: tuple[str, str] = ("first", "second"),
    **options: object,
) -> RunComparison: ...
@overload
def compare(
    source: Sequence[float] | _HoldsNumbers,
    other: Sequence[float] | _HoldsNumbers,
    by: None = None,
    base: None = None,
    *,
    metric: str | None = None,
    higher_is_better: bool | None = None,
    labels: tuple[str, str] = ("first", "second"),
    **options: object,
) -> Comparison: ...
def compare(
    source: object,
    other: object = None,
    by: str | None = None,
    base: object = None,
    *,
    metric: str | None = None,
    higher_is_better: bool | None = None,
    labels: tuple[str, str] = ("first", "second"),
    **options: object,
) -> RunComparison | Comparison:
    """Compare runs like with like, or two lists of values: faster, slower, equivalent or inconclusive.

    Args:
        source: what :func:`study` takes, or a list of values, which is compared with the list `other`.
        other: the base, as a list of values; for anything else, the metric (`ca.compare(dataset, "p99_us")`).
        by: compared column; by default the system, else the set-ups, else the only factor.
        base: level that the others are compared with.
        metric: the measured column, or what lists are; its name says whether higher or lower is better.
        higher_is_better: where the metric's name does not say. Without either, verdicts are `higher` and `lower`.
        labels: names of two lists.
        options: those of :func:`citus_analysis.stats.compare_runs`; of lists, those of
            :func:`citus_analysis.stats.compare`.

    Raises:
        UsageError: the source has two readings, or is none that is understood.
        InsufficientDataError: nothing can be compared.

    Example:
        >>> compare([12.1, 12.3, 12.2], [10.0, 10.2, 10.1], metric="p99_ms").verdict
        'slower'
        >>> compare([12.1, 12.3, 12.2], [10.0, 10.2, 10.1]).verdict
        'higher'
    """
    values, base_values = convert_to_numbers(source), convert_to_numbers(other)
    if values is not None:
        if base_values is None:
            raise UsageError(
                "one list of numbers has nothing to compare with"
                if other is None
                else "the base is no list of numbers",
                hint="pass a second list: ca.compare(values, base_values, metric='p99_ms')",
            )
        _refuse_missing(values, base_values)
        return compare_values(
            values,
            base_values,
            metric=metric or VALUES,
            higher_is_better=higher_is_better,
            label_a=labels[0],
            label_b=labels[1],
            **options,  # type: ignore[arg-type] # keywords of the callee
        )
    if other is not None and not isinstance(other, str):
        raise UsageError(
            f"the second argument is a {type(other).__name__}",
            hint="pass the metric's name, or one frame with a column that tells the two apart, and by=",
        )
    if isinstance(other, str) and metric is not None and metric != other:
        raise UsageError(f"two metrics: {other!r} and {metric!r}", hint="pass metric= alone")
    asked = metric or other
    lists = _read_lists(source, asked)
    if lists is not None:
        source = study(source, metric=asked)
        asked = asked or VALUES
    return compare_runs(source, asked, by, base, higher_is_better=higher_is_better, **options)  # type: ignore[arg-type] # keywords


def _refuse_missing(*sides: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> None:
    missing = sum(int(np.isnan(side).sum()) for side in sides)
    if missing:
        raise UsageError(f"{pluralize(missing, 'value')} missing (NaN)", hint="leave them out, knowing why")


def _render_page(title: str, parts: Sequence[DisplayMixin]) -> str:
    """A page of results: text, table and figure of each; the script of the figures once."""
    body, scripts = [], True
    for part in parts:
        if isinstance(part, Study):
            body.append("<h2>What was measured</h2>" + "".join(f"<p>{escape(one)}</p>" for one in part.summary_lines()))
            continue
        heading = "Comparison" if isinstance(part, RunComparison) else "Scaling"
        figure = part.plot().to_html(full_html=False, include_plotlyjs=scripts)
        scripts = False
        notes = "".join(f"<li>{escape(note)}</li>" for note in getattr(part, "warnings", ()))
        body.append(f"<h2>{heading}</h2><p>{escape(part.sentence())}</p>{figure}{part._repr_html_()}<ul>{notes}</ul>")
    style = "body{font:16px/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}td,th{padding:.2rem .6rem}"
    head = f"<meta charset='utf-8'><title>{escape(title)}</title><style>{style}</style>"
    return (
        f"<!doctype html><html lang='en'><head>{head}</head><body><h1>{escape(title)}</h1>{''.join(body)}</body></html>"
    )

"""The figures and tables of the thesis, each with its counterpart made from a dataset, or the reason why there is none.

An item is made by the public call that it names; nothing about the data is typed here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import plotly.graph_objects as go
import polars as pl

from citus_analysis.bottleneck import mean_symbols, study_resources
from citus_analysis.bottleneck.resources import ResourceStudy
from citus_analysis.core.frames import TableSource, convert_to_polars
from citus_analysis.defaults import LEVEL
from citus_analysis.errors import InsufficientDataError
from citus_analysis.plots import plot_connections, plot_device, plot_histograms, plot_nodes, plot_spans
from citus_analysis.published import judge_claims, published
from citus_analysis.published.claims import JudgedClaims
from citus_analysis.published.summaries import count_interval_origins
from citus_analysis.report.comparison import (
    SideBySide,
    hardware_by_size,
    monitoring_overhead,
    overhead_table,
    systems_by_workload,
)
from citus_analysis.report.page import Page
from citus_analysis.report.published import claim_rows, count_claim_verdicts
from citus_analysis.report.scalability import (
    Axis,
    Quantity,
    ScalingPanels,
    configuration_table,
    intensity_table,
    scaling_panels,
)
from citus_analysis.runs.selection import Selection, matching, select_runs
from citus_analysis.spans import compare_with_clients, study_profile, time_histogram
from citus_analysis.spans.profile import ProfileStudy
from citus_analysis.stats.findings import FindingNumber, ReportFinding, state
from citus_analysis.texts.words import join_words, pluralize

#: Key of the thesis among the publications.
_SOURCE: Final = "thesis"
#: Most figures that one item shows; the pages that it names show all.
_MOST: Final = 4

#: Kind of finding -> its words. Parts of sentences have the name of the sentence and their own.
TEMPLATES: Final = {
    "counterparts": "This dataset has a counterpart to {made} of {measured} figures and tables of the thesis that show "
    "measurements; {others} have none in any dataset.",
    "claims": "The thesis makes {claims} that can be judged. Its printed numbers judge them so: {own}; {by_runs}.",
    "claims: by runs": "the runs of this dataset judge them so: {verdicts}",
    "claims: by no runs": "the runs of this dataset judge none",
    "contradicted": "These runs contradict {claims}.",
    "none contradicted": "These runs contradict no claim of the thesis.",
    "claim": "By {judge}: {verdict}.",
    "claim without data": "Neither printed numbers nor these runs bear on it.",
    "printed": "{key}: numbers that the thesis prints.",
    "counterpart": "The counterpart of {key} in this dataset; the page {page} shows it in full ({name}).",
    "models": "The thesis fits a polynomial; the curves here are those of the models in the table.",
    "groups": "{what} of this dataset: {groups}.",
    "intervals": "Of the thesis' {number}, {origins}; intervals here are Student's t on the logarithm.",
    "intervals: normal": "{count} {follow} from the deviation beside {them} by the normal quantile",
    "intervals: t": "{count} {follow} from the deviation beside {them} by Student's t",
    "intervals: neither": "{count} {follow} from the deviation beside {them} at no number of runs",
}


class MadeItem(NamedTuple):
    """The counterpart of a figure or table.

    Attributes:
        figures: its figures; none for a table.
        table: its numbers, or the table itself.
        note: in what it differs from the thesis's; empty if in nothing that every page does not say.
    """

    figures: Sequence[go.Figure]
    table: pl.DataFrame
    note: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return self.table.is_empty()


@dataclass(frozen=True)
class StudyItem:
    """A figure or table of the thesis.

    Attributes:
        key: its number, such as `Figure 4.1`.
        shows: what it shows, in our words.
        page: the page that shows the counterpart in full, and the name of it there; empty for drawings.
        call: the call that makes the counterpart. `ds` is a dataset, `selection` its runs
            (`ca.runs.select_runs(ds)`), `study` their profile (`ca.spans.study_profile(selection, ds)`), `machines`
            the activity of its machines (`ca.bottleneck.study_resources(ds)`).
        needs: what a dataset needs for it; for items without a counterpart, the reason.
        make: makes the counterpart; None if there is none in any dataset.
    """

    key: str
    shows: str
    page: tuple[str, str]
    call: str
    needs: str
    make: Callable[[StudyMaterial], MadeItem] | None = None

    @property
    def name(self) -> str:
        """The name of its CSV file.

        Example:
            >>> study_items()[0].name
            'figure_4_1'
        """
        return re.sub(r"\W+", "_", self.key.lower())


@dataclass(frozen=True)
class StudyMaterial:
    """What counterparts are made of, computed once when it is first used.

    Attributes:
        dataset: the dataset.
        resources: glob patterns of the resources that enter.
        level: confidence level of intervals.
    """

    dataset: TableSource
    resources: str = "*"
    level: float = LEVEL

    @cached_property
    def selection(self) -> Selection:
        """The runs that enter."""
        return select_runs(self.dataset, self.resources)

    @cached_property
    def panels(self) -> dict[Axis, ScalingPanels]:
        """The scaling study along both axes."""
        axes: tuple[Axis, ...] = ("threads", "workers")
        return {axis: scaling_panels(self.selection, axis, level=self.level) for axis in axes}

    @cached_property
    def profile(self) -> ProfileStudy:
        """The profile of the sampled statements."""
        return study_profile(self.selection, self.dataset, level=self.level)

    @cached_property
    def machines(self) -> ResourceStudy:
        """The activity of the machines."""
        return study_resources(self.dataset, self.resources)

    @cached_property
    def percentiles(self) -> pl.DataFrame:
        """Times of sampled statements beside the clients' latency."""
        return compare_with_clients(self.profile, self.dataset, level=self.level)


@dataclass(frozen=True)
class StudyCounterpart:
    """A figure or table of the thesis, and what a dataset has for it.

    Attributes:
        item: the figure or table.
        made: its counterpart; None if there is none.
        reason: why there is none; empty if there is one.
        printed: the numbers that the thesis prints in it, as printed.
        claims: sentences on what the thesis claims of it, with the verdicts.
    """

    item: StudyItem
    made: MadeItem | None
    reason: str
    printed: pl.DataFrame
    claims: tuple[str, ...]


@dataclass(frozen=True)
class StudyFigures:
    """The figures and tables of the thesis in order, and the verdicts on its claims."""

    counterparts: tuple[StudyCounterpart, ...]
    judged: JudgedClaims

    def overview(self) -> pl.DataFrame:
        """One row for each figure and table: what it shows, and its counterpart or the reason why there is none."""
        rows = [
            {
                "thesis": one.item.key,
                "shows": one.item.shows,
                "counterpart": "none" if one.made is None else ", ".join(one.item.page),
                "call": one.item.call or None,
                "reason": one.reason or None,
            }
            for one in self.counterparts
        ]
        return pl.DataFrame(rows, schema=dict.fromkeys(("thesis", "shows", "counterpart", "call", "reason"), pl.String))

    @property
    def findings(self) -> list[ReportFinding]:
        """How many figures and tables have a counterpart, and how many claims the runs support."""
        measured = [one for one in self.counterparts if one.item.make is not None]
        made = sum(one.made is not None for one in measured)
        runs, own = (count_claim_verdicts(self.judged, by) for by in ("runs", "printed numbers"))
        claims = self.judged.claims.filter(judged_by="runs", verdict="contradicted")["claim"]
        contradicted = [f"“{claim.rstrip('.')}”" for claim in claims.unique(maintain_order=True)]
        return [
            state(
                TEMPLATES,
                "counterparts",
                [FindingNumber("counterparts", estimate=made)],
                made=made,
                measured=len(measured),
                others=pluralize(len(self.counterparts) - len(measured), "other"),
            ),
            state(
                TEMPLATES,
                "claims",
                claims=pluralize(self.judged.claims["claim"].n_unique(), "claim"),
                own=own,
                by_runs=TEMPLATES["claims: by runs" if runs else "claims: by no runs"].format(verdicts=runs),
            ),
            state(TEMPLATES, "contradicted" if contradicted else "none contradicted", claims=join_words(contradicted)),
        ]


def study_figures(dataset: TableSource, resources: str = "*", *, level: float = LEVEL) -> StudyFigures:
    """The figures and tables of the thesis, each with its counterpart made from a dataset.

    Args:
        dataset: any dataset; what it has no counterpart to has a reason.
        resources: glob patterns, separated by commas, of the resources that enter; claims are judged by all runs.
        level: confidence level of intervals.

    Example:
        >>> import citus_analysis as ca
        >>> found = ca.report.study_figures(ca.open_dataset("dataset"))  # doctest: +SKIP
        >>> found.overview()  # doctest: +SKIP
    """
    material = StudyMaterial(dataset, resources, level)
    judged = _select_thesis_claims(judge_claims(dataset, level=level))
    numbers = published(_SOURCE)
    return StudyFigures(tuple(_build_counterparts(material, judged, numbers)), judged)


def _select_thesis_claims(judged: JudgedClaims) -> JudgedClaims:
    return JudgedClaims(convert_to_polars(judged.claims).filter(source=_SOURCE), judged.level)


def _build_counterparts(
    material: StudyMaterial, judged: JudgedClaims, numbers: pl.DataFrame
) -> Iterator[StudyCounterpart]:
    said: set[str] = set()
    for item in study_items():
        made, reason = _make_counterpart(item, material)
        # A claim about several figures stands below the first of them.
        claims = [claim for claim in _describe_item_claims(judged, item.key) if claim not in said]
        said.update(claims)
        yield StudyCounterpart(
            item,
            made,
            reason,
            _select_printed_numbers(numbers, item.key),
            tuple(claims),
        )


def _make_counterpart(item: StudyItem, material: StudyMaterial) -> tuple[MadeItem | None, str]:
    if item.make is None:
        return None, item.needs
    try:
        made = item.make(material)
    except InsufficientDataError as error:
        return None, f"{error.problem}; needed: {item.needs}"
    return (None, f"this dataset lacks {item.needs}") if made.is_empty else (made, "")


def _select_printed_numbers(numbers: pl.DataFrame, key: str) -> pl.DataFrame:
    """The numbers of a figure or table of the thesis, as printed: a row for each of its rows."""
    kind, number = key.lower().split()
    part = numbers.filter(table=number if kind == "table" else key.lower())
    once = part.unique(["row", "metric"], keep="first", maintain_order=True)
    return once.pivot("metric", index="row", values="stated", maintain_order=True) if once.height else pl.DataFrame()


def _describe_item_claims(judged: JudgedClaims, key: str) -> Iterator[str]:
    """The claims that name a figure or table as their place, with their verdicts."""
    kind, number = key.lower().split()
    here = rf"\b{kind}s? (?:[\d.]+ and )?{re.escape(number)}(?:\D|$)"
    every = judged.claims.filter(pl.col("place").str.contains(here))
    rows = {row["claim"]: row for row in claim_rows(JudgedClaims(every, judged.level)).iter_rows(named=True)}
    for claim in every["claim"].unique(maintain_order=True):
        row = rows.get(claim, {})
        verdicts = {"printed numbers": row.get("by_printed_numbers"), "these runs": row.get("by_these_runs")}
        said = [TEMPLATES["claim"].format(judge=by, verdict=text) for by, text in verdicts.items() if text]
        yield " ".join([f"“{claim}”", *(said or [TEMPLATES["claim without data"]])])


def show_study(page: Page, found: StudyFigures) -> None:
    """Show every figure and table of the thesis on a page, in order; those without a counterpart as one table."""
    page.findings(found.findings)
    shown = found.overview().drop("reason")
    caption = "The figures and tables of the thesis, and the page with the counterpart and its name there."
    page.table("overview", found.overview(), caption, shown=shown, rows=shown.height)
    for one in found.counterparts:
        if one.made is not None:
            _show(page, one, one.made)
    absent = found.overview().filter(counterpart="none").select("thesis", "shows", "reason")
    page.section("Without a counterpart")
    page.table("without", absent, "Figures and tables without a counterpart, and why.", rows=absent.height)


def _show(page: Page, one: StudyCounterpart, made: MadeItem) -> None:
    item = one.item
    page.section(f"{item.key}: {item.shows}")
    if one.printed.width:
        page.table(f"{item.name}_printed", one.printed, TEMPLATES["printed"].format(key=item.key), rows=8)
    place, name = item.page
    caption = TEMPLATES["counterpart"].format(key=item.key, page=place, name=name)
    if made.figures:
        page.figure(item.name, list(made.figures), made.table, caption)
    else:
        page.table(item.name, made.table, caption, rows=8)
    page.note([*filter(None, [made.note]), *one.claims])


def _make_axis_item(axis: Axis, quantity: Quantity, operation: str = "") -> Callable[[StudyMaterial], MadeItem]:
    """The figures of a quantity along an axis, of one operation or of all."""

    def make(material: StudyMaterial) -> MadeItem:
        panels = material.panels[axis]
        figures = panels.plot(quantity)
        tables = {"throughput": panels.means, "models": panels.models}
        table = tables.get(quantity, panels.relative)
        if operation:
            figures = [one for one in figures if str(one.layout.title.text).startswith(operation)]
            table = table.filter(operation=operation)
        return MadeItem(figures[:_MOST], table, TEMPLATES["models"] if quantity == "models" else "")

    return make


def _make_bars_item(make: Callable[[Selection], SideBySide]) -> Callable[[StudyMaterial], MadeItem]:
    def make_item(material: StudyMaterial) -> MadeItem:
        bars = make(material.selection)
        return MadeItem(bars.plot(most=_MOST), bars.means, _describe_bar_groups(bars))

    return make_item


def _describe_bar_groups(bars: SideBySide) -> str:
    """What the bars are, since the thesis compares others."""
    groups = [str(group) for group in bars.means["group"].unique(maintain_order=True)]
    what = {"system": "Systems", "hardware": "Hardware"}.get(bars.what, bars.what)
    return TEMPLATES["groups"].format(what=what, groups=join_words(groups)) if groups else ""


def describe_stated_intervals(table: str) -> str:
    """From which quantile the intervals of a table of the thesis follow; empty if it has none with a deviation."""
    origins = count_interval_origins(published(_SOURCE, table))
    words = [
        TEMPLATES[f"intervals: {origin}"].format(
            count=count, follow="follows" if count == 1 else "follow", them="it" if count == 1 else "them"
        )
        for origin, count in origins.items()
        if count
    ]
    number = pluralize(sum(origins.values()), "interval")
    return TEMPLATES["intervals"].format(number=number, origins=join_words(words)) if words else ""


def _make_systems_table(material: StudyMaterial) -> MadeItem:
    bars = systems_by_workload(material.selection, level=material.level)
    return MadeItem([], bars.table(), _describe_bar_groups(bars))


def _make_spans_item(kind: str, *, main: bool = True) -> Callable[[StudyMaterial], MadeItem]:
    def make_item(material: StudyMaterial) -> MadeItem:
        rows = material.profile.select_spans(kind, main=main)
        return MadeItem([plot_spans(rows, title=f"Mean time of {kind.upper()}")] if rows.height else [], rows)

    return make_item


def _make_histograms(material: StudyMaterial) -> MadeItem:
    figures, tables = [], []
    for kind in ("insert", "select"):
        times = material.profile.get_times(kind)
        if times.height:
            table = time_histogram(times)
            figures.append(plot_histograms(table, title=f"{kind.upper()}: times of statements"))
            tables.append(table.with_columns(statement=pl.lit(kind.upper())))
    return MadeItem(figures, pl.concat(tables) if tables else pl.DataFrame())


def _make_contrast_item(operation: str) -> Callable[[StudyMaterial], MadeItem]:
    def make_item(material: StudyMaterial) -> MadeItem:
        found = [one for one in material.machines.contrasts if one.operation == operation][:1]
        figures = [
            plot_nodes(one.samples.filter(configuration=name), title=name)
            for one in found
            for name in one.configurations
        ]
        return MadeItem(figures, found[0].means if found else pl.DataFrame())

    return make_item


def _await(material: StudyMaterial) -> MadeItem:
    detail = material.machines.detail
    if detail is None or detail.devices.is_empty():
        return MadeItem([], pl.DataFrame())
    windows = [None, detail.around] if detail.around else [None]
    figures = [plot_device(detail.devices, detail.checkpoints, window=window) for window in windows]
    return MadeItem(figures, detail.devices)


def _make_connection_figures(material: StudyMaterial) -> MadeItem:
    rows = material.machines.connections
    figures = [plot_connections(rows, of=kind) for kind in ("client", "internal")] if rows.height else []
    return MadeItem(figures, rows)


def _make_percentiles_item(statement: str = "") -> Callable[[StudyMaterial], MadeItem]:
    def make_item(material: StudyMaterial) -> MadeItem:
        rows = material.percentiles
        return MadeItem([], rows.filter(statement=statement) if statement else rows.sort("sampled_percent"))

    return make_item


def _tabulate_stated_settings(material: StudyMaterial, names: str) -> MadeItem:
    """What the descriptions of the systems state under these names: a row for each name and value."""
    stated = matching(convert_to_polars(material.dataset.table("settings")), material.resources)
    chosen = stated.filter(pl.col("name").str.contains(names)).drop_nulls("value")
    grouped = chosen.group_by("name", "value", maintain_order=True).agg(systems=pl.col("resource").n_unique())
    return MadeItem([], grouped.sort("name", "value"))


_THREADS: Final = "runs of one set-up with two or more numbers of client threads"
_WORKERS: Final = "runs of one set-up on two or more numbers of workers"
_SYSTEMS: Final = "runs of the same operation on two systems"
_TRACES: Final = "sampled statements in the servers' logs"
_CPU: Final = "CPU samples under few and under many client threads"
_DRAWING: Final = "a drawing, without measurements"
_ITEMS: Final = (
    StudyItem(
        "Figure 4.1", "throughput by connections and cluster size, INSERT and SELECT",
        ("scalability", "throughput_by_threads"), 'ca.report.scaling_panels(selection, "threads").plot("throughput")',
        _THREADS, _make_axis_item("threads", "throughput"),
    ),
    StudyItem(
        "Figure 4.2", "throughput by workers in production", ("scalability", "throughput_by_workers"),
        'ca.report.scaling_panels(selection, "workers").plot("throughput")', _WORKERS,
        _make_axis_item("workers", "throughput"),
    ),
    StudyItem(
        "Figure 4.3", "throughput of two deployments of one size", ("comparison", "systems_by_workload"),
        "ca.report.systems_by_workload(selection).plot()", _SYSTEMS, _make_bars_item(systems_by_workload),
    ),
    StudyItem(
        "Figure 4.4", "throughput on two kinds of hardware by cluster size", ("comparison", "hardware_by_size"),
        "ca.report.hardware_by_size(selection).plot()",
        "runs of one load on systems whose descriptions state different hardware (`hardware:` in config.yml)",
        _make_bars_item(hardware_by_size),
    ),
    StudyItem(
        "Figure 4.5", "throughput of SELECT by connections", ("scalability", "throughput_by_threads"),
        'ca.report.scaling_panels(ca.runs.select_runs(ds, phase="run"), "threads").plot("throughput")',
        f"{_THREADS}, of SELECT", _make_axis_item("threads", "throughput", "SELECT"),
    ),
    StudyItem(
        "Figure 4.6", "throughput of INSERT by connections", ("scalability", "throughput_by_threads"),
        'ca.report.scaling_panels(ca.runs.select_runs(ds, phase="load"), "threads").plot("throughput")',
        f"{_THREADS}, of INSERT", _make_axis_item("threads", "throughput", "INSERT"),
    ),
    StudyItem(
        "Figure 4.7", "throughput by workers, and its speedup", ("scalability", "speedup_by_workers"),
        'ca.report.scaling_panels(selection, "workers").plot("speedup")', _WORKERS,
        _make_axis_item("workers", "speedup"),
    ),
    StudyItem(
        "Figure 4.8", "Aurora and Citus, workloads A to F", ("comparison", "systems_by_workload"),
        "ca.report.systems_by_workload(selection).plot()", _SYSTEMS, _make_bars_item(systems_by_workload),
    ),
    StudyItem(
        "Figure 4.9", "Spanner and Citus, workloads A to F", ("comparison", "systems"),
        "ca.report.systems_by_workload(selection).table()", _SYSTEMS,
        _make_systems_table,
    ),
    StudyItem(
        "Figure 5.1", "connections per node over time, of clients and between nodes", ("resources", "connections"),
        'ca.plots.plot_connections(machines.connections, of="client")', "snapshots of sessions",
        _make_connection_figures,
    ),
    StudyItem(
        "Figure 5.2", "distribution of execution times", ("profile", "histogram"),
        'ca.plots.plot_histograms(ca.spans.time_histogram(study.get_times("insert")))', _TRACES, _make_histograms,
    ),
    StudyItem(
        "Figure 5.3", "profile of INSERT with the binary protocol", ("profile", "spans_of_variants"),
        'ca.plots.plot_spans(study.select_spans("insert", main=False))', f"{_TRACES}, of INSERT in further set-ups",
        _make_spans_item("insert", main=False),
    ),
    StudyItem(
        "Figure 5.4", "profile of INSERT by cluster size", ("profile", "spans"),
        'ca.plots.plot_spans(study.select_spans("insert"))', f"{_TRACES}, of INSERT", _make_spans_item("insert"),
    ),
    StudyItem(
        "Figure 5.5", "curves fitted to throughput by connections", ("scalability", "models_by_threads"),
        'ca.report.scaling_panels(selection, "threads").plot("models")', _THREADS, _make_axis_item("threads", "models"),
    ),
    StudyItem(
        "Figure 5.6", "CPU under few and many connections, INSERT", ("resources", "cpu_side_by_side"),
        '[ca.plots.plot_nodes(one.samples.filter(configuration=name)) for one in machines.contrasts '
        'if one.operation == "INSERT" for name in one.configurations]',
        f"{_CPU}, of INSERT", _make_contrast_item("INSERT"),
    ),
    StudyItem(
        "Figure 5.7", "await over time, and around a checkpoint", ("resources", "await_over_time"),
        "ca.plots.plot_device(machines.detail.devices, machines.detail.checkpoints, window=machines.detail.around)",
        "samples of devices within runs", _await,
    ),
    StudyItem(
        "Figure 5.8", "profile of SELECT by cluster size", ("profile", "spans"),
        'ca.plots.plot_spans(study.select_spans("select"))', f"{_TRACES}, of SELECT", _make_spans_item("select"),
    ),
    StudyItem(
        "Figure 5.9", "CPU under few and many connections, SELECT", ("resources", "cpu_side_by_side"),
        '[ca.plots.plot_nodes(one.samples.filter(configuration=name)) for one in machines.contrasts '
        'if one.operation == "SELECT" for name in one.configurations]',
        f"{_CPU}, of SELECT", _make_contrast_item("SELECT"),
    ),
    StudyItem(
        "Table 4.1", "machines of both kinds of hardware", ("comparison", "set_up"),
        'ds.table("settings")', "descriptions of the systems that state their hardware",
        lambda one: _tabulate_stated_settings(one, r"^hardware$"),
    ),
    StudyItem(
        "Table 4.2", "throughput, time on the servers and latency at the client by intensity",
        ("scalability", "intensity"), "ca.report.intensity_table(selection, ds)",
        "runs of one set-up with two or more numbers of records or operations",
        lambda one: MadeItem([], intensity_table(one.selection, one.dataset, level=one.level)),
    ),
    StudyItem(
        "Table 5.2", "settings of the nodes", ("resources", "set_up"), 'ds.table("settings")',
        "descriptions of the systems with the settings of their servers",
        lambda one: _tabulate_stated_settings(one, r"^settings\."),
    ),
    StudyItem(
        "Table 5.3", "throughput with and without monitoring", ("comparison", "monitoring"),
        "ca.report.overhead_table(ca.report.monitoring_overhead(selection))",
        "runs of one set-up with a sampled client and without it",
        lambda one: MadeItem([], overhead_table(monitoring_overhead(one.selection, level=one.level))),
    ),
    StudyItem(
        "Table 5.4", "percentiles of INSERT on the server beside the clients' latency", ("profile", "percentiles"),
        'ca.spans.compare_with_clients(study, ds).filter(statement="INSERT")', f"{_TRACES}, of INSERT",
        _make_percentiles_item("INSERT"),
    ),
    StudyItem(
        "Table 5.5", "the same by share of sampled operations", ("profile", "percentiles"),
        'ca.spans.compare_with_clients(study, ds).sort("sampled_percent")', _TRACES, _make_percentiles_item(),
    ),
    StudyItem(
        "Table 5.6", "mean, standard deviation and interval by connections",
        ("scalability", "throughput_wide_by_threads"),
        'ca.report.scaling_panels(selection, "threads").table("throughput")', _THREADS,
        lambda one: MadeItem([], one.panels["threads"].table("throughput"), describe_stated_intervals("5.6")),
    ),
    StudyItem(
        "Table 5.7", "mean, standard deviation and interval by workers", ("scalability", "configurations"),
        "ca.report.configuration_table(selection)", "runs",
        lambda one: MadeItem([], configuration_table(one.selection, level=one.level), describe_stated_intervals("5.7")),
    ),
    StudyItem(
        "Table 5.8", "percentiles of SELECT on the server beside the clients' latency", ("profile", "percentiles"),
        'ca.spans.compare_with_clients(study, ds).filter(statement="SELECT")', f"{_TRACES}, of SELECT",
        _make_percentiles_item("SELECT"),
    ),
    StudyItem(
        "Table 5.9", "functions by their mean share of CPU time", ("resources", "functions_mean"),
        'ca.bottleneck.mean_symbols(ds.table("perf_symbols"))', "reports of perf",
        lambda one: MadeItem(
            [], mean_symbols(matching(convert_to_polars(one.dataset.table("perf_symbols")), one.resources))
        ),
    ),
    *(
        StudyItem(f"Figure {number}", shows, ("", ""), "", _DRAWING)
        for number, shows in (
            ("2.1", "volatile and non-volatile storage"), ("2.2", "PostgreSQL's query parser"),
            ("2.3", "architecture of Citus"), ("2.4", "architecture of Citus 11"),
            ("2.5", "a global process id of Citus, parsed"), ("3.1", "flow chart of the USE method"),
            ("3.2", "queues of YCSB with Cassandra"), ("5.10", "thrashing, explained"),
        )
    ),
    StudyItem("Table 3.1", "YCSB's workloads", ("", ""), "", "a list of workloads, without measurements"),
    StudyItem(
        "Table 5.1", "parameters of a benchmark", ("", ""), "",
        "a list of parameters; those of an experiment here are in docs/experiment-fields.md",
    ),
)  # fmt: skip


def study_items() -> tuple[StudyItem, ...]:
    """The figures and tables of the thesis: those with measurements in order, then the others.

    Example:
        >>> [item.key for item in study_items()[:2]]
        ['Figure 4.1', 'Figure 4.2']
    """
    return _ITEMS

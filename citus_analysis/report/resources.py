"""The resources report: what limits the servers and what is unusual first, the measured system second."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import polars as pl

from citus_analysis.attribution.function_changes import describe_timer_skid
from citus_analysis.bottleneck.machine_work import ForeignWork, place_text
from citus_analysis.bottleneck.profiles import CpuContrast
from citus_analysis.bottleneck.resources import ResourceStudy, compute_connection_balance, study_resources
from citus_analysis.core.frames import TableSource, convert_to_polars
from citus_analysis.runs.selection import Question
from citus_analysis.stats import mean_interval
from citus_analysis.stats.findings import (
    FindingNumber,
    ReportFinding,
    state,
)
from citus_analysis.texts.names import find_differing_parts
from citus_analysis.texts.numbers import format_adding_up
from citus_analysis.texts.words import format_cluster_size, join_words, pluralize

#: A mean needs at least this many samples.
_ENOUGH: Final = 5
#: Busy CPU time from which a sentence states that hardly any was idle.
_NEARLY_ALL_PERCENT: Final = 90.0
#: Share of the time in which tasks were stalled from which a sentence states it.
_STALLED_PERCENT: Final = 10.0
_AWAITED: Final = {"cpu": "CPU", "io": "disks", "memory": "memory", "irq": "interrupts"}
_PARTS: Final = {"kernel": "the kernel", "other": "other code"}
#: Systems with samples during checkpoints and outside of them, from which their times are compared; systems named.
_TESTABLE: Final = 3
_NAMED: Final = 4

#: Kind of finding -> its words. Parts of sentences have the name of the sentence and their own.
TEMPLATES: Final = {
    "quota": "A quota of CPU time stopped the server that reached it most often in {spread} (means of runs). A stopped "
    "server continues at the beginning of the next period, so times of statements grow in steps of a period, and "
    "samples of a machine's CPUs do not show how busy a node was.",
    "quota: one": "{high:.0f} % of the kernel's periods in {most}",
    "quota: several": "{low:.0f} % of the kernel's periods in {least} to {high:.0f} % in {most}",
    "throttling": "The kernel limited {groups} to a share of CPU time and stopped {them} in {share} % of its periods "
    "(means of runs). A stopped server continues at the beginning of the next period: times of statements grow in "
    "steps of a period, and samples of a whole machine's CPUs do not show how busy a node was.",
    "foreign work": "In {number} of {runs}, a machine did so much work that is not the run's own that {these} doubtful "
    "and {enter} no mean unless allowed: for {seconds:.0f} s between {begin} and {end} UTC, it took {amount} of its "
    "CPU time ({systems}).",
    "little foreign work": "No machine did so much other work that a run is doubtful ({runs} compared; {some} had "
    "some, for {seconds:.0f} s in all).",
    "no foreign work": "No machine did other work that shows in its CPU time ({runs} compared).",
    "foreign work unknown": "Whether a machine did other work is not known of {runs}, which {have} fewer than three "
    "others of {their} kind, and neither pidstat nor control groups that account for nodes and clients.",
    "CPU": "The {cpus} had time to spare in all {systems} ({means}).",
    "CPU: full": "The {cpus} were busy at least {nearly_all:.0f} % of the time in {full} of {systems} ({means}).",
    "CPU: one": "The machine's CPUs were busy {high:.0f} % of the time while clients measured {most}.",
    "CPU: none": "No sample of CPU time with a timestamp was taken during a run.",
    "CPU: of machines": "CPUs of the machines, which are not those that a quota leaves to a node,",
    "CPU: means": "means from {low:.0f} % in {least} to {high:.0f} % in {most}",
    "programs": "Of the programs that pidstat listed, {program}{node} of {resource} used most CPU time: {percent:.0f} "
    "% of one CPU, all its processes together.",
    "CPU by threads": "{operation} on {size} keeps the CPUs {low:.0f} % busy with {few} and {high:.0f} % with {many}.",
    "pressure": "At least one task{node} of {resource} was stalled for the {awaited} {percent:.0f} % of the time, and "
    "{largest:.0f} % at most.",
    "device": "The busiest device, {device} in {resource}, had a request in flight {mean:.0f} % of the time, and "
    "{largest:.0f} % at most{waiting}.",
    "device: waiting": "; a request took {await_ms:.2f} ms on average",
    "device: none": "No sample of a device with a timestamp was taken during a run.",
    "checkpoints": "Device requests took {ratio:.2g} times as long during checkpoints as otherwise ({low:.2g} to "
    "{high:.2g}; geometric mean of {systems}).",
    "perf": "{shares}. The function with the largest share is {symbol}, {percent:.1f} % ({mean}).{skid}",
    "perf: all samples": "Of all samples of perf in {resource}, {parts}",
    "perf: named samples": "perf's report of {resource} names the functions of {named} % of all samples: {parts}",
    "perf: none": "perf recorded no functions in these runs.",
    "connections": "{who} had {client} connections from clients{others} (medians over time).",
    "connections: one node": "The server of {resource}",
    "connections: nodes": "Each of the {nodes} nodes of {resource}",
    "connections: from nodes": " and {internal} from other nodes",
}


def state_resources(study: ResourceStudy) -> list[ReportFinding]:
    """What limits the servers and what is unusual first, then CPU, programs, devices, checkpoints and perf."""
    return [
        *state_quota(study.throttling),
        *state_foreign_work(study.foreign),
        _state_cpu(study.cpu, is_held=not study.throttling.is_empty()),
        *_state_programs(study.programs),
        *[_state_cpu_contrast(one) for one in study.contrasts][:1],
        *_state_pressure(study.pressure),
        _state_busiest_device(study.devices),
        *_state_checkpoints(study.checkpoints),
        _state_perf_samples(study),
        *_state_connections(study.connections),
    ]


def state_foreign_work(foreign: ForeignWork) -> list[ReportFinding]:
    """Work on the machines that is not the runs' own: the runs, their seconds and the amount; or that none was found.

    Args:
        foreign: result of :func:`citus_analysis.bottleneck.machine_work.study_foreign_work`.
    """
    rows, found = convert_to_polars(foreign.runs), foreign.doubtful
    judged = rows.filter(pl.col("method") != "not known")
    runs, unknown = pluralize(judged.height, "run"), rows.height - judged.height
    have, their = ("has", "its") if unknown == 1 else ("have", "their")
    blind = state(TEMPLATES, "foreign work unknown", runs=pluralize(unknown, "run"), have=have, their=their)
    notes = [blind] if unknown else []
    if found.is_empty():
        some = judged.filter(pl.col("foreign_s") > 0)
        kind = "little foreign work" if some.height else "no foreign work"
        found_none = state(TEMPLATES, kind, (), runs=runs, some=some.height, seconds=some["foreign_s"].sum())
        return [*([found_none] if judged.height else []), *notes]
    least, most = (float(str(value)) for value in (found["foreign_percent"].min(), found["foreign_percent"].max()))
    times = found.select(
        pl.col("begin_time").min().dt.strftime("%Y-%m-%d %H:%M:%S"), pl.col("end_time").max().dt.strftime("%H:%M:%S")
    )
    begin, end = times.row(0)
    # Names of systems may contain commas.
    systems = found["resource"].unique(maintain_order=True).to_list()
    more = [f"{len(systems) - _NAMED} more"] if len(systems) > _NAMED else []
    many = found.height > 1
    return [
        state(
            TEMPLATES,
            "foreign work",
            [
                FindingNumber(name, estimate=percent)
                for name, percent in found.select("resource", "foreign_percent").rows()
            ],
            number=found.height,
            runs=runs,
            seconds=found["foreign_s"].sum(),
            begin=begin,
            end=end,
            amount=f"{least:.0f} %" if round(least) == round(most) else f"{least:.0f} to {most:.0f} %",
            systems="; ".join([*systems[:_NAMED], *more]),
            these="these runs are" if many else "this run is",
            enter="enter" if many else "enters",
        ),
        *notes,
    ]


def _state_connections(connections: pl.DataFrame) -> list[ReportFinding]:
    if connections.is_empty():
        return []
    medians = compute_connection_balance(connections)
    ranges = (medians.select(low=pl.col(name).min(), high=pl.col(name).max()).row(0) for name in ("client", "internal"))
    client, internal = (f"{low:.0f}" if low == high else f"{low:.0f} to {high:.0f}" for low, high in ranges)
    one = medians.height == 1
    who = TEMPLATES["connections: one node" if one else "connections: nodes"]
    return [
        state(
            TEMPLATES,
            "connections",
            who=who.format(resource=connections["resource"][0], nodes=medians.height),
            client=client,
            others="" if one else TEMPLATES["connections: from nodes"].format(internal=internal),
        )
    ]


def _state_cpu(cpu: pl.DataFrame, *, is_held: bool) -> ReportFinding:
    if cpu.is_empty():
        return state(TEMPLATES, "CPU: none")
    ordered = cpu.sort("busy_percent")
    numbers = [FindingNumber(name, estimate=busy) for busy, name in ordered.select("busy_percent", "resource").rows()]
    least, most = numbers[0], numbers[-1]
    full = cpu.filter(pl.col("busy_percent") >= _NEARLY_ALL_PERCENT).height
    ends = {"low": least.estimate, "least": least.subject, "high": most.estimate, "most": most.subject}
    return state(
        TEMPLATES,
        "CPU: one" if cpu.height == 1 else "CPU: full" if full else "CPU",
        numbers,
        **ends,
        cpus=TEMPLATES["CPU: of machines"] if is_held else "CPUs",
        nearly_all=_NEARLY_ALL_PERCENT,
        full=full,
        systems=pluralize(cpu.height, "system"),
        means=TEMPLATES["CPU: means"].format_map(ends),
    )


def _name_node(node: str | None) -> str:
    return f" on {place_text(node)}" if node is not None else ""


def _state_programs(programs: pl.DataFrame) -> list[ReportFinding]:
    used = programs.filter(pl.col("cpu_percent") > 0).sort("cpu_percent", descending=True)
    return [
        state(
            TEMPLATES,
            "programs",
            [FindingNumber(f"{row['program']}, {row['resource']}", estimate=row["cpu_percent"])],
            program=row["program"],
            node=_name_node(row["node"]),
            resource=row["resource"],
            percent=row["cpu_percent"],
        )
        for row in used.head(1).iter_rows(named=True)
    ]


def _state_pressure(pressure: pl.DataFrame) -> list[ReportFinding]:
    some = pressure.filter((pl.col("scope") == "some") & (pl.col("stalled_percent") >= _STALLED_PERCENT))
    return [
        state(
            TEMPLATES,
            "pressure",
            [FindingNumber(f"{row['pressure']}, {row['resource']}", estimate=row["stalled_percent"])],
            node=_name_node(row["node"]),
            resource=row["resource"],
            awaited=_AWAITED[row["pressure"]],
            percent=row["stalled_percent"],
            largest=row["largest_stalled_percent"],
        )
        for row in some.head(1).iter_rows(named=True)
    ]


def _state_cpu_contrast(contrast: CpuContrast) -> ReportFinding:
    busy = contrast.means["busy_percent"].to_list()
    few, many = contrast.threads
    return state(
        TEMPLATES,
        "CPU by threads",
        [FindingNumber(name, estimate=mean) for name, mean in zip(contrast.configurations, busy, strict=True)],
        operation=contrast.operation,
        size=format_cluster_size(contrast.workers),
        low=busy[0],
        high=busy[1],
        few=pluralize(few, "client thread"),
        many=many,
    )


def _state_busiest_device(devices: pl.DataFrame) -> ReportFinding:
    if devices.is_empty():
        return state(TEMPLATES, "device: none")
    row = devices.row(0, named=True)
    # iostat divides by an interval that it measures itself, so that a full one may come out above 100 %.
    mean, largest = (min(row[name], 100.0) for name in ("utilization_percent", "largest_utilization_percent"))
    return state(
        TEMPLATES,
        "device",
        [FindingNumber(f"{row['device']}, {row['resource']}", estimate=mean)],
        device=row["device"],
        resource=row["resource"],
        mean=mean,
        largest=largest,
        waiting="" if row["await_ms"] is None else TEMPLATES["device: waiting"].format_map(row),
    )


def _state_checkpoints(checkpoints: pl.DataFrame) -> list[ReportFinding]:
    """Whether device requests took longer during checkpoints, if enough systems have samples of both times."""
    both = checkpoints.drop_nulls(["await_during_ms", "await_outside_ms"]).filter(
        pl.min_horizontal("samples_during", "samples_outside") >= _ENOUGH,
        pl.min_horizontal("await_during_ms", "await_outside_ms") > 0,
    )
    if both.height < _TESTABLE:
        return []
    logs = (both["await_during_ms"] / both["await_outside_ms"]).log().to_list()
    ratio = mean_interval(logs)
    middle, (low, high) = math.exp(ratio.estimate), (math.exp(end) for end in ratio.ends if end is not None)
    if low <= 1 <= high:
        return []
    number = FindingNumber("during checkpoints", "otherwise", middle, low, high)
    systems = pluralize(both.height, "system")
    return [state(TEMPLATES, "checkpoints", [number], ratio=middle, low=low, high=high, systems=systems)]


def _state_perf_samples(study: ResourceStudy) -> ReportFinding:
    if study.symbols.is_empty():
        return state(TEMPLATES, "perf: none")
    top = study.symbols.row(0, named=True)
    mine = study.modules.filter(pl.col("resource") == top["resource"], pl.col("event").eq_missing(top["event"]))
    recordings = mine.select("run_id", "node").n_unique()
    shares = mine.group_by("part").agg(pl.col("self_percent").sum() / recordings)
    largest = shares.sort("self_percent", "part", descending=[True, False]).head(3)
    known, named = float(shares["self_percent"].sum()), [float(share) for share in largest["self_percent"]]
    printed, whole = format_adding_up([*named, known - sum(named)], known, more=1)
    words = [f"{share} % in {_PARTS.get(part, part)}" for share, part in zip(printed, largest["part"], strict=False)]
    if known < _NEARLY_ALL_PERCENT:
        rest = [f"{printed[-1]} % elsewhere"] if float(printed[-1]) else []
        kind, parts = "perf: named samples", join_words([*words, *rest])
    else:
        kind, parts = "perf: all samples", join_words(words).replace(" % in ", " % were in ", 1)
    skid = describe_timer_skid(top["event"])
    return state(
        TEMPLATES,
        "perf",
        [FindingNumber(f"{top['symbol']}, {top['resource']}", estimate=top["mean_percent"])],
        shares=TEMPLATES[kind].format(resource=top["resource"], named=whole, parts=parts),
        symbol=top["symbol"],
        percent=top["mean_percent"],
        mean=f"mean of {pluralize(top['recordings'], 'recording')}" if top["recordings"] > 1 else "one recording",
        skid=f" {skid}" if skid else "",
    )


def name_run(resource: str, iteration: int | None) -> str:
    """A run by its resource and, if it has several, its iteration.

    Example:
        >>> name_run("citus-w4", 2), name_run("citus-w4", None)
        ('citus-w4, iteration 2', 'citus-w4')
    """
    return resource if iteration is None else f"{resource}, iteration {iteration}"


def state_quota(held: pl.DataFrame) -> list[ReportFinding]:
    """The effect of a limit that the kernel set on the servers' CPU time; empty if there was none.

    Args:
        held: result of :func:`citus_analysis.bottleneck.select_throttling_over_time`.
    """
    if held.is_empty():
        return []
    share = pl.col("throttled_periods_percent").mean()
    most = held.group_by("resource", "control_group").agg(share).group_by("resource").agg(
        pl.col("throttled_periods_percent").max()
    ).sort("throttled_periods_percent", "resource")  # fmt: skip
    numbers = [FindingNumber(name, estimate=percent) for name, percent in most.rows()]
    (least, low), (name, high) = most.row(0), most.row(-1)
    spread = TEMPLATES["quota: several" if most.height > 1 else "quota: one"]
    return [state(TEMPLATES, "quota", numbers, spread=spread.format(low=low, least=least, high=high, most=name))]


def write_throttling_warnings(held: pl.DataFrame) -> list[str]:
    """The effect of a limit that the kernel set on the servers' CPU time; empty if there was none.

    Args:
        held: result of :func:`citus_analysis.bottleneck.select_throttling_over_time`.
    """
    if held.is_empty():
        return []
    groups = held.group_by("resource", "control_group").agg(pl.col("throttled_periods_percent").mean())
    low, high = (f"{groups['throttled_periods_percent'].quantile(q) or 0.0:.0f}" for q in (0.0, 1.0))
    number, share = held["control_group"].n_unique(), low if low == high else f"{low} to {high}"
    named = {"groups": pluralize(number, "control group"), "them": "it" if number == 1 else "them"}
    return [TEMPLATES["throttling"].format(share=share, **named)]


def select_shown_throttling(study: ResourceStudy) -> pl.DataFrame:
    """Control groups over time of the run shown in detail, or else of the first run that was limited.

    Each `control_group` is named by the parts of its path that differ from those of the others.
    """
    held, detail = study.throttling, study.detail
    # A run that is alone in its resource has no iteration.
    of_detail = pl.col("iteration").eq_missing(pl.lit(detail.iteration if detail else None))
    mine = held.filter(of_detail, resource=detail.resource) if detail else held.head(0)
    shown = mine if mine.height else held.filter(pl.col("run_id") == pl.col("run_id").first())
    names = find_differing_parts(shown["control_group"].unique().to_list())
    return shown.with_columns(pl.col("control_group").replace(names))


@dataclass(frozen=True)
class ResourceReport:
    """What the page of the resources shows.

    Attributes:
        study: the samples of the chosen resources.
    """

    study: ResourceStudy

    @property
    def findings(self) -> list[ReportFinding]:
        """What the page begins with."""
        return state_resources(self.study)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Samples that could not be placed in a run."""
        return self.study.warnings

    @property
    def foreign_work(self) -> pl.DataFrame:
        """The runs in which a machine did other work, in the order of time."""
        return convert_to_polars(self.study.foreign.runs).filter(pl.col("foreign_s") > 0).sort("begin_time")

    @property
    def foreign_seconds(self) -> pl.DataFrame:
        """Busy CPU time of the machines in these runs, second by second."""
        found = ["resource", "run_id", "machine"]
        return convert_to_polars(self.study.foreign.seconds).join(self.foreign_work, on=found, how="semi")

    @property
    def connection_balance(self) -> pl.DataFrame:
        """Connections per node of the run whose sessions are shown: medians over the samples."""
        return compute_connection_balance(self.study.connections).drop("run_id", "resource")

    @property
    def throttling(self) -> pl.DataFrame:
        """Control groups over time of one run that the kernel limited."""
        return select_shown_throttling(self.study)


def study_machines(dataset: TableSource, question: Question, *, detail: str = "", iteration: int = 0) -> ResourceReport:
    r"""The activity of a dataset's machines as the page of the resources shows it.

    Args:
        dataset: a dataset, or another source of its tables.
        question: the resources that enter, and the statuses of their runs.
        detail: resource that is shown over time; empty: that with the most checkpoints.
        iteration: its iteration; 0: the one with the most checkpoints.

    Raises:
        UnknownNameError: no run is of a resource that a pattern matches, or the detail has no samples.
        InsufficientDataError: the chosen resources have no samples at all.

    Example:
        >>> import citus_analysis as ca
        >>> found = study_machines(ca.open_dataset("dataset"), ca.runs.Question(resources="w2*"))  # doctest: +SKIP
        >>> print(*found.findings, sep="\n")  # doctest: +SKIP
    """
    resources, allowed = question.resources, question.include_status
    return ResourceReport(
        study_resources(dataset, resources, detail=detail, iteration=iteration, include_status=allowed)
    )

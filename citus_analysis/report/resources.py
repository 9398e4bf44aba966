"""Sentences of the resources report: each states a finding first, and the measured system second."""

from __future__ import annotations

import math
from typing import Final

import polars as pl

from citus_analysis.attribution.associations import describe_timer_skid
from citus_analysis.bottleneck.machine_work import ForeignWork, place_text
from citus_analysis.bottleneck.profiles import CpuContrast
from citus_analysis.bottleneck.resources import ResourceStudy, compute_connection_balance
from citus_analysis.core.frames import convert_to_polars
from citus_analysis.stats import mean_interval
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


def write_resource_sentences(study: ResourceStudy) -> list[str]:
    """What limits the servers and what is unusual first, then CPU, programs, devices, checkpoints and perf."""
    contrasts = [_describe_cpu_contrast(one) for one in study.contrasts][:1]
    first = [*write_quota_sentences(study.throttling), *write_foreign_sentences(study.foreign)]
    machines = [
        *_write_pressure_sentences(study.pressure),
        _describe_busiest_device(study.devices),
        *_write_checkpoint_sentences(study.checkpoints),
        _describe_perf_samples(study),
    ]
    used = [
        *_write_cpu_sentences(study.cpu, is_held=not study.throttling.is_empty()),
        *_write_program_sentences(study.programs),
        *contrasts,
    ]
    return [*first, *used, *machines, *_write_connections(study.connections)]


def write_foreign_sentences(foreign: ForeignWork) -> list[str]:
    """Work on the machines that is not the runs' own: the runs, their seconds and the amount; or that none was found.

    Args:
        foreign: result of :func:`citus_analysis.bottleneck.machine_work.study_foreign_work`.
    """
    rows, found = convert_to_polars(foreign.runs), foreign.doubtful
    judged = rows.filter(pl.col("method") != "not known")
    unknown = rows.height - judged.height
    blind = (
        f"Whether a machine did other work is not known of {pluralize(unknown, 'run')}, which "
        f"{'has' if unknown == 1 else 'have'} fewer than three others of {'its' if unknown == 1 else 'their'} kind, "
        "and neither pidstat nor control groups that account for nodes and clients."
    )
    notes = [blind] if unknown else []
    if found.is_empty():
        none = f"No machine did other work that shows in its CPU time ({pluralize(judged.height, 'run')} compared)."
        return [*([none] if judged.height else []), *notes]
    least, most = (float(str(value)) for value in (found["foreign_percent"].min(), found["foreign_percent"].max()))
    amount = f"{least:.0f} %" if round(least) == round(most) else f"{least:.0f} to {most:.0f} %"
    times = found.select(
        pl.col("begin_time").min().dt.strftime("%Y-%m-%d %H:%M:%S"), pl.col("end_time").max().dt.strftime("%H:%M:%S")
    )
    begin, end = times.row(0)
    # Names of systems may contain commas.
    systems = found["resource"].unique(maintain_order=True).to_list()
    more = [f"{len(systems) - _NAMED} more"] if len(systems) > _NAMED else []
    names = "; ".join([*systems[:_NAMED], *more])
    many = found.height > 1
    return [
        f"A machine did work that is not the run's own in {found.height} of {pluralize(judged.height, 'run')}, for "
        f"{found['foreign_s'].sum():.0f} s between {begin} and {end} UTC, which took "
        f"{amount} of its CPU time ({names}). {'These runs are' if many else 'This run is'} doubtful and "
        f"{'enter' if many else 'enters'} no mean unless allowed.",
        *notes,
    ]


def _write_connections(connections: pl.DataFrame) -> list[str]:
    if connections.is_empty():
        return []
    medians = compute_connection_balance(connections)
    ranges = (medians.select(low=pl.col(name).min(), high=pl.col(name).max()).row(0) for name in ("client", "internal"))
    client, internal = (f"{low:.0f}" if low == high else f"{low:.0f} to {high:.0f}" for low, high in ranges)
    resource = connections["resource"][0]
    who = f"The server of {resource}" if medians.height == 1 else f"Each of the {medians.height} nodes of {resource}"
    of_nodes = "" if medians.height == 1 else f" and {internal} from other nodes"
    return [f"{who} had {client} connections from clients{of_nodes} (medians over time)."]


def _write_cpu_sentences(cpu: pl.DataFrame, *, is_held: bool) -> list[str]:
    if cpu.is_empty():
        return ["No sample of CPU time with a timestamp was taken during a run."]
    ordered = cpu.sort("busy_percent")
    (low, least), (high, most) = (ordered.select("busy_percent", "resource").row(at) for at in (0, -1))
    full = cpu.filter(pl.col("busy_percent") >= _NEARLY_ALL_PERCENT).height
    systems = pluralize(cpu.height, "system")
    if cpu.height == 1:
        return [f"The machine's CPUs were busy {high:.0f} % of the time while clients measured {most}."]
    what = "CPUs of the machines, which are not those that a quota leaves to a node," if is_held else "CPUs"
    means = f"means from {low:.0f} % in {least} to {high:.0f} % in {most}"
    if full:
        return [
            f"The {what} were busy at least {_NEARLY_ALL_PERCENT:.0f} % of the time in {full} of {systems} ({means})."
        ]
    return [f"The {what} had time to spare in all {systems} ({means})."]


def _write_program_sentences(programs: pl.DataFrame) -> list[str]:
    used = programs.filter(pl.col("cpu_percent") > 0).sort("cpu_percent", descending=True)
    if used.is_empty():
        return []
    row = used.row(0, named=True)
    where = f" on {place_text(row['node'])}" if row["node"] is not None else ""
    return [
        f"Of the programs that pidstat listed, {row['program']}{where} of {row['resource']} used most CPU time: "
        f"{row['cpu_percent']:.0f} % of one CPU, all its processes together."
    ]


def _write_pressure_sentences(pressure: pl.DataFrame) -> list[str]:
    some = pressure.filter((pl.col("scope") == "some") & (pl.col("stalled_percent") >= _STALLED_PERCENT))
    if some.is_empty():
        return []
    row = some.row(0, named=True)
    where = f" on {place_text(row['node'])}" if row["node"] is not None else ""
    return [
        f"At least one task{where} of {row['resource']} was stalled for the {_AWAITED[row['pressure']]} "
        f"{row['stalled_percent']:.0f} % of the time, and {row['largest_stalled_percent']:.0f} % at most."
    ]


def _describe_cpu_contrast(contrast: CpuContrast) -> str:
    low, high = contrast.means["busy_percent"].to_list()
    few, many = contrast.threads
    return (
        f"{contrast.operation} on {format_cluster_size(contrast.workers)} keeps the CPUs {low:.0f} % busy with "
        f"{pluralize(few, 'client thread')} and {high:.0f} % with {many}."
    )


def _describe_busiest_device(devices: pl.DataFrame) -> str:
    if devices.is_empty():
        return "No sample of a device with a timestamp was taken during a run."
    row = devices.row(0, named=True)
    waiting = "" if row["await_ms"] is None else f"; a request took {row['await_ms']:.2f} ms on average"
    # iostat divides by an interval that it measures itself, so that a full one may come out above 100 %.
    shares = ("utilization_percent", "largest_utilization_percent")
    mean, largest = (f"{min(row[name], 100.0):.0f} %" for name in shares)
    return (
        f"The busiest device, {row['device']} in {row['resource']}, had a request in flight {mean} of the time, and "
        f"{largest} at most{waiting}."
    )


def _write_checkpoint_sentences(checkpoints: pl.DataFrame) -> list[str]:
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
    return [
        f"Device requests took {middle:.2g} times as long during checkpoints as otherwise ({low:.2g} to {high:.2g}; "
        f"geometric mean of {pluralize(both.height, 'system')})."
    ]


def _describe_perf_samples(study: ResourceStudy) -> str:
    if study.symbols.is_empty():
        return "perf recorded no functions in these runs."
    top = study.symbols.row(0, named=True)
    mine = study.modules.filter(pl.col("resource") == top["resource"], pl.col("event").eq_missing(top["event"]))
    recordings = mine.select("run_id", "node").n_unique()
    shares = mine.group_by("part").agg(pl.col("self_percent").sum() / recordings)
    largest = shares.sort("self_percent", "part", descending=[True, False]).head(3)
    known, named = float(shares["self_percent"].sum()), [float(share) for share in largest["self_percent"]]
    printed, whole = format_adding_up([*named, known - sum(named)], known, more=1)
    words = [f"{share} % in {_PARTS.get(part, part)}" for share, part in zip(printed, largest["part"], strict=False)]
    rest = printed[-1] if float(printed[-1]) else ""
    parts = join_words(words)
    mean = f"mean of {pluralize(top['recordings'], 'recording')}" if top["recordings"] > 1 else "one recording"
    if known < _NEARLY_ALL_PERCENT:
        of_all = f"perf's report of {top['resource']} names the functions of {whole} % of all samples: "
        of_all += join_words([*words, f"{rest} % elsewhere"] if rest else words)
    else:
        of_all = f"Of all samples of perf in {top['resource']}, {parts.replace(' % in ', ' % were in ', 1)}"
    most = f"{of_all}. Most time was spent in {top['symbol']}, {top['mean_percent']:.1f} % ({mean})."
    return " ".join(filter(None, (most, describe_timer_skid(top["event"]))))


def name_run(resource: str, iteration: int | None) -> str:
    """A run by its resource and, if it has several, its iteration.

    Example:
        >>> name_run("citus-w4", 2), name_run("citus-w4", None)
        ('citus-w4, iteration 2', 'citus-w4')
    """
    return resource if iteration is None else f"{resource}, iteration {iteration}"


def write_quota_sentences(held: pl.DataFrame) -> list[str]:
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
    (least, low), (name, high) = most.row(0), most.row(-1)
    spread = f"{high:.0f} % of the kernel's periods in {name}"
    if most.height > 1:
        spread = f"{low:.0f} % of the kernel's periods in {least} to {high:.0f} % in {name}"
    return [
        f"A quota of CPU time stopped the server that reached it most often in {spread} (means of runs). A stopped "
        "server continues at the beginning of the next period, so times of statements grow in steps of a period, and "
        "samples of a machine's CPUs do not show how busy a node was."
    ]


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
    return [
        f"The kernel limited {pluralize(number, 'control group')} to a share of CPU time and stopped "
        f"{'it' if number == 1 else 'them'} in {share} % of its periods (means of runs). A stopped server continues at "
        "the beginning of the next period: times of statements grow in steps of a period, and samples of a whole "
        "machine's CPUs do not show how busy a node was."
    ]


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

"""Findings of the profile report: the parts of a statement's time, and caveats of the times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from citus_analysis.bottleneck.samples import select_throttling_over_time
from citus_analysis.core.frames import TableSource, convert_to_polars
from citus_analysis.defaults import SKIP_FIRST
from citus_analysis.formats.pglog import STUDY_PREFIX
from citus_analysis.report.resources import write_throttling_warnings
from citus_analysis.report.sentences import (
    compute_mean_time_parts,
    describe_joint_adjustment,
    format_ratio,
    format_ratio_interval,
    format_time_shares,
)
from citus_analysis.runs.selection import Question, Selection, select_asked_runs
from citus_analysis.spans.profile import CONNECTING, FIRST_EXECUTION, START, ProfileStudy, profile_selected_runs
from citus_analysis.spans.tail import TraceStudy, trace_studies
from citus_analysis.stats import Comparison
from citus_analysis.stats.findings import (
    FindingNumber,
    ReportFinding,
    state,
)
from citus_analysis.texts.numbers import format_number, format_percent
from citus_analysis.texts.words import choose_noun_form, format_cluster_size, format_thread_count, join_words, pluralize
from citus_analysis.units import US_PER_MS

#: Kind of finding -> its words. Parts of sentences have the name of the sentence and their own.
TEMPLATES: Final = {
    "parts": "On {size} with {threads}, a remote {statement}{whose} takes {mean} ms on the server in the steady "
    "state{shares} (means of {statements}{opening}).",
    "parts: opened": "; {number} of them opened a connection",
    "openings": "The steady state leaves out statements that opened a connection: {kinds}.",
    "openings: each": "{number:,} of {every:,} remote {statement}s ({share}) opened one to another node and took "
    "{mean} ms{connection}",
    "openings: connection": ", {connection} ms of it for the connection ({for_each} ms for each of the {every:,})",
    "openings: some known": " (the connection took {connection} ms in the {known:,} whose logs tell)",
    "size": "On {larger}, {what} {comparisons}{joint}{undecided}.",
    "size undecided": "The runs do not decide whether {what} longer on {larger} than on {smaller} with {threads}.",
    "size: what": "a remote {statement} takes",
    "size: equivalent": "as long, within the margin,",
    "size: differs": "{ratio:.2f} times as long",
    "size: each": "{ratio}{base} with {threads}{interval}",
    "size: undecided": "; with {threads}, the runs do not decide",
    "place": "A SELECT whose shard is on its parent's own node takes {ratio} times as long as one that is sent to "
    "another node (in {configurations}{undecided}).",
    "place: undecided": "; in {number} more the runs do not decide",
    "place undecided": "The runs do not decide whether a SELECT whose shard is on its parent's own node takes longer "
    "than one sent to another node.",
    "sampled client": "These are times of the sampled client, not of the main clients: {kinds}, all states of its "
    "sessions included.",
    "sampled client: each": "its {statement}s took {mean} ms at the client, {ratio} times as long as those of the "
    "main clients ({interval})",
    "statements": "{number:,}{every} {statements} of {runs} were profiled{left_out}; {matched}.",
    "statements: beginning": "one of the first {skipped} of its session",
    "statements: connecting": "opened a connection to another node",
    "statements: first execution": "executed for the first time",
    "statements: unmatched": "the statements that waited for another node are unknown: no task was logged for {remote}",
    "statements: local": "none of them waited for another node",
    "statements: matched": "{share} {tasks} on other nodes were paired exactly with their execution",
    "no tasks": "The logs contain no task, so remote statements are missing from this profile: stock Citus reports "
    "tasks at debug4 only. Set log_min_messages = debug4 for the monitor's role (monitor.log_min_messages: debug4).",
    "no children": "No statement in the logs of the other nodes names the session that sent it, so no task could be "
    "paired: set log_line_prefix = '{prefix}' on every node (%a carries the sender).",
    "outside": "{number:,} of {every:,} sampled statements began before or ended after the time in which all main "
    "clients of their run ran, and are left out.{all_of} The latencies that the sampled client reports include them.",
    "outside: all of": " They are all statements of {runs}.",
    "clocks": "The clocks of clients and servers differ widely in {runs}, so statements from before and after the "
    "load could not be separated there: set the option timezone for the logs.",
    "inferred": "The logs of {runs} have no records of connections between nodes (Citus writes them at debug4). "
    "There, the statement whose child is the first that its session logged counts as the one that opened the "
    "connection; where a log begins later, that is one statement too many for each connection.",
    "commits": "These times do not all cover the same work; before comparing them, note:",
    "commits: each": "{warning} ({statements}).",
}


def state_profile(study: ProfileStudy) -> list[ReportFinding]:
    """The parts of a statement's time, their change with the cluster, and the number of statements."""
    found = [one for kind in study.kinds() for one in _state_time_parts(study, kind)]
    return [
        *found,
        *_state_connection_openings(study),
        *_state_size_effects(study),
        *_state_place_effects(study),
        *_state_sampled_client(study),
        _state_included_statements(study),
    ]


def _state_included_statements(study: ProfileStudy) -> ReportFinding:
    runs = study.statements.select("resource", "run_id").n_unique()
    selected = study.selected
    apart = selected.apart["state"].cast(pl.String).value_counts().sort("count", descending=True)
    kinds = {START: "beginning", CONNECTING: "connecting", FIRST_EXECUTION: "first execution"}
    left_out = [
        f"{count:,} ({TEMPLATES[f'statements: {kinds[name]}'].format(skipped=selected.skip_first)})"
        for name, count in apart.iter_rows()
    ]
    tasks, exact = study.matched
    if not tasks and study.children:
        matched = TEMPLATES["statements: unmatched"].format(remote=pluralize(study.children, "remote execution"))
    elif not tasks:
        matched = TEMPLATES["statements: local"]
    else:
        share = "all" if exact == tasks else f"{format_percent(exact / tasks, 2)} of"
        matched = TEMPLATES["statements: matched"].format(share=share, tasks=pluralize(tasks, "task"))
    return state(
        TEMPLATES,
        "statements",
        number=selected.steady.height,
        every=f" of {selected.height:,}" if left_out else "",
        statements=choose_noun_form(selected.height, "sampled statement"),
        runs=pluralize(runs, "run"),
        left_out=f", without {join_words(left_out)}" if left_out else "",
        matched=matched,
    )


def _select_largest_remote(study: ProfileStudy, rows: pl.DataFrame, kind: str) -> pl.DataFrame:
    """The rows of remote executions of a kind in the largest cluster of the usual set-up."""
    remote = rows.filter(statement_kind=kind, executed="remote", threads=study.threads, family=study.main)
    return remote.filter(pl.col("workers").fill_null(0) == pl.col("workers").fill_null(0).max())


def _state_time_parts(study: ProfileStudy, kind: str) -> list[ReportFinding]:
    """Mean T of remote executions at the largest cluster of the usual set-up, and the shares of P, C and L."""
    largest = _select_largest_remote(study, study.profile, kind)
    whole = largest.filter(quantity="T")
    if whole.is_empty():
        return []
    means = compute_mean_time_parts(largest)
    workers, n = whole.select("workers", "n").row(0)
    mean_ms = whole["mean_us"][0] / US_PER_MS
    # Where clients are not known, the logs may be of all of them.
    sampled = study.beside_client["client_runs"].fill_null(0).sum()
    made = _select_largest_remote(study, study.statements, kind)["connect_us"].count()
    number = "each" if made == n else f"{made:,}"
    return [
        state(
            TEMPLATES,
            "parts",
            [FindingNumber(f"remote {kind.upper()}, {format_cluster_size(workers)}", estimate=mean_ms, n=n)],
            size=format_cluster_size(workers),
            threads=format_thread_count(study.threads),
            statement=kind.upper(),
            whose=" of the sampled client" if sampled else "",
            mean=format_number(mean_ms),
            shares=f": {format_time_shares(means)}" if means else "",
            statements=pluralize(n, "statement"),
            opening=TEMPLATES["parts: opened"].format(number=number) if made else "",
        )
    ]


def _state_connection_openings(study: ProfileStudy) -> list[ReportFinding]:
    """How many statements of the same configurations opened a connection, and the time that this took."""
    parts = []
    for kind in study.kinds():
        opened, steady = (
            _select_largest_remote(study, rows, kind) for rows in (study.selected.apart, study.statements)
        )
        every = opened.filter(pl.col("state") != START).height + steady.height
        opened = opened.filter(state=CONNECTING)
        n, known = opened.height, opened["connect_us"].count()
        if not n:
            continue
        took_ms, connect_ms = opened.select(pl.col("total_us", "connect_us").mean() / US_PER_MS).row(0)
        connection = "" if not known else "openings: connection" if known == n else "openings: some known"
        words: dict[str, object] = {"known": known, "every": every}
        if known:
            words |= {"connection": format_number(connect_ms), "for_each": format_number(connect_ms * n / every)}
        parts.append(
            TEMPLATES["openings: each"].format(
                number=n,
                every=every,
                statement=kind.upper(),
                share=format_percent(n / every),
                mean=format_number(took_ms),
                connection=TEMPLATES[connection].format(**words) if connection else "",
            )
        )
    return [state(TEMPLATES, "openings", kinds="; ".join(parts))] if parts else []


def _state_sampled_client(study: ProfileStudy) -> list[ReportFinding]:
    """The latency of the client whose statements these are, against that of the main clients, where it is decided."""
    decided = [one for one in study.sampled if one.verdict in ("slower", "faster")]
    words = [
        TEMPLATES["sampled client: each"].format(
            statement=str(one.stratum["kind"]).upper(),
            mean=format_number(one.mean_a.estimate / US_PER_MS),
            ratio=format_ratio(one),
            interval=format_ratio_interval(one),
        )
        for one in decided
    ]
    return [state(TEMPLATES, "sampled client", decided, kinds="; ".join(words))] if words else []


def _state_size_effects(study: ProfileStudy) -> list[ReportFinding]:
    """Per kind, the time of a remote statement on the largest cluster relative to that on the smallest."""
    found = []
    for kind in sorted({str(c.stratum["kind"]) for c in study.sizes}):
        mine = [c for c in study.sizes if c.stratum["kind"] == kind]
        small, large = (format_cluster_size(int(str(mine[0].stratum[end]))) for end in ("small", "large"))
        what = TEMPLATES["size: what"].format(statement=kind.upper())
        decided = [c for c in mine if c.verdict != "inconclusive"]
        open_ = _format_thread_counts([c for c in mine if c.verdict == "inconclusive"])
        if not decided:
            named = _name_sizes(mine)
            found.append(
                state(TEMPLATES, "size undecided", named, what=what, larger=large, smaller=small, threads=open_)
            )
            continue
        as_on = [f" as on {small}", *[""] * (len(decided) - 1)]
        claims = [
            TEMPLATES["size: each"].format(
                ratio=TEMPLATES["size: equivalent" if c.verdict == "equivalent" else "size: differs"].format(
                    ratio=c.ratio.estimate
                ),
                base=base,
                threads=_format_thread_counts([c]),
                interval=_format_deciding_interval(c),
            )
            for c, base in zip(decided, as_on, strict=True)
        ]
        found.append(
            state(
                TEMPLATES,
                "size",
                _name_sizes(mine),
                larger=large,
                what=what,
                comparisons=join_words(claims),
                joint=f" ({words})" if (words := describe_joint_adjustment(mine)) else "",
                undecided=TEMPLATES["size: undecided"].format(threads=open_) if open_ else "",
            )
        )
    return found


def _name_sizes(compared: Sequence[Comparison]) -> list[Comparison]:
    """Comparisons of cluster sizes, both sides with their names."""
    return [
        replace(
            one,
            label_a=f"remote {str(one.stratum['kind']).upper()}, {large}, {_format_thread_counts([one])}",
            label_b=small,
        )
        for one in compared
        for small, large in ([format_cluster_size(int(str(one.stratum[end]))) for end in ("small", "large")],)
    ]


def _format_deciding_interval(comparison: Comparison) -> str:
    """The interval that decided."""
    interval = comparison.deciding
    return f" ({interval.low:.2f} to {interval.high:.2f})" if interval.exists else ""


def _format_thread_counts(comparisons: Sequence[Comparison]) -> str:
    """The numbers of client threads of comparisons as a list; empty for none."""
    threads = sorted({int(str(c.stratum["threads"])) for c in comparisons})
    if not any(threads):
        return format_thread_count(0) if threads else ""
    return f"{join_words([f'{number:,}' for number in threads])} {choose_noun_form(threads[-1], 'client thread')}"


def _state_place_effects(study: ProfileStudy) -> list[ReportFinding]:
    """The effect of the place of execution on a SELECT's time, if the runs decide it."""
    compared = [replace(one, label_a="local SELECT", label_b="remote SELECT") for one in study.places]
    decided = [c for c in compared if c.verdict != "inconclusive"]
    if not compared:
        return []
    if not decided:
        return [state(TEMPLATES, "place undecided", compared)]
    low, high = (choose(c.ratio.estimate for c in decided) for choose in (min, max))
    ratio = f"{low:.2f}" if round(low, 2) == round(high, 2) else f"{low:.2f} to {high:.2f}"
    rest = len(compared) - len(decided)
    undecided = TEMPLATES["place: undecided"].format(number=rest) if rest else ""
    configurations = pluralize(len(decided), "configuration")
    return [state(TEMPLATES, "place", compared, ratio=ratio, configurations=configurations, undecided=undecided)]


def write_profile_caveats(study: ProfileStudy) -> list[str]:
    """Caveats for comparisons of times: records missing from the logs, unknown places, times with the commit."""
    return [
        *_write_missing_records(study),
        *study.unplaced,
        *_write_outside_statements(study),
        *_write_inferred_connections(study),
        *_write_hidden_commits(study),
    ]


def _write_inferred_connections(study: ProfileStudy) -> list[str]:
    """That the opened connections were inferred, where the logs have no records of them."""
    selected = study.selected
    if not selected.inferred or not study.matched[0] or CONNECTING not in selected.apart["state"]:
        return []
    return [TEMPLATES["inferred"].format(runs=pluralize(selected.inferred, "run"))]


def _write_outside_statements(study: ProfileStudy) -> list[str]:
    """Statements outside the time in which the main clients ran."""
    window, notes = study.selected.window, []
    entered = study.selected.height + study.selected.failed
    if window.outside:
        every = len(window.runs_outside)
        all_of = TEMPLATES["outside: all of"].format(runs=pluralize(every, "run")) if every else ""
        number = window.outside
        notes.append(TEMPLATES["outside"].format(number=number, every=number + entered, all_of=all_of))
    if window.unplaced:
        notes.append(TEMPLATES["clocks"].format(runs=pluralize(len(window.unplaced), "run")))
    return notes


def _write_missing_records(study: ProfileStudy) -> list[str]:
    """Records that the servers did not log, with the setting that enables them."""
    tasks, exact = study.matched
    if not tasks and study.children:
        return [TEMPLATES["no tasks"]]
    if tasks and not exact and not study.children:
        return [TEMPLATES["no children"].format(prefix=STUDY_PREFIX)]
    return []


def _write_hidden_commits(study: ProfileStudy) -> list[str]:
    """The times that contain the commit's WAL flush."""
    shown = study.profile.filter(pl.col("threads") == study.threads).drop_nulls("warning")
    # Time missing from C is part of L, and time missing from T is missing from P, too: one note is enough.
    shown = shown.filter(pl.col("quantity").cast(pl.String).is_in(["T", "C"]))
    keys = ["statement_kind", "executed", "family"]
    notes = []
    for (warning,), rows in shown.group_by("warning", maintain_order=True):
        cases = rows.select(keys).unique(maintain_order=True).iter_rows()
        words = [
            f"{executed} {str(kind).upper()}{f' of set-up {family}' if family else ''}"
            for kind, executed, family in cases
        ]
        notes.append(TEMPLATES["commits: each"].format(warning=warning, statements=join_words(words, most=4)))
    if notes:
        notes.insert(0, TEMPLATES["commits"])
    return notes


@dataclass(frozen=True)
class ProfileReport:
    """What the page of a profile shows.

    Attributes:
        selection: the runs that enter.
        study: the profile of their statements.
        traces: the statements of single configurations, with their traces.
        throttling: control groups whose CPU time the kernel limited, over time.
    """

    selection: Selection
    study: ProfileStudy
    traces: tuple[TraceStudy, ...]
    throttling: pl.DataFrame

    @property
    def findings(self) -> list[ReportFinding]:
        """What the page begins with."""
        return state_profile(self.study)

    @property
    def warnings(self) -> list[str]:
        """Caveats of all times of the page."""
        held = write_throttling_warnings(self.throttling)
        return [*self.selection.notes, *write_profile_caveats(self.study), *held]


def study_statements(
    dataset: TableSource, question: Question, *, skip_first: int = SKIP_FIRST, threads: int = 0
) -> ProfileReport:
    """Profile the sampled statements of a dataset in every way that the page of a profile shows.

    Args:
        dataset: a dataset, or another source of its tables.
        question: the runs that enter, level and margin.
        skip_first: statements left out at the beginning of each session.
        threads: number of threads that the figures show; 0: the number with the most cluster sizes.

    Raises:
        UnknownNameError: a name of the question, or the number of threads, is unknown.
        InsufficientDataError: no run enters, or none has sampled statements.

    Example:
        >>> import citus_analysis as ca
        >>> found = study_statements(ca.open_dataset("dataset"), ca.runs.Question(phase="load"))  # doctest: +SKIP
        >>> found.study.profile  # doctest: +SKIP
    """
    selection = select_asked_runs(dataset, question)
    study = profile_selected_runs(selection, dataset, question, skip_first=skip_first, threads=threads)
    samples = convert_to_polars(dataset.table("throttle_samples"))
    held = select_throttling_over_time(samples, selection.runs)
    return ProfileReport(selection, study, trace_studies(study, dataset), held)

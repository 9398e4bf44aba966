"""Sentences of the profile report."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from citus_analysis.formats.pglog import STUDY_PREFIX
from citus_analysis.report.sentences import (
    compute_mean_time_parts,
    describe_joint_adjustment,
    format_ratio,
    format_ratio_interval,
    format_time_shares,
)
from citus_analysis.spans.profile import CONNECTING, FIRST_EXECUTION, START, ProfileStudy
from citus_analysis.stats import Comparison
from citus_analysis.texts.numbers import format_number, format_percent
from citus_analysis.texts.words import choose_noun_form, format_cluster_size, format_thread_count, join_words, pluralize
from citus_analysis.units import US_PER_MS


def profile_sentences(study: ProfileStudy) -> list[str]:
    """Sentences on the parts of a statement's time, their change with the cluster, and the number of statements."""
    found = [sentence for kind in study.kinds() for sentence in _write_time_composition(study, kind)]
    return [
        *found,
        *_write_connection_openings(study),
        *_write_size_effects(study),
        *_write_place_effects(study),
        *_write_sampled_client(study),
        _write_included_statements(study),
    ]


def _write_included_statements(study: ProfileStudy) -> str:
    runs = study.statements.select("resource", "run_id").n_unique()
    selected = study.selected
    apart = selected.apart["state"].cast(pl.String).value_counts().sort("count", descending=True)
    words = {
        START: f"one of the first {selected.skip_first} of its session",
        CONNECTING: "opened a connection to another node",
        FIRST_EXECUTION: "executed for the first time",
    }
    left_out = [f"{count:,} ({words[state]})" for state, count in apart.iter_rows()]
    every = f" of {selected.height:,}" if left_out else ""
    entered = (
        f"{selected.steady.height:,}{every} {choose_noun_form(selected.height, 'sampled statement')} of "
        f"{pluralize(runs, 'run')} "
    )
    entered += "were profiled" + (f", without {join_words(left_out)}" if left_out else "")
    tasks, exact = study.matched
    if not tasks and study.children:
        remote = pluralize(study.children, "remote execution")
        return f"{entered}; the statements that waited for another node are unknown: no task was logged for {remote}."
    if not tasks:
        return f"{entered}; none of them waited for another node."
    share = "all" if exact == tasks else f"{format_percent(exact / tasks, 2)} of"
    return f"{entered}; {share} {pluralize(tasks, 'task')} on other nodes were paired exactly with their execution."


def _select_largest_remote(study: ProfileStudy, rows: pl.DataFrame, kind: str) -> pl.DataFrame:
    """The rows of remote executions of a kind in the largest cluster of the usual set-up."""
    remote = rows.filter(statement_kind=kind, executed="remote", threads=study.threads, family=study.main)
    return remote.filter(pl.col("workers").fill_null(0) == pl.col("workers").fill_null(0).max())


def _write_time_composition(study: ProfileStudy, kind: str) -> list[str]:
    """Mean T of remote executions at the largest cluster of the usual set-up, and the shares of P, C and L."""
    largest = _select_largest_remote(study, study.profile, kind)
    whole = largest.filter(quantity="T")
    if whole.is_empty():
        return []
    means = compute_mean_time_parts(largest)
    workers, n = whole.select("workers", "n").row(0)
    shares = f": {format_time_shares(means)}" if means else ""
    # Where clients are not known, the logs may be of all of them.
    sampled = study.beside_client["client_runs"].fill_null(0).sum()
    whose = " of the sampled client" if sampled else ""
    made = _select_largest_remote(study, study.statements, kind)["connect_us"].count()
    opening = f"; {'each' if made == n else f'{made:,}'} of them opened a connection" if made else ""
    return [
        f"On {format_cluster_size(workers)} with {format_thread_count(study.threads)}, a remote {kind.upper()}{whose} "
        f"takes {format_number(whole['mean_us'][0] / US_PER_MS)} ms on the server in the steady state{shares} "
        f"(means of {pluralize(n, 'statement')}{opening})."
    ]


def _write_connection_openings(study: ProfileStudy) -> list[str]:
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
        share = f"{n:,} of {every:,} remote {kind.upper()}s ({format_percent(n / every)})"
        took_ms, connect_ms = opened.select(pl.col("total_us", "connect_us").mean() / US_PER_MS).row(0)
        took = f"{share} opened one to another node and took {format_number(took_ms)} ms"
        if known == n:
            took += (
                f", {format_number(connect_ms)} ms of it for the connection "
                f"({format_number(connect_ms * n / every)} ms for each"
            )
            took += f" of the {every:,})"
        elif known:
            took += f" (the connection took {format_number(connect_ms)} ms in the {known:,} whose logs tell)"
        parts.append(took)
    return [f"The steady state leaves out statements that opened a connection: {'; '.join(parts)}."] if parts else []


def _write_sampled_client(study: ProfileStudy) -> list[str]:
    """The latency of the client whose statements these are, against that of the main clients, where it is decided."""
    decided = [one for one in study.sampled if one.verdict in ("slower", "faster")]
    words = [
        f"its {str(one.stratum['kind']).upper()}s took {format_number(one.mean_a.estimate / US_PER_MS)} ms at "
        "the client, "
        f"{format_ratio(one)} times as long as those of the main clients ({format_ratio_interval(one)})"
        for one in decided
    ]
    if not words:
        return []
    return [
        f"These are times of the sampled client, not of the main clients: {'; '.join(words)}, all states of its "
        "sessions included."
    ]


def _write_size_effects(study: ProfileStudy) -> list[str]:
    """Per kind, the time of a remote statement on the largest cluster relative to that on the smallest."""
    sentences = []
    for kind in sorted({str(c.stratum["kind"]) for c in study.sizes}):
        mine = [c for c in study.sizes if c.stratum["kind"] == kind]
        small, large = (format_cluster_size(int(str(mine[0].stratum[end]))) for end in ("small", "large"))
        what = f"a remote {kind.upper()} takes"
        decided = [c for c in mine if c.verdict != "inconclusive"]
        open_ = _format_thread_counts([c for c in mine if c.verdict == "inconclusive"])
        if not decided:
            again = "The runs do not decide whether"
            sentences.append(f"{again} {what} longer on {large} than on {small} with {open_}.")
            continue
        as_on = [f" as on {small}", *[""] * (len(decided) - 1)]
        claims = [
            f"{_format_time_ratio(c)}{base} with {_format_thread_counts([c])}{_format_deciding_interval(c)}"
            for c, base in zip(decided, as_on, strict=True)
        ]
        joint = f" ({words})" if (words := describe_joint_adjustment(mine)) else ""
        undecided = f"; with {open_}, the runs do not decide" if open_ else ""
        sentences.append(f"On {large}, {what} {join_words(claims)}{joint}{undecided}.")
    return sentences


def _format_time_ratio(comparison: Comparison) -> str:
    """A ratio in words that can be followed by `as on ...`."""
    if comparison.verdict == "equivalent":
        return "as long, within the margin,"
    return f"{comparison.ratio.estimate:.2f} times as long"


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


def _write_place_effects(study: ProfileStudy) -> list[str]:
    """The effect of the place of execution on a SELECT's time, if the runs decide it."""
    decided = [c for c in study.places if c.verdict != "inconclusive"]
    if not study.places:
        return []
    what = "A SELECT whose shard is on its parent's own node"
    if not decided:
        question = f"whether {what[0].lower()}{what[1:]} takes longer than one sent to another node"
        return [f"The runs do not decide {question}."]
    low, high = (choose(c.ratio.estimate for c in decided) for choose in (min, max))
    ratio = f"{low:.2f}" if round(low, 2) == round(high, 2) else f"{low:.2f} to {high:.2f}"
    rest = len(study.places) - len(decided)
    open_ = f"; in {rest} more the runs do not decide" if rest else ""
    cases = pluralize(len(decided), "configuration")
    return [f"{what} takes {ratio} times as long as one that is sent to another node (in {cases}{open_})."]


def profile_warnings(study: ProfileStudy) -> list[str]:
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
    return [
        f"The logs of {pluralize(selected.inferred, 'run')} have no records of connections between nodes (Citus writes "
        "them at debug4). There, the statement whose child is the first that its session logged counts as the one that "
        "opened the connection; where a log begins later, that is one statement too many for each connection."
    ]


def _write_outside_statements(study: ProfileStudy) -> list[str]:
    """Statements outside the time in which the main clients ran."""
    window, notes = study.selected.window, []
    entered = study.selected.height + study.selected.failed
    if window.outside:
        every = len(window.runs_outside)
        all_of = f" They are all statements of {pluralize(every, 'run')}." if every else ""
        notes.append(
            f"{window.outside:,} of {window.outside + entered:,} sampled statements began before or ended "
            f"after the time in which all main clients of their run ran, and are left out.{all_of} The latencies that "
            "the sampled client reports include them."
        )
    if window.unplaced:
        notes.append(
            f"The clocks of clients and servers differ widely in {pluralize(len(window.unplaced), 'run')}, so "
            "statements "
            "from before and after the load could not be separated there: set the option timezone for the logs."
        )
    return notes


def _write_missing_records(study: ProfileStudy) -> list[str]:
    """Records that the servers did not log, with the setting that enables them."""
    tasks, exact = study.matched
    if not tasks and study.children:
        return [
            "The logs contain no task, so remote statements are missing from this profile: stock Citus reports tasks "
            "at debug4 only. Set log_min_messages = debug4 for the monitor's role (monitor.log_min_messages: debug4)."
        ]
    if tasks and not exact and not study.children:
        return [
            "No statement in the logs of the other nodes names the session that sent it, so no task could be paired: "
            f"set log_line_prefix = '{STUDY_PREFIX}' on every node (%a carries the sender)."
        ]
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
        notes.append(f"{warning} ({join_words(words, most=4)}).")
    if notes:
        notes.insert(0, "These times do not all cover the same work; before comparing them, note:")
    return notes

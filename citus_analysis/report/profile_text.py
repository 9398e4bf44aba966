"""Sentences of the profile report."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from citus_analysis.formats.serverlog.pglog import STUDY_PREFIX
from citus_analysis.report.sentence_parts import joint_text, parts_of_t, shares_of_t
from citus_analysis.spans.analyse.profile import ProfileStudy
from citus_analysis.stats import Comparison
from citus_analysis.texts.counted_words import counted, listed, noun_for, size_text, threads_text
from citus_analysis.texts.number_text import percent, readable
from citus_analysis.units import US_PER_MS


def profile_sentences(study: ProfileStudy) -> list[str]:
    """Sentences on the parts of a statement's time, their change with the cluster, and the number of statements."""
    found = [sentence for kind in study.kinds() for sentence in _composition(study, kind)]
    findings = [*found, *_sizes(study), *_places(study)]
    return [*findings[:5], _entered(study)]


def _entered(study: ProfileStudy) -> str:
    runs = study.statements.select("resource", "run_id").n_unique()
    entered = f"{counted(study.statements.height, 'sampled statement')} of {counted(runs, 'run')} were profiled"
    tasks, exact = study.matched
    if not tasks and study.children:
        remote = counted(study.children, "remote execution")
        return f"{entered}; the statements that waited for another node are unknown: no task was logged for {remote}."
    if not tasks:
        return f"{entered}; none of them waited for another node."
    share = "all" if exact == tasks else f"{percent(exact / tasks, 2)} of"
    return f"{entered}; {share} {counted(tasks, 'task')} on other nodes were paired exactly with their execution."


def _composition(study: ProfileStudy, kind: str) -> list[str]:
    """Mean T of remote executions at the largest cluster of the usual set-up, and the shares of P, C and L."""
    remote = study.profile.filter(statement_kind=kind, executed="remote", threads=study.threads, family=study.main)
    largest = remote.filter(pl.col("workers") == pl.col("workers").max())
    means = parts_of_t(largest)
    if not means:
        return []
    workers, n = largest.filter(quantity="T").select("workers", "n").row(0)
    return [
        f"A remote {kind.upper()} on {size_text(workers)} with {threads_text(study.threads)} takes "
        f"{readable(means['T'] / US_PER_MS)} ms on the server: {shares_of_t(means)} "
        f"(means of {counted(n, 'statement')})."
    ]


def _sizes(study: ProfileStudy) -> list[str]:
    """Per kind, the time of a remote statement on the largest cluster relative to that on the smallest."""
    sentences = []
    for kind in sorted({str(c.stratum["kind"]) for c in study.sizes}):
        mine = [c for c in study.sizes if c.stratum["kind"] == kind]
        small, large = (size_text(int(str(mine[0].stratum[end]))) for end in ("small", "large"))
        what = f"a remote {kind.upper()} takes"
        decided = [c for c in mine if c.verdict != "inconclusive"]
        open_ = _with_threads([c for c in mine if c.verdict == "inconclusive"])
        if not decided:
            again = "The runs do not decide whether"
            sentences.append(f"{again} {what} longer on {large} than on {small} with {open_}.")
            continue
        as_on = [f" as on {small}", *[""] * (len(decided) - 1)]
        claims = [
            f"{_times(c)}{base} with {_with_threads([c])}{_between(c)}" for c, base in zip(decided, as_on, strict=True)
        ]
        joint = f" ({words})" if (words := joint_text(mine)) else ""
        undecided = f"; with {open_}, the runs do not decide" if open_ else ""
        sentences.append(f"On {large}, {what} {listed(claims)}{joint}{undecided}.")
    return sentences


def _times(comparison: Comparison) -> str:
    """A ratio in words that can be followed by `as on ...`."""
    if comparison.verdict == "equivalent":
        return "as long, within the margin,"
    return f"{comparison.ratio.estimate:.2f} times as long"


def _between(comparison: Comparison) -> str:
    """The interval that decided."""
    interval = comparison.deciding
    return f" ({interval.low:.2f} to {interval.high:.2f})" if interval.exists else ""


def _with_threads(comparisons: Sequence[Comparison]) -> str:
    """The numbers of client threads of comparisons as a list; empty for none."""
    threads = sorted({int(str(c.stratum["threads"])) for c in comparisons})
    if not any(threads):
        return threads_text(0) if threads else ""
    return f"{listed([f'{number:,}' for number in threads])} {noun_for(threads[-1], 'client thread')}"


def _places(study: ProfileStudy) -> list[str]:
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
    cases = counted(len(decided), "configuration")
    return [f"{what} takes {ratio} times as long as one that is sent to another node (in {cases}{open_})."]


def profile_warnings(study: ProfileStudy) -> list[str]:
    """Caveats for comparisons of times: records missing from the logs, unknown places, times with the commit."""
    return [*_missing_records(study), *study.unplaced, *_outside(study), *_hidden_commits(study)]


def _outside(study: ProfileStudy) -> list[str]:
    """Statements outside the time in which the main clients ran."""
    window, notes = study.window, []
    if window.outside:
        every = len(window.runs_outside)
        all_of = f" They are all statements of {counted(every, 'run')}." if every else ""
        notes.append(
            f"{window.outside:,} of {window.outside + window.rows.height:,} sampled statements began before or ended "
            f"after the time in which all main clients of their run ran, and are left out.{all_of} The latencies that "
            "the sampled client reports include them."
        )
    if window.unplaced:
        notes.append(
            f"The clocks of clients and servers differ widely in {counted(len(window.unplaced), 'run')}, so statements "
            "from before and after the load could not be separated there: set the option timezone for the logs."
        )
    return notes


def _missing_records(study: ProfileStudy) -> list[str]:
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


def _hidden_commits(study: ProfileStudy) -> list[str]:
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
        notes.append(f"{warning} ({listed(words, most=4)}).")
    if notes:
        notes.insert(0, "These times do not all cover the same work; before comparing them, note:")
    return notes

"""Sentences of the profile report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import polars as pl

from citus_analysis.formats.serverlog.pglog import STUDY_PREFIX
from citus_analysis.report.sentence_parts import decided_text, joint_text
from citus_analysis.spans.analyse.profile import ProfileStudy
from citus_analysis.stats import Comparison
from citus_analysis.texts.counted_words import counted, listed, size_text

__all__ = ["profile_sentences", "profile_warnings"]


def profile_sentences(study: ProfileStudy) -> list[str]:
    """The number of statements and their pairing, the composition of remote statements, and the effect of size."""
    sentences = [_entered(study)]
    for kind in study.kinds():
        sentences += _composition(study, kind)
    return [*sentences, *_sizes(study), *_places(study)][:6]


def _entered(study: ProfileStudy) -> str:
    runs = study.statements.select("resource", "run_id").n_unique()
    entered = f"{counted(study.statements.height, 'sampled statement')} of {counted(runs, 'run')} were profiled"
    tasks, exact = study.matched
    if not tasks and study.children:
        remote = counted(study.children, "remote execution")
        return f"{entered}; the statements that waited for another node are unknown: no task was logged for {remote}."
    if not tasks:
        return f"{entered}; none of them waited for another node."
    share = "all" if exact == tasks else f"{exact / tasks:.2%} of"
    return f"{entered}; {share} {counted(tasks, 'task')} on other nodes were paired exactly with their execution."


def _composition(study: ProfileStudy, kind: str) -> list[str]:
    """Mean T of remote executions at the largest cluster of the main family, and the shares of P, C and L."""
    rows = study.profile.filter(
        (pl.col("statement_kind") == kind)
        & (pl.col("executed") == "remote")
        & (pl.col("threads") == study.threads)
        & (pl.col("family") == study.main)
    )
    if rows.is_empty():
        return []
    workers = rows["workers"].max()
    means = dict(rows.filter(workers=workers).select(pl.col("quantity").cast(pl.String), "mean_us").iter_rows())
    if not {"T", "P", "C", "L"} <= means.keys():
        return []
    n = rows.filter(workers=workers, quantity="T")["n"][0]
    shares = [
        f"{100 * means[symbol] / means['T']:.0f} % {words}"
        for symbol, words in (("P", "in the parent"), ("C", "in the child"), ("L", "between them"))
    ]
    size = f"{size_text(int(str(workers)))} and {counted(study.threads, 'thread')}"
    return [
        f"A remote {kind.upper()} on {size} takes {means['T'] / 1000:.2f} ms on average on the server (n = {n}): "
        f"{listed(shares)}."
    ]


def _sizes(study: ProfileStudy) -> list[str]:
    sentences = []
    for kind in sorted({str(c.stratum["kind"]) for c in study.sizes}):
        mine = [c for c in study.sizes if c.stratum["kind"] == kind]
        small, large = (int(str(mine[0].stratum[end])) for end in ("small", "large"))
        sizes = f"from {small} to {counted(large, 'worker')}"
        ratios = [f"{decided_text(c)} at {counted(int(str(c.stratum['threads'])), 'thread')}" for c in mine]
        joint = f" ({words})" if (words := joint_text(mine)) else ""
        sentences.append(
            f"Time of a remote {kind.upper()} on the server, {sizes}: {_claim(mine)}. "
            f"The ratio of the runs' means{joint} is {listed(ratios)}."
        )
    return sentences


def _places(study: ProfileStudy) -> list[str]:
    if not study.places:
        return []
    low = min(c.ratio.estimate for c in study.places)
    high = max(c.ratio.estimate for c in study.places)
    return [
        f"Time of a SELECT executed on its parent's own node against a remote one: {_claim(study.places)}; "
        f"{low:.2f} to {high:.2f} times as long."
    ]


_WORDS: Final = {"slower": "longer", "faster": "shorter", "equivalent": "the same", "inconclusive": "undecided"}


def _claim(comparisons: Sequence[Comparison]) -> str:
    """The verdicts as one phrase; of a time, `slower` is longer."""
    counts = Counter(_WORDS[c.verdict] for c in comparisons).most_common()
    total = counted(len(comparisons), "configuration")
    if len(counts) == 1:
        return f"{counts[0][0]} in {'all ' if len(comparisons) > 1 else ''}{total}"
    return listed([f"{counts[0][0]} in {counts[0][1]} of {total}", *(f"{word} in {n}" for word, n in counts[1:])])


def profile_warnings(study: ProfileStudy) -> list[str]:
    """Caveats for comparisons of times: records missing from the logs, and times that contain the commit."""
    return [*_missing_records(study), *_outside(study), *_hidden_commits(study)]


def _outside(study: ProfileStudy) -> list[str]:
    """Statements outside the time in which the main clients ran."""
    window, notes = study.window, []
    if window.outside:
        all_of = f", all of {counted(len(window.runs_outside), 'run')} among them" if window.runs_outside else ""
        notes.append(
            f"{window.outside:,} of {window.outside + window.rows.height:,} sampled statements began before or ended "
            f"after the time in which all main clients of their run ran, and are left out{all_of}. The monitor "
            "client's own latencies include them."
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
    keys = ["statement_kind", "executed", "family"]
    notes = []
    for (warning,), rows in shown.group_by("warning", maintain_order=True):
        cases = rows.select(keys).unique(maintain_order=True).iter_rows()
        words = [
            f"{executed} {str(kind).upper()}{f' of {family}' if family else ''}" for kind, executed, family in cases
        ]
        notes.append(f"{warning} ({listed(words, most=4)}).")
    if notes:
        notes.insert(0, "These times do not all cover the same work; before comparing them, note:")
    return notes

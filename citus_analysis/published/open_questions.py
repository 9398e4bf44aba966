"""The questions that the thesis leaves open, where each is answered, and the answers of small recordings.

The recordings (`data/open-questions`) are of Citus 13.2.2 with two workers on one machine of two processors that other
programs used as well, three runs of a few seconds each: they show directions, not the sizes of effects on the thesis'
clusters. The experiments named here measure the same on a cluster. Numbers in sentences are computed from single runs,
of which `data/extract_open_questions.py` made the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.shipped_files import find_shipped_folder
from citus_analysis.core.type_aliases import Floats
from citus_analysis.defaults import LEVEL
from citus_analysis.published.owner_routing import estimate_owner_routing
from citus_analysis.stats.results import Interval
from citus_analysis.stats.verdicts import compare
from citus_analysis.texts.numbers import format_number
from citus_analysis.texts.words import join_words

_FOLDER: Final = "open_questions"
_DIRECTION: Final = "small recordings here, directions only"
#: PostgreSQL's own settings of the WAL writer.
_USUAL: Final = "wal_writer_delay=200ms wal_writer_flush_after=1MB"
_MOST_FUNCTIONS: Final = 5


@dataclass(frozen=True, repr=False)
class OpenQuestions(DisplayMixin):
    """The open questions of the thesis.

    Attributes:
        rows: `question`, `asked_in` (part of the thesis), `answered_by` (commands, experiments, sections of the page),
            `answer` (with `basis`, what it rests on).
    """

    rows: pl.DataFrame

    def summary_lines(self) -> list[str]:
        """Each question with its answer."""
        return [f"{row['question']} {row['answer']}" for row in self.rows.to_dicts()]

    def summary_table(self) -> pl.DataFrame | None:
        """One row per question."""
        return self.rows


def answer_open_questions(level: float = LEVEL) -> OpenQuestions:
    """The questions that the thesis leaves open, with their answers.

    Args:
        level: confidence level of intervals.

    Example:
        >>> answer_open_questions().rows["question"].item(0)
        'What would a driver gain that sends each statement to the node of its shard?'
    """
    runs = read_question_runs()
    rows = [
        (
            "What would a driver gain that sends each statement to the node of its shard?",
            "future work",
            "the section above; what-if --change owner-routing, experiment owner-routing",
            _answer_owner_routing(),
            "the thesis' printed means",
        ),
        (
            "Which functions does the parent of a SELECT spend its time in?",
            "future work",
            "experiment parent-work; the profile of node 0",
            _answer_parent_work(),
            _DIRECTION,
        ),
        (
            "Do wal_writer_delay and wal_writer_flush_after raise the throughput of INSERT?",
            "cluster configuration and tuning",
            "experiment wal-writer; compare --by settings",
            _answer_wal_writer(runs, level),
            _DIRECTION,
        ),
        (
            "How many connections are best for the other core workloads?",
            "investigating more workloads",
            "experiment workloads; connections, scale --x threads",
            _answer_workloads(runs, level),
            _DIRECTION,
        ),
        (
            "How many connections does the memory of a node allow?",
            "conclusion, future work",
            "experiment connection-memory; connections --memory GB",
            "The command says so for your runs: how much memory each process takes, and how many connections between "
            "the nodes the sessions of clients have.",
            "measured memory of each process",
        ),
        (
            "What does it gain to manage connections?",
            "cluster configuration and tuning",
            "experiment pool-size; connections; what-if --change pool-size=N",
            f"{_answer_pool_size(runs, level)} {_answer_pooler(runs, level)}",
            _DIRECTION,
        ),
        (
            "What would prepared statements between nodes gain?",
            "future work",
            "not answered",
            "Citus 13.2 has no setting for it, so that nothing could be measured.",
            "",
        ),
    ]
    columns = ("question", "asked_in", "answered_by", "answer", "basis")
    return OpenQuestions(pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row"))


def read_question_runs() -> pl.DataFrame:
    """Single runs of the recordings: `experiment`, `settings`, `workload`, `phase`, `threads`, `throughput_ops_s` ...

    Example:
        >>> sorted(read_question_runs()["experiment"].unique())
        ['bouncer', 'connections', 'direct', 'pool-size', 'wal-writer', 'workloads']
    """
    return pl.read_csv(find_shipped_folder("published") / _FOLDER / "runs.csv")


def _answer_owner_routing() -> str:
    known = estimate_owner_routing().rows.drop_nulls("ratio_high").to_dicts()
    parts = []
    for row in known:
        low, high = format_number(row["ratio_low"]), format_number(row["ratio_high"])
        bounds = f"{low}- to {high}-fold" if row["ratio_low"] > 1 else f"at most {high}-fold"
        parts.append(f"{row['operation']} on {row['workers']} workers {bounds}")
    return f"Estimated, not measured: {join_words(parts)}."


def _answer_wal_writer(runs: pl.DataFrame, level: float) -> str:
    """Each other pair of settings against the defaults, with intervals of one level together."""
    mine = runs.filter(experiment="wal-writer")
    parts = mine.select(
        "throughput_ops_s",
        commit=pl.col("settings").str.extract(r"synchronous_commit=(\w+)"),
        writer=pl.col("settings").str.replace(r"synchronous_commit=\w+ ", ""),
    )
    said, told = [], False
    for commit in ("on", "off"):
        some = parts.filter(commit=commit)
        usual = _rates(some.filter(writer=_USUAL))
        settings = [one for one in some["writer"].unique(maintain_order=True) if one != _USUAL]
        each = _share_level(level, len(settings))
        others = [(one, _estimate_ratio(_rates(some.filter(writer=one)), usual, each)) for one in settings]
        decided = [name for name, ratio in others if ratio.exists and (ratio.low > 1 or ratio.high < 1)]
        told = told or bool(decided)
        low, high = min(ratio.estimate for _, ratio in others), max(ratio.estimate for _, ratio in others)
        verb = "differs" if len(decided) == 1 else "differ"
        found = (
            f"{join_words(decided)} {verb} from the defaults" if decided else "none is distinguished from the defaults"
        )
        said.append(
            f"with synchronous_commit = {commit}, {len(others)} other settings gave {format_number(low)} to "
            f"{format_number(high)} times the throughput of the defaults, of which {found}"
        )
    waiting = _estimate_ratio(_rates(parts.filter(commit="off")), _rates(parts.filter(commit="on")), level)
    head = "By these runs" if told else "Not by these runs"
    return f"{head}: {said[0]}; {said[1]}. Not waiting for the flush gave {_format_ratio(waiting)} times as much."


def _answer_workloads(runs: pl.DataFrame, level: float) -> str:
    mine = runs.filter(experiment="workloads", phase="run")
    measured = sorted(mine["threads"].unique())
    best: dict[int, list[str]] = {}
    undecided = []
    for (workload,), some in mine.group_by("workload", maintain_order=True):
        means = some.group_by("threads").agg(pl.col("throughput_ops_s").mean()).sort("throughput_ops_s")
        first, second = means["threads"].item(-1), means["threads"].item(-2)
        best.setdefault(first, []).append(str(workload))
        ratio = _estimate_ratio(_rates(some.filter(threads=first)), _rates(some.filter(threads=second)), level)
        if not ratio.exists or ratio.low <= 1:
            undecided.append(f"{workload} ({second})")
    found = [f"{threads} for {join_words(sorted(names))}" for threads, names in sorted(best.items())]
    text = f"Of {join_words([str(one) for one in measured])} connections, most operations per second with "
    text += join_words(found)
    return (
        f"{text}; not distinguished from the second best: {join_words(sorted(undecided))}." if undecided else f"{text}."
    )


def _answer_pool_size(runs: pl.DataFrame, level: float) -> str:
    mine = runs.filter(experiment="pool-size").with_columns(
        size=pl.col("settings").str.extract(r"pool_size=(\d+)").cast(pl.Int64)
    )
    said = []
    for threads, words in ((128, "128 clients"), (1, "one client")):
        some = mine.filter(threads=threads)
        ratio = _estimate_ratio(_rates(some.filter(size=1)), _rates(some.filter(size=16)), level)
        said.append(f"{_format_ratio(ratio)} times ({words})")
    return (
        "One connection a node for the tasks of a statement instead of 16 gave queries of all shards "
        f"{join_words(said)} the throughput (issues of Citus: 5134, 2.7 times; 7772, 3.5 times)."
    )


def _answer_pooler(runs: pl.DataFrame, level: float) -> str:
    said = []
    for threads in (16, 256):
        some = runs.filter(threads=threads)
        pooled, direct = (_rates(some.filter(experiment=name)) for name in ("bouncer", "direct"))
        ratio = _estimate_ratio(pooled, direct, level)
        said.append(f"{_format_ratio(ratio)} times the throughput of {threads} clients")
    return f"PgBouncer with 8 connections a node gave {join_words(said)}."


def _answer_parent_work() -> str:
    shares = pl.read_csv(find_shipped_folder("published") / _FOLDER / "parent_work.csv")
    objects = shares.group_by("shared_object").agg(pl.col("self_percent").sum()).sort("self_percent", descending=True)
    total = float(shares["self_percent"].sum())
    parts = [f"{share / total:.0%} in {name}" for name, share in objects.head(4).iter_rows()]
    named = shares.drop_nulls("symbol").filter(pl.col("shared_object") != "[kernel.kallsyms]")
    named = named.sort("self_percent", descending=True, maintain_order=True)
    names = [f"{symbol} ({share / total:.1%})" for _, symbol, share in named.head(_MOST_FUNCTIONS).iter_rows()]
    text = f"Of the coordinating sessions' CPU time, {join_words(parts)}"
    if not names:
        return f"{text}; no function beside the kernel's is named.".replace("%", " %")
    largest = float(named["self_percent"].head(1).item())
    most = f"no named function beside the kernel's has more than {largest / total:.1%}"
    verb = "is" if len(names) == 1 else "are"
    return f"{text}; {most}: the largest {verb} {join_words(names)}.".replace("%", " %")


def _rates(runs: pl.DataFrame) -> Floats:
    return np.asarray(runs["throughput_ops_s"].to_numpy(), dtype=np.float64)


def _estimate_ratio(changed: Floats, base: Floats, level: float) -> Interval:
    """The throughput after a change over that before it."""
    return compare(changed, base, level=level).ratio


def _share_level(level: float, comparisons: int) -> float:
    """The level of each of several intervals that together have a level (Bonferroni)."""
    return 1 - (1 - level) / comparisons


def _format_ratio(ratio: Interval) -> str:
    return f"{format_number(ratio.estimate)} {ratio.ends_text()}".strip()

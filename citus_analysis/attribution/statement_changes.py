"""What changed for each statement, by its text without constants, and for each segment on each node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

import numpy as np
import polars as pl

from citus_analysis.attribution.observed import (
    BATCHES,
    KIND,
    OF_CHILD,
    SEGMENT_WORDS,
    SEGMENTS,
    STATEMENTS_PER_S,
    Observed,
    ObservedSample,
)
from citus_analysis.core.frames import TableSource
from citus_analysis.core.type_aliases import Floats, Integers
from citus_analysis.runs.selection import Question
from citus_analysis.serverlogs.statements import find_opening_records, normalise_statement, read_texts
from citus_analysis.serverlogs.windows import LogSource, LogWindow, WindowedLogs
from citus_analysis.stats.independence import check_independence
from citus_analysis.stats.verdicts import Comparison, compare, compare_many

#: Statements that are compared: those with the most time on both sides.
_MOST: Final = 50
#: Fewest executions on a side whose mean time, or number, is compared.
_FEWEST: Final = 20
_OF_RATES: Final = {"faster": "more often", "slower": "less often"}


@dataclass(frozen=True)
class StatementChange:
    """One statement on both sides of a difference.

    Attributes:
        statement_kind: select, insert ...
        statement: its text without constants; empty if the raw logs are not readable any more.
        statement_fingerprint: that of its records; None if no record names the statement.
        base_n: executions of the base that were traced.
        other_n: executions of the other side.
        part_us: all terms of the account that are of this statement.
        part_low_us: lower end of its interval, which holds together with those of the other statements.
        part_high_us: upper end.
        rate: how often it comes: per second in logs without runs, otherwise per operation; None with too few
            executions. `faster` means more often.
        time: its mean time (µs); None with too few executions.
        segment: the segment, of those on `node`, whose time changed most.
        node: the node with it.
    """

    statement_kind: str
    statement: str
    statement_fingerprint: int | None
    base_n: int
    other_n: int
    part_us: float
    part_low_us: float
    part_high_us: float
    rate: Comparison | None
    time: Comparison | None
    segment: str = ""
    node: str = ""

    @property
    def presence(self) -> Literal["both", "base", "other"]:
        """The sides that have it."""
        if not self.base_n:
            return "other"
        return "both" if self.other_n else "base"

    def to_dict(self) -> dict[str, object]:
        """As plain values, with the ratios of rates and times."""
        names = ("statement_kind", "statement", "statement_fingerprint", "base_n", "other_n", "presence", "segment")
        parts = ("node", "part_us", "part_low_us", "part_high_us")
        plain = {name: getattr(self, name) for name in (*names, *parts)}
        return plain | _record("rate", self.rate) | _record("time_us", self.time)


def _record(name: str, one: Comparison | None) -> dict[str, object]:
    means = {f"base_{name}": one and one.mean_b.estimate, f"other_{name}": one and one.mean_a.estimate}
    ends = one.ratio.ends if one else (None, None)
    ratio = f"{name.removesuffix('_us')}_ratio"
    ratios = {ratio: one and one.ratio.estimate, f"{ratio}_low": ends[0], f"{ratio}_high": ends[1]}
    verdict = one and (_OF_RATES.get(one.verdict, one.verdict) if name == "rate" else one.verdict)
    return {**means, **ratios, f"{name.removesuffix('_us')}_verdict": verdict}


def find_statement_changes(sides: Observed, parts: pl.DataFrame, question: Question) -> tuple[StatementChange, ...]:
    """The statements with the most time on both sides, the largest part of the difference first.

    Rates and mean times are compared over the runs (or batches), by Welch's t on the log of the ratio, adjusted over
    all of them by Holm.

    Args:
        sides: what was observed.
        parts: one row per kind of statement, in the order of the kinds: `part_us`, `low_us`, `high_us`, `segment`,
            `node`.
        question: level and margin of the comparisons.
    """
    kinds = sides.cells["kind"].to_numpy().astype(np.int64)
    named = sides.cells.unique("kind").sort("kind").select(*KIND)
    executions = [_count_executions(sides.timed, number, named) for number in (0, 1)]
    measured = [_sum_statements_by_kind(side, kinds, parts.height) for side in sides.both]
    whole = np.sum([totals.sum(axis=0) for _, totals in measured], axis=0)
    chosen = [int(kind) for kind in np.argsort(-whole, kind="stable")[:_MOST]]
    texts = _read_statement_texts(sides.sources, named[chosen]["statement_fingerprint"])
    enough = [kind for kind in chosen if min(executions[0][kind], executions[1][kind]) >= _FEWEST]
    tests = list(_compare_rates_and_means(sides, measured, enough, question))
    adjusted = iter(compare_many([one for one in tests if one is not None], level=question.level))
    compared = [one and next(adjusted) for one in tests]
    found = {kind: compared[2 * i : 2 * i + 2] for i, kind in enumerate(enough)}
    rows = [
        StatementChange(
            named[kind, "statement_kind"] or "",
            texts.get(named[kind, "statement_fingerprint"], ""),
            named[kind, "statement_fingerprint"],
            int(executions[0][kind]),
            int(executions[1][kind]),
            *parts.row(kind)[:3],
            *found.get(kind, (None, None)),
            *parts.row(kind)[3:],
        )
        for kind in chosen
    ]
    return tuple(sorted(rows, key=lambda one: -abs(one.part_us)))


def _count_executions(timed: pl.DataFrame, side: int, named: pl.DataFrame) -> Integers:
    counts = timed.filter(side=side).group_by(KIND).len().with_columns(pl.col("statement_kind").cast(pl.String))
    found = named.join(counts, on=KIND, how="left", nulls_equal=True, maintain_order="left")
    return found["len"].fill_null(0).to_numpy().astype(np.int64)


def _sum_statements_by_kind(side: ObservedSample, kinds: Integers, number: int) -> tuple[Floats, Floats]:
    """How often each kind of statement comes, and its time in all, by run and kind."""
    is_of = np.eye(number)[kinds]
    counts, totals = side.counts @ is_of, side.times.sum(axis=2) @ is_of
    per_s = side.table.get_column(STATEMENTS_PER_S, default=None)
    if per_s is None:
        return counts, totals
    # In batches without any statement, each kind comes 0 times.
    scaled = np.stack([counts, totals]) * per_s.to_numpy()[:, None]
    padded = np.pad(scaled, ((0, 0), (0, BATCHES - side.runs), (0, 0)))
    return padded[0], padded[1]


def _compare_rates_and_means(
    sides: Observed, measured: list[tuple[Floats, Floats]], chosen: list[int], question: Question
) -> Iterator[Comparison | None]:
    """The comparison of rates and that of mean times, for each kind."""
    compared = partial(
        compare, margin=question.margin, level=question.level, label_a=sides.other.name, label_b=sides.base.name
    )
    for kind in chosen:
        rates = [counts[:, kind] for counts, _ in measured]
        times = [totals[counts[:, kind] > 0, kind] / counts[counts[:, kind] > 0, kind] for counts, totals in measured]
        for values, better, metric in ((rates, True, "rate"), (times, False, "time_us")):
            base, other = values
            few = min(base.size, other.size) < 2
            worth = None
            if sides.effective is not None and not few:
                # How often statements come may depend on the past even where their times do not.
                known = reversed(sides.effective) if metric == "time_us" else (np.inf, np.inf)
                worth_other, worth_base = (
                    max(2.0, min(one, float(each.size), check_independence(each).effective if better else np.inf))
                    for one, each in zip(known, (other, base), strict=True)
                )
                worth = worth_other, worth_base
            yield None if few else compared(other, base, higher_is_better=better, metric=metric, effective=worth)


def _read_statement_texts(sources: tuple[TableSource, TableSource], fingerprints: pl.Series) -> dict[int, str]:
    """Fingerprint -> text without constants, where a raw log still has it."""
    texts: dict[int, str] = {}
    for source in sources:
        wanted = fingerprints.drop_nulls().filter(~fingerprints.drop_nulls().is_in(list(texts)))
        if not isinstance(source, LogSource) or wanted.is_empty():
            continue
        logs = WindowedLogs.of(source, LogWindow())
        records = find_opening_records(logs, wanted)
        rows = records.join(read_texts(logs, records).rows, on=["source_id", "byte_offset"]).drop_nulls("text")
        texts |= {name: normalise_statement(text) for name, text in rows.select("fingerprint", "text").iter_rows()}
    return texts


@dataclass(frozen=True)
class SegmentChange:
    """A segment of statements on a node, on both sides of a difference; tested by itself, whatever the whole shows.

    Attributes:
        segment: one of :data:`~citus_analysis.attribution.observed.SEGMENTS`.
        node: the node where it passed.
        time: mean time (µs) of the segment in a statement that has it there, for the same shares of kinds of statements
            on both sides; one value per run.
        estimate_us: its terms in the account, for an operation.
    """

    segment: str
    node: str
    time: Comparison
    estimate_us: float

    @property
    def words(self) -> str:
        """The segment in words."""
        return SEGMENT_WORDS[self.segment]

    @property
    def decided(self) -> bool:
        """Whether it takes longer or shorter on the other side."""
        return self.time.differs

    def to_dict(self) -> dict[str, object]:
        """As plain values."""
        plain = {"segment": self.segment, "node": self.node, "words": self.words, "estimate_us": self.estimate_us}
        return plain | _record("time_us", self.time)


#: Part of all time below which a segment on a node is not tested.
_LEAST_PART: Final = 0.02


def find_segment_changes(sides: Observed, terms: pl.DataFrame, question: Question) -> tuple[SegmentChange, ...]:
    """The segments on each node, compared by themselves; those that are surest first.

    The sum over a node or a segment can hide what is sure in one of its parts: children that take longer beside commits
    whose times vary. So the mean time of each segment on each node is compared over the runs, by Welch's t on the log
    of the ratio, adjusted over all of them by Holm. Kinds of statements have the same weights on both sides.

    Args:
        sides: what was observed.
        terms: terms of the account.
        question: level and margin of the comparisons.
    """
    found: list[tuple[str, str, Comparison]] = []
    whole = sum(float(side.times.mean(axis=0).sum()) for side in sides.both)
    for at, names in (("node", [one for one in SEGMENTS if one not in OF_CHILD]), ("child_node", sorted(OF_CHILD))):
        # What ran on a node: for its own segments each kind and way, for those of children each kind.
        groups = ["statement_kind", "statement_fingerprint", "executed"]
        cells = sides.cells.with_row_index("cell").drop_nulls(at)
        for (node,), mine in cells.group_by(at, maintain_order=True):
            numbered = mine.select(group=pl.struct(groups).rank("dense").cast(pl.Int64) - 1, cell="cell")
            most = int(numbered["group"].max() or 0)  # type: ignore[arg-type] # a column of numbers
            is_of = np.zeros((sides.cells.height, most + 1))
            is_of[numbered["cell"].to_numpy(), numbered["group"].to_numpy()] = 1.0
            for name in names:
                values = [side.times[:, :, SEGMENTS.index(name)] for side in sides.both]
                part = sum(float((one.mean(axis=0) @ is_of).sum()) for one in values)
                if part < _LEAST_PART * whole:
                    continue
                means = _standardise_means(
                    [side.counts @ is_of for side in sides.both], [one @ is_of for one in values]
                )
                if means is not None:
                    found.append((name, str(node), _compare_segment_means(sides, means, question)))
    adjusted = compare_many([one for _, _, one in found], level=question.level) if found else ()
    sums = {
        (segment, node): us
        for segment, node, us in terms.filter(effect="time")
        .group_by("segment", "node")
        .agg(pl.col("estimate_us").sum())
        .iter_rows()
    }
    rows = [
        SegmentChange(name, node, one, sums.get((name, node), 0.0))
        for (name, node, _), one in zip(found, adjusted, strict=True)
    ]
    return tuple(sorted(rows, key=lambda one: (not one.decided, -abs(one.estimate_us))))


def _standardise_means(counts: list[Floats], totals: list[Floats]) -> tuple[Floats, Floats] | None:
    """Mean times of the runs of both sides, kinds weighted as on both sides together; None with too few runs.

    Runs without one of the kinds are left out, and kinds that most runs of a side lack.
    """
    common = np.minimum(*((one > 0).mean(axis=0) for one in counts)) >= 0.5
    weights = np.where(common, sum(one.mean(axis=0) for one in counts), 0.0)
    if not weights.any():
        return None
    found = []
    for number, total in zip(counts, totals, strict=True):
        complete = (number[:, common] > 0).all(axis=1)
        means = np.divide(total, number, out=np.zeros_like(total), where=number > 0) @ (weights / weights.sum())
        found.append(means[complete & (means > 0)])
    return (found[0], found[1]) if min(one.size for one in found) >= 2 else None


def _compare_segment_means(sides: Observed, means: tuple[Floats, Floats], question: Question) -> Comparison:
    base, other = means
    labelled = partial(compare, label_a=sides.other.name, label_b=sides.base.name)
    blocked = sides.paired and base.size == sides.base.runs and other.size == sides.other.runs
    worth = None
    if sides.effective is not None:
        worth = min(sides.effective[1], float(other.size)), min(sides.effective[0], float(base.size))
    tested = partial(
        labelled, other, base, question.margin, level=question.level, higher_is_better=False, metric="time_us"
    )
    return tested(blocked=blocked, effective=worth)

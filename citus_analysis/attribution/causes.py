"""The result of an account: its terms, the causes that are sums of them, and what is said of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Final, Literal

import polars as pl

from citus_analysis.attribution.correlated_changes import CorrelatedChange
from citus_analysis.attribution.function_changes import StackChanges
from citus_analysis.attribution.observed import SEGMENT_WORDS
from citus_analysis.attribution.plan_differences import PlanChanges
from citus_analysis.attribution.statement_changes import SegmentChange, StatementChange
from citus_analysis.core.displays import DisplayMixin
from citus_analysis.stats.findings import ReportFinding
from citus_analysis.stats.intervals import Design
from citus_analysis.stats.verdicts import Comparison

#: What a term is an effect of: how often statements came, where they ran, how long a segment took, or what no trace
#: saw. Times are summed over a node or over a segment. The last three are of throughput alone.
Effect = Literal[
    "mix", "place", "outside", "untraced", "unseen", "time", "node", "segment", "concurrency", "client", "uneven"
]

_MOST_CARRIED: Final = 3
#: Where statements write, a commit may come after the last duration.
_OUTSIDE_WRITES: Final = (
    "outside the traced statements (client, network, waiting until a server reads them, and commits that no duration "
    "includes)"
)
_WORDS: Final = {
    "mix": "other statements in the mix",
    "place": "other places of execution",
    "outside": "outside the traced statements (client, network, and waiting until a server reads them)",
    "untraced": "in operations that were not traced, beyond those of the traced client",
    "concurrency": "the number of the client's threads",
    "client": "the client's time between operations",
    "uneven": "runs of a side that differ from each other",
}


@dataclass(frozen=True)
class TopContributors:
    """Statements of one run that carry most of a cause.

    Attributes:
        side: the side on which they took longer, or came more often.
        selection: arguments of :class:`citus_analysis.explorer.StatementSelection`.
        statements: their number.
        share: their share of the time that the statements of the run took longer for the cause.
    """

    side: Literal["base", "other"]
    selection: dict[str, object]
    statements: int
    share: float

    @property
    def call(self) -> str:
        """The Python expression of the selection."""
        return f"StatementSelection({', '.join(f'{name}={value!r}' for name, value in self.selection.items())})"


@dataclass(frozen=True)
class Cause:
    """A sum of terms that is named: an effect, at a place.

    Attributes:
        effect: mix, place, outside, untraced, node (times on a node), segment (times of a segment), or time (one
            segment on one node, as a part of the two).
        segment: one of :data:`~citus_analysis.attribution.observed.SEGMENTS`: the segment that was summed, or of a
            node the one with at least half of it; else empty.
        node: the node that was summed, or of a segment the one with at least half of it; else empty.
        estimate_us: its part of the difference of the mean response time.
        low_us: lower end of its interval, which holds together with those of the other causes, or parts of the cause.
        high_us: upper end.
        p: probability of so large an effect without a difference, adjusted for the number of causes or parts.
        statement_kind: kind of statement that carries most of it; empty if it is of none.
        statement_share: that kind's share of it.
        parts: of a node its segments, of a segment its nodes; the largest first.
        top_contributors: the statements that carry most of it; None for parts, and where no traced statement does.
        writes: whether some of the statements write, so that commits may be outside of them.
        unseen: of what both sides do not show alike, what it is.
    """

    effect: Effect
    segment: str
    node: str
    estimate_us: float
    low_us: float
    high_us: float
    p: float
    statement_kind: str = ""
    statement_share: float = 1.0
    parts: tuple[Cause, ...] = ()
    top_contributors: TopContributors | None = None
    writes: bool = False
    unseen: str = ""

    @property
    def decided(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low_us > 0 or self.high_us < 0

    @property
    def words(self) -> str:
        """What it is, without the place."""
        if self.effect == "unseen":
            return self.unseen
        if self.effect == "outside" and self.writes:
            return _OUTSIDE_WRITES
        return _WORDS.get(self.effect) or SEGMENT_WORDS.get(self.segment, "")


@dataclass(frozen=True)
class ThroughputPart:
    """A part of the difference of throughput.

    Attributes:
        cause: the part of the response time that it follows from; of 0 µs for the terms of throughput alone.
        estimate_ops_s: its part of the difference.
        low_ops_s: lower end of its interval, which holds together with those of the other parts.
        high_ops_s: upper end.
        p: probability of so large a part without a difference, adjusted for the number of parts.
    """

    cause: Cause
    estimate_ops_s: float
    low_ops_s: float
    high_ops_s: float
    p: float

    @property
    def decided(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low_ops_s > 0 or self.high_ops_s < 0

    def to_dict(self) -> dict[str, object]:
        """As plain values."""
        place = {name: getattr(self.cause, name) for name in ("effect", "segment", "node", "words")}
        return place | {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "cause"}


@dataclass(frozen=True)
class ThroughputAccount:
    """Where a difference of throughput comes from, by Little's law.

    Attributes:
        base_ops_s: mean throughput of the base's runs.
        other_ops_s: that of the other side.
        threads: the client's threads on each side.
        in_system: threads that were in an operation on average, X R, on each side: the check of the law.
        parts: what the difference is made of, the largest first; adds up to it.
    """

    base_ops_s: float
    other_ops_s: float
    threads: tuple[float, float]
    in_system: tuple[float, float]
    parts: tuple[ThroughputPart, ...]

    @property
    def difference_ops_s(self) -> float:
        """Mean throughput of the other side less that of the base."""
        return self.other_ops_s - self.base_ops_s

    def to_dict(self) -> dict[str, object]:
        """As plain values, for JSON."""
        means = {name: getattr(self, name) for name in ("base_ops_s", "other_ops_s", "difference_ops_s")}
        pairs = {"threads": self.threads, "in_system": self.in_system}
        of_sides = {name: dict(zip(("base", "other"), pair, strict=True)) for name, pair in pairs.items()}
        return {**means, **of_sides, "parts": [part.to_dict() for part in self.parts]}


@dataclass(frozen=True, repr=False)
class Explanation(DisplayMixin):
    """Where the difference between two sets of runs comes from.

    Attributes:
        base: name of the side that the other is compared with.
        other: name of the other side.
        comparison: response times of both sides, one value per run, with the verdict.
        throughput: the same of throughput; None if no run has one.
        terms: the account: `effect`, `statement_kind`, `segment`, `node`, `estimate_us`; adds up to `difference_us`.
        causes: sums of terms by effect, segment and node, the largest first.
        correlated_changes: what else differs on the nodes, with tests.
        changes: settings, versions and loads that differ: `name`, `before`, `after`.
        examples: the slowest statements of the largest cause: `trace_id`, `run_id`, `node`, `total_us`, its segments,
            and the line that reports it: `file` and `byte_offset`.
        statement_changes: each statement's part, how often it comes and how long it takes; the largest part first.
        statements: traced statements of each side.
        design: how the runs of both sides were matched.
        measured: `response time` of the clients, or `traced time` if no client reported one.
        throughput_account: where the difference of throughput comes from; None where Little's law gives no account.
        warnings: what the account cannot say.
        findings: all of this in words.
        unit: what was compared: runs, or batches of time.
        stacks: functions in perf's samples of both sides; None if neither has any.
        plans: plans of statements that both sides recorded; None if there are none.
        compared: which settings were compared, in words.
        segment_changes: the segments on each node, each tested by itself; the sure ones first.
        skew: the spread of executions over shards and nodes; see :mod:`citus_analysis.attribution.shard_skew`.
    """

    base: str
    other: str
    comparison: Comparison
    throughput: Comparison | None
    terms: pl.DataFrame
    causes: tuple[Cause, ...]
    correlated_changes: tuple[CorrelatedChange, ...]
    changes: pl.DataFrame
    examples: pl.DataFrame
    statement_changes: tuple[StatementChange, ...]
    statements: tuple[int, int]
    design: Design
    measured: str
    throughput_account: ThroughputAccount | None = None
    warnings: tuple[str, ...] = ()
    findings: tuple[ReportFinding, ...] = ()
    unit: str = "run"
    stacks: StackChanges | None = None
    plans: PlanChanges | None = None
    skew: pl.DataFrame = field(default_factory=pl.DataFrame)
    compared: str = ""
    segment_changes: tuple[SegmentChange, ...] = ()

    @property
    def difference_us(self) -> float:
        """Mean response time of the other side less that of the base."""
        return self.comparison.mean_a.estimate - self.comparison.mean_b.estimate

    @property
    def decided(self) -> bool:
        """Whether the sides differ."""
        return self.comparison.differs

    @property
    def named(self) -> tuple[Cause, ...]:
        """The causes that the runs support: none where the sides do not differ."""
        return tuple(cause for cause in self.causes if cause.decided) if self.decided else ()

    @property
    def carried(self) -> tuple[Cause, ...]:
        """The named causes, or else the largest, as far as traced statements carry them; none for equal sides."""
        shown = (self.named or self.causes[:1]) if self.decided else ()
        return tuple(one for one in shown if one.top_contributors)[:_MOST_CARRIED]

    @property
    def unexplained_us(self) -> float:
        """What no traced statement covers."""
        return float(self.terms.filter(pl.col("effect").is_in(["outside", "untraced", "unseen"]))["estimate_us"].sum())

    @property
    def sentences(self) -> tuple[str, ...]:
        """The findings in words."""
        return tuple(map(str, self.findings))

    def summary_lines(self) -> list[str]:
        """The finding in sentences, and what the account cannot say."""
        return [*self.sentences, *(f"note: {text}" for text in self.warnings)]

    def summary_table(self) -> pl.DataFrame | None:
        """The causes, one row each."""
        return self.to_polars()

    def to_polars(self) -> pl.DataFrame:
        """One row per cause, the largest first."""
        columns = ("effect", "segment", "node", "statement_kind", "estimate_us", "low_us", "high_us", "p", "decided")
        rows = [{name: getattr(cause, name) for name in columns} for cause in self.causes]
        return pl.DataFrame(rows, schema_overrides={"segment": pl.String, "node": pl.String})

    def to_dict(self) -> dict[str, object]:
        """The same as plain values, for JSON."""
        ratio = self.comparison.ratio
        return {
            **{name: getattr(self, name) for name in ("base", "other", "measured")},
            "verdict": self.comparison.verdict,
            **ratio.record("ratio"),
            "level": ratio.level,
            "runs": {"base": self.comparison.mean_b.n, "other": self.comparison.mean_a.n},
            "statements": dict(zip(("base", "other"), self.statements, strict=True)),
            "design": self.design,
            "base_us": self.comparison.mean_b.estimate,
            "other_us": self.comparison.mean_a.estimate,
            "difference_us": self.difference_us,
            "unexplained_us": self.unexplained_us,
            "throughput_ratio": self.throughput.ratio.estimate if self.throughput else None,
            "throughput": self.throughput_account.to_dict() if self.throughput_account else None,
            "named": [_convert_cause_to_dict(cause) for cause in self.named],
            "causes": [_convert_cause_to_dict(cause) for cause in self.causes],
            "terms": self.terms.to_dicts(),
            "correlated_changes": [one.to_dict() for one in self.correlated_changes],
            "statement_changes": [one.to_dict() for one in self.statement_changes],
            "segment_changes": [one.to_dict() for one in self.segment_changes],
            "compared": self.compared,
            "changes": self.changes.to_dicts(),
            "functions": self.stacks.functions.to_dicts() if self.stacks else [],
            "plans": self.plans.statements.to_dicts() if self.plans else [],
            "plan_nodes": self.plans.nodes.to_dicts() if self.plans else [],
            "skew": self.skew.to_dicts(),
            "examples": self.examples.to_dicts(),
            **{name: list(getattr(self, name)) for name in ("sentences", "warnings")},
        }


def _convert_cause_to_dict(cause: Cause) -> dict[str, object]:
    left_out = ("parts", "top_contributors", "writes", "unseen")
    plain = {name: getattr(cause, name) for name in Cause.__dataclass_fields__ if name not in left_out}
    parts = [_convert_cause_to_dict(part) for part in cause.parts]
    top_contributors = asdict(cause.top_contributors) if cause.top_contributors else None
    return {
        **plain,
        "words": cause.words,
        "decided": cause.decided,
        "parts": parts,
        "top_contributors": top_contributors,
    }

"""Where a difference of two sets of runs comes from: an account whose terms add up, and what else moved with it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from citus_analysis.attribution.causes import Cause, Effect, Explanation, ThroughputAccount, ThroughputPart
from citus_analysis.attribution.correlated_changes import find_correlated_changes
from citus_analysis.attribution.decomposition import (
    OWN_TERMS,
    ROUNDING,
    ClosedLoop,
    Spread,
    build_closed_loops,
    compute_throughput_terms,
    decompose,
    estimate_jackknife_spread,
    find_top_contributors,
)
from citus_analysis.attribution.function_changes import stack_changes
from citus_analysis.attribution.observed import OF_CHILD, SEGMENTS, Observed, read_observations
from citus_analysis.attribution.plan_differences import compare_plans
from citus_analysis.attribution.sentences import state_explanation
from citus_analysis.attribution.shard_skew import compare_shard_skew
from citus_analysis.attribution.statement_changes import find_segment_changes, find_statement_changes
from citus_analysis.core.frames import resolve_tables
from citus_analysis.core.type_aliases import Floats
from citus_analysis.defaults import LEVEL, MARGIN
from citus_analysis.errors import InsufficientDataError
from citus_analysis.runs.selection import USUAL_QUESTION, Question, split_names
from citus_analysis.schema import WRITING_STATEMENTS
from citus_analysis.stats.environment import judge_environment

#: A node or segment is named for a cause if it has at least this share of it.
_MOSTLY: Final = 0.5
_PLACE: Final = ("statement_kind", "segment", "node")
_OF_THIS_PAIR: Final = (
    "the interval of the ratio is of this pair alone; compare adjusts its own for all set-ups that it compares"
)
#: What no traced statement covers, attributes of a side.
_RESTS: Final[tuple[Effect, ...]] = ("outside", "untraced", "unseen")


def why(
    source: object,
    base: str = "",
    other: str = "",
    *,
    other_source: object = None,
    labels: tuple[str, str] = ("", ""),
    only: Mapping[str, object] | None = None,
    level: float = LEVEL,
    margin: float = MARGIN,
    include_status: str | Collection[str] = (),
) -> Explanation:
    """Explain the difference between two sets of runs, or between two intervals of server logs.

    The difference of the mean response time is divided into terms that add up to it: other statements in the mix, other
    places of execution, and for each kind of statement its segments on each node (parsing, binding, making connections,
    executing on the parent, between parent and child, the child), from traced statements; what is outside
    them, and operations that were not traced, are terms of their own. By Little's law, the difference of throughput is
    divided into the same terms. :mod:`citus_analysis.attribution.decomposition` and
    :mod:`citus_analysis.attribution.decomposition` state the rules.

    Args:
        source: a dataset, or the path of one or of raw files.
        base: the side to compare with: a resource (or pattern), set-up, variant, system or run; `column=value`, such
            as `workers=1`; or a window of time, `FROM..UNTIL` in UTC. Empty: all runs.
        other: the other side.
        other_source: dataset of the other side, if it is another one.
        labels: names of both sides in sentences; by default those that choose them, or of the datasets' resources.
        only: column -> value; restricts the runs of both sides.
        level: confidence level.
        margin: relative difference that counts as none.
        include_status: `degraded` to use degraded runs as well.

    Raises:
        UnknownNameError: no run is named so.
        UsageError: a side contains runs of several loads or sizes.
        InsufficientDataError: fewer than two runs on a side, or no traced statement.

    Example:
        >>> import citus_analysis as ca
        >>> dataset = ca.open_dataset(".cache/dataset")  # doctest: +SKIP
        >>> print(ca.why(dataset, "workers=1", "workers=8", only={"operation": "SELECT"}))  # doctest: +SKIP
    """
    first = resolve_tables(source)
    second = first if other_source is None else resolve_tables(other_source)
    statuses = split_names(include_status)
    question = Question(only=dict(only or {}), include_status=statuses, level=level, margin=margin)
    return explain(read_observations(first, second, (base, other), labels, question), question)


def explain(sides: Observed, question: Question = USUAL_QUESTION, *, with_mechanisms: bool = True) -> Explanation:
    """The account of what was observed, perf's stacks beside it, and if asked for, what else moved; see :func:`why`."""
    level = question.level
    account = _Account(sides)
    terms = account.terms()
    groups = _TermGroups(terms, account.compute_spread(account.values), level, sides.unseen)
    causes = tuple(replace(one, top_contributors=find_top_contributors(sides, one)) for one in groups.causes())
    loops, notes = build_closed_loops(sides)
    found = find_correlated_changes(sides, level=level) if with_mechanisms else ()
    is_divided = sides.cells.height > 0
    changed = (
        find_statement_changes(sides, account.from_statements(level), question)
        if with_mechanisms and is_divided
        else ()
    )
    plans = compare_plans(sides, level=level) if with_mechanisms else None
    comparison = sides.response_time(question)
    environment = judge_environment(comparison, (sides.other.table, sides.base.table), level)
    explanation = Explanation(
        base=sides.base.name,
        other=sides.other.name,
        comparison=comparison,
        throughput=sides.throughput(question),
        terms=terms,
        causes=causes,
        correlated_changes=found,
        changes=sides.changes,
        examples=sides.examples(causes[0].node if causes else "", causes[0].segment if causes else ""),
        statement_changes=changed,
        segment_changes=find_segment_changes(sides, terms, question) if with_mechanisms and is_divided else (),
        statements=(sides.base.statements, sides.other.statements),
        design="paired" if sides.paired else "unpaired",
        measured=sides.measured,
        throughput_account=_build_throughput_attribution(account, loops, groups) if loops else None,
        warnings=(
            *([environment.sentence()] if environment else []),
            *sides.warnings,
            *notes,
            *([plans.unlike] if plans and plans.unlike else []),
            *([_OF_THIS_PAIR] if sides.unit == "run" and with_mechanisms else []),
        ),
        unit=sides.unit,
        stacks=stack_changes(sides, level=level),
        plans=plans,
        skew=compare_shard_skew(sides, level=level) if with_mechanisms and is_divided else pl.DataFrame(),
        compared=sides.compared,
    )
    return replace(explanation, findings=tuple(state_explanation(explanation)))


def _build_throughput_attribution(
    account: _Account, loops: tuple[ClosedLoop, ClosedLoop], groups: _TermGroups
) -> ThroughputAccount:
    means = [(float(loop.throughput_ops_s.mean()), float(loop.threads.mean()), loop.in_system) for loop in loops]
    (base, *of_base), (other, *of_other) = means
    threads, in_system = zip(of_base, of_other, strict=True)
    return ThroughputAccount(base, other, threads, in_system, groups.throughput_parts(*account.throughput(loops)))


class _Account:
    """The terms of a difference, as functions of the weights of the runs."""

    def __init__(self, sides: Observed) -> None:
        self._sides = sides
        self._kinds = sides.cells["kind"].to_numpy().astype(np.int64)
        self._at = sides.cells["place"].to_numpy().astype(np.int64)
        self._least_us = ROUNDING * max(float(side.response_us.mean()) for side in sides.both)
        self._used = [i for i in range(len(SEGMENTS)) if any(side.times[:, :, i].any() for side in sides.both)]
        if not self._used and sides.cells.height:
            raise InsufficientDataError("no statement of these runs was traced", hint="see docs/traces.md")
        self._rests = [name for name in _RESTS if any(getattr(side, f"{name}_us").any() for side in sides.both)]
        self._named = self._names()
        labels = self._named.drop("kind")
        self._labels = labels.unique(maintain_order=True)
        numbered = self._labels.with_row_index("term")
        found = labels.join(numbered, on=labels.columns, how="left", maintain_order="left")
        self._places = found["term"].to_numpy().astype(np.int64)

    def _names(self) -> pl.DataFrame:
        """Effect, kind, segment and node of each value that `_all_values` gives, in its order."""
        cells = self._sides.cells
        kinds = cells.unique("kind").sort("kind").select("kind", "statement_kind").rows()
        rows = [(effect, *kind, "", "") for effect in ("mix", "place") for kind in kinds]
        for *kind, node, child in cells.select("kind", "statement_kind", "node", "child_node").iter_rows():
            used = [SEGMENTS[i] for i in self._used]
            rows += [("time", *kind, name, (child if name in OF_CHILD else node) or "") for name in used]
        rows += [(name, None, "", "", "") for name in self._rests]
        schema = {"effect": pl.String, "kind": pl.Int64, **dict.fromkeys(_PLACE, pl.String)}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def _all_values(self, base: Floats, other: Floats) -> Floats:
        """Mix and place per kind, times per cell and segment, and the rests."""
        means = [
            (weights @ side.counts, np.tensordot(weights, side.times, 1))
            for weights, side in zip((base, other), self._sides.both, strict=True)
        ]
        effects = decompose(self._kinds, means[0], means[1], self._at)
        of_rests = [
            [weights @ getattr(side, f"{name}_us") for name in self._rests]
            for weights, side in zip((base, other), self._sides.both, strict=True)
        ]
        rests = np.subtract(of_rests[1], of_rests[0])
        found = np.concatenate([effects.mix, effects.place, effects.times[:, self._used].ravel(), rests])
        found[np.abs(found) < self._least_us] = 0.0
        return found

    def values(self, base: Floats, other: Floats) -> Floats:
        """All values, those of one label summed."""
        values = self._all_values(base, other)
        return np.bincount(self._places, weights=values, minlength=self._labels.height).astype(np.float64)

    def terms(self) -> pl.DataFrame:
        """One row per effect, kind of statement, segment and node."""
        return self._labels.with_columns(pl.Series("estimate_us", self.values(*self._even())))

    def from_statements(self, level: float) -> pl.DataFrame:
        """One row per kind of statement: its terms together, with an interval, and its place with the largest."""
        named = self._named.with_columns(pl.Series("estimate_us", self._all_values(*self._even())))
        own = named.drop_nulls("kind")
        kinds = own["kind"].to_numpy().astype(np.int64)
        sums = np.bincount(kinds, weights=own["estimate_us"].to_numpy()).astype(np.float64)

        def values(base: Floats, other: Floats) -> Floats:
            found = self._all_values(base, other)[: kinds.size]
            return np.bincount(kinds, weights=found, minlength=sums.size).astype(np.float64)

        half, _, _ = self.compute_spread(values).intervals(sums, level, sums.size)
        times = own.filter(effect="time").group_by("kind", "segment", "node").agg(pl.col("estimate_us").sum())
        largest = times.sort(pl.col("estimate_us").abs(), descending=True).unique("kind", keep="first").sort("kind")
        return largest.select("segment", "node", part_us=sums, low_us=sums - half, high_us=sums + half).select(
            "part_us", "low_us", "high_us", "segment", "node"
        )

    def throughput(self, loops: tuple[ClosedLoop, ClosedLoop]) -> tuple[Floats, Spread]:
        """The terms of throughput, in the order of `terms` and then of OWN_TERMS, and these without each run."""

        def values(base: Floats, other: Floats) -> Floats:
            return compute_throughput_terms(loops, base, other, self.values(base, other))

        return values(*self._even()), self.compute_spread(values)

    def _even(self) -> tuple[Floats, Floats]:
        """Equal weights of the runs."""
        base, other = self._sides.both
        return np.full(base.runs, 1 / base.runs), np.full(other.runs, 1 / other.runs)

    def compute_spread(self, values: Callable[[Floats, Floats], Floats]) -> Spread:
        """Values of the weights of the runs, without each run."""
        base, other = self._sides.both
        spread = estimate_jackknife_spread(values, (base.runs, other.runs), paired=self._sides.paired)
        return replace(spread, worth=self._sides.effective)


#: Sums of terms that may be named: all effects, and of the times those of a node and those of a segment.
_VIEWS: Final[tuple[Literal["node", "segment"], ...]] = ("node", "segment")
_OTHERS: Final[tuple[Effect, ...]] = ("mix", "place", *_RESTS)
#: Rows of the terms of a sum, and the sum as a cause, which has no interval yet.
_Sum: TypeAlias = tuple[npt.NDArray[np.uint32], Cause]


class _TermGroups:
    """Sums of terms, with the spread of the runs."""

    def __init__(self, terms: pl.DataFrame, spread: Spread, level: float, unseen: str) -> None:
        self._terms, self._spread, self._level, self._unseen = terms, spread, level, unseen
        self._sums, self._together = self._choose_sums()
        self._causes = [self._with_parts(self._with_interval(*one, self._together)) for one in self._sums]

    def causes(self) -> tuple[Cause, ...]:
        """Mix, places and what is outside, and the times by node or by segment: whichever says more; largest first."""
        return tuple(sorted(self._causes, key=lambda one: -abs(one.estimate_us)))

    def throughput_parts(self, values: Floats, spread: Spread) -> tuple[ThroughputPart, ...]:
        """The causes as parts of throughput, and its own terms; the largest first.

        Args:
            values: terms of throughput: those of the response time, then OWN_TERMS.
            spread: these without each run.
        """
        causes = [*self._causes, *(Cause(effect, "", "", 0.0, 0.0, 0.0, 1.0) for effect in OWN_TERMS)]
        # The last group holds the terms of causes of 0 µs.
        groups = np.full(values.size, len(causes), dtype=np.int64)
        for i, (terms, _) in enumerate(self._sums):
            groups[terms] = i
        groups[self._terms.height :] = np.arange(len(self._sums), len(causes))
        sums = np.bincount(groups, weights=values, minlength=len(causes) + 1).astype(np.float64)
        together, scale = self._together + len(OWN_TERMS), float(np.abs(sums).max(initial=0.0))
        half, p, _ = spread.sum_groups(groups, sums.size).intervals(sums, self._level, together)
        parts = [
            ThroughputPart(cause, *map(float, (size, size - wide, size + wide, p_value)))
            for cause, size, wide, p_value in zip(causes, sums, half, p, strict=False)
            if abs(size) > ROUNDING * scale
        ]
        return tuple(sorted(parts, key=lambda one: -abs(one.estimate_ops_s)))

    def _choose_sums(self) -> tuple[list[_Sum], int]:
        """The sums that become causes, and the number of intervals that hold together.

        The intervals of both ways of summing the times hold together, because the data choose between them.
        """
        known = self._terms["effect"].unique().to_list()
        other = [self._sum(effect, pl.col("effect") == effect) for effect in _OTHERS if effect in known]
        timed = self._terms.filter(effect="time")
        views = {
            view: [
                self._sum(view, (pl.col("effect") == "time") & (pl.col(view) == name), **{view: name})
                for name in timed[view].unique().sort()
            ]
            for view in _VIEWS
        }
        together = sum(map(len, views.values())) + len(other)
        whole = float(timed["estimate_us"].sum())
        by_node = whole and any(one.node and one.estimate_us / whole >= _MOSTLY for _, one in views["node"])
        chosen = views["node" if by_node else "segment"]
        return [(terms, one) for terms, one in [*other, *chosen] if one.estimate_us], max(together, 1)

    def _sum(self, effect: Effect, chosen: pl.Expr, segment: str = "", node: str = "") -> _Sum:
        rows = self._terms.with_row_index("term").filter(chosen)
        kinds = rows.group_by("statement_kind").agg(pl.col("estimate_us").sum()).sort(pl.col("estimate_us").abs())
        total = float(rows["estimate_us"].sum())
        kind, of_kind = kinds.row(-1) if kinds.height else ("", 0.0)
        share = of_kind / total if total else 0.0
        writes = bool(self._terms["statement_kind"].is_in([*WRITING_STATEMENTS, "commit"]).any())
        unseen = self._unseen if effect == "unseen" else ""
        cause = Cause(effect, segment, node, total, 0.0, 0.0, 1.0, kind, share, writes=writes, unseen=unseen)
        return rows["term"].to_numpy(), cause

    def _with_interval(self, terms: npt.NDArray[np.uint32], one: Cause, together: int) -> Cause:
        groups = np.zeros(self._terms.height, dtype=np.int64)
        groups[terms] = 1
        us = one.estimate_us
        half, p, _ = self._spread.sum_groups(groups, 2).intervals(np.array([0.0, us]), self._level, together)
        return replace(one, low_us=us - float(half[1]), high_us=us + float(half[1]), p=float(p[1]))

    def _with_parts(self, cause: Cause) -> Cause:
        """A node with its segments, or a segment with its nodes, whose intervals hold together."""
        if cause.effect not in _VIEWS:
            return cause
        inside, at = ("segment", cause.node) if cause.effect == "node" else ("node", cause.segment)
        held = (pl.col("effect") == "time") & (pl.col(cause.effect) == at)
        sums = [
            self._sum("time", held & (pl.col(inside) == name), **{cause.effect: at, inside: name})
            for name in self._terms.filter(held)[inside].unique().sort()
        ]
        found = [self._with_interval(terms, one, len(sums)) for terms, one in sums if one.estimate_us]
        parts = tuple(sorted(found, key=lambda one: -abs(one.estimate_us)))
        largest = parts[0] if parts and parts[0].estimate_us / cause.estimate_us >= _MOSTLY else None
        named = {inside: getattr(largest, inside)} if largest is not None else {}
        return replace(cause, parts=parts, **named)

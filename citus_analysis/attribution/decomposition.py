"""Decomposition of the difference of two means into terms that add up to it exactly.

A mean time per operation is a sum over kinds of statements k, and over the places c where they ran::

    R = sum_k p_k * sum_c q_c|k * sum_s m_cs

with the statements of a kind per operation (p), the share of each place among them (q), and the mean time of each
segment there (m). The difference of two such means is divided by the rule of Das Gupta, Standardization and
Decomposition of Rates (1993), for three factors: each factor's effect is its own change, weighted by the other two
averaged over the orders in which they could have changed. This is the Shapley value of the factors, and for two factors
the decomposition of Kitagawa (1955) and of Oaxaca and Blinder without a reference side. It does not depend on any
order, and swapping the sides changes the signs only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import polars as pl

from citus_analysis.attribution.causes import Cause, TopContributors
from citus_analysis.attribution.observed import OF_CHILD, RUN, SEGMENTS, Observed
from citus_analysis.core.frames import convert_to_polars
from citus_analysis.core.type_aliases import Bools, Floats, Integers
from citus_analysis.runs.concurrency import TOLERANCE, compute_concurrency
from citus_analysis.stats.distributions import compute_t_quantile, compute_t_tail
from citus_analysis.texts.numbers import format_percent
from citus_analysis.units import US_PER_S

if TYPE_CHECKING:
    from citus_analysis.attribution.observed import ObservedSample


@dataclass(frozen=True)
class Effects:
    """The terms of a difference; all of them together are the difference of the two means.

    Attributes:
        mix: effect of each kind's number of statements per operation (p); one value per kind.
        place: effect of the places within each kind (q); one value per kind.
        times: effect of each segment's mean time (m); one row per cell, one column per segment.
    """

    mix: Floats
    place: Floats
    times: Floats

    @property
    def total(self) -> float:
        """The difference."""
        return float(self.mix.sum() + self.place.sum() + self.times.sum())


def decompose(
    kinds: Integers, base: tuple[Floats, Floats], other: tuple[Floats, Floats], places: Integers | None = None
) -> Effects:
    """Divide the difference `other` - `base` of the mean time per operation.

    A place or kind that one side lacks has no mean time there: that of the other side stands in, so that its appearance
    is an effect of the place or of the mix.

    Args:
        kinds: for each cell, the number of its kind, from 0.
        base: statements per operation of each cell, and time per operation of each cell and segment (µs).
        other: the same of the other side.
        places: for each cell, the number of its place, from 0; by default each cell is one. Cells of one place differ
            in the node that took their time, and not in where they ran.

    Example:
        Reads take 1 ms more, and nothing else changes:

        >>> kinds = np.array([0, 1])
        >>> shares = np.array([0.9, 0.1])
        >>> before, after = np.array([[1.0], [5.0]]), np.array([[2.0], [5.0]])
        >>> effects = decompose(kinds, (shares, shares[:, None] * before), (shares, shares[:, None] * after))
        >>> effects.times.ravel().round(9).tolist(), float(abs(effects.mix).sum())
        ([0.9, 0.0], 0.0)
    """
    number = int(kinds.max(initial=-1)) + 1
    at = np.arange(kinds.size) if places is None else places
    size = int(at.max(initial=-1)) + 1
    of_place = np.zeros(size, dtype=np.int64)
    of_place[at] = kinds
    counts = [_sum_by_kind(at, side, size) for side, _ in (base, other)]
    p = [_sum_by_kind(of_place, side, number) for side in counts]
    q = [_divide_or_zero(side, per_kind[of_place]) for side, per_kind in zip(counts, p, strict=True)]
    m = [_divide_or_zero(sums, side[at][:, None]) for side, (_, sums) in zip(counts, (base, other), strict=True)]
    # A side without a kind has no places of it; a side without a place has no times of it.
    q = _fill_unknown_values(q, [per_kind[of_place] > 0 for per_kind in p])
    m = _fill_unknown_values(m, [np.broadcast_to((side[at] > 0)[:, None], m[0].shape) for side in counts])
    whole = [_sum_by_kind(at, times.sum(axis=1), size) for times in m]
    of_kind = [[_sum_by_kind(of_place, q[i] * whole[j], number) for j in (0, 1)] for i in (0, 1)]
    mix = (p[1] - p[0]) * _average_over_orders(of_kind[0][0], of_kind[1][1], of_kind[0][1], of_kind[1][0])
    per = [per_kind[of_place] for per_kind in p]
    place = (q[1] - q[0]) * _average_over_orders(
        per[0] * whole[0], per[1] * whole[1], per[0] * whole[1], per[1] * whole[0]
    )
    weights = _average_over_orders(per[0] * q[0], per[1] * q[1], per[0] * q[1], per[1] * q[0])
    return Effects(mix, _sum_by_kind(of_place, place, number), (m[1] - m[0]) * weights[at][:, None])


def _sum_by_kind(kinds: Integers, values: Floats, number: int) -> Floats:
    return np.bincount(kinds, weights=values, minlength=number).astype(np.float64)


def _average_over_orders(base: Floats, other: Floats, first: Floats, second: Floats) -> Floats:
    """The product of the two other factors, averaged over the orders of change: Das Gupta's weights for three."""
    return (base + other) / 3 + (first + second) / 6


def _divide_or_zero(values: Floats, by: Floats) -> Floats:
    return np.divide(values, by, out=np.zeros(np.broadcast_shapes(values.shape, by.shape)), where=by > 0)


def _fill_unknown_values(values: list[Floats], known: list[Bools]) -> list[Floats]:
    return [np.where(known[i], values[i], values[1 - i]) for i in (0, 1)]


# Intervals for terms of a difference: from the runs of both sides, each left out in turn.


@dataclass(frozen=True)
class Spread:
    """What a term would have been without each run.

    Attributes:
        sides: for each independent set of runs, one row per run left out, one column per term. Paired sides are one
            set: a pair is left out as a whole.
        worth: of each set, the number of independent runs that its runs are worth; None if they are independent.
    """

    sides: tuple[Floats, ...]
    worth: tuple[float, ...] | None = None

    def sum_groups(self, groups: Integers, number: int) -> Spread:
        """The spread of sums of terms; `groups` is the group of each term."""
        return Spread(tuple(side @ np.eye(number)[groups] for side in self.sides), self.worth)

    def intervals(self, estimates: Floats, level: float, together: int = 1) -> tuple[Floats, Floats, Floats]:
        """Half widths, p-values and degrees of freedom.

        The variance is the jackknife's (Efron and Stein 1981), the quantile Student's t with Welch's and
        Satterthwaite's degrees of freedom.

        Args:
            estimates: the terms.
            level: confidence level.
            together: number of intervals that hold at the same time with this level (Bonferroni).
        """
        worth = self.worth or tuple(float(len(side)) for side in self.sides)
        dfs = [max(one - 1, 1.0) for one in worth]
        parts = [
            len(one) / independent * (len(one) - 1) / len(one) * ((one - one.mean(axis=0)) ** 2).sum(axis=0)
            for one, independent in zip(self.sides, worth, strict=True)
        ]
        variance = np.sum(parts, axis=0)
        below = np.sum([part**2 / df for part, df in zip(parts, dfs, strict=True)], axis=0)
        df = np.divide(variance**2, below, out=np.full_like(variance, float(min(dfs))), where=below > 0)
        error = np.sqrt(variance)
        probability = 1 - (1 - level) / (2 * together)
        half = error * np.array([compute_t_quantile(probability, one) for one in df])
        t = np.divide(np.abs(estimates), error, out=np.where(estimates == 0, 0.0, np.inf), where=error > 0)
        p = np.array([2 * compute_t_tail(value, one) for value, one in zip(t, df, strict=True)])
        return half, np.minimum(p * together, 1.0), df


def estimate_jackknife_spread(
    terms: Callable[[Floats, Floats], Floats], sizes: tuple[int, int], *, paired: bool
) -> Spread:
    """Compute the terms without each run, or without each pair of runs.

    Args:
        terms: from the weights of the runs of both sides (sum 1 each) to the terms.
        sizes: numbers of runs.
        paired: whether the n-th runs of both sides belong together.
    """
    whole = tuple(np.full(size, 1 / size) for size in sizes)
    if paired:
        return Spread(
            (
                np.array(
                    [
                        terms(_make_leave_one_out_weights(sizes[0], i), _make_leave_one_out_weights(sizes[1], i))
                        for i in range(sizes[0])
                    ]
                ),
            )
        )
    first = np.array([terms(_make_leave_one_out_weights(sizes[0], i), whole[1]) for i in range(sizes[0])])
    second = np.array([terms(whole[0], _make_leave_one_out_weights(sizes[1], i)) for i in range(sizes[1])])
    return Spread((first, second))


def _make_leave_one_out_weights(size: int, place: int) -> Floats:
    weights = np.full(size, 1 / (size - 1))
    weights[place] = 0.0
    return weights


# The account of throughput: Little's law carries each term of the response time over to it.
#
# In a closed loop, each of N threads is in an operation or between two: N = X (R + Z), with the throughput X, the
# response time R and the time Z between operations (Little 1961; Denning and Buzen 1978). A change of X is divided by
# logarithmic means L (the additive LMDI of Ang 2004): with the time of a thread's cycle C = R + Z, a term of the
# response time of r microseconds is -r L(X) / L(C) operations per second. The terms add up exactly, none depends on an
# order, and swapping the sides changes the signs only.

#: Terms of throughput that are none of the response time.
OWN_TERMS: Final = ("concurrency", "client", "uneven")
#: Terms below this share of what they are terms of are the rounding of sums: they are 0.
ROUNDING: Final = 1e-11
#: Below this share of the client's threads in operations, it is said that the client's own time matters.
_IN_SYSTEM: Final = 0.9
_NONE: Final = "no account of throughput"


@dataclass(frozen=True)
class ClosedLoop:
    """A side whose client's threads send an operation when the last one has ended; one value per run.

    Attributes:
        threads: N.
        throughput_ops_s: X.
        response_us: R.
    """

    threads: Floats
    throughput_ops_s: Floats
    response_us: Floats

    @property
    def in_system(self) -> float:
        """Threads in an operation on average, X R."""
        return float((self.throughput_ops_s * self.response_us).mean() / US_PER_S)

    def means(self, weights: Floats) -> tuple[float, float, float, float]:
        """For weights of the runs that sum to 1: threads, throughput, C and Z (µs)."""
        cycle = self.threads / self.throughput_ops_s * US_PER_S
        throughput, mean_cycle = float(weights @ self.throughput_ops_s), float(weights @ cycle)
        return float(weights @ self.threads), throughput, mean_cycle, mean_cycle - float(weights @ self.response_us)


def build_closed_loops(sides: Observed) -> tuple[tuple[ClosedLoop, ClosedLoop] | None, tuple[str, ...]]:
    """Both sides as closed loops, or None where Little's law gives no account, and what is to be said of either."""
    if sides.measured != "response time":
        return None, ()
    if any("arrivals" in side.table.columns and side.table["arrivals"].ne("closed").any() for side in sides.both):
        return None, (
            f"{_NONE}: clients send at a rate of their own, so that it does not follow from response times; the time "
            "in which operations wait to be sent is left out",
        )
    loops, notes = [], []
    for side, source in zip(sides.both, sides.sources, strict=True):
        operations = compute_concurrency(side.table, convert_to_polars(source.table("operation_latencies")))
        checked = side.table.select(RUN).join(operations, on=RUN, how="left", maintain_order="left")
        threads, throughput_ops_s, counted_us = (
            checked[name].cast(float).fill_null(np.nan).to_numpy()
            for name in ("threads", "throughput_ops_s", "response_time_us")
        )
        loop = ClosedLoop(threads, throughput_ops_s, side.response_us)
        if reason := _explain_refusal(loop, counted_us, side):
            return None, (f"{_NONE}: {reason}",)
        loops.append(loop)
        share = loop.in_system / float(loop.threads.mean())
        if share < _IN_SYSTEM:
            notes.append(
                f"by Little's law, an operation of {side.name} was under way on {format_percent(share)} of the "
                "client's "
                "threads on average: its throughput also depends on the client's own time"
            )
    return (loops[0], loops[1]), tuple(notes)


def _explain_refusal(loop: ClosedLoop, counted_us: Floats, side: ObservedSample) -> str:
    """Why Little's law gives no account of a side; empty if it does."""
    share = loop.throughput_ops_s * counted_us / US_PER_S / loop.threads
    if np.isnan(share).any():
        return f"the throughput or the client's threads of {side.name} are not known"
    if (share > 1 + TOLERANCE).any():
        return (
            f"by Little's law, more operations of {side.name} were under way than its client has threads "
            f"({format_percent(float(share.max()))}): response times or threads are not what they seem"
        )
    if (np.abs(loop.response_us / counted_us - 1) > TOLERANCE).any():
        return f"the response times of {side.name} are of other operations than its throughput"
    return ""


def compute_throughput_terms(
    loops: Sequence[ClosedLoop], base: Floats, other: Floats, response_terms: Floats
) -> Floats:
    """Terms of the difference of mean throughput (operations/s): those of the response time, then OWN_TERMS.

    Args:
        loops: both sides.
        base: weights of the base's runs, which sum to 1.
        other: weights of the other side's.
        response_terms: terms that add up to the difference of the mean response time (µs) with these weights.

    Example:
        Twice the response time of a client without a pause halves the throughput:

        >>> base = ClosedLoop(np.array([8.0]), np.array([8000.0]), np.array([1000.0]))
        >>> other = ClosedLoop(np.array([8.0]), np.array([4000.0]), np.array([2000.0]))
        >>> one = np.ones(1)
        >>> (compute_throughput_terms((base, other), one, one, np.array([700.0, 300.0])).round(6) + 0).tolist()
        [-2800.0, -1200.0, 0.0, 0.0, 0.0]
    """
    (n0, x0, c0, z0), (n1, x1, c1, z1) = (loop.means(w) for loop, w in zip(loops, (base, other), strict=True))
    per_log = _compute_logarithmic_mean(x0, x1)
    per_us = per_log / _compute_logarithmic_mean(c0, c1)
    # The mean of throughputs is not the threads over the mean cycle, unless all runs of a side are alike.
    uneven = np.log(x1 * c1 / n1) - np.log(x0 * c0 / n0)
    own = np.array([per_log * np.log(n1 / n0), -per_us * (z1 - z0), per_log * uneven])
    own[np.abs(own) < ROUNDING * abs(per_log)] = 0.0
    return np.concatenate([-per_us * response_terms, own])


def _compute_logarithmic_mean(a: float, b: float) -> float:
    """(b - a) / log(b / a), and its limit where both are equal."""
    log = np.log(b / a)
    return float(a * np.expm1(log) / log) if log else a


# The statements that carry most of a cause, as a selection that the explorer opens.

#: Share of a cause that its statements have to carry.
_MOST: Final = 0.8
#: Share of a cause that is of one kind of statement for this kind alone to be selected.
MOST_OF_KIND: Final = 0.8
#: Segment -> column of table `statements` that contains it, by which the explorer sorts.
_ORDERS: Final = {
    "parent_us": "parent_us",
    "between_us": "between_us",
    "commit_us": "between_us",
    "child_us": "child_us",
}
_OF_TIME: Final = ("node", "segment", "time")


def find_top_contributors(sides: Observed, cause: Cause) -> TopContributors | None:
    """The slowest statements of the run with most of a cause that together carry four fifths of it.

    A statement carries what it took longer, on the node and in the segment of the cause, than statements of its kind on
    the other side did on average; of the mix, all of its time. Of places, the statements are those executed in the way
    (`local`, `remote`, `multi_shard`) with most of it.

    Args:
        sides: what was observed.
        cause: a cause of their account.

    Returns:
        None if no traced statement carries the cause: what is outside them, or not traced.
    """
    if cause.effect not in (*_OF_TIME, "mix", "place"):
        return None
    slower = 1 if cause.estimate_us > 0 else 0
    of_time = cause.effect in _OF_TIME
    chosen: dict[str, object] = {}
    if cause.statement_kind and cause.statement_share >= MOST_OF_KIND:
        chosen["kind"] = cause.statement_kind
    timed = sides.timed.with_columns(pl.col("statement_kind", "node", "child_node").cast(pl.String))
    if chosen:
        timed = timed.filter(statement_kind=cause.statement_kind)
    timed = timed.with_columns(
        _make_cause_time_expr(cause, child=False).alias("as_parent"),
        _make_cause_time_expr(cause, child=True).alias("as_child"),
    )
    means = (
        timed.filter(pl.col("side") != slower).group_by("statement_kind").agg(mean_us=_make_both_roles_expr().mean())
    )
    mine = timed.filter(side=slower).join(means, on="statement_kind", how="left")
    longer = pl.col("total_us") if cause.effect == "mix" else _make_both_roles_expr() - pl.col("mean_us").fill_null(0.0)
    mine = mine.with_columns(longer_us=longer)
    if cause.effect == "place":
        ways = mine.drop_nulls("executed").group_by(pl.col("executed").cast(pl.String)).agg(pl.col("longer_us").sum())
        if ways.is_empty():
            return None
        chosen["executed"] = ways.sort("longer_us", "executed")["executed"][-1]
        mine = mine.filter(executed=chosen["executed"])
    if of_time and cause.node:
        as_child = mine["as_child"].sum() >= mine["as_parent"].sum()
        place = ("child", "child_node") if as_child else ("node", "node")
        chosen |= {place[0]: cause.node}
        mine = mine.filter(pl.col(place[1]) == cause.node)
    if mine.is_empty():
        return None
    if cause.segment in _ORDERS:
        chosen["order"] = _ORDERS[cause.segment]
    return _select_run_contributors(mine, "base" if slower == 0 else "other", chosen, has_runs=sides.unit == "run")


def _make_both_roles_expr() -> pl.Expr:
    return pl.col("as_parent") + pl.col("as_child")


def _make_cause_time_expr(cause: Cause, *, child: bool) -> pl.Expr:
    """Time (µs) of a statement in the segments of the cause, on its node as a parent or as a child."""
    own = [name for name in SEGMENTS if (name in OF_CHILD) == child and cause.segment in ("", name)]
    spent = pl.sum_horizontal(own) if own else pl.lit(0.0)
    at = "child_node" if child else "node"
    return pl.when(pl.col(at) == cause.node).then(spent).otherwise(0.0) if cause.node else spent


def _select_run_contributors(
    mine: pl.DataFrame, side: Literal["base", "other"], chosen: dict[str, object], *, has_runs: bool
) -> TopContributors:
    if has_runs:
        run = mine.group_by("run_id").agg(pl.col("longer_us").sum()).sort("longer_us", "run_id")["run_id"][-1]
        mine, chosen = mine.filter(run_id=run), {"run": run} | chosen
    slowest = mine.sort("total_us", descending=True, maintain_order=True).select(
        "total_us", carried=pl.col("longer_us").cum_sum()
    )
    whole = slowest["carried"][-1]
    if whole <= 0:
        return TopContributors(side, chosen, mine.height, 1.0)
    enough = int((slowest["carried"] >= _MOST * whole).arg_max() or 0)
    fastest_us = int(slowest["total_us"][enough])
    kept = mine.filter(pl.col("total_us") >= fastest_us)
    return TopContributors(
        side, chosen | {"fastest_us": fastest_us}, kept.height, float(kept["longer_us"].sum()) / whole
    )

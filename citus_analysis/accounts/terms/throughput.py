"""The account of throughput: Little's law carries each term of the response time over to it.

In a closed loop, each of N threads is in an operation or between two: N = X (R + Z), with the throughput X, the
response time R and the time Z between operations (Little 1961; Denning and Buzen 1978). A change of X is divided by
logarithmic means L (the additive LMDI of Ang 2004): with the time of a thread's cycle C = R + Z, a term of the response
time of r microseconds is -r L(X) / L(C) operations per second. The terms add up exactly, none depends on an order, and
swapping the sides changes the signs only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from citus_analysis.accounts.statement_times import RUN
from citus_analysis.core.array_types import Floats
from citus_analysis.core.frames import as_polars
from citus_analysis.runs.concurrency import TOLERANCE, concurrency
from citus_analysis.texts.number_text import percent
from citus_analysis.units import US_PER_S

if TYPE_CHECKING:
    from citus_analysis.accounts.observed import Observed, Side

#: Terms of throughput that are none of the response time.
OWN_TERMS: Final = ("concurrency", "client", "uneven")
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


def closed_loops(sides: Observed) -> tuple[tuple[ClosedLoop, ClosedLoop] | None, tuple[str, ...]]:
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
        operations = concurrency(side.table, as_polars(source.table("operation_latencies")))
        checked = side.table.select(RUN).join(operations, on=RUN, how="left", maintain_order="left")
        threads, throughput_ops_s, counted_us = (
            checked[name].cast(float).fill_null(np.nan).to_numpy()
            for name in ("threads", "throughput_ops_s", "response_time_us")
        )
        loop = ClosedLoop(threads, throughput_ops_s, side.response_us)
        if reason := _refused(loop, counted_us, side):
            return None, (f"{_NONE}: {reason}",)
        loops.append(loop)
        share = loop.in_system / float(loop.threads.mean())
        if share < _IN_SYSTEM:
            notes.append(
                f"by Little's law, an operation of {side.name} was under way on {percent(share)} of the client's "
                "threads on average: its throughput also depends on the client's own time"
            )
    return (loops[0], loops[1]), tuple(notes)


def _refused(loop: ClosedLoop, counted_us: Floats, side: Side) -> str:
    """Why Little's law gives no account of a side; empty if it does."""
    share = loop.throughput_ops_s * counted_us / US_PER_S / loop.threads
    if np.isnan(share).any():
        return f"the throughput or the client's threads of {side.name} are not known"
    if (share > 1 + TOLERANCE).any():
        return (
            f"by Little's law, more operations of {side.name} were under way than its client has threads "
            f"({percent(float(share.max()))}): response times or threads are not what they seem"
        )
    if (np.abs(loop.response_us / counted_us - 1) > TOLERANCE).any():
        return f"the response times of {side.name} are of other operations than its throughput"
    return ""


def throughput_terms(loops: Sequence[ClosedLoop], base: Floats, other: Floats, response_terms: Floats) -> Floats:
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
        >>> (throughput_terms((base, other), one, one, np.array([700.0, 300.0])).round(6) + 0).tolist()
        [-2800.0, -1200.0, 0.0, 0.0, 0.0]
    """
    (n0, x0, c0, z0), (n1, x1, c1, z1) = (loop.means(w) for loop, w in zip(loops, (base, other), strict=True))
    per_log = _logarithmic_mean(x0, x1)
    per_us = per_log / _logarithmic_mean(c0, c1)
    # The mean of throughputs is not the threads over the mean cycle, unless all runs of a side are alike.
    uneven = np.log(x1 * c1 / n1) - np.log(x0 * c0 / n0)
    own = [per_log * np.log(n1 / n0), -per_us * (z1 - z0), per_log * uneven]
    return np.concatenate([-per_us * response_terms, own])


def _logarithmic_mean(a: float, b: float) -> float:
    """(b - a) / log(b / a), and its limit where both are equal."""
    log = np.log(b / a)
    return float(a * np.expm1(log) / log) if log else a

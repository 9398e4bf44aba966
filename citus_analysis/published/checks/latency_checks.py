"""Checks that percentiles are in order, and that no part of a request is longer than the whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, pairwise
from math import inf, isfinite
from typing import Final

from citus_analysis.published._numbers import Range
from citus_analysis.published._rows import Number, Row
from citus_analysis.published.checks._registry import Finding, check, finding, rows_of

#: Histograms of whole milliseconds print percentiles as multiples of it and the mean exactly.
_BUCKET_S: Final = 1e-3
#: High-dynamic-range histograms keep three significant digits.
_RELATIVE: Final = 2e-3


@check("percentiles_ordered", "Do percentiles grow, and is the mean within the bounds that they set?", rows_of)
def percentiles_ordered(row: Row) -> Iterator[Finding]:
    """Minimum ≤ percentiles in order ≤ maximum, and the mean within the bounds that they set.

    A known share of the values lies between two quantiles, so the mean is at least the sum of share × lower quantile,
    and at most the sum of share × upper quantile if the maximum is known.
    """
    for of, known in row.percentiles().items():
        if len(known) > 1:
            yield _judge_order(row, of, [known[q] for q in sorted(known)])
        mean = row.get(of) or row.get(f"{of}_latency")
        if mean and mean.metric.dimension in ("", *(n.metric.dimension for n in known.values())):
            yield _judge_mean(row, of, mean, known)


def _judge_order(row: Row, of: str, ordered: list[Number]) -> Finding:
    stated = " ≤ ".join(str(number) for number in ordered)
    wrong = (
        f"{of.replace('_', ' ')}: {a} exceeds {b}, which belongs to a higher percentile"
        for a, b in combinations(ordered, 2)
        if a.range.low > b.range.high + _bucket(a, b)
    )
    return finding(row, "growing percentiles", stated, "percentiles grow", red=next(wrong, ""))


def _bucket(a: Number, b: Number) -> float:
    """The tolerated difference in the wrong direction between an exact extreme and a percentile that names a bucket."""
    extremes = [number.metric.stem.endswith(("_min", "_max")) for number in (a, b)]
    buckets = [number.metric.dimension == "time" and _is_bucket(number.value) for number in (a, b)]
    return _BUCKET_S if extremes[0] != extremes[1] and any(buckets) and a.metric.factor < _BUCKET_S else 0.0


def _is_bucket(seconds: float) -> bool:
    return abs(seconds / _BUCKET_S - round(seconds / _BUCKET_S)) < 1e-6


def _judge_mean(row: Row, of: str, mean: Number, known: Mapping[float, Number]) -> Finding:
    lowest, highest = _mean_bounds(known)
    expected = (
        f"{mean.printed(lowest)} to {mean.printed(highest)}" if isfinite(highest) else f"above {mean.printed(lowest)}"
    )
    words = of.replace("_", " ")
    red, amber = "", ""
    above = [q for q, number in known.items() if _HIGH <= q < 100 and number.range.high < mean.range.low]
    if mean.range.high < lowest * (1 - _RELATIVE):
        red = f"{words}: the percentiles beside it need a larger mean"
    elif mean.range.low > highest * (1 + _RELATIVE):
        red = f"{words}: the percentiles and the maximum beside it need a smaller mean"
    elif above:
        expected = f"below {known[max(above)]}"
        amber = f"{words}: a mean above the {max(above):g}th percentile needs a few extremely long requests"
    return finding(row, expected, f"mean {mean}", "the mean lies between its bounds", red=red, amber=amber)


#: Percentiles from here on are below the mean only if a few values are extreme.
_HIGH: Final = 95.0


def _mean_bounds(known: Mapping[float, Number]) -> tuple[float, float]:
    """The smallest and the largest mean that quantiles allow, in the base unit; unbounded above without a maximum."""
    ends = {q: _bucket_range(q, number) for q, number in known.items()}
    below = {0.0: Range.exact(min(0.0, *(r.low for r in ends.values())) if 0.0 not in ends else ends[0.0].low), **ends}
    points = sorted(below)
    shares = [(b - a) / 100 for a, b in pairwise([*points, 100.0])]
    lowest = sum(share * below[q].low for q, share in zip(points, shares, strict=True))
    if 100.0 not in ends:
        return lowest, inf
    above = sum((b - a) / 100 * ends[b].high for a, b in pairwise([0.0, *sorted(q for q in ends if q > 0)]))
    return lowest, above


def _bucket_range(q: float, number: Number) -> Range:
    allowed = number.range
    whole = 0 < q < 100 and number.metric.dimension == "time" and number.metric.factor < _BUCKET_S
    return Range(allowed.low, allowed.high + _BUCKET_S) if whole and _is_bucket(number.value) else allowed


@check("part_within_whole", "Does the server's time fit into the client's?", rows_of)
def part_within_whole(row: Row) -> Iterator[Finding]:
    """A client waits at least as long as the server works.

    At most the share mean / x of a positive quantity lies above x (Markov), so the q-quantile of the part cannot exceed
    mean of the whole / (1 - q); a median of the part above the mean of the whole is at least doubtful.
    """
    client, part = row.get("client_latency") or row.get("latency"), row.get("server_latency")
    if not client:
        return
    if part:
        longer = part.range.low > client.range.high
        red = "the server's mean exceeds the mean that the client waited" if longer else ""
        yield finding(row, f"below {client}", str(part), "the server's mean fits", red=red)
    for q, number in row.percentiles().get("server_latency", {}).items():
        if q not in (0.0, 100.0):
            yield _judge_quantile(row, q, number, client)


def _judge_quantile(row: Row, q: float, number: Number, client: Number) -> Finding:
    above = 1 - q / 100
    expected = f"p{q:g} below {client.printed(client.value / above)}"
    stated = f"p{q:g} = {number}, client's mean {client}"
    red, amber = "", ""
    if number.range.low > client.range.high / above:
        red = "with such a percentile of the server's time the client's mean would be larger (Markov's inequality)"
    elif q <= 50 and number.range.low > client.range.high:
        expected = f"p{q:g} below {client}"
        amber = (
            "half of the sampled statements took longer in the server than a client waited on average: "
            "the sample does not represent the load"
        )
    return finding(row, expected, stated, "the percentile fits the client's mean", red=red, amber=amber)

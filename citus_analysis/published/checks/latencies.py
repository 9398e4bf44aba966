"""Percentiles in order, and no part of a request longer than the whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from citus_analysis.published._rows import Number, ResultTable, Row
from citus_analysis.published.checks._registry import Finding, check, finding

__all__: list[str] = []


@check("percentiles_ordered", "Do percentiles grow?")
def percentiles_ordered(tables: Sequence[ResultTable]) -> Iterator[Finding]:
    """Minimum ≤ percentiles in order ≤ maximum, and the mean between minimum and maximum."""
    for table in tables:
        for row in table.rows:
            for of, known in row.percentiles().items():
                if len(known) > 1:
                    yield _judge_order(row, of, [known[q] for q in sorted(known)])


def _judge_order(row: Row, of: str, ordered: list[Number]) -> Finding:
    stated = " ≤ ".join(str(number) for number in ordered)
    wrong = next(((a, b) for a, b in pairwise(ordered) if a.range.low > b.range.high), None)
    if wrong:
        text = f"{of.replace('_', ' ')}: {wrong[0]} stands below {wrong[1]}, although it is the larger"
        return finding("red", "percentiles_ordered", row, "growing percentiles", stated, text)
    return finding("green", "percentiles_ordered", row, "growing percentiles", stated, "percentiles grow")


@check("part_within_whole", "Does the server's time fit into the client's?")
def part_within_whole(tables: Sequence[ResultTable]) -> Iterator[Finding]:
    """A client waits at least as long as the server works.

    Of a positive quantity at most the share mean / x lies above x (Markov), so the q-quantile of the part cannot
    exceed mean of the whole / (1 - q); a median of the part above the mean of the whole is at least doubtful.
    """
    for table in tables:
        for row in table.rows:
            client, part = row.get("client_latency"), row.get("server_latency")
            if client is None:
                continue
            if part is not None:
                yield _judge_means(row, part, client)
            for q, number in row.percentiles().get("server_latency", {}).items():
                if q in (0.0, 100.0):
                    continue
                yield _judge_quantile(row, q, number, client)


def _judge_means(row: Row, part: Number, client: Number) -> Finding:
    expected = f"below {client}"
    if part.range.low > client.range.high:
        text = "the server's mean exceeds the mean that the client waited"
        return finding("red", "part_within_whole", row, expected, str(part), text)
    return finding("green", "part_within_whole", row, expected, str(part), "the server's mean fits")


def _judge_quantile(row: Row, q: float, number: Number, client: Number) -> Finding:
    bound = client.value / (1 - q / 100)
    expected = f"p{q:g} below {client.printed(bound)}"
    stated = f"p{q:g} = {number}, client's mean {client}"
    if number.range.low > client.range.high / (1 - q / 100):
        text = "with such a percentile of the server's time the client's mean would be larger (Markov's inequality)"
        return finding("red", "part_within_whole", row, expected, stated, text)
    if q <= 50 and number.range.low > client.range.high:
        text = (
            "half of the sampled statements took longer in the server than a client waited on average: "
            "the sample does not stand for the load"
        )
        return finding("amber", "part_within_whole", row, f"p{q:g} below {client}", stated, text)
    return finding("green", "part_within_whole", row, expected, stated, "the percentile fits the client's mean")

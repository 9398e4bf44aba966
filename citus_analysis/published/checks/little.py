"""Little's law: throughput × latency is the number of requests in the system, which no client can exceed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from citus_analysis.published._numbers import Range
from citus_analysis.published._rows import Number, ResultTable, Row
from citus_analysis.published.checks._registry import Finding, check, finding, rows_of
from citus_analysis.runs.concurrency import TOLERANCE
from citus_analysis.texts.number_text import percent, readable

#: If a smaller share of the connections is in the system, something else delays the clients.
BUSY: Final = 0.8
#: Largest effect of rounding on a share.
_ROUNDING: Final = 0.1
_UNIT_SLIPS: Final = (1e3, 1e6)
#: Latency of a part of the round trip.
_PART: Final = "server_latency"


def _rows(tables: Sequence[ResultTable]) -> Iterator[Row]:
    """All rows, and rows that combine latencies with the throughput of the same subject in another table."""
    by_subject: dict[tuple[str | Range | None, ...], list[Row]] = defaultdict(list)
    for row in rows_of(tables):
        yield row
        connections = row.concurrency
        if row.workload and connections is not None:
            by_subject[row.source, row.label, row.system, row.workload, connections.range].append(row)
    for rows in by_subject.values():
        rates = [row for row in rows if row.get("throughput") is not None and row.get("client_latency") is None]
        waits = [row for row in rows if row.get("throughput") is None and row.get("client_latency") is not None]
        for rate, wait in zip(rates, waits, strict=False):
            yield replace(rate, table=f"{wait.table} and {rate.table}", numbers={**wait.numbers, **rate.numbers})


@check("littles_law", "Is throughput × latency the concurrency?", _rows)
def littles_law(row: Row) -> Iterator[Finding]:
    """Compare the stated connections with the number that throughput and latency imply."""
    rate, connections = row.get("throughput"), row.concurrency
    if not rate or not connections or rate.value <= 0 or connections.value <= 0:
        return
    whole, part = row.get("client_latency") or row.get("latency"), row.get(_PART)
    if whole and whole.value > 0:
        yield _judge(row, rate, connections, whole)
    elif not whole and part and (judged := _judge(row, rate, connections, part)).severity == "red":
        yield judged


def _judge(row: Row, rate: Number, connections: Number, latency: Number) -> Finding:
    inside = rate.range * latency.range
    n = connections.range
    busy = rate.value * latency.value / connections.value
    implied = connections.value / latency.value if latency.value else float("inf")
    expected = f"{rate.printed(implied)} ({readable(connections.value)} / {latency})"
    slip = _slip(busy)
    red, amber = "", ""
    if inside.low > n.high * (1 + TOLERANCE):
        red = (
            f"{rate} × {latency} are {readable(rate.value * latency.value)} requests at once, but there are only "
            f"{readable(connections.value)} connections{slip}{f'; {rate.note}' if rate.note else ''}"
        )
    elif inside.high < n.low * BUSY:
        share = percent(busy) if busy >= 0.01 else f"{busy:.2g}"
        amber = (
            f"only {share} of the connections were waiting for the system on average: start-up, the client "
            f"itself or another mean{slip}"
        )
        # Clients that think or wait for their schedule are idle on purpose; all others are busy if the unit is right.
        red = amber if slip and not row.states("think_time") and not row.states("target") else ""
    green = f"{percent(busy)} of the connections are accounted for"
    return finding(row, expected, str(rate), green, red=red, amber=amber)


def _slip(busy: float) -> str:
    """A remark on a wrong unit, if a factor of 1000 or 1,000,000 makes the clients busy; else empty."""
    if busy <= 0:
        return ""
    near = next((slip for slip in _UNIT_SLIPS if _is_busy(busy * slip) or _is_busy(busy / slip)), None)
    return f" (off by about {readable(near)}: wrong unit?)" if near else ""


def _is_busy(share: float) -> bool:
    return BUSY <= share <= 1 + TOLERANCE + _ROUNDING

"""Little's law: throughput × latency is the number of requests in the system, which no client can exceed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from citus_analysis.published._numbers import Range
from citus_analysis.published._rows import Number, ResultTable, Row
from citus_analysis.published.checks._registry import Finding, Severity, check, finding, rows_of
from citus_analysis.runs.concurrency import TOLERANCE
from citus_analysis.texts.number_text import percent, readable

#: If a smaller share of the connections is in the system, something else delays the clients.
BUSY: Final = 0.8
#: Largest effect of rounding on a share.
_ROUNDING: Final = 0.1
_UNIT_SLIPS: Final = (1e3, 1e6)
#: Latencies of the whole round trip, then the latency of a part of it.
_WHOLE: Final = ("client_latency", "latency")
_PART: Final = "server_latency"


@check("littles_law", "Is throughput × latency the concurrency?")
def littles_law(tables: Sequence[ResultTable]) -> Iterator[Finding]:
    """Compare the stated connections with the number that throughput and latency imply."""
    for row in _rows(tables):
        rate, connections = row.get("throughput"), row.concurrency
        if rate is None or connections is None or rate.value <= 0 or connections.value <= 0:
            continue
        whole = next((latency for stem in _WHOLE if (latency := row.get(stem)) is not None), None)
        if whole is not None and whole.value <= 0:
            continue
        if whole is not None:
            yield _judge(row, rate, connections, whole)
        elif (part := row.get(_PART)) is not None:
            judged = _judge(row, rate, connections, part)
            if judged.severity == "red":
                yield judged


def _judge(row: Row, rate: Number, connections: Number, latency: Number) -> Finding:
    inside = rate.range * latency.range
    n = connections.range
    busy = rate.value * latency.value / connections.value
    implied = connections.value / latency.value if latency.value else float("inf")
    division = f"{readable(connections.value)} / {latency}"
    if inside.low > n.high * (1 + TOLERANCE):
        text = (
            f"{rate} × {latency} are {readable(rate.value * latency.value)} requests at once, but there are only "
            f"{readable(connections.value)} connections{_slip(busy)}{_remark(rate)}"
        )
        return finding("red", "littles_law", row, f"{rate.printed(implied)} ({division})", str(rate), text)
    expected = f"{rate.printed(implied)} ({division})"
    if inside.high < n.low * BUSY:
        slip = _slip(busy)
        # Clients that think or wait for their schedule are idle on purpose; all others are busy if the unit is right.
        idle = row.states("think_time") or row.states("target")
        severity: Severity = "red" if slip and not idle else "amber"
        text = (
            f"only {_share(busy)} of the connections were waiting for the system on average: start-up, the client "
            f"itself or another mean{slip}"
        )
        return finding(severity, "littles_law", row, expected, str(rate), text)
    text = f"{percent(busy)} of the connections are accounted for"
    return finding("green", "littles_law", row, expected, str(rate), text)


def _share(busy: float) -> str:
    return percent(busy) if busy >= 0.01 else f"{busy:.2g}"


def _slip(busy: float) -> str:
    """A remark on a wrong unit, if a factor of 1000 or 1,000,000 makes the clients busy; else empty."""
    if busy <= 0:
        return ""
    near = next((slip for slip in _UNIT_SLIPS if _is_busy(busy * slip) or _is_busy(busy / slip)), None)
    return f" (off by about {readable(near)}: wrong unit?)" if near else ""


def _is_busy(share: float) -> bool:
    return BUSY <= share <= 1 + TOLERANCE + _ROUNDING


def _remark(rate: Number) -> str:
    return f"; {rate.note}" if rate.note else ""


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
            name = f"{wait.table} and {rate.table}"
            numbers = {**wait.numbers, **rate.numbers}
            yield replace(rate, table=name, numbers=numbers)

"""The totals of a YCSB summary beside their parts: operations by return code, and by throughput and run time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from citus_analysis.formats.clients._report_lines import Total, contradictions
from citus_analysis.operations import FAILED, OVERALL

OPERATIONS = ("Operations", "Total Operations")
_RETURN = "Return="
#: The run time is printed in whole milliseconds.
_ROUNDED_MS = 0.5


def summary_contradictions(
    values: Mapping[tuple[str, str], float], done: int | None = None, failed: int | None = None
) -> str | None:
    """The totals of a summary that are not the sums of their parts, in words.

    Args:
        values: (section, metric) -> value.
        done: operations that succeeded, from the sections.
        failed: operations that failed.

    Example:
        >>> summary_contradictions({("READ", "Operations"): 10.0, ("READ", "Return=OK"): 9.0})
        'READ operations: 10 printed, but its parts add up to 9'
    """
    counts = {section: n for (section, metric), n in values.items() if metric in OPERATIONS}
    returns: dict[str, list[float]] = {}
    for (section, metric), n in values.items():
        if metric.startswith(_RETURN):
            returns.setdefault(section, []).append(n)
    return contradictions([*_by_return_code(counts, returns), *_by_rate(values, done, failed or 0)])


def _by_return_code(counts: Mapping[str, float], returns: Mapping[str, list[float]]) -> Iterator[Total]:
    for section, codes in returns.items():
        own, failed = counts.get(section), counts.get(section + FAILED, 0.0)
        # Some versions count failed operations in both sections, others in that of the failed ones only.
        if own is not None and sum(codes) != own:
            yield f"{section} operations", own + failed, codes, 0.5


def _by_rate(values: Mapping[tuple[str, str], float], done: int | None, failed: int) -> Iterator[Total]:
    rate, runtime_ms = (values.get((OVERALL, name)) for name in ("Throughput", "RunTime"))
    if rate is not None and runtime_ms is not None and done is not None:
        counted = rate * runtime_ms / 1000
        # A failed insert ends its thread before it is counted, other failures are counted.
        yield "Throughput x RunTime", counted, [min(max(counted, done), done + failed)], 0.5 + rate * _ROUNDED_MS / 1000

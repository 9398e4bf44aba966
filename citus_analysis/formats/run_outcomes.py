"""`outcomes.csv`: the runner's verdict on each iteration of a resource.

Table: `outcomes`. Example::

    iteration,outcome,reason,measured_from,measured_until
    1,verified,,2026-03-01T12:00:00.120+00:00,2026-03-01T12:01:00.480+00:00
    2,failed,load generator 0 ended with exit code 2,,

Earlier versions of the runner wrote only the first three columns.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import ClassVar, Final

from citus_analysis.formats.parsing.csv_records import CsvExtract, CsvField

_HEADERS: Final = (b"iteration,outcome,reason", b"iteration,outcome,reason,measured_from,measured_until")


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError("a time without an offset from UTC")
    return time.astimezone(UTC)


_FIELDS: Final = {
    "judged_iteration": CsvField("iteration", required=True),
    "outcome": CsvField("outcome", str, required=True),
    "reason": CsvField("reason", str),
    "measured_from": CsvField("measured_from", _time),
    "measured_until": CsvField("measured_until", _time),
}


class RunOutcomes(CsvExtract):
    """The runner's verdicts on the runs it launched."""

    name: ClassVar[str] = "run_outcomes"
    version: ClassVar[int] = 3
    tables = ("outcomes",)
    fields = _FIELDS

    def detect(self, name: str, head: bytes) -> float:
        """Certain if the header is the runner's."""
        return 1.0 if head.split(b"\n", 1)[0].strip() in _HEADERS else 0.0


FORMAT: Final = RunOutcomes()

"""`outcomes.csv`: the runner's verdict on each iteration of a resource, to `outcomes`.

Example::

    iteration,outcome,reason
    1,verified,
    2,failed,load generator 0 ended with exit code 2
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from citus_analysis.formats._base import Format, Hints, Parsed
from citus_analysis.formats._content import Content
from citus_analysis.formats._csv import CSV_LIMIT_BYTES, Field, parse_small_csv

__all__ = ["FORMAT", "RunOutcomes"]

_HEADER: Final = b"iteration,outcome,reason"
_FIELDS: Final = {
    "judged_iteration": Field("iteration", required=True),
    "outcome": Field("outcome", str, required=True),
    "reason": Field("reason", str),
}


class RunOutcomes(Format):
    """What the runner says of the runs it launched."""

    name: ClassVar[str] = "run_outcomes"
    version: ClassVar[int] = 2
    tables: ClassVar[tuple[str, ...]] = ("outcomes",)

    def detect(self, name: str, head: bytes) -> float:
        """Certain where the header is the runner's."""
        return 1.0 if head.split(b"\n", 1)[0].strip() == _HEADER else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece: all iterations."""
        yield parse_small_csv(content.read(CSV_LIMIT_BYTES), "outcomes", _FIELDS)


FORMAT: Final = RunOutcomes()

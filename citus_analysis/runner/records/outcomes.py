"""`outcomes.csv`: how the iterations of a resource ended, for `ingest`.

A run can fail in ways its clients' output does not show (a node went down, the table lacks rows); the file carries
the runner's verdict to the table `runs`, and when the main clients ran.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Final

from citus_analysis.core.output_files import open_output

__all__ = ["FILE_NAME", "Outcome", "write_outcomes"]

FILE_NAME: Final = "outcomes.csv"


@dataclass(frozen=True)
class Outcome:
    """How one iteration ended.

    Attributes:
        outcome: verified, degraded or failed.
        reason: why it is not verified; empty when it is.
        measured_from: when all main clients had been started; the runner's clock, UTC.
        measured_until: when the first of them had ended.
    """

    iteration: int
    outcome: str
    reason: str = ""
    measured_from: datetime | None = None
    measured_until: datetime | None = None


def write_outcomes(folder: Path, outcomes: Sequence[Outcome]) -> None:
    """Write the file anew; a whole file or none."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in fields(Outcome)])
    writer.writerows([_cell(value) for value in astuple(outcome)] for outcome in outcomes)
    with open_output(folder / FILE_NAME) as out:
        out.write(text.getvalue().encode())


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    return "" if value is None else " ".join(str(value).split())

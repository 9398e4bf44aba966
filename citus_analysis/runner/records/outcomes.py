"""`outcomes.csv`: the outcomes of the iterations of a resource, for `ingest`.

A run can fail in ways that its clients' output does not show (a node went down, the table lacks rows). From this file,
the table `runs` gets the runner's verdict and the time in which the main clients ran.
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

FILE_NAME: Final = "outcomes.csv"


@dataclass(frozen=True)
class Outcome:
    """The outcome of one iteration.

    Attributes:
        outcome: verified, degraded or failed.
        reason: reason why it is not verified; empty if it is.
        measured_from: time at which all main clients had been started, by the runner's clock, UTC.
        measured_until: time at which the first of them had ended.
    """

    iteration: int
    outcome: str
    reason: str = ""
    measured_from: datetime | None = None
    measured_until: datetime | None = None


def write_outcomes(folder: Path, outcomes: Sequence[Outcome]) -> None:
    """Write the whole file; it appears only when it is complete."""
    names = [field.name for field in fields(Outcome)]
    write_csv(folder / FILE_NAME, names, [[_cell(value) for value in astuple(outcome)] for outcome in outcomes])


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write a table whole or not at all."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    with open_output(path) as out:
        out.write(text.getvalue().encode())


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    return "" if value is None else " ".join(str(value).split())

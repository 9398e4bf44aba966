"""`outcomes.csv`: which iterations of a resource failed, for `ingest`.

A run can fail in ways its clients' output does not show (a node went down, the table lacks rows); the file carries
the runner's verdict to the table `runs`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from citus_analysis.output_files import open_output

__all__ = ["FILE_NAME", "Outcome", "write_outcomes"]

FILE_NAME: Final = "outcomes.csv"


@dataclass(frozen=True, order=True)
class Outcome:
    """How one iteration ended; an empty reason means well."""

    iteration: int
    reason: str


def write_outcomes(folder: Path, outcomes: Sequence[Outcome]) -> None:
    """Write the file anew; a whole file or none."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["iteration", "outcome", "reason"])
    writer.writerows(
        [(o.iteration, "failed" if o.reason else "verified", " ".join(o.reason.split())) for o in outcomes]
    )
    with open_output(folder / FILE_NAME) as out:
        out.write(text.getvalue().encode())

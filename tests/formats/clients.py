"""What the tests of load generator formats share."""

import csv
from dataclasses import dataclass
from pathlib import Path

from tests.formats.sampling import ROOT
from tests.recordings import RECORDED

SAMPLES = ROOT / "tests" / "data" / "clients"


@dataclass(frozen=True)
class Truth:
    """What is known of a recorded run from how it was launched."""

    resource: str
    iteration: int
    phase: str
    operations: int
    monitor_operations: int
    rows_after: int
    drivers: int


def truths() -> list[Truth]:
    """Recorded runs, by tests/data/recorded_truth.csv."""
    with (ROOT / "tests" / "data" / "recorded_truth.csv").open(encoding="utf-8", newline="") as file:
        return [
            Truth(
                row["resource"],
                int(row["iteration"]),
                row["phase"],
                int(row["operations"]),
                int(row["monitor_operations"]),
                int(row["rows_after"]),
                int(row["drivers"]),
            )
            for row in csv.DictReader(file)
        ]


def logs(truth: Truth, *, monitor: bool) -> list[Path]:
    """Client logs of a recorded run."""
    prefix = f"monitor_{truth.phase}_" if monitor else f"{truth.phase}_"
    # load_WORKLOAD_THREADS_RECORDS_ITERATION_...; run_WORKLOAD_THREADS_RECORDS_OPERATIONS_ITERATION_...
    place = len(prefix.split("_")) - 1 + (3 if truth.phase == "load" else 4)
    found = sorted((RECORDED / truth.resource / "YCSB" / "raw").glob(f"{prefix}*"))
    return [path for path in found if path.name.split("_")[place] == str(truth.iteration)]

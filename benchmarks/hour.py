"""The whole of `citus-analysis ingest` on server logs of an hour, against `grep -c` over the same bytes.

`python -m benchmarks.hour [--megabytes N ...] [--shapes NAME ...] [--rounds N] [--ingest-only] [--out FILE]` makes logs
of four shapes from recorded ones: sessions that go on throughout, few sessions, many short ones, and one log in which
many backends' sessions overlap. Of each it measures, whole processes, in turn in the same run, of three rounds the
median:

- `LC_ALL=C grep -c 'duration: '`;
- `citus-analysis ingest` with one and with two threads, and on one processor (`ingest_0`): reading, traces, statements,
  match quality, clock offsets;
- its peak resident memory, of all of its processes together, and how many rows and exact pairs there are;
- what its indispensable parts take alone: hashing, scanning, encoding (`benchmarks/_floor.py`), and the ingest of the
  beginnings of the logs (`start_cpu_s`). `bound_s` is half of the CPU time of start, scanning and encoding: two
  processors cannot be faster, even if hashing, traces, reading and writing took no time;
- of the first shape, the export of all traces as JSON and in Perfetto's own format.

Ratios are kept of wall time and of CPU time, which other work on the machine changes less.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

import polars as pl

from benchmarks._hour import SHAPES, overlapping, write_hour
from benchmarks.pglog import ROUNDS, Cost, environment, in_turn, measured, recorded_logs
from citus_analysis.dataset import open_dataset

RESULTS: Final = Path(__file__).parent / "results" / "hour.json"
OVERLAPPING: Final = "overlapping"
#: Of the logs of this shape, all traces are written as well.
EXPORTED: Final = "long"
#: Lines of each log of which the start of an ingest is measured.
FIRST_LINES: Final = 1_000
#: Threads of the ingests that are compared; 0: one thread, and one processor for all work in the background as well.
JOBS: Final = (0, 1, 2)
#: Arguments of Python that let the rest of them run on the first processor alone.
ON_ONE_PROCESSOR: Final = (
    "-c",
    "import os, sys; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])",
)


def write_logs(folder: Path, shape: str, size: int) -> int:
    """Logs of a shape; how many bytes they have."""
    if shape != OVERLAPPING:
        return write_hour(folder, SHAPES[shape], size)
    return overlapping(folder / "postgresql-1.log", recorded_logs(), size)


def ingested(source: Path, out: Path, jobs: int) -> Cost:
    """The command in a new process; its dataset stays."""
    shutil.rmtree(out, ignore_errors=True)
    command = ["-m", "citus_analysis", "ingest", str(source), "--out", str(out), "--jobs", str(jobs or 1)]
    # 1: done, with something to say.
    return measured([sys.executable, *(() if jobs else ON_ONE_PROCESSOR), *command], (0, 1))


def floor(source: Path, out: Path, grep: Cost) -> Mapping[str, object]:
    """What the parts of an ingest take alone, and the ratio to `grep -c` that follows from them for two processors."""
    command = [sys.executable, "-m", "benchmarks._floor", str(source), str(out)]
    told = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, check=True).stdout
    parts: dict[str, float] = json.loads(told)
    start = min(started(source).cpu_s for _ in range(ROUNDS))
    bound = (start + parts["floor_scan_cpu_s"] + parts["floor_encode_cpu_s"]) / 2
    return parts | {
        "start_cpu_s": round(start, 2),
        "bound_s": round(bound, 2),
        "bound_over_grep_wall": round(grep.wall_s / bound, 4),
    }


def started(source: Path) -> Cost:
    """The ingest of the same files, of each log only the first lines."""
    with tempfile.TemporaryDirectory() as name:
        for path in source.rglob("*"):
            if path.is_file():
                target = Path(name) / "logs" / path.relative_to(source)
                target.parent.mkdir(parents=True, exist_ok=True)
                with path.open("rb") as file:
                    target.write_bytes(b"".join(islice(file, FIRST_LINES)))
        return ingested(Path(name) / "logs", Path(name) / "dataset", 2)


def exported(dataset: Path, out: Path) -> Cost:
    """All traces of a dataset, written by the command in a new process."""
    command = [sys.executable, "-m", "citus_analysis", "spans", str(dataset), "--out", str(out), "--limit", "0"]
    cost = measured([*command, "--export", "perfetto"], (0, 1))
    out.unlink()
    return cost


def measure(
    folder: Path, shape: str, megabytes: int, rounds: int, threads: Sequence[int], *, ingest_only: bool
) -> dict[str, object]:
    """All of it on logs of one shape and size, or the ingest alone."""
    source, out = folder / "logs", folder / "dataset"
    source.mkdir()
    size = write_logs(source, shape, megabytes * 10**6)
    taken = in_turn(
        rounds,
        grep=lambda: measured(["grep", "-r", "-h", "-c", "duration: ", str(source)]),
        **{f"jobs_{jobs}": partial(ingested, source, out, jobs) for jobs in threads},
    )
    grep, costs = taken["grep"], {jobs: taken[f"jobs_{jobs}"] for jobs in threads}
    row: dict[str, object] = {
        "shape": shape,
        "megabytes": round(size / 1e6, 1),
        "grep_mb_per_s": round(size / 1e6 / grep.wall_s),
    }
    for jobs, cost in costs.items():
        row |= {
            f"ingest_{jobs}_s": round(cost.wall_s, 2),
            f"ingest_{jobs}_cpu_s": round(cost.cpu_s, 2),
            f"ingest_{jobs}_mb_per_s": round(size / 1e6 / cost.wall_s, 1),
            f"ingest_{jobs}_peak_mib": round(cost.peak_mib),
            f"ingest_{jobs}_over_grep_wall": round(grep.wall_s / cost.wall_s, 4),
            f"ingest_{jobs}_over_grep_cpu": round(grep.cpu_s / cost.cpu_s, 4),
        }
    for one, what in ((0, "two_processors_over_one"), (1, "two_threads_over_one")):
        if {one, 2} <= costs.keys():
            row[what] = round(costs[one].wall_s / costs[2].wall_s, 2)
    for suffix in ("json", "pftrace") if shape == EXPORTED and not ingest_only else ():
        cost = exported(out, folder / f"trace.{suffix}")
        row |= {f"export_{suffix}_s": round(cost.wall_s, 2), f"export_{suffix}_cpu_s": round(cost.cpu_s, 2)}
        row[f"export_{suffix}_peak_mib"] = round(cost.peak_mib)
    dataset = open_dataset(out)
    # Not the rows themselves: what this process holds counts as the peak of those it starts.
    row["spans"] = dataset.scan("spans").select(pl.len()).collect().item()
    row["tasks"], row["exact"] = dataset.table("match_quality").select("tasks", "exact").sum().row(0)
    row |= {} if ingest_only else floor(source, out, grep)
    shutil.rmtree(source)
    shutil.rmtree(out)
    return row


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--megabytes", type=int, nargs="+", default=[1000])
    parser.add_argument("--shapes", nargs="+", default=[*SHAPES, OVERLAPPING], choices=[*SHAPES, OVERLAPPING])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--jobs", type=int, nargs="+", default=JOBS)
    parser.add_argument("--ingest-only", action="store_true", help="no export, and not the parts of an ingest alone")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    rows, only = [], arguments.ingest_only
    for megabytes in arguments.megabytes:
        for shape in arguments.shapes:
            with tempfile.TemporaryDirectory() as name:
                wanted = (shape, megabytes, arguments.rounds, arguments.jobs)
                rows.append(measure(Path(name), *wanted, ingest_only=only))
            print(json.dumps(rows[-1]), flush=True)
    arguments.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

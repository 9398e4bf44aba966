"""Reports as they are typed: one, all, and those of an hour of logs, against an empty notebook under papermill.

`python -m benchmarks.reports [--megabytes N] [--out FILE]` ingests the tests' 861 recorded files and the recorded tree,
and makes each report of them alone, then all; figures of the 861 files begin with `small_`. Then it ingests N MB of
logs of several nodes (of one hour) and makes the reports that logs alone support. Each is a new process, with the
processes that it starts; CPU seconds are kept beside wall time, because other work on the machine changes them less.
The unit of comparison is papermill's own command on a notebook with one cell (`pass`), in the same run: what it costs
to start Python, papermill and a kernel.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Final

from benchmarks._hour import SHAPES, write_hour
from benchmarks.pglog import Cost, measured
from citus_analysis.report import report_names

_ROOT: Final = Path(__file__).parents[1]
#: Beginning of the names of figures -> the recordings that the reports are of.
RECORDED: Final = {"small_": _ROOT / "tests" / "data" / "recorded", "": _ROOT / "data" / "recorded"}
RESULTS: Final = Path(__file__).parent / "results" / "reports.json"
#: Reports that need no files of a load generator.
OF_LOGS: Final = ("profile", "server", "bottleneck")
SHAPE: Final = "long"
EMPTY: Final = {
    "cells": [
        {"cell_type": "code", "id": "a", "source": "pass", "metadata": {}, "outputs": [], "execution_count": None}
    ],
    "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}


def command(*words: object) -> Cost:
    """The command line in a new process."""
    return measured([sys.executable, "-m", "citus_analysis", *map(str, words)], (0, 1))


def empty_notebook(folder: Path) -> Cost:
    """Papermill's own command on a notebook that does nothing."""
    source, target = folder / "empty.ipynb", folder / "executed.ipynb"
    source.write_text(json.dumps(EMPTY), encoding="utf-8")
    return measured([sys.executable, "-m", "papermill", "--no-progress-bar", str(source), str(target)])


def figures(name: str, cost: Cost, unit: Cost) -> dict[str, float]:
    """What is kept of a report: its times, its peak, and how many empty notebooks it costs."""
    return {
        f"{name}_s": round(cost.wall_s, 2),
        f"{name}_cpu_s": round(cost.cpu_s, 2),
        f"{name}_peak_mib": round(cost.peak_mib),
        f"{name}_over_empty_cpu": round(cost.cpu_s / unit.cpu_s, 1),
    }


def of_recordings(folder: Path, unit: Cost) -> dict[str, float]:
    """Each report of each recorded tree, and all of them at once."""
    found: dict[str, float] = {}
    for tree, source in RECORDED.items():
        dataset, out = folder / f"{tree}dataset", folder / f"{tree}out"
        command("ingest", source, "--out", dataset)
        for name in (*report_names(), "all"):
            found |= figures(f"{tree}{name}", command("report", name, dataset, "--out", out), unit)
    return found


def of_an_hour(folder: Path, megabytes: int, unit: Cost) -> dict[str, float]:
    """The reports of logs alone, with the sizes of their pages."""
    logs, dataset, out = folder / "logs", folder / "hour", folder / "out-hour"
    logs.mkdir()
    found: dict[str, float] = {"hour_megabytes": round(write_hour(logs, SHAPES[SHAPE], megabytes * 10**6) / 1e6)}
    command("ingest", logs, "--out", dataset)
    for name in OF_LOGS:
        found |= figures(f"hour_{name}", command("report", name, dataset, "--out", out), unit)
        found[f"hour_{name}_page_mb"] = round((out / f"{name}.html").stat().st_size / 1e6, 2)
    return found


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        unit = empty_notebook(Path(name))
        found = {"empty_s": round(unit.wall_s, 2), "empty_cpu_s": round(unit.cpu_s, 2)}
        found |= of_recordings(Path(name), unit) | of_an_hour(Path(name), arguments.megabytes, unit)
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for what, value in found.items():
        print(f"{what:32} {value:10,.2f}")


if __name__ == "__main__":
    main()

"""A tree of many small files: the whole ingest, the same again, and a growing number of files.

`python -m benchmarks.small_files [--copies N ...] [--out FILE]` ingests the recordings of the tests (861 files) in a
new process, then once more with nothing changed, exports their traces in Perfetto's own format, and ingests
`data/recorded`; the median of three rounds counts. Then it ingests N copies of one resource (of 18 files), once more
with nothing changed, and prints the time of a file in each: it must not grow. CPU seconds of whole processes are kept
beside wall time, because other work on the machine changes them less.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from itertools import count
from pathlib import Path
from typing import Final

from benchmarks.pglog import Cost, in_turn, measured

ROOT: Final = Path(__file__).parents[1]
RECORDED: Final = ROOT / "tests" / "data" / "recorded"
#: What the reports are shown on, and what a reader of the README ingests first.
SHOWN: Final = ROOT / "data" / "recorded"
#: A resource with clients, logs and samplers.
COPIED: Final = "w2-t4-insert"
RESULTS: Final = Path(__file__).parent / "results" / "small_files.json"


def command(*words: object) -> Cost:
    """The command line in a new process."""
    return measured([sys.executable, "-m", "citus_analysis", *map(str, words)], (0, 1))


def measure(folder: Path) -> dict[str, float]:
    """Costs of the recordings."""
    # A new folder each time, and nothing is removed meanwhile: for some minutes after files were removed, ext4 searches
    # past their inodes for each file that it creates, which a first ingest does not meet.
    datasets: list[Path] = []

    def from_nothing() -> Cost:
        datasets.append(folder / f"dataset-{len(datasets)}")
        return command("ingest", RECORDED, "--out", datasets[-1])

    shown = count()
    costs = in_turn(
        ingest=from_nothing,
        unchanged=lambda: command("ingest", RECORDED, "--out", datasets[-1]),
        export=lambda: command("spans", datasets[-1], "--out", folder / "traces.pftrace", "--limit", 0),
        shown=lambda: command("ingest", SHOWN, "--out", folder / f"shown-{next(shown)}"),
    )
    found: dict[str, float] = {"files": _files(RECORDED), "shown_files": _files(SHOWN)}
    for what, cost in costs.items():
        found |= {f"{what}_s": round(cost.wall_s, 2), f"{what}_cpu_s": round(cost.cpu_s, 2)}
        found[f"{what}_peak_mib"] = round(cost.peak_mib)
    return found


def _files(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*"))


def copied(source: Path, number: int) -> int:
    """Copies of a resource, each a resource of its own: else they would be duplicates; how many files they are."""
    for copy in range(number):
        name = f"{COPIED}-{copy:04}"
        shutil.copytree(RECORDED / COPIED, source / name)
        config = source / name / "config.yml"
        config.write_text(config.read_text(encoding="utf-8").replace(f'"{COPIED}"', f'"{name}"'), encoding="utf-8")
    return _files(source)


def growth(folder: Path, copies: list[int]) -> dict[str, float]:
    """What trees of some copies of a resource take, and how the largest compares with the smallest."""
    found: dict[str, float] = {}
    spent: dict[int, dict[str, Cost]] = {}
    for number in copies:
        source, out = folder / f"copies-{number}", folder / f"copied-{number}"
        files = copied(source, number)
        spent[files] = {suffix: command("ingest", source, "--out", out) for suffix in ("", "_again")}
        for suffix, cost in spent[files].items():
            found[f"ms_a_file_of_{files}{suffix}"] = round(cost.cpu_s / files * 1000, 2)
            found[f"wall_s_of_{files}{suffix}"] = round(cost.wall_s, 2)
            found[f"peak_mib_of_{files}{suffix}"] = round(cost.peak_mib)
    few, many = min(spent), max(spent)
    found["times_the_files"] = round(many / few, 2)
    for suffix, cost in spent[few].items():
        found[f"times_the_cpu{suffix}"] = round(spent[many][suffix].cpu_s / cost.cpu_s, 2)
        found[f"times_the_wall{suffix}"] = round(spent[many][suffix].wall_s / cost.wall_s, 2)
    return found


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--copies", type=int, nargs="+", default=[55, 555])
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = measure(Path(name)) | growth(Path(name), arguments.copies)
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for what, value in found.items():
        print(f"{what:24} {value:10,.2f}")


if __name__ == "__main__":
    main()

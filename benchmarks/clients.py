"""Readers of load generators' results: MB/s from file to tables, beside `grep -c` over the same bytes.

`python -m benchmarks.clients [--megabytes N] [--out FILE]` makes a file of each kind by repeating the lines of a
recorded one of which a long run has many (status lines, transactions, intervals), and reads it to Arrow tables in this
process. Reader and `LC_ALL=C grep -c` take turns, three times; the median of each counts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from citus_analysis.formats import Content, Hints, format_named

SAMPLES: Final = Path(__file__).parents[1] / "tests" / "data" / "clients"
RESULTS: Final = Path(__file__).parent / "results" / "clients.json"
ROUNDS: Final = 3
_MB: Final = 10**6


class Case(NamedTuple):
    """A format, a recorded file, and the lines of it that a long run repeats."""

    format: str
    sample: str
    repeated: bytes


CASES: Final = (
    Case("ycsb", "ycsb-timeseries.log.zst", rb"^\[\w+\], \d+, "),
    Case("pgbench_log", "select-only-c8-rate.20948.zst", rb"^\d"),
    Case("sysbench", "sysbench/1.0.20-rate-checkpoints.log", rb"^\[ \d+s \] thds"),
    Case("go_tpc", "go_tpc/1.0.12-plain.log", rb"^\[Current\]"),
    Case("hammerdb", "hammerdb/4.12-hdbtcount.log", rb"^\d+ PostgreSQL tpm"),
    Case("benchbase", "benchbase/tpcc-2023-beginning.raw.csv", rb"^\d"),
    Case("hdrhistogram", "hdrhistogram/tagged.hlog", rb"^Tag="),
)


def enlarged(case: Case, size: int) -> bytes:
    """The recorded file with its repeated lines repeated up to a size in bytes."""
    lines = Content(SAMPLES / case.sample).read(2**26).splitlines(keepends=True)
    places = [place for place, line in enumerate(lines) if re.match(case.repeated, line)]
    some = b"".join(lines[place] for place in places)
    copies = max(1, (size - sum(map(len, lines))) // len(some))
    return b"".join([*lines[: places[0]], some * copies, *lines[places[0] :]])


def read(path: Path, name: str) -> tuple[int, int]:
    """Rows and rejected bytes of a file."""
    pieces = format_named(name).parse(Content(path), Hints(path.name))
    counts = [(sum(map(len, piece.tables.values())), piece.rejected_bytes) for piece in pieces]
    return sum(rows for rows, _ in counts), sum(rejected for _, rejected in counts)


def seconds_of_grep(path: Path) -> float:
    """Wall seconds of `grep -c` of a character that most lines have."""
    began = time.perf_counter()
    subprocess.run(["grep", "-c", "1", path], env=os.environ | {"LC_ALL": "C"}, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def measured(case: Case, megabytes: int, folder: Path) -> dict[str, object]:
    """The speeds of one case."""
    path = folder / Path(case.sample).name.removesuffix(".zst")
    path.write_bytes(enlarged(case, megabytes * _MB))
    reading, searching, rows, rejected = [], [], 0, 0
    for _ in range(ROUNDS):
        began = time.perf_counter()
        rows, rejected = read(path, case.format)
        reading.append(time.perf_counter() - began)
        searching.append(seconds_of_grep(path))
    size = path.stat().st_size / _MB
    path.unlink()
    return {
        "format": case.format,
        "megabytes": round(size, 1),
        "rows": rows,
        "rejected_bytes": rejected,
        "reader_mb_s": round(size / statistics.median(reading), 1),
        "grep_mb_s": round(size / statistics.median(searching), 1),
        "reader_over_grep_wall": round(statistics.median(reading) / statistics.median(searching), 1),
    }


def main() -> None:
    """Measure every case, print a line each and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            results.append(measured(case, options.megabytes, Path(folder)))
            print(*(f"{name} {value}" for name, value in results[-1].items()), sep=", ", flush=True)
    options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""What an ingest of the recordings costs against the least that any tool would do with the same bytes.

`python -m benchmarks.ingest [--out FILE]` decompresses `tests/data/recorded` and measures, in CPU time:

- ingest: recognise, parse, account for every byte, derive runs and traces, write Parquet;
- ingest again: the pass that finds everything unchanged;
- many small files: the first lines of one recording's files, as so many iterations, by what one of them costs: twice
  as many shall not cost more each, and what is found unchanged costs a small part of what is read;
- DuckDB: read the same files as text, split them into lines, extract time, pid, severity and message of log lines
  with one regular expression, write Parquet. It joins no continuation lines, types no numbers, derives nothing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

from citus_analysis.dataset import ingest
from citus_analysis.formats import Content

RECORDED = Path(__file__).parents[1] / "tests" / "data" / "recorded"
#: Files of an iteration whose first lines make small files, and what their names have in place of the iteration.
SMALL = {
    "YCSB/raw/load_A_16_60000_1_2_w2-t16-insert_1_0.log": "YCSB/raw/load_A_16_60000_{}_2_small_1_0.log",
    "general/vmstat-0-1.out": "general/vmstat-0-{}.out",
    "general/worker-0-1.out": "general/worker-0-{}.out",
    "pglogs/PGLOG-0-1.log": "pglogs/PGLOG-0-{}.log",
}
SMALL_LINES = 25
SMALL_ITERATIONS = 50
RESULTS = Path(__file__).parent / "results" / "ingest.json"

LINES = """
COPY (
    SELECT filename, regexp_extract(line, '^([0-9-]+ [0-9:.]+) \\w+ \\[(\\d+)\\].*?([A-Z]+):  (.*)$',
                                    ['time', 'pid', 'severity', 'message']) AS record
    FROM (SELECT filename, unnest(string_split(content, chr(10))) AS line FROM read_text(?))
) TO '{target}' (FORMAT parquet, COMPRESSION zstd)
"""


def decompress(folder: Path) -> tuple[int, int]:
    """Copy the recordings without compression; number of files and bytes."""
    files = size = 0
    for path in sorted(path for path in RECORDED.rglob("*") if path.is_file()):
        target = folder / path.relative_to(RECORDED)
        target = target.with_suffix("") if Content(path).compression != "none" else target
        target.parent.mkdir(parents=True, exist_ok=True)
        with Content(path).open() as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy)
        files, size = files + 1, size + target.stat().st_size
    return files, size


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU time of one call, over all threads."""
    began = time.process_time()
    work()
    return time.process_time() - began


def scan_with_duckdb(folder: Path, target: Path) -> None:
    """The least that any tool would do."""
    files = [str(path) for path in folder.rglob("*") if path.is_file()]
    with duckdb.connect() as connection:
        connection.execute(LINES.format(target=target), [files])


def small_files(recording: Path, folder: Path, iterations: int) -> int:
    """Write small files of so many iterations; number of files."""
    for recorded, name in SMALL.items():
        lines = (recording / recorded).read_text(encoding="utf-8").splitlines(keepends=True)
        for iteration in range(1, iterations + 1):
            path = folder / name.format(iteration)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(lines[:SMALL_LINES]), encoding="utf-8")
    return len(SMALL) * iterations


def measure_small_files(recording: Path, folder: Path) -> dict[str, float]:
    """CPU milliseconds of a small file, of few and of twice as many; read, and found unchanged."""
    spent: dict[str, float] = {}
    for name, iterations in (("few", SMALL_ITERATIONS), ("twice_as_many", 2 * SMALL_ITERATIONS)):
        raw, dataset = folder / name / "small", folder / f"{name}-dataset"
        files = small_files(recording, raw, iterations)
        for what in (f"small_file_of_{name}_ms", f"small_file_of_{name}_again_ms"):
            spent[what] = round(1000 * cpu_seconds(lambda: ingest(raw, dataset)) / files, 2)  # noqa: B023 - called at once
    return spent


def main() -> None:
    """Measure, print ratios with the throughputs behind them, and keep them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as name:
        raw, dataset = Path(name) / "raw", Path(name) / "dataset"
        files, size = decompress(raw)
        # Imports and first calls are not what is measured.
        ingest(raw / "w2-t16-insert", Path(name) / "warm")
        seconds = {
            "ingest": cpu_seconds(lambda: ingest(raw, dataset)),
            "ingest_again": cpu_seconds(lambda: ingest(raw, dataset)),
            "duckdb_lines": cpu_seconds(lambda: scan_with_duckdb(raw, Path(name) / "lines.parquet")),
        }
        small = measure_small_files(raw / "w2-t16-insert", Path(name))
    megabytes = size / 1e6
    rates = {f"{what}_mb_per_cpu_s": round(megabytes / spent, 2) for what, spent in seconds.items()}
    ratio = round(seconds["ingest"] / seconds["duckdb_lines"], 2)
    print(f"{files} files, {megabytes:.1f} MB")
    print(f"ingest takes {ratio} times the CPU time of a plain line scan: ", end="")
    print(f"{rates['ingest_mb_per_cpu_s']} against {rates['duckdb_lines_mb_per_cpu_s']} MB per CPU second")
    print(f"ingest again: {rates['ingest_again_mb_per_cpu_s']} MB per CPU second")
    linear = round(small["small_file_of_twice_as_many_ms"] / small["small_file_of_few_ms"], 2)
    unchanged = round(small["small_file_of_few_again_ms"] / small["small_file_of_few_ms"], 3)
    print(f"one of twice as many small files takes {linear} times the CPU time of one of few: ", end="")
    print(f"{small['small_file_of_twice_as_many_ms']} against {small['small_file_of_few_ms']} ms")
    print(f"one that did not change takes {unchanged} of it: {small['small_file_of_few_again_ms']} ms")
    out.parent.mkdir(parents=True, exist_ok=True)
    kept = {"files": files, "megabytes": round(megabytes, 1), "ingest_over_line_scan": ratio, **rates, **small}
    out.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

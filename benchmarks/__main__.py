"""Runs every benchmark of this folder, or those that are named: `python -m benchmarks [NAME ...]`.

At the end one table shows what was measured: what, today, before (the figures that were kept last), and the target.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Final

from citus_analysis.texts.text_tables import text_table

RESULTS: Final = Path(__file__).parent / "results"

#: What, file of results, the place of the figure in it, target.
FIGURES: Final = (
    ("the tests' 861 recorded files: ingest, s", "small_files", "ingest_s", "8"),
    ("the same in CPU seconds", "small_files", "ingest_cpu_s", "16"),
    ("the same with nothing changed, s", "small_files", "unchanged_s", "1"),
    ("export of their traces, s", "small_files", "export_s", ""),
    ("export of their traces, peak MiB", "small_files", "export_peak_mib", "1024"),
    ("reading of YCSB's output, MB/s", "clients", "0.reader_mb_s", ""),
    ("reading of a log / grep -c, wall", "pglog", "sizes.0.reader_over_grep_wall", ""),
    ("ingest of an hour, 1 thread / grep -c, wall", "hour", "0.ingest_1_over_grep_wall", "0.25"),
    ("ingest of an hour, 2 threads / grep -c, wall", "hour", "0.ingest_2_over_grep_wall", "0.25"),
    ("ingest of an hour, 2 threads over 1", "hour", "0.two_threads_over_one", "1.6"),
    ("ingest of an hour, 2 threads, peak MiB", "hour", "0.ingest_2_peak_mib", "1024"),
    ("a month of sar's text, MB/s", "samplers", "sar_mb_s", "50"),
    ("a month of sadf -d, MB/s", "samplers", "sadf_csv_mb_s", "50"),
    ("a month of dool, MB/s", "samplers", "dstat_mb_s", "50"),
    ("traces, CPU s per million statements", "spans", "traces_s_per_million", ""),
    ("a brush over a million statements, ms", "explore", "brush_ms", "200"),
    ("the same / a plain scan by DuckDB", "explore", "brush_over_scan", ""),
)


def kept() -> dict[str, object]:
    """The results of all benchmarks as they were kept last."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*.json")}


def figure(results: object, place: str) -> str:
    """One figure of the results, named by keys and numbers; empty if it was not measured."""
    for key in place.split("."):
        if isinstance(results, list) and key.isdecimal() and int(key) < len(results):
            results = results[int(key)]
        elif isinstance(results, dict) and key in results:
            results = results[key]
        else:
            return ""
    return f"{results:,.4g}" if isinstance(results, int | float) else str(results)


def table(before: dict[str, object], today: dict[str, object]) -> list[str]:
    """What was measured, beside what was measured before."""
    rows = [
        (what, figure(today.get(name), place), figure(before.get(name), place), target)
        for what, name, place, target in FIGURES
    ]
    return text_table(("what", "today", "before", "target"), rows, right={1, 2, 3}, ruled=True)


def main() -> None:
    """Call `main` of each module; it prints its ratios and keeps them in `results`."""
    known = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
    wanted = sys.argv[1:] or known
    if unknown := sorted(set(wanted) - set(known)):
        sys.exit(f"no benchmark is named {', '.join(unknown)}; known: {', '.join(known)}")
    del sys.argv[1:]
    before, began = kept(), perf_counter()
    for name in wanted:
        print(f"== {name}", flush=True)
        import_module(f"benchmarks.{name}").main()
    print(*table(before, kept()), sep="\n")
    print(f"{(perf_counter() - began) / 60:.1f} minutes")


if __name__ == "__main__":
    main()

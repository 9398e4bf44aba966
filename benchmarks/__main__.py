"""Runs every benchmark of this folder, or those that are named: `python -m benchmarks [NAME ...]`.

At the end one table shows what was measured: what, today (of the benchmarks that ran), before (the figures that were
kept last, and the day on which they were measured), and the target. All of it is meant to take less than half an hour
on two cores; larger logs and further shapes are options of each benchmark.
"""

import json
import subprocess
import sys
from datetime import UTC, datetime
from os import getloadavg
from pathlib import Path
from time import perf_counter
from typing import Final

from citus_analysis.report import report_names
from citus_analysis.texts.tables import render_text_table

RESULTS: Final = Path(__file__).parent / "results"

#: Benchmark -> the day on which its results were measured, with the load of the machine at the time.
WHEN: Final = RESULTS / "when.json"


def _reports(of: str, tree: str) -> list[tuple[str, str, str, str]]:
    """The figures of the reports of recordings, as in :data:`FIGURES`."""
    alone = [(f"report {name} of {of}, s", "reports", f"{tree}{name}_s", "5") for name in report_names()]
    every = (f"all reports of {of}, s", "reports", f"{tree}all_s", "12")
    return [*alone, every, (f"all reports of {of}, CPU s", "reports", f"{tree}all_cpu_s", "24")]


#: What, file of results, the place of the figure in it, target.
FIGURES: Final = (
    ("the tests' 861 recorded files: ingest, s", "small_files", "ingest_s", "8"),
    ("the same in CPU seconds", "small_files", "ingest_cpu_s", "16"),
    ("the same with nothing changed, s", "small_files", "unchanged_s", "1"),
    ("the files of data/recorded", "small_files", "shown_files", ""),
    ("ingest data/recorded, s", "small_files", "shown_s", "8"),
    ("the same in CPU seconds", "small_files", "shown_cpu_s", "16"),
    ("a file in a tree of 990, CPU ms", "small_files", "ms_a_file_of_990", ""),
    ("a file in a tree of 9,990, CPU ms", "small_files", "ms_a_file_of_9990", ""),
    ("9,990 files over 990, wall", "small_files", "times_the_wall", "10.5"),
    ("the same with nothing changed, wall", "small_files", "times_the_wall_again", "10.5"),
    ("export of their traces, s", "small_files", "export_s", ""),
    ("export of their traces, peak MiB", "small_files", "export_peak_mib", "1024"),
    ("reading of YCSB's output, MB/s", "clients", "0.reader_mb_s", ""),
    ("reading of a log / grep -c, wall", "pglog", "sizes.0.reader_over_grep_wall", ""),
    ("ingest of an hour, 1 thread / grep -c, wall", "hour", "0.ingest_1_over_grep_wall", "0.25"),
    ("ingest of an hour, 2 threads / grep -c, wall", "hour", "0.ingest_2_over_grep_wall", "0.25"),
    ("  the most that start, scanning and encoding allow", "hour", "0.bound_over_grep_wall", "0.25"),
    ("ingest of an hour, 2 threads over 1", "hour", "0.two_threads_over_one", "1.6"),
    ("ingest of an hour, 2 threads over 1 on 1 processor", "hour", "0.two_processors_over_one", "1.6"),
    ("ingest of an hour, 2 threads, peak MiB", "hour", "0.ingest_2_peak_mib", "1024"),
    ("ingest of 4 GB, 2 threads, peak MiB", "hour_4gb", "0.ingest_2_peak_mib", "1024"),
    ("ingest of 20 GB, 2 threads, peak MiB", "hour_20gb", "0.ingest_2_peak_mib", "1024"),
    ("JSON trace of the whole hour, s", "hour", "0.export_json_s", "20"),
    ("JSON trace of the whole hour, peak MiB", "hour", "0.export_json_peak_mib", "1024"),
    ("Perfetto's own format of the hour, s", "hour", "0.export_pftrace_s", "20"),
    ("Perfetto's own format of the hour, peak MiB", "hour", "0.export_pftrace_peak_mib", "1024"),
    ("many short sessions, 1 thread / grep -c, wall", "hour", "2.ingest_1_over_grep_wall", "0.25"),
    ("overlapping sessions, 1 thread / grep -c, wall", "hour", "3.ingest_1_over_grep_wall", "0.25"),
    ("reading of the study's prefix, MB/s", "pglog", "study_prefix.reader_2_mb_per_s", ""),
    ("reading of csvlog, MB/s", "pglog", "pgcsvlog.reader_2_mb_per_s", "150"),
    ("reading of jsonlog, MB/s", "pglog", "pgjsonlog.reader_2_mb_per_s", "150"),
    ("whole ingest of csvlog / of the study's prefix, MB/s", "pglog", "pgcsvlog.ingest_over_study_prefix", "0.375"),
    ("whole ingest of jsonlog / of the study's prefix, MB/s", "pglog", "pgjsonlog.ingest_over_study_prefix", "0.375"),
    ("ingest of Compose's lines over plain", "deliveries", "compose_over_plain", "0.5"),
    ("ingest of CRI's lines over plain", "deliveries", "cri_over_plain", "0.5"),
    ("ingest of the journal's lines over plain", "deliveries", "journal_over_plain", "0.5"),
    ("ingest of Docker's JSON over plain", "deliveries", "docker_json_over_plain", "0.5"),
    ("ingest of UTF-16 over plain", "deliveries", "utf_16_over_plain", "0.5"),
    *_reports("the tests' 861 recorded files", "small_"),
    *_reports("the recorded tree", ""),
    ("the server report of an hour, s", "reports", "hour_server_s", "10"),
    ("the server report of an hour, peak MiB", "reports", "hour_server_peak_mib", "1024"),
    ("the bottleneck report of an hour, s", "reports", "hour_bottleneck_s", "10"),
    ("the bottleneck report of an hour, peak MiB", "reports", "hour_bottleneck_peak_mib", "1024"),
    ("the profile report of an hour, s", "reports", "hour_profile_s", "10"),
    ("the profile report of an hour, peak MiB", "reports", "hour_profile_peak_mib", "1024"),
    ("a month of sar's text, MB/s", "samplers", "sar_mb_s", "50"),
    ("a month of sadf -d, MB/s", "samplers", "sadf_csv_mb_s", "50"),
    ("a month of dool, MB/s", "samplers", "dstat_mb_s", "50"),
    ("traces, CPU s per million statements", "spans", "traces_s_per_million", ""),
    ("ingest by processes of Dask / by 2 threads, 1 GB", "cluster", "overhead.0.local_over_jobs", "1.15"),
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
    days = before.get(WHEN.stem, {})
    rows = [
        (what, figure(today.get(name), place), figure(before.get(name), place), figure(days, f"{name}.day"), target)
        for what, name, place, target in FIGURES
    ]
    return render_text_table(("what", "today", "before", "of", "target"), rows, right={1, 2, 4}, ruled=True)


def remember(name: str, began: float) -> None:
    """Keep when a benchmark was measured, how long it took and how busy the machine was."""
    days = json.loads(WHEN.read_text(encoding="utf-8")) if WHEN.exists() else {}
    facts = {"day": f"{datetime.now(UTC):%Y-%m-%d}", "minutes": round((perf_counter() - began) / 60, 1)}
    days[name] = {**facts, "load": round(getloadavg()[1], 1)}
    WHEN.write_text(json.dumps(dict(sorted(days.items())), indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Run each module, which prints its ratios and keeps them in `results`, in a process of its own.

    What a process holds counts as the peak of those that it starts.
    """
    known = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
    wanted = sys.argv[1:] or known
    if unknown := sorted(set(wanted) - set(known)):
        sys.exit(f"no benchmark is named {', '.join(unknown)}; known: {', '.join(known)}")
    before, began = kept(), perf_counter()
    for name in wanted:
        print(f"== {name}", flush=True)
        own = perf_counter()
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)
        remember(name, own)
    today = {name: results for name, results in kept().items() if name in wanted}
    print(*table(before, today), sep="\n")
    print(f"{(perf_counter() - began) / 60:.1f} minutes")


if __name__ == "__main__":
    main()

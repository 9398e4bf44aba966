"""How fast traces are built against how fast their log is read.

`python -m benchmarks.spans [--statements N] [--out FILE]` reads a recording, repeats its records (same sessions, later
times) until there are N sampled statements, builds their traces, and prints the ratio of the two times with the two
throughputs behind it. CPU seconds of all threads are counted, so that other work on the machine does not matter.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

import polars as pl

from citus_analysis.dataset.identity import Identity
from citus_analysis.dataset.parts import STAGING, PartWriter
from citus_analysis.dataset.run_windows import Tagger
from citus_analysis.formats import Content, Hints, format_named
from citus_analysis.schema import TABLES
from citus_analysis.spans import build_traces
from citus_analysis.spans.executions import Sessions
from citus_analysis.spans.matching import Matching, build_matching, classify_pairs
from citus_analysis.spans.pairing import pair_by_order
from citus_analysis.spans.record_order import list_log_files
from citus_analysis.spans.sessions import SessionStore
from citus_analysis.spans.spilling import keep_in_memory

RECORDING = Path(__file__).parents[1] / "tests" / "data" / "recorded" / "w2-t16-insert"
RESULTS = Path(__file__).parent / "results" / "spans.json"
STATEMENTS = 2_000
#: Reading is measured on a log this many times as long: opening and compiling must not count.
READ_TIMES = 100
NODES = ("1", "2")


def reading_seconds(data: bytes) -> tuple[float, float]:
    """CPU seconds that a log takes to Parquet, and to tables in memory only."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "PGLOG-1-1.log"
        path.write_bytes(data)
        (folder / STAGING).mkdir()
        start = time.process_time()
        for _ in format_named("pglog").parse(Content(path), Hints(path.name)):
            pass
        to_memory = time.process_time() - start
        # Another time, for the writer works meanwhile in a thread of its own.
        start = time.process_time()
        tagger = Tagger("source", Identity(resource="benchmark"))
        with PartWriter(folder, "benchmark", "source") as writer:
            for piece in format_named("pglog").parse(Content(path), Hints(path.name)):
                writer.write({table: tagger.tag(table, rows) for table, rows in piece.tables.items()})
            writer.finish()
        return time.process_time() - start, to_memory


def identified(data: bytes, node: str) -> pl.DataFrame:
    """The records of a node's log."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "PGLOG-1-1.log"
        path.write_bytes(data)
        pieces = list(format_named("pglog").parse(Content(path), Hints(path.name)))
    identity = {"source_id": node, "resource": RECORDING.name, "iteration": 1, "node": node}
    frame = pl.concat([piece.frame("log_events") for piece in pieces])
    return TABLES["log_events"].conform(frame.with_columns(pl.lit(v).alias(k) for k, v in identity.items()))


def read_recording() -> tuple[pl.DataFrame, float, float]:
    """Records of one iteration, and the CPU seconds that its (uncompressed) logs took to Parquet and to memory."""
    frames, to_parquet, to_memory = [], 0.0, 0.0
    for node in NODES:
        data = Content(RECORDING / "pglogs" / f"PGLOG-{node}-1.log.zst").read(1 << 30)
        frames.append(identified(data, node))
        parquet, memory = reading_seconds(data * READ_TIMES)
        to_parquet += parquet / READ_TIMES
        to_memory += memory / READ_TIMES
    return pl.concat(frames), to_parquet, to_memory


def repeated(events: pl.DataFrame, times: int) -> pl.DataFrame:
    """The same sessions going on: later times, higher line numbers, higher offsets; one table in memory.

    Text columns that traces do not depend on are left out, as an ingest does.
    """
    sized = events.with_columns(
        lines=pl.col("session_line").max().over("source_id", "pid"),
        size=(pl.col("byte_offset") + pl.col("byte_length")).max().over("source_id"),
    )
    copies = [
        sized.with_columns(
            pl.col("session_line") + number * pl.col("lines"),
            pl.col("byte_offset") + number * pl.col("size"),
            pl.col("log_time") + pl.duration(seconds=60 * number),
        )
        for number in range(times)
    ]
    return pl.concat(copies).drop("lines", "size", "message").rechunk()


def nodes() -> pl.DataFrame:
    """The recording's nodes."""
    path = RECORDING / "config.yml"
    (piece,) = format_named("config").parse(Content(path), Hints(path.name))
    return TABLES["nodes"].conform(piece.frame("nodes").with_columns(resource=pl.lit(RECORDING.name)))


def matching_of(sessions: Sessions) -> Matching:
    """The tasks of one iteration with their children."""
    candidates = pair_by_order(sessions)
    (classes,), clocks = classify_pairs(
        [candidates.collect_facts(sessions)], sessions.coverage, lambda exact: [candidates.select_unmatched(exact[0])]
    )
    return build_matching(candidates, classes, clocks)


def measure(statements: int) -> dict[str, float]:
    """CPU seconds per million statements for reading, matching and all of the traces."""
    events, reading, to_memory = read_recording()
    times = max(statements // STATEMENTS, 1)
    many = repeated(events, times)
    build_traces(events, nodes())
    start = time.process_time()
    records = SessionStore(list_log_files(many), nodes(), distributed=True, spill=keep_in_memory)
    records.consume_sorted([many])
    matching = matching_of(records.select_group(0, records.find_failed()))
    build_matching = time.process_time() - start
    exact = int((matching.pairs["match"] == "exact").sum())
    del matching
    start, begin = time.process_time(), time.perf_counter()
    traces = build_traces(many, nodes())
    built, elapsed = time.process_time() - start, time.perf_counter() - begin
    count = times * STATEMENTS
    return {
        "statements": count,
        "records": many.height,
        "spans": traces.spans.height,
        "exact_pairs": exact,
        "reading_s_per_million": reading / STATEMENTS * 1e6,
        "reading_to_memory_s_per_million": to_memory / STATEMENTS * 1e6,
        "matching_s_per_million": build_matching / count * 1e6,
        "traces_s_per_million": built / count * 1e6,
        "traces_elapsed_s": elapsed,
        "matching_over_reading": build_matching / count / (reading / STATEMENTS),
        "matching_over_reading_to_memory": build_matching / count / (to_memory / STATEMENTS),
        "traces_over_reading": built / count / (reading / STATEMENTS),
        "table_memory_mb": many.estimated_size("mb"),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    """Measure, print and keep the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--statements", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = measure(options.statements)
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"{found['statements']:,.0f} statements, {found['records']:,.0f} records, {found['spans']:,.0f} spans")
    for what in ("reading", "reading_to_memory", "matching", "traces"):
        seconds = found[f"{what}_s_per_million"]
        print(f"{what:17} {seconds:6.1f} CPU s per million statements ({1e6 / seconds:,.0f} statements/s)")
    print(
        f"matching / reading {found['matching_over_reading']:.2f} (to memory only "
        f"{found['matching_over_reading_to_memory']:.2f}), traces / reading {found['traces_over_reading']:.2f}"
    )
    print(
        f"peak memory {found['peak_memory_mb']:,.0f} MB, of which the table of records {found['table_memory_mb']:,.0f}"
    )


if __name__ == "__main__":
    main()

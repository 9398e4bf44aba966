"""Measurements that several files hold are counted once; warm-ups are no repeats."""

import gzip
import tarfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.formats.parsing.transcripts import announces_warm_up
from citus_analysis.runs import select_runs

REPORT = """pgbench (16.4)
transaction type: <builtin: select only>
scaling factor: 10
query mode: simple
number of clients: 8
number of threads: 2
maximum number of tries: 1
duration: {seconds} s
number of transactions actually processed: {done}
number of failed transactions: 0 (0.000%)
latency average = 1.234 ms
initial connection time = 12.345 ms
tps = {tps} (without initial connection time)
"""
RUNS = [REPORT.format(seconds=60, done=60 * n, tps=f"{n}.123456") for n in (5001, 5102, 5043)]
FAILED = 'pgbench (16.4)\npgbench: error: connection to server at "127.0.0.1", port 5432 failed: Connection refused\n'
Tree = Callable[..., Path]


def ingest_runs(folder: Path, tmp_path: Path) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The runs of a folder, by their throughput, and what is said of copies."""
    summary = ingest([folder], tmp_path / "out")
    assert summary.unread == (), "copies do hold results"
    return open_dataset(tmp_path / "out").runs().sort("throughput_ops_s"), summary.copies


def write_archive(folder: Path) -> None:
    with tarfile.open(folder / "results.tar.gz", "w:gz") as archive:
        archive.add(folder / "results", "results")


def write_transcript(folder: Path) -> None:
    text = "".join(f"=== RUN {n} ===\n{report}" for n, report in enumerate(RUNS, 1))
    (folder / "session.log").write_text(text)


def write_compressed(folder: Path) -> None:
    (folder / "results" / "older.log.1.gz").write_bytes(gzip.compress(RUNS[0].encode()))


@pytest.mark.parametrize("also", [write_archive, write_transcript, write_compressed])
def test_a_measurement_in_several_files_counts_once(also: Callable[[Path], None], tmp_path: Path) -> None:
    (folder := tmp_path / "study" / "results").mkdir(parents=True)
    for number, report in enumerate(RUNS, 1):
        (folder / f"run{number}.log").write_text(report)
    also(folder.parent)
    runs, copies = ingest_runs(folder.parent, tmp_path)
    assert runs["throughput_ops_s"].to_list() == [5001.123456, 5043.123456, 5102.123456]
    assert runs["iteration"].n_unique() == 3
    assert copies
    assert all("results/run" in line and "counted once" in line for line in copies)


def test_one_output_under_three_names_is_one_run_and_three_failures_are_three(tmp_path: Path) -> None:
    (folder := tmp_path / "study").mkdir()
    for number in (1, 2, 3):
        (folder / f"run{number}.log").write_text(RUNS[0])
        (folder / f"failed{number}.log").write_text(FAILED)
    runs, copies = ingest_runs(folder, tmp_path)
    assert runs.drop_nulls("throughput_ops_s").height == 1
    assert runs.height == 4
    assert copies == ("run1.log: also in run2.log and run3.log; counted once",)


@pytest.mark.parametrize(
    ("heading", "seconds"),
    [("=== WARMUP ===", 60), ("-- warm-up run, 60 s", 60), ("# prewarm", 60), ("=== RUN 0 ===", 30)],
)
def test_a_warm_up_by_its_heading_or_its_shorter_duration_is_no_repeat(
    heading: str, seconds: int, tmp_path: Path
) -> None:
    (folder := tmp_path / "study").mkdir()
    first = REPORT.format(seconds=seconds, done=4000 * seconds, tps="4000.123456")
    rest = "".join(f"=== RUN {n} ===\n{report}" for n, report in enumerate(RUNS, 1))
    (folder / "bench.log").write_text(f"{heading}\n{first}{rest}")
    runs, _ = ingest_runs(folder, tmp_path)
    assert runs["phase"].to_list() == ["warmup", "run", "run", "run"]
    assert runs["iteration"].to_list()[1:] == [1, 3, 2]
    chosen = select_runs(open_dataset(tmp_path / "out"))
    assert chosen.runs.height == 3
    assert "1 warm-up is left out (phase=warmup)" in chosen.notes


@pytest.mark.parametrize(
    "preceding_text",
    ["=== warm-up ===\n=== run 1", "--- warm-up finished", "=== run 2 (after warmup)", "warmup: 60 s, run: 600 s"],
)
def test_words_on_a_warm_up_that_is_over_or_a_setting_announce_none(preceding_text: str) -> None:
    assert not announces_warm_up(preceding_text)

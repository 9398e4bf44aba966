"""The runner's canary: a recording of its program, and lines that are not its own."""

import subprocess
import sys
from pathlib import Path

import polars as pl
import psutil

from citus_analysis.formats import canary
from citus_analysis.formats.parsing.lines import UNTERMINATED
from citus_analysis.schema import CANARY_WORKS
from tests.formats.sampling import ROOT, read, read_bytes

FORMAT = canary.FORMAT
RECORDED = ROOT / "tests" / "data" / "snapshots" / "canary.out"
PROGRAM = ROOT / "citus_analysis" / "runner" / "canary_program.py"


def test_a_recording() -> None:
    found = read(FORMAT, RECORDED)
    assert found.rejects.is_empty()
    rows = found["canaries"]
    assert rows.height == 30
    first = rows.head(5)
    assert first["work"].to_list() == list(CANARY_WORKS)
    assert first["operations"].to_list() == [5000, 4096, 50, 1, 1]
    text = RECORDED.read_text().splitlines()[0].split()
    assert [first["cpu_us"][0], first["wall_us"][0]] == [float(text[5]), float(text[6])]
    assert str(first["sample_time"][0]).removesuffix("+00:00") == f"{text[1]} {text[2]}"
    # A line of another kind ends a sample: the CPU time of other programs since the previous count.
    others = found["foreign_samples"]
    line = next(line.split() for line in RECORDED.read_text().splitlines() if line.startswith("others"))
    assert others.select("cores", "cpu_us", "wall_us", "program").row(0) == (
        int(line[3]), float(line[4]), float(line[5]), line[6],
    )  # fmt: skip
    assert (others["cpu_us"] <= others["cores"] * others["wall_us"]).all()
    # The disk is in each fifth sample; a sample begins with `cpu`.
    assert rows.filter(pl.col("work") == "disk")["sample"].to_list() == [0, 5]
    assert rows["sample"].unique(maintain_order=True).to_list() == list(range(7))


def test_its_program_writes_what_is_read(tmp_path: Path) -> None:
    program = [sys.executable, "-I", "-c", PROGRAM.read_text(encoding="utf-8"), "0.01", "5"]
    with subprocess.Popen(program, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        printed = [running.stdout.readline() for _ in range(30)]
        running.kill()
    lines = [line for line in printed if line.startswith(b"canary")][:12]
    found = read_bytes(FORMAT, tmp_path, b"".join(lines))
    assert found.rejects.is_empty()
    assert found["canaries"]["work"].to_list() == [*CANARY_WORKS, *CANARY_WORKS[:4], *CANARY_WORKS[:3]]
    # Additions need the processor and nothing else; sleeps need nearly none of it.
    by_work = found["canaries"].group_by("work").agg(pl.col("cpu_us", "wall_us").min())
    times = {work: (cpu, wall) for work, cpu, wall in by_work.iter_rows()}
    assert times["cpu"][0] > 0
    assert times["wakeup"][1] >= 1000 > times["wakeup"][0]


def test_the_cpu_time_of_other_programs_is_counted(tmp_path: Path) -> None:
    """A program of nobody is another's; a child of the parent of the canary is the run's own."""
    count = ["timeout", "2", sys.executable, "-I", "-c", PROGRAM.read_text(encoding="utf-8"), "0.5", "1"]
    busy = [sys.executable, "-c", "import time\nend = time.time() + 4\nwhile time.time() < end: pass"]
    # `timeout` is the parent of the canary, so that all others are not its family.
    with subprocess.Popen(busy) as beside, subprocess.Popen(count, stdout=subprocess.PIPE) as running:
        text = running.communicate()[0]
        beside.kill()
    rows = read_bytes(FORMAT, tmp_path, text)["foreign_samples"]
    # The last line is written when the program is ended.
    assert rows.height >= 1
    used_s, passed_s = float(rows["cpu_us"].sum()) / 1e6, float(rows["wall_us"].sum()) / 1e6
    assert 0.1 * passed_s < used_s <= rows["cores"][0] * passed_s
    assert rows["program"].drop_nulls().len()


def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    program = [sys.executable, "-I", "-S", "-c", PROGRAM.read_text(encoding="utf-8"), "0.01", "5"]
    output = tmp_path / "canary.out"
    # The shell ends as soon as there are lines.
    script = '"$@" > "$0" & echo $!; until [ -s "$0" ]; do sleep 0.02; done'
    parent = subprocess.run(["sh", "-c", script, output, *program], check=True, capture_output=True, timeout=20)
    _gone, alive = psutil.wait_procs([psutil.Process(int(parent.stdout))], timeout=10)
    assert not alive
    assert output.read_bytes().splitlines()[-1].startswith(b"others ")


def test_a_cut_file_and_other_lines(tmp_path: Path) -> None:
    lines = RECORDED.read_bytes().splitlines(keepends=True)
    broken = b"".join([*lines[1:4], b"\n", b"canary today cpu 1 2 3\n", *lines[5:7], lines[7][:-3]])
    assert FORMAT.detect("x", broken) == 1.0
    assert FORMAT.detect("x", b"canary in a coal mine\n") == 0.0
    found = read_bytes(FORMAT, tmp_path, broken)
    assert found["canaries"]["sample"].to_list() == [0, 0, 0, 0, 0]
    assert found.rejects["reason"].to_list() == ["not a timed piece of work", UNTERMINATED]

"""Processes of servers: recordings of the sampler's program, and lines that are not its own."""

import subprocess
import sys
from pathlib import Path

from citus_analysis.formats import backends
from citus_analysis.formats.parsing.lines import UNTERMINATED
from tests.formats.sampling import ROOT, read, read_bytes

FORMAT = backends.FORMAT
SNAPSHOTS = ROOT / "tests" / "data" / "snapshots"
RECORDED = SNAPSHOTS / "backends.out"
PROGRAM = ROOT / "citus_analysis" / "runner" / "backends_program.py"


def test_a_recording() -> None:
    found = read(FORMAT, RECORDED)
    assert found.rejects.is_empty()
    rows = found["backend_samples"]
    lines = [line.split() for line in RECORDED.read_text().splitlines()]
    assert rows.height == len(lines)
    assert rows["sample"].to_list() == [sorted({one[2] for one in lines}).index(line[2]) for line in lines]
    numbers = rows.select("pid", "parent_pid", "pss_kb", "own_kb", "shared_kb", "page_tables_kb", "cpu_ms")
    expected = [tuple(None if word == "-" else float(word) for word in line[3:]) for line in lines]
    assert numbers.rows() == expected
    # Memory is read less often than CPU time.
    assert 0 < rows["pss_kb"].null_count() < rows.height
    assert rows["cpu_ms"].null_count() == 0
    assert str(rows["sample_time"][0]).removesuffix("+00:00") == f"{lines[0][1]} {lines[0][2]}"
    # What is shared and what is a process' own are parts of it.
    assert (rows["own_kb"] + rows["shared_kb"] <= rows["pss_kb"]).drop_nulls().all()


def test_memory_that_the_sampler_may_not_read() -> None:
    rows = read(FORMAT, SNAPSHOTS / "backends-unreadable.out")["backend_samples"]
    assert rows.height == 4
    assert rows["pss_kb"].null_count() == rows["own_kb"].null_count() == rows["shared_kb"].null_count() == 4
    assert rows["page_tables_kb"].null_count() == rows["cpu_ms"].null_count() == 0


def test_its_program_writes_what_is_read(tmp_path: Path) -> None:
    program = [sys.executable, "-I", "-c", PROGRAM.read_text(encoding="utf-8"), "0.01"]
    with subprocess.Popen(program, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        line = running.stdout.readline()
        running.kill()
    assert FORMAT.detect("x", line) == 1.0
    found = read_bytes(FORMAT, tmp_path, line)
    assert found.rejects.is_empty()
    # Whether a server runs here is not known.
    assert found["backend_samples"].height == (0 if line.endswith(b" none\n") else 1)


def test_a_cut_file_and_other_lines(tmp_path: Path) -> None:
    lines = RECORDED.read_bytes().splitlines(keepends=True)
    none = b"backend 2026-11-28 12:00:00.120456 none\n"
    broken = b"".join([none, lines[0], b"\n", b"backend today 1 2 3\n", lines[1], lines[2][:-3]])
    assert FORMAT.detect("x", broken) == 1.0
    assert FORMAT.detect("x", b"backend developer\n") == 0.0
    found = read_bytes(FORMAT, tmp_path, broken)
    assert found["backend_samples"]["sample"].to_list() == [0, 0]
    assert found.rejects["reason"].to_list() == ["not a process of a server", UNTERMINATED]

"""Reports whose lines or titles stand elsewhere than in most: folded by the tool, or moved by an editor."""

from __future__ import annotations

from pathlib import Path

import pytest

from citus_analysis.formats import Content, Hints, format_named
from citus_analysis.formats.parsing.format import Parsed

FOLDED = """Linux 3.10.0 (db8)  02/29/2024  _x86_64_  (8 CPU)

Device:         rrqm/s   wrqm/s     r/s     w/s    rMB/s    wMB/s avgrq-sz avgqu-sz  await r_await w_await  svctm  %util
sda
                  0.00    38.93    0.30  157.30     0.02     5.26    68.60     6.90  43.80   38.22   43.81   4.94  77.81
vg0-pg_data
                  0.00     0.00   12.00   30.00     1.50     0.25    85.33     0.20   4.00    3.00    4.40   1.00   4.20
sdb               0.00     0.00    1.00    2.00     0.50     0.25    85.33     0.20   4.00    3.00    4.40   1.00   4.20
sdc
"""
REPORT = """# Samples: 4K of event 'cpu-clock'
# Event count (approx.): 1000000000
#
{titles}
# ........  ............  ...............  .................  ..........................
#
    45.10%          1804  postgres: check  postgres           [.] LWLockAcquire
    24.90%           996  pgbench          libpq.so.5.18      [.] PQgetResult
"""


def parse(path: Path, name: str, text: str) -> list[Parsed]:
    file = path / "report.txt"
    file.write_text(text)
    return list(format_named(name).parse(Content(file), Hints()))


def test_a_device_above_its_numbers_is_read_with_them(tmp_path: Path) -> None:
    (piece,) = parse(tmp_path, "iostat", FOLDED)
    rows = piece.frame("device_samples").select("device", "writes_per_s", "utilization_percent").rows()
    assert rows == [("sda", 157.30, 77.81), ("vg0-pg_data", 30.0, 4.2), ("sdb", 2.0, 4.2)]
    assert [row["excerpt"] for row in piece.rejects.to_pylist()] == ["sdc"]
    assert piece.parsed_bytes + piece.noise_bytes + piece.rejected_bytes == len(FOLDED)


@pytest.mark.parametrize(
    ("titles", "expected"),
    [
        (
            "# Overhead  Samples  Command          Shared Object      Symbol",
            [("postgres: check", "postgres", "LWLockAcquire", 1804), ("pgbench", "libpq.so.5.18", "PQgetResult", 996)],
        ),
        ("# Overhead  Samples  Command  Symbol", []),
    ],
)
def test_titles_that_moved_keep_their_columns_or_nothing_is_read(
    tmp_path: Path, titles: str, expected: list[tuple[object, ...]]
) -> None:
    pieces = parse(tmp_path, "perf_report", REPORT.format(titles=titles))
    rows = [
        row
        for piece in pieces
        for row in piece.frame("perf_symbols").select("command", "shared_object", "symbol", "samples").rows()
    ]
    assert rows == expected
    assert sum(piece.rejects.num_rows for piece in pieces) == (0 if expected else 1)

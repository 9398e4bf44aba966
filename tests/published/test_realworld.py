"""Result tables that a benchmark manager printed: sound ones raise no alarm, failed runs do."""

import re
from pathlib import Path

import polars as pl
import pytest

from citus_analysis.published import audit, read_published
from citus_analysis.published.auditing import AuditResult

FOLDER = Path(__file__).parents[2].parent / "shared" / "realworld" / "results"
MANAGER = "Beuth-Erdelt__Benchmark-Experiment-Host-Manager__logs_tests_docs"

pytestmark = [
    pytest.mark.realworld,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="the recordings made by others are not here (../shared/realworld)"),
]


def cells_of(line: str) -> list[str]:
    if line.startswith("|"):
        return [cell.strip() for cell in line.strip("|").split("|")]
    return re.split(r" {2,}", line.strip())


def audited(tmp_path: Path, name: str, column: str) -> AuditResult:
    """Audit the first table of a summary whose header has the column."""
    lines = (FOLDER / f"{MANAGER}_{name}").read_text(encoding="utf-8").split("\n")
    start = next(number for number, line in enumerate(lines) if column in line)
    header = cells_of(lines[start])
    rows = []
    for line in lines[start + 1 :]:
        if not line.strip():
            break
        cells = cells_of(line)
        if len(cells) == len(header) and not set(line) <= set("|:- "):
            rows.append(cells)
        elif len(cells) == len(header) + 1:
            rows.append(cells[1:])
    path = tmp_path / "table.csv"
    path.write_text(",".join(f'"{name}"' for name in header) + "\n" + "\n".join(",".join(row) for row in rows) + "\n")
    assert read_published(path).height
    return audit([path])


def test_benchbase_on_yugabytedb_keeps_its_terminals_busy(tmp_path: Path) -> None:
    result = audited(tmp_path, "benchbase_yugabytedb_1_summary.md", "Throughput (requests/second)")
    law = result.details.filter(check="littles_law")
    assert law["severity"].to_list() == ["green"] * 3
    assert not result.has_red


def test_ycsb_on_yugabytedb_raises_no_alarm(tmp_path: Path) -> None:
    result = audited(tmp_path, "ycsb_yugabytedb_1_summary.md", "[READ].99thPercentileLatency(us)")
    assert not result.has_red
    assert "run_length" in set(result.details["check"])


def test_runs_that_failed_are_found(tmp_path: Path) -> None:
    result = audited(tmp_path, "benchbase_citus_3_summary.md", "Throughput (requests/second)")
    wrong = result.details.filter(pl.col("severity") == "red")
    assert set(wrong["check"]) == {"units_plausible"}
    assert "-1" in wrong["stated"][0]
    nothing = result.details.filter(severity="amber", check="units_plausible")
    assert nothing.height > 10

"""docs/add-a-format.md as written: its blocks become a separate package, with which an ingest reads the tool's file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import polars as pl
import pytest

from citus_analysis.dataset import open_dataset
from citus_analysis.formats import formats
from tests.documentation.blocks import ROOT, blocks_of, blocks_run_by

PAGE = ROOT / "docs" / "add-a-format.md"
RECORDED = ROOT / "tests" / "data" / "sysbench" / "oltp.log"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the package, laid out as an installer does."""
    folder = tmp_path_factory.mktemp("package")
    module, test = [block.text for block in blocks_run_by(__file__)]
    (project,) = [block.text for block in blocks_of(PAGE) if block.language == "toml"]
    declared = tomllib.loads(project)["project"]
    ((group, points),) = declared["entry-points"].items()
    ((name, target),) = points.items()
    (folder / f"{target.partition(':')[0]}.py").write_text(module, encoding="utf-8")
    information = folder / f"{declared['name'].replace('-', '_')}-{declared['version']}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {declared['name']}\nVersion: {declared['version']}\n"
    )
    (information / "entry_points.txt").write_text(f"[{group}]\n{name} = {target}\n")
    (folder / "test_sysbench.py").write_text(test, encoding="utf-8")
    shutil.copy(RECORDED, folder)
    return folder


def called(package: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(package), str(ROOT)))}
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=package,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_format_of_the_page_is_not_one_of_this_package() -> None:
    assert "sysbench_report" not in formats()


def test_its_own_test_passes(package: Path) -> None:
    ended = called(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_sysbench.py")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "3 passed" in ended.stdout


def test_an_ingest_reads_its_files(package: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "bench" / "oltp.log", tmp_path / "out"
    source.parent.mkdir()
    shutil.copy(RECORDED, source)
    facts = ["--meta", "workload=oltp_read_write", "--meta", "phase=run"]
    ended = called(package, "-m", "citus_analysis", "ingest", source.parent, "--out", out, "--json", *facts)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert json.loads(ended.stdout)["rejected"] == 0
    dataset = open_dataset(out)
    assert dataset.table("sources").to_pandas()["format"].to_list() == ["sysbench_report"]
    run = pl.DataFrame(dataset.runs()).row(0, named=True)
    assert (run["workload"], run["threads"], run["operations_done"], run["failed_operations"]) == (
        *("oltp_read_write", 4, 1088, 20),
    )
    assert run["throughput_ops_s"] == pytest.approx(1088 / 5.0272)
    latency = pl.DataFrame(dataset.table("operation_latencies")).row(0, named=True)
    assert latency["operations"] == 1088
    assert (latency["mean_us"], latency["p95_us"], latency["max_us"]) == pytest.approx((18_410, 32_530, 1_268_350))


def test_the_commands_know_it(package: Path) -> None:
    ended = called(package, "-m", "citus_analysis", "doctor")
    assert "format sysbench_report" in ended.stdout
    assert "sysbench_format:FORMAT" in ended.stdout

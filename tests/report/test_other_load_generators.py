"""Results of one load generator alone, of real runs, through what compares runs and the reports.

sysbench 1.0.20 and BenchBase 2023 ran at two numbers of threads, HammerDB 6.0 with `synchronous_commit` on and off;
expected values were read off the files.
"""

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.report import render_report
from citus_analysis.report.comparison import comparison_panels
from citus_analysis.report.scalability import scaling_panels, state_scalability
from citus_analysis.runs import select_runs
from citus_analysis.scaling import scale_runs
from citus_analysis.stats import compare_runs
from tests.formats.clients import SAMPLES

STUDIES = SAMPLES / "studies"


def _name_repeats(folder: Path) -> Path:
    """Logs of sysbench with a word for the repeats: their results differ too much for a number alone."""
    for log in (STUDIES / "sysbench").rglob("*.log"):
        named = folder / log.parent.name / f"{log.stem[:-2]}-run{log.stem[-2:]}.log"
        named.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(log, named)
    return folder


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("studies")
    for tool in ("sysbench", "benchbase", "hammerdb"):
        files = _name_repeats(tmp_path_factory.mktemp("named")) if tool == "sysbench" else STUDIES / tool
        done = ingest([files], folder / tool, jobs=1, meta={"workers": "0", "system": "postgresql"})
        assert done.exit_code == 0, tool
    return {path.name: path for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("tool", "threads", "throughputs"),
    [
        ("sysbench", [1, 4], [3_887.7, 11_489.6, 16_813.5, 22_031.2, 23_008.7, 23_265.7]),
        ("benchbase", [2, 8], [59.8, 117.1, 140.7, 215.5]),
        ("hammerdb", [1], [207.2, 395.6, 420.2, 435.4]),
    ],
)
def test_each_file_is_a_run(datasets: dict[str, Path], tool: str, threads: list[int], throughputs: list[float]) -> None:
    runs = open_dataset(datasets[tool]).runs()
    assert runs["threads"].unique().sort().to_list() == threads
    assert runs["throughput_ops_s"].sort().to_list() == pytest.approx(throughputs, rel=1e-3)
    assert runs["phase"].cast(str).unique().to_list() == ["run"]


def test_sysbench_scales_over_threads(datasets: dict[str, Path]) -> None:
    told: Any = scale_runs(open_dataset(datasets["sysbench"]), "threads").to_dict()
    (curve,) = told["curves"]
    assert [point["n"] for point in curve["points"]] == [3, 3]
    assert curve["points"][1]["speedup"] == pytest.approx(68_305.6 / 32_190.8, rel=1e-3)
    assert "inconclusive" in curve["finding"]


def test_runs_that_failed_operations_are_left_out(datasets: dict[str, Path]) -> None:
    """BenchBase: 564 of 1414 requests of a run with 8 terminals were aborted."""
    found: Any = compare_runs(open_dataset(datasets["benchbase"]), by="threads").to_dict()
    (told,) = found["comparisons"]
    assert (told["a"], told["n_a"], told["b"], told["n_b"], told["verdict"]) == ("8", 1, "2", 2, "inconclusive")
    assert found["warnings"] == ["1 run left out: status degraded"]


def test_hammerdb_compares_like_with_like(datasets: dict[str, Path]) -> None:
    dataset = open_dataset(datasets["hammerdb"])
    found: Any = compare_runs(dataset, by="resource").to_dict()
    (told,) = found["comparisons"]
    assert (told["a"], told["n_a"], told["b"], told["n_b"], told["verdict"]) == ("sync", 2, "async", 2, "inconclusive")
    study = scale_runs(dataset, "threads").to_dict()
    assert study["curves"] == []
    assert study["warnings"] == ["2 configurations left out: one threads value each"]
    latencies = dataset.table("operation_latencies")
    assert latencies["percentile_source"].unique().to_list() == ["reported, of a sample"]


def test_jobs_of_one_database_are_runs_of_their_own(tmp_path: Path) -> None:
    """Two copies of `hammer.DB`, each with the job that `runs.csv` names."""
    folder = tmp_path / "pg15"
    folder.mkdir()
    source = SAMPLES / "hammerdb" / "4.12-hammer.DB"
    with sqlite3.connect(shutil.copy(source, folder / "a.DB")) as database:
        told = "TEST RESULT : System achieved 7 NOPM from 9 PostgreSQL TPM"
        database.execute("INSERT INTO JOBOUTPUT VALUES ('6B03440C660E03E213934333', 1, ?)", (told,))
    database.close()
    shutil.copy(folder / "a.DB", folder / "b.DB")
    jobs = "a.DB,6B03440C660E03E213934333\nb.DB,6B03452D660E03E213330313\n"
    (folder / "runs.csv").write_text(f"file,hammerdb_job\n{jobs}", encoding="utf-8")
    assert ingest([folder], tmp_path / "out", jobs=1).exit_code == 0
    runs = open_dataset(tmp_path / "out").runs()
    assert runs["throughput_ops_s"].sort().to_list() == [9 / 60, 249_483 / 60]


def test_reports_are_made_of_one_tool_alone(datasets: dict[str, Path], tmp_path: Path) -> None:
    scalability = render_report("scalability", datasets["sysbench"], tmp_path, html=False)
    assert "6 runs of 2 configurations were analysed; no run failed." in scalability.findings
    comparison = render_report("comparison", datasets["hammerdb"], tmp_path, html=False)
    assert comparison.findings[0].startswith("The only comparison is inconclusive (ratio ")
    assert len(comparison.findings) == 3
    # The talk's numbers of HammerDB stand beside the recorded ones, as published.
    orders = pl.read_csv(tmp_path / "comparison" / "new_orders.csv")
    assert orders.group_by("known_from", maintain_order=True).len().rows() == [("recorded", 4), ("published", 10)]
    assert orders.filter(source="hammerdb_talk").height == 10


def test_reports_do_not_mention_what_no_file_states(tmp_path: Path) -> None:
    """sysbench does not know how many workers there are."""
    assert ingest([_name_repeats(tmp_path / "named")], tmp_path / "unplaced", jobs=1).exit_code == 0
    selection = select_runs(open_dataset(tmp_path / "unplaced"))
    sentences = [
        *map(str, state_scalability(selection, [scaling_panels(selection, axis) for axis in ("workers", "threads")]))
    ]
    assert sentences[:2] == [
        "SQL 1/0/0: these runs do not show whether four threads do more or less work than one (2.1 times, 0.5 to 9.5).",
        "The highest throughput was 22,769 operations/s for SQL 1/0/0 (pg15, 4 threads, mean of 3 runs).",
    ]
    assert comparison_panels(selection).alone == ()


@pytest.mark.slow
def test_reports_are_made_of_benchbase_alone(datasets: dict[str, Path], tmp_path: Path) -> None:
    found = render_report("scalability", datasets["benchbase"], tmp_path, html=False).findings
    assert "3 runs of 2 configurations were analysed; 1 run failed or lost operations and is left out: pg15." in found
    assert found[1].startswith("The highest throughput was 140.7 operations/s for tpcc")
    compared = render_report("comparison", datasets["benchbase"], tmp_path, html=False).findings
    assert compared == ("All runs have the same set-up, usual set-up; there is nothing to compare.",)

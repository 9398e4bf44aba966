"""Unknown workers, systems and workloads are levels: pgbench of two versions on one server, and YCSB of two set-ups."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import polars as pl
import pytest

from citus_analysis.bottleneck.resources import ResourceStudy
from citus_analysis.dataset import Dataset, ingest, open_dataset
from citus_analysis.errors import InsufficientDataError
from citus_analysis.report import render_report
from citus_analysis.report.comparison import (
    comparison_panels,
    select_ratio_rows,
    state_comparisons,
    state_unmatched_set_ups,
)
from citus_analysis.report.resources import select_shown_throttling
from citus_analysis.report.scalability import configuration_table, scaling_panels, state_scalability
from citus_analysis.runs import Selection, select_runs
from citus_analysis.scaling import scale_runs
from citus_analysis.scaling.latency_load import estimate_latency_by_load
from citus_analysis.stats import compare_runs

#: In the form of pgbench 18 (as recorded by serverscamp/pgbench-aws-vs-serverscamp).
PGBENCH = """pgbench (18.3 (Ubuntu 18.3-1))
transaction type: <builtin: TPC-B (sort of)>
scaling factor: 100
query mode: prepared
number of clients: {threads}
number of threads: 4
maximum number of tries: 1
duration: 600 s
number of transactions actually processed: {done}
number of failed transactions: 0 (0.000%)
latency average = {latency_ms:.3f} ms
initial connection time = 143.238 ms
tps = {rate:.6f} (without initial connection time)
"""
YCSB = """Command line: -t -db site.ycsb.db.JdbcDBClient -threads {threads} -p operationcount=100000
[OVERALL], RunTime(ms), 600000
[OVERALL], Throughput(ops/sec), {rate:.6f}
[READ], Operations, {done}
[READ], AverageLatency(us), {latency_us:.3f}
[READ], 95thPercentileLatency(us), 900
[READ], 99thPercentileLatency(us), 1900
[READ], Return=OK, {done}
"""
RATES = {4: 1_400.0, 16: 3_900.0, 64: 5_200.0}
FACTORS = {"pg15": 1.0, "pg16": 1.2}


def written(folder: Path, form: str, **facts: str) -> Dataset:
    """Outputs of two set-ups, three numbers of threads and three repetitions; `runs.csv` states facts of a set-up."""
    folder.mkdir()
    rows = ["file,set_up,iteration,workers"]
    for set_up, factor in FACTORS.items():
        for threads, rate in RATES.items():
            for iteration, spread in enumerate((0.99, 1.0, 1.01), 1):
                name, done = f"{set_up}_c{threads}_r{iteration}.log", round(rate * factor * spread * 600)
                times = {"latency_ms": threads / done * 6e5, "latency_us": threads / done * 6e8, "rate": done / 600}
                (folder / name).write_text(form.format(threads=threads, done=done, **times), encoding="utf-8")
                rows.append(f"{name},{set_up},{iteration},{facts.get(set_up, '')}")
    (folder / "runs.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    assert ingest([folder], folder.with_suffix(".dataset"), jobs=1).exit_code == 0
    return open_dataset(folder.with_suffix(".dataset"))


@pytest.fixture(scope="module")
def pgbench(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return written(tmp_path_factory.mktemp("pgbench") / "server", PGBENCH)


@pytest.fixture(scope="module")
def ycsb(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return written(tmp_path_factory.mktemp("ycsb") / "server", YCSB)


def opening(selection: Selection) -> list[str]:
    panels = [scaling_panels(selection, axis) for axis in ("workers", "threads")]
    return [*map(str, state_scalability(selection, panels))]


def test_two_versions_of_one_server_are_compared(pgbench: Dataset) -> None:
    study = comparison_panels(select_runs(pgbench))
    assert study.ratios.select("workers", "threads", "variant", "verdict").rows() == [
        (None, threads, "pg16", "faster") for threads in RATES
    ]
    assert study.means.height == 6
    sentences = [*map(str, state_comparisons(study))]
    assert sentences[0].startswith("With “pg16”, TPC-B (sort of) with 4 threads is 1.20 times as fast as with “pg15” (")
    assert "with 64 threads" in sentences[0]
    assert "worker" not in " ".join(sentences)
    assert select_ratio_rows(study, "TPC-B (sort of)")["name"].to_list() == [f"pg16 ({threads} t)" for threads in RATES]


def test_threads_scale_where_nobody_mentions_workers(pgbench: Dataset) -> None:
    selection = select_runs(pgbench)
    sentences = opening(selection)
    assert "18 runs of 6 configurations were analysed; no run failed." in sentences
    assert [one[:56] for one in sentences[:2]] == [
        f"TPC-B (sort of), {set_up}: 64 threads do 3.7 times the work " for set_up in FACTORS
    ]
    assert "worker" not in " ".join(sentences)
    assert estimate_latency_by_load(selection, pgbench.table("operation_latencies"), "mean_us").height == 6
    assert configuration_table(selection)["threads"].to_list() == [*RATES, *RATES]


def test_an_unknown_workload_is_one_workload(ycsb: Dataset) -> None:
    selection = select_runs(ycsb)
    (note,) = selection.notes
    assert note.startswith("the workload of 18 runs is not known, so that they are compared as if of one workload; ")
    assert opening(selection)[0].startswith("unknown workload, pg15: 64 threads do 3.7 times the work of four")
    assert len(comparison_panels(selection).comparisons) == 3


@pytest.mark.parametrize("name", ["pgbench", "ycsb"])
def test_both_reports_are_made(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    dataset: Dataset = request.getfixturevalue(name)
    for report in ("comparison", "scalability"):
        found = render_report(report, str(dataset.path), tmp_path)
        assert found.html is not None
        assert "one server" not in found.html.read_text(encoding="utf-8")
        assert "worker" not in " ".join(found.findings)


def test_a_fact_that_only_some_runs_state_is_named(tmp_path: Path) -> None:
    selection = select_runs(written(tmp_path / "mixed", PGBENCH, pg16="2"))
    study = comparison_panels(selection, base="pg15")
    assert [*map(str, state_comparisons(study))] == [
        "No set-up shares an operation, number of workers and number of threads with pg15: nothing can be compared."
    ]
    assert [*map(str, state_unmatched_set_ups(study))][1:] == [
        "The number of workers of pg15 is not known; state it at ingest: citus-analysis ingest --meta workers=..., "
        "0 for a single server."
    ]
    assert opening(selection)[-1].startswith("Of 9 runs (mixed) the number of workers is not known, so that no series")


def test_no_size_at_all_is_said_once(pgbench: Dataset) -> None:
    selection = select_runs(pgbench)
    nothing = selection.runs.with_columns(threads=pl.lit(None, pl.Int32))
    assert opening(Selection(nothing, selection.left_out))[2:] == [
        "No run states its number of workers or of threads, so that there is no series; state it at ingest: "
        "citus-analysis ingest --meta workers=... --meta threads=..., 0 for a single server."
    ]
    sentences = [*map(str, state_comparisons(comparison_panels(Selection(nothing, selection.left_out))))]
    assert sentences
    assert not any(word in " ".join(sentences) for word in ("worker", "thread", "server"))


REFUSALS: list[tuple[Callable[[Dataset], object], str]] = [
    (lambda ds: compare_runs(ds, by="system"), r"^no run has a system; set-ups are pg15, pg16: --by set_up \(or state"),
    (lambda ds: scale_runs(ds, "workers"), r"^no run has a known number of workers; threads are 4, 16, 64: --x thread"),
    (lambda ds: compare_runs(ds, by="set_up", only={"threads": 5}), r"^no run has threads=5$"),
]


@pytest.mark.parametrize(("ask", "message"), REFUSALS)
def test_refusals_name_what_is_missing(pgbench: Dataset, ask: Callable[[Dataset], object], message: str) -> None:
    with pytest.raises(InsufficientDataError, match=message):
        ask(pgbench)


def test_runs_without_the_compared_fact_are_counted(pgbench: Dataset) -> None:
    system = pl.when(pl.col("set_up") == "pg15").then(pl.lit("postgresql"))
    runs = pl.DataFrame(pgbench.table("runs")).with_columns(system=system)
    assert "9 runs left out: no system" in compare_runs(runs, by="system").warnings


def test_a_set_up_is_not_said_to_differ_along_with_itself(pgbench: Dataset) -> None:
    assert not any("differs along" in one for one in compare_runs(pgbench, by="set_up").warnings)


def test_throttling_of_a_run_without_an_iteration_is_that_of_this_run() -> None:
    throttling = pl.DataFrame(
        {
            "resource": ["a", "b"],
            "run_id": ["a", "b"],
            "iteration": pl.Series([None, None], dtype=pl.Int32),
            "control_group": ["/node1/cpu.stat", "/node2/cpu.stat"],
        }
    )
    study = SimpleNamespace(throttling=throttling, detail=SimpleNamespace(resource="b", iteration=None))
    assert select_shown_throttling(cast(ResourceStudy, study))["resource"].to_list() == ["b"]

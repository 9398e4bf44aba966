"""Numbers and sentences of the scalability report on the recorded cluster, and on next to nothing."""

import re
from typing import Any

import polars as pl
import pytest

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.errors import UnknownNameError
from citus_analysis.report.scalability import (
    Axis,
    ScalingPanels,
    scaling_panels,
    select_outside_series,
    state_growth,
    state_scalability,
    write_axis_caveats,
    write_scalability_warnings,
)
from citus_analysis.runs.selection import Selection, select_runs
from citus_analysis.scaling.latency_load import estimate_latency_by_load
from citus_analysis.schema import TABLES
from tests.recordings import RECORDED
from tests.report.conftest import Tables


@pytest.fixture(scope="module")
def selection(recorded: Tables) -> Selection:
    return select_runs(recorded)


def studies(selection: Selection, **options: Any) -> list[ScalingPanels]:
    axes: tuple[Axis, ...] = ("workers", "threads")
    return [scaling_panels(selection, axis, **options) for axis in axes]


def test_series_hold_the_main_grid_and_nothing_else(selection: Selection) -> None:
    workers, threads = studies(selection)
    assert workers.order == ("4 threads", "16 threads", "64 threads")
    assert threads.order == ("1 worker", "2 workers", "4 workers")
    assert (workers.base, threads.base) == (1, 4)
    assert workers.runs.height == 58
    assert workers.runs["resource"].str.contains(r"^w[124]-t(4|16|64)-(insert|select)$").all()


@pytest.fixture(scope="module")
def pgbench(tmp_path_factory: pytest.TempPathFactory) -> Selection:
    folder = tmp_path_factory.mktemp("pgbench")
    ingest([RECORDED / "w2-pgbench", RECORDED / "w2-target-select"], folder, jobs=1)
    return select_runs(open_dataset(folder))


def test_scripts_protocols_and_rates_are_set_ups_of_their_own(pgbench: Selection) -> None:
    threads = scaling_panels(pgbench, "threads")
    shown = threads.runs.select("operation", "series", pl.col("run_id").str.split("/").list.last())
    scripts = {"select only": "select-only-c", "TPC-B (sort of)": "tpcb-like-c"}
    assert set(threads.operations()) == set(scripts)
    assert all(run.startswith(scripts[operation]) for operation, _, run in shown.iter_rows())
    assert not shown["run_id"].str.contains("rate|mixed|sampled|t2000").any()
    # One run a point: a mean of its own, no interval.
    means = threads.means.filter(operation="select only", threads=4)
    assert means["mean"].to_list() == pytest.approx([15088.77], abs=0.01)
    outside = select_outside_series(pgbench, [threads])
    limits = dict(outside.select("limit", "operation").unique().filter(pl.col("limit") != "").iter_rows())
    assert limits == {"limited rate": "select only", "at most 2000/s": "Workload B"}


def test_a_run_of_which_nobody_says_what_it_did_is_never_plotted(selection: Selection) -> None:
    unknown = pl.when(pl.col("phase") == "run").then(pl.lit(None))
    anonymous = selection.runs.with_columns(workload=unknown, operation=unknown.otherwise("operation"))
    nameless = Selection(anonymous, selection.left_out)
    for study in studies(nameless):
        assert study.operations() == ["INSERT"]
        assert select_outside_series(nameless, [study])["operation"].null_count() > 0
    operations = TABLES["operation_latencies"].empty()
    assert estimate_latency_by_load(nameless, operations).is_empty()


def test_a_single_server_is_no_cluster_of_0_workers(selection: Selection) -> None:
    single = selection.runs.filter(pl.col("workers") == 1).with_columns(workers=pl.lit(0, pl.Int32))
    mixed = Selection(pl.concat([selection.runs, single]), selection.left_out)
    workers, threads = studies(mixed)
    assert workers.runs["workers"].min() == 1
    assert threads.order == ("one server", "1 worker", "2 workers", "4 workers")
    sentences = " ".join([*map(str, state_scalability(mixed, [workers, threads])), *map(str, state_growth(threads))])
    assert "with one server" in sentences
    assert "0 workers" not in sentences


def test_means_are_those_of_the_client_logs(selection: Selection) -> None:
    workers, _ = studies(selection)
    row = workers.means.filter(operation="INSERT", series="16 threads", workers=2).row(0, named=True)
    assert row["n"] == 5
    # Mean of 3580.55, 4329.66, 3801.32, 3511.06 and 4939.69 operations/s, as the five client logs state them.
    assert row["mean"] == pytest.approx(4032.455, abs=0.01)
    assert (row["low"], row["high"]) == pytest.approx((3362.982, 4835.202), abs=0.01)


def test_speedup_and_efficiency_are_relative_to_the_base(selection: Selection) -> None:
    workers, _ = studies(selection)
    rows = workers.relative.filter(operation="SELECT", series="4 threads").sort("workers")
    assert rows["speedup"].to_list() == pytest.approx([1.0, 0.6592, 0.6921], abs=1e-4)
    assert rows["efficiency"].to_list() == pytest.approx([1.0, 0.3296, 0.1730], abs=1e-4)
    assert rows["verdict"].to_list()[0] == "base"
    assert rows["verdict"].to_list()[2] == "slower"


def test_no_sentence_claims_growth_on_one_machine(selection: Selection) -> None:
    sentences = [
        *map(str, state_scalability(selection, studies(selection))),
        *map(str, state_growth(studies(selection)[0])),
    ]
    assert not [sentence for sentence in sentences if re.search(r"workers do (?!only)\d", sentence)]
    assert 3 <= len(state_scalability(selection, studies(selection))) <= 6


def test_the_opening_states_what_was_found(selection: Selection) -> None:
    sentences = [*map(str, state_scalability(selection, studies(selection)))]
    assert sentences[-1].endswith(
        "4 runs failed or lost operations and are left out: "
        "w2-fail-clients, w2-fail-dup-insert, w2-fail-stop-insert and w2-fail-stop-select."
    )
    assert sentences[1] == (
        "SELECT: four workers do only 0.69 times the work of one (0.58 to 0.83) with 4 threads; "
        "with 16 threads (0.68 times, 0.37 to 1.27) and with 64 threads (0.72 times, 0.32 to 1.59) "
        "these runs do not show whether throughput changes."
    )
    assert sentences[-2] == (
        "The highest throughput was 6,347 operations/s for INSERT (w1-t16-insert, "
        "mean of 3 runs) and 12,068 operations/s for SELECT (w1-t4-select, mean of 3 runs)."
    )


def test_the_verdict_decides_the_word() -> None:
    def sentence(*throughputs: float) -> str:
        runs = [(k, x * f) for k, x in zip((1, 2), throughputs, strict=True) for f in (0.999, 1.0, 1.001)]
        return str(state_growth(scaling_panels(selection_of(runs)))[0])

    assert "two workers do 1.90 times the work of one (1.90 to 1.90)" in sentence(100, 190)
    assert "two workers do only 0.60 times the work of one" in sentence(100, 60)
    assert "throughput stays the same within 5 % with 16 threads (1.01 to 1.01 times)" in sentence(100, 101)


def test_one_run_each_proves_nothing() -> None:
    study = scaling_panels(selection_of([(1, 100.0), (2, 200.0)]))
    assert [*map(str, state_growth(study))] == [
        "INSERT: these runs do not show whether two workers do more or less work than one "
        "with 16 threads (2.0 times, a single run)."
    ]


def test_one_size_gives_no_series(selection: Selection) -> None:
    only = select_binary(selection)
    found = studies(only)
    assert [study.operations() for study in found] == [[], []]
    assert [*map(str, state_scalability(only, found))][-2:] == [
        "No set-up was measured at more than one number of workers, so scaling by workers is not analysed.",
        "No set-up was measured at more than one number of threads, so scaling by threads is not analysed.",
    ]
    assert select_outside_series(only, found)["resource"].to_list() == ["w2-binary-t16-insert", "w2-binary-t16-select"]


def test_a_base_that_no_series_has_leaves_no_series(selection: Selection) -> None:
    four = Selection(selection.runs.filter(pl.col("workers") != 2), selection.left_out)
    apart = four.runs.head(1).with_columns(workers=pl.lit(3, pl.Int32), family=pl.lit("apart"))
    mixed = Selection(pl.concat([four.runs, apart]), four.left_out)
    assert scaling_panels(mixed, "workers", base=3).operations() == []


def test_a_base_that_nothing_was_measured_at_is_refused(selection: Selection) -> None:
    with pytest.raises(UnknownNameError, match="known: 1, 2, 4"):
        scaling_panels(selection, "workers", base=3)
    assert scaling_panels(selection, "workers", base=2).relative.filter(workers=2)["speedup"].to_list() == [1.0] * 6


def test_warnings_name_hardware_and_changing_entry(selection: Selection) -> None:
    warnings = write_scalability_warnings(selection, studies(selection))
    assert warnings[0] == "Measured on one machine, 2 cores."
    assert "clients connect to different nodes as workers change" in warnings[1]


def test_latency_stands_beside_its_load(selection: Selection) -> None:
    chosen = selection.runs.filter(pl.col("resource").is_in(["w2-t4-insert", "w2-t64-insert"]))
    rows = [
        {"run_id": run, "resource": resource, "role": "main", "operation": operation, "p99_us": value}
        for run, resource, threads in chosen.select("run_id", "resource", "threads").iter_rows()
        for operation, value in (("INSERT", 1000.0 * threads), ("CLEANUP", 5.0))
    ]
    latency = estimate_latency_by_load(selection, TABLES["operation_latencies"].conform(pl.DataFrame(rows)))
    assert latency["mean"].to_list() == [4000.0, 64000.0]
    assert latency["series"].unique().to_list() == ["2 workers"]
    assert latency["throughput_ops_s"].to_list() == pytest.approx([3529.785, 3819.822], abs=0.01)


def test_no_latencies_give_an_empty_table(selection: Selection) -> None:
    assert estimate_latency_by_load(selection, TABLES["operation_latencies"].empty()).is_empty()


def selection_of(runs: list[tuple[int, float]]) -> Selection:
    frame = pl.DataFrame(
        {
            "run_id": [str(i) for i in range(len(runs))],
            "resource": [f"w{k}-insert" for k, _ in runs],
            "system": "citus",
            "phase": "load",
            "workload": "A",
            "threads": 16,
            "workers": [k for k, _ in runs],
            "drivers": 1,
            "iteration": list(range(1, len(runs) + 1)),
            "throughput_ops_s": [x for _, x in runs],
            "status": "ok",
        }
    )
    return select_runs(Tables(runs=TABLES["runs"].conform(frame)))


def select_binary(selection: Selection) -> Selection:
    return Selection(selection.runs.filter(family="binary"), selection.left_out.clear())


def test_an_entry_that_changes_along_a_series_is_said(recorded: Tables) -> None:
    runs = select_runs(recorded, "w?-t*").runs
    assert write_axis_caveats(runs, "workers", ["threads"]) == [
        "In the usual set-up, clients connect to different nodes as workers change (at 1 through the coordinator; "
        "at 2 and 4 through the workers): workers are not the only difference between these runs."
    ]
    assert write_axis_caveats(runs, "threads", ["workers"]) == []


def test_set_ups_have_figures_of_their_own_in_natural_order() -> None:
    runs = [(k, 100.0 * k + i) for k in (1, 2) for i in range(2)]
    plain = selection_of(runs)
    frames = [plain.runs] + [
        plain.runs.with_columns(family=pl.lit(f"shards {n}"), threads=pl.lit(t, pl.Int32))
        for n in (8, 32, 128)
        for t in (4, 16)
    ]
    study = scaling_panels(Selection(pl.concat(frames), plain.left_out))
    titles = [figure.layout.title.text for figure in study.plot("throughput")]
    assert titles == [f"INSERT, {name}: throughput by workers" for name in ("shards 8", "shards 32", "shards 128")] + [
        "INSERT, usual set-up: throughput by workers"
    ]
    legend = [trace.name for trace in study.plot()[0].data if trace.showlegend]
    assert legend == ["in proportion to size", "4 threads", "16 threads"]
    assert len(study.plot("speedup", most=2)) == 2
    table = study.table("speedup")
    assert table.columns == ["operation", "series", "2 workers"]
    assert table.height == 7
    assert table["2 workers"][0].startswith("2.00 [1.75, ")
    assert study.table().columns == ["operation", "series", "1 worker", "2 workers"]

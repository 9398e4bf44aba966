"""Comparisons over a table of runs: like with like, failed runs left out, hidden dimensions named."""

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.stats

from citus_analysis import schema, stats
from citus_analysis.errors import InsufficientDataError, UnknownNameError, UsageError
from citus_analysis.scaling import scale_runs
from citus_analysis.stats.run_comparisons import format_comparison

#: Said of every table whose sets are small.
FEW = (
    "sets of fewer than 8 runs cannot show two modes, or that successive runs depend on each other: neither is excluded"
)
START = datetime(2024, 1, 1, tzinfo=UTC)


def runs(*rows: dict[str, object]) -> pl.DataFrame:
    """Rows of the table `runs` with what the tests do not name filled in."""
    frame = pl.DataFrame(list(rows), infer_schema_length=None)
    return schema.TABLES["runs"].conform(frame.with_columns(status=pl.col("status").fill_null("ok")))


def grid(**levels: list[float]) -> list[dict[str, object]]:
    """Runs of workload A at 16 threads, one list of throughputs per system."""
    return [
        {
            "run_id": f"{system}-{i}",
            "system": system,
            "workload": "A",
            "threads": 16,
            "iteration": i,
            "throughput_ops_s": value,
            "status": "ok",
        }
        for system, values in levels.items()
        for i, value in enumerate(values, 1)
    ]


def test_only_runs_that_are_ok_enter() -> None:
    frame = runs(
        *grid(citus=[100, 101, 99], aurora=[150, 151, 149]),
        {"system": "aurora", "workload": "A", "threads": 16, "throughput_ops_s": 3.0, "status": "failed"},
    )
    result = stats.compare_runs(frame, base="citus")
    assert [c.verdict for c in result] == ["faster"]
    assert result.comparisons[0].mean_a.n == 3
    assert result.warnings == ("1 run left out: status failed", FEW)


def test_levels_are_compared_within_equal_workload_and_threads() -> None:
    rows = grid(citus=[100, 101, 99], aurora=[150, 151, 149])
    others = [{**row, "threads": 64, "throughput_ops_s": 2 * float(str(row["throughput_ops_s"]))} for row in rows]
    result = stats.compare_runs(runs(*rows, *others), base="citus")
    assert result.strata == ("threads",)
    assert [c.stratum for c in result] == [{"threads": 16}, {"threads": 64}]
    assert [round(c.ratio.estimate, 2) for c in result] == [1.5, 1.5]


def test_what_changes_along_with_the_compared_column_is_named() -> None:
    rows = [{**row, "resource": f"{row['system']}-cluster"} for row in grid(x=[1, 2, 3], y=[2, 3, 4])]
    result = stats.compare_runs(runs(*rows))
    assert result.strata == ()
    assert result.warnings == ("family differs along with system: the comparison is of both", FEW)


def test_pooled_configurations_are_warned_about() -> None:
    rows = grid(x=[1, 2, 3, 4], y=[2, 3, 4, 5])
    mixed = [{**row, "drivers": 1 + (int(str(row["iteration"])) > 2)} for row in rows]
    (comparison,) = stats.compare_runs(runs(*mixed), within=["threads"])
    assert "y pools several values of drivers: 1, 2" in comparison.warnings


def test_sets_made_one_after_the_other_are_warned_about() -> None:
    rows = grid(x=[1, 2, 3], y=[2, 3, 4])
    timed = [{**row, "start_time": START + timedelta(minutes=i)} for i, row in enumerate(rows)]
    (comparison,) = stats.compare_runs(runs(*timed))
    assert any("one after the other" in warning for warning in comparison.warnings)
    mixed = [{**row, "start_time": START + timedelta(minutes=int(str(row["iteration"])))} for row in rows]
    (comparison,) = stats.compare_runs(runs(*mixed))
    assert not any("one after the other" in warning for warning in comparison.warnings)


def test_drift_within_a_set_is_warned_about() -> None:
    rows = grid(x=[100, 98, 96, 93, 91, 90], y=[100, 100, 101, 99, 100, 101])
    timed = [{**row, "start_time": START + timedelta(minutes=int(str(row["iteration"])))} for row in rows]
    (comparison,) = stats.compare_runs(runs(*timed))
    assert "y over x: the metric rises by 11.5 % over the order of the runs" in comparison.warnings


def blocks(effect: float, blocks_made: int = 5, seed: int = 1) -> pl.DataFrame:
    """Interleaved runs of two systems: blocks spread by 10 %, runs within them by 1.5 %."""
    rng = np.random.default_rng(seed)
    rows = []
    for block in range(1, blocks_made + 1):
        level = 1_000 * np.exp(0.1 * rng.normal())
        for place, system in enumerate(rng.permutation(["x", "y"])):
            value = level * np.exp(0.015 * rng.normal()) * (1 + effect * (system == "y"))
            started = START + timedelta(minutes=10 * block + int(place))
            (row,) = grid(**{str(system): [float(value)]})
            rows.append({**row, "run_id": f"{system}-{block}", "iteration": block, "start_time": started})
    return runs(*rows)


def test_interleaved_runs_are_compared_block_by_block() -> None:
    frame = blocks(0.06)
    (comparison,) = stats.compare_runs(frame)
    assert (comparison.design, comparison.verdict) == ("paired", "faster")
    logs = np.log(frame.sort("iteration", "system")["throughput_ops_s"].to_numpy().reshape(-1, 2))
    theirs = scipy.stats.ttest_rel(logs[:, 1], logs[:, 0])
    assert comparison.p_difference == pytest.approx(theirs.pvalue)
    ends = theirs.confidence_interval(0.95)
    assert (comparison.ratio.low, comparison.ratio.high) == pytest.approx((math.exp(ends.low), math.exp(ends.high)))
    assert "paired t on the log ratio, block by block" in str(comparison.ratio)
    (untimed,) = stats.compare_runs(frame.drop("start_time"))
    assert (untimed.design, untimed.verdict) == ("mixed", "faster")
    assert untimed.design_reason.startswith("not all runs have a start time; iterations differ (F test, p = ")
    (apart,) = stats.compare_runs(frame.drop("start_time", "iteration"))
    assert (apart.design, apart.verdict) == ("unpaired", "inconclusive")
    assert apart.design_reason == "not all runs have an iteration"


def test_the_design_and_its_reason_are_columns_of_the_table() -> None:
    table = stats.compare_runs(blocks(0.06)).to_polars()
    assert table.select("design", "design_reason").rows() == [
        ("paired", "all runs of an iteration began before those of the next")
    ]


def test_iterations_that_overlap_or_are_few_or_incomplete_are_no_blocks() -> None:
    frame = blocks(0.06)
    later = pl.col("start_time") + pl.duration(hours=5) * (pl.col("system") == "y").cast(pl.Int8)
    (overlapping,) = stats.compare_runs(frame.with_columns(start_time=later))
    (few,) = stats.compare_runs(blocks(0.06, 3))
    (incomplete,) = stats.compare_runs(frame.filter((pl.col("iteration") != 2) | (pl.col("system") == "x")))
    assert [one.design for one in (overlapping, few, incomplete)] == ["mixed", "unpaired", "paired"]
    assert "iterations are blocks, but 3 are too few to pair (at least 4): compared without pairing" in few.warnings
    assert "the iterations did not follow one another" in overlapping.design_reason
    assert "the two sets were made one after the other" in overlapping.warnings[0]
    assert (incomplete.mean_a.n, incomplete.mean_b.n) == (4, 4)
    assert "1 run outside of the common blocks does not enter" in incomplete.warnings


@pytest.mark.slow
def test_blocks_decide_where_independent_sets_do_not() -> None:
    seeds = range(300)
    found = [next(iter(stats.compare_runs(blocks(0.06, seed=seed)))).verdict for seed in seeds]
    null = [next(iter(stats.compare_runs(blocks(0.0, seed=seed)))) for seed in seeds]
    names = ("start_time", "iteration")
    apart = [next(iter(stats.compare_runs(blocks(0.06, seed=seed).drop(names)))).verdict for seed in seeds]
    assert found.count("faster") / 300 > 0.90
    assert apart.count("faster") / 300 < 0.10
    assert 0.02 < np.mean([one.p_difference <= 0.05 for one in null]) < 0.085


def test_latency_counts_downwards() -> None:
    rows = [{**row, "runtime_ms": row["throughput_ops_s"]} for row in grid(x=[100, 101, 99], y=[50, 51, 49])]
    (comparison,) = stats.compare_runs(runs(*rows), metric="runtime_ms")
    assert (comparison.label_a, comparison.verdict) == ("y", "faster")


def test_pandas_and_arrow_frames_give_the_same() -> None:
    frame = runs(*grid(x=[1, 2, 3], y=[4, 5, 6]))
    expected = stats.compare_runs(frame).to_polars()
    assert stats.compare_runs(frame.to_arrow()).to_polars().equals(expected)
    assert stats.compare_runs(pd.DataFrame(frame.to_pandas())).to_polars().equals(expected)


class FakeDataset:
    """Two tables by name, as a dataset gives them."""

    def __init__(self, **tables: pl.DataFrame) -> None:
        self.tables = tables

    def table(self, name: str) -> pl.DataFrame:
        return self.tables[name] if name in self.tables else schema.TABLES[name].empty()


def test_latency_metrics_come_from_the_operations_of_a_dataset() -> None:
    frame = runs(*grid(x=[10, 11, 12], y=[40, 41, 42])).with_columns(resource=pl.lit("r"))
    latencies = frame.select("run_id", "resource", p99_us=pl.col("throughput_ops_s") * 10).join(
        pl.DataFrame({"operation": ["READ", "UPDATE"], "role": ["main", "main"]}), how="cross"
    )
    result = stats.compare_runs(FakeDataset(runs=frame, operation_latencies=latencies), metric="p99_us")
    assert result.strata == ("operation",)
    assert [(c.stratum["operation"], c.verdict) for c in result] == [("READ", "slower"), ("UPDATE", "slower")]


def test_numeric_levels_are_in_numeric_order() -> None:
    rows = [{**row, "workers": workers, "system": None} for workers in (16, 2, 4) for row in grid(x=[1, 2])]
    result = stats.compare_runs(runs(*rows), by="workers")
    assert [(c.label_b, c.label_a) for c in result] == [("2", "4"), ("2", "16")]


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    frame = runs(*grid(x=[1, 2], y=[3, 4]))
    with pytest.raises(UnknownNameError, match="did you mean 'throughput_ops_s'"):
        stats.compare_runs(frame, metric="throughput_op_s")
    with pytest.raises(UnknownNameError, match="no column is named 'sistem'"):
        stats.compare_runs(frame, by="sistem")
    with pytest.raises(UnknownNameError, match="no system is named 'z'"):
        stats.compare_runs(frame, base="z")
    with pytest.raises(UsageError, match="one list of numbers"):
        stats.compare_runs([1, 2])


def test_degraded_runs_are_compared_where_that_is_allowed() -> None:
    frame = runs(*grid(x=[10, 11, 12], y=[20, 21, 22])).with_columns(status=pl.lit("degraded"))
    with pytest.raises(InsufficientDataError, match=r"^no run with status ok has a .*--include-status degraded"):
        stats.compare_runs(frame)
    found = stats.compare_runs(frame, include_status="degraded")
    assert [one.verdict for one in found] == ["faster"]
    assert "6 degraded runs of 6 used, as allowed" in found.warnings
    assert stats.compare_runs(frame.with_columns(status=pl.lit("ok")), include_status=["degraded"]).warnings == (FEW,)
    with pytest.raises(UsageError, match="'failed' cannot be allowed"):
        stats.compare_runs(frame, include_status="failed")


def test_a_mean_without_a_ratio_is_left_out_and_said() -> None:
    rows = [
        {**row, "failed_operations": 0 if row["system"] == "z" else 3} for row in grid(x=[1, 2], y=[3, 4], z=[5, 6])
    ]
    result = stats.compare_runs(runs(*rows), metric="failed_operations")
    assert [(c.label_a, c.verdict) for c in result] == [("y", "equivalent")]
    assert result.warnings == (
        "1 group left out: a mean failed_operations that is not positive has no ratio",
        FEW,
    )


def test_monitoring_overhead_is_a_comparison_of_a_flag() -> None:
    rows = [
        {**row, "monitored": row["system"] == "on", "system": "citus"}
        for row in grid(on=[98, 131, 90, 110], off=[105, 95, 125, 102])
    ]
    (comparison,) = stats.compare_runs(runs(*rows), by="monitored", base=False)
    assert (comparison.label_a, comparison.verdict) == ("True", "inconclusive")
    assert comparison.runs_missing is not None
    assert comparison.runs_missing > 50


def test_only_selects_runs_by_value() -> None:
    frame = runs(*grid(x=[1, 2], y=[3, 4], z=[5, 6]))
    result = stats.compare_runs(frame, only={"iteration": 1})
    assert all(c.ratio.n == 1 for c in result)
    with pytest.raises(UnknownNameError, match="no column is named 'itration'"):
        stats.compare_runs(frame, only={"itration": 1})
    with pytest.raises(InsufficientDataError, match="iteration=9"):
        stats.compare_runs(frame, only={"iteration": 9})


def test_what_the_clients_did_is_never_pooled_unasked() -> None:
    rows = grid(on=[98, 131, 90, 110], off=[105, 95, 125, 102])
    mixed = [
        {
            **row,
            "monitored": row["system"] == "on",
            "system": "citus",
            "phase": "load" if row["system"] == "on" else "run",
        }
        for row in rows
    ]
    with pytest.raises(InsufficientDataError, match="the closest differ in phase") as refused:
        stats.compare_runs(runs(*mixed), by="monitored")
    assert "--pool phase" in str(refused.value.hint)
    (comparison,) = stats.compare_runs(runs(*mixed), by="monitored", pool=["phase"])
    assert "differs in phase: load against run" in comparison.warnings


@pytest.mark.parametrize("column", ["phase", "workload", "records", "operations", "threads", "query_mode"])
def test_levels_are_compared_within_each_load(column: str) -> None:
    values: tuple[object, object] = {
        "phase": ("load", "run"),
        "workload": ("A", "C"),
        "query_mode": ("prepared", "simple"),
    }.get(column, (200, 60_000))
    rows = [{**row, column: value} for value in values for row in grid(x=[10, 11, 12], y=[20, 21, 22])]
    # A third load was measured with one system only: it is compared with nothing.
    frame = runs(*rows, *({**row, column: None} for row in grid(x=[90, 91])))
    result = stats.compare_runs(frame)
    assert result.strata == (column,)
    assert [c.stratum[column] for c in result] == list(values)
    assert [(c.mean_a.n, c.mean_b.n) for c in result] == [(3, 3), (3, 3)]


def test_raw_and_adjusted_p_stand_side_by_side() -> None:
    rows = [{**row, "threads": t} for t in (4, 16, 64) for row in grid(x=[10, 11, 12.5], y=[13, 12, 14])]
    rows += [{**row, "phase": "run", "workload": "C"} for row in grid(x=[10, 11, 12], y=[13, 12, 14])]
    rows += [{**row, "threads": 1} for row in grid(x=[10], y=[12])]
    found = stats.compare_runs(runs(*({"phase": "load", **row} for row in rows)))
    inserts = [c for c in found if c.holm_family == "INSERT" and c.ratio.exists]
    assert [c.family_size for c in inserts] == [3, 3, 3]
    assert [c.p_difference_adjusted for c in inserts] == pytest.approx([3 * inserts[0].p_difference] * 3)
    (other,) = [c for c in found if c.holm_family == "SELECT"]
    assert (other.family_size, other.p_difference_adjusted) == (1, other.p_difference)
    table = found.to_polars()
    assert {"p_difference", "p_difference_adjusted", "holm_family", "family_size"} <= set(table.columns)
    assert table.filter(threads=1)["p_difference"].to_list() == [None]
    assert "p      p adjusted  verdict" in format_comparison(found)


def test_what_is_shown_does_not_change_the_answer() -> None:
    rows = [{**row, "threads": t} for t in (4, 16, 64) for row in grid(x=[10, 11, 12.5], y=[13, 12, 14])]
    whole = stats.compare_runs(runs(*rows))
    for shown in whole:
        (one,) = stats.compare_runs(runs(*rows), only=shown.stratum)
        assert (one.stratum, one.p_difference_adjusted, one.verdict) == (
            shown.stratum,
            shown.p_difference_adjusted,
            shown.verdict,
        )


def test_nothing_to_compare_is_said() -> None:
    assert stats.compare_runs(runs(*grid(x=[1, 2]))).warnings == ("nothing to compare: system has one level",)


def test_summary_has_mean_and_interval_per_configuration() -> None:
    frame = runs(*[{**row, "workers": w} for w in (1, 2) for row in grid(x=[10.0 * w, 12.0 * w, 11.0 * w])])
    table = stats.summarise_runs(frame, by=["workers", "threads"])
    assert table["mean"].to_list() == [11.0, 22.0]
    assert table["n"].to_list() == [3, 3]
    assert table["high"][0] == pytest.approx(11 * math.exp(4.302653 / 3**0.5 / 11))


def test_a_summary_does_not_pool_systems() -> None:
    frame = runs(*[{**row, "workers": 2} for row in grid(citus=[100.0, 101, 99], aurora=[200.0, 201, 199])])
    with pytest.raises(
        UsageError, match=r"runs of several systems \(aurora, citus\) would become one mean at workers 2"
    ):
        stats.summarise_runs(frame, by=["workers"])
    assert stats.summarise_runs(frame, by=["system", "workers"])["mean"].to_list() == [200.0, 100.0]


def test_a_summary_of_single_runs_has_no_ends() -> None:
    table = stats.summarise_runs(runs(*grid(x=[10.0])), by=["workers"])
    assert table.select("n", "low", "high").row(0) == (1, None, None)


def test_the_printed_table_marks_what_was_not_detected() -> None:
    text = format_comparison(stats.compare_runs(runs(*grid(x=[100, 140, 80], y=[90, 130, 85], z=[300, 301, 299]))))
    lines = text.splitlines()
    assert lines[0] == "throughput [operations/s]"
    assert [line.split()[0] for line in lines[2:5]] == ["x", "y", "z"]
    assert "~ [" in lines[3]
    assert "inconclusive" in lines[3]
    assert lines[4].endswith("faster")
    assert "+181 %" in lines[4]


def test_a_single_run_has_a_ratio_and_no_verdict() -> None:
    found = stats.compare_runs(runs(*grid(x=[100], y=[130])))
    row = format_comparison(found).splitlines()[3].split()
    assert (" ".join(row[4:7]), row[-1]) == ("+30 % [1]", "-")
    assert found.sentence().endswith("ratio 1.3 (no interval, n = 1), without a verdict.")
    table = found.summary_table()
    assert table is not None
    assert table["verdict"].to_list() == ["-"]


def test_a_fact_has_one_footnote() -> None:
    text = format_comparison(stats.compare_runs(runs(*grid(x=[100, 101], y=[130, 131], z=[150, 151]))))
    assert "[1] y, x and z: 2 runs; at least 3 are advised" in text
    assert text.count("at least 3 are advised") == 1


def of_experiments(spare: float) -> pl.DataFrame:
    """Blocks of two set-ups and two numbers of threads; another experiment measured the base again, after them."""
    rows = []
    for block in range(1, 6):
        cells = [("x", 8, 100.0), ("y", 8, 150.0), ("x", 64, 120.0)]
        for place, (system, threads, rate) in enumerate(cells):
            started = START + timedelta(minutes=10 * block + place)
            value = rate * (1 + 0.05 * np.sin(block) + 0.004 * np.cos(3 * block + place))
            facts = {"iteration": block, "experiment": f"{system}-grid", "start_time": started}
            rows.append({"system": system, "threads": threads, "throughput_ops_s": value, **facts})
    for again in range(1, 4):
        facts = {"iteration": again, "experiment": "again", "start_time": START + timedelta(hours=5, minutes=again)}
        rows.append({"system": "x", "threads": 8, "throughput_ops_s": spare, **facts})
    return pl.DataFrame(rows).with_columns(workload=pl.lit("A"), status=pl.lit("ok"))


@pytest.mark.parametrize("spare", [20.0, 700.0])
def test_runs_that_another_experiment_made_afterwards_change_no_number(spare: float) -> None:
    frame = of_experiments(spare)
    (found,) = (one for one in stats.compare_runs(frame, by="system", base="x"))
    assert (found.mean_a.n, found.mean_b.n, found.design, found.order) == (5, 5, "paired", "in turns")
    assert found.ratio.estimate == pytest.approx(1.5, rel=0.01)
    assert any("3 runs of other experiments with the set-up of x do not enter" in note for note in found.warnings)
    (pooled,) = stats.compare_runs(frame, by="system", base="x", pool=["experiment"])
    assert pooled.mean_b.n == 5  # three of the base's runs are outside of the blocks that both sides share
    along = stats.compare_runs(frame, by="threads")
    (threads,) = along
    assert (threads.mean_a.n, threads.mean_b.n) == (5, 5)
    assert threads.ratio.estimate == pytest.approx(1.2, rel=0.01)
    assert any("3 runs of other experiments at the same points left out" in note for note in along.warnings)
    (curve,) = scale_runs(frame, "threads", models=(), resamples=0)
    assert [(point.size, point.throughput.n) for point in curve.points] == [(8, 5), (64, 5)]
    assert curve.comparisons[0].ratio.ends == threads.ratio.ends


def test_runs_made_after_the_blocks_do_not_enter_where_no_experiment_is_known() -> None:
    frame = of_experiments(700.0).drop("experiment").filter(threads=8)
    (found,) = stats.compare_runs(frame, by="system", base="x")
    assert (found.mean_b.n, round(found.ratio.estimate, 2)) == (5, 1.5)
    assert "3 runs outside of the common blocks do not enter" in found.warnings

"""Scaling studies over the recorded cluster's runs."""

from pathlib import Path

import polars as pl
import pytest

from citus_analysis import scaling, stats
from citus_analysis.errors import InsufficientDataError, UnknownNameError, UsageError
from citus_analysis.scaling.curves import ScalingStudy, format_scaling
from citus_analysis.scaling.queueing import apply_littles_law_to_runs
from citus_analysis.stats.run_comparisons import format_comparison

DATA = Path(__file__).parents[1] / "data" / "scaling"


@pytest.fixture(scope="module")
def runs() -> pl.DataFrame:
    return pl.read_csv(DATA / "runs.csv", try_parse_dates=True)


@pytest.fixture(scope="module")
def latencies() -> pl.DataFrame:
    return pl.read_csv(DATA / "operation_latencies.csv")


@pytest.fixture(scope="module")
def by_workers(runs: pl.DataFrame) -> ScalingStudy:
    return scaling.scale_runs(runs, "workers", resamples=300)


def test_throughput_does_not_grow_with_workers_on_one_machine(by_workers: ScalingStudy) -> None:
    # All nodes of the recordings share two cores: a study that reports growth is wrong.
    grid = [curve for curve in by_workers if curve.stratum["records"] == 60_000]
    assert len(grid) == 6
    assert [[point.size for point in curve.points] for curve in grid] == [[1, 2, 4]] * 6
    assert "faster" not in {curve.growth.verdict for curve in by_workers}
    for curve in grid:
        assert curve.points[-1].efficiency.estimate < 0.3
        assert curve.fits is not None
        assert curve.fits["amdahl"].parameters["alpha"] > 0.95


def test_a_curve_is_the_runs_that_agree_in_everything_else(by_workers: ScalingStudy, runs: pl.DataFrame) -> None:
    table = by_workers.to_polars().filter(
        (pl.col("phase") == "load") & (pl.col("threads") == 16) & (pl.col("records") == 60_000)
    )
    assert table["n"].to_list() == [3, 5, 3]
    mean = runs.filter(pl.col("resource") == "w2-t16-insert")["throughput_ops_s"].mean()
    assert table["throughput"][1] == mean
    assert table["speedup"][1] == pytest.approx(4032.455118 / 6346.861653)
    assert table["efficiency"][2] == pytest.approx(4391.405562 / 6346.861653 / 4)
    assert table["psi"][2] == pytest.approx(4391.405562 / 4032.455118 / 2)


def test_what_cannot_be_held_equal_is_named(by_workers: ScalingStudy, runs: pl.DataFrame) -> None:
    assert "3 runs left out: status failed" in by_workers.warnings
    own = runs.filter(pl.col("resource").str.contains(r"^w\d-t16-insert$")).with_columns(
        resource=pl.format("cluster-of-{}-nodes", "workers")
    )
    (curve,) = (study := scaling.scale_runs(own, "workers", resamples=50))
    assert [point.size for point in curve.points] == [1, 2, 4]
    assert study.warnings == ("family differs along with workers: the curve is over both",)


def test_different_set_ups_are_never_one_curve(by_workers: ScalingStudy, runs: pl.DataFrame) -> None:
    # Once pooled: w2-binary-t16-insert with w2-coord-t16-insert, against w1-local-t16-insert.
    assert not any("pools" in note for curve in by_workers for note in curve.warnings)
    assert {curve.stratum["family"] for curve in by_workers} == {""}
    pooled = scaling.scale_runs(runs, "workers", pool=["family"], resamples=50)
    notes = [note for curve in pooled for note in curve.notes()]
    assert any("pools several values of resource: w2-binary-t16-insert, w2-coord-t16-insert" in note for note in notes)


def test_what_is_selected_does_not_change_the_answer(by_workers: ScalingStudy, runs: pl.DataFrame) -> None:
    whole = {tuple(curve.stratum.values()): curve.growth for curve in by_workers}
    for only in ({"threads": 16}, {"phase": "load"}, {"phase": "load", "threads": 64}):
        chosen = scaling.scale_runs(runs, "workers", only=only, resamples=50)
        assert 0 < len(chosen) < len(by_workers)
        for curve in chosen:
            growth = whole[tuple(curve.stratum.values())]
            assert curve.growth.p_difference_adjusted == growth.p_difference_adjusted
            assert curve.growth.verdict == growth.verdict


def test_threads_over_one_cluster(runs: pl.DataFrame) -> None:
    grid = runs.filter(pl.col("records") == 60_000, pl.col("resource").str.contains(r"^w\d-t\d+-"))
    study = scaling.scale_runs(grid, "threads", resamples=200)
    assert len(study) == 6
    assert {tuple(point.size for point in curve.points) for curve in study} == {(4, 16, 64)}
    rows = study.models()
    assert rows.height == 24
    assert set(rows["model"]) == {"linear", "amdahl", "gustafson", "usl"}


def test_text_names_every_curve_and_note(by_workers: ScalingStudy) -> None:
    text = format_scaling(by_workers)
    assert text.count("throughput [operations/s] over workers") == len(by_workers)
    assert "note: verdicts use p adjusted by Holm over all comparisons of one operation" in text
    assert "the curve falls from the smallest measured size on" in text


def test_columns_and_sizes_that_do_not_exist(runs: pl.DataFrame) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'workers'"):
        scaling.scale_runs(runs, "worker")
    with pytest.raises(UnknownNameError, match="no numeric column is named 'phase'"):
        scaling.scale_runs(runs, "phase")
    with pytest.raises(InsufficientDataError, match=r"^no run has a known number of workers; threads are 4, 8"):
        scaling.scale_runs(runs.with_columns(workers=pl.lit(None, pl.Int32)))
    with pytest.raises(UnknownNameError, match=r"no workers is named '3' \(known: 1, 2, 4\)"):
        scaling.scale_runs(runs, base=3)
    lacking = scaling.scale_runs(runs.filter((pl.col("threads") != 4) | (pl.col("workers") != 1)), base=1, resamples=50)
    assert {curve.stratum["threads"] for curve in lacking} == {16, 64}
    assert any("no second workers value beside 1" in note for note in lacking.warnings)


def test_a_single_size_is_left_out_and_said(runs: pl.DataFrame) -> None:
    study = scaling.scale_runs(runs.filter(pl.col("workers") == 2))
    assert len(study) == 0
    assert any("one workers value each" in note for note in study.warnings)


def test_littles_law_holds_on_every_recorded_run(runs: pl.DataFrame, latencies: pl.DataFrame) -> None:
    table = apply_littles_law_to_runs({"runs": runs, "operation_latencies": latencies})
    assert not table["contradicts"].any()
    shares = dict(zip(table["resource"], table["share_in_system"], strict=True))
    # A throttled client leaves most of its threads waiting; an unthrottled one keeps nearly all in the system.
    assert shares["w2-target-select"] < 0.2
    assert shares["w2-t16-insert"] > 0.9
    # READ-MODIFY-WRITE contains its read and update: counting it too would exceed the threads.
    assert 0.9 < shares["w2-all-f"] < 1
    with pytest.raises(UsageError, match="pass a dataset"):
        apply_littles_law_to_runs(runs)  # type: ignore[arg-type]  # no such source, on purpose


def test_recorded_configurations_compare_as_they_should(runs: pl.DataFrame) -> None:
    result = stats.compare_runs(runs.filter(pl.col("records") == 60_000), by="workers", base="1")
    verdicts = {(str(c.stratum["phase"]), c.stratum["threads"], c.label_a): c.verdict for c in result}
    assert verdicts["load", 16, "2"] == "slower"
    assert verdicts["run", 4, "4"] == "slower"
    assert "faster" not in verdicts.values()
    text = format_comparison(result)
    assert "slower on its own, but not after Holm's adjustment" in text


def test_single_runs_have_a_factor_without_a_verdict() -> None:
    runs = pl.DataFrame({"workers": [1, 2], "throughput_ops_s": [100.0, 180.0]})
    (curve,) = scaling.scale_runs(runs, "workers", models=())
    assert curve.sentence() == "throughput from 1 to 2 workers: factor 1.8 (no interval, n = 1), without a verdict."

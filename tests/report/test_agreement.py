"""Commands and reports say the same of the same runs: numbers, p-values and words."""

import json
import math
from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

from citus_analysis.cli import commands
from citus_analysis.dataset import Dataset
from citus_analysis.errors import InsufficientDataError
from citus_analysis.report.comparison import comparison_panels
from citus_analysis.report.scalability import Axis, scaling_panels, state_growth
from citus_analysis.runs.selection import Selection, select_runs
from citus_analysis.scaling import scale_runs
from citus_analysis.stats import Comparison, compare_runs
from citus_analysis.stats.verdicts import CHANGE_WORDS

#: Columns that a reader pools, because set-ups were recorded with tables of several sizes.
POOLED = ("records", "scale_factor", "operations")
Said = tuple[str, float, float | None, float | None, float, float]


@pytest.fixture(scope="module")
def selection(recorded_dataset: Dataset) -> Selection:
    return select_runs(recorded_dataset)


def said(one: Comparison) -> Said:
    return (one.verdict, one.ratio.estimate, *one.ratio.ends, one.p_difference, one.p_difference_adjusted)


def place(setup: Mapping[str, object], axis: Axis, value: object) -> tuple[object, ...]:
    other = "threads" if axis == "workers" else "workers"
    return (setup["phase"], setup["workload"], setup["family"], setup["settings"], setup[other], str(value))


@pytest.mark.parametrize("axis", ["workers", "threads"])
def test_scale_compare_and_the_report_agree_on_every_series(
    recorded_dataset: Dataset, selection: Selection, axis: Axis
) -> None:
    compared = {place(one.stratum, axis, one.label_a): said(one) for one in compare_runs(recorded_dataset, by=axis)}
    scaled = {
        place(curve.stratum, axis, one.label_a): said(one)
        for curve in scale_runs(recorded_dataset, axis, models=(), resamples=0)
        for one in curve.comparisons
    }
    study = scaling_panels(selection, axis)
    setups = {
        (row["operation"], row["series"]): row
        for row in study.runs.join(selection.runs, on=["run_id", "resource"], suffix="_").iter_rows(named=True)
    }
    reported = {
        place(setups[one.stratum["operation"], one.stratum["series"]], axis, one.label_a): said(one)
        for one in study.comparisons
    }
    assert len(compared) >= 12
    assert compared == scaled == reported
    tested = [adjusted for *_, adjusted in compared.values() if not math.isnan(adjusted)]
    rows = study.relative.filter(pl.col("verdict") != "base").sort(axis)
    assert sorted(rows["p_difference_adjusted"].drop_nulls()) == sorted(tested)
    assert sorted(rows["verdict"]) == sorted(verdict for verdict, *_ in compared.values())


def test_the_words_follow_the_verdict_in_both(recorded_dataset: Dataset, selection: Selection) -> None:
    curves = scale_runs(recorded_dataset, "workers", models=(), resamples=0, only={"phase": "load"})
    for curve in curves:
        assert curve.sentence().startswith(f"throughput {CHANGE_WORDS[curve.growth.verdict]} from 1 to 4 workers: ")
    insert = str(state_growth(scaling_panels(selection, "workers"))[0])
    words = {"faster": "four workers do ", "slower": "four workers do only ", "equivalent": "stays the same within"}
    found = {curve.growth.verdict for curve in curves}
    assert all(words.get(verdict, "these runs do not show whether") in insert for verdict in found)
    assert not [words[verdict] for verdict in set(words) - found - {"faster"} if words[verdict] in insert]


def test_compare_and_the_report_agree_on_every_cell(recorded_dataset: Dataset, selection: Selection) -> None:
    def cells(found: Any) -> dict[tuple[object, ...], tuple[object, ...]]:
        return {
            (one.holm_family, one.stratum["workers"], one.stratum["threads"], one.label_a, one.label_b): tuple(
                str(value) for value in said(one)
            )
            for one in found
        }

    study = comparison_panels(selection, pool=POOLED)
    found = compare_runs(recorded_dataset, by="variant", base=study.base, pool=POOLED)
    assert len(found) >= 10
    assert cells(found) == cells(study.comparisons)


def test_monitored_and_other_runs_share_no_set_up_here(recorded_dataset: Dataset) -> None:
    # The runs that are not monitored are pgbench's; once, all were pooled over loads, workloads and table sizes.
    with pytest.raises(InsufficientDataError, match="no two levels of monitored have runs with equal") as no:
        compare_runs(recorded_dataset, by="monitored")
    assert "--pool " in str(no.value.hint)


@pytest.mark.parametrize("axis", ["workers", "threads"])
def test_scale_and_the_report_agree_on_every_point_and_model(
    recorded_dataset: Dataset, selection: Selection, axis: Axis
) -> None:
    study, panels = scale_runs(recorded_dataset, axis), scaling_panels(selection, axis)
    curves = {place(curve.stratum, axis, ""): curve for curve in study}
    shown = {place(panel.curve.stratum, axis, ""): panel for panel in panels.panels}
    assert curves.keys() == shown.keys()
    for where, panel in shown.items():
        curve = curves[where]
        assert [*map(str, curve.points)] == [*map(str, panel.curve.points)]
        assert curve.model_rows() == panel.curve.model_rows()
        assert curve.models_sentence() == panel.curve.models_sentence()
        rows = panels.relative.filter(operation=panel.operation, series=panel.series).sort(axis)
        points = [(p.size, p.speedup.estimate, *p.speedup.ends, p.efficiency.estimate) for p in curve.points]
        assert rows.select(axis, "speedup", "speedup_low", "speedup_high", "efficiency").rows() == points
        means = panels.get_means(panel).sort(axis)
        throughputs = [(p.throughput.n, p.throughput.estimate, *p.throughput.ends) for p in curve.points]
        assert means.select("n", "mean", "low", "high").rows() == throughputs
    assert panels.models.height == sum(len(curve.model_rows()) for curve in study)


def test_the_commands_print_what_the_reports_show(recorded_dataset: Dataset, selection: Selection) -> None:
    def printed(*arguments: str) -> Any:
        done = CliRunner().invoke(commands, [*arguments, "--json"], standalone_mode=False)
        assert done.exception is None, done.output
        return json.loads(done.stdout)

    folder = str(recorded_dataset.path)
    scaled = printed("scale", folder, "--x", "workers")
    panels = scaling_panels(selection, "workers")
    factors = sorted(curve["growth"]["ratio"] for curve in scaled["curves"])
    assert factors == sorted(panel.curve.growth.ratio.estimate for panel in panels.panels)
    study = comparison_panels(selection, pool=POOLED)
    compared = printed("compare", folder, "--by", "variant", "--base", study.base, "--pool", ",".join(POOLED))
    numbers = ("ratio", "ratio_low", "ratio_high", "verdict")
    rows = sorted(tuple(str(one[name]) for name in numbers) for one in compared["comparisons"])
    assert rows == sorted(tuple(map(str, row)) for row in study.ratios.select("ratio", "low", "high", "verdict").rows())


def test_an_interval_that_holds_1_and_a_verdict_never_argue(recorded_dataset: Dataset) -> None:
    for axis in ("workers", "threads"):
        for one in compare_runs(recorded_dataset, by=axis):
            if one.ratio.exists and one.verdict == "inconclusive":
                assert 1.0 in one.ratio, one.sentence()

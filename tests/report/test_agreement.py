"""Commands and reports say the same of the same runs: numbers, p-values and words."""

import math
from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest

from citus_analysis.dataset import Dataset
from citus_analysis.errors import InsufficientDataError
from citus_analysis.report.comparison import POOLED, comparison_panels
from citus_analysis.report.scalability import Axis, scaling_panels
from citus_analysis.report.scalability_text import growth_sentences
from citus_analysis.runs.selection import Selection, select_runs
from citus_analysis.scaling import scale_runs
from citus_analysis.stats import Comparison, compare_runs
from citus_analysis.stats.comparison import CHANGE_WORDS

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
    (insert, *_) = growth_sentences(scaling_panels(selection, "workers"))
    words = {CHANGE_WORDS[curve.growth.verdict] for curve in curves}
    assert all(word in insert for word in words)


def test_compare_and_the_report_agree_on_every_cell(recorded_dataset: Dataset, selection: Selection) -> None:
    def cells(found: Any) -> dict[tuple[object, ...], tuple[object, ...]]:
        return {
            (one.family, one.stratum["workers"], one.stratum["threads"], one.label_a, one.label_b): tuple(
                str(value) for value in said(one)
            )
            for one in found
        }

    study = comparison_panels(selection)
    found = compare_runs(recorded_dataset, by="variant", base=study.base, pool=POOLED)
    assert len(found) >= 10
    assert cells(found) == cells(study.comparisons)


def test_monitored_and_other_runs_share_no_set_up_here(recorded_dataset: Dataset) -> None:
    # The runs that are not monitored are pgbench's; once, all were pooled over loads, workloads and table sizes.
    with pytest.raises(InsufficientDataError, match="no two levels of monitored have runs with equal") as no:
        compare_runs(recorded_dataset, by="monitored")
    assert "--pool " in str(no.value.way_out)

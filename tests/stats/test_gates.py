"""A gate passes, fails or asks for runs; its tests are adjusted over all it checks, and hold their level."""

import math

import numpy as np
import polars as pl
import pytest
from scipy import stats

from citus_analysis.errors import InsufficientDataError
from citus_analysis.stats import compare, gate
from citus_analysis.stats.exchange import render_gate
from citus_analysis.stats.gates import format_gate
from citus_analysis.stats.intervals import compute_sample_moments
from citus_analysis.stats.verdicts import Evidence


def runs(*values: float, **columns: object) -> pl.DataFrame:
    return pl.DataFrame({"throughput_ops_s": values}).with_columns(**{n: pl.lit(v) for n, v in columns.items()})


BASE = runs(100.0, 101.0, 99.0, 100.5, 99.5)


@pytest.mark.parametrize(
    ("candidate", "check", "verdict", "code"),
    [
        (runs(99.0, 100.0, 101.0, 100.0), "equivalent", "passed", 0),
        (runs(119.0, 120.0, 121.0), "better", "passed", 0),
        (runs(101.0, 118.0, 104.0, 109.0), "not worse", "passed", 0),
        (runs(89.0, 90.0, 91.0), "worse", "failed", 1),
        (runs(80.0, 120.0, 95.0), "undecided", "undecided", 4),
        (runs(90.0), "undecided", "undecided", 4),
    ],
)
def test_every_outcome(candidate: pl.DataFrame, check: str, verdict: str, code: int) -> None:
    found = gate(candidate, BASE)
    assert ([one.verdict for one in found.checks], found.verdict, found.exit_code) == ([check], verdict, code)


def test_less_of_a_time_is_better() -> None:
    slow, fast = (frame.rename({"throughput_ops_s": "p99_us"}) for frame in (runs(110.0, 111.0, 109.0), BASE))
    assert gate(slow, fast, "p99_us").verdict == "failed"
    assert gate(fast, slow, "p99_us").checks[0].verdict == "better"


def test_not_worse_is_the_one_sided_welch_test_of_the_logarithms() -> None:
    """Of samples whose logarithms have the spread that the delta method states, to first order."""
    rng = np.random.default_rng(5)
    a, b = 100 + rng.normal(size=40), 100 + rng.normal(size=40)
    found = Evidence.from_summaries(compute_sample_moments(a), compute_sample_moments(b)).p_not_worse(0.005)
    shifted = stats.ttest_ind(np.log(a) + math.log(1.005), np.log(b), equal_var=False, alternative="greater")
    assert found == pytest.approx(shifted.pvalue, rel=0.01)


def test_the_runs_that_are_missing_decide() -> None:
    found = gate(runs(90.0, 109.0, 97.0, 106.0), runs(89.0, 111.0, 102.0, 98.0))
    (check,) = found.checks
    assert check.verdict == "undecided"
    assert check.more_of_candidate
    rng = np.random.default_rng(1)
    spread = check.comparison.evidence.spread / math.sqrt(2)
    ratio, n = check.comparison.ratio.estimate, 4 + check.more_of_candidate
    decided = [
        gate(
            runs(*(100 * ratio * np.exp(spread * rng.normal(size=n)))),
            runs(*(100 * np.exp(spread * rng.normal(size=n)))),
        )
        for _ in range(100)
    ]
    # 80 % power are planned, with a spread at its upper limit.
    assert sum(one.verdict != "undecided" for one in decided) >= 80


def test_the_side_with_fewer_runs_needs_more() -> None:
    (check,) = gate(runs(90.0, 109.0, 97.0), runs(89.0, 111.0, 102.0, 98.0, 95.0, 104.0)).checks
    assert check.more_of_candidate is not None
    assert check.more_of_baseline is not None
    assert check.more_of_candidate - check.more_of_baseline == 3


def test_commands_name_the_cells_and_their_runs() -> None:
    candidate = pl.concat(
        [runs(90.0, 109.0, 97.0, threads=4, resource="x-t4"), runs(100.0, 100.1, 99.9, threads=8)], how="diagonal"
    )
    baseline = pl.concat(
        [runs(89.0, 111.0, 102.0, threads=4, resource="y-t4"), runs(100.0, 100.1, 99.9, threads=8)], how="diagonal"
    )
    found = gate(candidate.with_columns(family=pl.lit("")), baseline.with_columns(family=pl.lit("")))
    assert [one.verdict for one in found.checks] == ["undecided", "equivalent"]
    more = found.checks[0].more_of_candidate
    assert found.commands() == [
        f"citus-analysis run EXPERIMENT.yml x-t4 --more {more} --out CANDIDATE_TREE",
        f"citus-analysis run EXPERIMENT.yml y-t4 --more {more} --out BASELINE_TREE",
    ]
    assert found.commands()[0] in format_gate(found)
    assert found.commands()[0] in render_gate(found, "markdown")


def test_one_family_over_all_metrics_and_configurations() -> None:
    tables = [runs(*values, threads=t) for t, values in ((4, (96.0, 98.0, 97.5)), (8, (100.0, 99.0, 101.0)))]
    candidate = pl.concat(tables).with_columns(p99_us=pl.col("throughput_ops_s"))
    baseline = pl.concat([BASE.with_columns(threads=t) for t in (4, 8)]).with_columns(p99_us=pl.col("throughput_ops_s"))
    found = gate(candidate, baseline, ["throughput_ops_s", "p99_us"])
    assert [one.comparison.family_size for one in found.checks] == [4] * 4
    alone = compare([96.0, 98.0, 97.5], BASE["throughput_ops_s"].to_list())
    assert found.checks[0].comparison.p_difference == pytest.approx(alone.p_difference)
    assert found.checks[0].comparison.p_difference_adjusted > alone.p_difference


def test_runs_that_failed_are_not_passed_over() -> None:
    ok, failed = ({"status": status} for status in ("ok", "failed"))
    baseline = pl.concat([BASE.with_columns(threads=t, **{n: pl.lit(v) for n, v in ok.items()}) for t in (4, 8, 16)])
    candidate = pl.concat([runs(100.0, 101.0, 99.0, threads=4, **ok), runs(1.0, threads=8, **failed)])
    found = gate(candidate, baseline)
    assert [one.verdict for one in found.checks] == ["equivalent"]
    assert found.failed_runs == ("threads=8",)
    assert found.not_measured == ("threads=16",)
    assert (found.verdict, found.exit_code) == ("undecided", 4)
    assert "no run of the candidate is ok" in render_gate(found, "junit")


@pytest.mark.parametrize("side", ["candidate", "baseline"])
def test_a_side_without_runs_is_named(side: str) -> None:
    pair = (BASE.clear(), BASE) if side == "candidate" else (BASE, BASE.clear())
    with pytest.raises(InsufficientDataError, match=f"the {side} has no run"):
        gate(*pair)


def test_nothing_in_common_is_no_pass() -> None:
    with pytest.raises(InsufficientDataError, match="no configuration in common"):
        gate(
            pl.concat([runs(1.0, 2.0, threads=t) for t in (4, 8)]),
            pl.concat([runs(1.0, 2.0, threads=t) for t in (16, 32)]),
        )


def test_iterations_of_other_times_are_no_blocks() -> None:
    """The n-th iterations of two datasets that were made one after the other share nothing."""
    (check,) = gate(
        BASE.with_columns(iteration=pl.Series([1, 2, 3, 4, 5])), BASE.with_columns(iteration=pl.Series([1, 2, 3, 4, 5]))
    ).checks
    assert check.comparison.design == "unpaired"


@pytest.mark.slow
@pytest.mark.parametrize(("ratio", "wrong"), [(1.0, "failed"), (1 / 1.05, "passed")])
def test_wrong_verdicts_are_as_rare_as_the_level_says(ratio: float, wrong: str) -> None:
    """Equal systems fail, and a system at the end of the margin passes, in at most 5 % of gates over two cells."""
    rng, count, repeats = np.random.default_rng(3), 0, 1_000
    for _ in range(repeats):
        sides = [
            pl.concat([runs(*(scale * 100 * np.exp(0.02 * rng.normal(size=5))), threads=t) for t in (4, 8)])
            for scale in (ratio, 1.0)
        ]
        count += gate(sides[0], sides[1]).verdict == wrong
    assert count / repeats <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / repeats)

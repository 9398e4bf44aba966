"""Run-to-run variance by source, on simulated runs with injected effects and on recorded ones."""

import numpy as np
import polars as pl
import pytest

from citus_analysis.bottleneck import study_bottleneck
from citus_analysis.bottleneck.run_factors import DIRECTIONS, FACTORS
from citus_analysis.bottleneck.run_variance import RunVariance, run_variance, split_run_variance
from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.schema import TABLES
from tests.report.conftest import Tables

CONFIGURATIONS, RUNS = 40, 10


def simulated(order: float, checkpoint: float, noise: float, seed: int = 3) -> RunVariance:
    """Runs whose logarithm falls by `order` a run and by `checkpoint` under checkpoints, which half of them have."""
    random = np.random.default_rng(seed)
    names = np.repeat(np.arange(CONFIGURATIONS), RUNS)
    at, under = np.tile(np.arange(RUNS), CONFIGURATIONS), random.random(names.size) < 0.5
    level = random.uniform(6, 10, CONFIGURATIONS)[names]
    logs = level - order * at - checkpoint * under + random.normal(0, noise, names.size)
    factors = {
        "order in time": at,
        "checkpoints": under.astype(float),
        "autovacuum": random.exponential(1.0, names.size),
        "balance of nodes": np.full(names.size, 0.9),
    }
    return split_run_variance(np.exp(logs), names.tolist(), factors, directions=DIRECTIONS)


def share(found: RunVariance, source: str) -> float:
    return float(found.sources.filter(source=source)["share"].item())


def test_injected_effects_have_their_shares_of_the_variance() -> None:
    found = simulated(order=0.01, checkpoint=0.08, noise=0.03)
    # Variances within a configuration of ten runs, with nine degrees of freedom.
    expected = {
        "order in time": 0.01**2 * float(np.arange(RUNS).var(ddof=1)),
        "checkpoints": 0.08**2 / 4,
        "residual": 0.03**2,
    }
    whole = sum(expected.values())
    for source, variance in expected.items():
        assert share(found, source) == pytest.approx(variance / whole, abs=0.05)
    assert found.sources["share"].sum() == pytest.approx(1, abs=1e-9)
    assert found.sd_percent == pytest.approx(100 * whole**0.5, rel=0.1)
    p = dict(found.sources.select("source", "p_value").iter_rows())
    assert max(p["order in time"], p["checkpoints"]) < 1e-6
    assert p["autovacuum"] > 0.05
    effect = found.sources.filter(source="checkpoints")["effect_percent"].item()
    assert effect == pytest.approx(100 * np.expm1(-0.08 * 0.5), abs=0.6)
    assert found.warnings == ("balance of nodes does not differ between repeated runs",)


def test_runs_needed_follow_the_spread() -> None:
    found = simulated(order=0.01, checkpoint=0.08, noise=0.03)
    # Student's t at n runs: 2.1 s / sqrt(n) <= 4.9 % with s = 5.8 %, and with s = 3 % once effects are held constant.
    assert found.runs_needed is not None
    assert found.runs_needed_without is not None
    assert 7 <= found.runs_needed <= 10
    assert found.runs_needed_without == 4
    assert found.named == ("checkpoints", "order in time")
    assert f"needs {found.runs_needed} runs, and 4 runs if the factors were held constant" in found.sentence()


def test_without_effects_nothing_is_chosen_in_19_of_20_studies() -> None:
    chosen = 0
    for seed in range(100):
        found = simulated(order=0.0, checkpoint=0.0, noise=0.03, seed=seed)
        rows = found.sources.filter(pl.col("source") != "residual")
        chosen += bool(found.named)
        assert (rows["share"] > 0).to_list() == (rows["p_value"] < 0.05).to_list()
        assert found.sources["share"].sum() == pytest.approx(1, abs=1e-9)
    # Five per cent of 100 are 5; more than 11 have a probability below 1 %.
    assert chosen <= 11


def test_a_factor_that_another_one_stands_for_has_no_share_and_is_named_beside_it() -> None:
    random = np.random.default_rng(5)
    one = random.normal(size=200)
    other = one + random.normal(0, 0.2, 200)
    rates = np.exp(0.1 * one + random.normal(0, 0.02, 200))
    found = split_run_variance(rates, ["w2"] * 200, {"other": other, "one": one}, resamples=50)
    assert found.named == ("one",)
    first, second, rest = found.sources.to_dicts()
    assert (first["source"], second["source"], rest["source"]) == ("one", "other", "residual")
    assert first["share_beyond_chance"] == pytest.approx(1 / (1 + 0.02**2 / 0.1**2), abs=0.02)
    assert (second["share"], second["goes_with"], second["p_value"] > 0.05) == (0, "one", True)
    assert first["share_low"] > 0.9
    assert second["share_high"] < 0.05
    assert "In these runs other goes with one: they cannot say which of them it is." in found.sentence()


def test_two_factors_that_occur_together_have_their_shares_if_both_matter() -> None:
    random = np.random.default_rng(5)
    one = random.normal(size=400)
    other = one + random.normal(size=400)
    found = split_run_variance(np.exp(0.1 * (one + other)), ["w2"] * 400, {"a": one, "b": other})
    assert set(found.named) == {"a", "b"}
    # Var(2 one + own) = 5: `a` first explains 4 of it, and 1/2 after `b`; the mean over both orders is 2.25.
    assert share(found, "a") == pytest.approx(2.25 / 5, abs=0.03)


def test_a_factor_that_a_faster_run_causes_is_no_source() -> None:
    random = np.random.default_rng(5)
    rates = np.exp(random.normal(0, 0.05, 60))
    checkpoints = np.log(rates) * 100 + random.normal(0, 1, 60)
    found = split_run_variance(rates, ["w2"] * 60, {"checkpoints": checkpoints}, directions=DIRECTIONS)
    assert found.named == ()
    # More runs would not show it either.
    assert found.sources.filter(source="checkpoints")["runs_to_decide"].item() is None
    assert split_run_variance(rates, ["w2"] * 60, {"checkpoints": checkpoints}).named == ("checkpoints",)


def test_a_small_effect_says_how_many_runs_would_show_it() -> None:
    random = np.random.default_rng(3)
    at = np.tile(np.arange(4.0), 5)
    rates = np.exp(-0.01 * at + random.normal(0, 0.03, 20))
    found = split_run_variance(rates, np.repeat(np.arange(5), 4).tolist(), {"order": at})
    row = found.sources.filter(source="order").row(0, named=True)
    assert row["p_value"] > 0.05
    # f^2 = 0.214 / 0.786 = 0.27: power of 80 % takes 7.85 / 0.27 = 29 degrees of freedom, beside 5 configurations.
    assert row["runs_to_decide"] == pytest.approx(29 + 5 + 2, abs=2)


def test_a_factor_that_some_configurations_lack_is_split_off_in_the_others() -> None:
    random = np.random.default_rng(7)
    under = random.random(400) < 0.5
    lacking = np.arange(400) >= 200
    rates = np.exp(-0.1 * (under & ~lacking) + random.normal(0, 0.02, 400))
    given = np.where(lacking, np.nan, under.astype(float))
    found = split_run_variance(rates, (np.arange(400) // 10).tolist(), {"checkpoints": given})
    # Half of the configurations lose 0.1 in half of their runs.
    expected = 0.5 * 0.1**2 / 4
    assert share(found, "checkpoints") == pytest.approx(expected / (expected + 0.02**2), abs=0.05)
    assert found.warnings == ("checkpoints is not known of 20 configurations, where it counts as constant",)


def test_what_cannot_be_split_is_refused() -> None:
    with pytest.raises(InsufficientDataError, match="too few to split"):
        split_run_variance([1.0, 2.0, 3.0], ["a", "a", "b"], {"order": [1, 2, 1]})
    with pytest.raises(UsageError, match="different lengths"):
        split_run_variance([1.0, 2.0], ["a"], {})
    with pytest.raises(UsageError, match="not positive"):
        split_run_variance([1.0, 0.0], ["a", "a"], {})


def test_unknown_factors_are_named() -> None:
    rows = {"resource": ["w2"] * 6, "throughput_ops_s": [100.0, 97, 93, 90, 88, 84]}
    factors = dict.fromkeys(FACTORS, [None] * 6) | {"order": [1.0, 2, 3, 4, 5, 6]}
    found = run_variance(pl.DataFrame(rows | factors), ["resource"])
    assert found.sources["source"].to_list() == ["order in time", "residual"]
    assert "checkpoints is not known of every run of any configuration" in found.warnings


def test_runs_of_unknown_work_are_no_repeats() -> None:
    """Logs of clients that name neither phase nor workload, as they lie side by side in a folder of somebody's."""
    key = {"resource": "logs", "status": "ok", "threads": 4, "drivers": 1}
    rows = [key | {"run_id": f"logs/{n}", "throughput_ops_s": 100.0 * (n + 1)} for n in range(4)]
    known = {"phase": "run", "workload": "C"}
    studies = [
        study_bottleneck(Tables(runs=TABLES["runs"].conform(pl.DataFrame([row | facts for row in rows]))))
        for facts in (known, {})
    ]
    assert [study.run_factors.height for study in studies] == [4, 0]
    assert studies[1].run_variance is None


def test_one_slow_block_is_found_that_a_trend_would_miss() -> None:
    random = np.random.default_rng(5)
    blocks, names = np.tile(np.arange(1.0, 6.0), 25), np.repeat(np.arange(25), 5)
    logs = names * 0.1 + 6 - 0.12 * (blocks == 3) + random.normal(0, 0.08, 125)
    found = split_run_variance(np.exp(logs), names.tolist(), {"order in time": blocks}, blocks=blocks).blocks
    assert found is not None
    # The same by a textbook formula: a block design of 25 treatments in five blocks.
    y = logs - np.repeat(logs.reshape(25, 5).mean(axis=1), 5)
    means = y.reshape(25, 5).mean(axis=0)
    f = (25 * (means**2).sum() / 4) / (((y**2).sum() - 25 * (means**2).sum()) / 96)
    assert found.f == pytest.approx(f)
    assert found.df == (4, 96)
    assert (found.block, found.p_value < 1e-3, found.trend_p_value > 0.05) == ("3", True, True)
    assert found.effect_percent == pytest.approx(100 * np.expm1(means[2] - np.delete(means, 2).mean()))
    assert found.interval[0] < 100 * np.expm1(-0.12) < found.interval[1]


def test_equal_blocks_are_called_different_in_one_of_twenty_studies() -> None:
    random = np.random.default_rng(6)
    blocks, names = np.tile(np.arange(1.0, 6.0), 10), np.repeat(np.arange(10), 5).tolist()
    draws = (np.exp(random.normal(6, 0.1, 50)) for _ in range(200))
    effects = [split_run_variance(values, names, {}, blocks=blocks).blocks for values in draws]
    assert 2 <= sum(one is not None and one.p_value < 0.05 for one in effects) <= 20

"""Which model the runs decide for: never one that only wins because the runs are few."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import f as f_distribution

from citus_analysis import scaling
from citus_analysis.errors import InsufficientDataError
from citus_analysis.scaling.models import MODELS

Floats = NDArray[np.float64]

INSERTS = [
    np.array([247.0, 249.9, 265.0, 229.2, 234.3]),
    np.array([308.7, 359.2, 392.7, 357.4, 317.2]),
    np.array([812.0, 897.8, 751.9, 855.5, 753.5]),
    np.array([1740.5, 1241.5, 1569.4, 1396.0, 1437.2]),
]


def truth_of(model: str, sizes: Floats, *parameters: float) -> Floats:
    return MODELS[model].curve(sizes, np.array(parameters))


def decided(model: str, parameters: tuple[float, ...], sizes: Floats, repeats: int) -> list[str | None]:
    rng = np.random.default_rng(11)
    truth = truth_of(model, sizes, *parameters)
    fits = (scaling.fit(sizes, truth * rng.normal(1, 0.03, sizes.size), resamples=2) for _ in range(repeats))
    return [one.decided for one in fits]


def test_one_run_of_four_sizes_tells_no_models_apart() -> None:
    # Once AICc, which is undefined for the richer models here, chose the line in 150 of 150.
    peaked = (100.0, 0.02, 0.98 / 3.2**2)
    assert set(decided("usl", peaked, np.array([1.0, 2, 4, 8]), 60)) == {None}
    fitted = scaling.fit([1, 2, 4, 8], [100, 185, 290, 260], resamples=50)
    assert "cannot be distinguished by these runs" in fitted.sentence()
    with pytest.raises(InsufficientDataError, match="cannot be distinguished"):
        _ = fitted.best


def test_falling_throughput_is_no_line() -> None:
    # Once: linear, with weight 1.00.
    fitted = scaling.fit([1, 2, 4, 8], [1_000, 900, 700, 420], resamples=50)
    assert fitted.candidates == ("usl",)
    assert "too few for Akaike weights" in fitted.warnings[0]
    with pytest.raises(InsufficientDataError, match="too few runs to decide whether usl is valid"):
        _ = fitted.best


def test_nested_tests_find_a_peak_among_five_sizes_with_one_run_each() -> None:
    # AICc alone chose the line in 133 of 150; F tests of nested models find the peak.
    found = decided("usl", (100.0, 0.02, 0.98 / 3.2**2), np.array([1.0, 2, 4, 8, 16]), 60)
    assert set(found) <= {None, "usl"}
    assert found.count("usl") >= 48


def test_throughput_that_outgrows_its_size_is_a_finding() -> None:
    fitted = scaling.fit([1, 2, 4, 8], [100, 230, 520, 1_150], resamples=50)
    assert fitted.candidates == ()
    assert fitted.sentence() == (
        "throughput grows faster than size, as size to the power of 1.175 (1.136 to 1.213), "
        "which none of these models can"
    )
    linear = scaling.fit(np.repeat([1, 2, 4, 8], 2), np.repeat([100, 200, 400, 800], 2) + np.tile([0, 2], 4))
    assert linear.growth is not None
    assert not linear.growth.superlinear
    assert "linear" in linear.candidates


def test_runs_on_a_curve_have_its_model() -> None:
    rng = np.random.default_rng(8)
    for _ in range(12):
        n = np.unique(np.r_[1, rng.integers(2, 200, rng.integers(5, 9))]).astype(np.float64)
        gamma, alpha, beta = 10 ** rng.uniform(0, 6), rng.uniform(0.02, 0.9), 10 ** rng.uniform(-4, -1)
        for model, parameters in MODELS.items():
            truth = (gamma, alpha, beta)[: len(parameters.parameters)]
            fitted = scaling.fit(n, truth_of(model, n, *truth), resamples=2)
            assert (fitted.decided, fitted.exact) == (model, True)
            assert list(fitted[model].parameters.values()) == pytest.approx(truth, rel=1e-4)


def test_rounded_values_of_a_curve_have_its_model() -> None:
    n = np.array([1.0, 2, 4, 8, 16, 32, 48, 64])
    assert scaling.fit(n, (100 * n / (1 + 0.05 * (n - 1))).round(2), resamples=2).decided == "amdahl"


def test_the_sentence_agrees_with_the_weights() -> None:
    # Once: "cannot be distinguished; amdahl is the simplest" beside weights of 0.03 and 0.97.
    few = scaling.fit([1, 2, 4, 8], [980, 1_850, 3_400, 5_600], resamples=50)
    assert (
        few.sentence() == "amdahl and usl cannot be distinguished by these runs; there are too few runs to weigh them"
    )
    assert np.isnan(list(few.weights.values())).all()
    rng = np.random.default_rng(2)
    for _ in range(60):
        n = np.repeat(2.0 ** np.arange(rng.integers(3, 7)), rng.integers(1, 5))
        curve = truth_of("usl", n, 100.0, rng.uniform(0, 0.3), float(rng.choice([0, 0.001, 0.01])))
        fitted = scaling.fit(n, curve * rng.lognormal(0, 0.05, n.size), resamples=2)
        if "simplest" in fitted.sentence() or "largest weight" in fitted.sentence():
            heaviest = max(fitted.weights.values())
            assert heaviest < 0.9
            simplest = min(fitted.candidates, key=lambda name: (len(MODELS[name].parameters), -fitted.weights[name]))
            said = fitted.sentence().rsplit("; ", 1)[1]
            assert ("simplest" in said) == (fitted.weights[simplest] > heaviest - 0.005)


def test_a_model_is_not_rejected_while_a_special_case_of_it_is_not() -> None:
    rng = np.random.default_rng(3)
    n = np.repeat([1.0, 2, 4, 8], 5)
    for _ in range(100):
        fitted = scaling.fit(n, 100 * n**0.97 * rng.lognormal(0, 0.08, n.size), resamples=2)
        for case, wider in (("linear", "amdahl"), ("linear", "gustafson"), ("linear", "usl"), ("amdahl", "usl")):
            assert not (wider in fitted.rejected and case not in fitted.rejected)


def test_the_recorded_inserts_follow_no_model() -> None:
    # Throughputs of `data/recorded` on 1, 2, 4 and 8 workers, five blocks each; lack of fit recomputed on logarithms.
    sizes = np.repeat([1.0, 2, 4, 8], 5)
    fitted = scaling.fit(sizes, np.concatenate(INSERTS), resamples=50)
    assert fitted.sentence() == "each model is rejected by these runs"
    logs = [np.log(one) for one in INSERTS]
    pure = sum(float(((one - one.mean()) ** 2).sum()) for one in logs)
    missed = np.concatenate(logs) - np.log(sizes)
    ratio = (float(((missed - missed.mean()) ** 2).sum()) - pure) / 3 / (pure / 16)
    assert fitted["linear"].lack_of_fit_p == pytest.approx(float(f_distribution.sf(ratio, 3, 16)), rel=1e-6)
    assert max(one.lack_of_fit_p or 1.0 for one in fitted.fits.values()) < 0.002


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [5, 6, 8])
@pytest.mark.parametrize("parameters", [(100.0, 0.02, 0.98 / 16), (100.0, 0.02, 0.002)])
def test_band_and_peak_from_one_run_per_size_cover_as_stated(sizes: int, parameters: tuple[float, ...]) -> None:
    rng = np.random.default_rng(1)
    place = np.asarray(2.0 ** np.arange(sizes), dtype=np.float64)
    truth = truth_of("usl", place, *parameters)
    peak = float(np.sqrt((1 - parameters[1]) / parameters[2]))
    at = [1, sizes // 2, sizes - 1]
    band_holds, peak_holds = [], []
    for _ in range(200):
        one = scaling.fit_usl(place, truth * rng.normal(1, 0.03, sizes), resamples=200)
        band = one.band(place[at])
        band_holds.append((band.low <= truth[at]) & (truth[at] <= band.high))
        assert one.peak is not None
        peak_holds.append(peak in one.peak.size)
    # Three standard errors of a share of 200 below 95 % are 90 %.
    assert np.mean(band_holds, axis=0).min() > 0.90
    assert np.mean(peak_holds) > 0.90


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "each"), [(5, 1), (6, 1), (8, 1), (4, 3), (6, 3), (6, 5)])
@pytest.mark.parametrize(
    ("model", "parameters"),
    [("linear", (100.0,)), ("amdahl", (100.0, 0.05)), ("gustafson", (100.0, 0.3)), ("usl", (100.0, 0.02, 0.01))],
)
def test_a_wrong_model_is_seldom_decided_for(model: str, parameters: tuple[float, ...], sizes: int, each: int) -> None:
    found = decided(model, parameters, np.repeat(2.0 ** np.arange(sizes), each), 60)
    assert sum(name not in (None, model) for name in found) <= 10


def test_a_rejected_model_has_no_peak_and_no_band_to_cite() -> None:
    rng = np.random.default_rng(3)
    sizes = np.repeat([1.0, 2, 4, 8, 16, 32], 5)
    fitted = scaling.fit(sizes, truth_of("gustafson", sizes, 1_000.0, 0.3) * rng.normal(1, 0.01, 30), resamples=100)
    assert fitted["usl"].rejected
    assert "usl" not in fitted.candidates
    assert fitted.rejected["usl"].startswith("lack of fit, p = ")
    assert fitted.best.model == "gustafson"


@pytest.mark.slow
def test_the_band_that_may_be_shown_covers_gustafsons_truth() -> None:
    # Over 650 other sets of runs (two other seeds) the band held the truth in 96 % of those that had one; the USL's
    # own, where it was not rejected, in 77 %. The bound is three standard errors of a share of 100 below 96 %.
    rng = np.random.default_rng(5)
    sizes = np.repeat([1.0, 2, 4, 8, 16, 32], 3)
    truth = truth_of("gustafson", sizes, 1_000.0, 0.3)
    held = []
    for _ in range(100):
        fitted = scaling.fit(sizes, truth * rng.normal(1, 0.03, sizes.size), resamples=200)
        if fitted.candidates:
            band = fitted.band([16.0])
            held.append(band.low[0] <= truth[sizes == 16][0] <= band.high[0])
    assert len(held) > 80
    assert np.mean(held) > 0.90


def test_the_band_of_models_that_cannot_be_told_apart_spans_all_of_theirs() -> None:
    fitted = scaling.fit([1, 2, 4, 8], [100, 185, 290, 260], resamples=50)
    assert fitted.decided is None
    assert len(fitted.candidates) > 1
    band, each = fitted.band([4.0]), [fitted[name].band([4.0]) for name in fitted.candidates]
    assert band.low[0] == min(one.low[0] for one in each)
    assert band.high[0] == max(one.high[0] for one in each)


def test_there_is_no_band_where_each_model_is_rejected() -> None:
    fitted = scaling.fit(np.repeat([1.0, 2, 4, 8], 3), np.repeat([100.0, 300, 50, 400], 3) + np.tile([0, 1, 2], 4))
    assert fitted.candidates == ()
    with pytest.raises(InsufficientDataError, match="each model is rejected"):
        fitted.band([2.0])

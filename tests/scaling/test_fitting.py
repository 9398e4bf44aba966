"""Fits of scalability models: R's usl, NIST's certified regressions, and what the data do not support."""

import math
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import curve_fit

from citus_analysis import scaling
from citus_analysis.errors import InsufficientDataError, UnknownNameError, UsageError
from citus_analysis.scaling.fitting import ModelFit, fit_model, solve, solve_many
from citus_analysis.scaling.models import AMDAHL, GUSTAFSON, LINEAR, MODELS, USL, Model
from tests.shards import count_examples

Floats: TypeAlias = NDArray[np.float64]

#: SPEC SDM91, the demonstration data of R's package usl.
LOAD = [1, 18, 36, 72, 108, 144, 216]
SDM91 = [64.9, 995.9, 1652.4, 1853.2, 1828.9, 1775.0, 1702.2]

#: Means of table 5.7 of the study.
WORKERS = [2, 4, 8, 16, 32]
THESIS = [62479, 111322, 160498, 246396, 292447]

#: NIST StRD Misra1a and Misra1d: 14 observations of dental research data.
MISRA_X = [77.6, 114.9, 141.1, 190.8, 239.9, 289.0, 332.8, 378.4, 434.8, 477.3, 536.8, 593.1, 689.1, 760.0]
MISRA_Y = [10.07, 14.73, 17.94, 23.93, 29.61, 35.18, 40.02, 44.82, 50.76, 55.05, 61.01, 66.40, 75.47, 81.78]


@pytest.fixture(scope="module")
def sdm91() -> ModelFit:
    return scaling.fit_usl(LOAD, SDM91)


def test_usl_has_the_coefficients_of_r(sdm91: ModelFit) -> None:
    assert sdm91.parameters["alpha"] == pytest.approx(0.0277285, abs=5e-8)
    assert sdm91.parameters["beta"] == pytest.approx(0.0001044, abs=5e-8)
    assert sdm91.parameters["gamma"] == pytest.approx(89.9952, abs=5e-5)


def test_usl_has_the_standard_errors_and_residuals_of_r(sdm91: ModelFit) -> None:
    assert sdm91.standard_errors["alpha"] == pytest.approx(9.122e-03, rel=1e-3)
    assert sdm91.standard_errors["beta"] == pytest.approx(1.988e-05, rel=1e-3)
    assert sdm91.standard_errors["gamma"] == pytest.approx(14.21, rel=1e-3)
    assert sdm91.sigma == pytest.approx(82.85, abs=5e-3)
    assert sdm91.df == 4
    assert sdm91.predict(LOAD).round() == pytest.approx([90, 1078, 1541, 1850, 1879, 1822, 1646])


def test_usl_peaks_where_r_says(sdm91: ModelFit) -> None:
    assert sdm91.peak is not None
    assert sdm91.peak.size.estimate == pytest.approx(96.52, abs=5e-3)
    # The curve misses the smallest size by 28 %; with one run per size that may be the spread of all of them.
    assert not sdm91.peak.supported
    assert sdm91.peak.words.startswith("the data do not support a peak: its 95 % interval has no upper end")
    assert sdm91.peak.throughput.estimate == pytest.approx(float(sdm91.predict(96.52)[0]))


def test_amdahls_form_solves_nist_misra1d() -> None:
    # Misra1d is y = b1 b2 x / (1 + b2 x); with b2 = alpha / (1 - alpha) it is Amdahl's curve.
    fitted = fit_model(AMDAHL, MISRA_X, MISRA_Y)
    alpha, gamma = fitted.parameters["alpha"], fitted.parameters["gamma"]
    b2 = alpha / (1 - alpha)
    assert b2 == pytest.approx(3.0227324449e-04, rel=1e-8)
    assert gamma / (1 - alpha) / b2 == pytest.approx(4.3736970754e02, rel=1e-8)
    assert float(fitted.residuals @ fitted.residuals) == pytest.approx(5.6419295283e-02, rel=1e-9)
    assert fitted.sigma == pytest.approx(6.8568272111e-02, rel=1e-9)
    # Delta method: db2 / dalpha = 1 / (1 - alpha)^2.
    assert fitted.standard_errors["alpha"] / (1 - alpha) ** 2 == pytest.approx(2.9334354479e-06, rel=1e-6)


def test_the_solver_certifies_on_nist_misra1a() -> None:
    def curve(n: Floats, p: Floats) -> Floats:
        b1, b2 = np.moveaxis(p, -1, 0)[..., None]
        value: Floats = b1 * (1 - np.exp(-b2 * n))
        return value

    def jacobian(n: Floats, p: Floats) -> Floats:
        b1, b2 = np.moveaxis(p, -1, 0)[..., None]
        return np.stack([1 - np.exp(-b2 * n), b1 * n * np.exp(-b2 * n)], axis=-1)

    misra = Model(
        "misra1a",
        ("b1", "b2"),
        curve,
        jacobian,
        lambda *_: np.array([500.0, 0.0001]),  # NIST's harder start
    )
    fitted = fit_model(misra, MISRA_X, MISRA_Y, resamples=20)
    assert fitted.parameters["b1"] == pytest.approx(2.3894212918e02, rel=1e-8)
    assert fitted.parameters["b2"] == pytest.approx(5.5015643181e-04, rel=1e-8)
    assert fitted.standard_errors["b1"] == pytest.approx(2.7070075241, rel=1e-6)
    assert fitted.standard_errors["b2"] == pytest.approx(7.2668688436e-06, rel=1e-6)


def test_the_linear_model_solves_nist_noint1() -> None:
    fitted = fit_model(LINEAR, range(60, 71), range(130, 141))
    assert fitted.parameters["gamma"] == pytest.approx(2.07438016528926, rel=1e-12)
    assert fitted.standard_errors["gamma"] == pytest.approx(0.165289256198347e-01, rel=1e-10)
    assert fitted.sigma == pytest.approx(3.56753034006338, rel=1e-10)


def test_gustafson_is_a_straight_line() -> None:
    n, x = np.array([1.0, 2, 4, 8, 16]), np.array([100.0, 184, 350, 700, 1360])
    slope, intercept = np.polyfit(n, x, 1)
    fitted = fit_model(GUSTAFSON, n, x)
    gamma, alpha = fitted.parameters["gamma"], fitted.parameters["alpha"]
    assert gamma == pytest.approx(slope + intercept)
    assert gamma * (1 - alpha) == pytest.approx(slope)


def test_many_refits_equal_single_fits() -> None:
    n, x = np.array(LOAD, float), np.array(SDM91)
    noisy = x * (1 + 0.05 * np.random.default_rng(1).normal(size=(40, 7)))
    for model in MODELS.values():
        together = solve_many(model, n, noisy, solve(model, n, x))
        single = np.array([solve(model, n, row) for row in noisy])
        np.testing.assert_allclose(together, single, rtol=1e-6, atol=1e-12)


def test_a_bound_binds_exactly_and_is_named() -> None:
    fitted = scaling.fit_usl([1, 2, 4, 8], [100, 205, 390, 800])
    assert fitted.parameters["alpha"] == fitted.parameters["beta"] == 0
    assert math.isnan(fitted.standard_errors["beta"])
    assert "alpha is at its bound 0: no contention can be seen" in fitted.warnings
    assert fitted.peak is not None
    assert fitted.peak.words.startswith("the data do not support a peak")
    assert fitted.limit == math.inf


def test_flat_throughput_is_not_reported_as_growth() -> None:
    rng = np.random.default_rng(4)
    n = np.repeat([1, 2, 4], 5)
    fitted = scaling.fit(n, rng.normal(5_000, 150, 15))
    assert fitted["amdahl"].parameters["alpha"] > 0.9
    assert fitted.weights["linear"] < 1e-6
    peak = fitted["usl"].peak
    assert peak is not None
    assert not peak.supported
    assert peak.words.startswith("the data do not support a peak")


def test_the_true_model_wins() -> None:
    rng = np.random.default_rng(7)
    n = np.repeat([1.0, 2, 4, 8, 16, 32], 5)
    truth = USL.curve(n, np.array([1_000, 0.05, 0.002]))
    fitted = scaling.fit(n, truth * rng.normal(1, 0.02, n.size))
    assert fitted.best.model == "usl"
    assert sum(fitted.weights.values()) == pytest.approx(1)
    peak = fitted.best.peak
    assert peak is not None
    assert peak.supported
    assert math.sqrt(0.95 / 0.002) in peak.size
    at_its_own_peak = [
        float(USL.curve(np.array([math.sqrt((1 - a) / b)]), np.array([g, a, b]))[0])
        for g, a, b in fitted.best.replicates
    ]
    assert (peak.throughput.low, peak.throughput.high) == pytest.approx(np.quantile(at_its_own_peak, [0.025, 0.975]))
    lack = fitted["amdahl"].lack_of_fit_p
    assert lack is not None
    assert lack < 0.001
    assert any("lack of fit" in note for note in fitted["amdahl"].warnings)


def test_bands_cover_the_truth_as_often_as_they_state() -> None:
    rng = np.random.default_rng(11)
    n = np.repeat([1.0, 2, 4, 8, 16, 32], 3)
    truth = np.array([1_000, 0.05, 0.002])
    exact = USL.curve(np.unique(n), truth)
    covered = []
    for seed in range(60):
        noisy = USL.curve(n, truth) * rng.normal(1, 0.02, n.size)
        band = fit_model(USL, n, noisy, resamples=200, seed=seed).band(np.unique(n))
        covered.append((band.low <= exact) & (exact <= band.high))
    assert 0.91 < np.mean(covered) < 0.98


def test_usl_on_the_studys_table() -> None:
    fitted = scaling.fit(WORKERS, THESIS)
    theirs, _ = curve_fit(
        lambda n, g, a, b: g * n / (1 + a * (n - 1) + b * n * (n - 1)),
        WORKERS,
        THESIS,
        p0=[3e4, 0.1, 1e-3],
        bounds=(0, [math.inf, 1, math.inf]),
    )
    assert list(fitted["usl"].parameters.values()) == pytest.approx(theirs, rel=1e-4)
    assert fitted.warnings == ("5 runs: too few for Akaike weights of the models that they do not reject",)
    assert fitted.sentence().endswith("there are too few runs to weigh them")
    assert "one run per size" in fitted["usl"].warnings[-1]


def test_no_extrapolation_beyond_twice_the_range_unless_forced(sdm91: ModelFit) -> None:
    assert sdm91.predict(432).size == 1
    with pytest.raises(UsageError, match="beyond twice the largest measured size"):
        sdm91.predict(433)
    assert sdm91.predict(1000, force=True)[0] == pytest.approx(
        89.9952 * 1000 / (1 + 0.0277285 * 999 + 104.26), rel=1e-3
    )
    with pytest.raises(UsageError, match="twice"):
        sdm91.band([100, 500])


@settings(max_examples=count_examples(25), deadline=None)
@given(st.floats(1e-3, 1e6), st.sampled_from(["amdahl", "gustafson", "usl"]))
def test_units_change_gamma_alone(factor: float, name: str) -> None:
    model = MODELS[name]
    plain, scaled = (solve(model, np.array(WORKERS, float), np.array(THESIS, float) * unit) for unit in (1.0, factor))
    assert scaled[0] == pytest.approx(plain[0] * factor, rel=1e-6)
    assert scaled[1:] == pytest.approx(plain[1:], rel=1e-5, abs=1e-12)


def test_results_are_repeatable() -> None:
    first, second = (scaling.fit_usl(WORKERS, THESIS, resamples=100) for _ in range(2))
    assert first.intervals == second.intervals


def test_what_cannot_be_fitted_is_refused() -> None:
    with pytest.raises(InsufficientDataError, match="2 sizes cannot determine the 3 parameters of usl"):
        scaling.fit_usl([1, 2], [1, 2])
    with pytest.raises(UnknownNameError, match="did you mean 'amdahl'"):
        scaling.fit([1, 2, 3], [1, 2, 3], ["amdhal"])
    with pytest.raises(InsufficientDataError, match="too few runs to decide whether usl is valid"):
        _ = scaling.fit([1, 2, 4], [1, 2, 3], ["usl"]).best

"""Which model the runs decide for: never one that only wins because the runs are few."""

import numpy as np
import pytest
from numpy.typing import NDArray

from citus_analysis import scaling
from citus_analysis.errors import InsufficientDataError
from citus_analysis.scaling.models import MODELS

Floats = NDArray[np.float64]


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
    assert set(decided("usl", peaked, np.array([1.0, 2, 4, 8]), 150)) == {None}
    fitted = scaling.fit([1, 2, 4, 8], [100, 185, 290, 260], resamples=50)
    assert "cannot be distinguished by these runs" in fitted.sentence()
    with pytest.raises(InsufficientDataError, match="cannot be distinguished"):
        _ = fitted.best


def test_falling_throughput_is_no_line() -> None:
    # Once: linear, with weight 1.00.
    fitted = scaling.fit([1, 2, 4, 8], [1_000, 900, 700, 420], resamples=50)
    assert fitted.candidates == ("usl",)
    assert max(fitted.weights, key=lambda name: fitted.weights[name]) == "usl"
    assert "weights follow AIC" in fitted.warnings[0]
    with pytest.raises(InsufficientDataError, match="too few runs to decide whether usl is valid"):
        _ = fitted.best


def test_nested_tests_find_a_peak_among_five_sizes_with_one_run_each() -> None:
    # AICc alone chose the line in 133 of 150; F tests of nested models find the peak.
    found = decided("usl", (100.0, 0.02, 0.98 / 3.2**2), np.array([1.0, 2, 4, 8, 16]), 150)
    assert set(found) <= {None, "usl"}
    assert found.count("usl") >= 120


def test_throughput_that_outgrows_its_size_is_said() -> None:
    fitted = scaling.fit([1, 2, 4, 8], [100, 230, 520, 1_150], resamples=50)
    assert fitted["usl"].warnings[0].startswith("throughput grows faster than size (as size to the power of 1.17, p = ")
    linear = scaling.fit(np.repeat([1, 2, 4, 8], 2), np.repeat([100, 200, 400, 800], 2) + np.tile([0, 2], 4))
    assert not any("faster than size" in note for note in linear["usl"].warnings)


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

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
    assert "cannot be told apart by these runs" in fitted.sentence()
    with pytest.raises(InsufficientDataError, match="cannot be told apart"):
        _ = fitted.best


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
    from citus_analysis.plots.published import _banded

    rng = np.random.default_rng(5)
    sizes = np.repeat([1.0, 2, 4, 8, 16, 32], 3)
    truth = truth_of("gustafson", sizes, 1_000.0, 0.3)
    held = []
    for _ in range(100):
        shown = _banded(scaling.fit(sizes, truth * rng.normal(1, 0.03, sizes.size), resamples=200))
        if shown is not None:
            band = shown.band([16.0])
            held.append(band.low[0] <= truth[sizes == 16][0] <= band.high[0])
    assert len(held) > 80
    assert np.mean(held) > 0.88

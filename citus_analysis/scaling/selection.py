"""Choose among fitted models: the models that the runs do not reject, and the one that they decide for, if any.

A model is *rejected* if it misses the means of repeated runs (lack of fit), or if a model with more parameters fits
significantly better, by an F test, which is exact for nested models (linear in Amdahl in USL) and approximate for
Gustafson's. Among the others the Akaike weights decide, if one of them reaches 0.9. The small-sample correction of AICc
is omitted if it is unfavourable to a rival: it grows without bound for few runs, and would then choose the model with
fewer parameters regardless of the data. So a model is never preferred to one that contains it and is not rejected. If
the tests reject all models but one, which has two degrees of freedom or more, it is chosen without weights.

References:
    Burnham, K. P. and Anderson, D. R. (2002). Model Selection and Multimodel Inference, sections 2.4 and 2.6.
    Draper, N. R. and Smith, H. (1998). Applied Regression Analysis, sections 2.1 and 6.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from citus_analysis.scaling.fits import ALPHA, ModelFit
from citus_analysis.stats.estimate._student import f_tail

#: Weight from which on a model is chosen.
_DECISIVE: Final = 0.9
#: Fewest degrees of freedom of a model that is chosen because all others are rejected.
_TESTED: Final = 2
#: Keeps the logarithm of a perfect fit finite, and the exponential of its distance.
_TINY: Final = 1e-300
_FARTHEST: Final = 1_000.0


def rejections(fits: Mapping[str, ModelFit]) -> dict[str, str]:
    """Models that the runs contradict, each with the reason.

    Example:
        >>> from citus_analysis.scaling import fit
        >>> fitted = fit([1, 2, 4, 8] * 3, [100, 200, 400, 150, 101, 199, 404, 148, 99, 203, 398, 152], resamples=50)
        >>> sorted(rejections(fitted.fits))
        ['amdahl', 'gustafson', 'linear', 'usl']
    """
    found = {}
    for name, one in fits.items():
        if one.rejected:
            found[name] = f"lack of fit, p = {one.lack_of_fit_p:.2g}"
            continue
        better = {other: _p_of_better(one, rival) for other, rival in fits.items()}
        rival, p = min(better.items(), key=lambda item: item[1])
        if p < ALPHA:
            found[name] = f"{rival} fits better, p = {p:.2g}"
    return found


def _p_of_better(poorer: ModelFit, richer: ModelFit) -> float:
    """P-value of the F test that the richer model fits no better; 1 if it is not richer or has no freedom left."""
    extra, freedom = len(richer.parameters) - len(poorer.parameters), richer.degrees_of_freedom
    if extra <= 0 or freedom <= 0:
        return 1.0
    gained, left = poorer.rss - richer.rss, richer.rss
    if gained <= 0:
        return 1.0
    return f_tail(gained / extra / (left / freedom), extra, freedom) if left > 0 else 0.0


def akaike_weights(fits: Mapping[str, ModelFit]) -> tuple[dict[str, float], tuple[str, ...]]:
    """Akaike weights of the models, and warnings.

    The weights follow AICc if it is finite for all models. With few runs it is infinite for models with more
    parameters, and would give all weight to the simplest model regardless of the data; then AIC is used for all.

    Example:
        >>> from citus_analysis.scaling import fit
        >>> fitted = fit([1, 2, 4, 8], [1000, 900, 700, 420], resamples=50)
        >>> max(fitted.weights, key=fitted.weights.get), fitted.warnings[0].split(": ")[1]
        ('usl', 'the weights follow AIC, which favours richer models')
    """
    scores = np.array([one.aicc for one in fits.values()])
    missing = [name for name, score in zip(fits, scores, strict=True) if not math.isfinite(score)]
    notes: tuple[str, ...] = ()
    if missing:
        runs = len(next(iter(fits.values())).sizes)
        scores = np.array([runs * math.log(max(one.rss, _TINY)) + 2 * len(one.parameters) for one in fits.values()])
        notes = (f"too few runs for AICc of {', '.join(missing)}: the weights follow AIC, which favours richer models",)
    relative = np.exp(-0.5 * np.minimum(scores - scores.min(), _FARTHEST))
    weights = relative / relative.sum()
    return dict(zip(fits, weights.tolist(), strict=True)), notes


def decide_model(fits: Mapping[str, ModelFit], rejected: Mapping[str, str]) -> str | None:
    """The model that the runs decide for; None if they do not decide."""
    left = {name: one for name, one in fits.items() if name not in rejected}
    if len(left) == 1 < len(fits):
        ((only, one),) = left.items()
        if one.degrees_of_freedom >= _TESTED:
            return only
    ranked = [name for name, one in left.items() if math.isfinite(one.aicc)]
    if not ranked:
        return None
    best = min(ranked, key=lambda name: left[name].aicc)
    rivals = sum(math.exp(-0.5 * _distance(one, left[best])) for name, one in left.items() if name != best)
    return best if 1 / (1 + rivals) >= _DECISIVE else None


def _distance(rival: ModelFit, best: ModelFit) -> float:
    """The difference of the rival's criterion from the best model's, by AIC or AICc, the smaller of the two."""
    runs = len(best.sizes)
    fit = runs * math.log(max(rival.rss, _TINY) / max(best.rss, _TINY))
    plain = fit + 2 * (len(rival.parameters) - len(best.parameters))
    return max(min(plain, rival.aicc - best.aicc), -_FARTHEST)

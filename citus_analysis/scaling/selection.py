"""Choose among fitted models: the models that the runs do not reject, and the one that they decide for, if any.

All models are judged by the same residuals, those of the logarithms.

A model is *rejected* if it misses the means of repeated runs (lack of fit), or if a model with more parameters fits
significantly better (F tests, exact for nested models, linear in Amdahl in USL, and approximate for Gustafson's). It is
not rejected if a special case of it is not: linear throughput is Amdahl's law with alpha = 0, so that runs which do not
contradict a line do not contradict Amdahl either, although his law has fewer degrees of freedom left. If throughput
grows faster than size, all models are rejected, as none can.

Among the others the Akaike weights decide, if one of them reaches 0.9. The small-sample correction of AICc is omitted
if it is unfavourable to a rival of the best model: it grows without bound for few runs, and would then choose the model
with fewer parameters regardless of the data. So a model is never preferred to one that contains it and is not rejected.
The weights are those by which the models are chosen. There are none if AICc is undefined for a model that is not
rejected (fewer runs than its parameters plus 3). If the tests reject all models but one, which has two degrees of
freedom or more, it is chosen without weights. Runs that lie on a curve exactly have that model.

References:
    Burnham, K. P. and Anderson, D. R. (2002). Model Selection and Multimodel Inference, sections 2.4 and 2.6.
    Draper, N. R. and Smith, H. (1998). Applied Regression Analysis, sections 2.1 and 6.1.
    Gabriel, K. R. (1969). Simultaneous test procedures. Annals of Mathematical Statistics 40 (coherence).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from citus_analysis.scaling.fits import ALPHA, EXACT, Growth, ModelFit
from citus_analysis.stats.estimate._student import f_tail

#: Weight from which on a model is chosen.
_DECISIVE: Final = 0.9
#: Fewest degrees of freedom of a model that is chosen because all others are rejected.
_TESTED: Final = 2
#: Model -> its special cases.
_CONTAINS: Final[Mapping[str, tuple[str, ...]]] = {
    "amdahl": ("linear",),
    "gustafson": ("linear",),
    "usl": ("linear", "amdahl"),
}


def rejections(fits: Mapping[str, ModelFit], growth: Growth | None = None) -> dict[str, str]:
    """Models that the runs contradict, each with the reason.

    Example:
        >>> from citus_analysis.scaling import fit
        >>> fitted = fit([1, 2, 4, 8] * 3, [100, 200, 400, 150, 101, 199, 404, 148, 99, 203, 398, 152], resamples=50)
        >>> sorted(rejections(fitted.fits))
        ['amdahl', 'gustafson', 'linear', 'usl']
    """
    if growth is not None and growth.superlinear:
        reason = f"throughput grows faster than size, p = {growth.p_proportional:.2g}"
        return dict.fromkeys(fits, reason)
    found = {}
    for name, one in fits.items():
        if one.exact:
            continue
        if one.rejected:
            found[name] = f"lack of fit, p = {one.lack_of_fit_p:.2g}"
            continue
        richer = [other for other, rival in fits.items() if len(rival.parameters) > len(one.parameters)]
        better = {other: _p_of_better(one, fits[other]) for other in richer}
        rival, p = min(better.items(), key=lambda item: item[1], default=("", 1.0))
        if p < ALPHA:
            found[name] = f"{rival} fits better, p = {p:.2g}"
    for name, cases in _CONTAINS.items():
        if name in found and any(case in fits and case not in found for case in cases):
            del found[name]
    return found


def _p_of_better(poorer: ModelFit, richer: ModelFit) -> float:
    """P-value of the F test that the richer model fits no better; 1 if it has no freedom left."""
    extra, freedom = len(richer.parameters) - len(poorer.parameters), richer.degrees_of_freedom
    if freedom <= 0:
        return 1.0
    # Residuals of rounding are no evidence for the model that happens to round better.
    rounding = poorer.sizes.size * EXACT**2
    gained, left = poorer.rss - richer.rss, max(richer.rss, rounding)
    if gained <= rounding:
        return 1.0
    return f_tail(gained / extra / (left / freedom), extra, freedom)


def weigh_models(fits: Mapping[str, ModelFit], rejected: Mapping[str, str]) -> dict[str, float]:
    """Akaike weights of the models that the runs do not reject; 0 for the others, nan for all with too few runs.

    Example:
        >>> from citus_analysis.scaling import fit
        >>> fitted = fit([1, 2, 4, 8, 16, 32], [100, 190, 345, 590, 870, 1_150], resamples=50)
        >>> {name: round(weight, 2) for name, weight in fitted.weights.items()}
        {'linear': 0.0, 'amdahl': 0.5, 'gustafson': 0.0, 'usl': 0.5}
    """
    left = {name: one for name, one in fits.items() if name not in rejected}
    if not left or not all(math.isfinite(one.aicc) for one in left.values()):
        return dict.fromkeys(fits, math.nan)
    best = min(left.values(), key=lambda one: one.aicc)
    likely = {name: math.exp(-0.5 * _distance(one, best)) for name, one in left.items()}
    whole = sum(likely.values())
    return {name: likely.get(name, 0.0) / whole for name in fits}


def _distance(rival: ModelFit, best: ModelFit) -> float:
    """The difference of the rival's criterion from the best model's, by AIC or AICc, the smaller of the two."""
    runs = len(best.sizes)
    rounding = runs * EXACT**2
    fit = runs * math.log(max(rival.rss, rounding) / max(best.rss, rounding))
    plain = fit + 2 * (len(rival.parameters) - len(best.parameters))
    return float(np.clip(plain, 0.0, rival.aicc - best.aicc))


def decide_model(
    fits: Mapping[str, ModelFit], rejected: Mapping[str, str], weights: Mapping[str, float]
) -> tuple[str | None, bool]:
    """The model that the runs decide for, None if they do not decide; and whether they lie on its curve."""
    left = {name: one for name, one in fits.items() if name not in rejected}
    exact = {name: len(one.parameters) for name, one in left.items() if one.exact}
    simplest = [name for name, count in exact.items() if count == min(exact.values())]
    if len(simplest) == 1:
        return simplest[0], True
    if len(left) == 1 < len(fits):
        ((only, one),) = left.items()
        if one.degrees_of_freedom >= _TESTED:
            return only, False
    return next((name for name, weight in weights.items() if weight >= _DECISIVE), None), False

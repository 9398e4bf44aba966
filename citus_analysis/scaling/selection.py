"""Which of several fitted models the runs allow, and whether they decide for one.

A model is *rejected* where it misses the means of repeated runs (lack of fit), or where a model with more parameters
fits significantly better: an F test, exact for nested models (linear in Amdahl in USL) and a guide for Gustafson's.
Among the others the Akaike weights decide, if one of them reaches 0.9. The small-sample correction of AICc is left out
where it speaks against a rival: it grows without bound as the runs get few, and would then choose the poorer model
whatever was measured. A model is so never decided for over one that contains it and is not rejected.

References:
    Burnham, K. P. and Anderson, D. R. (2002). Model Selection and Multimodel Inference, sections 2.4 and 2.6.
    Draper, N. R. and Smith, H. (1998). Applied Regression Analysis, sections 2.1 and 6.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from scipy import stats as distributions

from citus_analysis.scaling.fits import ALPHA, ModelFit

__all__ = ["decide_model", "rejections"]

#: Weight at which one model is decided for.
_DECISIVE: Final = 0.9
#: Keeps the logarithm of a perfect fit finite, and the exponential of its distance.
_TINY: Final = 1e-300
_FARTHEST: Final = 1_000.0


def rejections(fits: Mapping[str, ModelFit]) -> dict[str, str]:
    """Models that the runs speak against, each with the reason.

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
    """P-value of the F test that the richer model fits no better; 1 where it is not richer or nothing is left."""
    extra, freedom = len(richer.parameters) - len(poorer.parameters), richer.degrees_of_freedom
    if extra <= 0 or freedom <= 0:
        return 1.0
    gained, left = poorer.rss - richer.rss, richer.rss
    if gained <= 0:
        return 1.0
    return float(distributions.f.sf(gained / extra / (left / freedom), extra, freedom)) if left > 0 else 0.0


def decide_model(fits: Mapping[str, ModelFit], rejected: Mapping[str, str]) -> str | None:
    """The model that the runs decide for; None where they do not."""
    left = {name: one for name, one in fits.items() if name not in rejected}
    ranked = [name for name, one in left.items() if math.isfinite(one.aicc)]
    if not ranked:
        return None
    best = min(ranked, key=lambda name: left[name].aicc)
    rivals = sum(math.exp(-0.5 * _distance(one, left[best])) for name, one in left.items() if name != best)
    return best if 1 / (1 + rivals) >= _DECISIVE else None


def _distance(rival: ModelFit, best: ModelFit) -> float:
    """How much worse the rival's criterion is: by AIC or by AICc, whichever favours it more."""
    runs = len(best.sizes)
    fit = runs * math.log(max(rival.rss, _TINY) / max(best.rss, _TINY))
    plain = fit + 2 * (len(rival.parameters) - len(best.parameters))
    return max(min(plain, rival.aicc - best.aicc), -_FARTHEST)

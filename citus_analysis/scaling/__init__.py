"""Scalability: relative measures with intervals, models, operational laws and queueing networks.

- relative: `speedup`, `efficiency`, `psi`, all at once `relative_scaling`;
- models: `fit`, `fit_usl`, `fit_model` with `MODELS` (linear, Amdahl, Gustafson, USL).
"""

from citus_analysis.scaling.fitting import fit, fit_model, fit_usl
from citus_analysis.scaling.models import AMDAHL, GUSTAFSON, LINEAR, MODELS, USL, Model
from citus_analysis.scaling.relative import ScalePoint, efficiency, psi, relative_scaling, speedup
from citus_analysis.scaling.results import Band, ModelFit, Peak, ScalingFit

__all__ = [
    "AMDAHL",
    "GUSTAFSON",
    "LINEAR",
    "MODELS",
    "USL",
    "Band",
    "Model",
    "ModelFit",
    "Peak",
    "ScalePoint",
    "ScalingFit",
    "efficiency",
    "fit",
    "fit_model",
    "fit_usl",
    "psi",
    "relative_scaling",
    "speedup",
]

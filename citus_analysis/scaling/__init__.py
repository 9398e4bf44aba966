"""Scalability: relative measures with intervals, models, operational laws and queueing networks.

- relative: `speedup`, `efficiency`, `psi`, all at once `relative_scaling`;
- models: `fit`, `fit_usl`, `fit_model` with `MODELS` (linear, Amdahl, Gustafson, USL);
- tables of runs: `scale_runs`, `format_scaling`, `little_runs`, `latency_by_load`;
- laws: `little`, `utilisation`, `service_demand`, `asymptotic_bounds`;
- networks: `mva`, `mva_multiclass`, and with stations of all kinds `solve_closed`;
- gains without a part of the response time: `blocked_time` on a dataset, `what_if` on times of runs;
- throughput after other changes, and curves of networks and models: `predicted_changes` (`change_table`),
  `throughput_curves`;
- demands of an operation on each node: `resource_demands`, `first_to_saturate`, `load_bounds`; gains of all set-ups of
  a dataset: `predictions`;
- costs: `cost_figures`, of all configurations `configuration_costs`.
"""

from citus_analysis.core.displays import public
from citus_analysis.scaling.cost import CostFigures, configuration_costs, cost_figures
from citus_analysis.scaling.curves import ScalingCurve, ScalingStudy
from citus_analysis.scaling.fits import Band, ModelFit, Peak, ScalingFit
from citus_analysis.scaling.fitting import fit, fit_model, fit_usl
from citus_analysis.scaling.load import latency_by_load
from citus_analysis.scaling.models import AMDAHL, GUSTAFSON, LINEAR, MODELS, USL, Model
from citus_analysis.scaling.queueing.blocked import blocked_time
from citus_analysis.scaling.queueing.laws import (
    Bounds,
    Little,
    asymptotic_bounds,
    little,
    little_runs,
    service_demand,
    utilisation,
)
from citus_analysis.scaling.queueing.mva import NetworkSolution, mva, mva_multiclass
from citus_analysis.scaling.queueing.networks import ClosedSolution, Station, solve_closed
from citus_analysis.scaling.queueing.resource_demands import (
    first_to_saturate,
    load_bounds,
    predictions,
    resource_demands,
)
from citus_analysis.scaling.queueing.system_changes import Predicted, change_table, predicted_changes, throughput_curves
from citus_analysis.scaling.queueing.whatif import TOLERATED_PERCENT, what_if
from citus_analysis.scaling.queueing.whatif_results import Gain, HeldOut, Placement, RunTimes, WhatIf
from citus_analysis.scaling.relative import ScalePoint, efficiency, psi, relative_scaling, speedup
from citus_analysis.scaling.run_curves import scale_runs
from citus_analysis.scaling.study_text import format_scaling

__all__ = [
    "AMDAHL",
    "GUSTAFSON",
    "LINEAR",
    "MODELS",
    "TOLERATED_PERCENT",
    "USL",
    "Band",
    "Bounds",
    "ClosedSolution",
    "CostFigures",
    "Gain",
    "HeldOut",
    "Little",
    "Model",
    "ModelFit",
    "NetworkSolution",
    "Peak",
    "Placement",
    "Predicted",
    "RunTimes",
    "ScalePoint",
    "ScalingCurve",
    "ScalingFit",
    "ScalingStudy",
    "Station",
    "WhatIf",
    "asymptotic_bounds",
    "blocked_time",
    "change_table",
    "configuration_costs",
    "cost_figures",
    "efficiency",
    "first_to_saturate",
    "fit",
    "fit_model",
    "fit_usl",
    "format_scaling",
    "latency_by_load",
    "little",
    "little_runs",
    "load_bounds",
    "mva",
    "mva_multiclass",
    "predicted_changes",
    "predictions",
    "psi",
    "relative_scaling",
    "resource_demands",
    "scale_runs",
    "service_demand",
    "solve_closed",
    "speedup",
    "throughput_curves",
    "utilisation",
    "what_if",
]

__dir__ = public(__all__)

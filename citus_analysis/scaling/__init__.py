"""Scalability: relative measures with intervals, models, operational laws and queueing networks.

- relative: `speedup`, `efficiency`; models: `fit` (linear, Amdahl, Gustafson, USL), `fit_usl`;
- tables of runs: `scale_runs`; costs: `configuration_costs`;
- laws: `little`, `utilisation`, `asymptotic_bounds`;
- networks: `mva`, `mva_multiclass`, and with stations of all kinds `solve_closed`;
- gains without a part of the response time: `blocked_time` on a dataset, `what_if` on times of runs;
- throughput after other changes, and curves of networks and models: `predicted_changes`, `throughput_curves`.
"""

from citus_analysis.public_names import public
from citus_analysis.scaling.cost import configuration_costs
from citus_analysis.scaling.fitting import fit, fit_usl
from citus_analysis.scaling.queueing.blocked import blocked_time
from citus_analysis.scaling.queueing.laws import asymptotic_bounds, little, utilisation
from citus_analysis.scaling.queueing.mva import mva, mva_multiclass
from citus_analysis.scaling.queueing.networks import Station, solve_closed
from citus_analysis.scaling.queueing.system_changes import predicted_changes, throughput_curves
from citus_analysis.scaling.queueing.whatif import what_if
from citus_analysis.scaling.relative import efficiency, speedup
from citus_analysis.scaling.run_curves import scale_runs

__all__ = [
    "Station",
    "asymptotic_bounds",
    "blocked_time",
    "configuration_costs",
    "efficiency",
    "fit",
    "fit_usl",
    "little",
    "mva",
    "mva_multiclass",
    "predicted_changes",
    "scale_runs",
    "solve_closed",
    "speedup",
    "throughput_curves",
    "utilisation",
    "what_if",
]

__dir__, __getattr__ = public(__name__, __all__)

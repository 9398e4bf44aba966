"""Scalability: relative measures with intervals, models, operational laws and queueing networks.

- relative: `speedup`, `efficiency`; models: `fit` (linear, Amdahl, Gustafson, USL), `fit_usl`;
- tables of runs: `scale_runs`; costs: `configuration_costs`;
- laws: `little`, `utilisation`, `asymptotic_bounds`;
- networks: `mva`, `mva_multiclass`, and with stations of all kinds `solve_closed`;
- gains without a part of the response time: `blocked_time` on a dataset, `what_if` on times of runs;
- throughput after other changes, and curves of networks and models: `predicted_changes`, `throughput_curves`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

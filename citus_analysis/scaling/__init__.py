"""Scalability: relative measures with intervals, models, operational laws and queueing networks.

- relative: `speedup`, `efficiency`; models: `fit` (linear, Amdahl, Gustafson, USL), `fit_usl`;
- tables of runs: `scale_runs`; costs: `configuration_costs`;
- laws: `little`, `utilisation`, `asymptotic_bounds`;
- closed networks: `mva`; what a change would gain, predicted from traced statements: `what_if`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

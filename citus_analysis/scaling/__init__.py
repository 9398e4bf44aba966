"""Scalability: relative measures with intervals, models, operational laws and queueing networks.

- relative: `speedup`, `efficiency`, `psi`, all at once `relative_scaling`.
"""

from citus_analysis.scaling.relative import ScalePoint, efficiency, psi, relative_scaling, speedup

__all__ = ["ScalePoint", "efficiency", "psi", "relative_scaling", "speedup"]

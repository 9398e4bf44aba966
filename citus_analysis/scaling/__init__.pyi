# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from .cost import configuration_costs as configuration_costs
from .fitting import fit as fit
from .fitting import fit_usl as fit_usl
from .queueing import asymptotic_bounds as asymptotic_bounds
from .queueing import little as little
from .queueing import mva as mva
from .queueing import utilisation as utilisation
from .relative import efficiency as efficiency
from .relative import speedup as speedup
from .run_curves import scale_runs as scale_runs
from .what_if import what_if as what_if

__all__: list[str]

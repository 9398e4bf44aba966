# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from .blocked import blocked_time as blocked_time
from .cost import configuration_costs as configuration_costs
from .fitting import fit as fit
from .fitting import fit_usl as fit_usl
from .network_what_if import predicted_changes as predicted_changes
from .network_what_if import throughput_curves as throughput_curves
from .network_what_if import what_if as what_if
from .queueing import Station as Station
from .queueing import asymptotic_bounds as asymptotic_bounds
from .queueing import little as little
from .queueing import mva as mva
from .queueing import mva_multiclass as mva_multiclass
from .queueing import solve_closed as solve_closed
from .queueing import utilisation as utilisation
from .relative import efficiency as efficiency
from .relative import speedup as speedup
from .run_curves import scale_runs as scale_runs

__all__: list[str]

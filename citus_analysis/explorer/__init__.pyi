# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from .comparing import against_the_rest as against_the_rest
from .exploring import Exploration as Exploration
from .exploring import explore as explore
from .exploring import freeze as freeze
from .exploring import frozen_view as frozen_view
from .frozen_page import FrozenView as FrozenView
from .heat_cells import HeatMap as HeatMap
from .heat_cells import heat_map as heat_map
from .one_statement import statement_records as statement_records
from .selections import Selection as Selection
from .selections import with_elapsed as with_elapsed

__all__: list[str]

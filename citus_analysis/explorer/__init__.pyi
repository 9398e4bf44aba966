# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from .exploring import against_the_rest as against_the_rest
from .exploring import Exploration as Exploration
from .exploring import explain_statement as explain_statement
from .exploring import freeze as freeze
from .exploring import frozen_view as frozen_view
from .exploring import statement_records as statement_records
from .selections import StatementSelection as StatementSelection
from .widget import explore as explore

__all__: list[str]

# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from ._audit import AuditResult as AuditResult
from ._audit import audit as audit
from ._audit import audit_runs as audit_runs
from ._load import published as published
from ._load import read_published as read_published
from ._overview import measured_rates as measured_rates
from ._overview import new_orders as new_orders
from ._overview import published_numbers as published_numbers
from ._overview import published_systems as published_systems
from ._overview import rates_not_measured as rates_not_measured
from ._summaries import published_summaries as published_summaries
from ._summaries import runs_like as runs_like
from .published_study import PublishedStudy as PublishedStudy
from .published_study import monitoring_comparison as monitoring_comparison
from .published_study import published_identity as published_identity
from .published_study import reproduced as reproduced
from .published_study import study_published as study_published

__all__: list[str]

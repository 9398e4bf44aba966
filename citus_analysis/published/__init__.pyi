# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from .auditing import audit as audit
from .auditing import audit_runs as audit_runs
from .tables import published as published
from .tables import read_published as read_published
from .tables import single_runs as single_runs
from .study import published_systems as published_systems
from .claims import judge_claims as judge_claims
from .study import study_published as study_published

__all__: list[str]

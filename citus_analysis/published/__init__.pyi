# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from ._audit import audit as audit
from ._audit import audit_runs as audit_runs
from ._load import published as published
from ._load import read_published as read_published
from ._load import single_runs as single_runs
from ._overview import published_systems as published_systems
from .claims.judging import judge_claims as judge_claims
from .published_study import study_published as study_published

__all__: list[str]

"""Numbers that others published, and the audit that finds where results contradict themselves.

- `published`, `read_published`: the transcribed tables, and anybody's own;
- `audit`, `audit_runs`: contradictions in tables of results, and in runs of our own;
- `published_summaries`, `runs_like`: published means in the form that statistics and models take.

docs/published.md lists the sources, the format, the names of metrics and the checks.
"""

from citus_analysis.published._audit import AuditResult, audit, audit_runs
from citus_analysis.published._load import published, read_published
from citus_analysis.published._summaries import published_summaries, runs_like

__all__ = [
    "AuditResult",
    "audit",
    "audit_runs",
    "published",
    "published_summaries",
    "read_published",
    "runs_like",
]

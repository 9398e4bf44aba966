"""Numbers that others published, and the audit that finds where a table of results contradicts itself."""

from citus_analysis.published._audit import AuditResult, audit, audit_runs
from citus_analysis.published._load import published, read_published

__all__ = ["AuditResult", "audit", "audit_runs", "published", "read_published"]

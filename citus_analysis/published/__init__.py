"""Numbers that others published, and the audit that finds where a table of results contradicts itself."""

from citus_analysis.published._audit import AuditResult, audit
from citus_analysis.published._load import published, read_published

__all__ = ["AuditResult", "audit", "published", "read_published"]

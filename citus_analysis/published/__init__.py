"""Published numbers, and the audit that finds contradictions in results.

- `published`, `read_published`: the transcribed tables, and tables of users;
- `audit`, `audit_runs`: contradictions in tables of results, and in runs of our own;
- `published_numbers`, `published_systems`: what is published, at a glance;
- `measured_rates`, `rates_not_measured`: throughputs that were measured, and those that are claims or contradicted;
- `published_summaries`, `runs_like`: published means in the form that statistics and models take.

docs/published.md lists the sources, the format, the names of metrics and the checks.

The package has the same name as its main function, so the package itself can be called.

Example:
    >>> import citus_analysis as ca
    >>> ca.published("postgres_xc", "1").equals(published("postgres_xc", "1"))
    True
"""

import sys
from types import ModuleType

import polars as pl

from citus_analysis.core.displays import public
from citus_analysis.published._audit import AuditResult, audit, audit_runs
from citus_analysis.published._load import published, read_published
from citus_analysis.published._overview import measured_rates, published_numbers, published_systems, rates_not_measured
from citus_analysis.published._summaries import published_summaries, runs_like

__all__ = [
    "AuditResult",
    "audit",
    "audit_runs",
    "measured_rates",
    "published",
    "published_numbers",
    "published_summaries",
    "published_systems",
    "rates_not_measured",
    "read_published",
    "runs_like",
]

__dir__ = public(__all__)


class _Package(ModuleType):
    """This package, callable as :func:`published`."""

    def __call__(self, source: str | None = None, table: str | None = None) -> pl.DataFrame:
        return published(source, table)


sys.modules[__name__].__class__ = _Package

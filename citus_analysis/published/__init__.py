"""Published numbers, and the audit that finds contradictions in results.

- `published`, `read_published`: the transcribed tables, and tables of users;
- `audit`, `audit_runs`: contradictions in tables of results, and in runs of our own;
- `published_numbers`, `published_systems`: what is published, at a glance;
- `measured_rates`, `rates_not_measured`: throughputs that were measured, and those that are claims or contradicted;
- `published_summaries`, `runs_like`: published means in the form that statistics and models take;
- `study_published`, `reproduced`, `monitoring_comparison`: a published table computed again.

docs/published.md lists the sources, the format, the names of metrics and the checks.

The package has the same name as its main function, so the package itself can be called.

Example:
    >>> import citus_analysis as ca
    >>> ca.published("postgres_xc", "1").equals(published("postgres_xc", "1"))
    True
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

import polars as pl

from citus_analysis.core.displays import public
from citus_analysis.core.lazy_names import imported_lazily
from citus_analysis.published._audit import AuditResult, audit, audit_runs
from citus_analysis.published._load import published, read_published
from citus_analysis.published._overview import measured_rates, published_numbers, published_systems, rates_not_measured
from citus_analysis.published._summaries import published_summaries, runs_like

if TYPE_CHECKING:
    from citus_analysis.published.published_study import (
        PublishedStudy,
        monitoring_comparison,
        published_identity,
        reproduced,
        study_published,
    )

__all__ = [
    "AuditResult",
    "PublishedStudy",
    "audit",
    "audit_runs",
    "measured_rates",
    "monitoring_comparison",
    "published",
    "published_identity",
    "published_numbers",
    "published_summaries",
    "published_systems",
    "rates_not_measured",
    "read_published",
    "reproduced",
    "runs_like",
    "study_published",
]

#: The study of a published table needs models of scalability, which the numbers and their audit do not.
_STUDY = ("PublishedStudy", "monitoring_comparison", "published_identity", "reproduced", "study_published")

__getattr__ = imported_lazily(__name__, dict.fromkeys(_STUDY, "citus_analysis.published.published_study"))

__dir__ = public(__all__)


class _Package(ModuleType):
    """This package, callable as :func:`published`."""

    def __call__(self, source: str | None = None, table: str | None = None) -> pl.DataFrame:
        return published(source, table)


sys.modules[__name__].__class__ = _Package

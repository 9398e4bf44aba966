"""Citus analysis: from raw benchmark files to tables, traces, statistics and reports.

Example::

    import citus_analysis as ca

    ca.ingest("recordings", "dataset")
    dataset = ca.open_dataset("dataset")
    dataset.runs()
    dataset.sql("SELECT resource, avg(throughput_ops_s) FROM runs GROUP BY resource")

Names are imported when they are first used, so that importing the package is quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from citus_analysis.core.displays import public
from citus_analysis.core.lazy_names import imported_lazily

if TYPE_CHECKING:
    from citus_analysis import (
        bottleneck,
        dataset,
        errors,
        formats,
        plots,
        report,
        runner,
        runs,
        scaling,
        schema,
        serverlogs,
        spans,
        stats,
        units,
    )
    from citus_analysis.dataset import Dataset, IngestSummary, ingest, open_dataset
    from citus_analysis.errors import CitusAnalysisError
    from citus_analysis.published import AuditResult, audit, audit_runs, published, read_published
    from citus_analysis.serverlogs import compare_servers, server_profile
    from citus_analysis.stats import compare_runs as compare

__all__ = [
    "AuditResult",
    "CitusAnalysisError",
    "Dataset",
    "IngestSummary",
    "audit",
    "audit_runs",
    "bottleneck",
    "compare",
    "compare_servers",
    "dataset",
    "errors",
    "formats",
    "ingest",
    "open_dataset",
    "plots",
    "published",
    "read_published",
    "report",
    "runner",
    "runs",
    "scaling",
    "schema",
    "server_profile",
    "serverlogs",
    "spans",
    "stats",
    "units",
]

__getattr__ = imported_lazily(
    __name__,
    {
        **dict.fromkeys(__all__, ""),
        "AuditResult": "citus_analysis.published",
        "CitusAnalysisError": "citus_analysis.errors",
        "Dataset": "citus_analysis.dataset",
        "IngestSummary": "citus_analysis.dataset",
        "audit": "citus_analysis.published",
        "audit_runs": "citus_analysis.published",
        "compare": "citus_analysis.stats:compare_runs",
        "compare_servers": "citus_analysis.serverlogs",
        "ingest": "citus_analysis.dataset",
        "open_dataset": "citus_analysis.dataset",
        "read_published": "citus_analysis.published",
        "server_profile": "citus_analysis.serverlogs",
    },
)

__dir__ = public(__all__)

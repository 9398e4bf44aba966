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

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from citus_analysis import (
        bottleneck,
        dataset,
        errors,
        formats,
        plots,
        report,
        runner,
        scaling,
        schema,
        spans,
        stats,
        units,
    )
    from citus_analysis.dataset import Dataset, IngestSummary, ingest, open_dataset
    from citus_analysis.errors import CitusAnalysisError
    from citus_analysis.published import AuditResult, audit, audit_runs, published, read_published
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
    "scaling",
    "schema",
    "spans",
    "stats",
    "units",
]

#: Name -> module that holds it, with `:name` where it is called differently there.
_NAMES: Final = {
    "AuditResult": "citus_analysis.published",
    "CitusAnalysisError": "citus_analysis.errors",
    "Dataset": "citus_analysis.dataset",
    "IngestSummary": "citus_analysis.dataset",
    "audit": "citus_analysis.published",
    "audit_runs": "citus_analysis.published",
    "compare": "citus_analysis.stats:compare_runs",
    "ingest": "citus_analysis.dataset",
    "open_dataset": "citus_analysis.dataset",
    "read_published": "citus_analysis.published",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _NAMES.get(name, "").partition(":")
    found = import_module(module or f"{__name__}.{name}")
    value: object = getattr(found, attribute or name) if module else found
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

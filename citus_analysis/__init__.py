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
    from citus_analysis import dataset, errors, formats, plots, report, scaling, schema, spans, stats, units
    from citus_analysis.dataset import Dataset, IngestSummary, ingest, open_dataset
    from citus_analysis.errors import CitusAnalysisError
    from citus_analysis.published import AuditResult, audit, audit_runs, published, read_published

__all__ = [
    "AuditResult",
    "CitusAnalysisError",
    "Dataset",
    "IngestSummary",
    "audit",
    "audit_runs",
    "dataset",
    "errors",
    "formats",
    "ingest",
    "open_dataset",
    "plots",
    "published",
    "read_published",
    "report",
    "scaling",
    "schema",
    "spans",
    "stats",
    "units",
]

_NAMES: Final = {
    "AuditResult": "citus_analysis.published",
    "CitusAnalysisError": "citus_analysis.errors",
    "Dataset": "citus_analysis.dataset",
    "IngestSummary": "citus_analysis.dataset",
    "audit": "citus_analysis.published",
    "audit_runs": "citus_analysis.published",
    "ingest": "citus_analysis.dataset",
    "open_dataset": "citus_analysis.dataset",
    "read_published": "citus_analysis.published",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _NAMES.get(name)
    value: object = getattr(import_module(module), name) if module else import_module(f"{__name__}.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

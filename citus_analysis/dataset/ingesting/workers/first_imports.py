"""Imports of a helper of an ingest before its first call."""

from __future__ import annotations

__all__ = ["prepare"]


def prepare() -> None:
    """Import the modules that the first calls need while the other process still looks for files."""
    import pyarrow.parquet  # noqa: F401

    import citus_analysis.dataset.ingesting.derive
    import citus_analysis.formats

    citus_analysis.formats.formats()

"""Datasets: raw files in (`ingest`), tables out (`open_dataset`)."""

from citus_analysis.dataset.access import Dataset, open_dataset
from citus_analysis.dataset.ingestion import ingest
from citus_analysis.dataset.summary import IngestSummary, Progress

__all__ = ["Dataset", "IngestSummary", "Progress", "ingest", "open_dataset"]

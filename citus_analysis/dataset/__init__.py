"""Datasets: raw files in (`ingest`), tables out (`open_dataset`).

Names are imported on first use, so that writing parts does not import the modules that read them.
"""

from typing import TYPE_CHECKING

from citus_analysis.core.displays import public
from citus_analysis.core.lazy_names import imported_lazily

if TYPE_CHECKING:
    from citus_analysis.dataset.ingesting.ingestion import ingest
    from citus_analysis.dataset.ingesting.summary import IngestSummary, Progress
    from citus_analysis.dataset.query.access import Dataset, open_dataset
    from citus_analysis.dataset.storage.files import Vacuumed, vacuum

__all__ = ["Dataset", "IngestSummary", "Progress", "Vacuumed", "ingest", "open_dataset", "vacuum"]

__dir__ = public(__all__)

__getattr__ = imported_lazily(
    __name__,
    {
        "Dataset": "citus_analysis.dataset.query.access",
        "IngestSummary": "citus_analysis.dataset.ingesting.summary",
        "Progress": "citus_analysis.dataset.ingesting.summary",
        "Vacuumed": "citus_analysis.dataset.storage.files",
        "ingest": "citus_analysis.dataset.ingesting.ingestion",
        "open_dataset": "citus_analysis.dataset.query.access",
        "vacuum": "citus_analysis.dataset.storage.files",
    },
)

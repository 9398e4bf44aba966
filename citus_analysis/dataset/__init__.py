"""Datasets: raw files in (`ingest`), tables out (`open_dataset`).

Names are imported when they are first used: who only writes parts need not wait for all that reads them.
"""

from typing import TYPE_CHECKING

from citus_analysis.lazily import imported_lazily
from citus_analysis.shown import public

if TYPE_CHECKING:
    from citus_analysis.dataset.access import Dataset, open_dataset
    from citus_analysis.dataset.files import Vacuumed, vacuum
    from citus_analysis.dataset.ingestion import ingest
    from citus_analysis.dataset.summary import IngestSummary, Progress

__all__ = ["Dataset", "IngestSummary", "Progress", "Vacuumed", "ingest", "open_dataset", "vacuum"]

__dir__ = public(__all__)

__getattr__ = imported_lazily(
    __name__,
    {
        "Dataset": "citus_analysis.dataset.access",
        "IngestSummary": "citus_analysis.dataset.summary",
        "Progress": "citus_analysis.dataset.summary",
        "Vacuumed": "citus_analysis.dataset.files",
        "ingest": "citus_analysis.dataset.ingestion",
        "open_dataset": "citus_analysis.dataset.access",
        "vacuum": "citus_analysis.dataset.files",
    },
)

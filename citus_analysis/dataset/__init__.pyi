# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from .ingestion import ingest as ingest
from .ingestion import IngestSummary as IngestSummary
from .ingestion import Progress as Progress
from .inspection import Inspection as Inspection
from .inspection import inspect as inspect
from .access import Dataset as Dataset
from .access import open_dataset as open_dataset
from .read_files import ReadFiles as ReadFiles
from .read_files import read as read
from .store import Vacuumed as Vacuumed
from .vacuuming import vacuum as vacuum

__all__: list[str]

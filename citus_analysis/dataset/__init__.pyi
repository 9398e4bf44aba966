# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from .ingesting.ingestion import ingest as ingest
from .ingesting.summary import IngestSummary as IngestSummary
from .ingesting.summary import Progress as Progress
from .inspection import Inspection as Inspection
from .inspection import inspect as inspect
from .query.access import Dataset as Dataset
from .query.access import open_dataset as open_dataset
from .read_files import ReadFiles as ReadFiles
from .read_files import read as read
from .storage.files import Vacuumed as Vacuumed
from .objects.vacuuming import vacuum as vacuum

__all__: list[str]

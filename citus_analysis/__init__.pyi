# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from . import bottleneck as bottleneck
from . import dataset as dataset
from . import defaults as defaults
from . import errors as errors
from . import explorer as explorer
from . import formats as formats
from . import plans as plans
from . import plots as plots
from . import published as published
from . import report as report
from . import runner as runner
from . import runs as runs
from . import scaling as scaling
from . import schema as schema
from . import serverlogs as serverlogs
from . import spans as spans
from . import stats as stats
from . import tracking as tracking
from . import units as units
from ._renamed import compare as compare
from .dataset import Dataset as Dataset
from .dataset import ingest as ingest
from .dataset import inspect as inspect
from .dataset import open_dataset as open_dataset
from .dataset import read as read
from .errors import CitusAnalysisError as CitusAnalysisError
from .explorer import explore as explore
from .published import audit as audit
from .published import audit_runs as audit_runs
from .published import read_published as read_published
from .serverlogs import compare_servers as compare_servers
from .serverlogs import server_profile as server_profile
from .stats import gate as gate
from .tracking import track as track

__all__: list[str]

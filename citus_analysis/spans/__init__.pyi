# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from .analyse.beside_clients import beside_clients as beside_clients
from .analyse.beside_clients import in_milliseconds as in_milliseconds
from .analyse.beside_clients import parts_by_configuration as parts_by_configuration
from .analyse.coarse import coarse_profile as coarse_profile
from .analyse.coarse import log_line_profile as log_line_profile
from .analyse.composition import critical_path as critical_path
from .analyse.composition import fan_out_profile as fan_out_profile
from .analyse.composition import percentile_profile as percentile_profile
from .analyse.distribution import time_histogram as time_histogram
from .analyse.followed import TraceStudy as TraceStudy
from .analyse.followed import trace_studies as trace_studies
from .analyse.profile import ProfileStudy as ProfileStudy
from .analyse.profile import study_profile as study_profile
from .analyse.tail import TailProfile as TailProfile
from .analyse.tail import autovacuum_intervals as autovacuum_intervals
from .analyse.tail import tail_profile as tail_profile
from .analyse.time_cells import percentiles_over_time as percentiles_over_time
from .analyse.time_cells import summed_time as summed_time
from .export.trace_files import export_traces as export_traces
from .read.groups import group_sessions as group_sessions
from .read.records import TRACED_COLUMNS as TRACED_COLUMNS
from .read.sessions import are_distributed as are_distributed
from .traces import Traces as Traces
from .traces import build_traces as build_traces
from .traces import trace_iteration as trace_iteration

__all__: list[str]

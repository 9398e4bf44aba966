# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from .profile import compare_with_clients as compare_with_clients
from .coarse import coarse_profile as coarse_profile
from .coarse import log_line_profile as log_line_profile
from .composition import critical_path as critical_path
from .distribution import time_histogram as time_histogram
from .profile import study_profile as study_profile
from .tail import tail_profile as tail_profile
from .export import export_traces as export_traces
from .traces import build_traces as build_traces

__all__: list[str]

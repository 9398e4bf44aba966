# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from .comparison_figures import plot_ratios as plot_ratios
from .node_figures import plot_connections as plot_connections
from .node_figures import plot_nodes as plot_nodes
from .perf_figures import plot_flame_graph as plot_flame_graph
from .profile_figures import plot_histograms as plot_histograms
from .profile_figures import plot_spans as plot_spans
from .published_figures import plot_fits as plot_fits
from .resource_figures import plot_device as plot_device
from .scalability_figures import plot_series as plot_series
from .theme import new_figure as new_figure
from .trace_figures import plot_profile as plot_profile
from .trace_figures import plot_waterfall as plot_waterfall

__all__: list[str]

# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from .comparison import compare_set_ups as compare_set_ups
from .comparison import comparison_panels as comparison_panels
from .notebooks import report_names as report_names
from .notebooks import report_parameters as report_parameters
from .page import Page as Page
from .render import render_report as render_report
from .render import render_reports as render_reports
from .scalability import scaling_panels as scaling_panels
from .scalability import study_scalability as study_scalability
from .profile import study_statements as study_statements
from .published import study_publications as study_publications
from .resources import study_machines as study_machines
from .server import study_servers as study_servers
from .track import track_datasets as track_datasets
from .scalability import configuration_table as configuration_table
from .comparison import hardware_by_size as hardware_by_size
from .scalability import intensity_table as intensity_table
from .comparison import monitoring_overhead as monitoring_overhead
from .comparison import overhead_table as overhead_table
from .comparison import systems_by_workload as systems_by_workload
from .study_figures import study_figures as study_figures
from .study_figures import study_items as study_items

__all__: list[str]

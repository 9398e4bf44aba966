# The public names, once: the type checker reads them here, and lazy_loader imports each of them when it is first used.
from .comparison_text import comparison_panels as comparison_panels
from .engine.notebooks import report_names as report_names
from .engine.notebooks import report_parameters as report_parameters
from .engine.page import Page as Page
from .engine.render import render_report as render_report
from .engine.render import render_reports as render_reports
from .scalability import scaling_panels as scaling_panels
from .side_by_side import configuration_table as configuration_table
from .side_by_side import hardware_by_size as hardware_by_size
from .side_by_side import intensity_table as intensity_table
from .side_by_side import monitoring_overhead as monitoring_overhead
from .side_by_side import overhead_table as overhead_table
from .side_by_side import systems_by_workload as systems_by_workload
from .study_figures import study_figures as study_figures
from .study_figures import study_items as study_items

__all__: list[str]

"""Reports: notebooks executed on a dataset, exported to HTML and CSV.

`citus-analysis report NAME|all DIR --out OUT [-p key=value ...] [--no-html]` is one call of
:func:`render_reports`; `-p` values are passed as text and converted to the parameter's type.
"""

from citus_analysis.core.displays import public
from citus_analysis.report.engine.notebooks import Parameter, report_names, report_parameters
from citus_analysis.report.engine.render import ProgressCallback, Rendered, ReportResult, render_report, render_reports

__all__ = [
    "Parameter",
    "ProgressCallback",
    "Rendered",
    "ReportResult",
    "render_report",
    "render_reports",
    "report_names",
    "report_parameters",
]

__dir__ = public(__all__)

"""Reports: notebooks executed on a dataset, exported to HTML and CSV, and what they are made of.

`citus-analysis report NAME|all DIR --out OUT [-p key=value ...] [--no-html]` is one call of
:func:`render_reports`; `-p` values are passed as text and converted to the parameter's type.

What the notebooks show can be had without them: `scaling_panels` (throughput, speedup, efficiency and models along an
axis, each with `plot` and `table`), `comparison_panels` (ratios of set-ups), `systems_by_workload`, `hardware_by_size`,
`monitoring_overhead`, `intensity_table`, and the sentences about them. Their names are imported when they are first
used: a command that only lists reports needs no figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from citus_analysis.core.displays import public
from citus_analysis.core.lazy_names import imported_lazily
from citus_analysis.report.engine.notebooks import Parameter, report_names, report_parameters
from citus_analysis.report.engine.render import ProgressCallback, Rendered, ReportResult, render_report, render_reports

if TYPE_CHECKING:
    from citus_analysis.report.bottleneck_text import bottleneck_sentences, demand_sentences, what_if_sentences
    from citus_analysis.report.comparison_text import ComparisonPanels, comparison_panels, comparison_sentences
    from citus_analysis.report.engine.page import Page
    from citus_analysis.report.profile_text import profile_sentences, profile_warnings
    from citus_analysis.report.published_text import (
        band_sentence,
        findings_table,
        monitoring_sentence,
        published_sentences,
        published_warnings,
    )
    from citus_analysis.report.resources_text import resource_sentences, throttling_warnings
    from citus_analysis.report.scalability import ScalingPanels, outside_series, scaling_panels
    from citus_analysis.report.scalability_text import (
        IN_OPENING,
        growth_sentences,
        hardware_sentence,
        model_sentences,
        opening_sentences,
        scalability_warnings,
    )
    from citus_analysis.report.server_text import (
        change_sentences,
        group_tables,
        ratio_table,
        server_sentences,
        shown_statements,
    )
    from citus_analysis.report.side_by_side import (
        SideBySide,
        configuration_table,
        hardware_by_size,
        intensity_table,
        monitoring_overhead,
        overhead_sentences,
        overhead_table,
        systems_by_workload,
    )

__all__ = [
    "IN_OPENING",
    "ComparisonPanels",
    "Page",
    "Parameter",
    "ProgressCallback",
    "Rendered",
    "ReportResult",
    "ScalingPanels",
    "SideBySide",
    "band_sentence",
    "bottleneck_sentences",
    "change_sentences",
    "comparison_panels",
    "comparison_sentences",
    "configuration_table",
    "demand_sentences",
    "findings_table",
    "group_tables",
    "growth_sentences",
    "hardware_by_size",
    "hardware_sentence",
    "intensity_table",
    "model_sentences",
    "monitoring_overhead",
    "monitoring_sentence",
    "opening_sentences",
    "outside_series",
    "overhead_sentences",
    "overhead_table",
    "profile_sentences",
    "profile_warnings",
    "published_sentences",
    "published_warnings",
    "ratio_table",
    "render_report",
    "render_reports",
    "report_names",
    "report_parameters",
    "resource_sentences",
    "scalability_warnings",
    "scaling_panels",
    "server_sentences",
    "shown_statements",
    "systems_by_workload",
    "throttling_warnings",
    "what_if_sentences",
]

_BOTTLENECK = ("bottleneck_sentences", "demand_sentences", "what_if_sentences")
_PUBLISHED = (
    *("band_sentence", "findings_table", "monitoring_sentence"),
    *("published_sentences", "published_warnings"),
)
_SERVER = ("change_sentences", "group_tables", "ratio_table", "server_sentences", "shown_statements")
_COMPARISON = ("ComparisonPanels", "comparison_panels", "comparison_sentences")
_SCALABILITY = ("ScalingPanels", "outside_series", "scaling_panels")
_SENTENCES = (
    "IN_OPENING",
    "growth_sentences",
    "hardware_sentence",
    "model_sentences",
    "opening_sentences",
    "scalability_warnings",
)
_BESIDE = (
    "SideBySide",
    "configuration_table",
    "hardware_by_size",
    "intensity_table",
    "monitoring_overhead",
    "overhead_sentences",
    "overhead_table",
    "systems_by_workload",
)

__getattr__ = imported_lazily(
    __name__,
    {
        "Page": "citus_analysis.report.engine.page",
        "profile_sentences": "citus_analysis.report.profile_text",
        "profile_warnings": "citus_analysis.report.profile_text",
        "resource_sentences": "citus_analysis.report.resources_text",
        "throttling_warnings": "citus_analysis.report.resources_text",
        **dict.fromkeys(_BOTTLENECK, "citus_analysis.report.bottleneck_text"),
        **dict.fromkeys(_PUBLISHED, "citus_analysis.report.published_text"),
        **dict.fromkeys(_SERVER, "citus_analysis.report.server_text"),
        **dict.fromkeys(_COMPARISON, "citus_analysis.report.comparison_text"),
        **dict.fromkeys(_SCALABILITY, "citus_analysis.report.scalability"),
        **dict.fromkeys(_SENTENCES, "citus_analysis.report.scalability_text"),
        **dict.fromkeys(_BESIDE, "citus_analysis.report.side_by_side"),
    },
)

__dir__ = public(__all__)

"""The domain model of runs: set-up, operation, status, and comparability."""

from citus_analysis.core.displays import public
from citus_analysis.runs.comparable import Comparability, closest_difference, comparability, differing, pooled
from citus_analysis.runs.measured_windows import Windowed, within_measured
from citus_analysis.runs.run_selection import Selection, select_runs
from citus_analysis.runs.setting_changes import change_words, setting_changes
from citus_analysis.runs.setups import (
    CONFIGURATION,
    LOAD,
    SYSTEM,
    VARIANT,
    described,
    family_of,
    monitored_text,
    operation_name,
    operation_of,
    setting_text,
    stratum_text,
    with_operations,
)

__all__ = [
    "CONFIGURATION",
    "LOAD",
    "SYSTEM",
    "VARIANT",
    "Comparability",
    "Selection",
    "Windowed",
    "change_words",
    "closest_difference",
    "comparability",
    "described",
    "differing",
    "family_of",
    "monitored_text",
    "operation_name",
    "operation_of",
    "pooled",
    "select_runs",
    "setting_changes",
    "setting_text",
    "stratum_text",
    "with_operations",
    "within_measured",
]

__dir__ = public(__all__)

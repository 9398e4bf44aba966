"""Values of parameters that depend on the dataset, checked before a kernel starts.

A notebook takes half a minute to fail; a misspelt value can be refused at once. Each report that takes such values has
its check here, made of the functions that the report itself calls, so that both raise the same error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import fspath
from typing import Final, get_args

from citus_analysis.bottleneck.measured_resources import study_resources
from citus_analysis.core.frames import TableSource
from citus_analysis.dataset import Dataset
from citus_analysis.errors import UnknownNameError, UsageError
from citus_analysis.published import published
from citus_analysis.report.comparison_text import base_variant
from citus_analysis.report.engine.notebooks import Scalar, report_parameters
from citus_analysis.report.over_time.track_text import column_values, tracked_datasets
from citus_analysis.report.scalability import Axis, check_base
from citus_analysis.runs.run_selection import Selection, check_known, select_runs
from citus_analysis.runs.run_status import allowed_statuses
from citus_analysis.serverlogs import with_log_runs
from citus_analysis.serverlogs.log_window import LogWindow, WindowedLogs
from citus_analysis.spans.analyse.profile import profiled_threads
from citus_analysis.spans.analyse.selected_statements import select_statements

#: The values of a report's parameters, in the types that the notebook declares.
Values = Mapping[str, Scalar]

#: Parameter -> the open interval that its value must lie in.
_WITHIN: Final = {"alpha": (0.0, 1.0), "level": (0.0, 1.0), "margin": (0.0, float("inf"))}


def check_choices(name: str, dataset: Dataset, given: Mapping[str, Scalar]) -> None:
    """Refuse values that a report could not use on this dataset.

    Args:
        name: name of the report; of other notebooks, only the ranges of numbers are checked.
        dataset: the dataset to be shown.
        given: parameters in their types; the others have their defaults.

    Raises:
        UnknownNameError: a resource, workload, base, publication ... is unknown; the message names the closest one.
        UsageError: a number outside its range.
        InsufficientDataError: the values are known, but no run that is ok has them all.
    """
    values = {parameter.name: parameter.default for parameter in report_parameters(name)} | dict(given)
    for parameter, (low, high) in _WITHIN.items():
        value = values.get(parameter)
        if isinstance(value, float) and not low < value < high:
            bounds = f"between {low:g} and {high:g}" if high < float("inf") else f"above {low:g}"
            raise UsageError(f"parameter {parameter!r} is {value:g}", way_out=f"choose a number {bounds}")
    if name in _CHECKS:
        _CHECKS[name](dataset, values)
        allowed_statuses(str(values.get("allow", "")))


def _selection(dataset: TableSource, values: Values) -> Selection:
    return select_runs(dataset, *(str(values[name]) for name in ("resources", "phase", "workload", "allow")))


def _scalability(dataset: Dataset, values: Values) -> None:
    selection = _selection(dataset, values)
    for axis in get_args(Axis):
        check_base(selection, axis, int(values[f"base_{axis}"]))


def _comparison(dataset: Dataset, values: Values) -> None:
    base_variant(_selection(dataset, values), str(values["base"]))


def _profile(dataset: Dataset, values: Values) -> None:
    windows = with_log_runs(dataset, str(values["since"]), str(values["until"]), int(values["window_s"]))
    selection = _selection(windows, values)
    if threads := int(values["threads"]):
        profiled_threads(select_statements(selection, windows), threads)


def _resources(dataset: Dataset, values: Values) -> None:
    resources, detail, iteration = str(values["resources"]), str(values["detail"]), int(values["iteration"])
    if detail or iteration or resources != "*":
        study_resources(dataset, resources, detail=detail, iteration=iteration)


def _server(dataset: Dataset, values: Values) -> None:
    for before in ("", "base_"):
        resources, logs = (str(values[f"{before}{name}"]) or str(values[name]) for name in ("resources", "logs"))
        since, until = str(values[f"{before}since"]), str(values[f"{before}until"])
        WindowedLogs.of(dataset, LogWindow.between(since, until, resources=resources, logs=logs))


def _published(_dataset: Dataset, values: Values) -> None:
    metrics = published(str(values["source"]), str(values["table"]))["metric"].unique().to_list()
    if (size := str(values["size"])) not in metrics:
        raise UnknownNameError(f"metric of table {values['table']}", size, metrics)


def _bottleneck(dataset: Dataset, values: Values) -> None:
    check_known(with_log_runs(dataset).table("runs"), str(values["resources"]))


def _track(dataset: Dataset, values: Values) -> None:
    tracked_datasets(fspath(dataset.path), str(values["datasets"]))
    column_values(str(values["only"]))


_CHECKS: Final[dict[str, Callable[[Dataset, Values], None]]] = {
    "bottleneck": _bottleneck,
    "comparison": _comparison,
    "profile": _profile,
    "published": _published,
    "resources": _resources,
    "scalability": _scalability,
    "server": _server,
    "track": _track,
}

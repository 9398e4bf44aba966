"""The configurations of a dataset, one row each, with the number of its runs, their statuses and their throughput.

Example:
    >>> facts = {"workers": [1, 1, 2], "status": ["ok", "failed", "ok"], "throughput_ops_s": [10.0, 3.0, 20.0]}
    >>> runs = pl.DataFrame(facts)
    >>> print(format_configurations(list_configurations(runs)))
    workers  runs  ok  failed  throughput  interval
          1     2   1       1          10
          2     1   1       0          20
    2 configurations, 3 runs; throughput in operations/s: mean of the runs that are ok, with its interval
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import polars as pl

from citus_analysis.core.frames import Frame, TableSource, in_callers_kind
from citus_analysis.defaults import LEVEL, METRIC
from citus_analysis.errors import InsufficientDataError
from citus_analysis.runs.run_status import allowed_statuses
from citus_analysis.runs.setups import CONFIGURATION, setting_text, stratum_text
from citus_analysis.schema import STATUSES
from citus_analysis.stats.estimate.intervals import mean_interval, mean_method
from citus_analysis.stats.run_means import runs_of, strata_of, values_of
from citus_analysis.texts.counted_words import counted
from citus_analysis.texts.number_text import readable
from citus_analysis.texts.printable import printable
from citus_analysis.texts.text_tables import text_table

_INTERVAL: Final = ("low", "high")


@in_callers_kind
def list_configurations(
    source: TableSource | Frame, *, level: float = LEVEL, allow: str | Collection[str] = ()
) -> pl.DataFrame:
    """The configurations of a dataset, in order of their columns.

    Columns: those of :data:`citus_analysis.runs.CONFIGURATION` that are known of any run, then `runs`, the number of
    runs with each status, and `throughput_ops_s` with `low` and `high`: the mean of the runs that are ok (or allowed)
    and its interval, null if there is no such run; one run has no interval.

    Args:
        source: a dataset, or rows of the table `runs`.
        level: confidence level of the intervals.
        allow: `degraded` to let degraded runs enter the means.

    Raises:
        UsageError: another status cannot be allowed.
        InsufficientDataError: there is no run.
    """
    runs = runs_of(source, METRIC)
    if runs.is_empty():
        raise InsufficientDataError("the dataset contains no run")
    columns = [name for name in CONFIGURATION if name in runs.columns and runs[name].null_count() < runs.height]
    statuses = allowed_statuses(allow)
    rows = [{**key, **_facts(part, level, statuses)} for key, part in strata_of(runs, columns)]
    kinds = {name: runs.schema[name] for name in columns} | dict.fromkeys((METRIC, *_INTERVAL), pl.Float64())
    return pl.DataFrame(rows, schema_overrides=kinds, infer_schema_length=None)


def _facts(runs: pl.DataFrame, level: float, statuses: Collection[str]) -> dict[str, object]:
    status = runs["status"].cast(pl.String)
    counts = {word: int((status == word).sum()) for word in STATUSES}
    values = values_of(runs.filter(status.is_in(list(statuses)), pl.col(METRIC).is_not_null()), METRIC)
    found = {"runs": runs.height, **counts, METRIC: None, **dict.fromkeys(_INTERVAL)}
    if not values.size:
        return found
    interval = mean_interval(values, level, mean_method(values))
    return found | {METRIC: interval.estimate, **dict(zip(_INTERVAL, interval.ends, strict=True))}


def format_configurations(configurations: pl.DataFrame, allow: str | Collection[str] = ()) -> str:
    """The configurations as text: their common values, then one line each with the columns that differ.

    Args:
        configurations: result of :func:`list_configurations`.
        allow: as it was given there.
    """
    columns = [name for name in configurations.columns if name in CONFIGURATION]
    common = [name for name in columns if configurations.height > 1 and configurations[name].n_unique() == 1]
    differing = [name for name in columns if name not in common]
    counts = ["runs", *(word for word in STATUSES if word == STATUSES[0] or configurations[word].sum())]
    rows = [
        [*(_cell(name, row[name]) for name in differing), *(str(row[name]) for name in counts), *_throughput(row)]
        for row in configurations.iter_rows(named=True)
    ]
    head = [*differing, *counts, "throughput", "interval"]
    kinds = configurations.schema
    numbers = {i for i, name in enumerate(head) if name in counts or (name in kinds and kinds[name].is_numeric())}
    shared = stratum_text(configurations.select(common).row(0, named=True), "  ") if common else ""
    total = f"{counted(configurations.height, 'configuration')}, {counted(int(configurations['runs'].sum()), 'run')}"
    words = " or ".join(allowed_statuses(allow))
    end = f"{total}; throughput in operations/s: mean of the runs that are {words}, with its interval"
    table = text_table(head, rows, right=numbers | {len(head) - 2})
    return "\n".join(line for line in (printable(shared), *table, end) if line)


def _cell(column: str, value: object) -> str:
    return "" if value is None else printable(setting_text(column, value))


def _throughput(row: Mapping[str, float | None]) -> list[str]:
    mean, low, high = (row[name] for name in (METRIC, *_INTERVAL))
    interval = "" if low is None or high is None else f"[{readable(low)}, {readable(high)}]"
    return ["" if mean is None else readable(mean), interval]

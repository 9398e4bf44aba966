"""The meaning of each column of a table of results: a fact about the run, a measured value, or a part of the set-up.

Headers are read by :func:`citus_analysis.texts.metric_names.metric_of`, as the audit of published tables reads them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from citus_analysis.texts.metric_names import Metric, metric_of, percentile_of

_NAMES: Final = {
    "threads": "threads connections client num_clients nclients conns sessions vus active_virtual_users",
    "workers": "workers num_workers n_workers worker_nodes worker_count",
    "records": "records record_count recordcount",
    "iteration": "rep reps repetition repetitions repeat repeats iteration iterations iter trial trials round attempt"
    " run runs run_number run_no n n_runs num_runs",
    "system": "system database db dbms engine product backend",
    "phase": "phase",
    "workload": "workload workload_name benchmark bench test test_name operation op query script scenario",
    "query_mode": "query_mode protocol",
    "scale_factor": "scale_factor scale scaling scaling_factor",
    "status": "status result outcome exit_code return_code success completed",
    "failed_operations": "failed failures errors error_count failed_operations failed_transactions",
    "operations_done": "operations operations_done",
    "operations": "operation_count operationcount planned_operations",
    "target_ops_s": "target",
    "runtime_ms": "runtime",
}
#: Name of a column, or stem of its metric -> fact about the run, column of `clients`.
FACTS: Final = {name: fact for fact, names in _NAMES.items() for name in names.split()}
_COUNTS: Final = "threads workers records iteration scale_factor failed_operations operations_done operations"
#: Facts that are whole numbers.
COUNTED: Final = frozenset(_COUNTS.split())
#: Fact -> the dimensions that it may have; a `time` without a unit may be a moment.
_DIMENSIONS: Final = {"runtime_ms": ("time",), "target_ops_s": ("", "rate"), **dict.fromkeys(COUNTED, ("",))}
#: A time with this name is the mean latency of an operation: `read avg (us)`.
_MEAN_OF_OPERATION: Final = re.compile(r"(?:(?:read|insert|update|scan|delete|select|write)_)?(?:mean|avg|average)")
#: Names of a moment, or of one run: they tell runs apart but are no part of the set-up.
_TIMES: Final = re.compile(
    r"(?:^|_)(?:time|times?tamp|ts|date|datetime|day|start|started|end|ended|finished|elapsed|second|seconds|sec|secs|t|s"
    r"|interval|epoch|id|uuid|file|filename|log|path|url|comment|comments|note|notes|remark|remarks)$"
)
#: A name alone means the set-up.
_SET_UP: Final = frozenset(
    ["set_up", "setup", "config", "configuration", "variant", "label", "name", "case", "resource", "family"]
)
#: Stems of values that describe several runs.
AGGREGATES: Final = frozenset(
    ["sigma", "interval_low", "interval_high", "interval_half", "standard_error", "variation"]
)


@dataclass(frozen=True)
class Named:
    """A column by its header.

    Attributes:
        at: its number, from 0.
        header: its name as printed.
        plain: the name in lower case with `_` for blanks and signs.
        metric: the quantity that the name denotes.
        fact: fact about the run or column of `clients`; None if it is none of :data:`FACTS`.
    """

    at: int
    header: str
    plain: str
    metric: Metric
    fact: str | None

    @property
    def is_moment(self) -> bool:
        """Whether the values may be moments, or names of single runs."""
        return _TIMES.search(self.metric.stem if self.metric.dimension else self.plain) is not None

    @property
    def names_set_up(self) -> bool:
        """Whether the values are names of set-ups by themselves: `variant`, `config`."""
        return self.plain in _SET_UP


def named(header: Sequence[str]) -> list[Named]:
    """The columns of a header.

    Example:
        >>> [(column.fact, column.metric.stem) for column in named(["clients", "rep", "latency (ms)"])]
        [('threads', 'connections'), ('iteration', 'rep'), (None, 'latency')]
    """
    found = []
    for at, name in enumerate(header):
        metric = metric_of(name)
        plain = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "_", name).lower()).strip("_")
        of_stem = FACTS.get(metric.stem) if metric.dimension in ("", "rate", "time") else None
        fact = FACTS.get(plain) or of_stem
        is_fact = fact not in _DIMENSIONS or metric.dimension in _DIMENSIONS[fact]
        found.append(Named(at, name, plain, metric, fact if is_fact else None))
    return found


def is_throughput(column: Named) -> bool:
    """Whether the column is the throughput of the run, in operations a second."""
    return column.metric.stem == "throughput" and column.metric.dimension == "rate"


def is_latency(column: Named) -> bool:
    """Whether the column is a response time, its mean, a percentile or an extreme of it."""
    metric = column.metric
    if metric.dimension not in ("", "time") or column.fact is not None:
        return False
    stem = re.sub(r"_(?:min|max)$", "", metric.stem)
    named_so = stem == "latency" or stem.endswith("_latency") or percentile_of(stem) is not None
    return named_so or (metric.dimension == "time" and _MEAN_OF_OPERATION.fullmatch(stem) is not None)


def is_measure(column: Named) -> bool:
    """Whether the column is a throughput or a latency."""
    return is_throughput(column) or is_latency(column)

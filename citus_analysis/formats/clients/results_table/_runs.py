"""The rows of a table of results as rows of `stated_runs`, `clients` and `client_metrics`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats.api.metric_rows import Metric, metric_frame
from citus_analysis.formats.clients.results_table._columns import Named
from citus_analysis.formats.clients.results_table._roles import Roles, repetitions
from citus_analysis.operations import OVERALL
from citus_analysis.texts.metric_names import percentile_of
from citus_analysis.units import SECONDS_PER_UNIT

#: `clients.tool` of these runs.
TOOL: Final = "table of results"
#: Section of the latencies of all operations.
ALL: Final = "all operations"
_MS_PER_S: Final = 1_000
_FACTS: Final = ("workers", "records", "threads", "operations")
_OF_CLIENT: Final = ("threads", "operations_done", "failed_operations", "scale_factor")
_WORDS: Final = ("system", "workload", "phase")
#: Factor of a unit of time -> its name.
_UNITS: Final = {SECONDS_PER_UNIT[name]: name for name in ("ns", "us", "ms", "s", "min", "h")}
_POSSIBLE: Final = ("us", "ms", "s")
_SUCCESS: Final = "ok success successful succeeded passed pass true t yes 0 done completed complete finished"
_DONE: Final = frozenset(["", *_SUCCESS.split()])
#: A percentile as a part of the mean: a unit that is wrong by 1000 gives another size.
_LEAST_OF_MEAN, _MOST_OF_MEAN, _MOST_MAX_OF_MEAN = 0.1, 100.0, 1000.0
#: Response time as a part of connections / throughput: clients also wait for their own work.
_LEAST_OF_LITTLE, _MOST_OF_LITTLE = 0.3, 1.1
_BASE_UNIT: Final = {"percent": "%", "rate": "1/s", "data_rate": "B/s"}


def tables_of(roles: Roles) -> tuple[dict[str, pl.DataFrame], list[int]]:
    """The tables, and how many metrics each line has.

    Raises:
        FormatError: the unit of a latency is not certain, or two columns are the same latency.
    """
    seen: dict[tuple[str, str], str] = {}
    for column in roles.latencies:
        first = seen.setdefault(_latency_name(column.metric.stem), column.header)
        if first != column.header:
            raise FormatError(f"{first!r} and {column.header!r} are the same latency", place="line 1")
    columns = list(_metric_columns(roles))
    metrics: list[list[Metric]] = [
        [(section, name, unit, value) for section, name, unit, values in columns if (value := values[row]) is not None]
        for row in range(len(roles.lines))
    ]
    frame = metric_frame([*chain(*metrics)])
    return {"stated_runs": _stated(roles), "clients": _clients(roles), "client_metrics": frame}, [*map(len, metrics)]


def _stated(roles: Roles) -> pl.DataFrame:
    columns: dict[str, Sequence[object]] = {
        "line": [line.number for line in roles.lines],
        "iteration": list(repetitions(roles)),
        "set_up": _joined(roles, roles.set_up, bare=True),
        "remarks": _joined(roles, roles.remarks),
    }
    for name, column in roles.facts.items():
        if name in _WORDS:
            texts = roles.texts(column)
            columns[name] = [(text.lower() if name == "phase" else text) or None for text in texts]
        elif name in _FACTS:
            columns[name] = roles.numbers[column.at]
    return pl.DataFrame(columns, strict=False)


def _joined(roles: Roles, columns: Sequence[Named], *, bare: bool = False) -> list[str | None]:
    """`name=value, ...` of each line; a value alone where its column has a name without a meaning, such as variant."""
    texts = [
        [text and (text if bare and column.names_set_up else f"{column.header}={text}") for text in roles.texts(column)]
        for column in columns
    ]
    rows = zip(*texts, strict=True) if texts else [()] * len(roles.lines)
    return [", ".join(filter(None, row)) or None for row in rows]


def _clients(roles: Roles) -> pl.DataFrame:
    number = {name: roles.numbers[column.at] for name, column in roles.facts.items() if column.at in roles.numbers}
    measured = [_scaled(roles, column) for column in (roles.throughput, *roles.latencies) if column]
    stated = roles.texts(roles.facts["status"]) if "status" in roles.facts else [""] * len(roles.lines)
    targets = number.get("target_ops_s") or [None] * len(roles.lines)
    columns: dict[str, Sequence[object]] = {
        "tool": [TOOL] * len(roles.lines),
        "completed": [
            text.lower() in _DONE and any(values[row] is not None for values in measured)
            for row, text in enumerate(stated)
        ],
        "rate_limited": [bool(target) for target in targets],
        "target_ops_s": [target or None for target in targets],
    }
    columns |= {fact: number[fact] for fact in _OF_CLIENT if fact in number}
    if "operations" in number:
        columns["operations_planned"] = number["operations"]
    if roles.throughput:
        columns["throughput_ops_s"] = measured[0]
    if "runtime_ms" in roles.facts:
        seconds = _scaled(roles, roles.facts["runtime_ms"])
        columns["runtime_ms"] = [None if value is None else value * _MS_PER_S for value in seconds]
    if "query_mode" in roles.facts:
        columns["query_mode"] = [text.lower() or None for text in roles.texts(roles.facts["query_mode"])]
    return pl.DataFrame(columns, strict=False)


def _scaled(roles: Roles, column: Named) -> list[float | None]:
    """The values of a column in its base unit."""
    factor = column.metric.factor
    values = roles.numbers.get(column.at) or [None] * len(roles.lines)
    return [None if value is None else float(f"{value * factor:.15g}") for value in values]


def _metric_columns(roles: Roles) -> Iterator[tuple[str, str, str | None, list[float | None]]]:
    """Section, metric and unit of each column of measured values, and its values."""
    if roles.throughput:
        yield OVERALL, "Throughput", "ops/sec", _scaled(roles, roles.throughput)
    for column in roles.latencies:
        of_latency = _unit_of(roles, column)
        yield *_latency_name(column.metric.stem), of_latency, roles.numbers.get(column.at) or _scaled(roles, column)
    for column in (*roles.values, *(roles.facts[name] for name in ("status",) if name in roles.facts)):
        if column.at in roles.numbers:
            timed = column.metric.dimension == "time"
            unit = _UNITS.get(column.metric.factor) if timed else _BASE_UNIT.get(column.metric.dimension)
            values = roles.numbers[column.at] if timed and unit else _scaled(roles, column)
            yield OVERALL, column.header, unit, values


def _latency_name(stem: str) -> tuple[str, str]:
    """Section and metric of a latency.

    Example:
        >>> _latency_name("read_latency_p99"), _latency_name("latency"), _latency_name("latency_p999")
        (('READ', 'p99'), ('all operations', 'AverageLatency'), ('all operations', 'p99.9'))
    """
    of, name = stem, "AverageLatency"
    if found := percentile_of(stem):
        of, name = found[0], f"p{found[1]:g}"
    elif stem.endswith(("_min", "_max")):
        of, name = stem[:-4], f"{stem[-3:].capitalize()}Latency"
    words = re.sub(r"_?(?:latency|mean|avg|average)$", "", of)
    return words.upper() if words else ALL, name


def _unit_of(roles: Roles, column: Named) -> str:
    """The unit of a latency: as stated, or the only one that fits the other columns.

    Raises:
        FormatError: none or several fit.
    """
    if column.metric.dimension == "time":
        return _UNITS[column.metric.factor]
    mean = next((one for one in roles.latencies if one.metric.stem in ("latency", "mean")), None)
    timed = [one for one in roles.latencies if one.metric.dimension == "time"]
    if len({one.metric.factor for one in timed}) == 1:
        beside = mean if mean in timed else timed[0]
        if _fits(roles, column, beside):
            return _UNITS[beside.metric.factor]
    elif not timed and mean is not None:
        units = [unit for unit in _POSSIBLE if _obeys_little(roles, mean, SECONDS_PER_UNIT[unit])]
        if len(units) == 1 and (column is mean or _fits(roles, column, mean)):
            return units[0]
    raise FormatError(
        f"the unit of {column.header!r} is not certain", place="line 1", way_out=f"name it {column.header} (ms)"
    )


def _fits(roles: Roles, column: Named, beside: Named) -> bool:
    """Whether values are of the size of others if both have one unit."""
    most = _MOST_MAX_OF_MEAN if column.metric.stem.endswith("_max") else _MOST_OF_MEAN
    pairs = zip(roles.numbers.get(column.at, []), roles.numbers.get(beside.at, []), strict=False)
    parts = [value / other for value, other in pairs if value is not None and other]
    return bool(parts) and all(_LEAST_OF_MEAN <= part < most for part in parts)


def _obeys_little(roles: Roles, mean: Named, factor: float) -> bool:
    """Whether response times of a unit agree with Little's law: connections = throughput x response time."""
    if roles.throughput is None or "threads" not in roles.facts:
        return False
    rows = zip(
        _scaled(roles, roles.throughput),
        roles.numbers[roles.facts["threads"].at],
        roles.numbers.get(mean.at, []),
        strict=True,
    )
    parts = [value * factor * rate / threads for rate, threads, value in rows if rate and threads and value is not None]
    return bool(parts) and all(_LEAST_OF_LITTLE <= part <= _MOST_OF_LITTLE for part in parts)

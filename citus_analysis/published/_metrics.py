"""What the name of a metric says: which quantity, of which dimension, in which unit.

Our own names carry the unit as suffix (`throughput_ops_s`, `client_latency_ms`, `sigma_ops_s`); headers that
other people print (``TPS (μ)``, ``Std. Dev.``, ``99th pctl. (ms)``) are understood too.

Example:
    >>> metric_of("latency_p99_ms")
    Metric(stem='latency_p99', dimension='time', factor=0.001)
    >>> metric_of("99th pctl. (ms)") == metric_of("latency_p99_ms")
    True
    >>> metric_of("Std. Dev."), metric_of("latency", unit="µs").factor
    (Metric(stem='sigma', dimension='', factor=1.0), 1e-06)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

__all__ = ["COUNTS", "Metric", "metric_of", "percentile_of"]


@dataclass(frozen=True)
class Metric:
    """A quantity without its unit.

    Attributes:
        stem: its name without unit suffix.
        dimension: `time` (base unit s), `rate` (1/s), `percent`, `data_rate` (bytes/s), or empty.
        factor: what a value is multiplied with to get the base unit.
    """

    stem: str
    dimension: str
    factor: float


#: Suffix of a name -> dimension and factor to its base unit; the longest that fits wins.
_SUFFIXES: Final[dict[str, tuple[str, float]]] = {
    "_ops_s": ("rate", 1.0),
    "_ops_sec": ("rate", 1.0),
    "_requests_second": ("rate", 1.0),
    "_tps": ("rate", 1.0),
    "_mb_s": ("data_rate", 1e6),
    "_kb_s": ("data_rate", 1e3),
    "_bytes_per_s": ("data_rate", 1.0),
    "_gbit_s": ("data_rate", 1.25e8),
    "_mbit_s": ("data_rate", 1.25e5),
    "_percent": ("percent", 1.0),
    "_ns": ("time", 1e-9),
    "_us": ("time", 1e-6),
    "_ms": ("time", 1e-3),
    "_s": ("time", 1.0),
    "_sec": ("time", 1.0),
    "_seconds": ("time", 1.0),
    "_milliseconds": ("time", 1e-3),
    "_millisecond": ("time", 1e-3),
    "_microseconds": ("time", 1e-6),
    "_microsecond": ("time", 1e-6),
}
#: Endings that look like a unit of time and are none.
_NOT_TIME: Final = ("_per_s", "_rows_s")
_UNITS: Final[dict[str, tuple[str, float]]] = {
    "operations/s": ("rate", 1.0),
    "ops/s": ("rate", 1.0),
    "ops/sec": ("rate", 1.0),
    "tps": ("rate", 1.0),
    "1/s": ("rate", 1.0),
    "%": ("percent", 1.0),
    "us": ("time", 1e-6),
    "µs": ("time", 1e-6),
    "μs": ("time", 1e-6),
    "ms": ("time", 1e-3),
    "s": ("time", 1.0),
}
#: Stem -> what others call it, in lower case with `_` for all that is no letter or digit.
_OTHER_NAMES: Final[dict[str, str]] = {
    "throughput": "tps qps ops ops_per_s transactions_per_s transactions_per_sec transactions_per_second"
    " mean_throughput throughput_tps",
    "base_throughput": "base base_tps baseline baseline_throughput",
    "mean": "average avg mean_value",
    "sigma": "std sd std_dev stddev stdev standard_deviation std_deviation",
    "interval_low": "ci_low ci_lower conf_low conf_interval_low confidence_interval_low interval_lower lower low"
    " lower_bound",
    "interval_high": "ci_high ci_upper conf_high conf_interval_high confidence_interval_high interval_upper upper high"
    " upper_bound",
    "connections": "clients concurrency users virtual_users terminals",
    "latency": "mean_latency avg_latency average_latency response_time",
    "client_latency": "ycsb_latency latency_client",
    "latency_p50": "median latency_median median_latency",
    "latency_min": "min_latency minimum_latency",
    "latency_max": "max_latency maximum_latency",
    "scale_factor": "scale scaling scaling_factor",
    "runtime": "duration elapsed run_time",
    "vcpus": "v_cpus",
}
_ALIASES: Final = {name: stem for stem, names in _OTHER_NAMES.items() for name in names.split()}
#: Sections that tools put in front of a name of their summary, and that add nothing to it.
_SECTION: Final = re.compile(r"^(?:overall|latency_distribution)_(?=\w)")
#: Stems whose dimension is known although the name carries no unit.
_DIMENSIONS: Final = {"throughput": "rate"}
_COUNTED: Final = (
    "connections threads workers nodes servers coordinators drivers replicas vcpus cores vcpus_per_worker"
    " coordinator_vcpus coordinator_cores memory_gb shards warehouses operations records queries samples"
    " max_connections connections_per_coordinator sampling sampling_hz interval_level link load hardware_ratio"
    " snapshots_per_s network_bytes_per_snapshot"
)
#: Quantities that are counted or set, not measured: their digits are exact.
COUNTS: Final = frozenset(_COUNTED.split())
_SPREADS: Final = {
    name: stem for name, stem in _ALIASES.items() if stem in ("sigma", "interval_low", "interval_high")
} | {stem: stem for stem in ("sigma", "interval_low", "interval_high")}
#: `throughput_std` is the spread of a throughput; the dimension tells of which mean.
_SPREAD_OF: Final = re.compile(rf"^(?P<of>throughput|tps|\w*latency)_(?P<spread>{'|'.join(_SPREADS)})$")
_MEAN_OF: Final = re.compile(r"^(?P<of>throughput|\w*latency)_(?:mean|avg|average)$")
_ORDINAL: Final = re.compile(
    r"^(?:(?P<of>\w+?)_)?(?P<q>\d{1,2})(?:th|st|nd|rd)(?:_(?:pctl|percentile|pct))?(?:_latency)?$"
)
_LEADING: Final = re.compile(r"^p(?P<q>\d{2,4})_(?P<of>\w+)$")
_PERCENTILE: Final = re.compile(r"^(?:(?P<of>\w+?)_)?p(?P<q>\d{2,4})$")


@cache
def metric_of(name: str, unit: str | None = None) -> Metric:
    """The quantity that a name, and where the name lacks a suffix the unit beside it, stands for."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "_", name).lower().replace("%", "_percent")
    plain = _SECTION.sub("", re.sub(r"[^a-z0-9]+", "_", words).strip("_"))
    suffix = max((s for s in _SUFFIXES if _ends(plain, s)), key=len, default="")
    dimension, factor = _SUFFIXES.get(suffix) or _UNITS.get((unit or "").strip().lower(), ("", 1.0))
    stem = _canonical(plain.removesuffix(suffix))
    if spread := _SPREAD_OF.match(stem):
        of = _canonical(spread["of"])
        return Metric(_SPREADS[spread["spread"]], dimension or _DIMENSIONS.get(of, ""), factor)
    if stem == "mean" and dimension == "rate":
        stem = "throughput"
    return Metric(stem, dimension or _DIMENSIONS.get(stem, ""), factor)


def percentile_of(stem: str) -> tuple[str, float] | None:
    """The quantity and the percentage of a percentile's stem.

    Example:
        >>> percentile_of("server_latency_p999"), percentile_of("latency")
        (('server_latency', 99.9), None)
    """
    found = _PERCENTILE.match(stem)
    if found is None:
        return None
    digits = found["q"]
    return found["of"] or "latency", float(f"{digits[:2]}.{digits[2:] or 0}")


def _ends(plain: str, suffix: str) -> bool:
    return plain.endswith(suffix) and plain != suffix.strip("_") and not plain.endswith(_NOT_TIME)


def _canonical(stem: str) -> str:
    stem = _ALIASES.get(stem, stem)
    if mean := _MEAN_OF.match(stem):
        return mean["of"]
    if quantile := _ORDINAL.match(stem) or _LEADING.match(stem) or _PERCENTILE.match(stem):
        return f"{quantile['of'] or 'latency'}_p{quantile['q']}"
    return stem

"""Parse the name of a metric into quantity, dimension and unit.

Our own names carry the unit as suffix (`throughput_ops_s`, `client_latency_ms`, `sigma_ops_s`); headers that
other people print (``TPS (μ)``, ``Std. Dev.``, ``99th pctl. (ms)``, ``latency (µs)``) are understood too. Units are
those of :mod:`citus_analysis.units`.

Example:
    >>> parse_metric("latency_p99_ms")
    Metric(stem='latency_p99', dimension='time', factor=0.001)
    >>> parse_metric("99th pctl. (ms)") == parse_metric("latency_p99_ms")
    True
    >>> parse_metric("Std. Dev."), parse_metric("latency (µs)").factor, parse_metric("req/s").stem
    (Metric(stem='sigma', dimension='', factor=1.0), 1e-06, 'throughput')
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from citus_analysis.units import Unit, printed_unit


@dataclass(frozen=True)
class Metric:
    """A quantity without its unit.

    Attributes:
        stem: its name without unit suffix.
        dimension: `time` (base unit s), `rate` (1/s), `percent`, `data_rate` (bytes/s), or empty.
        factor: factor that converts a value to the base unit.
    """

    stem: str
    dimension: str
    factor: float


#: Stem -> synonyms, in lower case with `_` for every character that is not a letter or digit.
_OTHER_NAMES: Final[dict[str, str]] = {
    "throughput": "tps qps rps ops ops_per_s transactions_per_s transactions_per_sec transactions_per_second"
    " mean_throughput throughput_tps x thrpt thruput",
    "base_throughput": "base base_tps baseline baseline_throughput baseline_tps",
    "mean": "average avg mean_value mu",
    "sigma": "std sd std_dev stddev stdev standard_deviation std_deviation",
    "interval_low": "ci_low ci_lower conf_low conf_interval_low confidence_interval_low interval_lower lower low"
    " lower_bound",
    "interval_high": "ci_high ci_upper conf_high conf_interval_high confidence_interval_high interval_upper upper high"
    " upper_bound",
    "interval_half": "ci ci_half ci_half_width half_width margin margin_of_error confidence_interval",
    "standard_error": "se sem std_err std_error stderr",
    "variation": "cv rsd coefficient_of_variation coeff_of_variation",
    "connections": "clients concurrency users virtual_users terminals",
    "threads": "client_threads thread_count num_threads",
    "latency": "mean_latency avg_latency average_latency response_time lat rt mean_response_time avg_response_time",
    "client_latency": "ycsb_latency latency_client",
    "latency_p50": "median latency_median median_latency",
    "latency_min": "min_latency minimum_latency min minimum",
    "latency_max": "max_latency maximum_latency max maximum",
    "scale_factor": "scale scaling scaling_factor",
    "runtime": "duration elapsed run_time time total_time elapsed_time",
    "operations": "ops_total total_ops total_operations operation_count transactions requests",
    "vcpus": "v_cpus",
    "think_time": "think thinktime",
    "target": "target_throughput target_rate rate_limit",
}
_ALIASES: Final = {name: stem for stem, names in _OTHER_NAMES.items() for name in names.split()}
#: Sections that tools write in front of the names of their summary, without further meaning.
_SECTION: Final = re.compile(r"^(?:overall|latency_distribution)_(?=\w)")
#: Stems whose dimension is known although the name carries no unit.
_DIMENSIONS: Final = {"throughput": "rate", "base_throughput": "rate"}
_COUNTED: Final = (
    "connections threads workers nodes servers coordinators drivers replicas vcpus cores vcpus_per_worker"
    " coordinator_vcpus coordinator_cores memory_gb shards warehouses operations records queries samples"
    " max_connections connections_per_coordinator sampling sampling_hz interval_level link load hardware_ratio"
    " snapshots_per_s network_bytes_per_snapshot"
)
#: Quantities that are counted or set, not measured: their digits are exact.
COUNTS: Final = frozenset(_COUNTED.split())
#: Quantities that are computed from others of the table.
RATIOS: Final = frozenset(["scale_factor", "speedup", "efficiency", "change", "penalty", "difference", "variation"])
_SPREAD_STEMS: Final = ("sigma", "interval_low", "interval_high", "interval_half", "standard_error", "variation")
_SPREADS: Final = {name: stem for name, stem in _ALIASES.items() if stem in _SPREAD_STEMS} | {
    stem: stem for stem in _SPREAD_STEMS
}
_MEASURED: Final = r"throughput|tps|qps|ops|\w*latency"
#: `throughput_std` is the spread of a throughput; the dimension shows the mean that it belongs to.
_SPREAD_OF: Final = re.compile(rf"^(?P<of>{_MEASURED})_(?P<spread>{'|'.join(_SPREADS)})$")
_OF_SPREAD: Final = re.compile(rf"^(?P<spread>{'|'.join(_SPREADS)})_(?:of_)?(?P<of>{_MEASURED})$")
_MEAN_OF: Final = re.compile(r"^(?P<of>throughput|tps|\w*latency)_(?:mean|avg|average)$")
_OF_MEAN: Final = re.compile(r"^(?:mean|avg|average)_(?:of_)?(?P<of>throughput|tps|\w+latency)$")
_MEAN_BETWEEN: Final = re.compile(r"^(?P<of>\w+)_(?:mean|avg|average)_latency$")
#: `ci95_low`, `95_percent_ci_upper`, `lower_ci`: an end of a confidence interval, or its half-width.
_INTERVAL_WORDS: Final = re.compile(r"(?:^|_)(?:\d{0,4}ci\d{0,4}|conf|confidence|interval)(?:_|$)")
_LOW_WORDS: Final = re.compile(r"(?:^|_)(?:lo|low|lower|lb)(?:_|$)")
_HIGH_WORDS: Final = re.compile(r"(?:^|_)(?:hi|high|upper|ub)(?:_|$)")
_EXTREME: Final = re.compile(
    r"^(?:(?P<of>\w+)_)?(?P<first>min|max)(?:imum)?_(?P<what>throughput|tps|latency)$"
    r"|^(?P<base>throughput|tps|qps|\w*latency)_(?P<last>min|max)(?:imum)?$"
)
_LEVEL: Final = re.compile(r"(?<!\d)(80|90|95|98|99(?:[.]\d)?)(?!\d)")
_ORDINAL: Final = re.compile(
    r"^(?:(?P<of>\w+?)_)?(?P<q>\d{1,5})(?:th|st|nd|rd)(?:_(?:pctl|percentile|pct|perc|pctile))?(?:_latency)?$"
)
_LEADING: Final = re.compile(r"^p(?P<q>\d{2,5})_(?P<of>\w+)$")
_PERCENTILE: Final = re.compile(r"^(?:(?P<of>\w+?)_)?(?:p|pct|perc|percentile_?)(?P<q>\d{2,5})$")
#: Ends of names that are units in brackets only: `tps_min` is a minimum.
_NO_SUFFIX: Final = frozenset(
    ["min", "mins", "h", "m", "hour", "hours", "minute", "minutes", "ops", "iops", "reads", "writes", "1"]
)
_LONGEST_UNIT: Final = 3
_BRACKETED: Final = re.compile(r"^(?P<name>.*?)\s*(?:[(\[{]\s*(?P<unit>[^()\[\]{}]*?)\s*[)\]}]|,\s*(?P<after>\S+))\s*$")
_IN_UNIT: Final = re.compile(r"^(?P<name>.*\w)\s+in\s+(?P<unit>\S+)$", re.IGNORECASE)
#: Stem -> the stem of the same number if its unit is one of throughputs.
_OF_RATES: Final = {"mean": "throughput", "latency_min": "throughput_min", "latency_max": "throughput_max"}
_PER_SECOND: Final = re.compile(r"^(?P<name>.*\w)\s*/\s*(?:s|secs?|seconds?)$", re.IGNORECASE)
_SECONDS: Final = Unit("time", 1.0)
#: The level of an interval in its name: `95 % CI`.
_LEVEL_IN_NAME: Final = re.compile(r"\d{2}(?:[.]\d)?\s*%")
_INTERVAL_NAME: Final = re.compile(r"\bCI\b|conf|interval", re.IGNORECASE)
#: `95%` in front of a latency means a percentile.
_PERCENT_OF_LATENCY: Final = re.compile(r"(?<!\d)(\d{2,5})\s*%\s*-?(?:i?le|tile)?\s*(?=lat|resp|\(|$)", re.IGNORECASE)
_PLAIN_MULTIPLES: Final = {"k": 1e3, "thousand": 1e3, "thousands": 1e3, "x1000": 1e3, "m": 1e6, "million": 1e6}
#: Stems that a check can use without a unit.
_UNDERSTOOD: Final = COUNTS | RATIOS | set(_OTHER_NAMES) | {"nopm", "operations_per_day", "samples"}


@cache
def parse_metric(name: str, unit: str | None = None) -> Metric:
    """The quantity that a name denotes; if the name carries no unit, `unit` supplies it."""
    if name.endswith("±"):
        return Metric("plus_minus", "", 1.0)
    words, own = _split_stated_unit(name)
    words, multiple = _split_multiple(words)
    plain = _normalise_metric_name(words)
    if own is None:
        plain, own = _split_unit_suffix(plain)
    dimension, factor = own or printed_unit(unit or "") or Unit("", 1.0)
    stem = _canonicalise_stem(plain)
    if spread := _SPREAD_OF.match(stem) or _OF_SPREAD.match(stem):
        of = _canonicalise_stem(spread["of"])
        return Metric(_SPREADS[spread["spread"]], dimension or _DIMENSIONS.get(of, ""), factor)
    if dimension == "rate":
        stem = _OF_RATES.get(stem, stem)
    return Metric(stem, dimension or _DIMENSIONS.get(stem, ""), factor * multiple)


def parse_percentile(stem: str) -> tuple[str, float] | None:
    """The quantity and the percentage of a percentile's stem.

    Example:
        >>> parse_percentile("server_latency_p999"), parse_percentile("latency")
        (('server_latency', 99.9), None)
    """
    found = _PERCENTILE.match(stem)
    if found is None:
        return None
    digits = found["q"]
    return found["of"] or "latency", float(f"{digits[:2]}.{digits[2:] or 0}")


def parse_confidence_level(name: str) -> float | None:
    """The confidence level that the name of an interval's end carries.

    Example:
        >>> parse_confidence_level("99% CI low"), parse_confidence_level("ci_low")
        (0.99, None)
    """
    found = _LEVEL.search(name)
    return float(found[1]) / 100 if found else None


def is_understood(metric: Metric) -> bool:
    """Whether a check can use the metric: its unit is known, or its name.

    Example:
        >>> is_understood(parse_metric("p99.9 (ms)")), is_understood(parse_metric("flux"))
        (True, False)
    """
    stem = metric.stem
    quantity = stem.removesuffix("_min").removesuffix("_max")
    return bool(metric.dimension or quantity in _UNDERSTOOD or "_per_" in stem or stem.endswith("return_ok"))


def _split_stated_unit(name: str) -> tuple[str, Unit | None]:
    """The name without the unit that follows it in brackets, after a comma or after "in"."""
    for pattern in (_BRACKETED, _IN_UNIT):
        found = pattern.match(name)
        if found is not None and found["name"].strip():
            text = next(part for part in reversed(found.groups()) if part is not None)
            unit = printed_unit(text)
            if unit is not None and unit.dimension != "percent":
                return found["name"], unit
    each = _PER_SECOND.match(name)
    if each is not None and not _is_throughput(_normalise_metric_name(name)):
        known = printed_unit(name) or _split_unit_suffix(_normalise_metric_name(name))[1]
        if known in (None, _SECONDS) or known == Unit("rate", 1.0):
            return each["name"], Unit("rate", 1.0)
    return name, None


def _split_multiple(name: str) -> tuple[str, float]:
    """The name without a multiple in brackets, as in `throughput (k)`, and that multiple."""
    found = _BRACKETED.match(name)
    multiple = _PLAIN_MULTIPLES.get((found["unit"] or "").lower()) if found else None
    return (name, 1.0) if found is None or multiple is None else (found["name"], multiple)


def _normalise_metric_name(name: str) -> str:
    """The name in lower case, with `_` for characters that are no letter or digit, and percentiles as in `p999`."""
    text = re.sub(r"[µμ](?=s\b)", "u", name)
    text = re.sub(r"(?<=\d)[.](?=\d)", "", text)
    text = _LEVEL_IN_NAME.sub("", text) if _INTERVAL_NAME.search(text) else _PERCENT_OF_LATENCY.sub(r"\1th ", text)
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "_", text).lower().replace("%", "_percent")
    words = re.sub(r"[^a-z0-9]+", "_", text).strip("_")
    return _SECTION.sub("", re.sub(r"(?:(?<=_)|^)lat(?=_|$)", "latency", words))


def _split_unit_suffix(plain: str) -> tuple[str, Unit | None]:
    """The name without the unit at its end; a name that is only a rate means the throughput."""
    if _is_throughput(plain):
        return "throughput", printed_unit(plain)
    if plain.endswith("_iops"):
        return plain, Unit("rate", 1.0)
    words = plain.split("_")
    for length in range(min(_LONGEST_UNIT, len(words) - 1), 0, -1):
        ending = words[-length:]
        if (ending[0] in _NO_SUFFIX and length == 1) or ending[0] == "per" or ("bytes" in ending and "per" in ending):
            continue
        if words[-length - 1] == "per" or (ending == ["s"] and words[-2] == "rows"):
            continue
        unit = printed_unit("_".join(ending))
        if unit is not None:
            return "_".join(words[:-length]), unit
    return plain, None


_THROUGHPUT: Final = re.compile(
    r"[kmg]?(?:ops|operations?|reqs?|requests?|txn?s?|trx|xacts?|transactions?|quer(?:y|ies)|rows?|inserts|statements?)"
    r"_(?:per_)?(?:s|secs?|seconds?)|[km]?(?:tps|qps|rps)|kops|mops"
)


def _is_throughput(plain: str) -> bool:
    return _THROUGHPUT.fullmatch(plain) is not None


def _canonicalise_stem(stem: str) -> str:
    stem = _ALIASES.get(stem, stem)
    if mean := _MEAN_OF.match(stem) or _OF_MEAN.match(stem):
        return _ALIASES.get(mean["of"], mean["of"])
    if between := _MEAN_BETWEEN.match(stem):
        return f"{between['of']}_latency"
    if extreme := _EXTREME.match(stem):
        what = extreme["what"] or extreme["base"]
        of = "_".join(part for part in (extreme["of"], _ALIASES.get(what, what)) if part)
        return f"{of}_{extreme['first'] or extreme['last']}"
    if _INTERVAL_WORDS.search(stem):
        end = "low" if _LOW_WORDS.search(stem) else "high" if _HIGH_WORDS.search(stem) else ""
        if end:
            return f"interval_{end}"
    if quantile := _ORDINAL.match(stem) or _LEADING.match(stem) or _PERCENTILE.match(stem):
        return f"{quantile['of'] or 'latency'}_p{quantile['q']}"
    return stem

"""Units as they appear in column names, and conversions between them.

A quantity's unit is the last part of its name (``duration_us``, ``throughput_ops_s``, ``read_kb_s``).
This module is the only place that defines the meaning of suffixes.

Example:
    >>> get_unit("duration_us")
    'µs'
    >>> get_unit("throughput_ops_s")
    'operations/s'
    >>> get_unit("node") is None
    True
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

__all__ = [
    "SECONDS_PER_UNIT",
    "SUFFIX_UNITS",
    "US_PER_MS",
    "US_PER_S",
    "Unit",
    "better_direction",
    "get_unit",
    "label",
    "printed_unit",
]

US_PER_MS: Final = 1_000
US_PER_S: Final = 1_000_000

#: Suffix of a name -> printable unit. The longest suffix of a name is decisive.
SUFFIX_UNITS: Final[dict[str, str]] = {
    "_ops_s": "operations/s",
    "_per_s": "1/s",
    "_kb_s": "kB/s",
    "_mb_s": "MB/s",
    "_mbit_s": "Mbit/s",
    "_gbit_s": "Gbit/s",
    "_us": "µs",
    "_ms": "ms",
    "_s": "s",
    "_percent": "%",
    "_bytes": "B",
    "_kb": "kB",
    "_ppm": "ppm",
}


class Unit(NamedTuple):
    """Dimension and size of a unit.

    Attributes:
        dimension: `time` (base unit s), `rate` (1/s), `percent`, `data_rate` (bytes/s), or empty.
        factor: factor that converts a value to the base unit.
    """

    dimension: str
    factor: float


#: Units of time as people and tools print them, in seconds.
SECONDS_PER_UNIT: Final[dict[str, float]] = {
    **dict.fromkeys(["ns", "nsec", "nanosecond", "nanoseconds"], 1e-9),
    **dict.fromkeys(["us", "usec", "usecs", "µs", "μs", "microsec", "microsecs", "microsecond", "microseconds"], 1e-6),
    **dict.fromkeys(["ms", "msec", "msecs", "millisec", "millisecs", "millisecond", "milliseconds"], 1e-3),
    **dict.fromkeys(["s", "sec", "secs", "second", "seconds"], 1.0),
    **dict.fromkeys(["min", "mins", "minute", "minutes"], 60.0),
    **dict.fromkeys(["h", "hour", "hours"], 3_600.0),
}
_MULTIPLES: Final[dict[str, float]] = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_COUNTED: Final = (
    "1 op ops operation operations req reqs request requests tx txn txns trx xact xacts transaction transactions"
    " query queries row rows record records insert inserts update updates read reads write writes select selects"
    " statement statements stmt stmts commit commits io ios event events doc docs document documents call calls"
)
_COUNTS: Final = "|".join(sorted(_COUNTED.split(), key=len, reverse=True))
_RATE: Final = re.compile(
    rf"(?P<multiple>[kmg]?) ?(?:(?:{_COUNTS}) ?(?:/|per|p|_per_|_) ?(?:s|secs?|seconds?)|tps|qps|rps|iops|ops)"
)
_PER_REQUEST: Final = re.compile(rf" ?/ ?(?:{_COUNTS})$")
_DATA: Final = re.compile(
    r"(?P<multiple>[kmgt]?)i?(?P<what>bits?|bytes?|b(?!ps)) ?(?:/|per|p|_per_|_) ?(?:s|secs?|seconds?)"
    r"|(?P<bits>[kmgt])bps"
)
_BITS_PER_BYTE: Final = 8.0


def printed_unit(text: str) -> Unit | None:
    """The meaning of a printed unit; None if it is unknown.

    Minutes and hours are recognised as times; rates only per second.

    Example:
        >>> printed_unit("µs"), printed_unit("req/s")
        (Unit(dimension='time', factor=1e-06), Unit(dimension='rate', factor=1.0))
        >>> printed_unit("kops/s").factor, printed_unit("Mbit/s").factor, printed_unit("parsec")
        (1000.0, 125000.0, None)
    """
    spelt = " ".join(text.strip().split())
    plain = spelt.lower()
    if plain in ("%", "percent", "per cent", "pct"):
        return Unit("percent", 1.0)
    time = SECONDS_PER_UNIT.get(_PER_REQUEST.sub("", plain))
    if time is not None:
        return Unit("time", time)
    if rate := _RATE.fullmatch(plain):
        return Unit("rate", _MULTIPLES[rate["multiple"]])
    if data := _DATA.fullmatch(plain):
        # "b" is a byte unless "bit" is written out, because benchmarks print kB/s as kb_s.
        bits = bool(data["bits"]) or data["what"].startswith("bit")
        return Unit("data_rate", _MULTIPLES[data["multiple"] or data["bits"] or ""] / (_BITS_PER_BYTE if bits else 1.0))
    return None


_BY_LENGTH: Final = sorted(SUFFIX_UNITS, key=len, reverse=True)


def get_unit(column: str) -> str | None:
    """The printable unit of a column, from the suffix of its name; None for a column without a unit."""
    return next((SUFFIX_UNITS[s] for s in _BY_LENGTH if column.endswith(s)), None)


def label(column: str) -> str:
    """A readable axis or header label for a column.

    Example:
        >>> label("latency_us")
        'latency [µs]'
        >>> label("throughput_ops_s")
        'throughput [operations/s]'
    """
    suffix = next((s for s in _BY_LENGTH if column.endswith(s)), "")
    # Names of columns have the spelling of the tools; labels are in British English.
    words = column.removesuffix(suffix).replace("_", " ").replace("utilization", "utilisation")
    return f"{words} [{SUFFIX_UNITS[suffix]}]" if suffix else words


#: Suffixes of rates, and words of a metric's name, of which more is better.
_HIGHER_SUFFIXES: Final = ("_ops_s", "_per_s", "_kb_s", "_mb_s", "_mbit_s", "_gbit_s", "_per_min", "_per_sec")
_HIGHER_WORDS: Final = frozenset(
    {
        *("throughput", "goodput", "ops", "tps", "qps", "rps", "iops", "tpm", "tpmc", "tpmtotal", "nopm"),
        *("speedup", "efficiency", "bandwidth", "score"),
    }
)
#: Suffixes of times, and words of a metric's name, of which less is better.
_LOWER_SUFFIXES: Final = ("_ns", "_us", "_ms", "_s", "_min")
_LOWER_WORDS: Final = frozenset(
    {
        *("latency", "latencies", "duration", "delay", "wait", "waits", "elapsed", "time", "runtime", "lag", "cost"),
        *("failed", "failures", "error", "errors", "aborts", "aborted", "timeouts", "deadlocks", "retries", "misses"),
    }
)


def better_direction(metric: str) -> Literal["higher", "lower"] | None:
    """Whether higher or lower values of a metric are better, by its name; None if the name does not say.

    More of a rate is better, and less of times and failures, also of failures per second. Nothing else decides this.

    Example:
        >>> better_direction("throughput_ops_s"), better_direction("latency_ms"), better_direction("cpu_percent")
        ('higher', 'lower', None)
    """
    name = metric.lower()
    words = set(re.split(r"[^a-z0-9]+", name))
    if words & _LOWER_WORDS:
        return "lower"
    if name.endswith(_HIGHER_SUFFIXES) or words & _HIGHER_WORDS:
        return "higher"
    return "lower" if name.endswith(_LOWER_SUFFIXES) else None

"""Checks that numbers are possible, and that runs were long enough to be sampled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from citus_analysis.published._rows import Number, Row
from citus_analysis.published.checks._registry import Finding, check, finding, rows_of
from citus_analysis.published.counts.counted_means import means_of_counts
from citus_analysis.published.counts.whole_numbers import judge_counts
from citus_analysis.texts.metric_names import COUNTS
from citus_analysis.texts.number_text import readable

#: Samplers (iostat, status lines) sample once a second by default.
DEFAULT_SAMPLING_HZ: Final = 1.0
ENOUGH_SAMPLES: Final = 30
#: Dimension -> smallest and largest possible value, in base units, and the reason.
_POSSIBLE: Final[dict[str, tuple[float, float, str]]] = {
    "rate": (0.0, 1e10, "no database does that many operations per second"),
    "time": (0.0, 30 * 86_400.0, "no request or run takes that long"),
    "percent": (0.0, 100.0, "a share lies between 0 and 100 %"),
    "data_rate": (0.0, 1e13, "no machine moves that much data"),
}
#: Words in names of quantities that may be negative or above 100 %: changes, differences, ends of intervals, ratios.
_SIGNED: Final = re.compile(
    "change|diff|delta|overhead|interval|gain|improv|increase|decrease|growth|penalty|speedup|efficiency|relative|scal|"
    "faster|slower|vs|versus|compared|of_base|reduction|variation"
)
#: The shortest round trip over a network that a statement can take.
_SHORTEST_S: Final = 1e-6


@check("units_plausible", "Is each number possible in its unit?", rows_of)
def units_plausible(row: Row) -> Iterator[Finding]:
    """Shares within 100 %, counts whole, times positive, no network faster than its link."""
    possible = finding(row, "possible values", f"{len(row.numbers)} metrics", "they are")
    yield from list(_impossible(row)) or [possible]


def _impossible(row: Row) -> Iterator[Finding]:
    link = row.get("link")
    for stem in row.numbers:
        number = row[stem]
        for expected, why in _problems(stem, number):
            yield finding(row, expected, f"{stem} {number}", red=why)
        if link and number.metric.dimension == "data_rate" and number.range.low > link.range.high:
            limit = f"at most {number.printed(link.value)}"
            yield finding(row, limit, f"{stem} {number}", red="more than the link can carry")
    if row.states("throughput") and row["throughput"].value == 0:
        text = "no operation was done: a failed run is not a measurement"
        yield finding(row, "more than 0", f"throughput {row['throughput']}", amber=text)
    sigma, mean = row.sigma_and_mean
    if sigma and mean and sigma.range.low > mean.range.high > 0:
        text = "the standard deviation exceeds the mean of a quantity that cannot be negative"
        yield finding(row, f"below {mean}", str(sigma), amber=text)


def _problems(stem: str, number: Number) -> Iterator[tuple[str, str]]:
    low, high, why = _POSSIBLE.get(number.metric.dimension, (-float("inf"), float("inf"), ""))
    if _SIGNED.search(stem):
        low = high = float("nan")
    if number.value < low or number.value > high:
        yield f"{number.printed(low)} to {number.printed(high)}", why
    if stem in COUNTS and number.metric.dimension == "" and stem != "interval_level" and number.value % 1:
        yield "a whole number", "counts are whole numbers"
    if "latency" in stem and "difference" not in stem and 0 <= number.range.high < _SHORTEST_S:
        yield f"at least {number.printed(_SHORTEST_S)}", "no statement is answered so fast: wrong unit?"
    if stem == "interval_level" and not 0 < number.value < 100:
        yield "0.95, or 95 for per cent", "a confidence level is a probability"


@check("whole_numbers", "Can the mean and the deviation of counts be those of n whole numbers?", rows_of)
def whole_numbers(row: Row) -> Iterator[Finding]:
    """Counts are whole in each run, so that only some means and deviations are possible for a stated n."""
    for counts in means_of_counts(row):
        if row.n is not None:
            severity, *texts = judge_counts(row.n, counts)
            yield Finding(severity, "", *row.place, *texts)


@check("run_length", "Did the run last long enough for its sampling rate?", rows_of)
def run_length(row: Row) -> Iterator[Finding]:
    """Run time × sampling rate is the number of samples; below 30, start-up and chance dominate."""
    seconds = _seconds(row)
    if seconds is not None:
        rate = row.get("sampling_hz")
        hertz = rate.value if rate and rate.value > 0 else DEFAULT_SAMPLING_HZ
        samples = seconds * hertz
        expected = f"at least {readable(ENOUGH_SAMPLES / hertz)} s at {readable(hertz)} Hz"
        amber = f"about {samples:.0f} samples at {readable(hertz)} Hz: start-up and chance dominate"
        short = samples < ENOUGH_SAMPLES
        yield finding(row, expected, f"{readable(seconds)} s", "long enough", amber=amber if short else "")


def _seconds(row: Row) -> float | None:
    runtime, operations, rate = row.get("runtime"), row.get("operations"), row.get("throughput")
    if runtime:
        return runtime.value
    return operations.value / rate.value if operations and rate and rate.value else None

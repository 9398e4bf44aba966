"""Means of counted things: numbers whose single values are whole, by the words of their names and units.

`mean errors`, `failed_operations (avg)` and `number of transactions, mean` are means of whole numbers. Names that are
used for rates as well (`mean transactions`) need a word that says it: `count`, `number`, `total`, or the unit `count`.
Averages over time (`mean connections`) are not whole in a run and need it too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from citus_analysis.published._numbers import APPROXIMATE
from citus_analysis.published._rows import Number, Row

#: Things that are only ever counted.
_EVENTS: Final = frozenset(
    re.findall(
        r"\w+",
        """errors failures failed aborts aborted deadlocks retries timeouts conflicts rollbacks restarts crashes
        exceptions checkpoints disconnects""",
    )
)
#: Things that are counted, but whose names people use for rates and averages over time too.
_WORK: Final = frozenset(
    re.findall(
        r"\w+",
        """operations ops transactions requests queries statements rows records inserts updates reads writes commits
        connections sessions samples""",
    )
)
_COUNT: Final = frozenset({"count", "counts", "number", "total"})
#: Words of a name that say nothing of the quantity.
_FILLING: Final = frozenset({"of", "the", "in", "k", "m", "thousand", "thousands", "million", "n"})
_ROLES: Final = {
    "mean": {"mean", "avg", "average"},
    "sigma": {"sd", "std", "stdev", "stddev", "sigma", "dev", "deviation", "standard"},
    "min": {"min", "minimum"},
    "max": {"max", "maximum"},
}
_EACH_RUN: Final = re.compile(r"\bper[ _]?(?:run|iteration|repetition|repeat|trial)\b")


@dataclass(frozen=True)
class CountMean:
    """A mean of whole numbers in a row, with the numbers that belong to it.

    Attributes:
        quantity: what is counted.
        mean: the mean.
        sigma: the standard deviation of the single values.
        low: the smallest of them.
        high: the largest.
    """

    quantity: str
    mean: Number
    sigma: Number | None = None
    low: Number | None = None
    high: Number | None = None


def counted_quantity(name: str, unit: str = "") -> tuple[str, str] | None:
    """The counted quantity of a name, and whether the name means its mean, deviation, smallest or largest value.

    Example:
        >>> counted_quantity("mean failed operations"), counted_quantity("errors_sd")
        (('failed operations', 'mean'), ('errors', 'sigma'))
        >>> counted_quantity("mean transactions"), counted_quantity("errors/s")
        (None, None)
    """
    if "±" in name:
        return None
    text = _EACH_RUN.sub("", f"{name} {unit}".lower())
    words = [word for word in re.findall(r"[^\W\d_]+|\d+|%", text) if word not in _FILLING]
    roles = [role for role, names in _ROLES.items() if names & set(words)]
    rest = list(dict.fromkeys(word for word in words if not any(word in names for names in _ROLES.values())))
    said = bool(_COUNT & set(rest))
    thing = [word for word in rest if word not in _COUNT]
    known = all(word in _EVENTS | _WORK for word in thing) and (said or bool(_EVENTS & set(thing)))
    # The unit `count` says it of any quantity.
    if len(roles) > 1 or not (known or unit.lower() in ("count", "counts")):
        return None
    role = roles[0] if roles else "mean" if _EACH_RUN.search(name.lower()) else ""
    return " ".join(thing) or "count", role


def means_of_counts(row: Row) -> Iterator[CountMean]:
    """The means of counted things that a row states; a number beside its deviation is a mean."""
    found: dict[str, dict[str, Number]] = defaultdict(dict)
    for number in (one for numbers in row.numbers.values() for one in numbers[:1] if not one.metric.dimension):
        named = counted_quantity(number.name, number.unit)
        if named is not None:
            quantity, role = named
            found[quantity].setdefault(role, number)
    bare = row.get("sigma")
    for quantity, numbers in found.items():
        mean, sigma = numbers.get("mean"), numbers.get("sigma")
        if sigma is None and bare is not None and not bare.metric.dimension and len(found) == 1:
            sigma = bare if row.mean_for(bare) in (None, mean) else None
        mean = mean or (numbers.get("") if sigma is not None else None)
        # What a publication calls an approximation has no certain digits.
        if mean is not None and mean.value >= 0 and APPROXIMATE not in mean.stated:
            yield CountMean(quantity, mean, sigma, numbers.get("min"), numbers.get("max"))

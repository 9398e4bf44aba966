"""The form of a claim: one line, parts split by commas.

::

    ratio throughput_ops_s, workers 8 over 1, workload c, at least 6
    difference throughput_ops_s, monitored true over false, between -500 and 500
    mean latency_ms, row "INSERT, 2 workers", at most 30

The first part is a quantity (`ratio` or `difference` of two means, or `mean`) and a metric. `COLUMN A over B` names the
two sides, `COLUMN VALUE` what both have; a value with a comma or the word `over` is in double quotes. The last part is
the bound: `at least X`, `at most X`, `between X and Y`, `about X within P %`, or `higher` and `lower`, which are above
and below a ratio of 1 or a difference of 0.

Example:
    >>> form = parse_form("ratio throughput_ops_s, workers 8 over 1, workload c, at least 6")
    >>> form.axes, form.conditions, form.bound.low
    ((('workers', '8', '1'),), (('workload', 'c'),), 6.0)
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from citus_analysis.errors import FormatError

QUANTITIES: Final = ("ratio", "difference", "mean")
_PART: Final = re.compile(r'(?:"[^"]*"|[^",])+')
_VALUE: Final = r'"[^"]*"|[^",]+?'
_NUMBER: Final = r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_COLUMN: Final = r"\w[\w.]*"
_HEAD: Final = re.compile(rf"({'|'.join(QUANTITIES)})\s+({_COLUMN})")
_AXIS: Final = re.compile(rf"({_COLUMN})\s+({_VALUE})\s+over\s+({_VALUE})")
_CONDITION: Final = re.compile(rf"({_COLUMN})\s+({_VALUE})")
#: First words of a bound -> the bound.
_BOUNDS: Final = {
    "at least": "at least {}",
    "at most": "at most {}",
    "between": "between {} and {}",
    "about": "about {} within {} %",
    "higher": "higher",
    "lower": "lower",
}
_WAY_OUT: Final = "write: ratio METRIC, COLUMN A over B, COLUMN VALUE, at least X; docs/claims.md has all forms"


@dataclass(frozen=True)
class Bound:
    """The values that a claim allows.

    Attributes:
        kind: word that begins it.
        numbers: its numbers as written.
    """

    kind: str
    numbers: tuple[float, ...] = ()

    def ends(self, quantity: str) -> tuple[float, float]:
        """Lowest and highest allowed value.

        Example:
            >>> Bound("about", (1.0, 25.0)).ends("ratio"), Bound("higher").ends("difference")
            ((0.8, 1.25), (0.0, inf))
        """
        first, *rest = *self.numbers, 1.0 if quantity == "ratio" else 0.0
        match self.kind:
            case "between":
                return first, rest[0]
            case "about":
                factor = 1 + rest[0] / 100
                return first / factor, first * factor
        return (first, math.inf) if self.kind in ("at least", "higher") else (-math.inf, first)

    @property
    def low(self) -> float:
        """Lowest allowed ratio."""
        return self.ends("ratio")[0]

    def __str__(self) -> str:
        # Without an exponent: `at least 1000000`.
        shown = [f"{number:.17g}" if number != float(f"{number:.15g}") else f"{number:.15g}" for number in self.numbers]
        return _BOUNDS[self.kind].format(*shown)


@dataclass(frozen=True)
class Form:
    """A parsed form.

    Attributes:
        quantity: `ratio`, `difference` or `mean`.
        metric: the measured metric.
        axes: column, value of the first side, value of the second; none for a mean.
        conditions: column and value that the runs have.
        bound: the allowed values.
    """

    quantity: str
    metric: str
    axes: tuple[tuple[str, str, str], ...]
    conditions: tuple[tuple[str, str], ...]
    bound: Bound

    def side(self, which: int) -> dict[str, str]:
        """Column -> value of the first (0) or second (1) side."""
        return dict(self.conditions) | {axis[0]: axis[1 + which] for axis in self.axes}

    def __str__(self) -> str:
        axes = [f"{name} {_quoted(a)} over {_quoted(b)}" for name, a, b in self.axes]
        same = [f"{name} {_quoted(value)}" for name, value in self.conditions]
        return ", ".join([f"{self.quantity} {self.metric}", *axes, *same, str(self.bound)])


def parse_form(text: str) -> Form:
    """The form in a line of text.

    Raises:
        FormatError: the text has no form; the message names the part that is wrong.
    """
    parts = [part.strip() for part in _PART.findall(text)]
    commas = re.sub(r'"[^"]*"', "", text).count(",")
    if text.count('"') % 2 or not parts or len(parts) != commas + 1:
        raise FormatError(f"{text!r} has an empty part or an open quotation", way_out=_WAY_OUT)
    head = _HEAD.fullmatch(parts[0])
    if head is None:
        raise FormatError(f"{parts[0]!r} does not begin with {' or '.join(QUANTITIES)} and a metric", way_out=_WAY_OUT)
    if len(parts) < 2:
        raise FormatError(f"{text!r} states no bound", way_out=_WAY_OUT)
    axes, conditions = _selection(parts[1:-1])
    quantity, bound = head[1], _bound(parts[-1])
    _check(quantity, axes, bound)
    return Form(quantity, head[2], axes, conditions, bound)


def _selection(parts: list[str]) -> tuple[tuple[tuple[str, str, str], ...], tuple[tuple[str, str], ...]]:
    axes, conditions, seen = [], [], set()
    for part in parts:
        axis, condition = _AXIS.fullmatch(part), _CONDITION.fullmatch(part)
        found = axis or condition
        if found is None:
            raise FormatError(f"{part!r} is neither COLUMN VALUE nor COLUMN A over B", way_out=_WAY_OUT)
        if found[1] in seen:
            raise FormatError(f"{found[1]} occurs twice", way_out="name each column once")
        seen.add(found[1])
        if axis:
            axes.append((axis[1], axis[2].strip('"'), axis[3].strip('"')))
        elif condition:
            conditions.append((condition[1], condition[2].strip('"')))
    return tuple(axes), tuple(conditions)


def _bound(part: str) -> Bound:
    for kind, words in _BOUNDS.items():
        pattern = words.replace(" %", " ?%").format(f"({_NUMBER})", f"({_NUMBER})")
        if found := re.fullmatch(pattern, " ".join(part.split())):
            return Bound(kind, tuple(map(float, found.groups())))
    raise FormatError(f"{part!r} is no bound", way_out=f"end with one of: {', '.join(_BOUNDS)}, with its numbers")


def _check(quantity: str, axes: tuple[tuple[str, str, str], ...], bound: Bound) -> None:
    if bool(axes) == (quantity == "mean"):
        wanted = "no COLUMN A over B" if axes else "COLUMN A over B"
        raise FormatError(f"a {quantity} needs {wanted}", way_out=_WAY_OUT)
    if same := next((name for name, a, b in axes if a == b), None):
        raise FormatError(f"both sides have the same {same}", way_out="name two values")
    low, high = bound.ends(quantity)
    if not all(map(math.isfinite, bound.numbers)) or low >= high:
        raise FormatError(f"'{bound}' allows no value", way_out="write the smaller number first")
    if bound.kind == "about" and (bound.numbers[0] <= 0 or bound.numbers[1] <= 0):
        raise FormatError(f"'{bound}' is no range of positive values", way_out="write: about 1 within 5 %")
    if quantity == "ratio" and high <= 0:
        raise FormatError(f"a ratio is never '{bound}'", way_out="compare a difference instead")
    if quantity == "mean" and bound.kind in ("higher", "lower"):
        raise FormatError(f"a mean is not '{bound}' than anything", way_out="write: at least X, at most X")


def _quoted(value: str) -> str:
    plain = value and value == value.strip() and "," not in value and not re.search(r"\sover\s", value)
    return value if plain else f'"{value}"'

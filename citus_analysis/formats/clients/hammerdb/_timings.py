"""Latencies of HammerDB's procedures, from its time profile, its job database or its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from citus_analysis.operations import OVERALL, SAMPLED_PERCENTILES

#: Section, metric, unit and value.
Row = tuple[str, str, str | None, float]
#: Fields of JOBTIMING and of the JSON -> names of the profile, if these differ in more than case and the suffix `_ms`.
_NAMES: Final = {"ratio_pct": "RATIO", "elapsed_ms": "ELAPSED"}
#: Factor above 100 % from which a sum of shares is wrong, and above its stated share from which a total time is wrong.
_TOLERANCE: Final = 1.1
_TWICE: Final = " as summed by HammerDB"
_SUMS: Final = ("CALLS", "TOTAL")


def named(fields: Mapping[str, float]) -> dict[str, float]:
    """Values by the names of the time profile.

    Example:
        >>> named({"calls": 3.0, "p99_ms": 0.5, "ratio_pct": 40.0})
        {'CALLS': 3.0, 'P99': 0.5, 'RATIO': 40.0}
    """
    return {_NAMES.get(name, name.removesuffix("_ms").upper()): value for name, value in fields.items()}


@dataclass
class Timings:
    """Values of each procedure, of single users and of all."""

    _users: list[Row] = field(default_factory=list)
    _calls: dict[str, float] = field(default_factory=dict)
    _all: dict[str, dict[str, float]] = field(default_factory=dict)

    def add(self, procedure: str, values: Mapping[str, float], user: str | None = None) -> None:
        """Add values by the names of the time profile, of one user or of all."""
        if user is None:
            self._all.setdefault(procedure, {}).update(values)
            return
        sampled = "P75" in values
        self._users += [
            (OVERALL, f"virtual user {user}: {procedure} {name}", _unit(name, sampled=sampled), value)
            for name, value in values.items()
        ]
        self._calls[procedure] = self._calls.get(procedure, 0.0) + values.get("CALLS", 0.0)

    def rows(self, users: float | None = None) -> list[Row]:
        """All values; wrong sums of HammerDB are named `... as summed by HammerDB`.

        Args:
            users: number of virtual users that ran procedures; None if unknown.
        """
        sampled = any("P75" in values for values in self._all.values())
        doubled = sum(values.get("RATIO", 0.0) for values in self._all.values()) > 100 * _TOLERANCE
        rows: list[Row] = [(OVERALL, "time profile includes ramp-up", None, 1.0)] if self._all else []
        for procedure, values in self._all.items():
            summed = self._calls.get(procedure)
            wrong = doubled or _is_doubled(values, users) if summed is None else summed != values.get("CALLS")
            rows += [(procedure, SAMPLED_PERCENTILES, None, 1.0)] if sampled else []
            for name, value in values.items():
                shown = f"{name}{_TWICE}" if wrong and name in _SUMS else name
                rows += [(procedure, shown, _unit(name, sampled=sampled), value)] if name != "ELAPSED" else []
            rows += [(procedure, "CALLS", None, summed)] if wrong and summed is not None else []
        return [*self._users, *rows]


def _is_doubled(values: Mapping[str, float], users: float | None) -> bool:
    """Whether the total time exceeds the share of the users' time that the summary states."""
    if not users or not values.get("ELAPSED") or "TOTAL" not in values or "RATIO" not in values:
        return False
    return 100 * values["TOTAL"] / values["ELAPSED"] / users > values["RATIO"] * _TOLERANCE


def _unit(name: str, *, sampled: bool) -> str | None:
    """Unit of a value; clicks, in which older versions give SD, are microseconds."""
    if name == "SD":
        return "ms" if sampled else "us"
    return {"CALLS": None, "RATIO": "%"}.get(name, "ms")

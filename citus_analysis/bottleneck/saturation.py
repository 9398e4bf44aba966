"""Identify the component that was at or near its limit during a run; each verdict states its rule."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

import polars as pl

from citus_analysis.core.defaults import SATURATED_PERCENT
from citus_analysis.core.displays import Shown
from citus_analysis.core.frames import Frame, as_polars
from citus_analysis.texts.counted_words import counted

__all__ = ["LEAST_SAMPLES", "NEAR_PERCENT", "RULE", "SATURATED_PERCENT", "Saturation", "saturation", "saturation_frame"]

#: Mean utilisation from which queues in front of a component grow fast (at 70 % a single server's response time
#: is 3.3 service times).
NEAR_PERCENT: Final = 70.0
#: Fewer samples than these are no measurement of a run.
LEAST_SAMPLES: Final = 5
#: Stolen CPU time from which a warning is added: the hypervisor withheld CPU time from the machine.
_STEAL_PERCENT: Final = 5.0

RULE: Final = (
    f"saturated: mean utilisation >= {SATURATED_PERCENT:.0f} %; near saturation: mean >= {NEAR_PERCENT:.0f} % "
    f"or 95th percentile >= {SATURATED_PERCENT:.0f} %; at least {LEAST_SAMPLES} samples"
)

Verdict = Literal["saturated", "near saturation", "headroom", "not measured"]


@dataclass(frozen=True, repr=False)
class Saturation(Shown):
    """The verdict on one run.

    Attributes:
        resource: the run's resource.
        run_id: the run.
        verdict: `saturated`, `near saturation`, `headroom` (of what was measured) or `not measured`.
        component: the busiest component, `cpu` or a device; None where nothing was measured.
        node: its node.
        mean_percent: its mean utilisation.
        p95_percent: its 95th percentile; None below 20 samples.
        n: number of its samples.
        rule: rule that determines the verdict.
        warnings: limits of the verdict.
    """

    resource: str | None
    run_id: str | None
    verdict: Verdict
    component: str | None = None
    node: str | None = None
    mean_percent: float | None = None
    p95_percent: float | None = None
    n: int = 0
    rule: str = RULE
    warnings: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        if self.component is None or self.mean_percent is None:
            return f"{self.run_id}: {self.verdict}"
        where = "" if self.node is None else f" of node {self.node}"
        busiest = f"busiest was {self.component}{where}, {self.mean_percent:.0f} % (n = {self.n})"
        return f"{self.run_id}: {self.verdict}; {busiest}"


def saturation(utilization: Frame, runs: Frame | None = None) -> tuple[Saturation, ...]:
    """A verdict per run: its busiest component decides, by :data:`RULE`.

    A device's utilisation is the share of time with a request in flight. A device that serves many requests at
    once (SSD, RAID, cloud volume) can take more work at 100 %: a verdict on a device carries a warning.

    Args:
        utilization: what :func:`resource_utilization` returned.
        runs: the table `runs`; its runs without samples get the verdict `not measured`.

    Returns:
        One verdict per run, in order of resource and run.

    Example:
        >>> import polars as pl
        >>> row = {"resource": "w2", "run_id": "w2/1", "node": "1", "component": "cpu", "name": "cpu", "n": 30}
        >>> row |= {"mean_percent": 96.5, "p95_percent": 100.0, "steal_percent": 0.2, "within_run": True}
        >>> print(*saturation(pl.DataFrame([row])))
        w2/1: saturated; busiest was cpu of node 1, 96 % (n = 30)
    """
    frame = as_polars(utilization)
    found = {
        (resource, run_id): _verdict(resource, run_id, group)
        for (resource, run_id), group in frame.group_by("resource", "run_id", maintain_order=True)
    }
    if runs is not None:
        for resource, run_id in as_polars(runs).select("resource", "run_id").unique().iter_rows():
            found.setdefault((resource, run_id), Saturation(resource, run_id, "not measured"))
    return tuple(found[key] for key in sorted(found, key=lambda key: (key[0] or "", key[1] or "")))


def saturation_frame(verdicts: tuple[Saturation, ...]) -> pl.DataFrame:
    """Verdicts as a frame, one row per run; warnings joined by semicolons."""
    names = ("resource", "run_id", "verdict", "component", "node", "mean_percent", "p95_percent", "n", "rule")
    schema = {name: pl.String() for name in names} | {"warnings": pl.String()}
    numbers = {"mean_percent": pl.Float64(), "p95_percent": pl.Float64(), "n": pl.Int64()}
    rows = [{n: getattr(v, n) for n in names} | {"warnings": "; ".join(v.warnings)} for v in verdicts]
    return pl.DataFrame(rows, schema={**schema, **numbers})


def _verdict(resource: str, run_id: str | None, components: pl.DataFrame) -> Saturation:
    enough = components.filter(pl.col("n") >= LEAST_SAMPLES)
    if enough.is_empty():
        most = components.select(pl.col("n").max()).item()
        return Saturation(
            resource, run_id, "not measured", warnings=(f"at most {counted(most, 'sample')} of a component",)
        )
    busiest = enough.sort("mean_percent", "component", "node", descending=[True, False, False]).row(0, named=True)
    node = busiest["node"]
    return Saturation(
        resource,
        run_id,
        _word(busiest["mean_percent"], busiest["p95_percent"]),
        component=busiest["name"],
        node=None if node is None else str(node),
        mean_percent=busiest["mean_percent"],
        p95_percent=busiest["p95_percent"],
        n=busiest["n"],
        warnings=tuple(_warnings(busiest["component"], busiest["mean_percent"], enough)),
    )


def _word(mean: float, p95: float | None) -> Verdict:
    if mean >= SATURATED_PERCENT:
        return "saturated"
    return "near saturation" if mean >= NEAR_PERCENT or (p95 or 0.0) >= SATURATED_PERCENT else "headroom"


def _warnings(component: str, mean_percent: float, measured: pl.DataFrame) -> list[str]:
    warnings = []
    if component == "device" and mean_percent >= NEAR_PERCENT:
        warnings.append("a device that serves requests in parallel can take more work at full utilisation")
    missing = [component for component in ("cpu", "device") if component not in measured["component"]]
    warnings += [f"no {component} was measured" for component in missing]
    steal = measured["steal_percent"].max() if "steal_percent" in measured.columns else None
    if isinstance(steal, float) and steal >= _STEAL_PERCENT:
        warnings.append(f"the hypervisor took up to {steal:.0f} % of the CPU time")
    if not measured["within_run"].all():
        warnings.append("samples without times include idle seconds around the run")
    return warnings

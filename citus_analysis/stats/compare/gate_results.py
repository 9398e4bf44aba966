"""The result of a gate: its checks, its verdict and exit code, and the runs that would decide."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final, Literal

import polars as pl

from citus_analysis.core.displays import Shown
from citus_analysis.runs.setups import stratum_text
from citus_analysis.stats._validate import unique
from citus_analysis.stats.compare.verdict_text import change_text, p_text
from citus_analysis.stats.compare.verdicts import PLANNED, Comparison
from citus_analysis.texts.counted_words import counted
from citus_analysis.texts.number_text import readable
from citus_analysis.texts.text_tables import text_table

GateVerdict = Literal["better", "equivalent", "not worse", "worse", "undecided"]
GateOutcome = Literal["passed", "failed", "undecided"]

#: Exit code of the command for each outcome.
EXIT_CODES: Final[dict[GateOutcome, int]] = {"passed": 0, "failed": 1, "undecided": 4}


@dataclass(frozen=True, repr=False)
class GateCheck(Shown):
    """One configuration and metric of a gate.

    Attributes:
        verdict: ``equivalent`` (the ratio lies within the margin), ``better``, ``not worse`` (above the lower end of
            the margin; the runs do not show whether it is within it or better), ``worse`` or ``undecided``.
        comparison: candidate against baseline, adjusted over the whole gate.
        p_not_worse: one-sided test against the end of the margin on which the candidate is worse.
        more_of_candidate: further runs of the candidate that would decide; None if their number cannot be estimated.
        more_of_baseline: further runs of the baseline that would decide.
        resources: names of the candidate's configurations, for `run EXPERIMENT.yml NAME --more N`.
        baseline_resources: names of the baseline's configurations.
        values: the metric of the candidate's runs in the order of time.
        baseline_values: the metric of the baseline's runs in the order of time.
    """

    verdict: GateVerdict
    comparison: Comparison
    p_not_worse: float
    more_of_candidate: int | None
    more_of_baseline: int | None
    resources: tuple[str, ...] = ()
    baseline_resources: tuple[str, ...] = ()
    values: tuple[float, ...] = ()
    baseline_values: tuple[float, ...] = ()

    @property
    def passes(self) -> bool:
        """Whether the runs show that the candidate is not worse."""
        return self.verdict in ("better", "equivalent", "not worse")

    @property
    def name(self) -> str:
        """Metric and configuration."""
        return ", ".join(part for part in (self.comparison.metric, stratum_text(self.comparison.stratum)) if part)

    def summary_lines(self) -> list[str]:
        """The finding, and the runs that would decide."""
        one = self.comparison
        means = f"{readable(one.mean_a.estimate)} against {readable(one.mean_b.estimate)}"
        return [f"{self.name}: {self.verdict}, {means}, {change_text(one)}{self.advice()}"]

    def advice(self) -> str:
        """The further runs that would decide, in words; empty if the check is decided."""
        if self.verdict != "undecided":
            return ""
        if self.more_of_candidate is None or self.more_of_baseline is None:
            return "; runs of both sides are needed to know the spread"
        more = {"the candidate": self.more_of_candidate, "the baseline": self.more_of_baseline}
        words = " and ".join(f"{counted(n, 'run')} of {side}" for side, n in more.items() if n)
        return f"; about {words} more would decide ({PLANNED})"

    def to_dict(self) -> dict[str, object]:
        """The same as plain values, for JSON."""
        one = self.comparison
        return {
            "metric": one.metric,
            "configuration": dict(one.stratum),
            "verdict": self.verdict,
            "n": one.mean_a.n,
            "n_baseline": one.mean_b.n,
            "mean": one.mean_a.estimate,
            "mean_baseline": one.mean_b.estimate,
            **one.ratio.record("ratio"),
            "p_not_worse": self.p_not_worse,
            **{name: getattr(one, name) for name in ("p_equivalence", "p_difference", "p_difference_adjusted")},
            "more_of_candidate": self.more_of_candidate,
            "more_of_baseline": self.more_of_baseline,
            "resources": list(self.resources),
            "baseline_resources": list(self.baseline_resources),
            "method": one.ratio.method,
            "warnings": list(one.warnings),
        }


@dataclass(frozen=True, repr=False)
class Gate(Shown):
    """The result of a gate: whether a dataset passes.

    Attributes:
        checks: one per metric and configuration that both sides have.
        metrics: the compared metrics.
        margin: relative difference that counts as none.
        level: confidence level.
        failed_runs: configurations of the baseline for which all runs of the candidate failed.
        not_measured: configurations of the baseline for which the candidate has no runs; they do not count.
        changes: settings and versions that differ between the two, in words.
        warnings: caveats.
    """

    checks: tuple[GateCheck, ...]
    metrics: tuple[str, ...]
    margin: float
    level: float
    failed_runs: tuple[str, ...] = ()
    not_measured: tuple[str, ...] = ()
    changes: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def verdict(self) -> GateOutcome:
        """``failed`` if a check is worse, ``passed`` if all pass, otherwise ``undecided``."""
        if any(check.verdict == "worse" for check in self.checks):
            return "failed"
        return "passed" if not self.failed_runs and all(check.passes for check in self.checks) else "undecided"

    @property
    def exit_code(self) -> int:
        """0 passed, 1 failed, 4 undecided."""
        return EXIT_CODES[self.verdict]

    def summary_lines(self) -> list[str]:
        """The verdict, the checks that did not pass, and the notes."""
        counts = Counter(check.verdict for check in self.checks)
        words = ", ".join(f"{n} {verdict}" for verdict, n in counts.most_common())
        first = f"{self.verdict}: {words} (margin {self.margin * 100:g} %, level {self.level * 100:g} %)"
        return [
            first,
            *(f"  {check.summary_lines()[0]}" for check in self.checks if not check.passes),
            *(f"  note: {note}" for note in self.notes()),
        ]

    def notes(self) -> tuple[str, ...]:
        """Differences between the datasets, configurations that could not be checked, and warnings."""
        return unique(
            [
                *([f"also differs between the datasets: {self.changes}"] if self.changes else []),
                *(f"no run of the candidate is ok: {cell}" for cell in self.failed_runs),
                *(f"not measured by the candidate, not checked: {cell}" for cell in self.not_measured),
                *self.warnings,
                *(note for check in self.checks for note in check.comparison.warnings),
            ]
        )

    def commands(self) -> list[str]:
        """The commands that make exactly the missing runs; empty if all checks are decided."""
        wanted: dict[tuple[str, str], int] = {}
        for check in self.checks:
            for side, names, more in (
                ("CANDIDATE", check.resources, check.more_of_candidate),
                ("BASELINE", check.baseline_resources, check.more_of_baseline),
            ):
                for name in names if more else ():
                    wanted[side, name] = max(more or 0, wanted.get((side, name), 0))
        return [
            f"citus-analysis run EXPERIMENT.yml {name} --more {more} --out {side}_TREE"
            for (side, name), more in wanted.items()
        ]

    def summary_table(self) -> pl.DataFrame:
        """One row per check."""
        return pl.DataFrame(
            [{"check": c.name, "verdict": c.verdict, "ratio": c.comparison.ratio.estimate} for c in self.checks]
        )

    def to_dict(self) -> dict[str, object]:
        """The same as plain values, for JSON."""
        return {
            **{name: getattr(self, name) for name in ("verdict", "exit_code", "margin", "level")},
            "metrics": list(self.metrics),
            "checks": [check.to_dict() for check in self.checks],
            "failed_runs": list(self.failed_runs),
            "not_measured": list(self.not_measured),
            "changes": self.changes,
            "warnings": list(self.warnings),
            "commands": self.commands(),
        }


def format_gate(found: Gate) -> str:
    """A gate as text: the verdict, a table of the checks, the runs that would decide, and notes.

    Example:
        >>> import polars as pl
        >>> from citus_analysis.stats import gate
        >>> runs = pl.DataFrame({"throughput_ops_s": [99.0, 100.0, 101.0]})
        >>> for line in format_gate(gate(runs, runs)).splitlines()[:4]:
        ...     print(line)
        passed: 1 equivalent (margin 5 %, level 95 %)
        <BLANKLINE>
                  metric            candidate  baseline  runs     change              p not worse  verdict
        all runs  throughput_ops_s  100        100       3 and 3  ~ [-1.7 %, +1.8 %]  0.002        equivalent
    """
    head = ("", "metric", "candidate", "baseline", "runs", "change", "p not worse", "verdict")
    rows = []
    for check in found.checks:
        one = check.comparison
        where = stratum_text(one.stratum) or "all runs"
        means = (readable(one.mean_a.estimate), readable(one.mean_b.estimate), f"{one.mean_a.n} and {one.mean_b.n}")
        rows.append([where, one.metric, *means, change_text(one), p_text(check.p_not_worse), check.verdict])
    advice = [f"{check.name}{check.advice()}" for check in found.checks if check.advice()]
    parts = [
        found.summary_lines()[0],
        "\n".join(text_table(head, rows)),
        "\n".join([*advice, *found.commands()]),
        "\n".join(f"note: {note}" for note in found.notes()),
    ]
    return "\n\n".join(part for part in parts if part)

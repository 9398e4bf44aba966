"""Findings as records: the sentence that states one, and the numbers that it rests on.

Each report has its words in one dictionary, kind of finding -> template; :func:`state` fills one of them. Page,
notebook and library show the same record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

import polars as pl

from citus_analysis.stats.verdicts import Comparison


@dataclass(frozen=True)
class FindingNumber:
    """A number that a sentence states.

    Attributes:
        subject: what it is measured of: a set-up, a size, a kind of statement.
        base: what it is relative to; empty: nothing.
        estimate: the number.
        low: lower end of its interval; None without one.
        high: upper end.
        n: number of runs behind it; None if it is not of runs.
        verdict: what is decided by it; empty: nothing.
        warnings: caveats.
    """

    subject: str
    base: str = ""
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    verdict: str = ""
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_comparison(cls, comparison: Comparison) -> FindingNumber:
        """The ratio of a comparison with the interval that decided its verdict.

        Example:
            >>> from citus_analysis.stats import compare
            >>> one = FindingNumber.from_comparison(compare([20.0, 21, 22], [10.0, 11, 12], label_a="new"))
            >>> one.subject, one.verdict, one.n
            ('new', 'faster', 3)
        """
        deciding = comparison.deciding
        return cls(
            comparison.label_a,
            comparison.label_b,
            deciding.estimate,
            *deciding.ends,
            comparison.mean_a.n,
            comparison.verdict,
            comparison.warnings,
        )


@dataclass(frozen=True)
class ReportFinding:
    """One thing that a report states.

    Attributes:
        kind: the kind of finding, which names its template.
        sentence: the finding in words.
        numbers: the numbers that the words rest on, as far as they are relative or decided.
    """

    kind: str
    sentence: str
    numbers: tuple[FindingNumber, ...] = ()

    def __str__(self) -> str:
        return self.sentence


def state(
    templates: Mapping[str, str], kind: str, of: Iterable[FindingNumber | Comparison] = (), **words: object
) -> ReportFinding:
    """The finding of a kind: its template filled with words, and the numbers it is of.

    Args:
        templates: kind of finding -> template, those of one report.
        kind: the kind of finding.
        of: comparisons or numbers that it states.
        words: the fields of the template.

    Example:
        >>> state({"one set-up": "All runs have the set-up {set_up}."}, "one set-up", set_up="usual").sentence
        'All runs have the set-up usual.'
    """
    numbers = (one if isinstance(one, FindingNumber) else FindingNumber.from_comparison(one) for one in of)
    return ReportFinding(kind, templates[kind].format_map(words), tuple(numbers))


def tabulate_findings(findings: Iterable[ReportFinding]) -> pl.DataFrame:
    """Findings with their numbers: one row per number; one row for a finding without any.

    Example:
        >>> rows = tabulate_findings([ReportFinding("limit", "It is the CPU.", (FindingNumber("w2", verdict="CPU"),))])
        >>> rows.select("kind", "subject", "verdict", "sentence").row(0)
        ('limit', 'w2', 'CPU', 'It is the CPU.')
    """
    rows = [
        {**asdict(one), "kind": found.kind, "sentence": found.sentence, "warnings": list(one.warnings)}
        for found in findings
        for one in found.numbers or (FindingNumber(""),)
    ]
    texts, numbers = (
        dict.fromkeys(("subject", "base"), pl.String()),
        dict.fromkeys(("estimate", "low", "high"), pl.Float64()),
    )
    rest = {"n": pl.Int64(), "verdict": pl.String(), "warnings": pl.List(pl.String()), "sentence": pl.String()}
    return pl.DataFrame(rows, schema={"kind": pl.String(), **texts, **numbers, **rest})

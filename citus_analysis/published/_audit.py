"""Audit a table of results: does it contradict itself?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Final

import polars as pl

from citus_analysis.published._load import published, read_published
from citus_analysis.published._rows import result_tables
from citus_analysis.published.checks import CHECKS, Finding
from citus_analysis.schema import TABLES
from citus_analysis.stats import as_polars

__all__ = ["AuditResult", "audit", "collapsed"]

_FINDINGS: Final = TABLES["findings"]


@dataclass(frozen=True)
class AuditResult:
    """What an audit found.

    Attributes:
        findings: frame of ``schema.TABLES["findings"]``, red first; rows that agree are counted in one green
            finding per check and table.
    """

    findings: pl.DataFrame

    @property
    def has_red(self) -> bool:
        """Something contradicts itself; the command line then exits with 1."""
        return self.count("red") > 0

    def count(self, severity: str) -> int:
        """Findings of one severity."""
        return self.findings.filter(pl.col("severity") == severity).height

    @property
    def verdict(self) -> str:
        """The worst severity there is; `green` where nothing was found."""
        return next((severity for severity in ("red", "amber") if self.count(severity)), "green")

    def __str__(self) -> str:
        return f"{self.count('red')} red, {self.count('amber')} amber, {self.count('green')} green"


def audit(tables: Sequence[str | PathLike[str] | Any] | None = None) -> AuditResult:
    """Check tables of results for contradictions.

    Args:
        tables: CSV files (long or wide, see :func:`read_published`) or frames with the columns of
            ``schema.TABLES["published"]``; None audits the published tables that ship with the library.

    Raises:
        PublishedDataError: a file is malformed.

    Example:
        >>> result = audit()
        >>> result.has_red
        True
        >>> result.findings.filter(check="copied_sigma")["table"].to_list()
        ['5.6']
    """
    frames = [published()] if tables is None else [_frame(table) for table in tables]
    parts = result_tables(pl.concat(frames)) if frames else []
    return AuditResult(collapsed(found for check in CHECKS.values() for found in check.run(parts)))


def collapsed(findings: Iterable[Finding]) -> pl.DataFrame:
    """Findings as a frame, red first; green ones are counted per check and table."""
    order = list(CHECKS)
    frame = pl.DataFrame(list(findings), schema=_FINDINGS.polars_schema(), orient="row")
    green = frame.filter(severity="green")
    counted = green.group_by("severity", "check", "source", "table", maintain_order=True).agg(
        row=pl.when(pl.len() == 1).then(pl.col("row").first()).otherwise(pl.format("{} rows", pl.len())).first(),
        expected=pl.col("expected").first(),
        stated=pl.col("stated").first(),
        explanation=pl.when(pl.len() == 1).then(pl.col("explanation").first()).otherwise(pl.lit("consistent")).first(),
    )
    kept = pl.concat([frame.filter(pl.col("severity") != "green"), counted.select(frame.columns)])
    rank = pl.col("check").replace_strict({name: i for i, name in enumerate(order)}, default=len(order))
    return kept.sort(pl.col("severity").to_physical(), -rank, descending=True, maintain_order=True)


def _frame(table: str | PathLike[str] | Any) -> pl.DataFrame:  # noqa: ANN401 - any frame
    if isinstance(table, str | PathLike):
        return read_published(table)
    return TABLES["published"].conform(as_polars(table))

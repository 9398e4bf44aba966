"""The definition of a check, and the table of all checks.

A check is one function: it takes the result tables and yields a finding for each row that it applies to, green if the
numbers agree. :func:`check` registers it in :data:`CHECKS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from citus_analysis.published._rows import ResultTable, Row

Severity = Literal["green", "amber", "red"]
Tables = Sequence[ResultTable]


class Finding(NamedTuple):
    """One row of the table `findings`; the fields are its columns."""

    severity: Severity
    check: str
    source: str
    table: str
    row: str
    expected: str
    stated: str
    explanation: str


@dataclass(frozen=True)
class Check:
    """A named check.

    Attributes:
        name: its name in `findings.check`.
        question: its question in one sentence.
        run: the function.
    """

    name: str
    question: str
    run: Callable[[Tables], Iterator[Finding]]


#: All checks of result tables, in the order in which findings are listed.
CHECKS: Final[dict[str, Check]] = {}


def check(
    name: str, question: str
) -> Callable[[Callable[[Tables], Iterator[Finding]]], Callable[..., Iterator[Finding]]]:
    """Register the decorated function in :data:`CHECKS`."""

    def enter(run: Callable[[Tables], Iterator[Finding]]) -> Callable[..., Iterator[Finding]]:
        CHECKS[name] = Check(name, question, run)
        return run

    return enter


def rows_of(tables: Tables) -> Iterator[Row]:
    """The rows of all tables."""
    return (row for table in tables for row in table.rows)


def finding(severity: Severity, name: str, row: Row, expected: str, stated: str, explanation: str) -> Finding:
    """A finding about one row."""
    return Finding(severity, name, row.source, row.table, row.label, expected, stated, explanation)

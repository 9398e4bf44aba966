"""The definition of a check, and the table of all checks.

A check is one function: it takes a row, an interval or a table of results and yields findings, green if the numbers
agree. :func:`check` registers it in :data:`CHECKS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeVar

from citus_analysis.published._rows import ResultTable, Row

Severity = Literal["green", "amber", "red"]
Tables = Sequence[ResultTable]
T = TypeVar("T")


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
        run: the function over all tables.
    """

    name: str
    question: str
    run: Callable[[Tables], Iterator[Finding]]


#: All checks of result tables, in the order in which findings are listed.
CHECKS: Final[dict[str, Check]] = {}


def check(
    name: str, question: str, of: Callable[[Tables], Iterable[T]]
) -> Callable[[Callable[[T], Iterator[Finding]]], Callable[[T], Iterator[Finding]]]:
    """Register the decorated function in :data:`CHECKS`; its findings get the name.

    Args:
        name: name of the check.
        question: its question in one sentence.
        of: what of the tables the function checks, one after the other.
    """

    def enter(run: Callable[[T], Iterator[Finding]]) -> Callable[[T], Iterator[Finding]]:
        def named(tables: Tables) -> Iterator[Finding]:
            return (found._replace(check=name) for one in of(tables) for found in run(one))

        CHECKS[name] = Check(name, question, named)
        return run

    return enter


def rows_of(tables: Tables) -> Iterator[Row]:
    """The rows of all tables."""
    return (row for table in tables for row in table.rows)


def finding(
    row: Row, expected: str, stated: str, green: str = "", *, red: str = "", amber: str = "", name: str = ""
) -> Finding:
    """A finding about one row: red or amber if a reason for it is given, else green."""
    return Finding(worst(red, amber), name, *row.place, expected, stated, red or amber or green)


def worst(red: str, amber: str) -> Severity:
    """The severity that has a reason."""
    return "red" if red else "amber" if amber else "green"

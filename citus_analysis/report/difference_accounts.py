"""Where the decided differences of a comparison come from, as far as statements of both sides were traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from citus_analysis.accounts.beside.sentences import stack_sentences
from citus_analysis.accounts.causes import Explanation
from citus_analysis.accounts.explanation import explain
from citus_analysis.accounts.explanation_text import cause_rows
from citus_analysis.accounts.observed import observed_runs
from citus_analysis.core.frames import TableSource
from citus_analysis.defaults import LEVEL, MARGIN
from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.report.comparison_sentences import as_place, operation_at
from citus_analysis.stats import Comparison
from citus_analysis.texts.number_text import with_interval

_MOST_PARTS: Final = 3
_UNTRACED: Final = "statements were not traced in two or more runs of each side"


def accounts_of(
    comparisons: Sequence[Comparison],
    dataset: TableSource,
    *,
    level: float = LEVEL,
    margin: float = MARGIN,
) -> tuple[list[tuple[Comparison, Explanation]], list[str]]:
    """The accounts of the decided comparisons of variants, and sentences on those that have none.

    Args:
        comparisons: comparisons of the column `variant`.
        dataset: gives `statements`, `spans` and what was recorded of the nodes.
        level: confidence level.
        margin: relative difference that counts as none.
    """
    found = []
    unexplained: dict[str, list[str]] = {}
    for one in (one for one in comparisons if one.differs):
        other, base = one.sides or (pl.DataFrame(), pl.DataFrame())
        try:
            sides = observed_runs((dataset, dataset), (base, other), (one.label_b, one.label_a))
            found.append((one, explain(sides, level=level, margin=margin, with_mechanisms=False)))
        except (UsageError, InsufficientDataError) as error:
            reason = error.problem if isinstance(error, UsageError) else _UNTRACED
            unexplained.setdefault(reason, []).append(one.label_a)
    return found, [
        f"No account of where the difference of {'; '.join(dict.fromkeys(labels))} comes from: {reason}."
        for reason, labels in unexplained.items()
    ]


def account_sentences(accounts: Sequence[tuple[Comparison, Explanation]]) -> list[str]:
    """The finding and its parts, and the functions in perf's samples, a paragraph for each comparison."""
    decided = ((c, one, stack_sentences(one.stacks) if one.stacks else []) for c, one in accounts if one.decided)
    return [" ".join([_difference(c, one), *one.sentences[1:2], *stacks]) for c, one, stacks in decided]


def _difference(comparison: Comparison, found: Explanation) -> str:
    """The difference of the mean times; the ratio is the comparison's, which the page states elsewhere."""
    finding = found.sentences[0]
    _, known, difference = finding.partition(f" {found.base}: ")
    change, measured, rest = difference.partition(" (")
    if not (known and measured):
        return finding
    name, base = as_place(comparison)
    return f"{name}, {operation_at(comparison)} takes {change} than {base} ({rest}"


def account_with_stacks(accounts: Sequence[tuple[Comparison, Explanation]]) -> Explanation | None:
    """The account of the largest difference of which perf sampled both sides; None if there is none."""
    found = [one for _, one in accounts if one.stacks is not None and one.stacks.tree.height]
    return max(found, key=lambda one: abs(one.difference_us), default=None)


def account_table(accounts: Sequence[tuple[Comparison, Explanation]]) -> pl.DataFrame:
    """The largest parts of each difference: `set-up`, `operation`, `part`, and `difference_ms` with its interval."""
    rows = [
        (one.label_a, str(one.stratum.get("operation", "")), part, with_interval(size, low, high), sure)
        for one, found in accounts
        for part, size, low, high, _, sure in cause_rows(found).head(_MOST_PARTS).iter_rows()
    ]
    names = dict.fromkeys(("set-up", "operation", "part", "difference_ms"), pl.String()) | {"sure": pl.Boolean()}
    return pl.DataFrame(rows, schema=names, orient="row")

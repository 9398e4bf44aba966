"""Report numbers that the audit could not read or has no check for, so that they do not pass as agreement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from citus_analysis.published._rows import Number, ResultTable
from citus_analysis.published._shapes import UNSAID_SPREAD
from citus_analysis.published.checks._registry import Finding
from citus_analysis.published.counts.counted_means import counted_quantity
from citus_analysis.texts.metric_names import is_understood

#: Name of the check.
UNREAD: Final = "unread"
_EXAMPLES: Final = 3


def unread(numbers: pl.DataFrame, tables: Sequence[ResultTable]) -> Iterator[Finding]:
    """A finding with the reason for each column of a user's table that no check uses.

    Args:
        numbers: frame of ``schema.TABLES["published"]``. A cell without a value could not be read; transcribed
            publications, in which some cells are words, are skipped.
        tables: the rows that could be read.
    """
    own = numbers.filter(pl.col("seed").is_null(), pl.col("value").is_null(), pl.col("stated").is_not_null())
    cells = own.group_by("source", "table", "metric", maintain_order=True).agg("stated")
    for source, table, metric, texts in cells.iter_rows():
        text = "these cells cannot be read as numbers; they were not checked"
        yield _about(source, table, metric, "a number, such as 16600, 16,600 or 16.6k", texts, text)
    for each in tables:
        found = _without_check(each)
        for metric in [metric for metric in found if metric.endswith(UNSAID_SPREAD)]:
            text = "the number after ± may be a standard deviation or half an interval"
            shown = [str(number) for number in found.pop(metric)]
            yield _about(each.source, each.name, metric, "± sd or ± ci in the header", shown, text)
        if found:
            shown = [f"{metric} {numbers[0]}" for metric, numbers in found.items()]
            text = "the meaning of these numbers is unknown; they were not checked"
            expected = "a name or a unit of docs/published.md"
            yield _about(each.source, each.name, ", ".join(found), expected, shown, text)


def _without_check(table: ResultTable) -> dict[str, list[Number]]:
    found: dict[str, list[Number]] = defaultdict(list)
    for row in table.rows:
        for numbers in row.numbers.values():
            for number in numbers:
                known = is_understood(number.metric) or counted_quantity(number.name, number.unit) is not None
                if not number.transcribed and (number.name.endswith(UNSAID_SPREAD) or not known):
                    found[number.name].append(number)
    return found


def _about(source: str, table: str, metric: str, expected: str, texts: Sequence[str], explanation: str) -> Finding:
    shown = ", ".join(dict.fromkeys(texts[:_EXAMPLES])) + (" ..." if len(texts) > _EXAMPLES else "")
    return Finding("amber", UNREAD, source, table, f"column {metric}", expected, shown, explanation)

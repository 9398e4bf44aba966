"""Statements of a cluster of which no record says where they were executed."""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.schema import DATA_STATEMENTS
from citus_analysis.texts.words import pluralize

_NEEDED: Final = ("resource", "statement_kind", "executed", "failed")


def describe_unplaced_statements(statements: pl.LazyFrame) -> list[str]:
    """A sentence on the statements that enter no profile of places, because nothing says where they were executed.

    Since Citus 13.2, some local executions are logged at `log_min_messages = debug2` and below only. Statements on
    tables that are not distributed are among them, too.

    Args:
        statements: rows of the table `statements`.

    Example:
        >>> rows = {"resource": ["s"] * 3, "statement_kind": ["select"] * 3, "failed": [False] * 3}
        >>> describe_unplaced_statements(pl.LazyFrame({**rows, "executed": ["remote", "local", None]}))[0].split(":")[0]
        '1 of 3 statements on data'
    """
    on_data = pl.col("statement_kind").cast(pl.String).is_in(DATA_STATEMENTS) & ~pl.col("failed")
    counts = (
        statements.select(_NEEDED)
        .filter(on_data)
        .group_by("resource")
        .agg(all=pl.len(), unplaced=pl.col("executed").is_null().sum())
        # In a resource without any place, nothing is distributed, or nothing of it is logged.
        .filter(pl.col("unplaced") < pl.col("all"))
        .sum()
        .collect(engine="streaming")
    )
    number, every = int(counts["unplaced"].sum()), int(counts["all"].sum())
    if not number:
        return []
    return [
        f"{number:,} of {pluralize(every, 'statement')} on data: no record says where "
        f"{'it was' if number == 1 else 'they were'} executed, so that no comparison of local with remote executions "
        "includes them (since Citus 13.2, some local executions are logged at log_min_messages = debug2 only; "
        "statements on tables that are not distributed have no place)."
    ]

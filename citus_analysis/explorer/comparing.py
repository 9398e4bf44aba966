"""Percentiles of the selected statements against those of the rest."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from citus_analysis.core.frames import Frame, as_polars, in_callers_kind
from citus_analysis.stats.estimate.percentiles import supporting

#: Columns of table `statements` that are compared -> their names.
PARTS: Final = {"total_us": "T", "parent_us": "parent", "latency_us": "between", "child_us": "child"}
_PERCENTILES: Final = (50.0, 90.0, 99.0)


@in_callers_kind
def against_the_rest(selected: Frame, rest: Frame) -> pl.DataFrame:
    """Percentiles of T and of its parts, for two groups of statements.

    Args:
        selected: rows of table `statements`.
        rest: the other statements, with the same columns.

    Returns:
        Per part and `percentile`: `selected_us` and `rest_us`, null if the group has fewer values than the percentile
        needs, and the numbers of values, `selected_n` and `rest_n`.

    Example:
        >>> import polars as pl
        >>> parts = ("total_us", "parent_us", "latency_us", "child_us")
        >>> rows = pl.DataFrame({part: [1.0, 2.0, 3.0] for part in parts})
        >>> against_the_rest(rows, rows.head(1)).row(0)
        ('T', 50.0, 2.0, None, 3, 1)
    """
    rows: list[tuple[str, float, float | None, float | None, int, int]] = []
    groups = as_polars(selected), as_polars(rest)
    for column, name in PARTS.items():
        (mine, n), (others, n_rest) = (_percentiles(group[column].drop_nulls()) for group in groups)
        rows += [(name, q, a, b, n, n_rest) for q, a, b in zip(_PERCENTILES, mine, others, strict=True)]
    numbers = dict.fromkeys(("percentile", "selected_us", "rest_us"), pl.Float64())
    counts = dict.fromkeys(("selected_n", "rest_n"), pl.Int64())
    return pl.DataFrame(rows, schema={"part": pl.String(), **numbers, **counts}, orient="row")


def _percentiles(values: pl.Series) -> tuple[list[float | None], int]:
    """The percentiles that the number of values permits, in one partial sort, and this number."""
    n = values.len()
    supported = [q for q in _PERCENTILES if n >= supporting(q)]
    found = dict(zip(supported, np.percentile(values.to_numpy(), supported).tolist(), strict=True)) if supported else {}
    return [found.get(q) for q in _PERCENTILES], n

"""Lines of the kernel's files with pressure stall information, and the growth of their totals.

The kernel writes `some avg10=18.59 avg60=9.37 avg300=23.04 total=195225869`: its own means, and the microseconds since
boot in which tasks were stalled.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.formats.reading.sampler_lines import split_columns
from citus_analysis.schema import TABLES

#: Lines as the kernel writes them, without groups: searching for such a pattern is several times as fast.
PRESSURE_VALUES: Final = (
    r"(?:some|full) avg10=[0-9]+\.[0-9]+ avg60=[0-9]+\.[0-9]+ avg300=[0-9]+\.[0-9]+ total=[0-9]{1,18}"
)
US: Final = 1_000_000
PERCENT_OF_US: Final = 100 / US
_LABELS: Final = [" avg10=", " avg60=", " avg300=", " total="]
_COLUMNS: Final = {"1": "avg10_percent", "2": "avg60_percent", "3": "avg300_percent", "4": "total"}


def pressure_fields(values: pl.Series) -> pl.DataFrame:
    """`scope`, the means of the kernel in percent and `total` in microseconds of texts that fit `PRESSURE_VALUES`.

    Example:
        >>> pressure_fields(pl.Series(["full avg10=1.50 avg60=0.25 avg300=0.00 total=7"])).row(0)
        ('full', 1.5, 0.25, 0.0, 7.0)
    """
    plain = values.str.replace_many(_LABELS, [" "] * len(_LABELS))
    return split_columns(plain, 1 + len(_COLUMNS), frozenset({1, 2, 3, 4})).rename({"0": "scope"} | _COLUMNS)


def growth(counter: str, *series: str) -> pl.Expr:
    """Difference to the previous sample in the same series; null if there is none or the counter decreased."""
    grown = pl.col(counter).diff().over(series)
    return pl.when(grown >= 0).then(grown)


def rate(counter: str, *series: str) -> pl.Expr:
    """Growth in a second since the previous sample of the same series; null if no time passed."""
    passed = pl.col("sample_time").diff().over(series).dt.total_microseconds() / US
    return growth(counter, *series) / pl.when(passed > 0).then(passed)


def fresh_rows(name: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows that are `fresh` in the columns of their table."""
    fresh = rows.filter("fresh").with_columns(since_boot=pl.lit(value=False))
    return fresh.select(column for column in TABLES[name].parsed().names() if column in fresh.columns)

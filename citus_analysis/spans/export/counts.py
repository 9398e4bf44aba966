"""The number of spans that an export contains, and of those that it leaves out."""

from __future__ import annotations

from typing import Self, TypeVar

import polars as pl


class ExportCount(int):
    """Number of trace events or spans that were written.

    Attributes:
        left_out: spans that were left out because the logs do not contain their time: statements without a duration
            (`log_statement = all` alone), logs whose prefix has no time (syslog).

    Example:
        >>> count = ExportCount(5, left_out=2)
        >>> count == 5, count.left_out
        (True, 2)
    """

    left_out: int

    def __new__(cls, written: int, *, left_out: int) -> Self:  # noqa: D102 - see the class
        count = super().__new__(cls, written)
        count.left_out = left_out
        return count


_Rows = TypeVar("_Rows", pl.DataFrame, pl.LazyFrame)


def with_a_time(spans: _Rows) -> _Rows:
    """The spans with a known begin or end."""
    return spans.filter(pl.coalesce("start_time", "end_time").is_not_null())

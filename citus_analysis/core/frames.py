"""Tables that callers pass: polars, pandas or Arrow frames, and objects that provide tables by name.

Functions accept any of them and return polars frames. Results are often objects that hold several frames and warnings;
each frame converts with one call (`to_pandas()`, `to_arrow()`, or Arrow's PyCapsule interface, which pandas, DuckDB
and pyarrow read themselves).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import narwhals as nw
import polars as pl
from narwhals.typing import IntoDataFrame

from citus_analysis.errors import UsageError

__all__ = ["Frame", "TableSource", "as_polars", "tables_of"]

#: A table of the caller's kind: polars (lazy too), pandas, Arrow or another that narwhals knows and that is in memory.
Frame: TypeAlias = IntoDataFrame | pl.LazyFrame


@runtime_checkable
class TableSource(Protocol):
    """An object that provides tables by name, such as a dataset."""

    def table(self, name: str, /) -> Frame:
        """The table of that name."""


def as_polars(frame: Frame) -> pl.DataFrame:
    """A polars, pandas or Arrow frame as a polars frame.

    Raises:
        UsageError: the object is not a frame.
    """
    if isinstance(frame, pl.DataFrame):
        return frame
    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    try:
        table: pl.DataFrame = nw.from_native(frame, eager_only=True).to_polars()
    except TypeError as error:
        raise UsageError(
            f"{type(frame).__name__} is no table", way_out="pass a dataset or a polars, pandas or Arrow frame"
        ) from error
    return table


def tables_of(source: TableSource | Mapping[str, Frame], names: Sequence[str]) -> dict[str, pl.DataFrame]:
    """Tables of a dataset or of a mapping, by name.

    Raises:
        UsageError: a table is missing.
    """
    if isinstance(source, TableSource):
        return {name: as_polars(source.table(name)) for name in names}
    if isinstance(source, Mapping) and set(names) <= set(source):
        return {name: as_polars(source[name]) for name in names}
    raise UsageError(f"the tables {' and '.join(names)} are needed", way_out="pass a dataset")

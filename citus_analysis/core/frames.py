"""Tables that callers pass: polars, pandas or Arrow frames, and things that give tables by name.

Functions take any of them and give polars frames: results are often several frames in an object with its warnings, and
what a caller needs of them is one call away (`to_pandas()`, `to_arrow()`, or Arrow's PyCapsule interface, which pandas,
DuckDB and pyarrow read themselves).
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
    """Anything that gives tables by name, as a dataset does."""

    def table(self, name: str, /) -> Frame:
        """The table of that name."""


def as_polars(frame: Frame) -> pl.DataFrame:
    """A polars, pandas or Arrow frame as a polars frame.

    Raises:
        UsageError: the object is no frame.
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
    """Tables of a dataset, or of a mapping that has them, by name.

    Raises:
        UsageError: it has not all of them.
    """
    if isinstance(source, TableSource):
        return {name: as_polars(source.table(name)) for name in names}
    if isinstance(source, Mapping) and set(names) <= set(source):
        return {name: as_polars(source[name]) for name in names}
    raise UsageError(f"the tables {' and '.join(names)} are needed", way_out="pass a dataset")

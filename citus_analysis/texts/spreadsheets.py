"""CSV that a spreadsheet may open: no cell of text begins like a formula.

A spreadsheet computes what begins with `=`, `+`, `-` or `@`, also behind a tab or line end, and formulas can send the
sheet's other cells away. An apostrophe in front says that a cell is text. Numbers stay as they are, also where a column
of texts holds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars as pl

__all__ = ["guarded"]

_FORMULA: Final = r"^[=+\-@\t\r\n\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}]"
_NUMBER: Final = r"^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$"


def guarded(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame for :meth:`polars.DataFrame.write_csv`: texts and column names that begin like a formula get a `'`.

    Example:
        >>> import polars as pl
        >>> frame = pl.DataFrame({"name": ["=1+1", "-load", "-5", "w2"], "x": [-1, 2, 3, 4]})
        >>> print(guarded(frame).write_csv(), end="")
        name,x
        '=1+1,-1
        '-load,2
        -5,3
        w2,4
    """
    import polars as pl

    texts = [name for name, kind in frame.schema.items() if kind in (pl.String, pl.Categorical, pl.Enum)]
    cells = frame.with_columns(_guarded_text(pl.col(name).cast(pl.String)).alias(name) for name in texts)
    names = pl.Series("name", frame.columns, dtype=pl.String).to_frame().select(_guarded_text(pl.col("name")))
    return cells.rename(dict(zip(frame.columns, names["name"], strict=True)))


def _guarded_text(text: pl.Expr) -> pl.Expr:
    import polars as pl

    is_formula = text.str.contains(_FORMULA) & ~text.str.contains(_NUMBER)
    return pl.when(is_formula).then(pl.concat_str(pl.lit("'"), text)).otherwise(text).alias("name")

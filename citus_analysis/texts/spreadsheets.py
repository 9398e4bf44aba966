"""CSV that is safe to open in a spreadsheet: no text cell begins like a formula.

Spreadsheets evaluate cells that begin with `=`, `+`, `-` or `@`, also after a tab or line end, and formulas can send
the contents of other cells elsewhere. A leading apostrophe marks a cell as text. Numbers are unchanged, also in columns
of texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars as pl

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

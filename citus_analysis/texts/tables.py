"""Tables as text, with columns aligned by the width of their characters on a terminal.

The widths come from rich. `rich.table.Table` itself is not used: it takes a hundred times as long, a query's table may
have a hundred thousand rows, and lines must never be folded, so that `grep` and `cut` work on them.

Example:
    >>> for line in render_text_table(["node", "n"], [["a", "1"], ["worker", "20"]], right={1}):
    ...     print(line)
    node     n
    a        1
    worker  20
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars as pl

_BETWEEN: Final = "  "


def render_text_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = (), ruled: bool = False
) -> list[str]:
    """Lines of a table, without trailing spaces.

    Args:
        head: names of the columns.
        rows: cells; each row has one per column.
        right: indexes of the right-aligned columns, such as numbers.
        ruled: whether a line of dashes follows the head.
    """
    from rich.cells import cell_len

    columns = [[name, *(row[place] for row in rows)] for place, name in enumerate(head)]
    widths = [[cell_len(cell) for cell in column] for column in columns]
    full = [max(column, default=0) for column in widths]
    padded = [
        [
            " " * (wide - width) + cell if place in right else cell + " " * (wide - width)
            for cell, width in zip(column, own, strict=True)
        ]
        for place, (column, own, wide) in enumerate(zip(columns, widths, full, strict=True))
    ]
    lines = [_BETWEEN.join(cells).rstrip() for cells in zip(*padded, strict=True)]
    return [*lines[:1], _BETWEEN.join("-" * wide for wide in full), *lines[1:]] if ruled else lines


# CSV that is safe to open in a spreadsheet: no text cell begins like a formula.
#
# Spreadsheets evaluate cells that begin with `=`, `+`, `-` or `@`, also after a tab or line end, and formulas can send
# the contents of other cells elsewhere. A leading apostrophe marks a cell as text. Numbers are unchanged, also in
# columns of texts.

_FORMULA: Final = r"^[=+\-@\t\r\n\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}]"
_NUMBER: Final = r"^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$"


def guard_formula_cells(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame for :meth:`polars.DataFrame.write_csv`: texts and column names that begin like a formula get a `'`.

    Example:
        >>> import polars as pl
        >>> frame = pl.DataFrame({"name": ["=1+1", "-load", "-5", "w2"], "x": [-1, 2, 3, 4]})
        >>> print(guard_formula_cells(frame).write_csv(), end="")
        name,x
        '=1+1,-1
        '-load,2
        -5,3
        w2,4
    """
    import polars as pl

    texts = [name for name, kind in frame.schema.items() if kind in (pl.String, pl.Categorical, pl.Enum)]
    cells = frame.with_columns(_make_guarded_text_expr(pl.col(name).cast(pl.String)).alias(name) for name in texts)
    names = pl.Series("name", frame.columns, dtype=pl.String).to_frame().select(_make_guarded_text_expr(pl.col("name")))
    return cells.rename(dict(zip(frame.columns, names["name"], strict=True)))


def _make_guarded_text_expr(text: pl.Expr) -> pl.Expr:
    import polars as pl

    is_formula = text.str.contains(_FORMULA) & ~text.str.contains(_NUMBER)
    return pl.when(is_formula).then(pl.concat_str(pl.lit("'"), text)).otherwise(text).alias("name")

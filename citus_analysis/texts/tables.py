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

import math
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


def render_grouped_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    movable: int,
    width: int | None = None,
    right: Collection[int] = (),
) -> list[str]:
    r"""Lines of a table; columns that do not fit stand above the rows that have them in common.

    Those go first that save most characters for each doubling of the number of groups.

    Args:
        head: names of the columns.
        rows: cells; each row has one per column.
        movable: number of leading columns that may stand above.
        width: characters of the longest line; None: any. A table that is too long even so stays so.
        right: indexes of the right-aligned columns.

    Example:
        >>> rows = [["with perf", "1", "10"], ["with perf", "2", "20"], ["usual", "1", "30"]]
        >>> print(*render_grouped_table(["set_up", "workers", "mean"], rows, movable=2, width=16), sep="\n")
        set_up=with perf
        workers  mean
        1        10
        2        20
        <BLANKLINE>
        set_up=usual
        workers  mean
        1        30
    """
    kept, moved = list(range(len(head))), list[int]()
    longest = [len(_BETWEEN) + max(map(len, (name, *(row[place] for row in rows)))) for place, name in enumerate(head)]
    while True:
        shown = [[row[place] for place in kept] for row in rows]
        own_right = {number for number, place in enumerate(kept) if place in right}
        first, *lines = render_text_table([head[place] for place in kept], shown, right=own_right)
        candidates = [place for place in kept if place < movable]
        if width is None or not candidates or max(map(len, (first, *lines))) <= width:
            break
        costs = {
            place: math.log(_count_groups(rows, [*moved, place]) / _count_groups(rows, moved)) / longest[place]
            for place in candidates
        }
        best = min(candidates, key=costs.__getitem__)
        kept.remove(best)
        moved = sorted([*moved, best])
    groups: dict[tuple[str, ...], list[str]] = {}
    for row, line in zip(rows, lines, strict=True):
        groups.setdefault(tuple(row[place] for place in moved), []).append(line)
    printed: list[str] = []
    for cells, mine in groups.items():
        facts = [f"{head[place]}={cell}" for place, cell in zip(moved, cells, strict=True) if cell]
        printed += [*([""] if printed else []), *fold_facts(facts, width), first, *mine]
    return printed or [first]


def _count_groups(rows: Sequence[Sequence[str]], places: Sequence[int]) -> int:
    """Number of groups of rows that have equal cells at some places; 1 if there are no rows."""
    return max(len({tuple(row[place] for place in places) for row in rows}), 1)


def fold_facts(facts: Sequence[str], width: int | None, indent: str = "") -> list[str]:
    """Facts side by side, on as many lines as they need.

    Args:
        facts: texts that are not divided.
        width: characters of a line; None: any.
        indent: what further lines begin with.

    Example:
        >>> fold_facts(["phase=load", "threads=16", "drivers=1"], 24, indent="  ")
        ['phase=load  threads=16', '  drivers=1']
    """
    lines: list[str] = []
    for fact in facts:
        if lines and (width is None or len(lines[-1]) + len(_BETWEEN) + len(fact) <= width):
            lines[-1] += f"{_BETWEEN}{fact}"
        else:
            lines.append(f"{indent}{fact}" if lines else fact)
    return lines


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

"""Tables as text, with columns aligned by the width of their characters on a terminal.

The widths come from rich. `rich.table.Table` itself is not used: it takes a hundred times as long, a query's table may
have a hundred thousand rows, and lines must never be folded, so that `grep` and `cut` work on them.

Example:
    >>> for line in text_table(["node", "n"], [["a", "1"], ["worker", "20"]], right={1}):
    ...     print(line)
    node     n
    a        1
    worker  20
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

_BETWEEN: Final = "  "


def text_table(
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

"""Names sorted by the numbers in them: w2 before w10.

Example:
    >>> sorted(["w10-t4", "w2-t16", "w2-t4"], key=natural_key)
    ['w2-t4', 'w2-t16', 'w10-t4']
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars as pl

_NUMBER: Final = re.compile(r"(\d+)")
#: Numbers in names are compared as if they had this many digits.
_WIDTH: Final = 20


def natural_key(name: str) -> list[tuple[bool, int, str]]:
    """Key for :func:`sorted`: numbers within names compare as numbers."""
    parts = [part for part in _NUMBER.split(name) if part]
    return [(False, int(part), "") if part.isdecimal() else (True, 0, part) for part in parts]


def natural_expr(column: str) -> pl.Expr:
    """Key for `DataFrame.sort`: a column of names in the order of :func:`natural_key`.

    Example:
        >>> import polars as pl
        >>> pl.DataFrame({"name": ["w10", "w2", None]}).sort(natural_expr("name"))["name"].to_list()
        [None, 'w2', 'w10']
    """
    import polars as pl

    return pl.col(column).cast(pl.String).map_elements(_padded, pl.String, skip_nulls=True)


def _padded(name: str) -> str:
    return _NUMBER.sub(lambda found: found[0].zfill(_WIDTH), name)

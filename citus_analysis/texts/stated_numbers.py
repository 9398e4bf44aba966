"""Numbers as people print them in tables: with thousands' separators, multiples and a spread after ±.

Example:
    >>> numbers_in("16.6k"), numbers_in("1,234"), numbers_in("n/a")
    ((16600.0,), (1234.0,), ())
"""

from __future__ import annotations

import math
import re
from typing import Final

_LONGEST: Final = 100
_MULTIPLES: Final = {
    "": 1.0,
    **dict.fromkeys(("k", "thousand"), 1e3),
    **dict.fromkeys(("m", "mio", "million"), 1e6),
    **dict.fromkeys(("b", "bn", "g", "billion"), 1e9),
}
_PLAIN: Final = r"[+-]?(?:\d+(?:,\d{3})+|\d+|(?=[.]\d))(?:[.]\d+)?(?:[eE][+-]?\d+)?"
_MULTIPLE: Final = r"(?:[kKmMgGB]|bn|[Mm]io|thousand|[Mm]illion|[Bb]illion)"
_CELL: Final = re.compile(
    rf"[~<>≈]?\s*(?P<number>{_PLAIN})\s*(?P<multiple>{_MULTIPLE})?\s*%?\+?"
    rf"(?:\s*(?:±|\+/-|\+-)\s*(?P<spread>{_PLAIN})\s*(?P<spread_multiple>{_MULTIPLE})?\s*%?)?"
)


def numbers_in(text: str) -> tuple[float, ...]:
    """The number that a cell states, and the number after ± if there is one; empty for other cells.

    Example:
        >>> numbers_in("12.3k"), numbers_in("12,345 ± 120"), numbers_in("12 nodes")
        ((12300.0,), (12345.0, 120.0), ())
    """
    # The pattern takes minutes for thousands of digits.
    found = _CELL.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    if found is None:
        return ()
    multiple = (found["multiple"] or "").lower()
    after = (found["spread_multiple"] or "").lower() or multiple
    parts = [(found["number"], multiple), (found["spread"], after)]
    values = tuple(_scaled(number, _MULTIPLES[each]) for number, each in parts if number is not None)
    return values if all(math.isfinite(value) for value in values) else ()


def _scaled(number: str, multiple: float) -> float:
    # 12.3 × 1000 is 12300 and not 12300.000000000002.
    return float(f"{float(number.replace(',', '')) * multiple:.15g}")

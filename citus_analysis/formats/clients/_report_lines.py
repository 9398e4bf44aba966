"""Lines of a load generator's report by kind, for tools that print one report a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from citus_analysis.formats.reading.lines import UNTERMINATED

__all__ = ["MAX_CLIENTS", "MAX_COUNT", "count_of", "judged"]

MAX_COUNT: Final = 10**15
MAX_CLIENTS: Final = 2**31 - 1


def judged(lines: pl.DataFrame, kinds: Mapping[str, str], unknown: str) -> pl.DataFrame:
    r"""Lines with their `kind` and the `reason` for which they are rejected (null where they are not).

    Args:
        lines: a frame of :func:`citus_analysis.formats.line_frame`.
        kinds: kind -> pattern; the first that matches decides.
        unknown: reason to reject a line that no pattern matches.

    Example:
        >>> from citus_analysis.formats import line_frame
        >>> judged(line_frame(b"tps: 5\nx\n"), {"tps": "^tps"}, "no line of it").select("kind", "reason").rows()
        [('tps', None), (None, 'no line of it')]
    """
    text = pl.col("text")
    kind = pl.coalesce(*(pl.when(text.str.contains(pattern)).then(pl.lit(name)) for name, pattern in kinds.items()))
    return lines.with_columns(kind=kind).with_columns(
        reason=pl.when(~pl.col("terminated"))
        .then(pl.lit(UNTERMINATED))
        .when(pl.col("kind").is_null())
        .then(pl.lit(unknown))
    )


def count_of(value: float | None, most: int = MAX_COUNT) -> int | None:
    """A printed number as a count; None where it is missing or no count.

    Example:
        >>> count_of(3.0), count_of(-1.0), count_of(None)
        (3, None, None)
    """
    return int(value) if value is not None and 0 <= value <= most else None

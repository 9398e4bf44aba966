"""Files in which one number is longer than any that its tool prints, and the signs of digits that were cut."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import polars as pl

from citus_analysis.errors import CitusAnalysisError
from citus_analysis.formats import Content, Hints, Parsed, format_named

__all__ = ["lengthened", "problem_of"]

#: Digits that no recording contains, of a number with 24 and of one with 45 before the point.
_LONG: Final = (b"271828182845904523536028", b"271828182845904523536028747135266249775724709")
_NUMBER: Final = re.compile(rb"[0-9]+(?:\.[0-9]+)?")
#: Fewest digits of a cut number by which it is recognised.
_LEAST: Final = 7


def lengthened(some: Sequence[bytes], name: str, number: int) -> tuple[bytes, bytes]:
    """The `number`-th file of a format with a long number in it, and that number."""
    rng = random.Random(f"{name} {number}")
    data, long = rng.choice(some), rng.choice(_LONG)
    places = list(_NUMBER.finditer(data))
    if not places:
        return data, long
    place = rng.choice(places)
    printed = long + (b".25" if b"." in place[0] else b"")
    return data[: place.start()] + printed + data[place.end() :], long


def problem_of(path: Path, name: str, long: bytes) -> str | None:
    """What is wrong with how a file with a long number is read, or None where all is well."""
    accounted = 0
    try:
        for piece in format_named(name).parse(Content(path), Hints(path.name)):
            accounted += piece.parsed_bytes + piece.noise_bytes + piece.rejected_bytes
            for table, column, value in _cut(piece, long.decode()):
                return f"{table}.{column} is {value!r}"
    except CitusAnalysisError:
        return None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a panic of polars is no Exception
        return f"{type(error).__name__}: {str(error)[:200]}"
    size = path.stat().st_size
    return None if accounted == size else f"{accounted} of {size} bytes are accounted for"


def _cut(piece: Parsed, long: str) -> Iterator[tuple[str, str, float]]:
    """Numbers whose digits are some of the long number's; texts and whole numbers may be kept."""
    for table in piece.tables:
        frame = piece.frame(table)
        for column in frame.select(pl.col(name) for name, kind in frame.schema.items() if kind.is_numeric()):
            for value in column.drop_nulls().unique():
                whole = f"{value:.0f}"
                digits = whole.rstrip("0").lstrip("-")
                if len(digits) >= _LEAST and digits in long and not _is_whole(float(value), long):
                    yield table, column.name, value


def _is_whole(value: float, long: str) -> bool:
    """Whether it is the long number, perhaps in another unit."""
    return any(
        abs(value / (float(long) * factor) - 1) < 1e-9 for factor in (1, 0.5, 1000, 1024, 1e6, 1e-3, 1 / 1024, 1 / 60)
    )

"""Identifiers of traces and spans, computed from the source and offset of the record that reported the span.

The same record gives the same identifier, regardless of other sources and the order in which they are ingested.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import numpy as np
import polars as pl

#: One record can report several spans (a closing duration ends a statement and its execute phase).
ROLES: Final = {"trace": 0, "statement": 1, "phase": 2, "task": 3, "remote": 4, "local": 5, "connect": 6}


class Identifiers:
    """Gives identifiers for records of numbered sources.

    Args:
        sources: frame with `source_id` in the order of `source` (0, 1, 2 ...).
    """

    def __init__(self, sources: pl.DataFrame) -> None:
        digests = [blake2b(name.encode(), digest_size=8).digest() for name in sources["source_id"]]
        self._bases = np.array([int.from_bytes(digest, "little") for digest in digests], dtype=np.uint64)

    def of(self, frame: pl.DataFrame, role: str, *, offset: str = "byte_offset") -> pl.Series:
        """Identifiers for the records at (`source`, `offset`) of a frame."""
        place = frame[offset].to_numpy().astype(np.uint64)
        numbers = self._bases[frame["source"].to_numpy()] + place * np.uint64(8) + np.uint64(ROLES[role])
        # The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection that spreads neighbouring numbers.
        mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return pl.Series(mixed ^ (mixed >> np.uint64(31)))


# 64-bit identifiers as text: JSON readers round integers beyond 2^53.


def make_hexadecimal_expr(column: str) -> pl.Expr:
    """A UInt64 column as 16 hexadecimal digits; null stays null.

    Example:
        >>> numbers = pl.DataFrame({"id": [255, None]}, schema={"id": pl.UInt64})
        >>> numbers.select(make_hexadecimal_expr("id"))["id"].to_list()
        ['00000000000000ff', None]
    """
    known = pl.col(column).is_not_null()
    return pl.when(known).then(pl.col(column).fill_null(0).map_batches(_convert_to_hex_digits, return_dtype=pl.String))


def _convert_to_hex_digits(numbers: pl.Series) -> pl.Series:
    digits = numbers.to_numpy().astype(">u8").tobytes().hex()
    return pl.Series(numbers.name, [digits]).str.extract_all("[0-9a-f]{16}").explode().drop_nulls()

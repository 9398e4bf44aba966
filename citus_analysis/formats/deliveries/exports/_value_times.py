r"""Times as exports state them, as numbers of nanoseconds: ISO 8601 in its variants, and numbers since 1970.

Example:
    >>> import pyarrow as pa
    >>> nanoseconds(pa.array([b"1970-01-01T00:00:01.5Z", b"1970-01-01 01:00:00+01:00", b"1700000000123"])).tolist()
    [1500000000, 0, 1700000000123000000]
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from citus_analysis.core.array_types import Floats, Integers
from citus_analysis.formats.deliveries.placed_lines import NO_TIME

_ZONED: Final = "%Y-%m-%dT%H:%M:%S%.f%#z"
_LOCAL: Final = "%Y-%m-%dT%H:%M:%S%.f"
_CLOCK: Final = len("0000-00-00T00:00:00")
#: Kibana's tables state times so.
_KIBANA: Final = "%b %d, %Y @ %H:%M:%S.%f"
#: The least times after 2001 in s, ms, µs and ns, and what one of each is in ns; less is no time.
_LEAST: Final = 10 ** np.array([9, 12, 15, 18])
_NS: Final = np.array([0, 10**9, 10**6, 10**3, 1])
#: The last whole second in nanoseconds of 64 bits, in the year 2262; more is no time either.
_LAST: Final = np.iinfo(np.int64).max // 10**9 * 10**9
_TOO_LARGE: Final = 9.2e18
_STATED: Final = re.compile(rb"(?:Z| ?UTC| ?GMT|[0-9][+-][0-9]{2}(?::?[0-9]{2})?)$", re.IGNORECASE)


def states_zone(text: bytes) -> bool:
    """Whether a time says of which zone it is; numbers count from 1970 UTC.

    Example:
        >>> states_zone(b"2026-03-01T12:00:00.1Z"), states_zone(b"2026-03-01 12:00:00"), states_zone(b"1700000000")
        (True, False, True)
    """
    return text.replace(b".", b"", 1).isdigit() or bool(len(text) >= _CLOCK and _STATED.search(text))


def nanoseconds(values: pa.Array) -> Integers:
    """Nanoseconds since 1970-01-01 UTC, times without a zone read as UTC; `NO_TIME` for what is no time.

    Args:
        values: bytes, integers or floating-point numbers.
    """
    if pa.types.is_integer(values.type):
        return _of_integers(values)
    if pa.types.is_floating(values.type):
        return _of_numbers(values)
    try:
        texts = values.cast(pa.string())
    except pa.ArrowInvalid:
        texts = pa.array([(value or b"").decode("ascii", "replace") for value in values.to_pylist()])
    with suppress(pa.ArrowInvalid):
        return _of_integers(texts.cast(pa.int64()))
    times = _of_stamps(texts)
    for row in np.flatnonzero(times == NO_TIME).tolist():
        times[row] = _of_word(texts[row].as_py() or "")
    return times


def _of_integers(values: pa.Array) -> Integers:
    return _since_1970(pc.fill_null(values, 0).to_numpy(zero_copy_only=False).astype(np.int64))


def _of_numbers(values: pa.Array) -> Integers:
    numbers = np.nan_to_num(pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False))
    numbers = np.where(numbers < _TOO_LARGE, numbers, 0.0)
    whole = np.floor(numbers)
    return _since_1970(np.maximum(whole, 0).astype(np.int64), numbers - whole)


def _since_1970(whole: Integers, fraction: Floats | float = 0.0) -> Integers:
    """Numbers as times; the whole part apart, because a product would lose what the fraction says."""
    unit = _NS[np.searchsorted(_LEAST, whole, side="right")]
    known = (unit > 0) & (whole < _LAST // np.maximum(unit, 1))
    return np.where(known, whole * unit + np.round(fraction * unit).astype(np.int64), NO_TIME)


def _of_stamps(values: pa.StringArray) -> Integers:
    """Times with a date, of whose zone `Z`, ` UTC`, `+0100`, `+01:00` and `-03` tell; of other texts `NO_TIME`."""
    import polars as pl

    texts = pl.Series("text", values)
    stamps = texts.str.to_datetime(_ZONED, time_unit="ns", time_zone="UTC", strict=False)
    if stamps.null_count():
        text = pl.col("text").str.replace(r"(?i) ?(?:Z|UTC|GMT)$", "+00").str.replace("^(.{10}) ", "${1}T")
        text = text.str.replace(" ", "", literal=True).str.replace(",", ".", literal=True)
        zoned = text.str.to_datetime(_ZONED, time_unit="ns", time_zone="UTC", strict=False)
        local = text.str.to_datetime(_LOCAL, time_unit="ns", strict=False).dt.replace_time_zone("UTC")
        stamps = texts.to_frame().select(pl.coalesce(zoned, local)).to_series()
    times: Integers = stamps.cast(pl.Int64).fill_null(NO_TIME).to_numpy().copy()
    times[times < 0] = NO_TIME
    return times


def _of_word(text: str) -> int:
    if found := re.fullmatch(r"([0-9]{10})(\.[0-9]{1,9})|([0-9]{10,19})", text):
        whole = min(int(found[1] or found[3]), np.iinfo(np.int64).max)
        return int(_since_1970(np.array([whole]), float(found[2] or 0))[0])
    try:
        stamp = datetime.strptime(text, _KIBANA).replace(tzinfo=UTC)
    except ValueError:
        return NO_TIME
    return round(stamp.timestamp() * 10**6) * 1000

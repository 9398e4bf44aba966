"""Times as exports state them, as numbers of nanoseconds: ISO 8601 in its variants, and numbers since 1970."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa

from citus_analysis.core.type_aliases import Floats, Integers
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


def convert_times_to_ns(values: pa.Array) -> Integers:
    """Nanoseconds since 1970-01-01 UTC, times without a zone read as UTC; `NO_TIME` for what is no time.

    Args:
        values: bytes, integers or floating-point numbers.
    """
    if pa.types.is_integer(values.type):
        return _convert_integer_times(values)
    if pa.types.is_floating(values.type):
        return _convert_number_times(values)
    try:
        texts = values.cast(pa.string())
    except pa.ArrowInvalid:
        texts = pa.array([(value or b"").decode("ascii", "replace") for value in values.to_pylist()])
    with suppress(pa.ArrowInvalid):
        return _convert_integer_times(texts.cast(pa.int64()))
    times = _parse_time_stamps(texts)
    for row in np.flatnonzero(times == NO_TIME).tolist():
        times[row] = _parse_time_word(texts[row].as_py() or "")
    return times


def _convert_integer_times(values: pa.Array) -> Integers:
    return _convert_epoch_to_ns(values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64))


def _convert_number_times(values: pa.Array) -> Integers:
    numbers = np.nan_to_num(values.fill_null(0.0).to_numpy(zero_copy_only=False))
    numbers = np.where(numbers < _TOO_LARGE, numbers, 0.0)
    whole = np.floor(numbers)
    return _convert_epoch_to_ns(np.maximum(whole, 0).astype(np.int64), numbers - whole)


def _convert_epoch_to_ns(whole: Integers, fraction: Floats | float = 0.0) -> Integers:
    """Numbers as times; the whole part apart, because a product would lose what the fraction says."""
    unit = _NS[np.searchsorted(_LEAST, whole, side="right")]
    known = (unit > 0) & (whole < _LAST // np.maximum(unit, 1))
    return np.where(known, whole * unit + np.round(fraction * unit).astype(np.int64), NO_TIME)


def _parse_time_stamps(values: pa.StringArray) -> Integers:
    """Times with a date, of whose zone `Z`, ` UTC`, `+0100`, `+01:00` and `-03` tell; of other texts `NO_TIME`."""
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


def _parse_time_word(text: str) -> int:
    if found := re.fullmatch(r"([0-9]{10})(\.[0-9]{1,9})|([0-9]{10,19})", text):
        whole = min(int(found[1] or found[3]), np.iinfo(np.int64).max)
        return int(_convert_epoch_to_ns(np.array([whole]), float(found[2] or 0))[0])
    try:
        stamp = datetime.strptime(text, _KIBANA).replace(tzinfo=UTC)
    except ValueError:
        return NO_TIME
    return round(stamp.timestamp() * 10**6) * 1000

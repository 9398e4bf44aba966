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

from citus_analysis.core.array_types import Bools, Integers
from citus_analysis.formats.deliveries.exports._columns import bounds_of
from citus_analysis.formats.deliveries.placed_lines import NO_TIME

_STAMP: Final = b"0000-00-00T00:00:00"
_DIGITS: Final = [place for place, char in enumerate(_STAMP) if char == ord("0")]
_CLOCK: Final = len(_STAMP)
_FRACTION: Final = 9
#: `Z`, ` UTC`, `+0100`, `+01:00`, `-03`.
_ZONE: Final = 6
#: Kibana's tables state times so.
_KIBANA: Final = "%b %d, %Y @ %H:%M:%S.%f"
#: The least number of digits of a time after 2001 in s, ms, µs and ns, and what one is in ns.
_UNITS: Final = ((19, 1), (16, 10**3), (13, 10**6), (10, 10**9))
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
    clock, stamped = _of_stamps(values)
    if stamped.all():
        return clock
    rest = np.flatnonzero(~stamped)
    clock[rest] = _of_words(values.take(pa.array(rest)))
    return clock


def _of_integers(values: pa.Array) -> Integers:
    numbers: Integers = pc.fill_null(values, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    times = np.full(len(numbers), NO_TIME)
    below = np.iinfo(np.int64).max
    for digits, scale in _UNITS:
        fits = (numbers >= 10 ** (digits - 1)) & (numbers <= below)
        times[fits] = numbers[fits] * scale
        below = 10 ** (digits - 1) - 1
    return times


def _of_numbers(values: pa.Array) -> Integers:
    numbers = np.nan_to_num(pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False), nan=0.0, posinf=0.0, neginf=0.0)
    times = np.full(len(numbers), NO_TIME)
    above = 9.2e18
    for digits, scale in _UNITS:
        least = 10.0 ** (digits - 1)
        fits = (numbers >= least) & (numbers < above)
        # The whole part apart: a product would lose what the fraction says.
        whole = np.floor(numbers[fits])
        times[fits] = whole.astype(np.int64) * scale + np.round((numbers[fits] - whole) * scale).astype(np.int64)
        above = least
    return times


def _of_stamps(values: pa.Array) -> tuple[Integers, Bools]:
    """Times of those values that begin as ISO 8601 does and end with a fraction and a zone or without."""
    data, offsets = bounds_of(values)
    times = np.full(len(values), NO_TIME)
    lengths = np.diff(offsets)
    stamped = lengths >= _CLOCK
    rows = np.flatnonzero(stamped)
    if not len(rows):
        return times, stamped
    begins = offsets[:-1][rows].astype(np.int64)
    digits = data[begins[:, None] + np.arange(_CLOCK)].astype(np.int64) - ord("0")
    good = ((digits[:, _DIGITS] >= 0) & (digits[:, _DIGITS] <= _FRACTION)).all(axis=1)
    good &= (digits[:, 4] == ord("-") - ord("0")) & (digits[:, 13] == ord(":") - ord("0"))
    rest_at, rest_to = begins + _CLOCK, offsets[1:][rows].astype(np.int64)
    fraction, zone_at = _fractions(data, rest_at, rest_to)
    shift, zoned = _zones(data, zone_at, rest_to)
    days, valid = _days(digits)
    clock = (digits[:, 11] * 10 + digits[:, 12]) * 3600 + (digits[:, 14] * 10 + digits[:, 15]) * 60
    clock += digits[:, 17] * 10 + digits[:, 18]
    good &= zoned & valid
    times[rows[good]] = ((days * 86_400 + clock - shift) * 10**9 + fraction)[good]
    stamped[rows] = good
    return times, stamped


def _days(digits: Integers) -> tuple[Integers, Bools]:
    year = digits[:, 0] * 1000 + digits[:, 1] * 100 + digits[:, 2] * 10 + digits[:, 3]
    month, day = digits[:, 5] * 10 + digits[:, 6], digits[:, 8] * 10 + digits[:, 9]
    valid = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31) & (year >= 1970) & (year < 2262)
    months = np.where(valid, (year - 1970) * 12 + month - 1, 0)
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) + day - 1, valid


def _fractions(
    data: np.ndarray[tuple[int], np.dtype[np.uint8]], at: Integers, end: Integers
) -> tuple[Integers, Integers]:
    """Nanoseconds after the second, and where the rest begins."""
    found = np.zeros(len(at), np.int64)
    last = len(data) - 1
    mark = data[np.minimum(at, last)]
    going = (at < end) & ((mark == ord(".")) | (mark == ord(",")))
    place, scale = at + going, 10**_FRACTION
    while going.any():
        char = data[np.minimum(place, last)].astype(np.int64) - ord("0")
        going &= (place < end) & (char >= 0) & (char <= _FRACTION)
        scale //= 10
        found += np.where(going, char * scale, 0)
        place += going
    return found, place


def _zones(data: np.ndarray[tuple[int], np.dtype[np.uint8]], at: Integers, end: Integers) -> tuple[Integers, Bools]:
    """Seconds east of UTC, and whether the text ends as a time does."""
    shift = np.zeros(len(at), np.int64)
    good = at == end
    last = len(data) - 1
    is_z = (end - at == 1) & ((data[np.minimum(at, last)] | 32) == ord("z"))
    good |= is_z
    for row in np.flatnonzero(~good):
        seconds = _zone(bytes(data[at[row] : min(end[row], at[row] + 2 * _ZONE)]))
        if seconds is not None:
            shift[row], good[row] = seconds, True
    return shift, good


def _zone(text: bytes) -> int | None:
    text = text.strip()
    if text.upper() in (b"UTC", b"GMT"):
        return 0
    found = re.fullmatch(rb"([+-])([0-9]{2}):?([0-9]{2})?", text)
    if not found:
        return None
    seconds = int(found[2]) * 3600 + int(found[3] or 0) * 60
    return -seconds if found[1] == b"-" else seconds


def _of_words(values: pa.Array) -> Integers:
    with suppress(pa.ArrowInvalid):
        return _of_integers(values.cast(pa.string()).cast(pa.int64()))
    return np.array([_of_word(value) for value in values.to_pylist()], np.int64)


def _of_word(value: bytes | None) -> int:
    text = (value or b"").decode("ascii", "replace")
    if re.fullmatch("[0-9]{10,19}", text):
        return int(_of_integers(pa.array([min(int(text), np.iinfo(np.int64).max)]))[0])
    if re.fullmatch(r"[0-9]{10}\.[0-9]{1,9}", text):
        whole, _, fraction = text.partition(".")
        return int(whole) * 10**9 + int(fraction.ljust(9, "0"))
    try:
        stamp = datetime.strptime(text, _KIBANA).replace(tzinfo=UTC)
    except ValueError:
        return NO_TIME
    return round(stamp.timestamp() * 10**6) * 1000

"""Encodings of HdrHistogram: V0 (HdrHistogram 1), V1 (2.0, 2.1.4) and V2, each compressed or not, in base64.

All begin with a cookie, which names the encoding and, in bits 4 to 7, the width of a count. A compressed encoding has
the length of a zlib stream and the stream, which contains an uncompressed encoding. V0 and V1 have a count for each
bucket; V2 has numbers in ZigZag LEB128, where a negative number is a run of empty buckets.
"""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Final

import numpy as np

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]

_V0, _V1, _V2 = 0x1C849308, 0x1C849301, 0x1C849303
_COMPRESSED: Final = {0x1C849309: _V0, 0x1C849302: _V1, 0x1C849304: _V2}
_COOKIE_MASK: Final = 0xFFFFFF0F
#: Cookie, digits, lowest and highest value, total count.
_HEADER_V0: Final = struct.Struct(">iiqqq")
#: Cookie, length of the counts, offset of the first, digits, lowest and highest value, ratio to doubles.
_HEADER: Final = struct.Struct(">iiiiqqd")
#: Limit of an uncompressed encoding; a histogram with five digits over 64 bits is smaller.
_LARGEST_BYTES: Final = 64 * 2**20
_WIDTHS: Final = (2, 4, 8)
_MORE: Final = 0x80
_LONGEST: Final = 8
_MAX_DIGITS: Final = 5


def decoded(text: str) -> tuple[Ints, Ints, Ints] | None:
    """Lower edges, widths and counts of the buckets that are not empty, in the histogram's own unit.

    None if the text is not a histogram in one of the encodings.
    """
    try:
        digits, lowest, places, counts = _read(_inflated(base64.b64decode(text, validate=True)))
    except (zlib.error, struct.error, OverflowError, ValueError):
        return None
    if not 0 <= digits <= _MAX_DIGITS or lowest < 1:
        return None
    index, counts = places[counts > 0], counts[counts > 0]
    half = int(np.ceil(np.log2(2 * 10**digits))) - 1
    bucket = np.maximum((index >> half) - 1, 0)
    within = np.where((index >> half) > 0, (index & ((1 << half) - 1)) + (1 << half), index)
    shift = bucket + (lowest.bit_length() - 1)
    if len(shift) and int(shift.max()) + half + 1 >= 63:
        # Values beyond 63 bits.
        return None
    return within << shift, np.left_shift(np.int64(1), shift), counts


def _inflated(data: bytes) -> bytes:
    """The uncompressed encoding."""
    (cookie,) = struct.unpack_from(">i", data)
    inner = _COMPRESSED.get(cookie & _COOKIE_MASK)
    if inner is None:
        return data
    (size,) = struct.unpack_from(">i", data, 4)
    raw = zlib.decompressobj().decompress(data[8 : 8 + size], _LARGEST_BYTES)
    if struct.unpack_from(">i", raw)[0] & _COOKIE_MASK != inner:
        raise ValueError("another encoding")
    return raw


def _read(raw: bytes) -> tuple[int, int, Ints, Ints]:
    """Significant digits, lowest value, and the places and counts of buckets."""
    (cookie,) = struct.unpack_from(">i", raw)
    kind, width = cookie & _COOKIE_MASK, cookie >> 4 & 0xE
    if kind == _V0:
        _, digits, lowest, _, _ = _HEADER_V0.unpack_from(raw)
        return digits, lowest, *_fixed(raw[_HEADER_V0.size :], width)
    if kind not in (_V1, _V2):
        raise ValueError("another encoding")
    _, length, offset, digits, lowest, _, _ = _HEADER.unpack_from(raw)
    if offset or not 0 <= length <= len(raw) - _HEADER.size:
        raise ValueError("another encoding, or cut")
    payload = raw[_HEADER.size : _HEADER.size + length]
    if kind == _V1:
        return digits, lowest, *_fixed(payload, width)
    numbers = _leb128(payload)
    steps = np.where(numbers < 0, -numbers, 1)
    return digits, lowest, np.cumsum(steps) - steps, numbers


def _fixed(payload: bytes, width: int) -> tuple[Ints, Ints]:
    """Indices and counts of words of the same width."""
    if width not in _WIDTHS:
        raise ValueError("another width of counts")
    counts = np.frombuffer(payload[: len(payload) // width * width], dtype=f">i{width}").astype(np.int64)
    if (counts < 0).any():
        raise ValueError("a count below 0")
    return np.arange(len(counts)), counts


def _leb128(data: bytes) -> Ints:
    """Numbers in ZigZag LEB128."""
    octets = np.frombuffer(data, dtype=np.uint8).astype(np.int64)
    ends = np.flatnonzero(octets < _MORE)
    if not len(ends) or ends[-1] != len(octets) - 1:
        raise ValueError("cut")
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1] + 1])
    lengths = ends - starts + 1
    if int(lengths.max()) > _LONGEST:
        raise ValueError("a count beyond 56 bits")
    place = np.arange(len(octets)) - np.repeat(starts, lengths)
    values = np.add.reduceat((octets & (_MORE - 1)) << (7 * place), starts)
    return (values >> 1) ^ -(values & 1)

"""Encode many protobuf messages of one shape at a time: columns of numbers in, bytes out.

Numbers are written as varints of a fixed width, which the encoding allows (every byte but the last says that another
follows). All messages of one shape are then equally long, so that a column of numbers becomes columns of bytes, without
a loop over messages. Perfetto's own writer pads the lengths of messages in the same way.

Source: Protocol Buffers, Encoding (https://protobuf.dev/programming-guides/encoding/).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

#: Bytes of many messages: one row a message.
Bytes = npt.NDArray[np.uint8]
#: A stretch of bytes that is equal in all messages, or has the same length in each.
Piece = bytes | Bytes

#: Types of fields.
VARINT, FIXED64, LENGTH = range(3)
_BITS: Final = 7
_MORE: Final = 0x80


def varint(number: int) -> bytes:
    """A number in as few bytes as it takes.

    Example:
        >>> varint(300).hex()
        'ac02'
    """
    encoded = bytearray()
    while number >= _MORE:
        encoded.append(number & (_MORE - 1) | _MORE)
        number >>= _BITS
    return bytes([*encoded, number])


def varints(numbers: npt.NDArray[np.uint64], bytes_each: int) -> Bytes:
    """Numbers as varints of `bytes_each` bytes each.

    Example:
        >>> varints(np.array([1, 300], np.uint64), 3).tolist()
        [[129, 128, 0], [172, 130, 0]]
    """
    shifts = np.arange(0, _BITS * bytes_each, _BITS, dtype=np.uint64)
    digits = ((numbers[:, None] >> shifts) & np.uint64(_MORE - 1)).astype(np.uint8)
    digits[:, :-1] |= _MORE
    return digits


def tag(number: int, wire_type: int) -> bytes:
    """The key before a field."""
    return varint(number << 3 | wire_type)


def field(number: int, value: int | bytes) -> bytes:
    """A field with one value.

    Example:
        >>> field(9, 1).hex(), field(2, b"ab").hex()
        ('4801', '12026162')
    """
    if isinstance(value, int):
        return tag(number, VARINT) + varint(value)
    return tag(number, LENGTH) + varint(len(value)) + value


def repeated_field(number: int, values: npt.NDArray[np.uint64], bytes_each: int) -> list[Piece]:
    """A field with a number of its own in each message."""
    return [tag(number, VARINT), varints(values, bytes_each)]


def width(pieces: Sequence[Piece]) -> int:
    """Length of each message that these pieces make."""
    return sum(len(piece) if isinstance(piece, bytes) else piece.shape[1] for piece in pieces)


def length_delimited(number: int, pieces: Sequence[Piece]) -> list[Piece]:
    """A field that contains a message made of pieces."""
    return [tag(number, LENGTH) + varint(width(pieces)), *pieces]


def messages(pieces: Sequence[Piece], rows: int) -> bytes:
    """The messages that the pieces make, one after the other."""
    out = np.empty((rows, width(pieces)), dtype=np.uint8)
    at = 0
    for piece in pieces:
        each = np.frombuffer(piece, np.uint8) if isinstance(piece, bytes) else piece
        out[:, at : at + each.shape[-1]] = each
        at += each.shape[-1]
    return out.tobytes()

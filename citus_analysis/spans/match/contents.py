"""What the contents of statements prove: a task and its child have the same values.

The constants and parameters of a parent's statement are those of the statement that its child runs, so their hashes are
equal (`values_hash`; 0: unknown). Constants that the parent computes itself (`now()`), or that it divides among several
children (rows of an INSERT), differ, so different values alone prove nothing. They do if the values of one side are
those of another statement of the other side. The lowest five bits of a hash are the number of values.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from citus_analysis.spans.read.ordered_arrays import Flags, Integers, single

#: The hash of the values of a statement without constants, or of which they are unknown.
NO_VALUES: Final = 0


_NUMBER: Final = 31


def are_alike(some: NDArray[np.int32], others: NDArray[np.int32]) -> Flags:
    """Whether statements have the same values."""
    return np.asarray((some == others) & (some != NO_VALUES))


def are_other(some: NDArray[np.int32], others: NDArray[np.int32]) -> Flags:
    """Whether statements have equally many values, but not the same."""
    return np.asarray((some != others) & (some != NO_VALUES) & (others != NO_VALUES) & ((some ^ others) & _NUMBER == 0))


def contents_of(stream: Integers, values: NDArray[np.int32]) -> NDArray[np.int64]:
    """One number for the stream (less than 2**31) and the values of each statement."""
    return np.asarray(stream.astype(np.int64) << 32 | values.astype(np.int64) & 0xFFFFFFFF)


def occur(contents: NDArray[np.int64], others: NDArray[np.int64]) -> Flags:
    """Whether each content occurs among others; a content without values does not.

    Example:
        >>> occur(contents_of(np.array([1, 1]), np.array([7, 0], np.int32)), np.array([0, 2**32, 2**32 + 7])).tolist()
        [True, False]
    """
    return np.asarray(np.isin(contents, others) & (contents & 0xFFFFFFFF != NO_VALUES))


def occur_once(stream: Integers, values: NDArray[np.int32]) -> Flags:
    """Whether each statement has values that no other statement of its stream has."""
    return np.asarray(single(contents_of(stream, values)) & (values != NO_VALUES))


def repeat_elsewhere(
    stream: Integers, values: NDArray[np.int32], other_stream: Integers, other_values: NDArray[np.int32]
) -> Flags:
    """Whether the values of each statement occur among those of the other side in its stream."""
    return occur(contents_of(stream, values), contents_of(other_stream, other_values))

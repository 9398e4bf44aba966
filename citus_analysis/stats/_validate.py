"""Checks of arguments that all statistics share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from citus_analysis.core.type_aliases import Floats
from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.texts.words import pluralize

#: Seed of a random result; results with the same seed and data are equal.
Seed: TypeAlias = int | np.random.Generator


def validate_sample(values: ArrayLike, least: int = 1, what: str = "the sample") -> Floats:
    """One-dimensional float array of at least `least` finite values.

    Raises:
        UsageError: more than one dimension, a value that is no number, or one that is not finite.
        InsufficientDataError: fewer than `least` values.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{what} holds something other than numbers", hint="pass a list of numbers") from error
    if array.ndim != 1:
        raise UsageError(f"{what} has {array.ndim} dimensions", hint="pass a one-dimensional array")
    wrong = int(array.size - np.isfinite(array).sum())
    if wrong:
        raise UsageError(f"{what} has {pluralize(wrong, 'missing or infinite value')}", hint="remove them first")
    if array.size < least:
        raise InsufficientDataError(f"{what} has {pluralize(array.size, 'value')}; at least {least} are needed")
    return array


def check_level(level: float) -> float:
    """The confidence level, which lies between 0 and 1 (0.95, not 95)."""
    if not 0 < level < 1:
        raise UsageError(f"a confidence level of {level:g} is not between 0 and 1", hint="pass 0.95 for 95 %")
    return float(level)


def check_percentile(q: float) -> float:
    """A percentile, given in per cent, as a fraction; at least 1, so that 99 cannot be confused with 0.99."""
    if not 1 <= q < 100:
        raise UsageError(f"a percentile of {q:g} is not between 1 and 100", hint="pass 99 for the 99th")
    return q / 100


def make_generator(seed: Seed) -> np.random.Generator:
    """A new generator for an integer, or the caller's generator."""
    return np.random.default_rng(seed)


def list_unique_warnings(warnings: Iterable[str]) -> tuple[str, ...]:
    """The warnings in order, each once."""
    return tuple(dict.fromkeys(warnings))

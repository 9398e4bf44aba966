"""Compilation by numba, with types kept and results cached on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numba

__all__ = ["compiled", "inlined"]

Function = TypeVar("Function", bound=Callable[..., object])
_OPTIONS: Final[dict[str, Any]] = {"nogil": True, "boundscheck": False, "error_model": "numpy"}


def compiled(function: Function) -> Function:
    """The function compiled to machine code at its first call; runs without the interpreter's lock."""
    return _jit(function)


def inlined(function: Function) -> Function:
    """Like :func:`compiled`, but laid into its callers: a call would hand over a hundred words of array headers."""
    return _jit(function, inline="always")


def _jit(function: Function, **options: Any) -> Function:  # noqa: ANN401 - handed through to numba
    try:
        return cast(Function, numba.njit(cache=True, **_OPTIONS, **options)(function))
    except RuntimeError:
        # No folder to keep machine code in (read-only installation, no home): compiled in every process.
        return cast(Function, numba.njit(**_OPTIONS, **options)(function))

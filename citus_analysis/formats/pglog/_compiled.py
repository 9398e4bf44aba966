"""Compilation by numba, with types kept and results cached on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numba

__all__ = ["compiled", "inlined"]

Function = TypeVar("Function", bound=Callable[..., object])
_OPTIONS: Final[dict[str, Any]] = {"cache": True, "nogil": True, "boundscheck": False, "error_model": "numpy"}


def compiled(function: Function) -> Function:
    """The function compiled to machine code at its first call; runs without the interpreter's lock."""
    return cast(Function, numba.njit(**_OPTIONS)(function))


def inlined(function: Function) -> Function:
    """Like :func:`compiled`, but laid into its callers: a call would hand over a hundred words of array headers."""
    return cast(Function, numba.njit(inline="always", **_OPTIONS)(function))

"""Compilation by numba, with types kept and results cached on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

__all__ = ["compiled"]

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """The function compiled to machine code at its first call; runs without the interpreter's lock."""
    return cast(Function, numba.njit(cache=True, nogil=True, boundscheck=False)(function))

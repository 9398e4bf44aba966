"""Dataclasses made of values that were read from JSON: each value is held to the type of its field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import UnionType
from typing import TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")


def with_checked_fields(kind: Callable[..., T], values: Mapping[str, object]) -> T:
    """An object of a dataclass.

    Args:
        kind: the dataclass. Of a field that is a list, a tuple or a mapping, the elements are not looked at.
        values: by name of the field; fields with a default may be absent.

    Raises:
        TypeError: a value is not of its field's type, no field has this name, or a field without a default is absent.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Stored:
        ...     path: str
        ...     rows: int | None = None
        >>> with_checked_fields(Stored, {"path": "a.parquet"})
        Stored(path='a.parquet', rows=None)
        >>> with_checked_fields(Stored, {"path": 3})
        Traceback (most recent call last):
        TypeError: path is int, which is none of: str
    """
    types = _types(kind)
    for name, value in values.items():
        # A name that is no field is refused by the dataclass itself.
        if name in types and not isinstance(value, types[name]):
            allowed = ", ".join(each.__name__ for each in types[name])
            raise TypeError(f"{name} is {type(value).__name__}, which is none of: {allowed}")
    return kind(**values)


@cache
def _types(kind: Callable[..., object]) -> dict[str, tuple[type, ...]]:
    """The types that the value of each field may have."""
    hints = get_type_hints(kind)
    members = {name: get_args(hint) if isinstance(hint, UnionType) else (hint,) for name, hint in hints.items()}
    return {name: tuple(get_origin(each) or each for each in given) for name, given in members.items()}

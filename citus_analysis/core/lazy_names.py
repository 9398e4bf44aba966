"""Names of a package that are imported when they are first used, so that importing the package is quick."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module

__all__ = ["imported_lazily"]


def imported_lazily(package: str, names: Mapping[str, str]) -> Callable[[str], object]:
    """A package's `__getattr__` that imports each name at its first use.

    Args:
        package: its `__name__`.
        names: name -> module that defines it, followed by `:name` if the module uses another name; the name of a
            module -> the empty string, for the module itself.

    Example:
        >>> imported_lazily("citus_analysis", {"errors": ""})("errors").__name__
        'citus_analysis.errors'
    """

    def attribute(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, called = names[name].partition(":")
        found = import_module(module or f"{package}.{name}")
        value: object = getattr(found, called or name) if module else found
        setattr(sys.modules[package], name, value)
        return value

    return attribute

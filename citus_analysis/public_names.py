"""What a part of the package shows of itself, and where names are that were public in version 0.1.

`former_names.csv` lists these names; it goes with the next version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import lazy_loader

_Missing = Callable[[str], NoReturn]


def public(package: str, names: Sequence[str]) -> tuple[Callable[[], list[str]], _Missing]:
    """A part's `__dir__`, which has exactly its public names, and its `__getattr__`, which says where others are.

    Args:
        package: name of the part.
        names: its public names.

    Example:
        >>> shown, _ = public("citus_analysis.stats", ["b", "a"])
        >>> shown()
        ['a', 'b']
    """

    def missing(name: str) -> NoReturn:
        raise AttributeError(_reason(package, name))

    return lambda: sorted(names), missing


def public_of_stub(package: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a part whose names are in `__init__.pyi`, imported when first used.

    Args:
        package: name of the part.
        file: its module's `__file__`.
    """
    found, shown, names = lazy_loader.attach_stub(package, file)

    def attribute(name: str) -> object:
        try:
            return found(name)
        except AttributeError:
            # The loader's message does not say where the name is.
            raise AttributeError(_reason(package, name)) from None

    return attribute, shown, names


def _reason(package: str, name: str) -> str:
    part = package.rpartition(".")[2]
    file = Path(__file__).with_name("former_names.csv")
    for line in [] if name.startswith("_") else file.read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{part},{name},"):
            module = line.rpartition(",")[2]
            return f"{package}.{name} is no public name any more: from citus_analysis.{module} import {name}"
    return f"module {package!r} has no attribute {name!r}"

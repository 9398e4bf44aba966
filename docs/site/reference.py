"""Reference of the library: a page for each package, with every public name and its docstring."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Final

import citus_analysis as ca

__all__ = ["public_packages", "write_reference"]

_TITLE: Final = "citus_analysis"


def public_packages() -> list[ModuleType]:
    """`citus_analysis` and the modules that it exports, in the order in which they are listed."""
    return [ca, *(found for name in ca.__all__ if isinstance(found := getattr(ca, name), ModuleType))]


def write_reference(folder: Path) -> dict[str, str]:
    """Write a page for each package.

    Returns:
        title -> name of the page.
    """
    pages = {}
    for package in public_packages():
        short = package.__name__.removeprefix(f"{_TITLE}.")
        name = f"library-{short.replace('.', '-')}.md"
        (folder / name).write_text(_page(package), encoding="utf-8")
        pages[short] = name
    return pages


def _page(package: ModuleType) -> str:
    own = {"members": "[]", "show_root_heading": "false"}
    parts = [f"# {package.__name__}", _directive(package.__name__, own)]
    parts += [_entry(package, name) for name in package.__all__]
    return "\n\n".join(parts) + "\n"


def _entry(package: ModuleType, name: str) -> str:
    found = getattr(package, name)
    public = f"{package.__name__}.{name}"
    if isinstance(found, ModuleType):
        summary = (inspect.getdoc(found) or "").partition("\n")[0]
        return f"### `{public}`\n\n{summary} See [{public}](library-{name}.md)."
    if not (inspect.isclass(found) or inspect.isfunction(found)):
        return f"### `{public}`\n\n{_constant(found)}"
    return _directive(f"{found.__module__}.{found.__qualname__}", {"heading": public})


def _directive(name: str, options: Mapping[str, str]) -> str:
    """What mkdocstrings replaces by the documentation of an object."""
    return "\n".join([f"::: {name}", "    options:", *(f"      {key}: {value}" for key, value in options.items())])


def _constant(value: object) -> str:
    shown = " ".join(repr(value).split())
    return f"Constant: `{shown if len(shown) < 300 else f'{shown[:300]}...'}`"

"""Location of the files that ship with the library: notebooks, published tables, experiments, the glossary.

In a checkout they are at the top level, in an installed wheel inside the package.

Example:
    >>> find_shipped_folder("published").name
    'published'
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

_PACKAGE: Final = Path(__file__).parents[1]
_IN_CHECKOUT: Final = {
    "notebooks": "notebooks",
    "published": "data/published",
    "experiments": "experiments",
    "glossary": "docs",
}


def find_shipped_folder(folder: Literal["notebooks", "published", "experiments", "glossary"]) -> Path:
    """The folder of that name, in the wheel if there is one, else in the checkout."""
    installed = _PACKAGE / "_shipped" / folder
    return installed if installed.is_dir() else _PACKAGE.parent / _IN_CHECKOUT[folder]

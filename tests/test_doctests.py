"""Examples in docstrings give what is written below them: `pytest tests/test_doctests.py -k stats.intervals`.

A module is imported by the worker that runs its examples; where pytest itself looks for examples, each worker imports
all modules before the first test.
"""

from __future__ import annotations

import doctest
import re
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]


def find_modules_with_examples() -> list[str]:
    """Names of the package's modules that hold examples, and of the tests' helpers."""
    files = sorted([*ROOT.glob("citus_analysis/**/*.py"), *ROOT.glob("tests/**/*.py")])
    found = [
        file.relative_to(ROOT).with_suffix("")
        for file in files
        if not file.name.startswith("test_") and re.search(r"^ *>>> ", file.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    return [".".join(path.parts).removesuffix(".__init__") for path in found]


@pytest.mark.parametrize("name", find_modules_with_examples())
def test_examples_give_what_is_written_below_them(name: str) -> None:
    failed, tried = doctest.testmod(import_module(name))
    assert tried, f"{name}: its examples are not found"
    assert not failed, f"{name}: {failed} of {tried} examples give something else"

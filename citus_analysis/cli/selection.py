"""Values of options that several commands have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from citus_analysis.errors import UsageError

__all__ = ["SHARE", "column_names", "column_values"]

#: A number between 0 and 1, neither of which makes sense: a confidence level, a margin.
SHARE: Final = click.FloatRange(0, 1, min_open=True, max_open=True)


def column_names(options: Sequence[str]) -> tuple[str, ...]:
    """Options that name columns, one or several split by commas.

    Example:
        >>> column_names(["records,operations", "phase"])
        ('records', 'operations', 'phase')
    """
    return tuple(name.strip() for option in options for name in option.split(",") if name.strip())


def column_values(pairs: Sequence[str]) -> dict[str, object]:
    """`COLUMN=VALUE` options as a mapping.

    Raises:
        UsageError: an option without `=`.

    Example:
        >>> column_values(["phase=load", "threads=16"])
        {'phase': 'load', 'threads': '16'}
    """
    for pair in pairs:
        if "=" not in pair:
            raise UsageError(f"--only {pair} names no value", way_out="write --only COLUMN=VALUE")
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}

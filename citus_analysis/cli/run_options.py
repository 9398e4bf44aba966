"""Options that the commands over configurations have in common, and their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypedDict, TypeVar

import click

from citus_analysis.core.defaults import LEVEL, MARGIN
from citus_analysis.errors import UsageError
from citus_analysis.texts.urls import place_of

__all__ = ["SHARE", "ChosenColumns", "chosen_columns", "column_names", "column_values", "over_configurations"]

_Command = TypeVar("_Command", bound=Callable[..., object])


class _Share(click.ParamType[float]):
    """A number between 0 and 1, neither of which makes sense, or per cent: `0.05`, `5%`."""

    name = "share"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        written = str(value).strip()
        try:
            share = float(written.removesuffix("%")) / (100 if written.endswith("%") else 1)
        except ValueError:
            self.fail(f"{value!r} is not a number, or a number of per cent", param, ctx)
        if not 0 < share < 1:
            self.fail(f"{value} is not between 0 and 1 (5% is 0.05)", param, ctx)
        return share


#: A confidence level, a margin.
SHARE: Final = _Share()


_WITHIN: Final = "Hold only these columns equal. Default: the set-up."
_POOL: Final = "Columns that need not be equal, split by commas."
_ONLY: Final = "Only rows with this value; repeatable."
_OPTIONS: Final = (
    click.argument("folder", metavar="DIR", type=place_of),
    click.option("--within", multiple=True, metavar="COLUMN", help=_WITHIN),
    click.option("--pool", multiple=True, metavar="COLUMNS", help=_POOL),
    click.option("--only", multiple=True, metavar="COLUMN=VALUE", help=_ONLY),
    click.option(
        "--margin", default=MARGIN, show_default=True, type=SHARE, help="Relative difference that is ignored."
    ),
    click.option("--level", default=LEVEL, show_default=True, type=SHARE, help="Confidence level."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
)


def over_configurations(command: _Command) -> _Command:
    """Decorator: the argument and the options of a command that compares configurations of a dataset."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


class ChosenColumns(TypedDict):
    """Columns that tell configurations apart, columns left out of them, and values that rows must have."""

    within: tuple[str, ...] | None
    pool: tuple[str, ...]
    only: dict[str, object]


def chosen_columns(within: Sequence[str], pool: Sequence[str], only: Sequence[str]) -> ChosenColumns:
    """The values of `--within`, `--pool` and `--only` as `compare_runs` and `scale_runs` take them.

    Raises:
        UsageError: an `--only` without `=`.

    Example:
        >>> chosen_columns((), ("records,operations",), ("phase=load",))
        {'within': None, 'pool': ('records', 'operations'), 'only': {'phase': 'load'}}
    """
    return {"within": column_names(within) or None, "pool": column_names(pool), "only": column_values(only)}


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
            raise UsageError(f"--only {pair} contains no value", way_out="write --only COLUMN=VALUE")
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}

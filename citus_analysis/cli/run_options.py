"""Options shared by the commands that compare configurations, and types of their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Final, TypedDict, TypeVar

import click

from citus_analysis.cli.completed_values import PLACE
from citus_analysis.defaults import LEVEL, MARGIN, METRIC
from citus_analysis.errors import UsageError

_Result = TypeVar("_Result")


class _Share(click.ParamType[float]):
    """A number greater than 0 and less than 1, or a percentage: `0.05`, `5%`."""

    name = "share"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        written = str(value).strip()
        try:
            share = float(written.removesuffix("%")) / (100 if written.endswith("%") else 1)
        except ValueError:
            self.fail(f"{value!r} is neither a number nor a percentage", param, ctx)
        if not 0 < share < 1:
            self.fail(f"{value} is not between 0 and 1 (5% is 0.05)", param, ctx)
        return share


#: Type of confidence levels and margins.
SHARE: Final = _Share()


_WITHIN: Final = "Require only these columns to be equal. Default: the set-up."
_COLUMN: Final = "Column of runs or operation_latencies"
#: Options of every command that selects runs, also of those that do not use all of `_OPTIONS`.
POOL: Final = click.option(
    "--pool", multiple=True, metavar="COLUMNS", help="Columns that need not be equal, split by commas."
)
ONLY: Final = click.option(
    "--only", multiple=True, metavar="COLUMN=VALUE", help="Only rows with this value; repeatable."
)
ALLOW: Final = click.option(
    "--allow",
    multiple=True,
    type=click.Choice(["doubtful", "degraded"]),
    help="Use doubtful or degraded runs as well; their number is stated.",
)
AS_JSON: Final = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
METRIC_OPTION: Final = click.option("--metric", default=METRIC, show_default=True, help=f"{_COLUMN}.")
METRICS_OPTION: Final = click.option(
    "--metric", "metrics", multiple=True, default=[METRIC], show_default=True, help=f"{_COLUMN}; repeatable."
)
_OPTIONS: Final = (
    click.argument("folder", metavar="DIR", type=PLACE),
    click.option("--within", multiple=True, metavar="COLUMN", help=_WITHIN),
    POOL,
    ONLY,
    ALLOW,
    click.option(
        "--margin", default=MARGIN, show_default=True, type=SHARE, help="Relative difference that is ignored."
    ),
    click.option("--level", default=LEVEL, show_default=True, type=SHARE, help="Confidence level."),
    AS_JSON,
)


class Chosen(TypedDict):
    """Selection of the runs to be compared, and the strictness: arguments of `compare_runs`, `gate` and `scale_runs`.

    `within` are the columns that identify configurations, `pool` the columns that are omitted from them, `only` the
    values that rows must have, `allow` the statuses beside ok.
    """

    within: tuple[str, ...] | None
    pool: tuple[str, ...]
    only: dict[str, object]
    allow: tuple[str, ...]
    margin: float
    level: float


def over_configurations(command: Callable[..., _Result]) -> Callable[..., _Result]:
    """Decorator that adds the argument and the options of a command that compares configurations of a dataset.

    The command gets `folder`, `as_json` and, from the other options, `chosen`.
    """

    @wraps(command)
    def collected(*, within: Sequence[str], pool: Sequence[str], only: Sequence[str], **others: object) -> _Result:
        columns = {"within": column_names(within) or None, "pool": column_names(pool), "only": column_values(only)}
        strictness = {name: others.pop(name) for name in ("allow", "margin", "level")}
        return command(chosen=columns | strictness, **others)

    for option in reversed(_OPTIONS):
        collected = option(collected)
    return collected


def column_names(options: Sequence[str]) -> tuple[str, ...]:
    """Names of columns in options, each of which has one name or several, separated by commas.

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

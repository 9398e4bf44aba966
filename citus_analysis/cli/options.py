"""Options shared by the commands that compare configurations, and types of their values."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from glob import glob, has_magic
from pathlib import Path
from typing import Final, TypedDict, TypeVar

import click
from click.shell_completion import CompletionItem

from citus_analysis.defaults import LEVEL, MARGIN, METRIC
from citus_analysis.errors import InputError, UsageError
from citus_analysis.texts.names import convert_to_place

# Values that a shell completes after a command: paths, names of reports and of their parameters, experiments.


class _PathOrUrlType(click.ParamType[Path | str]):
    """A path or a URL; a shell completes paths only."""

    name = "place"

    def __init__(self, kind: str) -> None:
        self._kind = kind

    # The other arguments are part of click's interface.
    def convert(self, value: object, *_: object) -> Path | str:
        return value if isinstance(value, Path) else convert_to_place(str(value))

    def shell_complete(self, *asked: object) -> list[CompletionItem]:
        return [CompletionItem(asked[-1], type=self._kind)]


#: A dataset: a folder, or a URL.
PLACE: Final = _PathOrUrlType("dir")
#: A source of an ingest: a folder, a file, or a URL.
SOURCE: Final = _PathOrUrlType("file")


def complete_report_names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of reports that begin with the typed text; files if there is none."""
    from citus_analysis.report.notebooks import NEEDS, report_names

    return _complete_names(("all", *report_names(NEEDS.values())), incomplete)


def report_parameters(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Parameters of the report named earlier on the line, with their meaning."""
    from citus_analysis.report.notebooks import NEEDS, report_names, report_parameters

    # An option without its value prevents click from assigning the arguments to parameters.
    name = str(ctx.params.get("name") or next(iter(ctx.args), ""))
    if name not in report_names(NEEDS.values()):
        return []
    return [
        CompletionItem(f"{one.name}=", help=one.meaning)
        for one in report_parameters(name)
        if one.name.startswith(incomplete)
    ]


def complete_experiment_names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Shipped experiments whose names begin with the typed text; files if there is none."""
    from citus_analysis.core.shipped_files import find_shipped_folder

    return _complete_names(sorted(path.stem for path in find_shipped_folder("experiments").glob("*.yml")), incomplete)


def _complete_names(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    found = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="file")]


_Result = TypeVar("_Result")


class _ShareType(click.ParamType[float]):
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
SHARE: Final = _ShareType()


_WITHIN: Final = "Require only these columns to be equal. Default: the set-up."
_COLUMN: Final = "Column of runs or operation_latencies"
#: Options of every command that selects runs, also of those that do not use all of `_OPTIONS`.
POOL: Final = click.option(
    "--pool", multiple=True, metavar="COLUMNS", help="Columns that need not be equal, split by commas."
)
ONLY: Final = click.option(
    "--only", multiple=True, metavar="COLUMN=VALUE", help="Only rows with this value; repeatable."
)
INCLUDE_STATUS: Final = click.option(
    "--include-status",
    multiple=True,
    type=click.Choice(["doubtful", "degraded"]),
    help="Use doubtful or degraded runs as well; their number is stated.",
)
AS_JSON: Final = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
WIDE: Final = click.option("--wide", is_flag=True, help="On a terminal too: whole lines, as in a pipe.")
METRIC_OPTION: Final = click.option("--metric", default=METRIC, show_default=True, help=f"{_COLUMN}.")
METRICS_OPTION: Final = click.option(
    "--metric", "metrics", multiple=True, default=[METRIC], show_default=True, help=f"{_COLUMN}; repeatable."
)
MARGIN_OPTION: Final = click.option(
    "--margin", default=MARGIN, show_default=True, type=SHARE, help="Relative difference that is ignored."
)
LEVEL_OPTION: Final = click.option("--level", default=LEVEL, show_default=True, type=SHARE, help="Confidence level.")
RESOURCES: Final = click.option(
    "--resources", default="*", show_default=True, help="Resources that enter, as glob patterns."
)
_OPTIONS: Final = (
    click.argument("folder", metavar="DIR", type=PLACE),
    click.option("--within", multiple=True, metavar="COLUMN", help=_WITHIN),
    POOL,
    ONLY,
    INCLUDE_STATUS,
    MARGIN_OPTION,
    LEVEL_OPTION,
    AS_JSON,
)


class Chosen(TypedDict):
    """Selection of the runs to be compared, and the strictness: arguments of `compare_runs`, `gate` and `scale_runs`.

    `within` are the columns that identify configurations, `pool` the columns that are omitted from them, `only` the
    values that rows must have, `include_status` the statuses beside ok.
    """

    within: tuple[str, ...] | None
    pool: tuple[str, ...]
    only: dict[str, object]
    include_status: tuple[str, ...]
    margin: float
    level: float


def add_configuration_options(command: Callable[..., _Result]) -> Callable[..., _Result]:
    """Decorator that adds the argument and the options of a command that compares configurations of a dataset.

    The command gets `folder`, `as_json` and, from the other options, `chosen`.
    """

    @wraps(command)
    def collect(*, within: Sequence[str], pool: Sequence[str], only: Sequence[str], **others: object) -> _Result:
        columns = {
            "within": parse_column_names(within) or None,
            "pool": parse_column_names(pool),
            "only": parse_column_values(only),
        }
        strictness = {name: others.pop(name) for name in ("include_status", "margin", "level")}
        return command(chosen=columns | strictness, **others)

    for option in reversed(_OPTIONS):
        collect = option(collect)
    return collect


def parse_column_names(options: Sequence[str]) -> tuple[str, ...]:
    """Names of columns in options, each of which has one name or several, separated by commas.

    Example:
        >>> parse_column_names(["records,operations", "phase"])
        ('records', 'operations', 'phase')
    """
    return tuple(name.strip() for option in options for name in option.split(",") if name.strip())


def parse_column_values(pairs: Sequence[str]) -> dict[str, object]:
    """`COLUMN=VALUE` options as a mapping.

    Raises:
        UsageError: an option without `=`.

    Example:
        >>> parse_column_values(["phase=load", "threads=16"])
        {'phase': 'load', 'threads': '16'}
    """
    for pair in pairs:
        if "=" not in pair:
            raise UsageError(f"--only {pair} contains no value", hint="write --only COLUMN=VALUE")
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


# Sources that a person may type besides paths: a pattern that the shell did not expand, `-`, a pipe.

_SAVE_FIRST = "save it to a file first: rows of a dataset point back into their files"


def expand_sources(sources: Sequence[Path | str]) -> list[Path | str]:
    """The paths and URLs of the sources; a quoted pattern is expanded as the shell would expand it.

    Raises:
        InputError: a pattern that no file matches, standard input, a pipe or a device.

    Example:
        >>> expand_sources([Path("*.no-such-suffix")])
        Traceback (most recent call last):
        citus_analysis.errors.InputError: *.no-such-suffix: no file matches the pattern (check the folder it is \
relative to)
    """
    return [
        path for source in sources for path in (_expand_source(source) if isinstance(source, Path) else iter([source]))
    ]


def _expand_source(source: Path) -> Iterator[Path]:
    try:
        kind = source.stat().st_mode
    except OSError:
        if str(source) == "-":
            raise InputError("standard input cannot be a source", path="-", hint=_SAVE_FIRST) from None
        if not has_magic(str(source)):
            # The file is missing or not accessible; the reader that opens it reports the reason.
            yield source
            return
        matches = sorted(glob(str(source), recursive=True))  # noqa: PTH207 - `**` and absolute patterns alike
        if not matches:
            hint = "check the folder it is relative to"
            raise InputError("no file matches the pattern", path=source, hint=hint) from None
        yield from map(Path, matches)
        return
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        raise InputError("is neither a file nor a folder", path=source, hint=_SAVE_FIRST)
    yield source

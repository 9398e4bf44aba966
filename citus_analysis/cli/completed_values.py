"""Values that a shell completes after a command: paths, names of reports and of their parameters, experiments."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click
from click.shell_completion import CompletionItem

from citus_analysis.texts.urls import place_of


class _Place(click.ParamType[Path | str]):
    """A path or a URL; a shell completes paths only."""

    name = "place"

    def __init__(self, kind: str) -> None:
        self._kind = kind

    # The other arguments are part of click's interface.
    def convert(self, value: object, *_: object) -> Path | str:
        return value if isinstance(value, Path) else place_of(str(value))

    def shell_complete(self, *asked: object) -> list[CompletionItem]:
        return [CompletionItem(asked[-1], type=self._kind)]


#: A dataset: a folder, or a URL.
PLACE: Final = _Place("dir")
#: A source of an ingest: a folder, a file, or a URL.
SOURCE: Final = _Place("file")


def reports(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of reports that begin with the typed text; files if there is none."""
    from citus_analysis.report.engine.notebooks import NEEDS, report_names

    return _begun(("all", *report_names(NEEDS.values())), incomplete)


def report_parameters(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Parameters of the report named earlier on the line, with their meaning."""
    from citus_analysis.report.engine.notebooks import NEEDS, report_names, report_parameters

    # An option without its value prevents click from assigning the arguments to parameters.
    name = str(ctx.params.get("name") or next(iter(ctx.args), ""))
    if name not in report_names(NEEDS.values()):
        return []
    return [
        CompletionItem(f"{one.name}=", help=one.meaning)
        for one in report_parameters(name)
        if one.name.startswith(incomplete)
    ]


def experiments(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Shipped experiments whose names begin with the typed text; files if there is none."""
    from citus_analysis.core.shipped_files import shipped

    return _begun(sorted(path.stem for path in shipped("experiments").glob("*.yml")), incomplete)


def _begun(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    found = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="file")]

"""Command: citus-analysis gate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from citus_analysis.cli.options import METRICS_OPTION, PLACE, Chosen, add_configuration_options
from citus_analysis.cli.output import print_json
from citus_analysis.cli.reading import open_or_ingest_dataset
from citus_analysis.errors import InputError, InsufficientDataError, UsageError
from citus_analysis.texts.names import resolve_place

if TYPE_CHECKING:
    from citus_analysis.stats.gates import Gate


@click.command("gate")
@add_configuration_options
@click.option("--baseline", required=True, type=PLACE, metavar="DIR", help="Dataset to be judged by.")
@METRICS_OPTION
@click.option(
    "--format",
    "form",
    default="text",
    show_default=True,
    type=click.Choice(["text", "json", "markdown", "junit"]),
    help="markdown: a comment for a pull request; junit: for CI servers.",
)
def command(
    folder: Path | str,
    baseline: Path | str,
    metrics: tuple[str, ...],
    chosen: Chosen,
    as_json: bool,
    form: str,
) -> int:
    """Judge the runs in DIR by those of a baseline: exit code 0 equivalent or better, 1 worse, 4 undecided.

    Each configuration that both datasets contain is a check. For undecided checks, the number of runs that would be
    enough is printed, and the commands that make them. Exit code 3: nothing can be compared.
    """
    from citus_analysis.dataset import open_dataset
    from citus_analysis.stats import gate

    if resolve_place(folder) == resolve_place(baseline):
        raise UsageError("a dataset cannot be judged by itself", path=folder, hint="name another --baseline")
    try:
        found = gate(
            open_dataset(open_or_ingest_dataset(folder)),
            open_dataset(open_or_ingest_dataset(baseline)),
            metrics,
            **chosen,
        )
    except InsufficientDataError as error:
        # The exit code 1 is reserved for a candidate that is worse.
        raise InputError(error.problem, path=folder, hint=error.hint) from error
    _print(found, "json" if as_json else form)
    return found.exit_code


def _print(found: Gate, form: str) -> None:
    from citus_analysis.stats.exchange import render_gate
    from citus_analysis.stats.gates import format_gate

    if form == "json":
        print_json(found.to_dict())
    else:
        click.echo(format_gate(found) if form == "text" else render_gate(found, form))

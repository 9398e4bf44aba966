"""Command: citus-analysis why."""

from __future__ import annotations

from pathlib import Path

import click

from citus_analysis.cli.completed_values import PLACE
from citus_analysis.cli.output import print_result
from citus_analysis.cli.reading import dataset_of
from citus_analysis.cli.run_options import ALLOW, AS_JSON, ONLY, SHARE, column_values
from citus_analysis.defaults import LEVEL, MARGIN

_SIDE = "resource (or pattern), set-up, variant, system or run; COLUMN=VALUE; or FROM..UNTIL in UTC"


@click.command("why")
@click.argument("folder", metavar="DIR", type=PLACE)
@click.argument("second", metavar="[DIR2]", type=PLACE, required=False)
@click.option("--base", default="", help=f"Side to compare with: {_SIDE}.")
@click.option("--other", default="", help="The other side, of DIR2 if that is given. Without a side: all runs of it.")
@ONLY
@ALLOW
@click.option("--margin", default=MARGIN, show_default=True, type=SHARE, help="Relative difference that is ignored.")
@click.option("--level", default=LEVEL, show_default=True, type=SHARE, help="Confidence level.")
@AS_JSON
def command(
    folder: Path | str,
    second: Path | str | None,
    base: str,
    other: str,
    only: tuple[str, ...],
    allow: tuple[str, ...],
    margin: float,
    level: float,
    as_json: bool,
) -> None:
    """Explain a difference of response times: which statements, segments and nodes it comes from.

    The parts add up to the difference. They come from traced statements of both sides; with server logs alone, give two
    windows of time or two datasets. Measures of the nodes that differ as well are named beside, as associations.
    """
    from citus_analysis.accounts import why
    from citus_analysis.accounts.explanation_text import format_explanation
    from citus_analysis.dataset import open_dataset

    found = why(
        open_dataset(dataset_of(folder)),
        base,
        other,
        other_source=open_dataset(dataset_of(second)) if second is not None else None,
        only=column_values(only),
        level=level,
        margin=margin,
        allow=allow,
    )
    print_result(found.to_dict() if as_json else format_explanation(found))

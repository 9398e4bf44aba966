"""Command: citus-analysis compare."""

from __future__ import annotations

from pathlib import Path

import click

from citus_analysis.cli.output import print_json
from citus_analysis.cli.selection import SHARE

__all__ = ["command"]


@click.command("compare")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--metric", default="throughput_ops_s", show_default=True, help="Column of runs or operation_latencies.")
@click.option("--by", default="system", show_default=True, help="Column whose levels are compared.")
@click.option("--base", help="Level the others are compared with. Default: the first of each configuration.")
@click.option(
    "--within", multiple=True, metavar="COLUMN", help="Hold only these columns equal. Default: all there are."
)
@click.option("--only", multiple=True, metavar="COLUMN=VALUE", help="Only runs with this value; repeatable.")
@click.option("--margin", default=0.05, show_default=True, type=SHARE, help="Relative difference that counts as none.")
@click.option("--level", default=0.95, show_default=True, type=SHARE, help="Confidence level.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    folder: Path,
    metric: str,
    by: str,
    base: str | None,
    within: tuple[str, ...],
    only: tuple[str, ...],
    margin: float,
    level: float,
    as_json: bool,
) -> None:
    """Compare runs, like with like: faster, slower, equivalent or inconclusive.

    `~` stands where no difference was detected. Only runs whose status is ok enter.
    """
    from citus_analysis.cli.selection import column_values
    from citus_analysis.dataset import open_dataset
    from citus_analysis.stats import compare_runs, format_comparison

    found = compare_runs(
        open_dataset(folder),
        metric,
        by,
        base,
        within=within or None,
        only=column_values(only),
        margin=margin,
        level=level,
    )
    if as_json:
        print_json(found.to_dict())
    else:
        click.echo(format_comparison(found))

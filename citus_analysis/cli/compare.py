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
@click.option(
    "--by",
    default="system",
    show_default=True,
    help="Column whose levels are compared; also family, settings, variant.",
)
@click.option("--base", help="Level the others are compared with. Default: the first of each configuration.")
@click.option("--within", multiple=True, metavar="COLUMN", help="Hold only these columns equal. Default: the set-up.")
@click.option("--pool", multiple=True, metavar="COLUMNS", help="Columns that need not be equal, split by commas.")
@click.option("--only", multiple=True, metavar="COLUMN=VALUE", help="Only what has this value; repeatable.")
@click.option("--margin", default=0.05, show_default=True, type=SHARE, help="Relative difference that counts as none.")
@click.option("--level", default=0.95, show_default=True, type=SHARE, help="Confidence level.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    folder: Path,
    metric: str,
    by: str,
    base: str | None,
    within: tuple[str, ...],
    pool: tuple[str, ...],
    only: tuple[str, ...],
    margin: float,
    level: float,
    as_json: bool,
) -> None:
    """Compare runs, like with like: faster, slower, equivalent or inconclusive.

    Runs are compared where the rest of their set-up agrees: system, settings and all that the clients do. `~` stands
    where no difference was detected. All comparisons of one operation are adjusted together (Holm), whichever of them
    --only shows. Only runs whose status is ok enter.
    """
    from citus_analysis.cli.selection import column_names, column_values
    from citus_analysis.dataset import open_dataset
    from citus_analysis.stats import compare_runs, format_comparison

    found = compare_runs(
        open_dataset(folder),
        metric,
        by,
        base,
        within=column_names(within) or None,
        pool=column_names(pool),
        only=column_values(only),
        margin=margin,
        level=level,
    )
    if as_json:
        print_json(found.to_dict())
    else:
        click.echo(format_comparison(found))

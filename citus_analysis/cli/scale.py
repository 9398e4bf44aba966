"""Command: citus-analysis scale."""

from __future__ import annotations

from pathlib import Path

import click

from citus_analysis.cli.output import print_json
from citus_analysis.cli.selection import SHARE

__all__ = ["command"]


@click.command("scale")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--x", default="workers", show_default=True, help="Size: workers, threads, or another numeric column.")
@click.option("--metric", default="throughput_ops_s", show_default=True, help="A rate; more is better.")
@click.option("--base", type=float, help="Size that speedup refers to. Default: the smallest of each configuration.")
@click.option("--within", multiple=True, metavar="COLUMN", help="Hold only these columns equal. Default: the set-up.")
@click.option("--pool", multiple=True, metavar="COLUMNS", help="Columns that need not be equal, split by commas.")
@click.option("--only", multiple=True, metavar="COLUMN=VALUE", help="Only what has this value; repeatable.")
@click.option("--level", default=0.95, show_default=True, type=SHARE, help="Confidence level.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    folder: Path,
    x: str,
    metric: str,
    base: float | None,
    within: tuple[str, ...],
    pool: tuple[str, ...],
    only: tuple[str, ...],
    level: float,
    as_json: bool,
) -> None:
    """Speedup, efficiency, psi and scalability models per configuration.

    Runs form a curve where the rest of their set-up agrees, as in `compare`, whose numbers and verdicts these are.
    Only runs whose status is ok enter.
    """
    from citus_analysis.cli.selection import column_names, column_values
    from citus_analysis.dataset import open_dataset
    from citus_analysis.scaling import format_scaling, scale_runs

    study = scale_runs(
        open_dataset(folder),
        x,
        metric,
        base,
        within=column_names(within) or None,
        pool=column_names(pool),
        only=column_values(only),
        level=level,
    )
    if as_json:
        print_json(study.to_dict())
    else:
        click.echo(format_scaling(study))

"""Command: citus-analysis sql."""

from __future__ import annotations

from pathlib import Path

import click

from citus_analysis.cli.options import PLACE
from citus_analysis.cli.output import FORMATS, print_frame
from citus_analysis.cli.reading import open_or_ingest_dataset


@click.command("sql")
@click.argument("folder", metavar="DIR", type=PLACE)
@click.argument("query", metavar="SELECT")
@click.option(
    "--format",
    "how",
    type=click.Choice(FORMATS),
    default="table",
    help="Default: table. In csv, texts that begin like a formula are preceded by a '.",
)
def command(folder: Path | str, query: str, how: str) -> None:
    """Print the rows of a SELECT over a dataset's tables.

    The query is written in DuckDB's SQL and can read only the dataset's tables. `SHOW TABLES` lists them.
    """
    from citus_analysis.dataset import open_dataset

    print_frame(open_dataset(open_or_ingest_dataset(folder)).sql(query), how)
